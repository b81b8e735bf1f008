//! `POST /_firn/rules/{id}/_run`: raises the alerts of a rule for stored events that no pipeline evaluated when they came.

use std::collections::HashSet;
use std::sync::Arc;

use firn_detect::{DetectionRule, EventPlace, HistoryCount, alert, group_of, history_search};
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation};
use firn_engine::{Error, ErrorKind, Knowledge, RequestContext, Scope};
use firn_model::dates::{DateFormat, Zone};
use firn_model::names::IndicesOptions;
use firn_pipeline::runner::COVERAGE_INDEX;
use firn_query::search::{Hit, IndexTarget, SearchRequest, SearchResponse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::event_pipelines;
use crate::endpoints::event_pipelines::replay::stored_document;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Events that are read at a time, and most events of one request.
const PAGE: usize = 500;
const EVENTS_MAX: u64 = 10_000;
/// Most alerts that a page of events is compared with.
const ALERTS_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    index: String,
    from: Value,
    #[serde(default)]
    to: Option<Value>,
    /// Fetch what the search needs from snapshot repositories, however much it is.
    #[serde(default)]
    fetch: bool,
}

/// Event that the rule matches.
struct Match {
    hit: Hit,
    /// Group of its alert; `None`: the rule has no groups.
    group: Option<String>,
    /// Time, ms since the epoch; `None`: it cannot be read.
    time_ms: Option<i64>,
}

impl Match {
    fn new(rule: &DetectionRule, hit: Hit) -> Self {
        let event = || {
            let event: Option<Map<String, Value>> = serde_json::from_slice(hit.source.as_deref()?).ok();
            let event = event?;
            let place = EventPlace {
                pipeline: "",
                partition: None,
                offset: 0,
                tenant: event.get("tenant").and_then(Value::as_str),
            };
            Some(group_of(&alert(rule, &event, place, "", &[])).to_owned())
        };
        Self {
            group: (!rule.group_by.is_empty()).then(event).flatten(),
            time_ms: hit.sort.first().and_then(time_ms),
            hit,
        }
    }
}

fn time_ms(value: &Value) -> Option<i64> {
    DateFormat::default_millis().parse_ms(value.as_str()?).ok()
}

/// What the alerts of a rule stand for.
#[derive(Default)]
struct Known {
    /// Index and id of events.
    events: HashSet<(String, String)>,
    /// Group, and the times of its first and last event, ms since the epoch.
    groups: Vec<(String, i64, i64)>,
}

impl Known {
    /// Reads the alerts that some of the events may have.
    async fn read(edge: &Edge, rule: &DetectionRule, matches: &[Match]) -> Result<Self, ApiError> {
        let ids: Vec<&str> = matches.iter().map(|found| found.hit.id.as_str()).collect();
        let groups: HashSet<&str> = matches.iter().filter_map(|found| found.group.as_deref()).collect();
        let mut should = vec![json!({"terms": {"firn.alert.event.id": ids}})];
        if !groups.is_empty() {
            let times = || matches.iter().filter_map(|found| found.time_ms);
            let bounds = json!({"gte": times().min(), "format": "epoch_millis"});
            should.push(json!({"bool": {
                "filter": [
                    {"terms": {"firn.alert.group": groups}},
                    {"range": {"firn.alert.event.time": {"lte": times().max(), "format": "epoch_millis"}}},
                ],
                "should": [
                    {"range": {"firn.alert.last_event_time": bounds}}, {"range": {"firn.alert.event.time": bounds}},
                ],
                "minimum_should_match": 1,
            }}));
        }
        let target = IndexTarget {
            expression: vec![".alerts-*".to_owned()],
            options: IndicesOptions {
                ignore_unavailable: true,
                expand_hidden: true,
                ..IndicesOptions::default()
            },
        };
        // Alerts are written by firn, whose view holds those of all tenants.
        let ctx = RequestContext::new();
        edge.engine.refresh(&ctx, target.clone()).await?;
        let body = json!({
            "size": ALERTS_MAX, "track_total_hits": false, "_source": ["firn.alert"],
            "query": {"bool": {
                "filter": [{"term": {"rule.id": rule.rule.id}}], "should": should, "minimum_should_match": 1,
            }},
        });
        let response: SearchResponse = edge
            .engine
            .search(&ctx, SearchRequest::parse(target, Some(&body))?)
            .await?;
        if response.timed_out || !response.shards.failures.is_empty() || response.hits.len() >= ALERTS_MAX {
            let reason = "the alerts that the rule has raised cannot be read as a whole: it would raise them again";
            return Err(Error::new(ErrorKind::Unavailable, reason).into());
        }
        let mut known = Self::default();
        for hit in response.hits {
            let source: Option<Value> = hit
                .source
                .as_deref()
                .and_then(|source| serde_json::from_slice(source).ok());
            let source = source.unwrap_or_default();
            let state = &source["firn"]["alert"];
            let text = |name: &str| state["event"][name].as_str().unwrap_or_default().to_owned();
            known.events.insert((text("index"), text("id")));
            let first = time_ms(&state["event"]["time"]);
            let last = time_ms(&state["last_event_time"]).or(first);
            if let (Some(group), Some(first), Some(last)) = (state["group"].as_str(), first, last) {
                known.groups.push((group.to_owned(), first, last));
            }
        }
        Ok(known)
    }

    /// Whether an alert stands for an event.
    fn has(&self, found: &Match) -> bool {
        let hit = &found.hit;
        let of_group = |group: &str, time_ms: i64| {
            let mut groups = self.groups.iter();
            groups.any(|(known, first, last)| known == group && (*first..=*last).contains(&time_ms))
        };
        let is_grouped = found
            .group
            .as_deref()
            .zip(found.time_ms)
            .is_some_and(|(group, time)| of_group(group, time));
        is_grouped || self.events.contains(&(hit.index.clone(), hit.id.clone()))
    }
}

