use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, check_error, check_fields, shared_lines};

#[track_caller]
fn check(record: &str, expect: &[&str]) {
    check_fields(record, parse, expect);
}

/// Checks the fields of a request and of what follows it.
#[track_caller]
fn check_rest(rest: &str, expect: &[&str]) {
    let record = format!("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] {rest}");
    let before = [
        "client=10.0.0.1",
        "ident=null",
        "user=null",
        "timestamp=10/Oct/2000:13:55:36 -0700",
    ];
    check_fields(&record, parse, &[&before[..], expect].concat());
}

#[track_caller]
fn refuse(record: &str, expect: &str) {
    check_error(record, parse, &format!("cannot parse access_log: expected {expect}"));
}

#[test]
fn common_has_nine_fields() {
    check(
        "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a.gif HTTP/1.0\" 200 2326\n",
        &[
            "client=127.0.0.1",
            "ident=null",
            "user=frank",
            "timestamp=10/Oct/2000:13:55:36 -0700",
            "method=GET",
            "url=/a.gif",
            "http_version=1.0",
            "status=#200",
            "bytes=#2326",
        ],
    );
}

#[test]
fn combined_has_referrer_and_agent() {
    let rest = "\"POST /x?a=[1] HTTP/2.0\" 304 - \"https://example.com/\" \"Mozilla/5.0 (X11) Firefox/1.0\"";
    check_rest(
        rest,
        &[
            "method=POST",
            "url=/x?a=[1]",
            "http_version=2.0",
            "status=#304",
            "bytes=null",
            "referrer=https://example.com/",
            "user_agent=Mozilla/5.0 (X11) Firefox/1.0",
        ],
    );
    check_rest(
        "\"GET / HTTP/1.1\" 200 0 \"-\" \"-\" \"10.1.2.3\" rt=0.1",
        &[
            "method=GET",
            "url=/",
            "http_version=1.1",
            "status=#200",
            "bytes=#0",
            "referrer=null",
            "user_agent=null",
            "extra=\"10.1.2.3\" rt=0.1",
        ],
    );
    check_rest(
        "\"GET / HTTP/1.1\" 200 1 \"\" \"\"",
        &[
            "method=GET",
            "url=/",
            "http_version=1.1",
            "status=#200",
            "bytes=#1",
            "referrer=",
            "user_agent=",
        ],
    );
}

#[test]
fn what_stands_before_the_time_varies() {
    let rest = "[10/Oct/2000:13:55:36 -0700] \"-\" 408 -";
    let after = [
        "timestamp=10/Oct/2000:13:55:36 -0700",
        "request=null",
        "status=#408",
        "bytes=null",
    ];
    for (before, expect) in [
        ("::1 - -", &["client=::1", "ident=null", "user=null"][..]),
        (
            "host.example.com id a@b",
            &["client=host.example.com", "ident=id", "user=a@b"],
        ),
        (
            "www.example.com:443 10.0.0.1 - bob",
            &["vhost=www.example.com:443", "client=10.0.0.1", "ident=null", "user=bob"],
        ),
        (
            "www.example.com 10.0.0.1 - -",
            &["vhost=www.example.com", "client=10.0.0.1", "ident=null", "user=null"],
        ),
        (
            "[::1]:80 10.0.0.1 - -",
            &["vhost=[::1]:80", "client=10.0.0.1", "ident=null", "user=null"],
        ),
        (
            "10.0.0.1 - John Smith",
            &["client=10.0.0.1", "ident=null", "user=John Smith"],
        ),
        (
            "10.0.0.1 - EXAMPLE\\bob",
            &["client=10.0.0.1", "ident=null", "user=EXAMPLE\\bob"],
        ),
    ] {
        check(&format!("{before} {rest}"), &[expect, &after[..]].concat());
    }
}

