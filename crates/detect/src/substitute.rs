//! Conditions for events that stand in for others and lack some of their fields.
//!
//! The logic has three values (Kleene's): a test of a field without a value is unknown, and a condition holds only if it is true.
//! Thus `selection and not filter` does not hold if the event lacks a field of the filter that decides.

use crate::expression::{Expression, Field, FieldTest, Test};
use crate::glob::{Pattern, Token};
use crate::log_sources::Substitute;

/// Returns the condition that holds if `condition` is true of an event of this log source for each value of its unknown fields.
pub(crate) fn for_substitute(condition: &Expression, substitute: &Substitute) -> Expression {
    when(condition, true, substitute)
}

/// Returns the condition under which an expression is surely true, or surely false.
fn when(expression: &Expression, wanted: bool, substitute: &Substitute) -> Expression {
    let each = |inner: &[Expression]| inner.iter().map(|inner| when(inner, wanted, substitute)).collect();
    match (expression, wanted) {
        (Expression::And(inner), true) | (Expression::Or(inner), false) => Expression::And(each(inner)),
        (Expression::And(inner), false) | (Expression::Or(inner), true) => Expression::Or(each(inner)),
        (Expression::AtLeast(count, inner), true) => Expression::AtLeast(*count, each(inner)),
        (Expression::AtLeast(count, inner), false) => match (inner.len() + 1).checked_sub(*count) {
            // So many cannot hold.
            None => Expression::And(Vec::new()),
            Some(failing) => Expression::AtLeast(failing, each(inner)),
        },
        (Expression::Not(inner), wanted) => when(inner, !wanted, substitute),
        (Expression::Test(test), wanted) => leaf(test, wanted, substitute),
    }
}

fn leaf(test: &FieldTest, wanted: bool, substitute: &Substitute) -> Expression {
    let never = || Expression::Or(Vec::new());
    let own = |test: Test, field: Field| Expression::Test(FieldTest { field, test });
    let Field::Named(name) = &test.field else {
        let test = Expression::Test(test.clone());
        return match wanted {
            true => test,
            // The text may be in a field that the event lacks.
            false => never(),
        };
    };
    let is_partial = |name: &str| substitute.partial.iter().any(|partial| partial == name);
    let Some(field) = renamed(name, substitute) else {
        return never();
    };
    let mut known = vec![has_text(&field)];
    let mut inner = test.test.clone();
    let mut is_partial_test = is_partial(name);
    if let Test::OtherField { name, .. } = &mut inner {
        is_partial_test |= is_partial(name);
        let Some(other) = renamed(name, substitute) else {
            return never();
        };
        known.push(has_text(&other));
        *name = other;
    }
    if is_partial_test && !wanted {
        return never();
    }
    // Also of the test for null: that a value is missing here does not tell that it would be missing there.
    let test = own(inner, Field::Named(field));
    known.push(match wanted {
        true => test,
        false => Expression::Not(Box::new(test)),
    });
    Expression::And(known)
}

/// Returns the name of a field here; `None`: it is unknown.
fn renamed(name: &str, substitute: &Substitute) -> Option<Box<str>> {
    match substitute.fields.iter().find(|(own, _)| own == name) {
        Some((_, here)) => here.as_deref().map(Box::from),
        None => Some(name.into()),
    }
}

