//! Each modifier of Sigma, and filters, with events that match and events that do not.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Loaded, apply_filters, bundles, load, load_parts};
use crate::evaluator::Evaluator;
use crate::log_sources::LogSources;
use crate::rule_set::RuleSet;

fn rule(detection: &str) -> String {
    format!(
        "title: t\nid: t\nlogsource: {{product: windows, category: process_creation}}\ndetection:\n  s: {detection}\n  condition: s\n"
    )
}

/// Ids of the rules that an event matches.
fn matches(loaded: Loaded, event: &Value) -> Vec<String> {
    assert_eq!(loaded.errors, []);
    let compiled = RuleSet::compile(loaded.rules, &LogSources::Any);
    assert_eq!(compiled.errors, []);
    let mut evaluator = Evaluator::new(Arc::new(compiled.rules));
    evaluator.begin();
    evaluator.push_object(event.as_object().unwrap());
    let mut found = Vec::new();
    evaluator.evaluate(&mut found);
    let rules = evaluator.rules().rules();
    found.iter().map(|place| rules[*place as usize].id.clone()).collect()
}

/// Checks that each of `matching` matches the detection, and none of `others` does.
fn check(detection: &str, matching: &[Value], others: &[Value]) {
    assert!(
        !matching.is_empty() && !others.is_empty(),
        "both kinds of events are tried"
    );
    for (events, expect) in [(matching, true), (others, false)] {
        for event in events {
            let found = !matches(load(&rule(detection)), event).is_empty();
            assert_eq!(found, expect, "{detection}: {event}");
        }
    }
}

#[test]
fn texts_are_compared_without_case_and_with_wildcards() {
    check(
        "{a: Abc}",
        &[json!({"a": "aBC"})],
        &[json!({"a": "xabc"}), json!({"a": "abcx"}), json!({"b": "abc"})],
    );
    check("{a|cased: Abc}", &[json!({"a": "Abc"})], &[json!({"a": "abc"})]);
    check(
        "{a: 'x*z?'}",
        &[json!({"a": "XyyZq"}), json!({"a": "xz1"})],
        &[json!({"a": "xz"}), json!({"a": "xz12"})],
    );
    check(r"{a: 'x\*y'}", &[json!({"a": "x*y"})], &[json!({"a": "xay"})]);
    check(r"{a: 'x\\*'}", &[json!({"a": "x\\y"})], &[json!({"a": "x*"})]);
    check("{a|contains: bc}", &[json!({"a": "aBCd"})], &[json!({"a": "b c"})]);
    check("{a|startswith: ab}", &[json!({"a": "ABc"})], &[json!({"a": "xab"})]);
    check("{a|endswith: bc}", &[json!({"a": "aBC"})], &[json!({"a": "bcx"})]);
    check(
        "{a|contains|all: [b, d]}",
        &[json!({"a": "abcd"})],
        &[json!({"a": "abc"})],
    );
    check(
        "{a: ''}",
        &[json!({"a": ""})],
        &[json!({"a": " "}), json!({}), json!({"a": null})],
    );
    check(
        "[word, other]",
        &[json!({"a": "a WORD"}), json!({"b": {"c": "other"}})],
        &[json!({"a": "wor d"})],
    );
    check(
        "{'|all': [one, two]}",
        &[json!({"a": "one", "b": "two"})],
        &[json!({"a": "one"})],
    );
}

