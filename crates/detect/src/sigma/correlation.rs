//! Correlations: rules over the events that match other rules of the same text (Sigma specification 2.0, correlation rules).

use std::sync::Arc;

use rsigma_parser::{
    ConditionExpr, ConditionOperator, CorrelationCondition, CorrelationRule, CorrelationType, WindowMode,
};

use super::load::{Loaded, severity};
use crate::definition::check_field;
use crate::rule::Rule;
use crate::steps::{STEPS_MAX, STEPS_MIN, Step, any_of, rule, step_id};
use crate::window_rule::{Measure, WINDOW_MS_MAX, WINDOW_MS_MIN, WITHIN_MS_MAX, WindowKind};

/// Most fields of `group-by`.
const GROUP_BY_MAX: usize = 100;

/// A correlation with the rules that it refers to.
#[derive(Debug)]
pub(crate) struct Correlated {
    /// What the correlation says for readers. Its condition is that of all its rules together.
    pub(crate) rule: Rule,
    pub(crate) kind: WindowKind,
    pub(crate) steps: Vec<Step>,
    /// Fields as the correlation names them.
    pub(crate) group_by: Vec<String>,
    /// Whether its rules raise alerts of their own.
    pub(crate) generate: bool,
}

pub(super) fn no_such_rule(reference: &str) -> String {
    format!("[correlation.rules] names [{reference}], which is no rule of this text")
}

pub(super) fn of_correlation(reference: &str) -> String {
    format!("[correlation.rules] names [{reference}], a correlation: correlations of correlations are not supported")
}

/// Reads a correlation and its rules. `id` is that of the definition.
///
/// # Errors
/// Why it cannot be evaluated.
pub(crate) fn correlate(id: &str, loaded: Loaded) -> Result<Correlated, String> {
    let [correlation] = &loaded.correlations[..] else {
        let refers = |reference: &String| {
            let mut others = loaded.correlations.iter();
            others.any(|other| other.id == *reference || other.parsed.name.as_ref() == Some(reference))
        };
        let mut references = loaded.correlations.iter().flat_map(|one| &one.references);
        return Err(match references.find(|reference| refers(reference)) {
            Some(reference) => of_correlation(reference),
            None => format!("[sigma] holds {} correlations, not one", loaded.correlations.len()),
        });
    };
    let parsed = &correlation.parsed;
    let timespan_ms = timespan(parsed)?;
    check_aliases(parsed)?;
    if parsed.group_by.len() > GROUP_BY_MAX {
        return Err(format!("[correlation.group-by] has at most [{GROUP_BY_MAX}] members"));
    }
    for (place, field) in parsed.group_by.iter().enumerate() {
        check_field("correlation.group-by", field)?;
        if parsed.group_by[..place].contains(field) {
            return Err(format!("[correlation.group-by] has [{field}] twice"));
        }
    }
    let (kind, value) = kind(parsed, timespan_ms, correlation.has_condition)?;
    let steps = steps(id, parsed, &loaded, value.as_deref())?;
    let needs = |least: usize| match (least..=STEPS_MAX).contains(&steps.len()) {
        true => Ok(()),
        false => Err(format!(
            "[correlation.rules] has {least} to {STEPS_MAX} rules for the type [{}], not [{}]",
            parsed.correlation_type.as_str(),
            steps.len()
        )),
    };
    match kind {
        WindowKind::Sequence { .. } => needs(STEPS_MIN)?,
        _ => needs(1)?,
    }
    let head = Rule {
        title: parsed.title.clone(),
        description: parsed.description.clone().unwrap_or_default(),
        severity: severity(parsed.level),
        tags: parsed.tags.clone(),
        references: parsed.references.clone(),
        false_positives: parsed.falsepositives.clone(),
        author: parsed.author.clone(),
        ..rule(id.to_owned(), any_of(&steps))
    };
    Ok(Correlated {
        rule: head,
        kind,
        steps,
        group_by: parsed.group_by.clone(),
        generate: parsed.generate,
    })
}

fn timespan(parsed: &CorrelationRule) -> Result<u64, String> {
    if parsed.window != WindowMode::Sliding {
        return Err(format!(
            "[window: {}] is not supported: windows end at each event",
            parsed.window.as_str()
        ));
    }
    let most = match parsed.correlation_type {
        CorrelationType::Temporal | CorrelationType::TemporalOrdered => WITHIN_MS_MAX,
        _ => WINDOW_MS_MAX,
    };
    let ms = parsed.timespan.seconds.saturating_mul(1000);
    match (WINDOW_MS_MIN..=most).contains(&ms) {
        true => Ok(ms),
        false => Err(format!(
            "[correlation.timespan] is 1s to {}d for the type [{}], not [{}]",
            most / 86_400_000,
            parsed.correlation_type.as_str(),
            parsed.timespan.original
        )),
    }
}

