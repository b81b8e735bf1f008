//! What the definitions of detection rules are read as, by definition: to parse a rule takes up to a millisecond, and there may be ten thousand.

use std::collections::HashMap;
use std::sync::Arc;

use firn_detect::{DetectionRule, rule_summary};
use parking_lot::Mutex;
use serde_json::{Map, Value};

type Definition = Arc<Map<String, Value>>;

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
    verdicts: ByDefinition<RuleVerdict>,
}

impl RuleDefinitions {
    /// Returns the summaries of all rules.
    pub(crate) fn summaries<'r>(&self, rules: impl Iterator<Item = (&'r String, &'r Definition)>) -> Value {
        let summaries = self
            .summaries
            .of_all(rules, |id, definition| Arc::new(rule_summary(id, definition)));
        let printed = summaries
            .into_iter()
            .map(|(id, summary)| (id, Value::Object((*summary).clone())));
        Value::Object(printed.collect())
    }

    /// Returns whether each of the rules can be used.
    pub(crate) fn verdicts<'r>(
        &self,
        rules: impl Iterator<Item = (&'r String, &'r Definition)>,
    ) -> Vec<(String, RuleVerdict)> {
        self.verdicts.of_all(rules, |id, definition| {
            // As the pipelines read it.
            let parsed = DetectionRule::parse(id, definition);
            RuleVerdict {
                is_enabled: parsed.as_ref().is_ok_and(|rule| rule.enabled),
                error: parsed.err().map(|error| error.reason().to_owned()),
            }
        })
    }
}

/// Results by the id of the rule, each with the definition that it is of.
#[derive(Debug)]
struct ByDefinition<T>(Mutex<HashMap<String, (Definition, T)>>);

impl<T> Default for ByDefinition<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> ByDefinition<T> {
    /// Reads the rules whose definitions have changed. Results of rules that are gone are forgotten.
    fn of_all<'r>(
        &self,
        rules: impl Iterator<Item = (&'r String, &'r Definition)>,
        read: impl Fn(&str, &Definition) -> T,
    ) -> Vec<(String, T)> {
        let mut known = std::mem::take(&mut *self.0.lock());
        let mut current = HashMap::with_capacity(known.len());
        let mut all = Vec::new();
        for (id, definition) in rules {
            let result = match known.remove(id) {
                Some((of, result)) if Arc::ptr_eq(&of, definition) || of == *definition => result,
                _ => read(id, definition),
            };
            all.push((id.clone(), result.clone()));
            current.insert(id.clone(), (Arc::clone(definition), result));
        }
        *self.0.lock() = current;
        all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn definition(title: &str) -> Definition {
        let sigma =
            format!("title: {title}\nlogsource: {{product: windows}}\ndetection: {{s: {{a: 1}}, condition: s}}\n");
        Arc::new(json!({"type": "sigma", "sigma": sigma}).as_object().unwrap().clone())
    }

    #[test]
    fn a_rule_is_read_again_only_if_its_definition_changes() {
        let mut rules = BTreeMap::from([("a".to_owned(), definition("One")), ("b".to_owned(), definition("Two"))]);
        let (results, read) = (ByDefinition::default(), RefCell::new(Vec::new()));
        let look = |rules: &BTreeMap<String, Definition>| {
            let all = results.of_all(rules.iter(), |id, _| read.borrow_mut().push(id.to_owned()));
            let ids: Vec<String> = all.into_iter().map(|(id, ())| id).collect();
            (ids.join(" "), read.take().join(" "))
        };
        let is = |all: &str, read: &str| (all.to_owned(), read.to_owned());
        assert_eq!(look(&rules), is("a b", "a b"));
        rules.insert("b".to_owned(), definition("Three"));
        // The same text in another place is no change.
        rules.insert("a".to_owned(), definition("One"));
        assert_eq!(look(&rules), is("a b", "b"));
        let b = rules.remove("b").unwrap();
        assert_eq!(look(&rules), is("a", ""));
        rules.insert("b".to_owned(), b);
        assert_eq!(look(&rules), is("a b", "b"));
    }

    #[test]
    fn summaries_and_verdicts_are_those_of_the_definitions() {
        let broken = json!({"type": "query", "name": "x", "query": "a: ("});
        let disabled = json!({"type": "query", "name": "x", "query": "a: 1", "enabled": false});
        let object = |body: Value| Arc::new(body.as_object().unwrap().clone());
        let rules = BTreeMap::from([
            ("a".to_owned(), definition("One")),
            ("b".to_owned(), object(broken)),
            ("c".to_owned(), object(disabled)),
        ]);
        let definitions = RuleDefinitions::default();
        let summaries = definitions.summaries(rules.iter());
        assert_eq!(
            (&summaries["a"]["name"], &summaries["c"]["enabled"]),
            (&json!("One"), &json!(false))
        );
        let verdicts = definitions.verdicts(rules.iter());
        let of = |place: usize| (verdicts[place].1.is_enabled, verdicts[place].1.error.is_some());
        assert_eq!([of(0), of(1), of(2)], [(true, false), (false, true), (false, false)]);
    }
}
