use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, check_error, check_fields, lines, shared_lines};

#[track_caller]
fn check(record: &str, expect: &[&str]) {
    check_fields(record, parse, expect);
}

/// Checks the fields after the five of the priority `<34>`.
#[track_caller]
fn check_after_priority(text: &str, expect: &[&str]) {
    let record = format!("<34>{text}");
    let mut fields = Fields::new();
    parse(&record, &mut fields).unwrap();
    assert_eq!(lines(&fields)[5..], *expect, "{record:?}");
}

#[test]
fn priorities_are_split() {
    check(
        "<34>x",
        &[
            "priority=#34",
            "facility=#4",
            "facility_name=auth",
            "severity=#2",
            "severity_name=crit",
            "message=x",
        ],
    );
    check(
        "<0>x",
        &[
            "priority=#0",
            "facility=#0",
            "facility_name=kern",
            "severity=#0",
            "severity_name=emerg",
            "message=x",
        ],
    );
    check(
        "<191>x",
        &[
            "priority=#191",
            "facility=#23",
            "facility_name=local7",
            "severity=#7",
            "severity_name=debug",
            "message=x",
        ],
    );
}

#[test]
fn wrong_priorities_are_text() {
    for record in [
        "<192>x",
        "<999>x",
        "<>x",
        "<a>x",
        "<12",
        "<-1>x",
        "<1 >x",
        "12>x",
        "<300000000000>x",
    ] {
        check(record, &[&format!("message={record}")]);
    }
}

#[test]
fn empty_records_are_refused() {
    for record in ["", " ", "\n", "\0", "\r\n"] {
        check_error(record, parse, "cannot parse syslog: expected a message at byte 0");
    }
}

#[test]
fn rfc_5424_has_all_parts() {
    check_after_priority(
        "1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed",
        &[
            "version=#1",
            "timestamp=2003-10-11T22:14:15.003Z",
            "hostname=mymachine.example.com",
            "app_name=su",
            "msgid=ID47",
            "message='su root' failed",
        ],
    );
    check_after_priority(
        "1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time.\n",
        &[
            "version=#1",
            "timestamp=2003-08-24T05:14:15.000003-07:00",
            "hostname=192.0.2.1",
            "app_name=myproc",
            "procid=8710",
            "message=%% It's time.",
        ],
    );
    check_after_priority("1 - - - - - -", &["version=#1"]);
    check_after_priority("1 - - - - - - ", &["version=#1"]);
    check_after_priority("1 - - - - - -  two", &["version=#1", "message= two"]);
}

