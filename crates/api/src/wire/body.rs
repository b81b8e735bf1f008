//! Reader of request bodies: bounded in bytes and time, counted against a memory budget, decompressed.

use std::io::Read as _;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use firn_engine::{Error, ErrorKind, FairPermit, FairSemaphore, Result};
use firn_model::tenant::TenantId;
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Body;

use crate::wire::error::ApiError;

/// Factor of the maximum body length up to which a refused body is still read and dropped. A client that sends first
/// and listens later then sees the answer instead of a reset connection.
const DRAIN_FACTOR: u64 = 4;
/// Larger bodies are decompressed on a blocking thread.
const INFLATE_ELSEWHERE_FROM_BYTES: usize = 64 << 10;
/// First size of a buffer without a known final size.
const UNANNOUNCED_BYTES: u64 = 1 << 20;

/// Budget of body bytes in memory, for all requests together.
pub(crate) type BodyBudget = FairSemaphore<Option<TenantId>>;

/// Share of one request in the budget; dropping it returns the bytes.
pub(crate) type BodyShare = FairPermit<Option<TenantId>>;

/// Limits of one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) max_bytes: u64,
    pub(crate) idle: Duration,
}

/// Returns the error of a body that took longer than `patience`.
pub(crate) fn too_slow(patience: Duration) -> ApiError {
    timed_out(format!(
        "the request's body took more than [{}ms]",
        patience.as_millis()
    ))
}

fn timed_out(reason: String) -> ApiError {
    ApiError::Rest {
        status: StatusCode::REQUEST_TIMEOUT,
        error_type: "receive_timeout_transport_exception",
        reason,
    }
}

/// Grows a share to at least `bytes`.
fn grow_to(share: &mut BodyShare, bytes: u64) -> Result<()> {
    let more = bytes.saturating_sub(share.amount());
    share.grow(more).map_err(|before| {
        Error::new(
            ErrorKind::CircuitBreaking,
            format!(
                "[inflight_requests] Data too large, data for [<http_request>] would be [{}b], which is larger than the limit of [{}b]",
                before + more,
                share.of().limit()
            ),
        )
    })
}

/// Whole body as it was received.
pub(crate) struct ReceivedBody {
    bytes: Bytes,
    is_gzip: bool,
}

/// Reads the whole body and decompresses it if its headers name an encoding.
pub(crate) async fn read<B>(
    headers: &HeaderMap,
    body: Pin<&mut B>,
    limits: BodyLimits,
    share: &mut BodyShare,
) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    receive(headers, body, limits, share)
        .await?
        .decompress(limits, share)
        .await
}

/// Reads the whole body and does not decompress it.
pub(crate) async fn receive<B>(
    headers: &HeaderMap,
    body: Pin<&mut B>,
    limits: BodyLimits,
    share: &mut BodyShare,
) -> Result<ReceivedBody, ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let is_gzip = match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"" | b"identity") => false,
        Some(b"gzip" | b"x-gzip") => true,
        Some(other) => {
            return Err(ApiError::Plain {
                status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
                sentence: format!(
                    "Content-Encoding [{}] is not supported, only [gzip] is",
                    String::from_utf8_lossy(other)
                ),
                allow: None,
            });
        }
    };
    let bytes = collect(headers, body, limits, share).await?;
    Ok(ReceivedBody { bytes, is_gzip })
}

impl ReceivedBody {
    /// Returns the first bytes of the text, at most `length`, if the body is compressed; fewer if it ends or is damaged before.
    pub(crate) fn start_of_compressed(&self, length: u64) -> Option<Vec<u8>> {
        if !self.is_gzip || self.bytes.is_empty() {
            return None;
        }
        let mut start = Vec::new();
        // What is before the damage was read.
        let _ = MultiGzDecoder::new(self.bytes.as_ref())
            .take(length)
            .read_to_end(&mut start);
        Some(start)
    }

