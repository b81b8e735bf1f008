//! One rule as a definition.

use firn_model::dates::print_exact_duration_ms;
use serde_json::{Map, Value, json};

use super::exceptions::ExceptionLists;
use super::filters::{self, Clauses};
use super::members::{not_taken, objects, text, texts};
use super::pipelines;
use super::threat;
use super::time::lookback_ms;
use crate::import::{NotTaken, PipelineIndices};

/// How far back a rule looks that does not say it, as in Kibana.
const FROM: &str = "now-6m";

/// Returns the definition of a rule, and what of it is not taken. `pipelines` are those of the node.
pub(crate) fn definition(
    rule: &Map<String, Value>,
    lists: &mut ExceptionLists,
    pipelines: &[PipelineIndices],
) -> Result<(Map<String, Value>, Vec<NotTaken>), String> {
    let kind = text(rule, "type")?.ok_or("the rule has no [type]")?;
    let refused = |reason: &str| Err(format!("the type [{kind}] is not taken: {reason}"));
    let (own_kind, taken): (_, &[&str]) = match kind {
        "query" => ("query", &[]),
        "threshold" => ("threshold", &["from"]),
        "new_terms" => ("new_value", &[]),
        "saved_query" => return refused("its query is a saved object, which the text does not have"),
        "eql" => return refused("firn has no EQL"),
        "esql" => return refused("firn has no ES|QL"),
        "machine_learning" => return refused("firn has no jobs of machine learning"),
        "threat_match" => return refused("firn compares no events with an index of indicators"),
        _ => return refused("it is not known"),
    };
    let mut not_taken = not_taken(rule, taken);
    let mut definition = Map::new();
    let mut set = |name: &str, value: Value| {
        definition.insert(name.to_owned(), value);
    };
    set("type", own_kind.into());
    for (name, value) in described(rule, &mut not_taken)? {
        set(name, value);
    }
    for (name, value) in query(rule, &mut not_taken)? {
        set(name, value);
    }
    let exceptions = lists.of_rule(rule, &mut not_taken)?;
    if !exceptions.is_empty() {
        set("exceptions", exceptions.into());
    }
    let (group_by, own) = match own_kind {
        "threshold" => threshold(rule)?,
        "new_value" => new_terms(rule, &mut not_taken)?,
        _ => (suppressed(rule, &mut not_taken)?, Vec::new()),
    };
    if own_kind != "query" && rule.get("alert_suppression").is_some_and(Value::is_object) {
        let reason = "a rule over several events raises one alert for a key";
        not_taken.push(NotTaken::new("alert_suppression", reason));
    }
    if !group_by.is_empty() {
        set("group_by", group_by.into());
    }
    for (name, value) in own {
        set(name, value);
    }
    let own = pipelines::of_rule(rule, pipelines, &mut not_taken)?;
    if !own.is_empty() {
        set("pipelines", own.into());
    }
    if let Some(to) = text(rule, "to")?.filter(|to| *to != "now" && !to.is_empty()) {
        not_taken.push(NotTaken::new(
            "to",
            format!("each event is evaluated as it comes, not at [{to}]"),
        ));
    }
    Ok((definition, not_taken))
}