#[test]
fn structured_data_has_dotted_names() {
    check_after_priority(
        "1 - - evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\"][b@1 class=\"high\"] text",
        &[
            "version=#1",
            "app_name=evntslog",
            "msgid=ID47",
            "sd.exampleSDID@32473.iut=3",
            "sd.exampleSDID@32473.eventSource=Application",
            "sd.b@1.class=high",
            "message=text",
        ],
    );
    check_after_priority("1 - - - - - [a][b c=\"\"]", &["version=#1", "sd.b.c="]);
    check_after_priority(
        "1 - - - - - [a b=\"x\" ] text",
        &["version=#1", "sd.a.b=x", "message=text"],
    );
    check_after_priority(
        r#"1 - - - - - [a b="\"q\" \\ \] \n ] [" c="ä"] text"#,
        &["version=#1", r#"sd.a.b="q" \ ] \n ] ["#, "sd.a.c=ä", "message=text"],
    );
    check_after_priority(
        "1 - - - - - [a b=\"1\" b=\"2\"]",
        &["version=#1", "sd.a.b=1", "sd.a.b=2"],
    );
}

#[test]
fn malformed_structured_data_is_message() {
    for text in [
        "[a b=\"1\"",
        "[a b=1]",
        "[a b]",
        "[]",
        "[a b=\"1\"x=\"2\"]",
        "[a b=\"1\\",
        "[a]x",
        "plain text",
        "[",
        "-x",
    ] {
        check_after_priority(
            &format!("1 - - - - - {text}"),
            &["version=#1", &format!("message={text}")],
        );
    }
}

#[test]
fn truncated_rfc_5424_is_accepted() {
    check_after_priority("1 -", &["version=#1"]);
    check_after_priority(
        "1 2003-10-11T22:14:15Z",
        &["version=#1", "timestamp=2003-10-11T22:14:15Z"],
    );
    check_after_priority("1 - host app", &["version=#1", "hostname=host", "app_name=app"]);
}

#[test]
fn a_number_is_no_version_without_a_timestamp() {
    check_after_priority("1 message", &["message=1 message"]);
    check_after_priority("1234 - - -", &["message=1234 - - -"]);
    check_after_priority("0 - - -", &["message=0 - - -"]);
}

#[test]
fn rfc_3164_has_all_parts() {
    check_after_priority(
        "Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
        &[
            "timestamp=Oct 11 22:14:15",
            "hostname=mymachine",
            "app_name=su",
            "message='su root' failed for lonvick on /dev/pts/8",
        ],
    );
    check_after_priority(
        "Mar  7 13:06:56 ip-10-77 sshd[1291]: Server listening on :: port 22.",
        &[
            "timestamp=Mar  7 13:06:56",
            "hostname=ip-10-77",
            "app_name=sshd",
            "procid=1291",
            "message=Server listening on :: port 22.",
        ],
    );
    check(
        "Mar 27 13:06:56 host systemd-logind[1118]: New seat",
        &[
            "timestamp=Mar 27 13:06:56",
            "hostname=host",
            "app_name=systemd-logind",
            "procid=1118",
            "message=New seat",
        ],
    );
    check_after_priority(
        "Oct 11 22:14:15 fe80::1 a/b(c): x",
        &[
            "timestamp=Oct 11 22:14:15",
            "hostname=fe80::1",
            "app_name=a/b(c)",
            "message=x",
        ],
    );
    check_after_priority(
        "Oct 11 22:14:15 [10.0.0.1] a[b-1]:x",
        &[
            "timestamp=Oct 11 22:14:15",
            "hostname=[10.0.0.1]",
            "app_name=a",
            "procid=b-1",
            "message=x",
        ],
    );
}

#[test]
fn timestamps_deviate() {
    let rest = ["hostname=host", "app_name=su", "message=text"];
    for timestamp in [
        "Oct  1 22:14:15",
        "oct 1 2:14:15",
        "Oct 11 2026 22:14:15",
        "2026 Oct 11 22:14:15",
        "Oct 11 22:14:15.123",
        "Oct 11 22:14:15.123456+02:00",
        "2003-10-11T22:14:15.003Z",
        "2003-10-11T22:14:15+0200",
        "2003-10-11 22:14:15",
        "2003-10-11 22:14:15,123",
    ] {
        let pushed = format!("timestamp={timestamp}");
        let expect = [&[&*pushed], &rest[..]].concat();
        check_after_priority(&format!("{timestamp} host su: text"), &expect);
    }
    check_after_priority(
        "Sat Oct 11 22:14:15 host su: text",
        &["message=Sat Oct 11 22:14:15 host su: text"],
    );
    check_after_priority(
        "Oct 11 22:14:15 CEST 2026 host su: text",
        &[
            "timestamp=Oct 11 22:14:15 CEST 2026",
            "hostname=host",
            "app_name=su",
            "message=text",
        ],
    );
    check_after_priority(
        "Oct 11 22:14:15 HOST su: text",
        &[
            "timestamp=Oct 11 22:14:15",
            "hostname=HOST",
            "app_name=su",
            "message=text",
        ],
    );
}

#[test]
fn cisco_records_are_read() {
    check_after_priority(
        "Oct 11 2026 22:14:15 asa01 : %ASA-6-302013: Built outbound TCP",
        &[
            "timestamp=Oct 11 2026 22:14:15",
            "hostname=asa01",
            "app_name=%ASA-6-302013",
            "message=Built outbound TCP",
        ],
    );
    check_after_priority(
        "Oct 11 2026 22:14:15: %ASA-4-106023: Deny tcp src",
        &[
            "timestamp=Oct 11 2026 22:14:15",
            "app_name=%ASA-4-106023",
            "message=Deny tcp src",
        ],
    );
    check_after_priority(
        "45: *Mar  1 18:46:11.123 UTC: %SYS-5-CONFIG_I: Configured from console",
        &[
            "timestamp=Mar  1 18:46:11.123 UTC",
            "app_name=%SYS-5-CONFIG_I",
            "message=Configured from console",
        ],
    );
    check_after_priority(
        "000123: 000045: .Mar  1 18:46:11: %LINK-3-UPDOWN: up",
        &["timestamp=Mar  1 18:46:11", "app_name=%LINK-3-UPDOWN", "message=up"],
    );
    check_after_priority("45: no timestamp", &["app_name=45", "message=no timestamp"]);
    check_after_priority("%ASA-6-302013: Built", &["app_name=%ASA-6-302013", "message=Built"]);
}

#[test]
fn hostnames_and_tags_may_be_missing() {
    check_after_priority(
        "Oct 11 22:14:15 su[12]: text",
        &["timestamp=Oct 11 22:14:15", "app_name=su", "procid=12", "message=text"],
    );
    check_after_priority(
        "Oct 11 22:14:15 su: text",
        &["timestamp=Oct 11 22:14:15", "app_name=su", "message=text"],
    );
    check_after_priority(
        "Oct 11 22:14:15 host last message repeated 2 times",
        &[
            "timestamp=Oct 11 22:14:15",
            "hostname=host",
            "message=last message repeated 2 times",
        ],
    );
    check_after_priority(
        "Oct 11 22:14:15 single",
        &["timestamp=Oct 11 22:14:15", "message=single"],
    );
    check_after_priority("Oct 11 22:14:15", &["timestamp=Oct 11 22:14:15"]);
    check_after_priority("su[12] text", &["app_name=su", "procid=12", "message=text"]);
    check_after_priority("su:text", &["app_name=su", "message=text"]);
    check_after_priority("http://x: y", &["message=http://x: y"]);
    check_after_priority("10:20 is late", &["message=10:20 is late"]);
    check("Error: no priority, no time", &["message=Error: no priority, no time"]);
    check("line one\nline two\n", &["message=line one\nline two"]);
}

#[test]
fn other_formats_are_messages() {
    check_after_priority(
        "Oct 11 22:14:15 fw CEF:0|a|b|c|d|e|f|",
        &["timestamp=Oct 11 22:14:15", "hostname=fw", "message=CEF:0|a|b|c|d|e|f|"],
    );
    check_after_priority(
        "Oct 11 22:14:15 CEF:0|a b|b|c|d|e|f|",
        &["timestamp=Oct 11 22:14:15", "message=CEF:0|a b|b|c|d|e|f|"],
    );
    check_after_priority("LEEF:1.0|a|b|c|d|", &["message=LEEF:1.0|a|b|c|d|"]);
    check_after_priority("{\"a\": 1}", &["message={\"a\": 1}"]);
    check_after_priority(
        "Oct 11 22:14:15 date=2026-01-01 devname=\"x\"",
        &["timestamp=Oct 11 22:14:15", "message=date=2026-01-01 devname=\"x\""],
    );
}

#[test]
fn auth_logs_are_read_wholly() {
    let Some(text) = shared_lines("linux-auth.log.gz", 10_000) else {
        return;
    };
    assert!(text.lines().count() > 1000);
    for line in text.lines() {
        let mut fields = Fields::new();
        parse(line, &mut fields).unwrap();
        for name in ["timestamp", "hostname", "message"] {
            assert!(fields.iter().any(|(field, _)| field == name), "{name} in {line:?}");
        }
    }
}

#[test]
fn time_grows_with_the_length_only() {
    for head in ["<34>1 - - - - - ", "<34>", ""] {
        for part in [
            "[a b=\"",
            "<",
            "1 ",
            "Oct 11 22:14:15 ",
            "a[",
            "12: ",
            "a:",
            "[a ",
            "\\",
            "[a b=\"c\"]",
        ] {
            let record = format!("{head}{}", part.repeat((1 << 19) / part.len()));
            let start = std::time::Instant::now();
            let _ = parse(&record, &mut Fields::new());
            // Quadratic time would be minutes.
            assert!(start.elapsed().as_secs() < 5, "{head:?} {part:?}");
        }
    }
}

proptest! {
    #[test]
    fn rfc_5424_is_parsed_back(
        hostname in "[a-z0-9.-]{2,12}", app in "[!-~]{2,8}", name in "[a-zA-Z0-9]{1,6}", value in "[a-z\"\\\\\\] \\PC]{0,12}", message in "[a-z]\\PC{0,30}[a-z]",
    ) {
        let escaped = value.replace('\\', r"\\").replace('"', "\\\"").replace(']', r"\]");
        let record = format!("<165>1 2026-01-02T03:04:05Z {hostname} {app} - - [id@1 {name}=\"{escaped}\"] {message}");
        let mut fields = Fields::new();
        parse(&record, &mut fields).unwrap();
        let expect = [
            "version=#1".to_owned(), "timestamp=2026-01-02T03:04:05Z".to_owned(), format!("hostname={hostname}"),
            format!("app_name={app}"), format!("sd.id@1.{name}={value}"), format!("message={message}"),
        ];
        prop_assert_eq!(&lines(&fields)[5..], expect);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        text in "(1 )?(Oct 1[0-9]?|2026-01-0[0-9]|[0-9: *.]{0,8})?[ T]?[0-9]{0,2}:?[0-9]{0,2}:[0-9]{0,2}[.,:ä \\[\\]\"\\\\=a-zA-Z0-9-]{0,40}",
    ) {
        let _ = parse(&String::from_utf8_lossy(&bytes), &mut Fields::new());
        let _ = parse(&text, &mut Fields::new());
        let _ = parse(&format!("<1>{text}"), &mut Fields::new());
        let _ = parse(&format!("<1>1 - - - - - [{text}"), &mut Fields::new());
    }
}
