use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, borrows, lines};

/// Fields that `pattern` finds in `record`, appended with `-`.
fn fields(pattern: &str, record: &str) -> Result<Vec<String>, ParseError> {
    let dissect = Dissect::new(pattern, "-").unwrap_or_else(|error| panic!("{error}"));
    let record = record.to_owned();
    let mut fields = Fields::new();
    let result = dissect.parse(&record, &mut fields);
    assert!(result.is_ok() || fields.is_empty());
    result.map(|()| lines(&fields))
}

#[track_caller]
fn check(pattern: &str, record: &str, expect: &[&str]) {
    let found = fields(pattern, record).unwrap_or_else(|error| panic!("{pattern:?} in {record:?}: {error}"));
    assert_eq!(found, expect, "{pattern:?} in {record:?}");
}

#[track_caller]
fn no_match(pattern: &str, record: &str) {
    let error = fields(pattern, record).expect_err(pattern);
    assert_eq!(
        error.to_string(),
        "cannot parse dissect: expected all delimiters of the pattern in their order at byte 0"
    );
}

#[track_caller]
fn refuse(pattern: &str, reason: &str) {
    let expect = format!("cannot compile dissect pattern [{pattern}]: {reason}");
    assert_eq!(Dissect::new(pattern, "").unwrap_err(), expect);
}

#[test]
fn keys_are_split_at_delimiters() {
    check("%{a} %{b}", "foo bar", &["a=foo", "b=bar"]);
    check("%{a} %{b}", "foo bar baz", &["a=foo", "b=bar baz"]);
    check("%{a}", "foo bar", &["a=foo bar"]);
    check("<%{a}> %{b}: %{c}", "<34> su: text: x", &["a=34", "b=su", "c=text: x"]);
    check("%{a} - %{b}.", "x - y.", &["a=x", "b=y"]);
    check("%{a}ä%{b}", "xäyäz", &["a=x", "b=yäz"]);
    check("%{a}\n%{b}", "x\ny", &["a=x", "b=y"]);
    check("%{a},%{b}", "x,", &["a=x", "b="]);
    check("%{a.b} %{@timestamp}", "x y", &["a.b=x", "@timestamp=y"]);
    check("%{a},%{a}", "x,y", &["a=x", "a=y"]);
    check(
        "%{clientip} %{ident} %{auth} [%{@timestamp}] \"%{verb} %{request} HTTP/%{httpversion}\" %{status} %{size}",
        "1.2.3.4 - - [30/Apr/1998:22:00:52 +0000] \"GET /a HTTP/1.0\" 200 3171",
        &[
            "clientip=1.2.3.4",
            "ident=-",
            "auth=-",
            "@timestamp=30/Apr/1998:22:00:52 +0000",
            "verb=GET",
            "request=/a",
            "httpversion=1.0",
            "status=200",
            "size=3171",
        ],
    );
}

#[test]
fn records_without_all_delimiters_do_not_match() {
    no_match("%{a} %{b}", "foo");
    no_match("%{a},%{b},%{c}", "x,y");
    no_match("<%{a}>", "34>");
    no_match("<%{a}>", "<34");
    no_match("%{a}", "");
    no_match("[%{a}", "[");
    no_match("%{a}, %{b}", "x,y");
}

#[test]
fn repeated_delimiters_are_empty_values_or_padding() {
    check("%{a},%{b},%{c},%{d}", "x,,,y", &["a=x", "b=", "c=", "d=y"]);
    check("%{a->},%{b}", "x,,,y", &["a=x", "b=y"]);
    check("%{a->} %{b->} %{c}", "x   y  z ", &["a=x", "b=y", "c=z "]);
    check("[%{a}]%{->}[%{b}]", "[x]   [y]", &["a=x", "b=y"]);
    check("%{a},%{b}", "x,,y", &["a=x", "b="]);
    no_match("%{a},%{b}:%{c}", "x,y");
    // The next delimiter at once is an empty value too, and what follows it is lost, as in Elasticsearch.
    check("%{a},%{b}:%{c}", "x,,:y", &["a=x", "b=", "c="]);
}

#[test]
fn keys_are_skipped() {
    check("%{?x} %{a} %{} %{b}", "1 2 3 4", &["a=2", "b=4"]);
    check("%{?x->} %{a}", "1   2", &["a=2"]);
}

#[test]
fn values_are_appended() {
    check(
        "%{+name} %{+name} %{+name} %{other}",
        "john jacob jingle x",
        &["name=john-jacob-jingle", "other=x"],
    );
    check(
        "%{+name/2} %{+name/4} %{+name/3} %{+name/1}",
        "john jacob jingle schmidt",
        &["name=schmidt-john-jingle-jacob"],
    );
    check("%{name} %{+name}", "a b", &["name=a-b"]);
    check(
        "%{+name->} %{x} %{+name/1->} %{+name}",
        "a  b c   d",
        &["name=a-d-c", "x=b"],
    );
    check("%{+name}", "a", &["name=a"]);
}

#[test]
fn references_take_names_from_the_record() {
    check(
        "[%{ts}] %{*p1}:%{&p1} %{*p2}:%{&p2}",
        "[2018] ip:1.2.3.4 error:REFUSED",
        &["ts=2018", "ip=1.2.3.4", "error=REFUSED"],
    );
    check("%{&a} is %{*a}", "1 is x", &["x=1"]);
}

#[test]
fn wrong_patterns_are_refused() {
    refuse("", "no key `%{name}`");
    refuse("text", "no key `%{name}`");
    refuse("%{a", "a key without `}`");
    refuse("%{+?a}", "key [+?a] has more than one modifier");
    refuse("%{+}", "key [+] has no name");
    refuse("%{*->}", "key [*->] has no name");
    refuse("%{+a/b}", "key [+a/b] has no number behind its `/`");
    refuse("%{*a}", "keys [*a] and [&a] must stand once each");
    refuse("%{&a} %{b}", "keys [*a] and [&a] must stand once each");
    refuse("%{*a} %{&a} %{&a}", "keys [*a] and [&a] must stand once each");
    refuse(&"%{a},".repeat(1001), "more than 1000 keys");
}

#[test]
fn values_borrow_from_the_record() {
    let dissect = Dissect::new("%{a} %{*b}=%{&b}", "").unwrap();
    let mut fields = Fields::new();
    dissect.parse("x y=z", &mut fields).unwrap();
    assert!(fields.iter().all(|(_, value)| borrows(value)));
}

proptest! {
    #[test]
    fn joined_values_are_parsed_back(values in proptest::collection::vec("[a-z]{1,6}", 1..8), delimiter in "[,;|ä ]{1,3}") {
        let keys: Vec<_> = (0..values.len()).map(|number| format!("%{{k{number}}}")).collect();
        let expect: Vec<_> = values.iter().enumerate().map(|(number, value)| format!("k{number}={value}")).collect();
        prop_assert_eq!(fields(&keys.join(&delimiter), &values.join(&delimiter)).unwrap(), expect);
    }

    #[test]
    fn arbitrary_bytes_never_panic(pattern in "(%\\{[a-b+?*&/0-9>-]{0,4}\\}?|[a,ä ]){0,8}", bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[ab,ä ]{0,20}") {
        let bytes = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(dissect) = Dissect::new(&pattern, "-") {
            let _ = dissect.parse(&bytes, &mut Fields::new());
            let _ = dissect.parse(&text, &mut Fields::new());
        }
    }
}
