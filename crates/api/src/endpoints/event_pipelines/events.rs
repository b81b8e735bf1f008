//! Events that clients hand to a pipeline by HTTP.

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::{Error, ErrorKind};
use firn_pipeline::definition::{Definition, SourceDefinition};
use firn_pipeline::runner::Runner;
use serde_json::json;

use super::{missing, runner};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `POST /_firn/pipelines/{id}/_events`: one record a line. Answers when the events are stored.
pub(crate) async fn events(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id");
    let runner = Arc::clone(runner(&edge)?);
    check_access(&runner, &call, id)?;
    edge.check_events(&call).await?;
    let records = lines(&call.required_body()?);
    edge.admit_events(&call.ctx, records.len() as u64, call.body.len() as u64)
        .await?;
    let outcome = runner.submit(id, records).await?;
    Ok(Reply::ok(&json!({
        "read": outcome.read,
        "indexed": outcome.indexed,
        "filtered": outcome.filtered,
        "dead_lettered": outcome.dead_lettered,
    })))
}

/// Returns the pipelines with a source that the caller may write to.
pub(super) fn pipelines_of(runner: &Runner, call: &Call, source: &SourceDefinition) -> Vec<(String, Arc<Definition>)> {
    let mut pipelines = runner.pipelines_with_source(source);
    pipelines.retain(|(id, _)| check_access(runner, call, id).is_ok());
    pipelines
}

/// Checks that the caller may write what the pipeline writes. To a tenant, pipelines of others do not exist.
fn check_access(runner: &Runner, call: &Call, id: &str) -> Result<(), Error> {
    let scope = &call.ctx.scope;
    let Some(definition) = runner.definition(id) else {
        return Err(missing(id));
    };
    if scope.tenant_id().is_some() && definition.tenant_id()?.as_ref() != scope.tenant_id() {
        return Err(missing(id));
    }
    match scope.allows_name(&definition.index) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Forbidden,
            format!("the caller may not write to the index of pipeline [{id}]"),
        )),
    }
}

/// Splits a body into its lines, without empty ones.
pub(super) fn lines(body: &Bytes) -> Vec<Bytes> {
    let mut records = Vec::new();
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            records.push(body.slice_ref(line));
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_records() {
        let check = |body: &'static str, expect: &[&str]| {
            assert_eq!(lines(&Bytes::from_static(body.as_bytes())), expect, "{body:?}");
        };
        check("", &[]);
        check("a", &["a"]);
        check("a\r\n\n\r\nb\n", &["a", "b"]);
        check("\n", &[]);
    }
}
