//! `POST /_firn/rules/_test`: what a rule would have found in stored events.

use std::sync::Arc;

use firn_detect::{DetectionRule, HistoryCount, check_test, history_search};
use firn_engine::{Error, Knowledge, RequestContext};
use firn_pipeline::rule_history::{RecordTest, TestReport};
use firn_query::search::{Hit, IndexTarget, SearchRequest, SearchResponse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::event_pipelines;
use crate::endpoints::rule_run::{add_unevaluated, events_of, typed_body};
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Most examples.
const EXAMPLES_MAX: u64 = 20;
/// Buckets of one page, and most pages of a threshold.
const PAGE: usize = 1000;
const PAGES_MAX: usize = 50;
/// Most events whose records are read.
const RECORDS_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    rule: Map<String, Value>,
    index: String,
    #[serde(default)]
    from: Option<Value>,
    #[serde(default)]
    to: Option<Value>,
    #[serde(default)]
    examples: Option<u64>,
    /// Fetch what the search needs from snapshot repositories, however much it is.
    #[serde(default)]
    fetch: bool,
}

/// Number of alerts of a threshold.
struct Counted {
    alerts: u64,
    /// There are more buckets than were read.
    is_partial: bool,
}

pub(crate) async fn test(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body: Body = typed_body(call.required_json()?, check_test)?;
    let examples = body.examples.unwrap_or(3);
    if examples > EXAMPLES_MAX {
        return Err(Error::illegal_argument(format!("[examples] is at most {EXAMPLES_MAX}")).into());
    }
    let definition = body.rule.clone();
    let rule = blocking::print(move || DetectionRule::parse("_test", &definition)).await??;
    let search = history_search(&rule, &body.rule).map_err(Error::illegal_argument)?;
    let mut range = json!({"gte": body.from.unwrap_or_else(|| "now-30d".into())});
    range["lt"] = body.to.unwrap_or_else(|| "now".into());
    let of_records = search.count == HistoryCount::Records;
    let query = json!({"bool": {"filter": [search.query, {"range": {"@timestamp": range}}]}});
    let (target, scope) = events_of(&call, &body.index, rule.tenant.as_ref())?;
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..call.ctx.clone()
    };
    let request = json!({
        "query": query, "size": if of_records { RECORDS_MAX as u64 } else { examples }, "track_total_hits": true,
        "sort": [{"@timestamp": {"order": "desc", "unmapped_type": "date"}}],
        "aggs": {"days": {"date_histogram": {"field": "@timestamp", "calendar_interval": "day"}}},
    });
    let request = SearchRequest::parse(target.clone(), Some(&request))?;
    let cost = match edge.engine.search_cost(&ctx, request.clone()).await? {
        Knowledge::Known(cost) => Some(cost),
        Knowledge::Unknown(_) => None,
    };
    if let Some(cost) = cost.filter(|cost| !body.fetch && cost.bytes > edge.config.discover.ask_over_bytes) {
        return Ok(Reply::ok(&json!({"ran": false, "cost": cost.print()})));
    }
    if of_records {
        let records = event_pipelines::runner(&edge)?.record_rule(&rule, &ctx.scope).await?;
        let test = RecordTest {
            engine: &edge.engine,
            ctx,
            target,
            records: &records,
            query: &query,
            events_max: RECORDS_MAX,
            examples_max: examples as usize,
        };
        return Ok(Reply::ok(&print_records(test.run().await?)));
    }
    let response = edge.engine.search(&ctx, request).await?;
    let events = response.total.map_or(0, |total| total.value);
    let mut answer = json!({"ran": true, "events": events});
    let mut is_partial = is_incomplete(&response);
    match &search.count {
        HistoryCount::Events | HistoryCount::Records => answer["alerts"] = events.into(),
        HistoryCount::Buckets {
            sources,
            metric,
            at_least,
        } => {
            let counted = count_buckets(&edge, &ctx, &target, &query, (sources, metric.as_ref(), *at_least)).await?;
            answer["alerts"] = counted.alerts.into();
            is_partial |= counted.is_partial;
        }
    }
    answer["partial"] = is_partial.into();
    let days = response
        .aggregations
        .as_ref()
        .map_or(&Value::Null, |all| &all["days"]["buckets"]);
    let day = |bucket: &Value| json!({"day": bucket["key_as_string"], "events": bucket["doc_count"]});
    answer["days"] = days.as_array().into_iter().flatten().map(day).collect();
    answer["examples"] = response.hits.iter().map(print_example).collect();
    Ok(Reply::ok(&answer))
}

fn print_example(hit: &Hit) -> Value {
    let source = hit.source.as_deref().map(serde_json::from_slice::<Value>);
    json!({"_index": hit.index, "_id": hit.id, "_source": source.and_then(Result::ok)})
}

/// Prints what a rule that reads records would have found.
fn print_records(report: TestReport) -> Value {
    let days = report
        .days
        .iter()
        .map(|(day_ms, events)| json!({"day": TestReport::print_day(*day_ms), "events": events}));
    let mut answer = json!({
        "ran": true, "read": report.read, "events": report.events, "alerts": report.events,
        "partial": report.has_failed || report.read_from.is_some() || report.not_evaluated.events > 0,
        "days": days.collect::<Value>(), "examples": report.examples.iter().map(print_example).collect::<Value>(),
    });
    add_unevaluated(&mut answer, &report.not_evaluated, &report.not_applicable);
    if let Some(from) = report.read_from {
        answer["read_from"] = from;
    }
    answer
}

/// Whether an answer leaves something out.
fn is_incomplete(response: &SearchResponse) -> bool {
    response.timed_out || !response.shards.failures.is_empty()
}

/// Counts the windows that reach a threshold. They do not overlap here, so that bursts over the end of one may be missed.
async fn count_buckets(
    edge: &Edge,
    ctx: &RequestContext,
    target: &IndexTarget,
    query: &Value,
    (sources, metric, at_least): (&[Value], Option<&Value>, f64),
) -> Result<Counted, ApiError> {
    let mut counted = Counted {
        alerts: 0,
        is_partial: false,
    };
    let mut after: Option<Value> = None;
    for _ in 0..PAGES_MAX {
        let mut composite = json!({"size": PAGE, "sources": sources});
        if let Some(after) = after {
            composite["after"] = after;
        }
        let mut windows = json!({"composite": composite});
        if let Some(metric) = metric {
            windows["aggs"] = json!({"value": metric});
        }
        let body = json!({"size": 0, "track_total_hits": false, "query": query, "aggs": {"windows": windows}});
        let request = SearchRequest::parse(target.clone(), Some(&body))?;
        let response = edge.engine.search(ctx, request).await?;
        counted.is_partial |= is_incomplete(&response);
        let aggregations = response.aggregations.unwrap_or_default();
        let windows = &aggregations["windows"];
        let value = |bucket: &Value| match metric {
            None => bucket["doc_count"].as_f64(),
            Some(_) => bucket["value"]["value"].as_f64(),
        };
        let buckets = windows["buckets"].as_array();
        let reached = buckets
            .into_iter()
            .flatten()
            .filter(|bucket| value(bucket).is_some_and(|value| value >= at_least));
        counted.alerts += reached.count() as u64;
        after = windows.get("after_key").cloned();
        if after.is_none() {
            return Ok(counted);
        }
    }
    counted.is_partial = true;
    Ok(counted)
}
