//! Filters beside the query of a rule, as Kibana's search bar makes them.

use serde_json::{Map, Value, json};

use super::members::text;
use crate::import::NotTaken;

/// Members of a filter that are no query.
const OF_THE_FILTER: [&str; 3] = ["meta", "$state", "query"];

/// Clauses of a query.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    pub(super) filter: Vec<Value>,
    pub(super) must_not: Vec<Value>,
}

impl Clauses {
    /// Returns whether there is no clause.
    pub(super) fn is_empty(&self) -> bool {
        self.filter.is_empty() && self.must_not.is_empty()
    }

    pub(super) fn push(&mut self, is_negated: bool, query: Value) {
        match is_negated {
            true => self.must_not.push(query),
            false => self.filter.push(query),
        }
    }

    /// Returns the query that all clauses make.
    pub(super) fn query(mut self) -> Value {
        if self.must_not.is_empty() && self.filter.len() == 1 {
            return self.filter.remove(0);
        }
        let clauses = [("filter", self.filter), ("must_not", self.must_not)];
        let clauses = clauses.into_iter().filter(|(_, queries)| !queries.is_empty());
        let clauses: Map<String, Value> = clauses
            .map(|(name, queries)| (name.to_owned(), queries.into()))
            .collect();
        json!({ "bool": clauses })
    }
}

/// Adds the filters of a rule.
pub(super) fn add(
    rule: &Map<String, Value>,
    clauses: &mut Clauses,
    not_taken: &mut Vec<NotTaken>,
) -> Result<(), String> {
    let filters = match rule.get("filters") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(filters)) => filters,
        Some(_) => return Err("[filters] is no list".to_owned()),
    };
    for (place, filter) in filters.iter().enumerate() {
        let filter = filter.as_object().ok_or("a member of [filters] is no object")?;
        match clause(filter)? {
            Some((is_negated, query)) => clauses.push(is_negated, query),
            None => not_taken.push(NotTaken::new(
                "filters",
                format!("filter {} is disabled, so that it filters nothing", place + 1),
            )),
        }
    }
    Ok(())
}

/// Returns whether a filter is negated, and its query; `None`: it is disabled.
fn clause(filter: &Map<String, Value>) -> Result<Option<(bool, Value)>, String> {
    let no_members = Map::new();
    let meta = filter.get("meta").and_then(Value::as_object).unwrap_or(&no_members);
    let is = |name: &str| meta.get(name).and_then(Value::as_bool).unwrap_or(false);
    if is("disabled") {
        return Ok(None);
    }
    let query = match text(meta, "type")? {
        Some("combined") => combined(meta)?,
        _ => own_query(filter)?,
    };
    Ok(Some((is("negate"), query)))
}

/// Returns the query of several filters that are one.
fn combined(meta: &Map<String, Value>) -> Result<Value, String> {
    let Some(Value::Array(parts)) = meta.get("params") else {
        return Err("a combined filter of [filters] has no list [params]".to_owned());
    };
    let mut queries = Vec::new();
    for part in parts {
        let part = part.as_object().ok_or("a part of a combined filter is no object")?;
        if let Some((is_negated, query)) = clause(part)? {
            queries.push(match is_negated {
                true => json!({"bool": {"must_not": [query]}}),
                false => query,
            });
        }
    }
    match text(meta, "relation")? {
        Some("OR") => Ok(json!({"bool": {"should": queries}})),
        None | Some("AND") => Ok(json!({"bool": {"filter": queries}})),
        Some(other) => Err(format!("a combined filter has the relation [{other}]")),
    }
}

/// Returns the query of a single filter. Older filters have it beside their other members.
fn own_query(filter: &Map<String, Value>) -> Result<Value, String> {
    if let Some(query) = filter.get("query").filter(|query| query.is_object()) {
        return Ok(as_phrase(query).unwrap_or_else(|| query.clone()));
    }
    let mut others = filter
        .iter()
        .filter(|(name, _)| !OF_THE_FILTER.contains(&name.as_str()));
    match (others.next(), others.next()) {
        (Some((name, query)), None) => {
            let query = json!({ name: query });
            Ok(as_phrase(&query).unwrap_or(query))
        }
        _ => Err("a filter of [filters] has no query".to_owned()),
    }
}

/// Returns the phrase that a filter of older versions is: `{"match": {FIELD: {"query": …, "type": "phrase"}}}`.
fn as_phrase(query: &Value) -> Option<Value> {
    let fields = query.get("match")?.as_object().filter(|fields| fields.len() == 1)?;
    let (field, options) = fields.iter().next()?;
    match options.get("type")?.as_str()? {
        "phrase" => {
            let value = options.get("query")?;
            Some(json!({"match_phrase": { field: value }}))
        }
        _ => None,
    }
}
