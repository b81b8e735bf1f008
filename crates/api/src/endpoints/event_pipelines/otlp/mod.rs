//! Log records of OpenTelemetry by OTLP: over HTTP as protobuf or JSON (`/v1/logs`), and over gRPC.
//!
//! Each record becomes a JSON object with its resource and scope, which the pack `otel` maps onto common fields.

mod message;
mod record;

use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use firn_engine::{Error, ErrorKind};
use firn_pipeline::definition::SourceDefinition;
use flate2::read::GzDecoder;
use prost::Message as _;
use tokio::sync::Semaphore;

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

/// Maximum bytes of a request, unpacked. Decoded messages may be many times larger than encoded ones.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Requests that are decoded at the same time.
static DECODING: Semaphore = Semaphore::const_new(2);

/// Bytes before the message of a gRPC call: a flag, and the length.
const GRPC_PREFIX_BYTES: usize = 5;

/// `POST /v1/logs`. Answers when the records are stored durably. With several pipelines for OTLP, `pipeline` names one.
pub(crate) async fn logs(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.body.clone();
    // An empty response message: everything was taken. Dead letters are stored, too.
    if call.content_format == Some(Format::Protobuf) {
        store(&edge, &call, move || from_protobuf(&body)).await?;
        return Ok(Reply::protobuf(Vec::new()));
    }
    store(&edge, &call, move || from_json(&body)).await?;
    Ok(Reply::raw(b"{}".to_vec()))
}

/// `Export` of the gRPC service for logs, as `POST /v1/logs`.
pub(crate) async fn export(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.body.clone();
    store(&edge, &call, move || {
        from_protobuf(&grpc_message(&body, REQUEST_BYTES_MAX as u64)?)
    })
    .await?;
    Ok(Reply::grpc(Vec::new()))
}

/// Stores the records of a request in the caller's pipeline.
async fn store(
    edge: &Edge,
    call: &Call,
    decode: impl FnOnce() -> Result<ExportLogsServiceRequest, Error> + Send + 'static,
) -> Result<(), ApiError> {
    let runner = Arc::clone(runner(edge)?);
    let mut pipelines = pipelines_of(&runner, call, &SourceDefinition::Otlp {});
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
    if call.body.len() > REQUEST_BYTES_MAX {
        return Err(too_large().into());
    }
    edge.check_events(call).await?;
    let decoding = DECODING.acquire().await;
    // Decoding a large body takes a while.
    let events = blocking::print(move || decode().map(|request| record::events(&request))).await??;
    drop(decoding);
    edge.admit_events(&call.ctx, events.len() as u64, call.body.len() as u64)
        .await?;
    if !events.is_empty() {
        runner.submit(&id, events).await?;
    }
    Ok(())
}

/// Returns the only message of a gRPC call, unpacked if its flag says that it is compressed.
fn grpc_message(body: &Bytes, bytes_max: u64) -> Result<Bytes, Error> {
    let refuse = |reason: &str| Error::parsing(format!("the body is not a gRPC message: {reason}"));
    let (prefix, message) = body
        .split_at_checked(GRPC_PREFIX_BYTES)
        .ok_or_else(|| refuse("it is too short"))?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if message.len() != length as usize {
        return Err(refuse("its length is another one"));
    }
    match prefix[0] {
        0 => Ok(body.slice_ref(message)),
        1 => {
            let mut unpacked = Vec::new();
            let read = GzDecoder::new(message).take(bytes_max + 1).read_to_end(&mut unpacked);
            read.map_err(|_| refuse("it is compressed, and not with gzip"))?;
            match unpacked.len() as u64 > bytes_max {
                true => Err(too_large()),
                false => Ok(unpacked.into()),
            }
        }
        _ => Err(refuse("its flag is unknown")),
    }
}

fn too_large() -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("a request of OTLP has at most [{REQUEST_BYTES_MAX}] bytes"),
    )
}

fn refuse(reason: impl std::fmt::Display) -> Error {
    Error::parsing(format!("the body is not an ExportLogsServiceRequest: {reason}"))
}

fn from_protobuf(body: &Bytes) -> Result<ExportLogsServiceRequest, Error> {
    ExportLogsServiceRequest::decode(body.clone()).map_err(refuse)
}

fn from_json(body: &Bytes) -> Result<ExportLogsServiceRequest, Error> {
    // A list would be read as the members of the object in order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(refuse("it is not a JSON object"));
    }
    serde_json::from_slice(body).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn grpc_messages_have_a_flag_and_a_length() {
        let frame = |flag: u8, length: u32, message: &[u8]| {
            let mut frame = vec![flag];
            frame.extend_from_slice(&length.to_be_bytes());
            frame.extend_from_slice(message);
            grpc_message(&frame.into(), 100)
        };
        assert_eq!(frame(0, 3, b"abc").unwrap(), "abc");
        let gzip = |bytes: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let packed = gzip(&[b'a'; 100]);
        assert_eq!(frame(1, packed.len() as u32, &packed).unwrap(), "a".repeat(100));
        let bomb = gzip(&[b'a'; 101]);
        assert_eq!(
            frame(1, bomb.len() as u32, &bomb).unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        for bad in [
            frame(0, 2, b"abc"),
            frame(0, 4, b"abc"),
            frame(1, 3, b"abc"),
            frame(2, 3, b"abc"),
        ] {
            assert_eq!(bad.unwrap_err().kind(), ErrorKind::Parsing);
        }
        assert!(grpc_message(&Bytes::from_static(b"\0\0\0\0"), 100).is_err());
    }
}
