//! Members of a rule: which are taken, and why others are not.

use serde_json::{Map, Value};

use crate::import::NotTaken;

/// Members that the translation reads, and those that Kibana keeps for itself: who changed the rule when, and how it ran last.
const SETTLED: [&str; 36] = [
    "alert_suppression",
    "author",
    "created_at",
    "created_by",
    "description",
    "enabled",
    "exceptions_list",
    "execution_summary",
    "false_positives",
    "filters",
    "history_window_start",
    "id",
    "immutable",
    "index",
    "language",
    "name",
    "new_terms_fields",
    "note",
    "outcome",
    "query",
    "references",
    "revision",
    "risk_score",
    "rule_id",
    "rule_source",
    "severity",
    "tags",
    "threat",
    "threshold",
    "to",
    "type",
    "updated_at",
    "updated_by",
    "version",
    "alias_purpose",
    "alias_target_id",
];

/// Returns what a rule says in members that firn does not have. `taken` has the names of further members that are taken.
pub(super) fn not_taken(rule: &Map<String, Value>, taken: &[&str]) -> Vec<NotTaken> {
    let names = rule.iter().filter(|(name, value)| {
        let name = name.as_str();
        !SETTLED.contains(&name) && !taken.contains(&name) && !is_empty(value)
    });
    let part = |name: &str| match name {
        // There is nothing to schedule.
        "interval" | "from" => NotTaken::note(name, "each event is evaluated as it comes, which covers every interval"),
        name => NotTaken::new(name, reason(name)),
    };
    names.map(|(name, _)| part(name)).collect()
}

/// Returns whether a value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn reason(name: &str) -> &'static str {
    match name {
        "data_view_id" => {
            "the text does not have the data view; [pipelines] of the definition says whose events are evaluated"
        }
        "actions" | "throttle" | "response_actions" => "[channels] of the definition deliver the alerts",
        "building_block_type" => "each alert is shown",
        "max_signals" => "a batch of events has a limit, a rule has none",
        "severity_mapping" | "risk_score_mapping" | "rule_name_override" => "alerts have the values of the rule",
        "timestamp_override" | "timestamp_override_fallback_disabled" => "the time of an event is its [@timestamp]",
        "output_index" | "namespace" => "alerts are in the data streams of their tenants",
        _ => "definitions have no such member",
    }
}

/// Returns a text; `None` if it is missing or `null`.
pub(super) fn text<'r>(rule: &'r Map<String, Value>, name: &str) -> Result<Option<&'r str>, String> {
    match rule.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("[{name}] is no text")),
    }
}

/// Returns texts: a list, or a single one; none if the member is missing or `null`.
pub(super) fn texts(rule: &Map<String, Value>, name: &str) -> Result<Vec<String>, String> {
    match rule.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(items)) => {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            let texts: Option<Vec<String>> = texts.collect();
            texts.ok_or_else(|| format!("[{name}] is no list of texts"))
        }
        Some(_) => Err(format!("[{name}] is no list of texts")),
    }
}

/// Returns the objects of a list; none if the member is missing or `null`.
pub(super) fn objects<'r>(rule: &'r Map<String, Value>, name: &str) -> Result<Vec<&'r Map<String, Value>>, String> {
    match rule.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let objects: Option<Vec<_>> = items.iter().map(Value::as_object).collect();
            objects.ok_or_else(|| format!("[{name}] is no list of objects"))
        }
        Some(_) => Err(format!("[{name}] is no list of objects")),
    }
}
