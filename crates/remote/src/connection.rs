//! HTTP connection to the nodes of a cluster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use firn_model::{Error, ErrorKind, Result};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Url};
use serde_json::Value;

use crate::settings::{ClusterSettings, Credentials};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time of one request. A bulk that takes longer may still be running in the cluster when it is sent again.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(90);
const CONNECTIONS_PER_HOST: usize = 8;
/// Longest answer that is read, bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Longest part of an answer in an error, bytes.
const SHOWN_BYTES_MAX: usize = 500;
const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";

/// Nodes of one cluster.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    hosts: Vec<Url>,
    /// Place of the host in use.
    current: AtomicUsize,
    authorization: Option<HeaderValue>,
}

/// Answer of a node; its status may be any.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
enum Failure {
    /// No connection: the node has not received the request.
    NotSent(Error),
    /// The request may have been executed, or may still be.
    Unknown(Error),
}

/// Body of a request.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    None,
    Json(Value),
    Ndjson(Bytes),
}

impl Connection {
    /// Checks the settings; nothing connects.
    pub(crate) fn new(settings: &ClusterSettings) -> Result<Self> {
        if settings.hosts.is_empty() {
            return Err(Error::illegal_argument("the destination needs [hosts]"));
        }
        let hosts = settings.hosts.iter().map(|host| parse_host(host));
        // The first call installs the provider; a later call fails, which does no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIME_MAX)
            .timeout(REQUEST_TIME_MAX)
            .pool_max_idle_per_host(CONNECTIONS_PER_HOST);
        if let Some(pem) = &settings.certificate_authority {
            let refuse = |error| Error::illegal_argument(format!("[certificate_authority] is refused: {error}"));
            builder = builder.tls_certs_only(Certificate::from_pem_bundle(pem).map_err(refuse)?);
        }
        let client = builder
            .build()
            .map_err(|error| Error::illegal_argument(format!("the HTTP client cannot be set up: {error}")))?;
        Ok(Self {
            hosts: hosts.collect::<Result<_>>()?,
            current: AtomicUsize::new(0),
            authorization: authorization(&settings.credentials)?,
            client,
        })
    }

    /// Sends a request to a node, and to the next one if that one cannot be reached. A request that was sent is not sent again: what
    /// became of it is unknown, and only the caller knows what that means. Its next request goes to the next node.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: no node has answered, or a node says that it cannot serve. What became of the request is then
    /// unknown. [`ErrorKind::Unauthenticated`], [`ErrorKind::Forbidden`]: the cluster refuses the credentials.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Body) -> Result<Answer> {
        let mut unreachable = None;
        for _ in 0..self.hosts.len() {
            let place = self.current.load(Ordering::Relaxed) % self.hosts.len();
            let host = &self.hosts[place];
            let failure = match self.send_to(host, method.clone(), path, body.clone()).await {
                Ok(answer) => match answer.status {
                    401 => return Err(refused(ErrorKind::Unauthenticated, &answer)),
                    403 if !answer.is_block() => return Err(refused(ErrorKind::Forbidden, &answer)),
                    502..=504 => Failure::Unknown(refused(ErrorKind::Unavailable, &answer)),
                    _ => return Ok(answer),
                },
                Err(failure) => failure,
            };
            self.current.store(place + 1, Ordering::Relaxed);
            match failure {
                Failure::NotSent(error) => unreachable = Some(error),
                Failure::Unknown(error) => return Err(error),
            }
        }
        Err(unreachable.unwrap_or_else(|| Error::internal("a connection without hosts")))
    }

    async fn send_to(&self, host: &Url, method: Method, path: &str, body: Body) -> Result<Answer, Failure> {
        let fail = |error: reqwest::Error| {
            let is_sent = !error.is_connect();
            let error = Error::new(ErrorKind::Unavailable, describe(host, &error));
            match is_sent {
                true => Failure::Unknown(error),
                false => Failure::NotSent(error),
            }
        };
        let url = format!("{}{path}", host.as_str().trim_end_matches('/'));
        let mut request = self.client.request(method, url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request = match body {
            Body::None => request,
            Body::Json(value) => request.header(CONTENT_TYPE, JSON).body(value.to_string()),
            Body::Ndjson(bytes) => request.header(CONTENT_TYPE, NDJSON).body(bytes),
        };
        let mut response = request.send().await.map_err(fail)?;
        let status = response.status().as_u16();
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(fail)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                let reason = format!("the answer of [{host}] has more than {ANSWER_BYTES_MAX} bytes");
                return Err(Failure::Unknown(Error::new(ErrorKind::Unavailable, reason)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer {
            status,
            body: body.freeze(),
        })
    }

    /// As [`Connection::send`]; a status of 400 or more, but for those in `expected`, is an error, too.
    pub(crate) async fn request(&self, method: Method, path: &str, body: Body, expected: &[u16]) -> Result<Answer> {
        let answer = self.send(method, path, body).await?;
        if answer.status < 400 || expected.contains(&answer.status) {
            return Ok(answer);
        }
        let kind = match answer.status {
            404 => ErrorKind::IndexNotFound,
            429 => ErrorKind::Rejected,
            _ => ErrorKind::Unavailable,
        };
        Err(refused(kind, &answer))
    }
}

impl Answer {
    /// Reads the body.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the response of the cluster is not JSON: {error}"),
            )
        })
    }

    /// Whether an index is closed to writes for now, which has the status of a missing privilege.
    fn is_block(&self) -> bool {
        let names = b"cluster_block_exception";
        self.body.windows(names.len()).any(|window| window == names)
    }
}

/// The error of an answer with this status.
pub(crate) fn refused(kind: ErrorKind, answer: &Answer) -> Error {
    let reason = answer.json().ok().and_then(|body| {
        let error = body.get("error")?;
        let reason = error.get("reason").and_then(Value::as_str).or_else(|| error.as_str())?;
        Some(reason.to_owned())
    });
    let reason = reason.unwrap_or_else(|| String::from_utf8_lossy(&answer.body).trim().to_owned());
    let shown = &reason[..reason.floor_char_boundary(SHOWN_BYTES_MAX)];
    Error::new(kind, format!("the cluster answered {}: {shown}", answer.status))
}

fn parse_host(host: &str) -> Result<Url> {
    let refuse = |reason: &str| Error::illegal_argument(format!("the host [{host}] of the destination {reason}"));
    let url = Url::parse(host).map_err(|error| refuse(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse("must start with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("must not hold credentials: name their files"));
    }
    Ok(url)
}

fn authorization(credentials: &Credentials) -> Result<Option<HeaderValue>> {
    let text = match credentials {
        Credentials::None => return Ok(None),
        Credentials::Basic { username, password } => {
            format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
        }
        Credentials::ApiKey(key) => format!("ApiKey {key}"),
    };
    let refuse =
        |_| Error::illegal_argument("the credentials of the destination hold characters that no header can have");
    let mut value = HeaderValue::from_str(&text).map_err(refuse)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Returns the failure with its causes, of which the last says what happened.
fn describe(host: &Url, error: &reqwest::Error) -> String {
    let mut text = format!("[{host}] does not answer");
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
