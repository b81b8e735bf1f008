//! Web servers and proxies.

pub(super) const PATTERNS: &[(&str, &str)] = &[
    ("HTTPDUSER", r"(?:%{EMAILADDRESS}|%{USER})"),
    (
        "HTTPD_COMMONLOG",
        concat!(
            r"%{IPORHOST:source.address} (?:-|%{HTTPDUSER:apache.access.user.identity})",
            r" (?:-|%{HTTPDUSER:user.name}) \[%{HTTPDATE:timestamp}\]",
            r#" "(?:%{WORD:http.request.method} %{NOTSPACE:url.original}(?: HTTP/%{NUMBER:http.version})?|%{DATA})""#,
            r" (?:-|%{INT:http.response.status_code:int}) (?:-|%{INT:http.response.body.bytes:int})",
        ),
    ),
    (
        "HTTPD_COMBINEDLOG",
        r#"%{HTTPD_COMMONLOG} "(?:-|%{DATA:http.request.referrer})" "(?:-|%{DATA:user_agent.original})""#,
    ),
    ("COMMONAPACHELOG", r"%{HTTPD_COMMONLOG}"),
    ("COMBINEDAPACHELOG", r"%{HTTPD_COMBINEDLOG}"),
    (
        "HTTPD20_ERRORLOG",
        concat!(
            r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:log.level}\]",
            r" (?:\[client %{IPORHOST:source.address}\] )?%{GREEDYDATA:message}",
        ),
    ),
    (
        "HTTPD24_ERRORLOG",
        concat!(
            r"\[%{HTTPDERROR_DATE:timestamp}\] \[(?:%{WORD:apache.error.module})?:%{LOGLEVEL:log.level}\]",
            r" \[pid %{POSINT:process.pid:int}(?::tid %{INT:process.thread.id:int})?\]",
            r"(?: \(%{POSINT:apache.error.proxy.error.code:int}\)%{DATA:apache.error.proxy.error.message}:)?",
            r"(?: \[client %{IPORHOST:source.address}(?::%{POSINT:source.port:int})?\])?",
            r"(?: %{DATA:error.code}:)? %{GREEDYDATA:message}",
        ),
    ),
    ("HTTPD_ERRORLOG", r"(?:%{HTTPD20_ERRORLOG}|%{HTTPD24_ERRORLOG})"),
    ("SQUID3_STATUS", r"(?:%{POSINT:http.response.status_code:int}|0|000)"),
    (
        "SQUID3",
        concat!(
            r"%{NUMBER:timestamp}\s+%{NUMBER:squid.request.duration:int}\s%{IP:source.ip}",
            r"\s%{WORD:event.action}/%{SQUID3_STATUS}\s%{INT:http.response.bytes:int}",
            r"\s%{WORD:http.request.method}\s%{NOTSPACE:url.original}\s(?:-|%{NOTSPACE:user.name})",
            r"\s%{WORD:squid.hierarchy_code}/(?:-|%{IPORHOST:destination.address})",
            r"\s(?:-|%{NOTSPACE:http.response.mime_type})",
        ),
    ),
    (
        "S3_REQUEST_LINE",
        r"(?:%{WORD:http.request.method} %{NOTSPACE:url.original}(?: HTTP/%{NUMBER:http.version})?)",
    ),
    ("HAPROXYTIME", r"%{TIME}"),
    ("HAPROXYDATE", r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{HAPROXYTIME}\.%{INT}"),
];