/// A value other than the empty text, which stands for one that was not recorded.
fn has_text(field: &str) -> Expression {
    Expression::Test(FieldTest {
        field: Field::Named(field.into()),
        test: Test::Text(Pattern::new([Token::AnyCharacter, Token::AnyText], true)),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use crate::evaluator::Evaluator;
    use crate::log_sources::{LogSource, LogSourceEntry, LogSources, Substitute};
    use crate::rule_set::RuleSet;
    use crate::sigma;

    /// Events of two kinds: `full` are those that rules are written for, `less` stand in for them.
    fn sources() -> LogSources {
        let source = |service: &str| LogSource {
            category: Some("process_creation".to_owned()),
            product: Some("windows".to_owned()),
            service: Some(service.to_owned()),
        };
        let when = |kind: &str| vec![("kind".to_owned(), vec![kind.to_owned()])];
        LogSources::Known(vec![
            LogSourceEntry {
                log_source: source("sysmon"),
                when: when("full"),
                substitute: None,
            },
            LogSourceEntry {
                log_source: source("security"),
                when: when("less"),
                substitute: Some(Substitute {
                    fields: vec![
                        ("Image".to_owned(), Some("NewProcessName".to_owned())),
                        ("ProcessId".to_owned(), None),
                    ],
                    partial: vec!["Part".to_owned()],
                }),
            },
        ])
    }

    fn is_match(detection: &str, event: &Value) -> bool {
        let yaml =
            format!("title: t\nlogsource: {{category: process_creation, product: windows}}\ndetection:\n{detection}\n");
        let loaded = sigma::load(&yaml);
        assert_eq!(loaded.errors, [], "{yaml}");
        let compiled = RuleSet::compile(loaded.rules, &sources());
        assert!(compiled.errors.is_empty() && compiled.unmapped.is_empty(), "{yaml}");
        let mut evaluator = Evaluator::new(Arc::new(compiled.rules));
        evaluator.begin();
        evaluator.push_object(event.as_object().unwrap());
        let mut matches = Vec::new();
        evaluator.evaluate(&mut matches);
        assert!(matches.len() <= 1, "one rule matches once");
        matches.len() == 1
    }

    #[test]
    fn an_unknown_field_never_makes_a_rule_match() {
        let less = |mut event: Value| {
            event["kind"] = "less".into();
            event
        };
        for (detection, event, expect) in [
            ("  s: {Image: a}\n  condition: s", json!({"NewProcessName": "a"}), true),
            // The rule's own name is not the one of these events.
            ("  s: {Image: a}\n  condition: s", json!({"Image": "a"}), false),
            (
                "  s: {Hashes: a}\n  condition: s",
                json!({"NewProcessName": "a"}),
                false,
            ),
            (
                "  s: {Image: a}\n  f: {Hashes: b}\n  condition: s and not f",
                json!({"NewProcessName": "a"}),
                false,
            ),
            (
                "  s: {Image: a}\n  f: {Hashes: b}\n  condition: s and not f",
                json!({"NewProcessName": "a", "Hashes": "c"}),
                true,
            ),
            (
                "  s: {Image: a}\n  f: {Hashes: b}\n  condition: s and not f",
                json!({"NewProcessName": "a", "Hashes": ""}),
                false,
            ),
            // The filter fails by what is known.
            (
                "  s: {Image: a}\n  f: {Hashes: b, Image: x}\n  condition: s and not f",
                json!({"NewProcessName": "a"}),
                true,
            ),
            (
                "  s: {Image: a}\n  f: {Hashes: b}\n  condition: s or not f",
                json!({"NewProcessName": "a"}),
                true,
            ),
            (
                "  s: {Image: a}\n  f: {CommandLine: null}\n  condition: s and f",
                json!({"NewProcessName": "a"}),
                false,
            ),
            (
                "  s: {Image: a}\n  f: {CommandLine: ''}\n  condition: s and f",
                json!({"NewProcessName": "a", "CommandLine": ""}),
                false,
            ),
            (
                "  s: {Image: a}\n  f: {CommandLine: null}\n  condition: s and not f",
                json!({"NewProcessName": "a"}),
                false,
            ),
            (
                "  s: {Image: a}\n  f: {CommandLine: null}\n  condition: s and not f",
                json!({"NewProcessName": "a", "CommandLine": "b"}),
                true,
            ),
            (
                "  s: {Image: a}\n  f: {CommandLine|exists: false}\n  condition: s and f",
                json!({"NewProcessName": "a"}),
                false,
            ),
            ("  s: {ProcessId: 4}\n  condition: s", json!({"ProcessId": 4}), false),
            (
                "  s: {Image: a}\n  f: {ProcessId: 4}\n  condition: s and not f",
                json!({"NewProcessName": "a", "ProcessId": 5}),
                false,
            ),
            ("  s: {Part|contains: a}\n  condition: s", json!({"Part": "xax"}), true),
            (
                "  s: {Part|contains: a}\n  f: {Part|contains: b}\n  condition: s and not f",
                json!({"Part": "xax"}),
                false,
            ),
            (
                "  s: {Image|fieldref: Other}\n  condition: s",
                json!({"NewProcessName": "a", "Other": "a"}),
                true,
            ),
            (
                "  s: {Image: a}\n  f: {Image|fieldref: Other}\n  condition: s and not f",
                json!({"NewProcessName": "a"}),
                false,
            ),
            (
                "  s: {Image: a}\n  f: {Image|fieldref: Other}\n  condition: s and not f",
                json!({"NewProcessName": "a", "Other": "b"}),
                true,
            ),
            (
                "  s1: {Image: a}\n  s2: {Hashes: b}\n  s3: {C: d}\n  condition: not 2 of s*",
                json!({"NewProcessName": "x", "C": "x"}),
                true,
            ),
            (
                "  s1: {Image: a}\n  s2: {Hashes: b}\n  s3: {C: d}\n  condition: not 2 of s*",
                json!({"NewProcessName": "a", "C": "x"}),
                false,
            ),
            ("  k: [word]\n  condition: k", json!({"NewProcessName": "a word"}), true),
            (
                "  s: {Image: a}\n  k: [word]\n  condition: s and not k",
                json!({"NewProcessName": "a"}),
                false,
            ),
        ] {
            let event = less(event);
            assert_eq!(is_match(detection, &event), expect, "{detection}\n{event}");
        }
    }

    #[test]
    fn events_that_rules_are_written_for_are_evaluated_as_before() {
        let filtered = "  s: {Image: a}\n  f: {Hashes: b}\n  condition: s and not f";
        assert!(is_match(filtered, &json!({"kind": "full", "Image": "a"})));
        assert!(!is_match(filtered, &json!({"kind": "full", "NewProcessName": "a"})));
        // An event of both kinds: the rule matches once.
        assert!(is_match(
            filtered,
            &json!({"kind": ["full", "less"], "Image": "a", "NewProcessName": "a", "Hashes": "c"})
        ));
    }
}
