//! Exceptions of rules: events that raise no alert although they match.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firn_detect::{DetectionRule, Expression, LogSource, LogSources, Rule, RuleSet};

use super::rule_sets::RuleSets;

#[derive(Debug)]
pub(super) struct CompiledExceptions {
    pub(super) set: Arc<RuleSet>,
    /// By the numbers that evaluators report: the id of the rule, and when the exception ends, ms since the epoch.
    pub(super) of: Vec<(String, Option<i64>)>,
}

impl CompiledExceptions {
    /// Compiles the exceptions of rules: those of a rule that end at the same time are one condition.
    pub(super) fn compile<'r>(
        pipeline: &str,
        rules: impl Iterator<Item = &'r Arc<DetectionRule>>,
        sets: &RuleSets,
        previous: Option<&Self>,
    ) -> Option<Self> {
        let mut all = Vec::new();
        let mut of = HashMap::new();
        for rule in rules {
            let mut by_end: BTreeMap<Option<i64>, Vec<Expression>> = BTreeMap::new();
            for exception in &rule.exceptions {
                by_end
                    .entry(exception.expires_ms)
                    .or_default()
                    .push(exception.condition.clone());
            }
            for (expires_ms, conditions) in by_end {
                // No rule and no step has such an id.
                let id = format!("{}\u{1f}exceptions {expires_ms:?}", rule.rule.id);
                of.insert(id.clone(), (rule.rule.id.clone(), expires_ms));
                all.push(Arc::new(Rule {
                    id,
                    condition: Expression::Or(conditions),
                    log_source: LogSource::default(),
                    ..Rule::clone(&rule.rule)
                }));
            }
        }
        if all.is_empty() {
            return None;
        }
        let previous = previous.map(|previous| &previous.set);
        let compiled = sets.compile(previous, all, &LogSources::Any, []);
        for error in compiled.errors {
            tracing::error!(
                pipeline,
                "an exception of a detection rule cannot be evaluated: {error}"
            );
        }
        let usable = compiled.set.rules().iter();
        let of: Vec<_> = usable.filter_map(|rule| of.remove(&rule.id)).collect();
        (!of.is_empty()).then_some(Self { set: compiled.set, of })
    }
}
