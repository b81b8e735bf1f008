//! What the definitions of detection rules are read as, by definition: to parse a rule takes up to a millisecond, and there may be ten thousand.

use std::sync::Arc;

use firn_detect::{DetectionRule, rule_summary};
use firn_engine::Error;
use firn_pipeline::parsed_rules::{ByDefinition, ParsedRules, RuleBody};
use serde_json::{Map, Value};

/// What the stats of rules say of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleVerdict {
    /// Whether pipelines evaluate the rule.
    pub(crate) is_enabled: bool,
    /// Why it cannot be used.
    pub(crate) error: Option<String>,
}

/// Results of reading the rules of the last list.
#[derive(Debug, Default)]
pub(crate) struct RuleDefinitions {
    summaries: ByDefinition<Arc<Map<String, Value>>>,
    /// Of a node without pipelines.
    parsed: ParsedRules,
}

impl RuleDefinitions {
    /// Returns the summaries of all rules.
    pub(crate) fn summaries<'r>(&self, rules: impl Iterator<Item = (&'r String, &'r RuleBody)>) -> Value {
        let summaries = self
            .summaries
            .of_all(rules, |id, definition| Arc::new(rule_summary(id, definition)));
        let printed = summaries
            .into_iter()
            .map(|(id, summary)| (id, Value::Object((*summary).clone())));
        Value::Object(printed.collect())
    }

    /// Returns whether each of the rules can be used. `parsed` is what the pipelines of the node have read, if there are any.
    pub(crate) fn verdicts<'r>(
        &self,
        parsed: Option<&ParsedRules>,
        rules: impl Iterator<Item = (&'r String, &'r RuleBody)>,
    ) -> Vec<(String, RuleVerdict)> {
        let parsed = parsed.unwrap_or(&self.parsed).of_all(rules).into_iter();
        let verdict = |(id, rule): (String, Result<Arc<DetectionRule>, Error>)| {
            let verdict = RuleVerdict {
                is_enabled: rule.as_ref().is_ok_and(|rule| rule.enabled),
                error: rule.err().map(|error| error.reason().to_owned()),
            };
            (id, verdict)
        };
        parsed.map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn summaries_and_verdicts_are_those_of_the_definitions() {
        let sigma = "title: One\nlogsource: {product: windows}\ndetection: {s: {a: 1}, condition: s}\n";
        let usable = json!({"type": "sigma", "sigma": sigma});
        let broken = json!({"type": "query", "name": "x", "query": "a: ("});
        let disabled = json!({"type": "query", "name": "x", "query": "a: 1", "enabled": false});
        let object = |body: Value| Arc::new(body.as_object().unwrap().clone());
        let rules = BTreeMap::from([
            ("a".to_owned(), object(usable)),
            ("b".to_owned(), object(broken)),
            ("c".to_owned(), object(disabled)),
        ]);
        let definitions = RuleDefinitions::default();
        let summaries = definitions.summaries(rules.iter());
        assert_eq!(
            (&summaries["a"]["name"], &summaries["c"]["enabled"]),
            (&json!("One"), &json!(false))
        );
        let verdicts = definitions.verdicts(None, rules.iter());
        let of = |place: usize| (verdicts[place].1.is_enabled, verdicts[place].1.error.is_some());
        assert_eq!([of(0), of(1), of(2)], [(true, false), (false, true), (false, false)]);
    }
}
