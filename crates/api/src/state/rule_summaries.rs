//! What lists show of detection rules, by definition: a summary of a Sigma rule reads its YAML, which takes 0.3 ms.

use std::collections::HashMap;
use std::sync::Arc;

use firn_detect::rule_summary;
use parking_lot::Mutex;
use serde_json::{Map, Value};

type Definition = Arc<Map<String, Value>>;
type Summary = Arc<Map<String, Value>>;

/// Summaries of the rules of the last list.
#[derive(Debug, Default)]
pub(crate) struct RuleSummaries {
    /// By id, with the definition that the summary is of.
    by_id: Mutex<HashMap<String, (Definition, Summary)>>,
}

impl RuleSummaries {
    /// Returns the summaries of all rules. Those of rules that are gone are forgotten.
    pub(crate) fn of_all<'r>(&self, rules: impl Iterator<Item = (&'r String, &'r Definition)>) -> Value {
        let mut known = std::mem::take(&mut *self.by_id.lock());
        let mut current = HashMap::with_capacity(known.len());
        let mut printed = Map::new();
        for (id, definition) in rules {
            let summary = match known.remove(id) {
                Some((of, summary)) if Arc::ptr_eq(&of, definition) || of == *definition => summary,
                _ => Arc::new(rule_summary(id, definition)),
            };
            printed.insert(id.clone(), Value::Object((*summary).clone()));
            current.insert(id.clone(), (Arc::clone(definition), summary));
        }
        *self.by_id.lock() = current;
        Value::Object(printed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_is_read_again_only_if_its_definition_changes() {
        let definition = |title: &str| -> Definition {
            let sigma =
                format!("title: {title}\nlogsource: {{product: windows}}\ndetection: {{s: {{a: 1}}, condition: s}}\n");
            Arc::new(json!({"type": "sigma", "sigma": sigma}).as_object().unwrap().clone())
        };
        let mut rules = BTreeMap::from([("a".to_owned(), definition("One")), ("b".to_owned(), definition("Two"))]);
        let summaries = RuleSummaries::default();
        let names = |summaries: &RuleSummaries, rules: &BTreeMap<String, Definition>| {
            let all = summaries.of_all(rules.iter());
            let all = all.as_object().unwrap().iter();
            all.map(|(id, summary)| format!("{id} {}", summary["name"].as_str().unwrap()))
                .collect::<Vec<_>>()
        };
        let summary_of = |id: &str| summaries.by_id.lock().get(id).map(|(_, summary)| Arc::clone(summary));
        assert_eq!(names(&summaries, &rules), ["a One", "b Two"]);
        let (a, b) = (summary_of("a").unwrap(), summary_of("b").unwrap());
        rules.insert("b".to_owned(), definition("Three"));
        // The same text in another place is no change.
        rules.insert("a".to_owned(), definition("One"));
        assert_eq!(names(&summaries, &rules), ["a One", "b Three"]);
        assert!(Arc::ptr_eq(&summary_of("a").unwrap(), &a) && !Arc::ptr_eq(&summary_of("b").unwrap(), &b));
        rules.remove("b");
        assert_eq!(names(&summaries, &rules), ["a One"]);
        assert!(summary_of("b").is_none());
    }
}