    /// Returns the text.
    pub(crate) async fn decompress(self, limits: BodyLimits, share: &mut BodyShare) -> Result<Bytes, ApiError> {
        let bytes = self.bytes;
        if !self.is_gzip || bytes.is_empty() {
            return Ok(bytes);
        }
        if bytes.len() < INFLATE_ELSEWHERE_FROM_BYTES {
            return Ok(gunzip(&bytes, limits.max_bytes, share)?);
        }
        let mut own = share.sibling();
        std::mem::swap(&mut own, share);
        let (result, own) = tokio::task::spawn_blocking(move || (gunzip(&bytes, limits.max_bytes, &mut own), own))
            .await
            .map_err(|_| Error::internal("inflating a request's body failed"))?;
        *share = own;
        Ok(result?)
    }
}

async fn collect<B>(
    headers: &HeaderMap,
    mut body: Pin<&mut B>,
    limits: BodyLimits,
    share: &mut BodyShare,
) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if let Some(announced) = announced {
        if announced > limits.max_bytes {
            return Err(too_large(announced, limits.max_bytes).into());
        }
        grow_to(share, announced)?;
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0u64;
    loop {
        let frame = match tokio::time::timeout(limits.idle, body.frame()).await {
            Err(_) => {
                return Err(timed_out(format!(
                    "the request's body paused for more than [{}ms]",
                    limits.idle.as_millis()
                )));
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                return Err(ApiError::bad_request(
                    "illegal_argument_exception",
                    format!("the request's body ended early: {error}"),
                ));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        length += data.len() as u64;
        if length > limits.max_bytes {
            return Err(too_large(length, limits.max_bytes).into());
        }
        grow_to(share, length)?;
        // A body that arrives in one piece is not copied.
        match (&first, rest.is_empty()) {
            (None, true) => first = Some(data),
            (Some(start), true) => {
                // The budget has granted the announced length, so the buffer reserves it at once: growing in steps
                // would copy the body several times.
                rest.reserve(announced.unwrap_or(length + UNANNOUNCED_BYTES).max(length) as usize);
                rest.extend_from_slice(start);
                rest.extend_from_slice(&data);
            }
            _ => rest.extend_from_slice(&data),
        }
    }
    Ok(if rest.is_empty() {
        first.unwrap_or_default()
    } else {
        rest.freeze()
    })
}

/// Reads the rest of the body of a refused request in the background and drops it. The answer goes out at once: a
/// client that announced too large a body gets it right after the request head. The rest must be read because a
/// connection closed over unread bytes is reset, and a client that sends first and listens later might never see why it
/// was refused.
pub(crate) fn discard<B>(headers: &HeaderMap, mut body: Pin<Box<B>>, limits: BodyLimits)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display + Send,
{
    // A client that waits for `100 Continue` has sent no body yet.
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    let mut allowed = limits.max_bytes.saturating_mul(DRAIN_FACTOR);
    let work = async move {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            match allowed.checked_sub(length) {
                Some(rest) => allowed = rest,
                None => return,
            }
        }
    };
    tokio::spawn(tokio::time::timeout(limits.idle, work));
}

fn gunzip(bytes: &Bytes, max_bytes: u64, share: &mut BodyShare) -> Result<Bytes> {
    let mut decoder = MultiGzDecoder::new(bytes.as_ref());
    let mut inflated = Vec::with_capacity((bytes.len() * 4).min(UNANNOUNCED_BYTES as usize));
    let mut chunk = vec![0u8; 64 << 10];
    let compressed = bytes.len() as u64;
    loop {
        let count = decoder
            .read(&mut chunk)
            .map_err(|error| Error::illegal_argument(format!("the request's body is not valid gzip: {error}")))?;
        if count == 0 {
            return Ok(inflated.into());
        }
        inflated.extend_from_slice(&chunk[..count]);
        let length = inflated.len() as u64;
        if length > max_bytes {
            return Err(too_large(length, max_bytes));
        }
        grow_to(share, compressed + length)?;
    }
}

fn too_large(length: u64, max: u64) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("entity content is too long [{length}] for the configured limit [{max}]"),
    )
}
