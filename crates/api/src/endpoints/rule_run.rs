//! `POST /_firn/rules/{id}/_run`: raises the alerts of a rule for stored events that no pipeline evaluated when they came.

use std::collections::HashSet;
use std::sync::Arc;

use firn_auth::Privilege;
use firn_detect::{DetectionRule, EventPlace, HistoryCount, alert, group_of, history_search};
use firn_engine::{Error, ErrorKind, Knowledge, RequestContext, Scope};
use firn_model::dates::{DateFormat, Zone};
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use firn_model::tenant::TenantId;
use firn_pipeline::runner::TenantEvent;
use firn_pipeline::sources::tenant_of;
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
    /// Tenant, if its index holds events by tenant.
    tenant: Option<String>,
    /// Group of its alert; `None`: the rule has no groups.
    group: Option<String>,
    /// Time, ms since the epoch; `None`: it cannot be read.
    time_ms: Option<i64>,
}

impl Match {
    fn new(rule: &DetectionRule, metadata: &Metadata, hit: Hit) -> Self {
        let index = metadata.indices.get(&hit.index);
        let field = index.and_then(|index| index.settings.tenant_field.as_deref());
        let tenant = field
            .zip(hit.source.as_deref())
            .and_then(|(field, event)| tenant_of(event, field));
        let event = || {
            let event: Option<Map<String, Value>> = serde_json::from_slice(hit.source.as_deref()?).ok();
            let event = event?;
            let place = EventPlace {
                pipeline: "",
                partition: None,
                offset: 0,
                tenant: tenant.as_deref(),
            };
            Some(group_of(&alert(rule, &event, place, "", &[])).to_owned())
        };
        Self {
            group: (!rule.group_by.is_empty()).then(event).flatten(),
            time_ms: hit.sort.first().and_then(time_ms),
            tenant,
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

    fn of(&self, found: &Match) -> Standing {
        let hit = &found.hit;
        if self.events.contains(&(hit.index.clone(), hit.id.clone())) {
            return Standing::Alerted;
        }
        let of_group = |(group, time_ms): (&str, i64)| {
            let mut groups = self.groups.iter();
            groups.any(|(known, first, last)| known == group && (*first..=*last).contains(&time_ms))
        };
        match found.group.as_deref().zip(found.time_ms).is_some_and(of_group) {
            true => Standing::InGroup,
            false => Standing::New,
        }
    }
}

/// What is known of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// An alert links to it.
    Alerted,
    /// It is of the time of an alert of its group, which may count it.
    InGroup,
    /// No alert stands for it.
    New,
}

/// Returns the names that a caller gives, who may read these events.
///
/// # Errors
/// [`ErrorKind::IllegalArgument`]: there is no name, or one of indices that hold no events. [`ErrorKind::Forbidden`]: the caller may not
/// search.
pub(super) fn events_of(call: &Call, index: &str, tenant: Option<&TenantId>) -> Result<(IndexTarget, Scope), Error> {
    let names: Vec<String> = index.split(',').map(str::to_owned).collect();
    if let Some(name) = names
        .iter()
        .find(|name| name.is_empty() || name.starts_with(['.', '<']))
    {
        return Err(Error::illegal_argument(format!(
            "[index] names indices of events, and none that starts with [.] or [<], not [{name}]"
        )));
    }
    let reads = call.identity.scope(Privilege::Read);
    let mut scope = reads.ok_or_else(|| call.identity.refusal("indices:data/read/search", Privilege::Read))?;
    if let Some(tenant) = tenant {
        let of_tenant = Scope::tenant(tenant.clone());
        scope = scope
            .names()
            .iter()
            .fold(of_tenant, |scope, names| scope.within(Arc::clone(names)));
    }
    let target = IndexTarget {
        expression: names,
        options: IndicesOptions::default(),
    };
    Ok((target, scope))
}

/// Counts of a run.
#[derive(Default)]
struct Counts {
    events: u64,
    alerts: u64,
    existing: u64,
    in_groups: u64,
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
    let search = history_search(&rule, &definition, edge.now_ms()).map_err(Error::illegal_argument)?;
    if search.count != HistoryCount::Events {
        let reason = format!("rule [{id}] counts several events: only a pipeline evaluates it");
        return Err(Error::illegal_argument(reason).into());
    }
    let now_ms = edge.now_ms();
    let from_ms = time_of("from", &body.from, now_ms)?;
    let to_ms = body.to.as_ref().map_or(Ok(now_ms), |to| time_of("to", to, now_ms))?;
    if from_ms >= to_ms {
        return Err(Error::illegal_argument("[from] must be before [to]").into());
    }
    let range = json!({"gte": from_ms, "lt": to_ms, "format": "epoch_millis"});
    let query = json!({"bool": {"filter": [search.query, {"range": {"@timestamp": range}}]}});
    let (target, scope) = events_of(&call, &body.index, rule.tenant.as_ref())?;
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..call.ctx.clone()
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
    let without_time = count_without_time(&edge, &ctx, &target, &search.query).await?;
    let moment = SharedPointInTime::open(&edge, &ctx, &target, Vec::new(), None).await?;
    let mut counts = Counts::default();
    let mut after: Option<Vec<Value>> = None;
    let mut first = Value::Null;
    let mut is_complete = false;
    let mut failure = None;
    loop {
        // The next request begins with the time of the last event: it must get further than this one began.
        let at = after.as_ref().and_then(|after| after.first());
        if counts.events >= EVENTS_MAX && at != Some(&first) {
            break;
        }
        let response = moment.search(moment.request(&query, page(after.as_ref()))?).await?;
        if response.timed_out {
            failure = Some("the search took too long".to_owned());
        }
        let failed = response.shards.failures.first();
        failure = failed
            .map(|(index, _, error)| format!("[{index}]: {}", error.reason()))
            .or(failure);
        let Some(last) = response.hits.last() else {
            is_complete = true;
            break;
        };
        if first.is_null() {
            first = response.hits[0].sort.first().cloned().unwrap_or_default();
        }
        after = Some(last.sort.clone());
        counts.events += response.hits.len() as u64;
        let hits = response.hits.into_iter();
        let matches: Vec<Match> = hits.map(|hit| Match::new(&rule, &metadata, hit)).collect();
        let known = Known::read(&edge, &rule, &matches).await?;
        let mut open: Vec<TenantEvent> = Vec::new();
        for found in matches {
            match known.of(&found) {
                Standing::Alerted => counts.existing += 1,
                Standing::InGroup => counts.in_groups += 1,
                Standing::New => open.push((stored_document(found.hit)?, found.tenant)),
            }
        }
        counts.alerts += run.raise(open).await?;
    }
    let mut answer = json!({
        "ran": true, "events": counts.events, "alerts": counts.alerts, "existing": counts.existing, "in_groups": counts.in_groups,
        "without_time": without_time, "complete": is_complete, "partial": failure.is_some(),
    });
    if let (false, Some(after)) = (is_complete, after) {
        answer["continue_from"] = after.first().cloned().unwrap_or_default();
    }
    // Otherwise there may be events that no alert stands for.
    let is_certain = is_complete && failure.is_none() && without_time == Some(0) && counts.in_groups == 0;
    if is_certain
        && call
            .identity
            .scope(Privilege::Read)
            .is_some_and(|scope| scope.is_unlimited())
    {
        run.complete(&body.index, (from_ms, to_ms)).await?;
    }
    if let Some(failure) = failure {
        answer["reason"] = failure.into();
    }
    Ok(Reply::ok(&answer))
}

/// Counts the events that match and have no time, which no range finds. `None`: unknown, since it would fetch too much from snapshot
/// repositories, or some shards cannot be read.
async fn count_without_time(
    edge: &Edge,
    ctx: &RequestContext,
    target: &IndexTarget,
    query: &Value,
) -> Result<Option<u64>, ApiError> {
    let query = json!({"bool": {"filter": [query], "must_not": [{"exists": {"field": "@timestamp"}}]}});
    let body = json!({"size": 0, "track_total_hits": true, "query": query});
    let request = SearchRequest::parse(target.clone(), Some(&body))?;
    if let Knowledge::Known(cost) = edge.engine.search_cost(ctx, request.clone()).await?
        && cost.bytes > edge.config.discover.ask_over_bytes
    {
        return Ok(None);
    }
    let response = edge.engine.search(ctx, request).await?;
    let is_whole = !response.timed_out && response.shards.failures.is_empty();
    Ok(response.total.map(|total| total.value).filter(|_| is_whole))
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
