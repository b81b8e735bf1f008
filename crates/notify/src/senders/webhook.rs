//! Webhooks: a `POST` whose body is JSON.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, Url};
use ring::hmac;
use serde_json::{Map, Value};

use super::addresses::{PublicResolver, may_reach, refusal};
use super::webhook_formats;
use super::{Clock, SendError, SendErrorKind, Sender, SenderContext, read_certificates, with_causes};
use crate::channel::{Webhook, WebhookFormat, resolve};
use crate::notification::Notification;
use crate::template::json_string;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest answer that is read, bytes.
const ANSWER_BYTES_MAX: usize = 4096;
/// Longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);
const SIGNATURE: &str = "firn-signature";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const USER_AGENT: &str = concat!("firn/", env!("CARGO_PKG_VERSION"));

/// Sends requests to one URL.
pub(super) struct WebhookSender {
    client: Client,
    url: Url,
    headers: HeaderMap,
    webhook: Webhook,
    /// Routing key or API key.
    key: Option<String>,
    signing_key: Option<hmac::Key>,
    allowed: Arc<[IpNet]>,
    clock: Clock,
}

/// Checks what can be checked of a definition.
pub(crate) fn check_webhook(webhook: &Webhook) -> Result<(), String> {
    if let Some(url) = &webhook.url
        && !url.starts_with("secret:")
    {
        parse_url(url)?;
    }
    for (name, value) in &webhook.headers {
        header(name, value)?;
    }
    if let Some(template) = &webhook.body {
        let empty = template.render(&Map::new(), json_string);
        let _: Value = serde_json::from_str(&empty).map_err(|error| {
            format!("[body] is not JSON if its placeholders are empty; use them only inside strings: {error}")
        })?;
    }
    Ok(())
}

fn parse_url(text: &str) -> Result<Url, String> {
    // The URL is no part of a reason: that of a webhook is often a secret.
    let url = Url::parse(text).map_err(|error| format!("[url]: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("[url] is one of http or https".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("[url] holds a user; use the header [authorization] with a secret".to_owned());
    }
    Ok(url)
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let refuse = |_| format!("[{name}] is not a header");
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|error| refuse(error.to_string()))?;
    let mut value = HeaderValue::from_str(value).map_err(|error| refuse(error.to_string()))?;
    value.set_sensitive(true);
    let reserved = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        SIGNATURE,
        IDEMPOTENCY_KEY,
    ];
    match reserved.contains(&parsed.as_str()) {
        true => Err(format!("the header [{name}] is set by firn")),
        false => Ok((parsed, value)),
    }
}

impl WebhookSender {
    pub(super) fn open(webhook: &Webhook, context: &SenderContext) -> Result<Self, String> {
        let secrets = &context.secrets;
        let url = match (&webhook.url, webhook.format) {
            (Some(url), _) => resolve(url, secrets)?,
            (None, WebhookFormat::Pagerduty) => webhook_formats::PAGERDUTY_URL.to_owned(),
            (None, _) => webhook_formats::OPSGENIE_URL.to_owned(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &webhook.headers {
            let (name, value) = header(name, &resolve(value, secrets)?)?;
            headers.insert(name, value);
        }
        headers
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        let key = webhook.key.as_deref().map(|key| resolve(key, secrets)).transpose()?;
        if let (WebhookFormat::Opsgenie, Some(key)) = (webhook.format, &key) {
            let (name, value) = header("authorization", &format!("GenieKey {key}"))?;
            headers.insert(name, value);
        }
        let signing_key = webhook
            .signing_key
            .as_deref()
            .map(|key| resolve(key, secrets))
            .transpose()?;
        let allowed = &context.allowed_networks;
        // The first call installs the provider; a later call fails, which does no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIME_MAX)
            .timeout(REQUEST_TIME_MAX)
            .pool_max_idle_per_host(1)
            .dns_resolver(Arc::new(PublicResolver {
                allowed: Arc::clone(allowed),
            }));
        if let Some(path) = &webhook.certificate_authority {
            let pem = read_certificates(path)?;
            let refuse = |error| format!("[certificate_authority] {}: {error}", path.display());
            let certificates = Certificate::from_pem_bundle(&pem).map_err(refuse)?;
            builder = builder.tls_certs_only(certificates);
        }
        Ok(Self {
            client: builder.build().map_err(|error| with_causes(&error))?,
            url: parse_url(&url)?,
            headers,
            key,
            signing_key: signing_key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())),
            webhook: webhook.clone(),
            allowed: Arc::clone(allowed),
            clock: Arc::clone(&context.clock),
        })
    }

