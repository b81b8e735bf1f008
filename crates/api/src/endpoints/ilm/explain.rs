//! `_ilm/explain`: the lifecycle state of indices.

use std::sync::Arc;

use firn_model::dates::{DateFormat, Zone, print_duration_ms};
use firn_model::ilm::{ERROR, PhaseDefinition};
use firn_model::metadata::{IndexMetadata, Metadata};
use firn_model::names::IndicesOptions;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /{index}/_ilm/explain`.
pub(crate) async fn explain(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let target = call.target(options())?;
    let only_errors = call.params.bool("only_errors", false)?;
    let only_managed = call.params.bool("only_managed", false)? || only_errors;
    let human = call.params.flag("human")?.unwrap_or(false);
    let now_ms = edge.now_ms();
    let indices: Map<String, Value> = edge
        .resolve(&target, &metadata)?
        .into_iter()
        .filter(|index| !only_managed || index.lifecycle_policy().is_some())
        .filter(|index| !only_errors || is_in_error(index, &metadata))
        .map(|index| (index.name.clone(), explanation(index, now_ms, human)))
        .collect();
    Ok(Reply::ok(&json!({"indices": indices})))
}

fn is_in_error(index: &IndexMetadata, metadata: &Metadata) -> bool {
    let failed = index
        .execution
        .as_ref()
        .is_some_and(|execution| execution.key.step == ERROR);
    let policy = index.lifecycle_policy();
    failed || policy.is_some_and(|policy| !metadata.ilm.by_name.contains_key(policy))
}

fn explanation(index: &IndexMetadata, now_ms: i64, human: bool) -> Value {
    let mut out = Explanation {
        fields: Map::new(),
        human,
    };
    out.put("index", index.name.as_str());
    out.put("managed", index.lifecycle_policy().is_some());
    let Some(policy) = index.lifecycle_policy() else {
        return Value::Object(out.fields);
    };
    out.put("policy", policy);
    out.date("index_creation_date", index.created_ms);
    out.put("time_since_index_creation", time_value(now_ms - index.created_ms));
    let Some(execution) = &index.execution else {
        return Value::Object(out.fields);
    };
    out.date("lifecycle_date", index.lifecycle_ms());
    out.put("age", time_value(now_ms - index.lifecycle_ms()));
    out.put("phase", execution.key.phase.as_str());
    out.date("phase_time", execution.phase_ms);
    out.put("action", execution.key.action.as_str());
    out.date("action_time", execution.action_ms);
    out.put("step", execution.key.step.as_str());
    out.date("step_time", execution.step_ms);
    if let Some(failed) = &execution.failed_step {
        out.put("failed_step", failed.as_str());
        // Every step is idempotent, so every failed step is retried.
        out.put("is_auto_retryable_error", true);
        out.put("failed_step_retry_count", execution.retries);
    }
    if let Some(repository) = &execution.snapshot_repository {
        out.put("repository_name", repository.as_str());
    }
    if let Some(snapshot) = &execution.snapshot_name {
        out.put("snapshot_name", snapshot.as_str());
    }
    if let Some(info) = &execution.step_info {
        out.put("step_info", info.clone());
    }
    if let Some(info) = &execution.previous_step_info {
        out.put("previous_step_info", info.clone());
    }
    let definition = execution.phase.as_ref().map(PhaseDefinition::to_json);
    let definition = definition.unwrap_or_else(|| json!({"policy": policy}));
    out.put("phase_execution", without_phase(definition));
    Value::Object(out.fields)
}

/// Removes the phase's name, which Elasticsearch prints only beside the definition.
fn without_phase(mut definition: Value) -> Value {
    if let Some(fields) = definition.as_object_mut() {
        fields.shift_remove("phase");
    }
    definition
}

struct Explanation {
    fields: Map<String, Value>,
    human: bool,
}

impl Explanation {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    fn date(&mut self, name: &str, ms: i64) {
        if self.human {
            self.put(name, DateFormat::default_millis().print_ms(ms, &Zone::utc()));
        }
        self.put(&format!("{name}_millis"), ms);
    }
}

/// Formats a duration with at most two decimals in its largest unit, as Elasticsearch: `1.25h`.
fn time_value(ms: i64) -> String {
    match u64::try_from(ms) {
        Ok(0) => "0s".to_owned(),
        Ok(ms) => print_duration_ms(ms, 2),
        // The clock was set back.
        Err(_) => ms.to_string(),
    }
}

/// Closed and hidden indices have lifecycles too.
pub(super) fn options() -> IndicesOptions {
    IndicesOptions {
        expand_closed: true,
        ..IndicesOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_read_as_in_elasticsearch() {
        for (ms, text) in [
            (0, "0s"),
            (-5, "-5"),
            (839, "839ms"),
            (12_160, "12.16s"),
            (60_000, "1m"),
            (90_000, "1.5m"),
            (4_500_000, "1.25h"),
            (86_400_000, "1d"),
            (60 * 86_400_000 + 864_000, "60.01d"),
        ] {
            assert_eq!(time_value(ms), text);
        }
    }
}