/// Returns what the correlation counts, and the field whose values it counts.
fn kind(
    parsed: &CorrelationRule,
    timespan_ms: u64,
    has_condition: bool,
) -> Result<(WindowKind, Option<String>), String> {
    let type_name = parsed.correlation_type.as_str();
    let threshold = |of: Measure| {
        let at_least = at_least(parsed)?;
        Ok::<_, String>(WindowKind::Threshold {
            window_ms: timespan_ms,
            of,
            at_least,
        })
    };
    let fields = match &parsed.condition {
        CorrelationCondition::Threshold { field, .. } => field.as_deref().unwrap_or_default(),
        CorrelationCondition::Extended(_) => &[],
    };
    match (parsed.correlation_type, fields) {
        (CorrelationType::ValueCount, [field]) => {
            check_field("correlation.condition.field", field)?;
            Ok((threshold(Measure::Distinct(field.clone()))?, Some(field.clone())))
        }
        (CorrelationType::ValueCount, _) => Err(format!(
            "[correlation.condition.field] names one field, not [{}]",
            fields.len()
        )),
        (CorrelationType::EventCount | CorrelationType::Temporal | CorrelationType::TemporalOrdered, [_, ..]) => Err(
            format!("[correlation.condition.field] does not belong to the type [{type_name}]"),
        ),
        (CorrelationType::EventCount, []) => Ok((threshold(Measure::Count)?, None)),
        (CorrelationType::Temporal | CorrelationType::TemporalOrdered, []) => {
            check_temporal(parsed, has_condition)?;
            let kind = WindowKind::Sequence {
                within_ms: timespan_ms,
                is_ordered: parsed.correlation_type == CorrelationType::TemporalOrdered,
            };
            Ok((kind, None))
        }
        (
            CorrelationType::ValueSum
            | CorrelationType::ValueAvg
            | CorrelationType::ValuePercentile
            | CorrelationType::ValueMedian,
            _,
        ) => Err(format!("the correlation type [{type_name}] is not supported")),
    }
}

/// Returns the least value that meets the condition. Values of a window grow while its events come, so that only a lower bound is known
/// to hold when it is reached.
fn at_least(parsed: &CorrelationRule) -> Result<f64, String> {
    let CorrelationCondition::Threshold { predicates, .. } = &parsed.condition else {
        return Err(format!(
            "[correlation.condition] compares with a number for the type [{}]",
            parsed.correlation_type.as_str()
        ));
    };
    match predicates[..] {
        [(ConditionOperator::Gt, number)] => Ok(number as f64 + 1.0),
        [(ConditionOperator::Gte, number)] if number > 0 => Ok(number as f64),
        [(ConditionOperator::Neq, 0)] => Ok(1.0),
        [(ConditionOperator::Gte, _)] => Err("[correlation.condition]: [gte: 0] always holds".to_owned()),
        [(operator, number)] => {
            let name = operator_name(operator);
            Err(format!(
                "[correlation.condition]: [{name}: {number}] cannot be answered while events come, only [gt] and [gte] can; \
                 a rule of the type [absence] finds what does not come"
            ))
        }
        _ => Err(
            "[correlation.condition] has one of [gt] and [gte]: a range cannot be answered while events come"
                .to_owned(),
        ),
    }
}

fn operator_name(operator: ConditionOperator) -> &'static str {
    match operator {
        ConditionOperator::Lt => "lt",
        ConditionOperator::Lte => "lte",
        ConditionOperator::Gt => "gt",
        ConditionOperator::Gte => "gte",
        ConditionOperator::Eq => "eq",
        ConditionOperator::Neq => "neq",
    }
}

/// Checks that all rules have to match, which is what a temporal correlation without a condition says. A number is that of the rules
/// that match: `gte: 1` is met by any of them.
fn check_temporal(parsed: &CorrelationRule, has_condition: bool) -> Result<(), String> {
    let count = parsed.rules.len() as u64;
    let all_match = match &parsed.condition {
        _ if !has_condition => true,
        CorrelationCondition::Threshold { predicates, .. } => match predicates[..] {
            [(ConditionOperator::Gte, number)] => number == count,
            [(ConditionOperator::Eq, number)] => number == count,
            [(ConditionOperator::Gt, number)] => number + 1 == count,
            _ => false,
        },
        CorrelationCondition::Extended(ConditionExpr::And(parts)) => {
            let is_named = |rule: &String| {
                let mut parts = parts.iter();
                parts.any(|part| matches!(part, ConditionExpr::Identifier(name) if name == rule))
            };
            parts.len() == parsed.rules.len() && parsed.rules.iter().all(is_named)
        }
        CorrelationCondition::Extended(_) => false,
    };
    match all_match {
        true => Ok(()),
        false => Err(format!(
            "[correlation.condition] of the type [{}] can only say that all rules match",
            parsed.correlation_type.as_str()
        )),
    }
}