#[test]
fn requests_vary() {
    for (request, expect) in [
        (
            "GET /a b c HTTP/1.1",
            &["method=GET", "url=/a b c", "http_version=1.1"][..],
        ),
        ("GET /", &["method=GET", "url=/"]),
        ("GET", &["request=GET"]),
        ("GET ", &["request=GET "]),
        ("", &["request="]),
        ("-", &["request=null"]),
        (r"\x16\x03\x01", &["request=\u{16}\u{3}\u{1}"]),
        (r"\x16\xff x", &["request=\u{16}\\xff x"]),
        (
            "CONNECT a:443 HTTP/1.1",
            &["method=CONNECT", "url=a:443", "http_version=1.1"],
        ),
        (
            r#"GET /\"a\\b HTTP/1.1"#,
            &["method=GET", "url=/\"a\\b", "http_version=1.1"],
        ),
        (
            r"M-SEARCH * HTTP/1.1",
            &["method=M-SEARCH", "url=*", "http_version=1.1"],
        ),
    ] {
        check_rest(
            &format!("\"{request}\" 200 1"),
            &[expect, &["status=#200", "bytes=#1"]].concat(),
        );
    }
}

#[test]
fn truncated_lines_end_where_they_end() {
    check_rest("\"GET /\" 200", &["method=GET", "url=/", "status=#200"]);
    check_rest("\"GET /\" -", &["method=GET", "url=/", "status=null"]);
    check_rest(
        "\"GET /\" 200 1 \"http://exa",
        &["method=GET", "url=/", "status=#200", "bytes=#1", "extra=\"http://exa"],
    );
    check_rest("\"GET /\" 200 x", &["method=GET", "url=/", "status=#200", "extra=x"]);
}

#[test]
fn malformed_lines_are_refused() {
    refuse("", "a client, then a time in brackets at byte 0");
    refuse("a b c", "a client, then a time in brackets at byte 0");
    refuse("a b c [10/Oct", "a client, then a time in brackets at byte 0");
    refuse("a b [1]", "client, identity and user before the time at byte 0");
    refuse(" a b [1]", "client, identity and user before the time at byte 0");
    refuse("a b c [1]", "a request in quotes at byte 9");
    refuse("a b c [1] \"GET /", "a request in quotes at byte 9");
    refuse("a b c [1] \"GET / \\", "a request in quotes at byte 9");
    refuse("a b c [1] \"GET /\"", "a status at byte 17");
    refuse("a b c [1] \"GET /\" abc", "a status at byte 17");
    refuse("a b c [1] \"GET /\" 0200", "a status at byte 17");
}

#[test]
fn real_lines_are_read_wholly() {
    let Some(text) = shared_lines("apache-access.log.gz", 10_000) else {
        return;
    };
    let mut extra = 0;
    for line in text.lines() {
        let mut fields = Fields::new();
        parse(line, &mut fields).unwrap();
        assert!(fields.len() >= 10, "{line}");
        extra += usize::from(fields.iter().any(|(name, _)| name == "extra"));
        assert!(
            line.contains('\\') || fields.iter().all(|(_, value)| borrows(value)),
            "{line}"
        );
    }
    assert_eq!(extra, 1, "one line of the file ends inside its agent");
}

#[test]
fn time_grows_with_the_length_only() {
    for head in ["a - - [1] \"", "a - - [1] \"GET /\" 200 1 ", ""] {
        for part in ["[1", " [", "a ", "\"", "\\", " \"-\""] {
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
    fn lines_are_parsed_back(
        user in "[a-z]{1,6}", url in "/[a-z\"\\\\ ]{0,10}", status in 100_u16..600, bytes in any::<u32>(), agent in "[a-z\"\\\\ \\n]{0,10}",
    ) {
        let escape = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let record = format!("h - {user} [1/Jan/2026] \"GET {} HTTP/1.1\" {status} {bytes} \"-\" \"{}\"", escape(&url), escape(&agent));
        check(&record, &[
            "client=h", "ident=null", &format!("user={user}"), "timestamp=1/Jan/2026", "method=GET", &format!("url={url}"),
            "http_version=1.1", &format!("status=#{status}"), &format!("bytes=#{bytes}"), "referrer=null", &format!("user_agent={agent}"),
        ]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[a\\[\\]1\"\\\\x ä-]{0,40}") {
        let _ = parse(&String::from_utf8_lossy(&bytes), &mut Fields::new());
        let _ = parse(&text, &mut Fields::new());
        let _ = parse(&format!("a - - [1] \"{text}"), &mut Fields::new());
    }
}
