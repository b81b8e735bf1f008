use proptest::prelude::*;

use super::*;
use crate::parsers::testing::{Fields, lines};

pub(super) fn grok(patterns: &[&str]) -> Grok {
    Grok::new(patterns, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks the fields that `pattern` finds in `record`.
#[track_caller]
pub(super) fn check(pattern: &str, record: &str, expect: &[&str]) {
    let grok = grok(&[pattern]);
    let record = record.to_owned();
    let mut fields = Fields::new();
    let result = grok.parse(&record, &mut fields);
    assert_eq!(result, Ok(0), "{pattern:?} in {record:?}");
    assert_eq!(lines(&fields), expect, "{pattern:?} in {record:?}");
}

#[track_caller]
pub(super) fn no_match(pattern: &str, record: &str) {
    let grok = grok(&[pattern]);
    let record = record.to_owned();
    let error = grok.parse(&record, &mut Fields::new()).expect_err(pattern);
    assert_eq!(
        error.expected, "a match of one of the patterns",
        "{pattern:?} in {record:?}"
    );
}

#[test]
fn captures_are_fields() {
    check("%{WORD:a} %{NUMBER:b} %{WORD}", "x 1.5 y", &["a=x", "b=1.5"]);
    check(
        "%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:bytes:int} %{NUMBER:duration:double}",
        "55.3.244.1 GET /index.html 15824 0.043",
        &[
            "client=55.3.244.1",
            "method=GET",
            "request=/index.html",
            "bytes=#15824",
            "duration=#0.043",
        ],
    );
    check("(?<a.b>[a-z]+)(?<c:int>[0-9]+)", "..ab12", &["a.b=ab", "c=#12"]);
    check("%{GREEDYDATA:a}%{NUMBER:b}", "foo 123", &["a=foo ", "b=123"]);
    check("a(?:%{WORD:x})?b", "ab", &[]);
    check("a%{DATA:x}b", "ab", &["x="]);
    check("%{DATA:[a][b]} ", "x ", &["[a][b]=x"]);
    no_match("%{NUMBER:a}", "x");
}

#[test]
fn a_name_may_come_twice() {
    check("(?:%{IP:a}|%{WORD:a})", "host", &["a=host"]);
    check("%{WORD:a} %{WORD:a}", "x y", &["a=x"]);
}

#[test]
fn types_are_converted() {
    check(
        "%{DATA:a:int},%{DATA:b:long},%{DATA:c:float},%{DATA:d:boolean},%{DATA:e:string};",
        "+5,-6000000000,.5,True,7;",
        &["a=#5", "b=#-6000000000", "c=#0.5", "d=#true", "e=7"],
    );
    check(
        "%{DATA:a:float} %{DATA:b:float} %{DATA:c:boolean};",
        "-1.50 007 yes;",
        &["a=#-1.50", "b=#7.0", "c=#false"],
    );
    for (kind, text, expect) in [
        ("int", "3000000000", "an int in a capture"),
        ("long", "1.5", "a long in a capture"),
        ("double", "x", "a number in a capture"),
        ("float", "inf", "a number in a capture"),
    ] {
        let grok = grok(&[&format!("%{{NOTSPACE:a:{kind}}}")]);
        assert_eq!(grok.parse(text, &mut Fields::new()).unwrap_err().expected, expect);
    }
}

#[test]
fn the_first_pattern_that_matches_wins() {
    let grok = grok(&["a%{INT:x}", "%{WORD:y}", "%{DATA:z}"]);
    for (record, expect) in [("a1", Ok(0)), ("b1", Ok(1)), ("--", Ok(2))] {
        assert_eq!(grok.parse(record, &mut Fields::new()), expect, "{record}");
    }
    assert_eq!(grok.field_names().collect::<Vec<_>>(), ["x", "y", "z"]);
}

#[test]
fn definitions_add_to_the_bank() {
    let definitions = [("PET", "(?:cat|%{DOG})"), ("DOG", "dog"), ("WORD", "[x]+")];
    let definitions = definitions
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
    let grok = Grok::new(&["%{PET:pet} %{WORD:w}"], &definitions).unwrap();
    let mut fields = Fields::new();
    grok.parse("a dog xxy", &mut fields).unwrap();
    assert_eq!(lines(&fields), ["pet=dog", "w=xx"]);
    check("%{ODD:n=[135]+}", "2135", &["n=135"]);
    check("100%{ %{INT:a}", "100%{ 5", &["a=5"]);
}

#[test]
fn wrong_patterns_are_refused() {
    let refuse = |patterns: &[&str], definitions: &[(&str, &str)], expect: &str| {
        let definitions = definitions
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        assert_eq!(Grok::new(patterns, &definitions).unwrap_err().reason, expect);
    };
    refuse(&[], &[], "between 1 and 1000 patterns are required");
    refuse(&["%{NOPE}"], &[], "unable to find pattern [NOPE]");
    refuse(
        &["%{A}"],
        &[("A", "%{B}"), ("B", "x%{A}")],
        "circular reference in pattern [A]",
    );
    refuse(&["(%{WORD:a}"], &[], "a group without `)` at byte 14 of the pattern");
    refuse(
        &[r"%{WORD:a}\1"],
        &[],
        r"`\1` is not supported, at byte 13 of the pattern",
    );
    let doubling: Vec<_> = (0..30)
        .map(|level| (format!("P{level}"), format!("%{{P{}}}%{{P{}}}", level + 1, level + 1)))
        .collect();
    let mut doubling: Vec<_> = doubling.iter().map(|(name, text)| (&**name, &**text)).collect();
    doubling.push(("P30", "x"));
    refuse(&["%{P0}"], &doubling, "the pattern is longer than 262144 bytes");
    let error = Grok::new(&["%{NOPE}"], &BTreeMap::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot compile grok pattern [%{NOPE}]: unable to find pattern [NOPE]"
    );
}

#[test]
fn steps_are_limited_by_a_typed_error() {
    let grok = grok(&["(?:a|a)*[bc]"]);
    let record = "a".repeat(200);
    let error = grok.parse(&record, &mut Fields::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot parse grok: expected a pattern that takes fewer steps on this record at byte 0"
    );
}

#[test]
fn sane_patterns_get_through_a_megabyte() {
    let words = "word 12 ".repeat(1 << 17);
    for pattern in [
        "%{IP:a}",
        "%{COMBINEDAPACHELOG}",
        "%{SYSLOGLINE}",
        "%{TIMESTAMP_ISO8601:a}",
        "%{UUID:a}",
    ] {
        no_match(pattern, &words);
    }
    check(
        "^%{WORD:a}%{DATA}%{UUID:b}%{GREEDYDATA}$",
        &format!("{words}123e4567-e89b-12d3-a456-426614174000{words}"),
        &["a=word", "b=123e4567-e89b-12d3-a456-426614174000"],
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        pattern in "(%\\{[A-Z:=a\\[.]{0,9}\\}?|%\\{(WORD|INT|IP|DATA|QS)(:[a.]{1,3}(:int)?)?\\}|[ a(|)?*\\\\]){0,6}",
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let record = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(grok) = Grok::new(&[&pattern], &BTreeMap::new()) {
            let _ = grok.parse(&record, &mut Fields::new());
        }
    }
}
