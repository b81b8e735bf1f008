use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, check_error, check_fields, lines};

fn plain() -> KeyValue {
    KeyValue::new(" ", "=").unwrap()
}

#[track_caller]
fn check(parser: &KeyValue, record: &str, expect: &[&str]) {
    check_fields(record, |record, sink| parser.parse(record, sink), expect);
}

#[test]
fn pairs_are_split() {
    check(&plain(), "ip=1.2.3.4 error=REFUSED", &["ip=1.2.3.4", "error=REFUSED"]);
    check(&plain(), "a= b=1=2", &["a=", "b=1=2"]);
    check(&plain(), "=1", &["=1"]);
    check(&plain(), "", &[]);
    check(&plain(), "a=1 ", &["a=1"]);
    check(&plain(), "a=1   ", &["a=1"]);
    check(&plain(), "a=1 a=2", &["a=1", "a=2"]);
    check(&plain(), "ä=ö ü=ß", &["ä=ö", "ü=ß"]);
}

#[test]
fn separators_are_literals_or_patterns() {
    check(&KeyValue::new("&", "=").unwrap(), "a=1&b=2", &["a=1", "b=2"]);
    check(&KeyValue::new(", ", ": ").unwrap(), "a: 1, b: 2,3", &["a=1", "b=2,3"]);
    check(
        &KeyValue::new(r"\s+", "[:=]").unwrap(),
        "a=1  \t b:2=3",
        &["a=1", "b=2=3"],
    );
    check(&KeyValue::new(r" (?:=[^ ])?", "=").unwrap(), "a=1 b=2", &["a=1", "b=2"]);
    check(&KeyValue::new("x*", "=").unwrap(), "a=1xxb=2", &["a=1", "b=2"]);
    check(&KeyValue::new("\\|", "=").unwrap(), "a=1|b=2", &["a=1", "b=2"]);
    assert_eq!(KeyValue::new("", "=").unwrap_err(), "[field_split] must not be empty");
    assert!(
        KeyValue::new(" ", "(")
            .unwrap_err()
            .starts_with("[value_split] regex parse error")
    );
    assert!(KeyValue::new(r"\w{500}{500}", "=").unwrap_err().contains("size limit"));
}

#[test]
fn parts_without_a_value_are_refused_or_skipped() {
    let expect = "cannot parse key-value: expected a value separator in each part at byte 0";
    check_error("a", |record, sink| plain().parse(record, sink), expect);
    check_error(" a=1", |record, sink| plain().parse(record, sink), expect);
    let error = plain().parse("a=1 b c=2", &mut Fields::new()).unwrap_err();
    assert_eq!(error.offset, 4);
    check(&plain().incomplete(Incomplete::Skip), " a=1  b c=2 ", &["a=1", "c=2"]);
}

#[test]
fn keys_and_values_are_trimmed() {
    let parser = KeyValue::new(",", ":")
        .unwrap()
        .trim_key(" <")
        .unwrap()
        .trim_value(" >")
        .unwrap();
    check(&parser, " <a : 1 , b>: < 2>> ", &["a=1", "b>=< 2"]);
    let parser = plain().trim_value("a-c").unwrap();
    check(&parser, "k=abc1cab k=-x-", &["k=1", "k=-x-"]);
    let parser = plain().trim_key(r"\s\d").unwrap();
    check(&parser, "1k2=3", &["k=3"]);
    assert_eq!(plain().trim_key("").unwrap_err(), "[trim_key] must not be empty");
    assert!(plain().trim_value("z-a").unwrap_err().starts_with("[trim_value] "));
}

#[test]
fn brackets_are_stripped() {
    let parser = plain().strip_brackets(true);
    check(
        &parser,
        "a=<1> b=\"2\" c=[3) d='4 e=((5)) f=\" g=",
        &["a=1", "b=2", "c=3", "d=4", "e=(5)", "f=", "g="],
    );
}

#[test]
fn quotes_are_text_by_default() {
    check(
        &plain().incomplete(Incomplete::Skip),
        "a=\"b c\" d=e",
        &["a=\"b", "d=e"],
    );
}

#[test]
fn quotes_group() {
    let parser = plain().quotes(Quotes::Group);
    check(
        &parser,
        "date=2026-01-02 msg=\"two words\" b='x=1 y' c=\"\"",
        &["date=2026-01-02", "msg=two words", "b=x=1 y", "c="],
    );
    check(&parser, r#"a="say \"hi\" \\ \n" b=2"#, &[r#"a=say "hi" \ \n"#, "b=2"]);
    check(&parser, "a=\"open b=1", &["a=\"open", "b=1"]);
    check(&parser, "a=\"x\"y b=1", &["a=\"x\"y", "b=1"]);
    check(&parser, "a=\"x\\", &["a=\"x\\"]);
    check(
        &parser.clone().trim_value("\" ").unwrap(),
        "a=\" x \" b=1",
        &["a=x", "b=1"],
    );
}

#[test]
fn values_borrow_from_the_record() {
    let mut fields = Fields::new();
    plain()
        .quotes(Quotes::Group)
        .parse("a=1 b=\"2 3\"", &mut fields)
        .unwrap();
    assert!(fields.iter().all(|(_, value)| borrows(value)));
}

#[test]
fn time_grows_with_the_length_only() {
    let parser = plain().quotes(Quotes::Group).incomplete(Incomplete::Skip);
    let patterns = KeyValue::new(" +", "=+")
        .unwrap()
        .quotes(Quotes::Group)
        .incomplete(Incomplete::Skip);
    for part in [
        "a",
        "a ",
        "a=",
        "a=\"",
        "a=\" ",
        "a='x\\",
        "a=\"b\"",
        "=",
        " ",
        "a=\"b\" ",
        "a=\"\\\" ",
    ] {
        let record = part.repeat((1 << 19) / part.len());
        let start = std::time::Instant::now();
        parser.parse(&record, &mut Fields::new()).unwrap();
        patterns.parse(&record, &mut Fields::new()).unwrap();
        // Quadratic time would be minutes.
        assert!(start.elapsed().as_secs() < 10, "{part:?}");
    }
}

proptest! {
    #[test]
    fn pairs_are_parsed_back(pairs in proptest::collection::vec(("[a-z]{1,5}", "[a-z\"'\\\\ =ä]{0,8}"), 0..6)) {
        let printed: Vec<_> = pairs.iter()
            .map(|(key, value)| format!("{key}=\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""))).collect();
        let record = printed.join(" ");
        let mut fields = Fields::new();
        plain().quotes(Quotes::Group).parse(&record, &mut fields).unwrap();
        let expect: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={}", value.replace(r"\'", "'"))).collect();
        let got: Vec<_> = lines(&fields).into_iter().map(|line| line.replace(r"\'", "'")).collect();
        prop_assert_eq!(got, expect);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in "[ab=\"' \\\\ä\\n]{0,40}") {
        let parsers = [plain().quotes(Quotes::Group), KeyValue::new(r"\s*", "=?").unwrap().strip_brackets(true)];
        for parser in parsers {
            let parser = parser.trim_value("a-ä\"").unwrap();
            let _ = parser.parse(&String::from_utf8_lossy(&bytes), &mut Fields::new());
            let _ = parser.parse(&text, &mut Fields::new());
        }
    }
}
