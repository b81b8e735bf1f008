//! `_firn/rules`: detection rules, which event pipelines evaluate on each event.
//!
//! Rules belong to operators; the alerts that they raise belong to the tenants of the events.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_detect::{DetectionRule, Throttle, rule_summary};
use firn_engine::{Error, ErrorKind};
use firn_model::dates::{DateFormat, Zone};
use firn_model::metadata::{Command, DetectionCommand, check_detection_rule_id};
use firn_pipeline::rule_history::OpenHoles;
use firn_pipeline::runner::RuleCost;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const GET_PARAMS: &[&str] = &["short"];

/// `PUT /_firn/rules/{id}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a rule must be a JSON object").into());
    };
    let id = call.capture("id").to_owned();
    check_detection_rule_id(&id)?;
    // A regular expression takes some milliseconds to compile.
    let (id, body) = blocking::print(move || DetectionRule::parse(&id, &body).map(|_| (id, body))).await??;
    let command = Command::Detection(DetectionCommand::PutRules(vec![(id, body)]));
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// Id of a rule that is only validated.
const VALIDATED: &str = "_validate";

/// `POST /_firn/rules/_validate`: whether a definition can be stored, as `_validate/query` answers for queries. Nothing is stored or
/// searched.
pub(crate) async fn validate(_edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(mut body) = call.required_json()? else {
        return Err(Error::parsing("the body must be a JSON object").into());
    };
    let Some(Value::Object(rule)) = body.remove("rule") else {
        return Err(Error::illegal_argument("the body needs [rule], the definition of a rule").into());
    };
    if let Some(member) = body.keys().next() {
        return Err(Error::illegal_argument(format!("unknown member [{member}]")).into());
    }
    let parsed = blocking::print(move || DetectionRule::parse(VALIDATED, &rule)).await?;
    let Err(error) = parsed else {
        return Ok(Reply::ok(&json!({"valid": true})));
    };
    // The rule has no id yet that a reader knows.
    let prefix = format!("rule [{VALIDATED}]: ");
    let reason = error.reason();
    let reason = reason.strip_prefix(&prefix).unwrap_or(reason);
    Ok(Reply::ok(&json!({"valid": false, "error": reason})))
}

/// `DELETE /_firn/rules/{id}`; several ids are separated by commas. Their alerts stay.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let ids = call.capture("id").split(',').map(str::to_owned).collect();
    let command = Command::Detection(DetectionCommand::DeleteRules(ids));
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_firn/rules` and `GET /_firn/rules/{id}`: the definitions, which can be stored again as they are; with `short` what a list
/// shows of them.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let is_short = call.params.bool("short", false)?;
    let metadata = edge.metadata(&call).await?;
    let rules = Arc::clone(&metadata.detection_rules);
    let Some(id) = call.captured("id") else {
        if is_short {
            let print = move || Reply::ok(&edge.rule_definitions.summaries(rules.by_id.iter()));
            return Ok(blocking::print(print).await?);
        }
        // Thousands of rules are megabytes.
        return Ok(blocking::print(move || Reply::ok(&rules.to_json())).await?);
    };
    let missing = || Error::new(ErrorKind::ResourceNotFound, format!("detection rule [{id}] is missing"));
    let body = rules.by_id.get(id).ok_or_else(missing)?;
    if is_short {
        return Ok(Reply::ok(&json!({ id: rule_summary(id, body) })));
    }
    Ok(Reply::ok(&json!({ id: &**body })))
}

/// `GET /_firn/rules/_stats`: where each rule is evaluated, and why one is not.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let rules = Arc::clone(&metadata.detection_rules);
    let runner = edge.config.event_pipelines.as_ref();
    let coverage = runner.map(|runner| runner.rule_coverage()).unwrap_or_default();
    let budget = runner.and_then(|runner| runner.budget());
    let parsed = runner.map(|runner| runner.parsed_rules());
    let (shares, throttles) = match budget {
        Some(budget) => (budget.shares(), budget.throttles()),
        None => (BTreeMap::new(), BTreeMap::new()),
    };
    let pipelines = &metadata.event_pipelines.by_id;
    // The rest is known without the ledger.
    let open_holes = edge
        .open_holes
        .get(&*edge.engine, |id| pipelines.contains_key(id))
        .await;
    let open_holes = open_holes
        .inspect_err(|error| tracing::warn!(%error, "the open holes of detection rules cannot be read"))
        .ok();
    let print = move || {
        let verdicts = edge.rule_definitions.verdicts(parsed.as_deref(), rules.by_id.iter());
        let rules = verdicts.into_iter().map(|(id, verdict)| {
            let of_rule = coverage.get(&id).cloned().unwrap_or_default();
            let costs = of_rule.costs.iter();
            let costs: Map<String, Value> = costs.map(|(id, cost)| (id.clone(), print_cost(*cost))).collect();
            let stats = json!({
                "enabled": verdict.is_enabled,
                "evaluated_by": of_rule.evaluated_by,
                "unmapped_in": of_rule.unmapped_in,
                "error": verdict.error,
                "cpu": {"core_percent": percent(shares.get(&id).copied().unwrap_or(0.0)), "pipelines": costs},
                "throttled": throttles.get(&id).map(print_throttle),
                "throttled_in": of_rule.throttled_in,
                "open_holes": open_holes.as_ref().map(|holes| print_holes(holes.get(&id))),
            });
            (id, stats)
        });
        Reply::ok(&Value::Object(rules.collect()))
    };
    Ok(blocking::print(print).await?)
}

/// Two decimals are more than a sample tells.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

fn print_cost(cost: RuleCost) -> Value {
    let micros = (cost.nanos as f64 / cost.events.max(1) as f64).round() / 1_000.0;
    json!({"total_in_millis": cost.nanos / 1_000_000, "events": cost.events, "micros_per_event": micros})
}

fn print_holes(holes: Option<&OpenHoles>) -> Value {
    match holes {
        None => json!({"count": 0}),
        Some(holes) => json!({"count": holes.count, "since": holes.since, "pipelines": holes.pipelines}),
    }
}

fn print_throttle(throttle: &Throttle) -> Value {
    let time = |ns: i64| DateFormat::default_millis().print_ms(ns / 1_000_000, &Zone::utc());
    let reason = match throttle.is_skipped {
        true => "budget exhausted",
        false => "budget exhausted; the rule counts several events and is evaluated all the same",
    };
    json!({
        "reason": reason, "since": time(throttle.since_ns), "until": time(throttle.until_ns), "evaluated": !throttle.is_skipped,
        "core_percent": percent(throttle.share), "core_percent_max": percent(throttle.share_max),
    })
}