type Members = Vec<(&'static str, Value)>;

/// Returns the members for readers.
fn described(rule: &Map<String, Value>, not_taken: &mut Vec<NotTaken>) -> Result<Members, String> {
    let mut members: Members = Vec::new();
    for name in ["name", "description"] {
        if let Some(value) = text(rule, name)? {
            members.push((name, value.into()));
        }
    }
    match rule.get("enabled") {
        None | Some(Value::Null) => {}
        Some(Value::Bool(enabled)) => members.push(("enabled", (*enabled).into())),
        Some(_) => return Err("[enabled] is true or false".to_owned()),
    }
    if let Some(severity) = text(rule, "severity")? {
        members.push(("severity", severity.into()));
    }
    if let Some(score) = rule.get("risk_score").filter(|score| !score.is_null()) {
        let whole = score.as_f64().filter(|score| (0.0..=100.0).contains(score));
        let whole = whole.ok_or_else(|| format!("[risk_score] is 0 to 100, not [{score}]"))?;
        members.push(("risk_score", (whole.round() as u8).into()));
    }
    let mut tags = texts(rule, "tags")?;
    threat::add_tags(rule, &mut tags, not_taken)?;
    for (name, values) in [
        ("tags", tags),
        ("references", texts(rule, "references")?),
        ("false_positives", texts(rule, "false_positives")?),
    ] {
        if !values.is_empty() {
            members.push((name, values.into()));
        }
    }
    let authors = texts(rule, "author")?;
    if !authors.is_empty() {
        members.push(("author", authors.join(", ").into()));
    }
    if let Some(note) = text(rule, "note")?.filter(|note| !note.is_empty()) {
        members.push(("note", note.into()));
    }
    Ok(members)
}

/// Returns the query with the filters.
fn query(rule: &Map<String, Value>, not_taken: &mut Vec<NotTaken>) -> Result<Members, String> {
    let words = text(rule, "query")?.unwrap_or_default();
    let language = text(rule, "language")?.unwrap_or("kuery");
    if !matches!(language, "kuery" | "lucene") {
        return Err(format!("[language] is kuery or lucene, not [{language}]"));
    }
    let is_empty = words.trim().is_empty();
    let mut clauses = Clauses::default();
    filters::add(rule, &mut clauses, not_taken)?;
    if clauses.is_empty() {
        // Each event, in both languages of Kibana.
        return Ok(match is_empty {
            true => vec![("query", "*".into())],
            false => vec![("query", words.into()), ("language", language.into())],
        });
    }
    if !is_empty {
        let kind = if language == "lucene" { "query_string" } else { "kql" };
        clauses.filter.insert(0, json!({ kind: {"query": words} }));
    }
    Ok(vec![("query", clauses.query())])
}

/// Returns the fields by which the matches of a rule are put together.
fn suppressed(rule: &Map<String, Value>, not_taken: &mut Vec<NotTaken>) -> Result<Vec<String>, String> {
    let Some(Value::Object(suppression)) = rule.get("alert_suppression") else {
        return Ok(Vec::new());
    };
    if suppression.get("duration").is_some_and(|duration| !duration.is_null()) {
        let reason = "the matches of one batch of events are put together";
        not_taken.push(NotTaken::new("alert_suppression.duration", reason));
    }
    if text(suppression, "missing_fields_strategy")? == Some("doNotSuppress") {
        let reason = "events without one of the fields are put together, too";
        not_taken.push(NotTaken::new("alert_suppression.missing_fields_strategy", reason));
    }
    texts(suppression, "group_by")
}

/// Returns the fields of the key and the members of a threshold.
fn threshold(rule: &Map<String, Value>) -> Result<(Vec<String>, Members), String> {
    let Some(Value::Object(threshold)) = rule.get("threshold") else {
        return Err("a rule of the type [threshold] needs [threshold]".to_owned());
    };
    let count = threshold.get("value").and_then(Value::as_u64);
    let count = count.ok_or("[threshold.value] is a whole number")?;
    let measured = match objects(threshold, "cardinality")?[..] {
        [] => json!({"count": count}),
        [cardinality] => {
            let field = text(cardinality, "field")?.ok_or("[threshold.cardinality] has no [field]")?;
            let at_least = cardinality.get("value").and_then(Value::as_u64);
            let at_least = at_least.ok_or("[threshold.cardinality.value] is a whole number")?;
            if count > at_least {
                return Err(format!(
                    "[threshold] asks for [{count}] events and for [{at_least}] values of [{field}]: a rule measures one of them"
                ));
            }
            // So many different values are at least as many events.
            json!({"distinct": field, "at_least": at_least})
        }
        _ => return Err("[threshold.cardinality] has several fields: a rule measures one".to_owned()),
    };
    let window_ms = lookback_ms("from", text(rule, "from")?.unwrap_or(FROM))?;
    let window = print_exact_duration_ms(window_ms);
    let members = vec![("window", window.into()), ("threshold", measured)];
    Ok((texts(threshold, "field")?, members))
}

/// Returns the fields of the key and the members of a rule about new values.
fn new_terms(rule: &Map<String, Value>, not_taken: &mut Vec<NotTaken>) -> Result<(Vec<String>, Members), String> {
    let fields = texts(rule, "new_terms_fields")?;
    let start =
        text(rule, "history_window_start")?.ok_or("a rule of the type [new_terms] needs [history_window_start]")?;
    let learn_ms = lookback_ms("history_window_start", start)?;
    let reason = "it is the time of learning: a value that was there is not new again, however long ago it was";
    not_taken.push(NotTaken::new("history_window_start", reason));
    let learn_for = print_exact_duration_ms(learn_ms);
    Ok((fields, vec![("learn_for", learn_for.into())]))
}
