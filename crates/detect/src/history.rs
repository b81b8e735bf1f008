//! Rules as searches over stored events, to see what a rule would have found.

use serde_json::{Map, Value, json};

use crate::definition::{DetectionRule, Input};
use crate::window_rule::{Measure, WindowKind};

/// Search of the stored events that a rule is about.
#[derive(Debug, Clone, PartialEq)]
pub struct HistorySearch {
    /// Query of the events that match the rule and none of its exceptions; of all events if it reads records.
    pub query: Value,
    /// How its alerts are counted.
    pub count: HistoryCount,
}

/// How the alerts of a rule are counted in stored events.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryCount {
    /// Each event that matches is one.
    Events,
    /// The rule reads records: the query finds all events, and each one whose record matches is one.
    Records,
    /// Each bucket of a composite aggregation that reaches a value.
    Buckets {
        /// Sources of the composite aggregation: the window, and the fields of the key.
        sources: Vec<Value>,
        /// Aggregation in each bucket; `None`: its documents are counted.
        metric: Option<Value>,
        /// The value.
        at_least: f64,
    },
}

/// Returns the search of a rule. An exception that ends holds for the events whose times are before its end. `body` is the definition of
/// the rule; one that reads records needs none.
///
/// # Errors
/// Why stored events cannot tell.
pub fn history_search(rule: &DetectionRule, body: &Map<String, Value>) -> Result<HistorySearch, String> {
    match rule.window.as_ref().map(|window| &window.kind) {
        Some(WindowKind::Sequence { .. }) if rule.input == Input::Event => {
            return Err("a sequence cannot be counted by a search: it looks at the order of single events".to_owned());
        }
        Some(WindowKind::RateOfChange { .. }) => {
            return Err(
                "a rate of change cannot be counted by a search: it compares each window with those before it"
                    .to_owned(),
            );
        }
        Some(_) if rule.input == Input::Record => {
            return Err(
                "a correlation cannot be counted by a search: it reads records as their source wrote them, and stored events are mapped"
                    .to_owned(),
            );
        }
        _ => {}
    }
    if rule.input == Input::Record {
        // What its fields are called in an event, and whether a conversion changed them, only the pack knows.
        return Ok(HistorySearch {
            query: json!({"match_all": {}}),
            count: HistoryCount::Records,
        });
    }
    let Some(query) = body.get("query") else {
        return Err("the definition has no query".to_owned());
    };
    let mut filter = vec![clause(query, body.get("language"))];
    let exceptions = body.get("exceptions").and_then(Value::as_array);
    let exceptions = exceptions.into_iter().flatten().zip(&rule.exceptions);
    let exceptions = exceptions.filter_map(|(exception, read)| {
        let query = clause(exception.get("query")?, exception.get("language"));
        Some(match read.expires_ms {
            None => query,
            Some(end) => {
                let before_end = json!({"range": {"@timestamp": {"lt": end, "format": "epoch_millis"}}});
                json!({"bool": {"filter": [query, before_end]}})
            }
        })
    });
    let must_not: Vec<Value> = exceptions.collect();
    let count = match rule.window.as_ref().map(|window| &window.kind) {
        None => HistoryCount::Events,
        Some(WindowKind::Threshold {
            window_ms,
            of,
            at_least,
        }) => {
            let mut sources = vec![json!({
                "window": {"date_histogram": {"field": "@timestamp", "fixed_interval": format!("{window_ms}ms")}},
            })];
            for (number, field) in rule.group_by.iter().enumerate() {
                filter.push(json!({"exists": {"field": field}}));
                sources.push(json!({format!("key{number}"): {"terms": {"field": field}}}));
            }
            let metric = match of {
                Measure::Count => None,
                Measure::Distinct(field) => Some(json!({"cardinality": {"field": field}})),
                Measure::Sum(field) => Some(json!({"sum": {"field": field}})),
            };
            HistoryCount::Buckets {
                sources,
                metric,
                at_least: *at_least,
            }
        }
        Some(
            WindowKind::Absence { .. }
            | WindowKind::NewValue { .. }
            | WindowKind::Sequence { .. }
            | WindowKind::RateOfChange { .. },
        ) => {
            return Err("absences and new values cannot be counted by a search".to_owned());
        }
    };
    Ok(HistorySearch {
        query: json!({"bool": {"filter": filter, "must_not": must_not}}),
        count,
    })
}

fn clause(query: &Value, language: Option<&Value>) -> Value {
    match (query, language.and_then(Value::as_str)) {
        (Value::String(text), Some("lucene")) => json!({"query_string": {"query": text}}),
        (Value::String(text), _) => json!({"kql": {"query": text}}),
        (query, _) => query.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(body: &Value) -> Result<HistorySearch, String> {
        let body = body.as_object().unwrap();
        history_search(&DetectionRule::parse("r", body).unwrap(), body)
    }

    #[test]
    fn a_rule_is_a_search_without_its_exceptions() {
        let found = search(&json!({
            "type": "query", "name": "x", "query": "a: 1", "exceptions": [
                {"query": "c: 3", "expires": "2026-01-01"}, {"query": "b:2", "language": "lucene"},
            ],
        }));
        let query = json!({"bool": {
            "filter": [{"kql": {"query": "a: 1"}}], "must_not": [
                {"bool": {"filter": [
                    {"kql": {"query": "c: 3"}}, {"range": {"@timestamp": {"lt": 1_767_225_600_000_i64, "format": "epoch_millis"}}},
                ]}},
                {"query_string": {"query": "b:2"}},
            ],
        }});
        let count = HistoryCount::Events;
        assert_eq!(found, Ok(HistorySearch { query, count }));

        let threshold = search(&json!({
            "type": "threshold", "name": "x", "query": {"term": {"a": 1}}, "group_by": ["u"], "window": "1m",
            "threshold": {"distinct": "p", "at_least": 3},
        }));
        let HistoryCount::Buckets {
            sources,
            metric,
            at_least,
        } = threshold.unwrap().count
        else {
            panic!("a threshold counts buckets");
        };
        assert_eq!(sources[0]["window"]["date_histogram"]["fixed_interval"], "60000ms");
        assert_eq!(sources[1], json!({"key0": {"terms": {"field": "u"}}}));
        assert_eq!((metric, at_least), (Some(json!({"cardinality": {"field": "p"}})), 3.0));

        let sigma = "title: Tool\nlogsource: {product: windows}\ndetection: {s: {a: 1}, condition: s}\n";
        let of_records = HistorySearch {
            query: json!({"match_all": {}}),
            count: HistoryCount::Records,
        };
        assert_eq!(search(&json!({"type": "sigma", "sigma": sigma})), Ok(of_records));
        let absence = json!({"type": "absence", "name": "x", "query": "*", "group_by": ["a"], "after": "1m"});
        assert!(search(&absence).is_err());
        let sequence =
            json!({"type": "sequence", "name": "x", "within": "1m", "steps": [{"query": "a: 1"}, {"query": "a: 2"}]});
        assert!(search(&sequence).unwrap_err().contains("a sequence"));
        let rate =
            json!({"type": "rate_of_change", "name": "x", "query": "*", "window": "1m", "change": {"rise_factor": 2}});
        assert!(search(&rate).unwrap_err().contains("a rate of change"));
    }
}
