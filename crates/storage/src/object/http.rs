//! How the clients of cloud stores speak HTTP, and what an answer that is no success means.
//!
//! `object_store` would try again by itself and then tell a sentence. Here each request is made once, and whatever
//! is no answer to the question (503, 429, a broken body, damage on the way) becomes a [`Refusal`] that
//! [`super::remote`] finds again in the error, with its status and the store's own code.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

/// An address that does not answer within this is out of reach.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// However slowly bytes drip in, a request ends.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// Idle connections of a store beyond this are closed; as many as requests are usually in flight.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How much of an answer is looked at for the store's code and told to the user.
const BODY_TOLD_MAX: usize = 300;

/// Codes (S3's, and those of stores that speak its protocol) under which the same request may succeed next time
/// although the status says that it is at fault.
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

/// Codes that say who asks is nobody or may not; gateways send them with statuses of their own.
const DENIED_CODES: &[&str] = &[
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "XAdminUserNotFound",
];

/// Codes under which 404 says that there is no such object. Whoever reads a log to its end must not take
/// another 404 for it.
const MISSING_CODES: &[&str] = &[
    "BlobNotFound",
    "ContainerNotFound",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "ResourceNotFound",
];

/// An answer that refuses.
#[derive(Debug)]
pub(super) struct Refusal {
    /// HTTP's.
    pub(super) status: u16,
    /// The store's own word, if its answer has one.
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
            body: body.chars().take(BODY_TOLD_MAX).collect(),
        }
    }

    /// Whether the same request may succeed next time.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504) || self.has_code_of(TRANSIENT_CODES)
    }

    /// Whether a gateway says that it does not reach the store.
    pub(super) fn is_from_gateway(&self) -> bool {
        matches!(self.status, 502 | 504)
    }

    /// Whether somebody else may ask this, or nobody.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.status, 401 | 403) || self.has_code_of(DENIED_CODES)
    }

    /// Whether what was asked for is not there. Answers to HEAD have no code.
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

/// Makes the clients of `object_store` speak through [`Once`].
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The first one installs it; that somebody has is just as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Once(client)))
    }
}

/// Asks once and makes refusals errors. That something exists or has changed (409, 412) is an answer and passes:
/// the client knows what was asked.
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
        // Two writers at once, or an object that exists: the second is an answer, and told by the body alone.
        if status == 409 && !refusal.is_transient() {
            return Ok(HttpResponse::from_parts(parts, body.into()));
        }
        Err(HttpError::new(HttpErrorKind::Unknown, refusal))
    }
}

/// How patient a client is with one request.
pub(super) fn client_options(read_timeout: Duration, allow_http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(allow_http)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(read_timeout)
        .with_timeout(REQUEST_TIMEOUT)
        .with_pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
}

/// No retries below ours.
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
    fn codes_tell_what_may_be_tried_again() {
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
    fn only_gateways_say_that_nobody_is_there() {
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
