//! HTTP client for Elasticsearch-compatible servers, used by `ingest`, `demo` and `bench`.
//!
//! Unlike a plain client it reports whether a failed request may have had an effect: [`Failure::NotSent`] may always be
//! repeated, [`Failure::Unknown`] only if a repetition is harmless.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::http::{Request, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Maximum size of a response; no bulk or search of firn's tools has a larger one.
const ANSWER_LIMIT_BYTES: u64 = 1024 * 1024 * 1024;
/// A server that takes longer to accept a connection counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that a bulk or a force-merge may take before its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum bytes of a server's error text that are shown.
const PROBLEM_BYTES_MAX: u64 = 10_000;
/// Bodies smaller than this are not worth compressing.
const GZIP_MIN_BYTES: usize = 1024;

/// The variable with the default API key.
const API_KEY_VARIABLE: &str = "FIRN_API_KEY";

/// Credentials of the client, and trusted certificates of the server.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Credentials {
    /// User and password, separated by a colon (may also be part of the URL)
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with = "api_key")]
    pub(crate) user: Option<String>,
    /// API key as Elasticsearch encodes it (default without user and key: FIRN_API_KEY)
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Trust only servers whose certificate chain ends in a certificate of this PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
}

impl Credentials {
    /// Returns the value of `Authorization`. `from_url` is the user in the URL, `from_environment` the key of the
    /// variable.
    fn authorization(&self, from_url: Option<&str>, from_environment: Option<String>) -> Option<String> {
        let basic = |user: &str| format!("Basic {}", STANDARD.encode(user));
        let key = |key: &str| format!("ApiKey {key}");
        (self.api_key.as_deref().map(key))
            .or_else(|| self.user.as_deref().or(from_url).map(basic))
            .or_else(|| from_environment.as_deref().map(key))
    }

    fn tls(&self) -> anyhow::Result<TlsConfig> {
        let Some(path) = &self.ca_cert else {
            return Ok(TlsConfig::default());
        };
        let roots = root_certificates(path).with_context(|| format!("cannot use {}", path.display()))?;
        Ok(TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .build())
    }
}

fn root_certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let mut roots = Vec::new();
    for item in parse_pem(&std::fs::read(path)?) {
        if let PemItem::Certificate(certificate) = item? {
            roots.push(certificate);
        }
    }
    if roots.is_empty() {
        bail!("it contains no PEM certificate");
    }
    Ok(roots)
}

/// Client of one server. Clones share connections.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    authorization: Option<String>,
    gzip: bool,
}

/// A response with any status.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body, as sent.
    pub body: Vec<u8>,
    /// `Retry-After`, if the server sent seconds.
    pub(crate) retry_after: Option<Duration>,
}

/// Failure without a response.
#[derive(Debug)]
pub enum Failure {
    /// The server has not received the request.
    NotSent(String),
    /// The request was sent and no complete response arrived: it may or may not have been executed.
    Unknown(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(reason) | Self::Unknown(reason) => formatter.write_str(reason),
        }
    }
}

impl Client {
    /// Creates a client of `url`: `http://` or `https://`, maybe with `user:password@` and a path prefix.
    pub fn new(url: &str, credentials: &Credentials, gzip: bool) -> anyhow::Result<Self> {
        let (base, from_url) = split_user(url)?;
        let authorization = credentials.authorization(from_url.as_deref(), std::env::var(API_KEY_VARIABLE).ok());
        Ok(Self::with(base, authorization, credentials.tls()?, gzip))
    }

    /// Creates a client of the server in this process. It skips the verification of the certificate: the server is
    /// known, and the certificate names public hosts, not the address that was just bound.
    pub fn of_own_server(url: &str) -> Self {
        let tls = TlsConfig::builder().disable_verification(true).build();
        Self::with(url.to_owned(), None, tls, false)
    }