#[test]
fn encoded_texts_are_found() {
    let utf16 = |mark: &[u8], text: &str, big: bool| {
        let units = text.encode_utf16();
        let bytes = units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() });
        mark.iter().copied().chain(bytes).collect::<Vec<u8>>()
    };
    let of = |bytes: &[u8]| json!({ "a": STANDARD.encode(bytes) });
    // The encoded text in a longer one; before it are so many bytes that each offset occurs.
    let inside = |before: usize, bytes: &[u8]| {
        let whole: Vec<u8> = std::iter::repeat_n(b'#', before)
            .chain(bytes.iter().copied())
            .chain(*b"###")
            .collect();
        json!({"a": format!("powershell -enc {} end", STANDARD.encode(whole))})
    };
    check("{a|base64: foobar}", &[of(b"foobar")], &[of(b"foobar!"), of(b"other")]);
    check(
        "{a|base64|contains: foobar}",
        &[json!({"a": "x Zm9vYmFy"})],
        &[json!({"a": "x Zm9v"})],
    );
    let offsets: Vec<Value> = (0..3).map(|before| inside(before, b"foobar")).collect();
    check(
        "{a|base64offset|contains: foobar}",
        &offsets,
        &[inside(1, b"foobaz"), json!({"a": "foobar"})],
    );
    for name in ["wide", "utf16le"] {
        let detection = format!("{{a|{name}|base64offset|contains: ping}}");
        let wide: Vec<Value> = (0..3)
            .map(|before| inside(before, &utf16(b"", "ping", false)))
            .collect();
        check(
            &detection,
            &wide,
            &[inside(0, b"ping"), inside(0, &utf16(b"", "ping", true))],
        );
    }
    check(
        "{a|utf16be|base64offset|contains: ping}",
        &[inside(2, &utf16(b"", "ping", true))],
        &[inside(2, &utf16(b"", "ping", false))],
    );
    check(
        "{a|utf16|base64offset|contains: ping}",
        &[inside(0, &utf16(&[0xff, 0xfe], "ping", false))],
        &[inside(0, &utf16(b"", "ping", false))],
    );
}

#[test]
fn a_dash_stands_for_all_dashes() {
    let each = ["-enc", "/enc", "\u{2013}enc", "\u{2014}enc", "\u{2015}enc"];
    let each: Vec<Value> = each.iter().map(|word| json!({"a": format!("x {word} y")})).collect();
    check(
        "{a|contains|windash: ' -enc '}",
        &each,
        &[json!({"a": "x +enc y"}), json!({"a": "x enc y"})],
    );
    check(
        "{a|windash|contains|all: ['-a', '/b']}",
        &[json!({"a": "/a -b"})],
        &[json!({"a": "/a"})],
    );
}

#[test]
fn regular_expressions_have_their_flags() {
    check(
        "{a|re: 'a.c$'}",
        &[json!({"a": "xabc"})],
        &[json!({"a": "xABC"}), json!({"a": "abcx"})],
    );
    check("{a|re|i: 'a.c$'}", &[json!({"a": "xABC"})], &[json!({"a": "abcx"})]);
    check("{a|re|m: '^b'}", &[json!({"a": "a\nb"})], &[json!({"a": "ab"})]);
    check("{a|re: '^b'}", &[json!({"a": "b"})], &[json!({"a": "a\nb"})]);
    check("{a|re|s: 'a.b'}", &[json!({"a": "a\nb"})], &[json!({"a": "ab"})]);
    check("{a|re: 'a.b'}", &[json!({"a": "a-b"})], &[json!({"a": "a\nb"})]);
    check(
        "{a|re: ['^x', 'y$']}",
        &[json!({"a": "xa"}), json!({"a": "ay"})],
        &[json!({"a": "a"})],
    );
}

#[test]
fn addresses_and_numbers_are_compared() {
    check(
        "{a|cidr: 10.0.0.0/8}",
        &[json!({"a": "10.1.2.3"})],
        &[json!({"a": "11.0.0.1"}), json!({"a": "10.0.0.0/8"})],
    );
    check(
        "{a|cidr: ['fe80::/10', '::1/128']}",
        &[json!({"a": "FE80::1"}), json!({"a": "::1"})],
        &[json!({"a": "2001:db8::1"})],
    );
    check(
        "{a: 4688}",
        &[json!({"a": 4688}), json!({"a": "4688"})],
        &[json!({"a": 46880}), json!({"a": "x4688"})],
    );
    check(
        "{a|gt: 10}",
        &[json!({"a": 11}), json!({"a": "10.5"})],
        &[json!({"a": 10}), json!({"a": "x"}), json!({})],
    );
    check("{a|gte: 10}", &[json!({"a": 10})], &[json!({"a": 9})]);
    check("{a|lt: 10}", &[json!({"a": 9})], &[json!({"a": 10}), json!({})]);
    check("{a|lte: 10}", &[json!({"a": 10})], &[json!({"a": "11"})]);
    check("{a|neq: x}", &[json!({"a": "y"})], &[json!({"a": "X"})]);
    check(
        "{a: true}",
        &[json!({"a": true}), json!({"a": "true"})],
        &[json!({"a": false}), json!({})],
    );
}

