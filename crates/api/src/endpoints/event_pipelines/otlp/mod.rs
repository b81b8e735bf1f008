//! Log records of OpenTelemetry by OTLP over HTTP: `/v1/logs`, as protobuf or JSON.
//!
//! Each record becomes a JSON object with its resource and scope, which the pack `otel` maps onto common fields.

mod message;
mod record;

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::{Error, ErrorKind};
use firn_pipeline::definition::SourceDefinition;
use firn_pipeline::runner::PushedEvent;
use prost::Message as _;

use self::message::ExportLogsServiceRequest;
use super::events::pipelines_of;
use super::runner;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::media_type::Format;
use crate::wire::reply::Reply;

/// Parameters of the endpoint.
pub(crate) const PARAMS: &[&str] = &["pipeline"];

/// `POST /v1/logs`. Answers when the records are stored durably. With several pipelines for OTLP, `pipeline` names one.
pub(crate) async fn logs(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let runner = Arc::clone(runner(&edge)?);
    let mut pipelines = pipelines_of(&runner, &call, &SourceDefinition::Otlp {});
    if let Some(wanted) = call.params.get("pipeline") {
        pipelines.retain(|(id, _)| id == wanted);
    }
    let id = match &pipelines[..] {
        [(id, _)] => id.clone(),
        [] => {
            let reason = "there is no pipeline with the source [otlp] that the caller may write to";
            return Err(Error::new(ErrorKind::ResourceNotFound, reason).into());
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|(id, _)| id.as_str()).collect();
            let reason = format!("name one of the pipelines [{}] by [pipeline]", ids.join(", "));
            return Err(Error::illegal_argument(reason).into());
        }
    };
    let is_protobuf = call.content_format == Some(Format::Protobuf);
    let body = call.body.clone();
    // Decoding a large body takes a while.
    let events = blocking::print(move || decode(&body, is_protobuf)).await??;
    edge.admit_events(&call.ctx, events.len() as u64, call.body.len() as u64)
        .await?;
    if !events.is_empty() {
        runner.submit(&id, events).await?;
    }
    // An empty response message: everything was taken. Dead letters are stored, too.
    Ok(match is_protobuf {
        true => Reply::protobuf(Vec::new()),
        false => Reply::raw(b"{}".to_vec()),
    })
}

fn decode(body: &Bytes, is_protobuf: bool) -> Result<Vec<PushedEvent>, Error> {
    let refuse = |reason: String| Error::parsing(format!("the body is no ExportLogsServiceRequest: {reason}"));
    let request = if is_protobuf {
        ExportLogsServiceRequest::decode(body.clone()).map_err(|error| refuse(error.to_string()))?
    } else {
        // A list would be read as the members of the object in order.
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(refuse("it is no JSON object".to_owned()));
        }
        serde_json::from_slice(body).map_err(|error| refuse(error.to_string()))?
    };
    Ok(record::events(&request))
}