pub(crate) async fn run(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body: Body = match call.required_json()? {
        body @ Value::Object(_) => serde_json::from_value(body).map_err(|error| Error::parsing(error.to_string()))?,
        _ => return Err(Error::parsing("the body must be a JSON object").into()),
    };
    let id = call.capture("id").to_owned();
    let metadata = edge.metadata(&call).await?;
    let missing = || Error::new(ErrorKind::ResourceNotFound, format!("detection rule [{id}] is missing"));
    let definition = Arc::clone(metadata.detection_rules.by_id.get(&id).ok_or_else(missing)?);
    let parsed = Arc::clone(&definition);
    let named = id.clone();
    let rule = blocking::print(move || DetectionRule::parse(&named, &parsed)).await??;
    let search = history_search(&rule, &definition).map_err(Error::illegal_argument)?;
    if search.count != HistoryCount::Events {
        let reason = format!("rule [{id}] counts several events: only a pipeline evaluates it");
        return Err(Error::illegal_argument(reason).into());
    }
    let now_ms = edge.now_ms();
    let from_ms = time_of("from", &body.from, now_ms)?;
    let to_ms = body.to.as_ref().map_or(Ok(now_ms), |to| time_of("to", to, now_ms))?;
    let range = json!({"gte": from_ms, "lt": to_ms, "format": "epoch_millis"});
    let query = json!({"bool": {"filter": [search.query, {"range": {"@timestamp": range}}]}});
    let mut ctx = call.ctx.clone();
    if let Some(tenant) = &rule.tenant {
        ctx.scope = Arc::new(Scope::tenant(tenant.clone()));
    }
    let target = IndexTarget {
        expression: body.index.split(',').map(str::to_owned).collect(),
        options: IndicesOptions::default(),
    };
    let page = |after: Option<&Vec<Value>>| {
        let mut page = json!({
            "size": PAGE, "track_total_hits": false, "seq_no_primary_term": true,
            "sort": [{"@timestamp": {"order": "asc", "format": "strict_date_optional_time_nanos"}}, "_shard_doc"],
        });
        if let Some(after) = after {
            page["search_after"] = after.clone().into();
        }
        page
    };
    if !body.fetch {
        let request = json!({"query": query, "size": PAGE});
        let request = SearchRequest::parse(target.clone(), Some(&request))?;
        if let Knowledge::Known(cost) = edge.engine.search_cost(&ctx, request).await?
            && cost.bytes > edge.config.discover.ask_over_bytes
        {
            return Ok(Reply::ok(&json!({"ran": false, "cost": cost.print()})));
        }
    }
    edge.engine.refresh(&ctx, target.clone()).await?;
    let run = event_pipelines::runner(&edge)?.start_rule_run(&rule).await?;
    let moment = SharedPointInTime::open(&edge, &ctx, &target, Vec::new(), None).await?;
    let (mut events, mut alerts, mut existing) = (0_u64, 0_u64, 0_u64);
    let mut after: Option<Vec<Value>> = None;
    let (mut is_complete, mut is_partial) = (false, false);
    while events < EVENTS_MAX {
        let response = moment.search(moment.request(&query, page(after.as_ref()))?).await?;
        is_partial |= response.timed_out || !response.shards.failures.is_empty();
        let Some(last) = response.hits.last() else {
            is_complete = true;
            break;
        };
        after = Some(last.sort.clone());
        events += response.hits.len() as u64;
        let found = response.hits.len() as u64;
        let matches: Vec<Match> = response.hits.into_iter().map(|hit| Match::new(&rule, hit)).collect();
        let known = Known::read(&edge, &rule, &matches).await?;
        let open = matches.into_iter().filter(|found| !known.has(found));
        let open = open
            .map(|found| stored_document(found.hit))
            .collect::<Result<Vec<_>, Error>>()?;
        existing += found - open.len() as u64;
        alerts += run.raise(open).await?;
    }
    let mut answer = json!({
        "ran": true, "events": events, "alerts": alerts, "existing": existing, "complete": is_complete, "partial": is_partial,
    });
    if let (false, Some(after)) = (is_complete, after) {
        answer["continue_from"] = after.first().cloned().unwrap_or_default();
    }
    if is_complete && !is_partial {
        note_run(
            &edge,
            json!({"rule": id, "index": body.index, "from": from_ms, "to": to_ms}),
        )
        .await?;
    }
    Ok(Reply::ok(&answer))
}

/// Reads a time: a date, date math, or milliseconds since the epoch.
fn time_of(member: &str, value: &Value, now_ms: i64) -> Result<i64, Error> {
    let refuse = || Error::illegal_argument(format!("[{member}] is a date or date math, not [{value}]"));
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(refuse()),
    };
    let parsed = DateFormat::default_millis().parse_math_ms(&text, now_ms, false, &Zone::utc());
    parsed.map_err(|_| refuse())
}

/// Records in the coverage ledger what a run has read.
async fn note_run(edge: &Edge, mut record: Value) -> Result<(), Error> {
    record["@timestamp"] = edge.now_ms().into();
    let item = BulkItem {
        index: COVERAGE_INDEX.to_owned(),
        id: None,
        routing: None,
        operation: Operation::Create {
            source: record.to_string().into_bytes().into(),
        },
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    };
    let request = BulkRequest {
        items: vec![item],
        ..BulkRequest::default()
    };
    let response = edge.engine.bulk(&RequestContext::new(), request).await?;
    for item in response.items {
        item.result?;
    }
    Ok(())
}