    fn body(&self, notification: &Notification) -> String {
        match (&self.webhook.body, &notification.alerts[..]) {
            // A template is of one alert; of several it has the first, and the members that say how many there are.
            (Some(template), [first, ..]) => {
                let mut fields = first.document.clone();
                fields.insert("summary".to_owned(), notification.summary().into());
                fields.insert("alerts".to_owned(), notification.alerts.len().into());
                template.render(&fields, json_string)
            }
            _ => webhook_formats::body(self.webhook.format, notification, self.key.as_deref()).to_string(),
        }
    }

    /// Returns the header that proves the sender: the time and the HMAC-SHA256 of the time, a dot and the body.
    fn signature(key: &hmac::Key, body: &str, seconds: i64) -> String {
        let tag = hmac::sign(key, format!("{seconds}.{body}").as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={seconds},v1={hex}")
    }
}

#[async_trait]
impl Sender for WebhookSender {
    async fn send(&self, notification: &Notification) -> Result<Option<String>, SendError> {
        // An address in the place of a name is not resolved.
        if let Some(host) = self.url.host_str()
            && let Ok(address) = host.trim_matches(['[', ']']).parse()
            && !may_reach(address, &self.allowed)
        {
            return Err(SendError::channel(refusal(host)));
        }
        let body = self.body(notification);
        let mut request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(IDEMPOTENCY_KEY, &notification.id);
        if let Some(key) = &self.signing_key {
            let seconds = (self.clock)().div_euclid(1000);
            request = request.header(SIGNATURE, Self::signature(key, &body, seconds));
        }
        // The URL may be a secret.
        let answer = request.body(body).send().await;
        let answer = answer.map_err(|error| SendError::channel(with_causes(&error.without_url())))?;
        outcome(answer).await.map(|()| None)
    }
}

async fn outcome(mut answer: Response) -> Result<(), SendError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after
        .and_then(|seconds| seconds.trim().parse().ok())
        .map(Duration::from_secs);
    let mut text = Vec::new();
    while let Ok(Some(part)) = answer.chunk().await {
        text.extend_from_slice(&part);
        if text.len() >= ANSWER_BYTES_MAX {
            break;
        }
    }
    let reason = format!("the receiver answered {status}: {}", String::from_utf8_lossy(&text));
    match status.as_u16() {
        400 | 413 | 422 => Err(SendError::message(reason)),
        _ => Err(SendError {
            kind: SendErrorKind::Channel {
                retry_after: retry_after.map(|wait| wait.min(RETRY_AFTER_MAX)),
            },
            ..SendError::channel(reason)
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::notification::alert;

    fn open(definition: Value) -> WebhookSender {
        let webhook: Webhook = serde_json::from_value(definition).unwrap();
        WebhookSender::open(&webhook, &SenderContext::of_tests()).unwrap()
    }

    #[test]
    fn a_template_is_json_for_any_event() {
        let sender = open(json!({
            "url": "https://example.com", "body": "{\"text\": \"{{summary}} on {{host.name}}\", \"n\": {{alerts}}0}",
        }));
        let body = sender.body(&Notification::new("c", vec![alert("1", "a \"quoted\"\nrule", "high")]));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["text"], "[high] a \"quoted\" rule (alpha) on <web>");
    }

    #[test]
    fn a_signature_is_the_one_of_the_body() {
        // Computed with Python's hmac module.
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        assert_eq!(
            WebhookSender::signature(&key, "{}", 1_700_000_000),
            "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
        );
    }

    #[test]
    fn what_is_missing_is_named_when_the_sender_is_opened() {
        let refused = |definition: Value| {
            let webhook: Webhook = serde_json::from_value(definition).unwrap();
            WebhookSender::open(&webhook, &SenderContext::of_tests()).err().unwrap()
        };
        assert!(refused(json!({"url": "secret:slack", "format": "slack"})).contains("[notify.secret.slack]"));
        let no_file = json!({"url": "https://example.com", "certificate_authority": "/nowhere/ca.pem"});
        assert!(refused(no_file).contains("[certificate_authority]"));
    }
}