#[test]
fn parts_of_dates_are_compared() {
    let time = json!({"a": "2026-11-29T20:15:00Z"});
    for (name, value, other) in [
        ("minute", 15, 16),
        ("hour", 20, 21),
        ("day", 29, 28),
        ("week", 48, 47),
        ("month", 11, 12),
        ("year", 2026, 2025),
    ] {
        check(
            &format!("{{a|{name}: {value}}}"),
            std::slice::from_ref(&time),
            &[json!({}), json!({"a": "x"})],
        );
        assert!(
            matches(load(&rule(&format!("{{a|{name}: {other}}}"))), &time).is_empty(),
            "{name}"
        );
    }
}

#[test]
fn fields_are_missing_null_or_equal_to_others() {
    check(
        "{a|exists: true}",
        &[json!({"a": ""}), json!({"a": 0})],
        &[json!({}), json!({"a": null})],
    );
    check(
        "{a|exists: false}",
        &[json!({}), json!({"a": null})],
        &[json!({"a": ""})],
    );
    check(
        "{a: null}",
        &[json!({}), json!({"a": null})],
        &[json!({"a": ""}), json!({"a": "null"})],
    );
    check("{a: [null, x]}", &[json!({}), json!({"a": "X"})], &[json!({"a": "y"})]);
    check(
        "{a|fieldref: b}",
        &[json!({"a": "x", "b": "X"})],
        &[json!({"a": "x", "b": "y"}), json!({"a": "x"}), json!({})],
    );
    check(
        "{a|fieldref|startswith: b}",
        &[json!({"a": "xy", "b": "x"})],
        &[json!({"a": "yx", "b": "x"})],
    );
    check(
        "{a|fieldref|endswith: b}",
        &[json!({"a": "yx", "b": "x"})],
        &[json!({"a": "xy", "b": "x"})],
    );
    check(
        "{a|fieldref|contains: b}",
        &[json!({"a": "yxy", "b": "x"})],
        &[json!({"a": "yy", "b": "x"})],
    );
}

/// A field with several values matches if one of them does; `|all` may be met by several.
#[test]
fn one_of_several_values_of_a_field_has_to_match() {
    let list = |values: Value| json!({ "a": values });
    check(
        "{a: x}",
        &[list(json!(["y", "X"]))],
        &[list(json!(["y", "z"])), list(json!([]))],
    );
    check("{a|contains: x}", &[list(json!(["y", "axb"]))], &[list(json!(["y"]))]);
    check(
        "{a|contains|all: [x, y]}",
        &[list(json!(["x", "y"]))],
        &[list(json!(["x", "z"]))],
    );
    check("{a|re: '^x$'}", &[list(json!(["y", "x"]))], &[list(json!(["y", "xx"]))]);
    check(
        "{a|cidr: 10.0.0.0/8}",
        &[list(json!(["192.0.2.1", "10.0.0.1"]))],
        &[list(json!(["192.0.2.1"]))],
    );
    check("{a|gt: 10}", &[list(json!([1, 11]))], &[list(json!([1, 2]))]);
    check(
        "{a.b: x}",
        &[json!({"a": [{"b": "y"}, {"b": "x"}]})],
        &[json!({"a": [{"b": "y"}, {"c": "x"}]})],
    );
    check(
        "{a: null}",
        &[list(json!([])), list(json!([null]))],
        &[list(json!(["x"]))],
    );
    let negated = rule("{a: x}").replace("condition: s", "condition: not s");
    assert_eq!(matches(load(&negated), &list(json!(["y", "x"]))), Vec::<String>::new());
    assert_eq!(matches(load(&negated), &list(json!(["y", "z"]))), ["t"]);
}

