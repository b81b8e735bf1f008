//! `_firn/rules`: detection rules, which event pipelines evaluate on each event.
//!
//! Rules belong to operators; the alerts that they raise belong to the tenants of the events.

use std::sync::Arc;

use firn_detect::{DetectionRule, RuleError, sigma};
use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{Command, DetectionCommand};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Definition of a rule, with its id.
type NamedBody = (String, Map<String, Value>);

pub(crate) const IMPORT_PARAMS: &[&str] = &["enabled", "tenant", "channels"];

/// `PUT /_firn/rules/{id}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a rule must be a JSON object").into());
    };
    let id = call.capture("id").to_owned();
    // A regular expression takes some milliseconds to compile.
    let (id, body) = blocking::print(move || DetectionRule::parse(&id, &body).map(|_| (id, body))).await??;
    let command = Command::Detection(DetectionCommand::PutRules(vec![(id, body)]));
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_firn/rules/{id}`; several ids are separated by commas. Their alerts stay.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let ids = call.capture("id").split(',').map(str::to_owned).collect();
    let command = Command::Detection(DetectionCommand::DeleteRules(ids));
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_firn/rules` and `GET /_firn/rules/{id}`: the definitions, which can be stored again as they are.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let rules = Arc::clone(&metadata.detection_rules);
    let Some(id) = call.captured("id") else {
        // Thousands of rules are megabytes.
        return Ok(blocking::print(move || Reply::ok(&rules.to_json())).await?);
    };
    let missing = || Error::new(ErrorKind::ResourceNotFound, format!("detection rule [{id}] is missing"));
    let body = rules.by_id.get(id).ok_or_else(missing)?;
    Ok(Reply::ok(&json!({ id: &**body })))
}

/// `GET /_firn/rules/_stats`: where each rule is evaluated, and why one is not.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let rules = Arc::clone(&metadata.detection_rules);
    let coverage = edge
        .config
        .event_pipelines
        .as_ref()
        .map(|runner| runner.rule_coverage());
    let coverage = coverage.unwrap_or_default();
    // Definitions are read as the pipelines read them.
    let print = move || {
        let rules = rules.by_id.iter().map(|(id, body)| {
            let parsed = DetectionRule::parse(id, body);
            let of_rule = coverage.get(id).cloned().unwrap_or_default();
            let stats = json!({
                "enabled": parsed.as_ref().is_ok_and(|rule| rule.enabled),
                "evaluated_by": of_rule.evaluated_by,
                "unmapped_in": of_rule.unmapped_in,
                "error": parsed.err().map(|error| error.reason().to_owned()),
            });
            (id.clone(), stats)
        });
        Reply::ok(&Value::Object(rules.collect()))
    };
    Ok(blocking::print(print).await?)
}

/// `POST /_firn/rules/_import`: stores the Sigma rules of a YAML text, which may hold several documents, under their own ids. The
/// answer names what was not taken, and why; the others are stored all or none.
pub(crate) async fn import(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let yaml =
        String::from_utf8(call.required_body()?.to_vec()).map_err(|_| Error::parsing("the rules are not UTF-8"))?;
    let mut options = Map::new();
    if let Some(enabled) = call.params.flag("enabled")? {
        options.insert("enabled".to_owned(), enabled.into());
    }
    if let Some(tenant) = call.params.get("tenant") {
        options.insert("tenant".to_owned(), tenant.into());
    }
    if let Some(channels) = call.params.get("channels") {
        let channels: Vec<&str> = channels.split(',').collect();
        options.insert("channels".to_owned(), channels.into());
    }
    let (rules, refused) = blocking::print(move || definitions(&yaml, &options)).await?;
    let imported: Vec<String> = rules.iter().map(|(id, _)| id.clone()).collect();
    if !rules.is_empty() {
        let command = Command::Detection(DetectionCommand::PutRules(rules));
        edge.engine.execute(&call.ctx, command).await?;
    }
    let refused: Vec<Value> = refused
        .iter()
        .map(|error| json!({"id": error.id, "title": error.title, "reason": error.reason}))
        .collect();
    Ok(Reply::ok(&json!({"imported": imported, "refused": refused})))
}

/// Returns the definitions of the rules and correlations of a text, and what cannot be used.
fn definitions(yaml: &str, options: &Map<String, Value>) -> (Vec<NamedBody>, Vec<RuleError>) {
    let (bundles, mut refused) = sigma::bundles(yaml);
    let mut rules = Vec::new();
    for bundle in bundles {
        let mut body = options.clone();
        body.insert("type".to_owned(), "sigma".into());
        body.insert("sigma".to_owned(), bundle.text.into());
        match DetectionRule::parse(&bundle.id, &body) {
            Ok(_) => rules.push((bundle.id, body)),
            Err(error) => refused.push(RuleError {
                id: bundle.id,
                title: bundle.title,
                reason: error.reason().to_owned(),
            }),
        }
    }
    (rules, refused)
}