    fn with(base: String, authorization: Option<String>, tls: TlsConfig, gzip: bool) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(REQUEST_TIMEOUT))
            .max_redirects(0)
            .max_idle_connections_per_host(64)
            .user_agent(concat!("firn/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Self {
            agent: config.into(),
            base,
            authorization,
            gzip,
        }
    }

    /// Returns the URL without user and password.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request. `path` starts with `/` and is already percent-encoded.
    pub fn send(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Answer, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let invalid = |error: ureq::http::Error| Failure::NotSent(error.to_string());
        let sent = match body {
            None => self.agent.run(request.body(()).map_err(invalid)?),
            Some((content_type, body)) => {
                request = request.header(header::CONTENT_TYPE, content_type);
                if self.gzip && body.len() >= GZIP_MIN_BYTES {
                    request = request.header(header::CONTENT_ENCODING, "gzip");
                    self.agent.run(request.body(compress(body)).map_err(invalid)?)
                } else {
                    self.agent.run(request.body(body).map_err(invalid)?)
                }
            }
        };
        let mut response = sent.map_err(classify)?;
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let status = response.status().as_u16();
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_LIMIT_BYTES)
            .read_to_vec()
            .map_err(|error| Failure::Unknown(format!("the answer broke off: {error}")))?;
        Ok(Answer {
            status,
            body,
            retry_after,
        })
    }

    /// Sends JSON (or nothing) and expects a 2xx response with a JSON body.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string);
        let answer = self
            .send(
                method,
                path,
                body.as_ref().map(|body| ("application/json", body.as_bytes())),
            )
            .map_err(|failure| anyhow::anyhow!("{method} {}{path}: {failure}", self.base))?;
        if !(200..300).contains(&answer.status) {
            bail!("{method} {}{path}: {}", self.base, answer.problem());
        }
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).with_context(|| format!("{method} {}{path}: not JSON", self.base))
    }

    /// Posts JSON and returns the NDJSON response as a stream.
    pub fn stream(&self, path: &str, body: &[u8]) -> anyhow::Result<impl BufRead + Send + 'static> {
        let mut request = Request::post(format!("{}{path}", self.base))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/x-ndjson");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let response = (self.agent.run(request.body(body)?)).with_context(|| format!("POST {}{path}", self.base))?;
        let status = response.status().as_u16();
        let mut reader = BufReader::new(response.into_body().into_reader());
        if status != 200 {
            let mut text = String::new();
            reader.by_ref().take(PROBLEM_BYTES_MAX).read_to_string(&mut text)?;
            bail!("POST {}{path}: status {status}: {text}", self.base);
        }
        Ok(reader)
    }

    /// Returns whether `HEAD path` has the response 200.
    pub fn exists(&self, path: &str) -> anyhow::Result<bool> {
        match self.exists_if_allowed(path)? {
            Some(exists) => Ok(exists),
            None => bail!("HEAD {}{path}: status 403", self.base),
        }
    }

    /// As [`Client::exists`]; `None`: the server refused the request (403).
    pub(crate) fn exists_if_allowed(&self, path: &str) -> anyhow::Result<Option<bool>> {
        match self.send("HEAD", path, None) {
            Ok(answer) if answer.status == 200 => Ok(Some(true)),
            Ok(answer) if answer.status == 404 => Ok(Some(false)),
            Ok(answer) if answer.status == 403 => Ok(None),
            Ok(answer) => bail!("HEAD {}{path}: status {}", self.base, answer.status),
            Err(failure) => bail!("HEAD {}{path}: {failure}", self.base),
        }
    }
}

impl Answer {
    /// Returns status and reason of an error response, in one line.
    pub fn problem(&self) -> String {
        let reason = serde_json::from_slice::<Value>(&self.body).ok().and_then(|body| {
            let error = body.get("error")?;
            let reason = error.get("reason").unwrap_or(error);
            Some(reason.as_str().map_or_else(|| reason.to_string(), str::to_owned))
        });
        let reason = reason.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&self.body);
            text.chars().take(200).collect::<String>().trim().to_owned()
        });
        format!("status {}: {reason}", self.status)
    }
}

fn compress(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(body.len() / 4), flate2::Compression::fast());
    encoder
        .write_all(body)
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}