#[test]
fn a_placeholder_is_refused_by_its_name() {
    let loaded = load(&rule("{User|expand: '%admins%'}"));
    let reason = &loaded.errors[0].reason;
    assert!(
        loaded.rules.is_empty() && reason.contains("[User]") && reason.contains("[%admins%]"),
        "{reason}"
    );
}

fn filter(rules: &str, log_source: &str) -> String {
    format!(
        "title: No lab\nid: f\nlogsource: {log_source}\nfilter:\n  rules: {rules}\n  lab: {{host|startswith: lab}}\n  condition: not lab\n"
    )
}

#[test]
fn a_filter_is_added_to_the_rules_that_it_names() {
    let one = rule("{a: x}");
    let other = one.replace("id: t", "id: u\nname: named");
    let text = |rules: &str, log_source: &str| format!("{one}---\n{other}---\n{}", filter(rules, log_source));
    let lab = json!({"a": "x", "host": "LAB7"});
    for (rules, expect) in [("[t]", "u"), ("[named]", "t"), ("[u]", "t")] {
        let text = text(rules, "{product: windows}");
        assert_eq!(matches(load(&text), &lab), [expect], "{rules}");
        assert_eq!(
            matches(load(&text), &json!({"a": "x", "host": "web"})),
            ["t", "u"],
            "{rules}"
        );
    }
    assert_eq!(
        matches(load(&text("any", "{product: windows}")), &lab),
        Vec::<String>::new()
    );
    // A filter of other events, or of rules that are not there, filters nothing, and is named.
    for text in [text("any", "{product: linux}"), text("[v]", "{product: windows}")] {
        let mut loaded = load(&text);
        let errors = std::mem::take(&mut loaded.errors);
        assert!(
            errors.len() == 1 && errors[0].id == "f" && errors[0].reason.contains("none of the rules"),
            "{errors:?}"
        );
        assert_eq!(matches(loaded, &lab), ["t", "u"]);
    }
    // In another text.
    let mut texts = [
        load_parts(&one),
        load_parts(&filter("[t]", "{category: process_creation}")),
    ];
    assert_eq!(apply_filters(&mut texts), []);
    let [one, _] = texts;
    assert_eq!(matches(one, &lab), Vec::<String>::new());
}

#[test]
fn the_definition_of_a_rule_has_its_filters() {
    let (one, windows) = (rule("{a: x}"), "{product: windows}");
    let other = one.replace("id: t", "id: u");
    let text = format!("{one}---\n{other}---\n{}", filter("[u]", windows));
    let (found, refused) = bundles(&text);
    assert_eq!(refused, []);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].text, one);
    assert_eq!(found[1].text, format!("{other}---\n{}", filter("[u]", windows)));
    let lab = json!({"a": "x", "host": "lab"});
    assert_eq!(matches(load(&found[0].text), &lab), ["t"]);
    assert_eq!(matches(load(&found[1].text), &lab), Vec::<String>::new());
    // An export repeats the filter after each of its rules; the definitions stay the same.
    let twice = format!(
        "{one}---\n{}---\n{other}---\n{}",
        filter("any", windows),
        filter("any", windows)
    );
    let (found, refused) = bundles(&twice);
    assert_eq!((found.len(), refused.len()), (2, 0));
    assert_eq!(found[0].text, format!("{one}---\n{}", filter("any", windows)));
    let (found, refused) = bundles(&format!("{one}---\n{}", filter("[v]", windows)));
    assert_eq!((found.len(), refused.len(), refused[0].error.id.as_str()), (1, 1, "f"));
}

