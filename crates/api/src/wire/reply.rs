//! Conversion of a handler's reply to an HTTP response: filtered, formatted, compressed, with headers.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::wire::blocking;
use crate::wire::error::{ApiError, CHALLENGES};
use crate::wire::filter_path::FilterPath;
use crate::wire::media_type::Accept;
use crate::wire::pretty::pretty;
use crate::wire::streaming::{ResponseBody, Streamed};

/// Smaller bodies cost more to compress than they save (one packet either way).
const COMPRESS_FROM_BYTES: usize = 1024;
/// Compressing more than this takes some 10 ms and moves to a blocking thread.
const COMPRESS_ELSEWHERE_FROM_BYTES: usize = 256 << 10;

/// Filtering or formatting more than this takes about as long.
const LAY_OUT_ELSEWHERE_FROM_BYTES: usize = 256 << 10;

/// Reply of a handler.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Body,
}

/// Body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// Serialized JSON.
    Json(Vec<u8>),
    /// Serialized JSON to which the handler applied `filter_path`.
    FilteredJson(Vec<u8>),
    /// Plain text, as of `_cat`.
    Text(String),
    /// Prometheus' text format.
    Metrics(String),
    /// Encoded message of protocol buffers.
    Protobuf(Vec<u8>),
    /// Encoded message of protocol buffers, as the only one of a successful gRPC call.
    Grpc(Vec<u8>),
    /// Serialized JSON for the browser of one user, which must not cache it, and optionally a cookie to set.
    Personal(Vec<u8>, Option<HeaderValue>),
    /// Streamed body: neither formatted nor filtered nor compressed.
    Stream(Streamed),
}

/// Parts of a request that shape its answer.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) accept: Accept,
    pub(crate) pretty: bool,
    pub(crate) filter_path: Option<FilterPath>,
    pub(crate) error_trace: bool,
    pub(crate) gzip: bool,
    pub(crate) head: bool,
    pub(crate) opaque_id: Option<HeaderValue>,
    /// Whether a 401 lists the authentication schemes.
    pub(crate) challenge: bool,
}

impl Reply {
    /// Creates a 200 with a JSON value.
    pub(crate) fn ok(value: &Value) -> Self {
        Self::json(StatusCode::OK, value)
    }

    /// Creates a reply with a JSON value and a status.
    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self {
            status,
            body: Body::Json(value.to_string().into_bytes()),
        }
    }

    /// Creates a 200 with serialized JSON.
    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            body: Body::Json(bytes),
        }
    }

    /// Creates a 200 with an encoded message of protocol buffers.
    pub(crate) fn protobuf(bytes: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            body: Body::Protobuf(bytes),
        }
    }

    /// Creates the reply of a successful gRPC call with one message.
    pub(crate) fn grpc(message: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            body: Body::Grpc(message),
        }
    }

    /// `{"acknowledged": true}`.
    pub(crate) fn acknowledged() -> Self {
        Self::raw(br#"{"acknowledged":true}"#.to_vec())
    }

    /// Creates a reply without a body, for HEAD.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            body: Body::Text(String::new()),
        }
    }
}

impl Shape {
    /// Builds the response of a handler's reply.
    pub(crate) async fn response(&self, mut reply: Reply) -> Response<ResponseBody> {
        let Body::Personal(json, cookie) = reply.body else {
            return self.shared_response(reply).await;
        };
        reply.body = Body::Json(json);
        let mut response = self.shared_response(reply).await;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(cookie) = cookie {
            headers.append(header::SET_COOKIE, cookie);
        }
        response
    }

    async fn shared_response(&self, reply: Reply) -> Response<ResponseBody> {
        let status = reply.status;
        let (bytes, content_type) = match reply.body {
            Body::Json(bytes) | Body::Personal(bytes, _) => match self.laid_out(bytes, false).await {
                Ok(bytes) => (bytes, self.accept.json_content_type()),
                Err(error) => {
                    return self
                        .finish(error.status(), Vec::new(), self.accept.json_content_type())
                        .await;
                }
            },
            Body::FilteredJson(bytes) => match self.laid_out(bytes, true).await {
                Ok(bytes) => (bytes, self.accept.json_content_type()),
                Err(error) => {
                    return self
                        .finish(error.status(), Vec::new(), self.accept.json_content_type())
                        .await;
                }
            },
            Body::Text(text) => (text.into_bytes(), HeaderValue::from_static("text/plain; charset=UTF-8")),
            Body::Metrics(text) => (
                text.into_bytes(),
                HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
            ),
            Body::Protobuf(bytes) => (bytes, HeaderValue::from_static("application/x-protobuf")),
            Body::Grpc(message) => return self.grpc(&message),
            Body::Stream(streamed) => return self.stream(status, streamed),
        };
        self.finish(status, bytes, content_type).await
    }

