//! `_firn/discover/fields`: fields of a source, and the initial state of a page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::RequestContext;
use firn_model::metadata::Metadata;
use serde_json::{Map, Value, json};

use super::field_usage::{self, FieldUsage};
use super::known_fields::default_split;
use super::known_fields::{self, KnownFields};
use super::opening::body;
use super::request::EventSelection;
use super::sources::TIMESTAMP;
use super::stages::sample::hits_body;
use crate::endpoints::call::Call;
use crate::endpoints::field_caps::{Capability, leaves};
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

/// Maximum fields of an answer; mappings of well-maintained indices have a thousand.
const FIELDS_MAX: usize = 5000;
/// Maximum indices listed per type of a field on which they disagree.
const INDICES_MAX: usize = 100;
/// Maximum columns of the default table.
const COLUMNS_MAX: usize = 6;
/// Fields that most often say what happened, where and to whom. Those in use are the default columns.
const COLUMNS: &[&str] = &[
    "event_class",
    "event.category",
    "event_type",
    "event.action",
    "severity",
    "log.level",
    "level",
    "site",
    "host.name",
    "host",
    "user.name",
    "user",
    "client_ip",
    "source.ip",
    "source_ip",
    "src_ip",
    "method",
    "http.request.method",
    "status",
    "http.response.status_code",
    "path",
    "url.path",
    "message",
];

/// Timeout of the search for the newest events, if it selects the columns: a page waits for its fields.
const NEWEST_WITHIN: Duration = Duration::from_millis(250);

/// One field: by type, the indices with this type, and the capabilities there.
type ByType<'a> = BTreeMap<&'static str, Vec<(&'a str, Capability)>>;

/// `POST /_firn/discover/fields`.
pub(crate) async fn fields(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut request = Fields::new("discover request", body(&call)?);
    let mut place = Map::new();
    for name in ["index", "time"] {
        if let Some(value) = request.take(name) {
            place.insert(name.to_owned(), value);
        }
    }
    request.finish()?;
    let question = EventSelection::take(&mut Fields::new("discover request", place), edge.now_ms())?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let indices = edge.resolve_names(&question.target, &metadata)?;
    let in_use = known_fields::in_use(&edge, &call.ctx, &question).await?;
    let known = known_fields::fields(&metadata, &indices);
    let by_name = by_name(&metadata, &indices);
    let shown = shown(&by_name, &in_use);
    let times = time_fields(&by_name);
    let requested = question.time.as_ref().map(|time| time.field.as_str());
    let time_field = requested
        .filter(|field| times.contains(field))
        .or(times.first().copied());
    let mut columns: Vec<String> = well_known(&in_use).into_iter().map(str::to_owned).collect();
    if columns.is_empty() && !known_fields::any_mounted(&metadata, &indices) {
        columns = most_used(&edge, &call.ctx, &question, &in_use, time_field).await;
    }
    let printed: Vec<Value> = shown
        .iter()
        .map(|name| print(name, &by_name[*name], in_use.contains(*name)))
        .collect();
    Ok(Reply::ok(&json!({
        "fields": printed,
        "time_field": time_field,
        "time_fields": times,
        "columns": columns,
        "split_by": split_by(&edge, &known, &in_use),
        "truncated": shown.len() < by_name.len(),
    })))
}

fn by_name<'a>(metadata: &'a Metadata, indices: &'a [String]) -> BTreeMap<String, ByType<'a>> {
    let mut fields: BTreeMap<String, ByType<'a>> = BTreeMap::new();
    for index in indices.iter().filter_map(|name| metadata.indices.get(name)) {
        for (path, capability) in leaves(&index.mapping) {
            let types = fields.entry(path).or_default();
            let entries = types.entry(capability.field_type).or_default();
            entries.push((index.name.as_str(), capability));
        }
    }
    fields
}

/// Returns the listed names: all, or those in use first, in order.
fn shown<'a>(fields: &'a BTreeMap<String, ByType<'_>>, in_use: &BTreeSet<String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    if names.len() > FIELDS_MAX {
        names.sort_by_key(|name| !in_use.contains(*name));
        names.truncate(FIELDS_MAX);
        names.sort_unstable();
    }
    names
}

/// Returns the fields that are dates in every index with the field, `@timestamp` first.
fn time_fields<'a>(fields: &'a BTreeMap<String, ByType<'_>>) -> Vec<&'a str> {
    let is_time = |types: &ByType<'_>| types.keys().all(|name| matches!(*name, "date" | "date_nanos"));
    let found = fields.iter().filter(|(_, types)| is_time(types));
    let mut times: Vec<&str> = found.map(|(name, _)| name.as_str()).collect();
    times.sort_by_key(|name| *name != TIMESTAMP);
    times
}

