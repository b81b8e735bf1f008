//! Mapping coverage of a pipeline: which fields of its last events have a common name, and which have none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::fields::FieldsInUseRequest;
use firn_engine::{Error, RequestContext, Scope};
use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Map, Value, json};

use super::{missing, runner};
use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["since"];
/// Fields that are counted.
const FIELDS_MAX: usize = 500;
/// Raw fields with values of another type that are listed.
const ERRORS_MAX: usize = 100;
const SINCE: Duration = Duration::from_secs(86_400);

/// `GET /_firn/pipelines/{id}/_coverage`: fields of the events since `since` ago (`1d`), each with its number of events: the ones
/// with a common name, the ones under the prefix of the pack, and raw fields whose values have not the type of their target.
pub(crate) async fn coverage(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id");
    let runner = Arc::clone(runner(&edge)?);
    let definition = runner.definition(id).ok_or_else(|| missing(id))?;
    let Some(pack) = runner.pack(id)? else {
        return Err(Error::illegal_argument(format!("pipeline [{id}] has no pack: nothing is mapped")).into());
    };
    let since = call.params.duration("since")?.unwrap_or(SINCE);
    let since_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let from_ms = edge.now_ms().saturating_sub(since_ms);
    let scope = definition.tenant_id()?.map_or_else(Scope::operator, Scope::tenant);
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..call.ctx.clone()
    };
    let mut target = IndexTarget {
        expression: definition.event_indices().to_vec(),
        ..IndexTarget::default()
    };
    target.options.ignore_unavailable = true;
    let range = json!({"range": {"@timestamp": {"gte": from_ms, "format": "epoch_millis"}}});
    let request = FieldsInUseRequest {
        target: target.clone(),
        index_filter: Some(Query::parse(&range)?),
    };
    let in_use = edge.engine.fields_in_use(&ctx, request).await?.require()?;
    let in_use: BTreeSet<String> = in_use.into_iter().flat_map(|index| index.fields).collect();
    let fields = fields_of_events(&in_use);

    let filters: Map<String, Value> = fields
        .iter()
        .take(FIELDS_MAX)
        .map(|field| (field.clone(), json!({"exists": {"field": field}})))
        .collect();
    let mut aggs = json!({"fields": {"filters": {"filters": filters}}});
    let errors = ["firn.mapping.errors.keyword", "firn.mapping.errors"];
    if let Some(errors) = errors.into_iter().find(|field| in_use.contains(*field)) {
        aggs["errors"] = json!({"terms": {"field": errors, "size": ERRORS_MAX}});
    }
    if filters_are_empty(&aggs) {
        return Ok(Reply::ok(
            &json!({"events": 0, "mapped": [], "unmapped": [], "errors": [], "not_counted": 0}),
        ));
    }
    let body = json!({"size": 0, "track_total_hits": true, "query": range, "aggs": aggs});
    let request = SearchRequest::parse(target, Some(&body))?;
    let response = search::run(&edge, &ctx, request, b"").await?;
    let found = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let counted = |name: &str, key: &dyn Fn(&Value) -> Option<(String, u64)>| -> Vec<(String, u64)> {
        let buckets = &found[name]["buckets"];
        match buckets {
            Value::Array(list) => list.iter().filter_map(key).collect(),
            Value::Object(by_name) => by_name
                .iter()
                .filter_map(|(name, bucket)| Some((name.clone(), bucket["doc_count"].as_u64()?)))
                .collect(),
            _ => Vec::new(),
        }
    };
    let by_key = |bucket: &Value| Some((bucket["key"].as_str()?.to_owned(), bucket["doc_count"].as_u64()?));
    let beneath = format!("{}.", pack.prefix());
    let (unmapped, mapped): (Vec<_>, Vec<_>) = counted("fields", &by_key)
        .into_iter()
        .filter(|(_, events)| *events > 0)
        .partition(|(field, _)| field.starts_with(&beneath));
    Ok(Reply::ok(&json!({
        "events": response.total.map(|total| total.value),
        "mapped": print(mapped),
        "unmapped": print(unmapped),
        "errors": print(counted("errors", &by_key)),
        "not_counted": fields.len().saturating_sub(FIELDS_MAX),
    })))
}

fn filters_are_empty(aggs: &Value) -> bool {
    aggs["fields"]["filters"]["filters"]
        .as_object()
        .is_none_or(Map::is_empty)
}

/// Leaves out what firn itself writes, and the keyword subfields of texts.
fn fields_of_events(in_use: &BTreeSet<String>) -> Vec<String> {
    let own = |field: &str| field.starts_with("firn.") || field.starts_with('_') || field == "@timestamp";
    let is_subfield = |field: &str| field.strip_suffix(".keyword").is_some_and(|text| in_use.contains(text));
    let fields = in_use.iter().filter(|field| !own(field) && !is_subfield(field));
    fields.cloned().collect()
}

/// Prints fields, those of most events first.
fn print(mut fields: Vec<(String, u64)>) -> Value {
    fields.sort_by(|(one, events), (other, other_events)| other_events.cmp(events).then_with(|| one.cmp(other)));
    let fields = fields
        .into_iter()
        .map(|(field, events)| json!({"field": field, "events": events}));
    fields.collect()
}