    /// Builds the response of an error; `metadata` adds uuids of indices.
    pub(crate) async fn error_response(
        &self,
        error: &ApiError,
        metadata: Option<&firn_model::metadata::Metadata>,
    ) -> Response<ResponseBody> {
        // As in Elasticsearch, errors are never filtered.
        let body = error.body(metadata, self.error_trace).to_string().into_bytes();
        let body = if self.pretty { pretty(&body) } else { body };
        let mut response = self.finish(error.status(), body, self.accept.json_content_type()).await;
        if let ApiError::Plain { allow: Some(allow), .. } = error
            && let Ok(allow) = HeaderValue::from_str(allow)
        {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        if let Some(seconds) = error.retry_after_seconds() {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if error.status() == StatusCode::UNAUTHORIZED && self.challenge {
            for challenge in CHALLENGES {
                let value = HeaderValue::from_static(challenge);
                response.headers_mut().append(header::WWW_AUTHENTICATE, value);
            }
        }
        response
    }

    /// Runs [`Self::lay_out`], for large answers on a blocking thread.
    async fn laid_out(&self, bytes: Vec<u8>, filtered: bool) -> Result<Vec<u8>, ApiError> {
        let changes = self.pretty || (self.filter_path.is_some() && !filtered);
        if !changes || bytes.len() < LAY_OUT_ELSEWHERE_FROM_BYTES {
            return self.lay_out(bytes, filtered);
        }
        let shape = self.clone();
        blocking::print(move || shape.lay_out(bytes, filtered)).await?
    }

    fn lay_out(&self, bytes: Vec<u8>, filtered: bool) -> Result<Vec<u8>, ApiError> {
        let bytes = match &self.filter_path {
            Some(filter) if !filtered && !bytes.is_empty() => filter.apply(&bytes)?,
            _ => bytes,
        };
        Ok(if self.pretty { pretty(&bytes) } else { bytes })
    }

    async fn finish(&self, status: StatusCode, body: Vec<u8>, content_type: HeaderValue) -> Response<ResponseBody> {
        let mut response = self.head_of(status, ResponseBody::whole(Bytes::new()));
        let length = body.len();
        let headers = response.headers_mut();
        if self.head {
            if length > 0 {
                headers.insert(header::CONTENT_TYPE, content_type);
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
            return response;
        }
        headers.insert(header::CONTENT_TYPE, content_type);
        let body = if self.gzip && length >= COMPRESS_FROM_BYTES {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
            if length >= COMPRESS_ELSEWHERE_FROM_BYTES {
                // Fails only during the shutdown of the runtime.
                tokio::task::spawn_blocking(move || gzip(&body))
                    .await
                    .unwrap_or_default()
            } else {
                gzip(&body)
            }
        } else {
            body
        };
        *response.body_mut() = ResponseBody::whole(body.into());
        response
    }

    /// Builds the response of a gRPC call: the message behind its flag and its length, and the status as a trailer. Errors are
    /// plain HTTP responses, whose statuses gRPC's clients map to its codes.
    fn grpc(&self, message: &[u8]) -> Response<ResponseBody> {
        let mut frame = vec![0];
        frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
        frame.extend_from_slice(message);
        let mut body = ResponseBody::whole(frame.into());
        body.set_trailers(HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )]));
        let mut response = self.head_of(StatusCode::OK, body);
        let content_type = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    fn stream(&self, status: StatusCode, streamed: Streamed) -> Response<ResponseBody> {
        let mut response = self.head_of(status, ResponseBody::stream(streamed.pieces, streamed.endless));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(streamed.content_type));
        // A proxy that buffers the answer would delay its early parts.
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-store, no-transform"),
        );
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        for (name, value) in streamed.headers {
            headers.insert(name, value);
        }
        response
    }

    /// Creates a response with the headers that all responses have.
    fn head_of(&self, status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
        if let Some(opaque_id) = &self.opaque_id {
            headers.insert("x-opaque-id", opaque_id.clone());
        }
        response
    }
}

/// Compresses with level 3, as Elasticsearch's `http.compression_level`.
fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::new(3));
    // Writing to a vector does not fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}