/// Returns columns for events without well-known fields: the fields that most of the newest events have, next to their
/// time. After a timeout there are none, and the table shows whole events.
async fn most_used(
    edge: &Edge,
    ctx: &RequestContext,
    question: &EventSelection,
    in_use: &BTreeSet<String>,
    time_field: Option<&str>,
) -> Vec<String> {
    let newest = question.search(hits_body(question, field_usage::SAMPLE, None));
    let Ok(mut request) = newest else {
        return Vec::new();
    };
    request.timeout = Some(NEWEST_WITHIN);
    let searching = search::run(edge, ctx, request, b"");
    let Ok(Ok(newest)) = tokio::time::timeout(2 * NEWEST_WITHIN, searching).await else {
        return Vec::new();
    };
    let uses = FieldUsage::of(&newest.hits);
    let fields = in_use
        .iter()
        .filter(|name| uses.has(name) && time_field != Some(name.as_str()));
    uses.ranked(fields).into_iter().take(COLUMNS_MAX).cloned().collect()
}

fn well_known(in_use: &BTreeSet<String>) -> Vec<&'static str> {
    let found = COLUMNS.iter().filter(|name| in_use.contains(**name));
    let mut columns: Vec<&str> = found.copied().collect();
    // The message has most information and comes last.
    if columns.len() > COLUMNS_MAX {
        let last = columns.split_off(columns.len() - 1);
        columns.truncate(COLUMNS_MAX - 1);
        columns.extend(last);
    }
    columns
}

fn split_by(edge: &Edge, known: &KnownFields, in_use: &BTreeSet<String>) -> Option<String> {
    default_split(&edge.config.discover.split_by, known, in_use)
}

fn print(name: &str, types: &ByType<'_>, in_use: bool) -> Value {
    let mut entries = types.values().flatten();
    let searchable = entries.clone().all(|(_, capability)| capability.searchable);
    let aggregatable = entries.all(|(_, capability)| capability.aggregatable);
    let mut types_of = types.keys().copied();
    let field_type = match (types_of.next(), types_of.next()) {
        (Some(only), None) => only,
        _ => "conflict",
    };
    let mut printed = Map::new();
    printed.insert("name".to_owned(), name.into());
    printed.insert("type".to_owned(), field_type.into());
    printed.insert("searchable".to_owned(), searchable.into());
    printed.insert("aggregatable".to_owned(), (aggregatable && types.len() == 1).into());
    printed.insert("in_use".to_owned(), in_use.into());
    if types.len() > 1 {
        let conflict = types.iter().map(|(name, entries)| {
            let indices = entries.iter().map(|(index, _)| *index).take(INDICES_MAX);
            ((*name).to_owned(), indices.collect())
        });
        printed.insert("conflict".to_owned(), Value::Object(conflict.collect()));
    }
    Value::Object(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(field_type: &'static str) -> Capability {
        Capability {
            field_type,
            metadata_field: false,
            searchable: true,
            aggregatable: field_type != "text",
        }
    }

    #[test]
    fn disagreements_of_indices_are_reported() {
        let mut types = ByType::new();
        types.insert("long", vec![("a", capability("long"))]);
        assert!(print("f", &types, true).get("conflict").is_none());
        types.insert("text", vec![("b", capability("text")), ("c", capability("text"))]);
        let expect = json!({
            "name": "f", "type": "conflict", "searchable": true, "aggregatable": false, "in_use": true,
            "conflict": {"long": ["a"], "text": ["b", "c"]},
        });
        assert_eq!(print("f", &types, true), expect);
    }

    #[test]
    fn of_too_many_fields_those_in_use_are_listed() {
        let fields: BTreeMap<String, ByType<'_>> = (0..FIELDS_MAX + 10)
            .map(|number| (format!("f{number:05}"), ByType::new()))
            .collect();
        let last = format!("f{:05}", FIELDS_MAX + 9);
        let shown = shown(&fields, &BTreeSet::from([last.clone()]));
        assert_eq!(shown.len(), FIELDS_MAX);
        assert!(shown.contains(&last.as_str()) && shown.is_sorted());
    }

    #[test]
    fn a_table_begins_with_what_is_there() {
        let in_use = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            well_known(&in_use(&["x", "message", "host.name"])),
            ["host.name", "message"]
        );
        let all = well_known(&in_use(COLUMNS));
        assert_eq!((all.len(), all[0], all[5]), (COLUMNS_MAX, "event_class", "message"));
        assert!(well_known(&in_use(&[])).is_empty());
    }
}
