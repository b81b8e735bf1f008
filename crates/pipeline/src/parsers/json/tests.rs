use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, check_fields, lines, shared_lines};

#[track_caller]
fn check(record: &str, expect: &[&str]) {
    check_fields(record, parse, expect);
}

#[track_caller]
fn refuse(record: &str, expect: &str) {
    let error = parse(record, &mut Fields::new()).expect_err(record);
    assert_eq!(
        error.to_string(),
        format!("cannot parse json: expected {expect}"),
        "{record:?}"
    );
    assert!(
        serde_json::from_str::<serde_json::Value>(record).is_err() || !record.starts_with('{'),
        "{record:?}"
    );
}

#[test]
fn values_stay_as_received() {
    check(
        r#"{"a":"text","b":1,"c":-1.50e+3,"d":true,"e":false,"f":null}"#,
        &["a=text", "b=#1", "c=#-1.50e+3", "d=#true", "e=#false", "f=null"],
    );
    check(" { \"a\" :\t\"ä\" ,\r\n \"b\" : 0 } \n", &["a=ä", "b=#0"]);
    check(r#"{"a":"x\\y\u00e4","b":""}"#, &[r"a=escaped:x\\y\u00e4", "b="]);
    check("{}", &[]);
    check(" { } ", &[]);
    check(r#"{"":1}"#, &["=#1"]);
}

#[test]
fn objects_are_flattened() {
    check(r#"{"a":{"b":{"c":1},"d":2},"e":3}"#, &["a.b.c=#1", "a.d=#2", "e=#3"]);
    check(r#"{"a.b":1,"a":{"c.d":2}}"#, &["a.b=#1", "a.c.d=#2"]);
    check(r#"{"a":{},"b":{"c":{ }}}"#, &["a=json:{}", "b.c=json:{ }"]);
    check(
        r#"{"a":1,"a":2,"b":{"c":1},"b":{"c":2}}"#,
        &["a=#1", "a=#2", "b.c=#1", "b.c=#2"],
    );
    check(r#"{"\u0061\n":1,"b":{"\"":2}}"#, &["a\n=#1", "b.\"=#2"]);
}

#[test]
fn arrays_stay_json() {
    check(
        r#"{"a":[1, "x\n", {"b":[]}, [ ], null],"c":[]}"#,
        &[r#"a=json:[1, "x\n", {"b":[]}, [ ], null]"#, "c=json:[]"],
    );
    check(
        r#"{"a":{"b":[{"c":{"d":[1,2]}, "e":{}}]}}"#,
        &[r#"a.b=json:[{"c":{"d":[1,2]}, "e":{}}]"#],
    );
}

#[test]
fn malformed_records_are_refused() {
    refuse("", "a JSON object at byte 0");
    refuse("[1]", "a JSON object at byte 0");
    refuse("text", "a JSON object at byte 0");
    refuse("{", "a name in quotes at byte 1");
    refuse("{a:1}", "a name in quotes at byte 1");
    refuse(r#"{"a"}"#, "`:` after a name at byte 4");
    refuse(r#"{"a":}"#, "a value at byte 5");
    refuse(r#"{"a":1"#, "`,` or `}` after a value at byte 6");
    refuse(r#"{"a":1,}"#, "a name in quotes at byte 7");
    refuse(r#"{"a":1}x"#, "nothing after the object at byte 7");
    refuse(r#"{"a":1}{"#, "nothing after the object at byte 7");
    refuse(r#"{"a":01}"#, "`,` or `}` after a value at byte 6");
    refuse(r#"{"a":-}"#, "a digit at byte 6");
    refuse(r#"{"a":1.}"#, "a digit at byte 7");
    refuse(r#"{"a":1e}"#, "a digit at byte 7");
    refuse(r#"{"a":.5}"#, "a value at byte 5");
    refuse(r#"{"a":tru}"#, "`true`, `false` or `null` at byte 5");
    refuse(r#"{"a":NaN}"#, "a value at byte 5");
    refuse(r#"{"a":"x}"#, "a closing quote at byte 8");
    refuse(r#"{"a":"x\"}"#, "a closing quote at byte 10");
    refuse(r#"{"a":"\x"}"#, "an escape of JSON at byte 6");
    refuse(r#"{"a":"\u12g4"}"#, "four hexadecimal digits after `\\u` at byte 6");
    refuse(r#"{"a":"\"#, "an escape of JSON at byte 6");
    refuse("{\"a\":\"x\ty\"}", "no control character in a string at byte 7");
    refuse(r#"{"a":[1,]}"#, "a value at byte 8");
    refuse(r#"{"a":[1}"#, "`,` or the end of an array or object at byte 7");
    refuse(r#"{"a":[{"b"}]}"#, "`:` after a name at byte 10");
    refuse(r#"{"a":[{"b":1,}]}"#, "a name in quotes at byte 13");
    refuse(r#"{"a":["#, "a value at byte 6");
    refuse(r#"{"a":[1 2]}"#, "`,` or the end of an array or object at byte 8");
}

#[test]
fn depth_is_limited() {
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    check(&objects(DEPTH_MAX), &[&format!("{}=#1", ["a"; DEPTH_MAX].join("."))]);
    let error = parse(&objects(DEPTH_MAX + 1), &mut Fields::new()).unwrap_err();
    assert_eq!(error.expected, "at most 64 levels");
    let arrays = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    parse(&arrays(DEPTH_MAX - 1), &mut Fields::new()).unwrap();
    assert_eq!(
        parse(&arrays(DEPTH_MAX), &mut Fields::new()).unwrap_err().expected,
        "at most 64 levels"
    );
    assert!(parse(&arrays(1 << 20), &mut Fields::new()).is_err());
    assert!(parse(&objects(1 << 20), &mut Fields::new()).is_err());
}

#[test]
fn escapes_are_removed() {
    for (escaped, expect) in [
        ("plain", "plain"),
        (r#"a\"b\\c\/d"#, "a\"b\\c/d"),
        (r"\n\t\r\b\f", "\n\t\r\u{8}\u{c}"),
        (r"\u00e4\u4e2d", "ä中"),
        (r"\ud83d\ude00!", "😀!"),
        (r"\ud83d!", "\u{fffd}!"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ude00", "\u{fffd}"),
        (r"\u12", r"\u12"),
        (r"\u12ää", r"\u12ää"),
        (r"\x\", r"\x\"),
        (r"\ä", r"\ä"),
    ] {
        assert_eq!(unescape(escaped), expect, "{escaped}");
    }
}

#[test]
fn windows_events_have_the_fields_of_their_tree() {
    let Some(text) = shared_lines("windows-events.ndjson.gz", 2_000) else {
        return;
    };
    for line in text.lines() {
        let mut fields = Fields::new();
        parse(line, &mut fields).unwrap();
        assert!(fields.iter().all(|(_, value)| borrows(value)));
        let tree: serde_json::Value = serde_json::from_str(line).unwrap();
        for (_, value) in &mut fields {
            if let Value::Escaped(escaped) = value {
                *value = Value::Text(Cow::Owned(unescape(escaped)));
            }
        }
        assert_eq!(lines(&fields), flattened(&tree), "{line}");
    }
}

/// The same lines, made of a tree by another library.
fn flattened(tree: &serde_json::Value) -> Vec<String> {
    fn visit(name: &str, value: &serde_json::Value, out: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) if !members.is_empty() => {
                for (member, value) in members {
                    visit(
                        &if name.is_empty() {
                            member.clone()
                        } else {
                            format!("{name}.{member}")
                        },
                        value,
                        out,
                    );
                }
            }
            serde_json::Value::Null => out.push(format!("{name}=null")),
            serde_json::Value::String(text) => out.push(format!("{name}={text}")),
            serde_json::Value::Bool(_) | serde_json::Value::Number(_) => out.push(format!("{name}=#{value}")),
            other => out.push(format!("{name}=json:{other}")),
        }
    }
    let mut out = Vec::new();
    visit("", tree, &mut out);
    out
}

#[test]
fn time_grows_with_the_length_only() {
    for head in ["{\"a\":", "{\"a\":[", ""] {
        for part in ["[", "{\"a\":", "\"a\",", "\\", "\"", "1", "{\"a\":[", "\"\\u0041"] {
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
    fn accepts_what_serde_json_accepts(text in "\\{(\"[ab]\":|[\\[\\]{},]|\"a\"|1|-0|0?\\.5|2e1|true|nul|null| |\\\\|\"){0,14}\\}?") {
        let ours = parse(&text, &mut Fields::new());
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
    }

    #[test]
    fn strings_are_unescaped_as_by_serde_json(text in "([a\\\\\"\\n\\t\\u{1}\\PC]){0,20}") {
        let printed = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(unescape(&printed[1..printed.len() - 1]), text);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[\\\\u0-9a-fd8ä\"]{0,30}") {
        let bytes = String::from_utf8_lossy(&bytes);
        let _ = parse(&bytes, &mut Fields::new());
        let _ = parse(&format!("{{\"a\":{bytes}"), &mut Fields::new());
        unescape(&text);
    }
}
