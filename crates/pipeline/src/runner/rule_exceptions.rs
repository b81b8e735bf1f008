//! Exceptions of rules: events that raise no alert although they match.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_detect::{DetectionRule, Expression, LogSource, LogSources, Rule, RuleSet};

#[derive(Debug)]
pub(super) struct CompiledExceptions {
    pub(super) set: Arc<RuleSet>,
    /// By the numbers that evaluators report: the id of the rule, and when the exception ends, ms since the epoch.
    pub(super) of: Vec<(String, Option<i64>)>,
}

impl CompiledExceptions {
    /// Compiles the exceptions of rules: those of a rule that end at the same time are one condition.
    pub(super) fn compile<'r>(pipeline: &str, rules: impl Iterator<Item = &'r Arc<DetectionRule>>) -> Option<Self> {
        let mut all = Vec::new();
        let mut of = Vec::new();
        for rule in rules {
            let mut by_end: BTreeMap<Option<i64>, Vec<Expression>> = BTreeMap::new();
            for exception in &rule.exceptions {
                by_end
                    .entry(exception.expires_ms)
                    .or_default()
                    .push(exception.condition.clone());
            }
            for (expires_ms, conditions) in by_end {
                all.push(Rule {
                    id: of.len().to_string(),
                    condition: Expression::Or(conditions),
                    log_source: LogSource::default(),
                    ..rule.rule.clone()
                });
                of.push((rule.rule.id.clone(), expires_ms));
            }
        }
        let compiled = RuleSet::compile(all, &LogSources::Any);
        for error in compiled.errors {
            tracing::error!(
                pipeline,
                "an exception of a detection rule cannot be evaluated: {error}"
            );
        }
        let kept = compiled.rules.rules().iter();
        let of: Vec<_> = kept
            .filter_map(|rule| of.get(rule.id.parse::<usize>().ok()?).cloned())
            .collect();
        (!of.is_empty()).then(|| Self {
            set: Arc::new(compiled.rules),
            of,
        })
    }
}
