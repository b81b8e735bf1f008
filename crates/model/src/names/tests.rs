use proptest::prelude::*;

use super::*;

const NOW_MS: i64 = 1_767_225_600_000;

fn reason<T: std::fmt::Debug>(result: crate::Result<T>) -> String {
    result.unwrap_err().reason().to_owned()
}

#[test]
fn checks_names() {
    for name in ["logs", "logs-1", ".hidden", "a.b", "ünï", "1"] {
        assert!(validate_index_name(name).is_ok(), "{name}");
    }
    for (name, why) in [
        ("Logs", "must be lowercase"),
        (
            "a b",
            "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]",
        ),
        ("a#b", "must not contain '#'"),
        ("a:b", "must not contain ':'"),
        ("_a", "must not start with '_', '-', or '+'"),
        ("..", "must not be '.' or '..'"),
        ("", "must not be empty"),
        ("a\n", "must not contain control characters"),
    ] {
        assert_eq!(
            reason(validate_index_name(name)),
            format!("Invalid index name [{name}], {why}")
        );
    }
    assert!(validate_index_name(&"a".repeat(256)).is_err());
    assert!(validate_alias_name("Logs").is_ok());
    assert!(validate_alias_name("a/b").is_err());
}

#[test]
fn evaluates_dates_in_names() {
    for (name, expect) in [
        ("logs", "logs"),
        ("<logs-{now}>", "logs-2026.01.01"),
        ("<logs-{now/M}>", "logs-2026.01.01"),
        ("<logs-{now/M{yyyy.MM}}>", "logs-2026.01"),
        ("<logs-{now-1d{yyyy.MM.dd|+12:00}}-000001>", "logs-2025.12.31-000001"),
        ("<a-{now{HH|-01:00}}-{now{yy}}>", "a-23-26"),
        ("<elastic\\{ON\\}-{now/M}>", "elastic{ON}-2026.01.01"),
    ] {
        assert_eq!(resolve_date_math(name, NOW_MS).unwrap(), expect);
    }
    for (name, why) in [
        ("<logs-{now>", "date math placeholder is open ended"),
        ("<logs-{now{}}>", "missing date format"),
        ("<>", "nothing captured"),
        ("<a}>", "invalid character at position [1]."),
        ("<{now{a{b}}}>", "invalid character in placeholder"),
    ] {
        let found = reason(resolve_date_math(name, NOW_MS));
        assert!(found.contains(why), "{name}: {found}");
    }
    assert!(resolve_date_math("<logs-{soon}>", NOW_MS).is_err());
}

proptest! {
    #[test]
    fn overlap_is_seen(left in "[ab*]{0,6}", right in "[ab*]{0,6}", name in "[ab]{0,6}") {
        if matches_pattern(&left, &name) && matches_pattern(&right, &name) {
            prop_assert!(patterns_overlap(&left, &right));
        }
        prop_assert_eq!(patterns_overlap(&left, &right), patterns_overlap(&right, &left));
        if !right.contains('*') {
            prop_assert_eq!(patterns_overlap(&left, &right), matches_pattern(&left, &right));
        }
    }

    #[test]
    fn names_never_panic(name in "\\PC{0,30}") {
        let _ = resolve_date_math(&name, NOW_MS);
        let _ = resolve_date_math(&format!("<{name}>"), NOW_MS);
        let _ = validate_index_name(&name);
    }
}
