//! HTTP client for tests.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// HTTP client of one server. Cheap to clone; reuses connections.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    authorization: Option<String>,
}

/// Response of any status.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// Body as received.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the body as JSON, or `Null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(120);

impl Client {
    /// Creates a client of `base`, such as `http://127.0.0.1:9200`.
    pub fn new(base: impl Into<String>) -> Self {
        Self::with_tls(base, TlsConfig::default())
    }

    /// Creates a client that trusts only this certificate (PEM).
    pub fn trusting(base: impl Into<String>, certificate: &[u8]) -> Result<Self> {
        let roots = RootCerts::new_with_certs(&[Certificate::from_pem(certificate)?]);
        Ok(Self::with_tls(base, TlsConfig::builder().root_certs(roots).build()))
    }

    fn with_tls(base: impl Into<String>, tls: TlsConfig) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .max_idle_connections_per_host(32)
            .tls_config(tls)
            .build();
        Self {
            agent: config.into(),
            base: base.into(),
            authorization: None,
        }
    }

    /// Returns a client that sends this `Authorization` header with each request.
    pub fn authorized(&self, authorization: impl Into<String>) -> Self {
        Self {
            authorization: Some(authorization.into()),
            ..self.clone()
        }
    }

    /// Sends a JSON body and disconnects after `patience`. Returns the status, or `None` if there was no answer by
    /// then.
    pub fn json_within(&self, patience: Duration, path: &str, body: &Value) -> Option<u16> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = request.config().timeout_global(Some(patience)).build();
        let sent = request
            .header("content-type", "application/json")
            .send(body.to_string());
        sent.ok().map(|answer| answer.status().as_u16())
    }

    /// Returns the base URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request. An error means that no answer arrived.
    pub fn send(&self, method: &str, path: &str, content_type: Option<&str>, body: &[u8]) -> Result<Answer> {
        let headers: Vec<_> = content_type.map(|kind| ("content-type", kind)).into_iter().collect();
        self.with_headers(method, path, &headers, body)
    }

    /// Like [`Client::send`], with these headers, and without following redirects.
    pub fn with_headers(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let configured = self
            .agent
            .configure_request(request.body(body.to_vec())?)
            .allow_non_standard_methods(true)
            .max_redirects(0)
            .max_redirects_will_error(false);
        let mut response = self
            .agent
            .run(configured.build())
            .with_context(|| format!("{method} {path}"))?;
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
            .collect();
        let status = response.status().as_u16();
        let body = response
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_vec()
            .context("read the answer")?;
        Ok(Answer { status, headers, body })
    }

    /// Sends a `GET` request.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.send("GET", path, None, b"")
    }

    /// Sends a request with a JSON body.
    pub fn json(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.send(method, path, Some("application/json"), &serde_json::to_vec(body)?)
    }

    /// Sends a request with a JSON body, or without a body for `Null`.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        match body {
            Value::Null => self.send(method, path, None, b""),
            body => self.json(method, path, body),
        }
    }

    /// Like [`Client::ask`], and returns the JSON of a successful answer.
    ///
    /// # Panics
    ///
    /// If there is no answer, or its status is not 2xx.
    #[track_caller]
    pub fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self
            .ask(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error:#}"));
        let is_good = (200..300).contains(&answer.status);
        assert!(is_good, "{method} {path}: {} {}", answer.status, answer.text());
        answer.json()
    }

    /// Sends a `POST` request with NDJSON.
    pub fn bulk(&self, path: &str, body: &[u8]) -> Result<Answer> {
        self.send("POST", path, Some("application/x-ndjson"), body)
    }
}
