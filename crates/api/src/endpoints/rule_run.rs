//! `POST /_firn/rules/{id}/_run`: raises the alerts of a rule for stored events that no pipeline evaluated when they came.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_detect::{DetectionRule, HistoryCount, check_run, history_search};
use firn_engine::{Error, ErrorKind, RequestContext, Scope};
use firn_model::dates::{DateFormat, Zone};
use firn_model::names::IndicesOptions;
use firn_model::tenant::TenantId;
use firn_pipeline::rule_history::{
    RunOutcome, RunReport, StoredRun, Unevaluated, index_without_tenants, reason_without_tenants,
};
use firn_pipeline::run_mark::RunMark;
use firn_query::search::IndexTarget;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::event_pipelines;
use crate::endpoints::search::whole_failure;
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Most events of one request.
const EVENTS_MAX: u64 = 10_000;

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

/// Reads a body whose members `check` knows: it says what is wrong in the words of a definition.
///
/// # Errors
/// [`ErrorKind::Parsing`] names the member, and what is expected there.
pub(super) fn typed_body<T: DeserializeOwned>(
    body: Value,
    check: impl Fn(&Map<String, Value>) -> Result<(), String>,
) -> Result<T, Error> {
    let Value::Object(members) = &body else {
        return Err(Error::parsing("the body must be a JSON object"));
    };
    check(members).map_err(Error::parsing)?;
    serde_json::from_value(body).map_err(|error| Error::parsing(error.to_string()))
}

pub(crate) async fn run(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body: Body = typed_body(call.required_json()?, check_run)?;
    let id = call.capture("id").to_owned();
    let metadata = edge.metadata(&call).await?;
    let missing = || Error::new(ErrorKind::ResourceNotFound, format!("detection rule [{id}] is missing"));
    let definition = Arc::clone(metadata.detection_rules.by_id.get(&id).ok_or_else(missing)?);
    let parsed = Arc::clone(&definition);
    let named = id.clone();
    let rule = blocking::print(move || DetectionRule::parse(&named, &parsed)).await??;
    let search = history_search(&rule, &definition).map_err(Error::illegal_argument)?;
    if !matches!(search.count, HistoryCount::Events | HistoryCount::Records) {
        let reason = format!("rule [{id}] counts several events: only a pipeline evaluates it");
        return Err(Error::illegal_argument(reason).into());
    }
    let now_ms = edge.now_ms();
    let from = match body.from.as_str().map(RunMark::parse).transpose()?.flatten() {
        Some(mark) => mark,
        None => RunMark::at_ms(time_of("from", &body.from, now_ms)?),
    };
    let to_ms = body.to.as_ref().map_or(Ok(now_ms), |to| time_of("to", to, now_ms))?;
    if from >= RunMark::at_ms(to_ms) {
        return Err(Error::illegal_argument("[from] must be before [to]").into());
    }
    let (target, scope) = events_of(&call, &body.index, rule.tenant.as_ref())?;
    if rule.tenant.is_some()
        && let Some(index) = index_without_tenants(&metadata, &target.expression)
    {
        return Err(Error::illegal_argument(reason_without_tenants(&index)).into());
    }
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..call.ctx.clone()
    };
    let runner = event_pipelines::runner(&edge)?;
    let records = match search.count {
        HistoryCount::Records => Some(runner.record_rule(&rule, &ctx.scope).await?),
        _ => None,
    };
    let of_stored = StoredRun {
        engine: &edge.engine,
        ctx,
        target: target.clone(),
        rule: &rule,
        query: &search.query,
        records: records.as_ref(),
        from,
        to_ms,
        fetch_bytes_max: edge.config.discover.ask_over_bytes,
    };
    if !body.fetch
        && let RunOutcome::TooDear(cost) = of_stored.check_cost().await?
    {
        return Ok(Reply::ok(&json!({"ran": false, "cost": cost.print()})));
    }
    let run = runner.start_rule_run(&rule).await?;
    let report = of_stored.run(&run, EVENTS_MAX).await;
    let report = report.map_err(|error| whole_failure(&edge, error, &target.expression))?;
    // A part counts as far as it has read.
    let read_until = report.continue_from.unwrap_or_else(|| RunMark::at_ms(to_ms));
    let reads = call.identity.scope(Privilege::Read);
    if read_until > from && reads.is_some_and(|scope| scope.is_unlimited()) {
        let marks = (from, read_until);
        if report.is_certain() {
            run.complete(&body.index, marks).await?;
        } else if report.not_evaluated.events > 0 && report.failure.is_none() {
            let reason = format!("in a run, {}", report.not_evaluated.describe());
            run.complete_without(&body.index, marks, report.not_evaluated.events, &reason)
                .await?;
        }
    }
    Ok(Reply::ok(&print(report, records.is_some())))
}

fn print(report: RunReport, reads_records: bool) -> Value {
    let mut answer = json!({
        "ran": true, "events": report.events, "alerts": report.alerts, "existing": report.existing, "in_groups": report.in_groups,
        "without_time": report.without_time, "complete": report.continue_from.is_none(), "partial": report.failure.is_some(),
    });
    if reads_records {
        answer["read"] = report.read.into();
        add_unevaluated(&mut answer, &report.not_evaluated, &report.not_applicable);
    }
    if let Some(from) = report.continue_from {
        answer["continue_from"] = from.to_string().into();
    }
    if let Some(failure) = report.failure {
        answer["reason"] = failure.into();
    }
    answer
}

/// Adds on how many events a rule was not evaluated, and why.
pub(super) fn add_unevaluated(answer: &mut Value, not_evaluated: &Unevaluated, not_applicable: &Unevaluated) {
    for (member, events) in [("not_evaluated", not_evaluated), ("not_applicable", not_applicable)] {
        let reasons = events.reasons.iter().map(|of_reason| {
            let (index, id) = &of_reason.example;
            let mut printed = json!({
                "reason": of_reason.reason, "events": of_reason.events, "example": {"_index": index, "_id": id},
            });
            if let Some(detail) = &of_reason.detail {
                printed["detail"] = detail.as_str().into();
            }
            printed
        });
        answer[member] = json!({"events": events.events, "reasons": reasons.collect::<Value>()});
    }
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
