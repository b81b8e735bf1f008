use crate::parsers::access_log;
use crate::parsers::grok::tests::{check, grok, no_match};
use crate::parsers::testing::{Fields, shared_lines};

/// Checks that a pattern of the bank matches each of `whole` wholly, and none of `others`.
#[track_caller]
fn check_whole(name: &str, whole: &[&str], others: &[&str]) {
    let pattern = format!(r"\A%{{{name}:x}}\z");
    for text in whole {
        let grok = grok(&[&pattern]);
        let text = (*text).to_owned();
        assert!(grok.parse(&text, &mut Fields::new()).is_ok(), "{name} matches {text:?}");
    }
    for text in others {
        no_match(&pattern, text);
    }
}

#[test]
fn the_bank_compiles() {
    assert!(super::names().len() > 100);
    for name in super::names() {
        grok(&[&format!("%{{{name}:x}}")]);
    }
}

#[test]
fn basics_match() {
    check_whole("INT", &["1", "+12", "-0"], &["", "1.5", "a"]);
    check_whole("NUMBER", &["1", "-1.5", ".5", "+7"], &["1.", "a", "--1"]);
    check_whole("BASE16NUM", &["0xAf", "12", "-ff"], &["0x", "g"]);
    check_whole("POSINT", &["1", "10"], &["0", "01", "-1"]);
    check_whole("NONNEGINT", &["0", "01"], &["-1"]);
    check_whole("WORD", &["a_1"], &["a b", "a-b"]);
    check_whole("QUOTEDSTRING", &["\"a\\\"b\"", "'a'", "`a`", "\"\""], &["\"a", "a"]);
    check_whole("UUID", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567"]);
    check_whole("EMAILADDRESS", &["a.b+c@example.com"], &["a", "@b"]);
    check_whole("UNIXPATH", &["/", "/var/log/a-b.log", "/a//b"], &["a/b"]);
    check_whole("WINPATH", &["C:\\Windows\\a b.exe", "\\\\host\\share"], &["/a"]);
    check_whole("TTY", &["/dev/pts/1", "/dev/tty1"], &["/dev/null"]);
    for level in [
        "INFO",
        "Warning",
        "err",
        "CRITICAL",
        "emerg",
        "trace",
        "warn",
        "ERROR",
        "information",
    ] {
        check_whole("LOGLEVEL", &[level], &["none"]);
    }
}

#[test]
fn dates_match() {
    check_whole("MONTH", &["Jan", "january", "Mär", "Dec", "Sep", "Oktober"], &["Foo"]);
    check_whole("MONTHDAY", &["1", "01", "31"], &["32", "0"]);
    check_whole("YEAR", &["26", "2026"], &["1", "202"]);
    check_whole(
        "TIME",
        &["00:00:00", "23:59:60", "1:02:03.456", "12:34:56,789"],
        &["24:00:00", "12:60:00", "12:34"],
    );
    check_whole(
        "TIMESTAMP_ISO8601",
        &[
            "2026-01-02T03:04:05Z",
            "2026-01-02 03:04:05.123+02:00",
            "2026-1-2T3:04",
            "2026-01-02T0304",
        ],
        &["2026-13-01T00:00", "2026-01-02"],
    );
    check_whole("DATE", &["12/31/2026", "31.12.2026", "31-12-26"], &["2026/12/31"]);
    check_whole("DATESTAMP_RFC2822", &["Mon, 2 Jan 2026 03:04:05 +0200"], &[]);
    check_whole("DATESTAMP_RFC822", &["Mon Jan 02 2026 03:04:05 UTC"], &[]);
    check_whole("DATESTAMP_OTHER", &["Mon Jan 2 03:04:05 UTC 2026"], &[]);
    check_whole("DATESTAMP_EVENTLOG", &["20260102030405"], &[]);
    check_whole("SYSLOGTIMESTAMP", &["Jan  2 03:04:05", "Jan 22 03:04:05"], &["Jan 2"]);
    check_whole(
        "HTTPDATE",
        &["10/Oct/2000:13:55:36 -0700"],
        &["10/10/2000:13:55:36 -0700"],
    );
}

#[test]
fn network_matches() {
    check_whole(
        "IPV4",
        &["1.2.3.4", "255.255.255.255", "010.1.1.1"],
        &["256.1.1.1", "1.2.3", "1.2.3.4.5"],
    );
    no_match("%{IPV4}", "1.2.3.4567");
    check_whole(
        "IPV6",
        &[
            "::",
            "::1",
            "1::",
            "fe80::1%eth0",
            "2001:db8::ff00:42:8329",
            "1:2:3:4:5:6:7:8",
            "::ffff:10.0.0.1",
            "64:ff9b::192.0.2.33",
            "1:2:3:4:5:6:7::",
            "1:2:3:4:5:6:10.0.0.1",
            "1::3:4:5:6:7:8",
        ],
        &[
            "1:2:3",
            ":::",
            "12345::",
            "1:2:3:4:5:6:7:8:9",
            "1::2::3",
            "1:2:3:4:5:6:7::8",
        ],
    );
    check_whole("IPORHOST", &["example.com", "10.0.0.1", "::1", "a"], &["", "-"]);
    check_whole("HOSTPORT", &["example.com:80", "10.0.0.1:8080"], &["example.com"]);
    check_whole(
        "MAC",
        &["00:1B:44:11:3A:B7", "00-1b-44-11-3a-b7", "001b.4411.3ab7"],
        &["00:1B:44:11:3A"],
    );
    check_whole(
        "URI",
        &[
            "http://example.com",
            "https://u:p@example.com:8080/a/b?c=d&e=[f]",
            "file:///etc/passwd",
            "a+b://h/",
        ],
        &["example.com", "http:/x"],
    );
    check_whole("URIPATHPARAM", &["/a?b=c", "/a"], &["a"]);
}

#[test]
fn syslog_lines_match() {
    check(
        "%{SYSLOGLINE}",
        "Mar 27 13:06:56 host sshd[1291]: text here",
        &[
            "timestamp=Mar 27 13:06:56",
            "host.hostname=host",
            "process.name=sshd",
            "process.pid=#1291",
            "message=text here",
        ],
    );
    check(
        "%{SYSLOG5424LINE}",
        "<34>1 2003-10-11T22:14:15.003Z host su 12 ID47 [a b=\"c\"] text",
        &[
            "log.syslog.priority=#34",
            "system.syslog.version=1",
            "timestamp=2003-10-11T22:14:15.003Z",
            "host.hostname=host",
            "process.name=su",
            "process.pid=#12",
            "event.code=ID47",
            "system.syslog.structured_data=[a b=\"c\"]",
            "message=text",
        ],
    );
    check(
        "%{CRONLOG}",
        "Mar 27 13:06:56 host CRON[1]: (root) CMD (run-parts)",
        &[
            "timestamp=Mar 27 13:06:56",
            "host.hostname=host",
            "process.name=CRON",
            "process.pid=#1",
            "user.name=root",
            "system.cron.action=CMD",
            "message=run-parts",
        ],
    );
    check(
        "%{SYSLOGPAMSESSION}",
        "Mar 27 13:06:56 host su: pam_unix(su:session): session opened for user root by (uid=0)",
        &[
            "timestamp=Mar 27 13:06:56",
            "host.hostname=host",
            "process.name=su",
            "message=pam_unix(su:session): session opened for user root by (uid=0)",
            "system.auth.pam.module=pam_unix",
            "system.auth.pam.origin=su:session",
            "system.auth.pam.session_state=opened",
            "user.name=root",
        ],
    );
    check(
        "%{SSHD_LOGIN}",
        "Failed password for invalid user admin from 10.0.0.1 port 4711 ssh2",
        &[
            "event.outcome=Failed",
            "system.auth.ssh.method=password",
            "user.name=admin",
            "source.address=10.0.0.1",
            "source.port=#4711",
        ],
    );
    check(
        "%{SUDO_COMMAND}",
        "  bob : TTY=pts/0 ; PWD=/srv/bob ; USER=root ; COMMAND=/bin/su -",
        &[
            "user.name=bob",
            "system.auth.sudo.tty=pts/0",
            "system.auth.sudo.pwd=/srv/bob",
            "system.auth.sudo.user=root",
            "system.auth.sudo.command=/bin/su -",
        ],
    );
}

#[test]
fn web_lines_match() {
    check(
        "%{COMBINEDAPACHELOG}",
        "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a.gif HTTP/1.0\" 200 2326 \"http://e.com/\" \"Mozilla/4.08\"",
        &[
            "source.address=127.0.0.1",
            "user.name=frank",
            "timestamp=10/Oct/2000:13:55:36 -0700",
            "http.request.method=GET",
            "url.original=/a.gif",
            "http.version=1.0",
            "http.response.status_code=#200",
            "http.response.body.bytes=#2326",
            "http.request.referrer=http://e.com/",
            "user_agent.original=Mozilla/4.08",
        ],
    );
    check(
        "%{HTTPD_ERRORLOG}",
        "[Mon Aug 31 09:30:48.958285 2026] [proxy_fcgi:error] [pid 28787:tid 139] [client 10.0.0.1:5]  AH01: x",
        &[
            "timestamp=Mon Aug 31 09:30:48.958285 2026",
            "apache.error.module=proxy_fcgi",
            "log.level=error",
            "process.pid=#28787",
            "process.thread.id=#139",
            "source.address=10.0.0.1",
            "source.port=#5",
            "error.code= AH01",
            "message=x",
        ],
    );
    check(
        "%{SQUID3}",
        "1525344856.899  16867 10.170.72.111 TCP_TUNNEL/200 6256 CONNECT logs.x.com:443 - HIER_DIRECT/10.0.0.2 -",
        &[
            "timestamp=1525344856.899",
            "squid.request.duration=#16867",
            "source.ip=10.170.72.111",
            "event.action=TCP_TUNNEL",
            "http.response.status_code=#200",
            "http.response.bytes=#6256",
            "http.request.method=CONNECT",
            "url.original=logs.x.com:443",
            "squid.hierarchy_code=HIER_DIRECT",
            "destination.address=10.0.0.2",
        ],
    );
    check(
        "%{JAVASTACKTRACEPART}",
        "  at a.b.C.<init>(C.java:12)",
        &[
            "java.log.origin.class.name=a.b.C",
            "log.origin.function=<init>",
            "log.origin.file.name=C.java",
            "log.origin.file.line=#12",
        ],
    );
}

#[test]
fn real_access_lines_match_as_they_are_split() {
    let Some(text) = shared_lines("apache-access.log.gz", 10_000) else {
        return;
    };
    let grok = grok(&["%{COMBINEDAPACHELOG}"]);
    let mut misses = 0;
    for line in text.lines() {
        let (mut ours, mut split) = (Fields::new(), Fields::new());
        if grok.parse(line, &mut ours).is_err() {
            misses += 1;
            continue;
        }
        access_log::parse(line, &mut split).unwrap();
        for (grok_name, split_name) in [
            ("source.address", "client"),
            ("timestamp", "timestamp"),
            ("http.request.method", "method"),
        ] {
            let value = |fields: &Fields<'_>, name: &str| {
                fields
                    .iter()
                    .find(|(field, _)| field == name)
                    .map(|(_, value)| format!("{value:?}"))
            };
            assert_eq!(value(&ours, grok_name), value(&split, split_name), "{line}");
        }
    }
    assert_eq!(misses, 1, "one line of the file ends inside its agent");
}