/// Only failures before the first byte of the request certainly had no effect.
fn classify(error: ureq::Error) -> Failure {
    use std::io::ErrorKind;
    let not_sent = match &error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::BadUri(_)
        | ureq::Error::Http(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::TlsRequired
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => true,
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::AddrNotAvailable
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
        ),
        _ => false,
    };
    let reason = error.to_string();
    if not_sent {
        Failure::NotSent(reason)
    } else {
        Failure::Unknown(reason)
    }
}

/// Splits `http://user:password@host/` into the URL without the user, and the decoded user.
fn split_user(url: &str) -> anyhow::Result<(String, Option<String>)> {
    let url = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let (scheme, rest) = url.split_once("://").expect("it was just put there");
    if !matches!(scheme, "http" | "https") {
        bail!("the URL must start with http:// or https://, not {scheme}://");
    }
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(percent_decode(user)?), host),
        None => (None, authority),
    };
    if host.is_empty() {
        bail!("the URL has no host");
    }
    Ok((format!("{scheme}://{host}{}", path.trim_end_matches('/')), user))
}

fn percent_decode(text: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
            let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            bytes.push(byte.context("the user in the URL has a `%` without two hex digits")?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).context("the user in the URL is not UTF-8")
}

/// Percent-encodes one segment of a path.
pub fn encode_segment(text: &str) -> String {
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut encoded, byte| {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte as char),
                _ => encoded.push_str(&format!("%{byte:02X}")),
            }
            encoded
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let check = |url: &str, base: &str, user: Option<&str>| {
            let (found, name) = split_user(url).expect("a URL");
            assert_eq!((found.as_str(), name.as_deref()), (base, user), "{url}");
        };
        check("http://127.0.0.1:9200/", "http://127.0.0.1:9200", None);
        check("localhost:9200", "http://localhost:9200", None);
        check("https://a:b%40c@h/es/", "https://h/es", Some("a:b@c"));
        check("http://a:p@ss@h", "http://h", Some("a:p@ss"));
        assert!(split_user("ftp://h").is_err());
        assert!(split_user("http:///x").is_err());
        assert!(split_user("http://%4@h").is_err());
    }

    #[test]
    fn what_is_nearest_to_the_command_wins() {
        let check = |user: Option<&str>, key: Option<&str>, url: Option<&str>, variable: Option<&str>, expect| {
            let credentials = Credentials {
                user: user.map(str::to_owned),
                api_key: key.map(str::to_owned),
                ca_cert: None,
            };
            let found = credentials.authorization(url, variable.map(str::to_owned));
            assert_eq!(found.as_deref(), expect);
        };
        check(None, None, None, None, None);
        check(None, None, None, Some("e"), Some("ApiKey e"));
        check(None, None, Some("a:b"), Some("e"), Some("Basic YTpi"));
        check(Some("c:d"), None, Some("a:b"), Some("e"), Some("Basic Yzpk"));
        check(None, Some("k"), Some("a:b"), Some("e"), Some("ApiKey k"));
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let credentials = Credentials {
            ca_cert: Some(path.clone()),
            ..Credentials::default()
        };
        let check = |words: &str| {
            let error = Client::new("https://localhost", &credentials, false)
                .err()
                .expect("an error");
            let error = format!("{error:#}");
            assert!(error.contains("ca.pem") && error.contains(words), "{error}");
        };
        check("No such file");
        std::fs::write(&path, "nothing").expect("a file");
        check("no PEM certificate");
    }

    #[test]
    fn path_segments_are_encoded() {
        assert_eq!(encode_segment("logs-2026.01.01"), "logs-2026.01.01");
        assert_eq!(encode_segment("<logs-{now/d}>"), "%3Clogs-%7Bnow%2Fd%7D%3E");
    }

    #[test]
    fn a_refused_connection_was_not_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let client = Client::new(&format!("http://{address}"), &Credentials::default(), false).expect("a client");
        assert!(matches!(client.send("GET", "/", None), Err(Failure::NotSent(_))));
    }
}
