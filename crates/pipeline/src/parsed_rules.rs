//! Definitions of detection rules as they are read: to parse a rule takes up to a millisecond, and there may be ten thousand.

use std::collections::HashMap;
use std::sync::Arc;

use firn_detect::DetectionRule;
use firn_model::Result;
use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Definition of a rule.
pub type RuleBody = Arc<Map<String, Value>>;

/// Rules by their definitions, shared by all who read them. All methods may be called concurrently.
#[derive(Debug, Default)]
pub struct ParsedRules(ByDefinition<Result<Arc<DetectionRule>>>);

impl ParsedRules {
    /// Returns all rules, or why one cannot be used, in the order of the definitions. Only those whose definitions have changed since
    /// the last call are read.
    pub fn of_all<'r>(
        &self,
        rules: impl Iterator<Item = (&'r String, &'r RuleBody)>,
    ) -> Vec<(String, Result<Arc<DetectionRule>>)> {
        self.0
            .of_all(rules, |id, body| DetectionRule::parse(id, body).map(Arc::new))
    }
}

/// Results by the id of the rule, each with the definition that it is of.
#[derive(Debug)]
pub struct ByDefinition<T>(Mutex<HashMap<String, (RuleBody, T)>>);

impl<T> Default for ByDefinition<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> ByDefinition<T> {
    /// Reads the rules whose definitions have changed. Results of rules that are gone are forgotten. A caller that comes meanwhile waits,
    /// and reads nothing twice.
    pub fn of_all<'r>(
        &self,
        rules: impl Iterator<Item = (&'r String, &'r RuleBody)>,
        read: impl Fn(&str, &RuleBody) -> T,
    ) -> Vec<(String, T)> {
        let mut known = self.0.lock();
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
        *known = current;
        all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn definition(title: &str) -> RuleBody {
        let sigma =
            format!("title: {title}\nlogsource: {{product: windows}}\ndetection: {{s: {{a: 1}}, condition: s}}\n");
        Arc::new(json!({"type": "sigma", "sigma": sigma}).as_object().unwrap().clone())
    }

    #[test]
    fn a_rule_is_read_again_only_if_its_definition_changes() {
        let mut rules = BTreeMap::from([("a".to_owned(), definition("One")), ("b".to_owned(), definition("Two"))]);
        let (results, read) = (ByDefinition::default(), RefCell::new(Vec::new()));
        let look = |rules: &BTreeMap<String, RuleBody>| {
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
    fn unchanged_rules_are_the_same_values() {
        let rules = BTreeMap::from([("a".to_owned(), definition("One")), ("b".to_owned(), definition("Two"))]);
        let parsed = ParsedRules::default();
        let look = |rules: &BTreeMap<String, RuleBody>| {
            let all = parsed.of_all(rules.iter()).into_iter();
            all.map(|(_, rule)| rule.unwrap()).collect::<Vec<_>>()
        };
        let before = look(&rules);
        let mut changed = rules.clone();
        changed.insert("b".to_owned(), definition("Three"));
        let after = look(&changed);
        assert!(Arc::ptr_eq(&before[0], &after[0]) && !Arc::ptr_eq(&before[1], &after[1]));
    }
}