fn check_aliases(parsed: &CorrelationRule) -> Result<(), String> {
    for alias in &parsed.aliases {
        let mut of_alias: Vec<&String> = alias.mapping.keys().collect();
        of_alias.sort_unstable();
        if let Some(other) = of_alias.into_iter().find(|name| !parsed.rules.contains(name)) {
            return Err(format!(
                "[correlation.aliases.{}] names [{other}], which is not in [correlation.rules]",
                alias.alias
            ));
        }
        for field in alias.mapping.values() {
            check_field("correlation.aliases", field)?;
        }
    }
    Ok(())
}

fn steps(id: &str, parsed: &CorrelationRule, loaded: &Loaded, value: Option<&str>) -> Result<Vec<Step>, String> {
    let mut is_used = vec![false; loaded.rules.len()];
    let mut steps: Vec<Step> = Vec::with_capacity(parsed.rules.len());
    for reference in &parsed.rules {
        let place = (0..loaded.rules.len())
            .find(|place| loaded.names[*place].as_ref() == Some(reference) || loaded.rules[*place].id == *reference);
        let place = place.ok_or_else(|| no_such_rule(reference))?;
        if std::mem::replace(&mut is_used[place], true) {
            return Err(format!("[correlation.rules] names the rule [{reference}] twice"));
        }
        let own = |field: &str| {
            let alias = parsed.aliases.iter().find(|alias| alias.alias == field);
            let mapped = alias.and_then(|alias| alias.mapping.get(reference));
            mapped.map_or_else(|| field.to_owned(), String::clone)
        };
        let base = &loaded.rules[place];
        steps.push(Step {
            name: reference.clone(),
            record_keys: parsed.group_by.iter().map(|field| own(field)).collect(),
            record_value: value.map(own),
            rule: Arc::new(Rule {
                id: step_id(id, steps.len()),
                ..base.clone()
            }),
        });
    }
    match is_used.iter().position(|is_used| !is_used) {
        None => Ok(steps),
        Some(place) => Err(format!(
            "[sigma] has the rule [{}], which its correlation does not refer to",
            loaded.rules[place].title
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sigma::{bundles, load};

    const BASES: &str = "title: Failed\nname: failed\nid: id-1\nlogsource: {product: windows}\ndetection: {s: {EventID: 4625}, condition: s}\n---\n\
        title: Logon\nname: logon\nlogsource: {product: windows}\ndetection: {s: {EventID: 4624}, condition: s}\n";

    fn read(correlation: &str) -> Result<Correlated, String> {
        let text = format!("{BASES}---\ntitle: Both\nid: both\nlevel: high\ncorrelation:\n{correlation}");
        let loaded = load(&text);
        assert!(loaded.errors.is_empty(), "{:?}", loaded.errors);
        correlate("r", loaded)
    }

    #[test]
    fn a_correlation_is_a_rule_over_several_events() {
        let temporal = read(
            "  type: temporal_ordered\n  rules: [failed, logon]\n  group-by: [User, Computer]\n  timespan: 5m\n\
             \u{20}\u{20}aliases: {User: {failed: TargetUserName, logon: SubjectUserName}}\n",
        )
        .unwrap();
        let ordered = WindowKind::Sequence {
            within_ms: 300_000,
            is_ordered: true,
        };
        assert_eq!((temporal.kind, temporal.generate), (ordered, false));
        assert_eq!(temporal.group_by, ["User", "Computer"]);
        let keys: Vec<_> = temporal.steps.iter().map(|step| &step.record_keys[..]).collect();
        assert_eq!(keys, [["TargetUserName", "Computer"], ["SubjectUserName", "Computer"]]);
        let count =
            read("  type: event_count\n  rules: [id-1, logon]\n  timespan: 1h\n  condition: {gt: 9}\n").unwrap();
        let threshold = |of, at_least| WindowKind::Threshold {
            window_ms: 3_600_000,
            of,
            at_least,
        };
        assert_eq!(count.kind, threshold(Measure::Count, 10.0));
        let values = read(
            "  type: value_count\n  rules: [failed, logon]\n  timespan: 1h\n  condition: {gte: 3, field: EventID}\n",
        )
        .unwrap();
        assert_eq!(values.kind, threshold(Measure::Distinct("EventID".to_owned()), 3.0));
        assert_eq!(values.steps[1].record_value.as_deref(), Some("EventID"));
    }

    #[test]
    fn what_a_stream_cannot_answer_is_refused_by_name() {
        let count = |rest: &str| format!("  type: event_count\n  rules: [failed, logon]\n  timespan: 1h\n{rest}");
        let temporal = |rest: &str| format!("  type: temporal\n  rules: [failed, logon]\n  timespan: 1h\n{rest}");
        for (text, reason) in [
            (count("  condition: {lt: 3}\n"), "[lt: 3]"),
            (count("  condition: {eq: 3}\n"), "[eq: 3]"),
            (count("  condition: {neq: 3}\n"), "[neq: 3]"),
            (count("  condition: {gt: 3, lte: 9}\n"), "a range"),
            (count("  condition: {gte: 0}\n"), "[gte: 0]"),
            (
                count("  condition: {gte: 2, field: a}\n"),
                "[correlation.condition.field]",
            ),
            (
                count("  condition: {gte: 2}\n  window: tumbling\n"),
                "[window: tumbling]",
            ),
            (temporal("  condition: failed or logon\n"), "all rules match"),
            (temporal("  condition: {lt: 2}\n"), "all rules match"),
            // Any of the rules meets it.
            (temporal("  condition: {gte: 1}\n"), "all rules match"),
            (temporal("  aliases: {u: {other: a}}\n"), "[other]"),
            (
                "  type: temporal\n  rules: [failed, gone]\n  timespan: 1h\n".to_owned(),
                "[gone], which is no rule",
            ),
            (
                "  type: temporal\n  rules: [failed]\n  timespan: 1h\n".to_owned(),
                "[Logon]",
            ),
            (
                "  type: temporal\n  rules: [failed, logon]\n  timespan: 30d\n".to_owned(),
                "[30d]",
            ),
            (
                "  type: value_count\n  rules: [failed, logon]\n  timespan: 1h\n  condition: {gte: 3}\n".to_owned(),
                "[correlation.condition.field]",
            ),
            (
                "  type: value_sum\n  rules: [failed, logon]\n  timespan: 1h\n  condition: {gte: 3, field: a}\n"
                    .to_owned(),
                "[value_sum]",
            ),
        ] {
            let refused = read(&text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        for same in [
            "",
            "  condition: failed and logon\n",
            "  condition: {gte: 2}\n",
            "  condition: {gt: 1}\n",
        ] {
            assert!(read(&temporal(same)).is_ok(), "{same}");
        }
    }

    #[test]
    fn an_import_keeps_a_correlation_with_its_rules() {
        let correlation = |title: &str, rules: &str| {
            format!(
                "---\ntitle: {title}\nid: {title}\ncorrelation:\n  type: temporal\n  rules: {rules}\n  timespan: 1h\n"
            )
        };
        let alone =
            "---\ntitle: Alone\nid: alone\nlogsource: {product: windows}\ndetection: {s: {EventID: 1}, condition: s}\n";
        let text = format!(
            "{BASES}{}{}{}{alone}",
            correlation("both", "[failed, logon]"),
            correlation("gone", "[failed, lost]"),
            correlation("nested", "[both, failed]")
        );
        let (found, refused) = bundles(&text);
        let ids: Vec<&str> = found.iter().map(|bundle| bundle.id.as_str()).collect();
        assert_eq!(ids, ["both", "alone"]);
        assert_eq!(load(&found[0].text).rules.len(), 2);
        assert!(correlate("both", load(&found[0].text)).is_ok());
        let refused: Vec<(&str, &str)> = refused
            .iter()
            .map(|one| (one.error.id.as_str(), one.error.reason.as_str()))
            .collect();
        assert_eq!(refused.len(), 2);
        assert!(
            refused[0].0 == "gone" && refused[0].1.contains("[lost], which is no rule"),
            "{refused:?}"
        );
        assert!(
            refused[1].0 == "nested" && refused[1].1.contains("[both], a correlation"),
            "{refused:?}"
        );
        // Rules whose correlation is refused are not stored alone.
        let (found, refused) = bundles(&format!("{BASES}{}", correlation("gone", "[failed, lost]")));
        assert_eq!(
            found.iter().map(|bundle| bundle.id.as_str()).collect::<Vec<_>>(),
            ["Logon"]
        );
        assert_eq!(refused.len(), 2);
    }
}