#[test]
fn a_filter_is_added_to_the_rules_of_a_correlation() {
    let base = rule("{a: x}").replace("id: t", "id: t\nname: base");
    let many = "title: Many\nid: m\ncorrelation: {type: event_count, rules: [base], group-by: [host], timespan: 1m, condition: {gte: 2}}\n";
    let (found, refused) = bundles(&format!(
        "{base}---\n{many}---\n{}",
        filter("[base]", "{product: windows}")
    ));
    assert_eq!((refused.len(), found.len()), (0, 1));
    let loaded = load(&found[0].text);
    assert_eq!((loaded.correlations.len(), loaded.rules.len()), (1, 1));
    assert_eq!(matches(loaded, &json!({"a": "x", "host": "lab"})), Vec::<String>::new());
}

#[test]
fn what_cannot_be_read_is_said_with_its_place_and_without_the_condition() {
    let refused = |condition: &str, item: &str| {
        let yaml = format!(
            "title: t\nid: own-id\nlogsource: {{product: windows}}\ndetection:\n  s: {{{item}}}\n  condition: {condition}\n"
        );
        let mut loaded = load(&yaml);
        let error = loaded.errors.remove(0);
        assert_eq!((error.id.as_str(), error.title.as_str()), ("own-id", "t"));
        error.reason
    };
    assert_eq!(
        refused("s and (s or", "a: 1"),
        "[condition] at 1:12: expected quantifier, ident, or not_op"
    );
    let deep = refused(&format!("{}s{}", "(".repeat(200), ")".repeat(200)), "a: 1");
    assert!(
        deep.starts_with("[condition] at 1:") && deep.len() < 120 && !deep.contains("(("),
        "{deep}"
    );
    assert_eq!(refused("s", "a|nope: 1"), "Unknown modifier 'nope'");
    let refused = refused("s", &format!("a|re: '({}'", "x".repeat(500)));
    assert!(
        refused.len() < 200 && refused.ends_with("cannot be read: unclosed group"),
        "{refused}"
    );
    assert!(!refused.contains('\n'), "{refused}");
}

#[test]
fn an_empty_list_of_values_is_refused() {
    for item in ["EventID: []", "EventID|contains: []"] {
        let yaml = format!("title: t\nlogsource: {{product: windows}}\ndetection: {{s: {{{item}}}, condition: s}}\n");
        let errors = load(&yaml).errors;
        assert_eq!(
            errors[0].reason,
            "[EventID]: the list of values is empty: no event would match"
        );
    }
}

#[test]
fn an_id_that_is_no_text_is_refused() {
    let text = |id: &str| rule("{a: x}").replace("id: t", &format!("id: {id}"));
    for (id, kind) in [
        ("1001", "a number"),
        ("true", "a boolean"),
        ("1.50", "a number"),
        ("[a]", "a list"),
        ("{a: b}", "a mapping"),
    ] {
        let loaded = load(&text(id));
        assert_eq!(loaded.rules, [], "{id}");
        assert_eq!(loaded.errors.len(), 1, "{id}");
        assert_eq!(loaded.errors[0].reason, format!("[id] must be a string, not {kind}"));
    }
    for (id, expect) in [("'1001'", "1001"), ("null", "t"), ("r-1", "r-1")] {
        let loaded = load(&text(id));
        assert_eq!(loaded.errors, [], "{id}");
        assert_eq!(loaded.rules[0].id, expect);
    }
    let correlation = "title: c\nid: 7\ncorrelation: {type: event_count, rules: [t], group-by: [a], timespan: 1m, condition: {gte: 2}}\n";
    let loaded = load(&format!("{}---\n{correlation}", rule("{a: x}")));
    assert!(loaded.correlations.is_empty());
    assert_eq!(loaded.errors[0].reason, "[id] must be a string, not a number");
}

#[test]
fn a_byte_order_mark_is_ignored() {
    let marked = format!("\u{feff}{}", rule("{a: x}"));
    assert_eq!(load(&marked).errors, []);
    assert_eq!(load(&marked).rules, load(&rule("{a: x}")).rules);
    assert_eq!(super::load::documents(&marked)[0].text, rule("{a: x}"));
}
