//! Months, days, times and timestamps.

pub(super) const PATTERNS: &[(&str, &str)] = &[
    (
        "MONTH",
        // German names too, as in the published bank.
        concat!(
            r"\b(?:[Jj](?:an(?:uary?)?|un[ei]?|ul[yi]?)|[Ff]eb(?:ruary?)?|[Mm](?:[aä]?r(?:ch|z)?|a[yi]?)",
            r"|[Aa](?:pr(?:il)?|ug(?:ust)?)|[Ss]ep(?:tember)?|[Oo][ck]?t(?:ober)?|[Nn]ov(?:ember)?|[Dd]e[cz](?:ember)?)\b",
        ),
    ),
    ("MONTHNUM", r"(?:0?[1-9]|1[0-2])"),
    ("MONTHNUM2", r"(?:0[1-9]|1[0-2])"),
    ("MONTHDAY", r"(?:0[1-9]|[12][0-9]|3[01]|[1-9])"),
    (
        "DAY",
        r"(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)",
    ),
    ("YEAR", r"(?>\d\d){1,2}"),
    ("HOUR", r"(?:2[0123]|[01]?[0-9])"),
    ("MINUTE", r"[0-5][0-9]"),
    // Second 60 is a leap second.
    ("SECOND", r"(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?"),
    ("TIME", r"%{HOUR}:%{MINUTE}(?::%{SECOND})(?![0-9])"),
    ("DATE_US", r"%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}"),
    ("DATE_EU", r"%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}"),
    ("ISO8601_TIMEZONE", r"(?:Z|[+-]%{HOUR}(?::?%{MINUTE}))"),
    ("ISO8601_SECOND", r"%{SECOND}"),
    ("ISO8601_HOUR", r"(?:2[0123]|[01][0-9])"),
    (
        "TIMESTAMP_ISO8601",
        r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?%{ISO8601_TIMEZONE}?",
    ),
    (
        "TIMESTAMP_CN",
        r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY} %{HOUR}:%{MINUTE}:%{SECOND}\.\d{3}",
    ),
    ("DATE", r"(?:%{DATE_US}|%{DATE_EU})"),
    ("DATESTAMP", r"%{DATE}[- ]%{TIME}"),
    ("TZ", r"(?:[APMCE][SD]T|UTC)"),
    ("DATESTAMP_RFC822", r"%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}"),
    (
        "DATESTAMP_RFC2822",
        r"%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}",
    ),
    ("DATESTAMP_OTHER", r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}"),
    (
        "DATESTAMP_EVENTLOG",
        r"%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}",
    ),
    ("SYSLOGTIMESTAMP", r"%{MONTH} +%{MONTHDAY} %{TIME}"),
    ("HTTPDATE", r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("HTTPDERROR_DATE", r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}"),
    ("CISCOTIMESTAMP", r"%{MONTH} +%{MONTHDAY}(?: %{YEAR})? %{TIME}"),
    ("REDISTIMESTAMP", r"%{MONTHDAY} %{MONTH} %{TIME}"),
    (
        "TOMCAT7_DATESTAMP",
        r"%{MONTHDAY}-%{MONTH}-%{YEAR} %{HOUR}:%{MINUTE}:%{SECOND} %{ISO8601_TIMEZONE}",
    ),
    (
        "CATALINA7_DATESTAMP",
        r"%{MONTH} %{MONTHDAY}, %{YEAR} %{HOUR}:%{MINUTE}:%{SECOND} (?:AM|PM)",
    ),
    (
        "CATALINA8_DATESTAMP",
        r"%{MONTHDAY}-%{MONTH}-%{YEAR} %{HOUR}:%{MINUTE}:%{SECOND}",
    ),
    (
        "CATALINA_DATESTAMP",
        r"(?:%{CATALINA8_DATESTAMP}|%{CATALINA7_DATESTAMP})",
    ),
];
