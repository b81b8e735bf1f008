//! HTTP layer of the cloud store clients, and the meaning of their error responses.
//!
//! `object_store` would retry internally and then return only a text. Here each request is sent once. A response that
//! does not answer the request (503, 429, a broken body, damage in transit) becomes a [`Refusal`]; [`super::remote`]
//! finds it in the error, with its status and the store's error code.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

/// Connect timeout: an address that does not answer within this time is unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Total timeout of a request, however slowly bytes arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of idle connections to a store; about the usual number of requests in flight.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// Maximum length of a response body that is searched for the error code and shown to the user.
const BODY_CHARS_MAX: usize = 300;

/// Error codes (of S3 and S3-compatible stores) that are worth a retry, although the status says that the request is at
/// fault.
const TRANSIENT_CODES: &[&str] = &[
    "BadDigest",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "InvalidDigest",
    "OperationAborted",
    "RequestTimeout",
    "SlowDown",
    "XAmzContentChecksumMismatch",
    "XAmzContentSHA256Mismatch",
];

/// Error codes for missing or insufficient credentials; gateways send them with varying statuses.
const DENIED_CODES: &[&str] = &[
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "XAdminUserNotFound",
];

/// Error codes with which 404 means that the object does not exist. A reader of a log must not take another 404 for its
/// end.
const MISSING_CODES: &[&str] = &[
    "BlobNotFound",
    "ContainerNotFound",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "ResourceNotFound",
];

/// Error response of a store.
#[derive(Debug)]
pub(super) struct Refusal {
    /// HTTP status.
    pub(super) status: u16,
    /// Error code of the store, if the response has one.
    pub(super) code: Option<String>,
    body: String,
}

impl Refusal {
    fn new(status: u16, body: &str) -> Self {
        let code = body
            .split_once("<Code>")
            .and_then(|(_, rest)| rest.split_once("</Code>"))
            .map(|(code, _)| code.to_owned());
        Self {
            status,
            code,
            body: body.chars().take(BODY_CHARS_MAX).collect(),
        }
    }

    /// Returns whether a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504) || self.has_code_of(TRANSIENT_CODES)
    }

    /// Returns whether a gateway reports that it cannot reach the store.
    pub(super) fn is_from_gateway(&self) -> bool {
        matches!(self.status, 502 | 504)
    }

    /// Returns whether the credentials are missing or insufficient.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.status, 401 | 403) || self.has_code_of(DENIED_CODES)
    }

    /// Returns whether the object does not exist. Responses to HEAD have no code.
    pub(super) fn is_missing(&self) -> bool {
        self.status == 404 && (self.code.is_none() || self.has_code_of(MISSING_CODES))
    }

    fn has_code_of(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the store answered {}", self.status)?;
        match &self.code {
            Some(code) => write!(formatter, " {code}"),
            None if self.body.is_empty() => Ok(()),
            None => write!(formatter, ": {}", self.body.trim()),
        }
    }
}

impl std::error::Error for Refusal {}

/// Makes the clients of `object_store` send requests through [`Once`].
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The first call installs the provider; a later call fails, which does no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Once(client)))
    }
}

/// Sends each request once and turns refusals into errors. Conflicts (409, 412) pass as answers: the client knows the
/// condition of its request.
#[derive(Debug)]
struct Once(HttpClient);

#[async_trait]
impl HttpService for Once {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.execute(request).await?;
        let status = response.status().as_u16();
        if matches!(status, 200..=399 | 412) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = body.bytes().await?;
        let refusal = Refusal::new(status, &String::from_utf8_lossy(&body));
        // Either two concurrent writers, or an object that exists. The latter is an answer; only the body distinguishes
        // them.
        if status == 409 && !refusal.is_transient() {
            return Ok(HttpResponse::from_parts(parts, body.into()));
        }
        Err(HttpError::new(HttpErrorKind::Unknown, refusal))
    }
}

/// Returns the timeouts of a client.
pub(super) fn client_options(read_timeout: Duration, allow_http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(allow_http)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(read_timeout)
        .with_timeout(REQUEST_TIMEOUT)
        .with_pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
}

/// Disables the client's retries; [`super::retry`] makes them.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: REQUEST_TIMEOUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide_about_retries() {
        let check = |status, body: &str, transient: bool| {
            assert_eq!(Refusal::new(status, body).is_transient(), transient, "{status} {body}");
        };
        check(503, "", true);
        check(500, "<Error><Code>InternalError</Code></Error>", true);
        check(400, "<Error><Code>XAmzContentSHA256Mismatch</Code></Error>", true);
        check(409, "<Error><Code>ConditionalRequestConflict</Code></Error>", true);
        check(400, "<Error><Code>InvalidBucketName</Code></Error>", false);
        check(400, "", false);
        check(501, "", false);
    }

    #[test]
    fn only_gateway_statuses_mean_unreachable() {
        let is_from_gateway = |status| Refusal::new(status, "").is_from_gateway();
        assert!(is_from_gateway(502) && is_from_gateway(504));
        assert!(![408, 429, 500, 503].into_iter().any(is_from_gateway));
    }

    #[test]
    fn only_what_is_missing_is_missing() {
        let refusal = |status, code: &str| Refusal::new(status, &format!("<Error><Code>{code}</Code></Error>"));
        assert!(Refusal::new(404, "").is_missing() && refusal(404, "NoSuchKey").is_missing());
        assert!(!refusal(404, "XAdminUserNotFound").is_missing() && refusal(404, "XAdminUserNotFound").is_denied());
        assert!(!refusal(404, "MethodNotAllowed").is_missing() && !refusal(400, "NoSuchKey").is_missing());
        assert!(Refusal::new(403, "").is_denied() && refusal(400, "ExpiredToken").is_denied());
    }

    #[test]
    fn a_refusal_says_the_stores_word() {
        let refusal = Refusal::new(503, "<Error><Code>SlowDown</Code><Message>less</Message></Error>");
        assert_eq!(refusal.to_string(), "the store answered 503 SlowDown");
        assert_eq!(
            Refusal::new(502, "bad gateway\n").to_string(),
            "the store answered 502: bad gateway"
        );
    }
}
