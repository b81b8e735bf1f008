//! Definition of a channel: the body of `PUT /_firn/channels/ID`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firn_detect::{Audience, Severity};
use firn_model::dates::parse_duration_ms;
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::template::Template;

/// Start of a value that is a secret of the keystore; its name follows.
const SECRET: &str = "secret:";
/// Messages of a channel in a minute, unless its definition says otherwise.
const PER_MINUTE: u32 = 30;
const PER_MINUTE_MAX: u32 = 6000;
/// How long a channel that fails is tried, unless its definition says otherwise.
const RETRY_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Most recipients of an e-mail channel.
const RECIPIENTS_MAX: usize = 50;
/// Most settings of a Kafka channel.
const KAFKA_SETTINGS_MAX: usize = 100;
/// Most headers of a webhook.
const HEADERS_MAX: usize = 20;

/// Returns the value of a secret of the keystore by its name.
pub type Secrets = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A channel as its definition says.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// The id.
    pub id: String,
    /// A disabled channel delivers nothing; its alerts stay pending.
    pub enabled: bool,
    /// The only tenant whose alerts it delivers.
    pub tenant: Option<TenantId>,
    /// Least severity of the alerts that it gets although their rules do not name it; `None`: it gets none of those.
    pub subscribes_from: Option<Severity>,
    /// Most messages in a minute. Alerts beyond are put together in one message.
    pub per_minute: u32,
    /// How long its alerts are tried while it fails.
    pub retry_for: Duration,
    /// Where and how it delivers.
    pub kind: ChannelKind,
}

/// Where and how a channel delivers.
#[derive(Debug, Clone, PartialEq)]
pub enum ChannelKind {
    /// Mail over SMTP.
    Email(Email),
    /// `POST` to a URL.
    Webhook(Webhook),
    /// Lines to a syslog server.
    Syslog(Syslog),
    /// Records of a Kafka topic.
    Kafka(Kafka),
}

/// Mail over SMTP.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// Name of the SMTP server.
    pub host: String,
    /// 587 with STARTTLS, 465 with TLS, 25 without.
    #[serde(default)]
    pub port: Option<u16>,
    /// How the connection is encrypted.
    #[serde(default)]
    pub tls: SmtpTls,
    /// File of the certificates (PEM) that the server's may be signed by, in the place of those of the system.
    #[serde(default)]
    pub certificate_authority: Option<PathBuf>,
    /// Name for authentication.
    #[serde(default)]
    pub username: Option<String>,
    /// `secret:NAME`.
    #[serde(default)]
    pub password: Option<String>,
    /// Sender.
    pub from: String,
    /// Recipients.
    pub to: Vec<String>,
    /// Subject, with placeholders.
    #[serde(default)]
    pub subject: Option<Template>,
}

/// Encryption of SMTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTls {
    /// Begins in plain text, and must become TLS.
    #[default]
    Starttls,
    /// From the first byte.
    Tls,
    /// None.
    None,
}

/// `POST` to a URL.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The URL, or `secret:NAME`. PagerDuty and Opsgenie have one of their own.
    #[serde(default)]
    pub url: Option<String>,
    /// What the body looks like.
    #[serde(default)]
    pub format: WebhookFormat,
    /// Body with placeholders, in the place of a format.
    #[serde(default)]
    pub body: Option<Template>,
    /// Further headers; values may be `secret:NAME`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// `secret:NAME` of the key that signs requests.
    #[serde(default)]
    pub signing_key: Option<String>,
    /// `secret:NAME`: PagerDuty's routing key, or Opsgenie's API key.
    #[serde(default)]
    pub key: Option<String>,
    /// File of the certificates (PEM) that the server's may be signed by, in the place of those of the system.
    #[serde(default)]
    pub certificate_authority: Option<PathBuf>,
}

/// Format of a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    /// firn's own.
    #[default]
    Json,
    /// Incoming webhook of Slack, and of what speaks the same (Mattermost, Rocket.Chat).
    Slack,
    /// Workflow of Microsoft Teams.
    Teams,
    /// PagerDuty's Events API v2.
    Pagerduty,
    /// Opsgenie's Alert API.
    Opsgenie,
}

/// Lines to a syslog server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Syslog {
    /// `HOST:PORT`.
    pub address: String,
    /// How lines are carried.
    #[serde(default)]
    pub protocol: SyslogProtocol,
    /// What follows the head of a line.
    #[serde(default)]
    pub format: SyslogFormat,
}

/// How syslog lines are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyslogProtocol {
    /// One datagram a line. What is lost on the way is not noticed.
    Udp,
    /// Octet-counted lines (RFC 6587).
    #[default]
    Tcp,
}

/// What follows the head of a syslog line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyslogFormat {
    /// ArcSight's Common Event Format.
    #[default]
    Cef,
    /// The alert as JSON.
    Json,
}

/// Records of a Kafka topic.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// `HOST:PORT` of brokers, with commas between them; otherwise `settings` has `bootstrap.servers`.
    #[serde(default)]
    pub bootstrap_servers: Option<String>,
    /// Settings by librdkafka's names; values may be `secret:NAME`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Name of the topic.
    pub topic: String,
    /// Key of the records, with placeholders; the group of the alert unless it is given.
    #[serde(default)]
    pub key: Option<Template>,
}

/// Settings of Kafka that are secrets always.
const KAFKA_SECRETS: [&str; 6] = [
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
];
const BOOTSTRAP_SERVERS: &str = "bootstrap.servers";

impl Kafka {
    fn check(&self) -> Result<(), String> {
        match (&self.bootstrap_servers, self.settings.contains_key(BOOTSTRAP_SERVERS)) {
            (None, false) => return Err("a channel of the type [kafka] needs [bootstrap_servers]".to_owned()),
            (Some(_), true) => {
                return Err(format!(
                    "[bootstrap_servers] and the setting [{BOOTSTRAP_SERVERS}] exclude each other"
                ));
            }
            _ => {}
        }
        if self.settings.len() > KAFKA_SETTINGS_MAX {
            return Err(format!("[settings] has at most {KAFKA_SETTINGS_MAX} members"));
        }
        for name in KAFKA_SECRETS {
            must_be_secret(name, self.settings.get(name).map(String::as_str))?;
        }
        match self.topic.is_empty() {
            true => Err("[topic] is the name of a Kafka topic".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the settings for librdkafka. A secret that is missing is an error, or is left out if `lenient`.
    pub(crate) fn resolved(&self, secrets: &Secrets, lenient: bool) -> Result<BTreeMap<String, String>, String> {
        let servers = self.bootstrap_servers.as_ref();
        let servers = servers.map(|servers| (BOOTSTRAP_SERVERS.to_owned(), servers.clone()));
        let mut resolved: BTreeMap<String, String> = servers.into_iter().collect();
        for (name, value) in &self.settings {
            match resolve(value, secrets) {
                Ok(value) => drop(resolved.insert(name.clone(), value)),
                Err(_) if lenient => {}
                Err(reason) => return Err(reason),
            }
        }
        Ok(resolved)
    }
}

/// Members that all channels have.
#[derive(Debug, Deserialize)]
struct Common {
    #[serde(rename = "type")]
    kind: KindName,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    subscribe: Option<Subscribe>,
    #[serde(default)]
    max_per_minute: Option<u32>,
    #[serde(default)]
    retry_for: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Email,
    Webhook,
    Syslog,
    Kafka,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    #[serde(default)]
    min_severity: Option<String>,
}

fn yes() -> bool {
    true
}

/// Names of the members of [`Common`]; the others are those of the type.
const COMMON: [&str; 6] = ["type", "enabled", "tenant", "subscribe", "max_per_minute", "retry_for"];

impl Channel {
    /// Reads a definition. Nothing connects.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names the channel and what of it is missing, unknown or not supported.
    pub fn parse(id: &str, body: &Map<String, Value>) -> Result<Self> {
        Self::read(id, body).map_err(|reason| Error::illegal_argument(format!("channel [{id}]: {reason}")))
    }

    fn read(id: &str, body: &Map<String, Value>) -> Result<Self, String> {
        let (common, own): (Map<_, _>, Map<_, _>) = body
            .clone()
            .into_iter()
            .partition(|(name, _)| COMMON.contains(&name.as_str()));
        let common: Common = serde_json::from_value(common.into()).map_err(|error| error.to_string())?;
        if body.get("subscribe").is_some_and(|subscribe| !subscribe.is_object()) {
            return Err("[subscribe] is an object".to_owned());
        }
        let own = Value::Object(own);
        let kind = match common.kind {
            KindName::Email => read(own).map(ChannelKind::Email),
            KindName::Webhook => read(own).map(ChannelKind::Webhook),
            KindName::Syslog => read(own).map(ChannelKind::Syslog),
            KindName::Kafka => read(own).map(ChannelKind::Kafka),
        }?;
        kind.check()?;
        let per_minute = common.max_per_minute.unwrap_or(PER_MINUTE);
        if per_minute == 0 || per_minute > PER_MINUTE_MAX {
            return Err(format!("[max_per_minute] is 1 to {PER_MINUTE_MAX}"));
        }
        let subscribes_from = match common.subscribe {
            None => None,
            Some(Subscribe { min_severity: None }) => Some(Severity::Informational),
            Some(Subscribe {
                min_severity: Some(name),
            }) => Some(Severity::parse(&name).ok_or_else(|| {
                format!("[min_severity] is one of informational, low, medium, high, critical, not [{name}]")
            })?),
        };
        let retry_for = common.retry_for.as_deref().map(parse_duration_ms).transpose();
        let retry_for = retry_for.map_err(|error| format!("[retry_for]: {}", error.reason()))?;
        let tenant = common.tenant.as_deref().map(TenantId::parse).transpose();
        Ok(Self {
            id: id.to_owned(),
            enabled: common.enabled,
            tenant: tenant.map_err(|error| error.reason().to_owned())?,
            subscribes_from,
            per_minute,
            retry_for: retry_for.map_or(RETRY_FOR, Duration::from_millis),
            kind,
        })
    }

    /// Returns whose alerts it may get, and which it gets although their rules do not name it.
    pub fn audience(&self) -> Audience {
        Audience {
            channel: self.id.clone(),
            tenant: self.tenant.clone(),
            subscribes_from: self.subscribes_from,
        }
    }
}

impl ChannelKind {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Email(email) => {
                if email.to.is_empty() || email.to.len() > RECIPIENTS_MAX {
                    return Err(format!("[to] has 1 to {RECIPIENTS_MAX} addresses"));
                }
                if email.host.is_empty() || email.host.contains(|c: char| c.is_control() || c.is_whitespace()) {
                    return Err(format!(
                        "[host] is the name of a server, not [{}]",
                        email.host.escape_debug()
                    ));
                }
                if email.port == Some(0) {
                    return Err("[port] is 1 to 65535".to_owned());
                }
                must_be_secret("password", email.password.as_deref())?;
                if email.password.is_some() != email.username.is_some() {
                    return Err("[username] and [password] go together".to_owned());
                }
                if email.password.is_some() && email.tls == SmtpTls::None {
                    return Err("a password needs TLS: [tls] is [none]".to_owned());
                }
                crate::senders::check_addresses(email)
            }
            Self::Webhook(webhook) => {
                must_be_secret("signing_key", webhook.signing_key.as_deref())?;
                must_be_secret("key", webhook.key.as_deref())?;
                if webhook.headers.len() > HEADERS_MAX {
                    return Err(format!("[headers] has at most {HEADERS_MAX} members"));
                }
                let has_own = matches!(webhook.format, WebhookFormat::Pagerduty | WebhookFormat::Opsgenie);
                if webhook.url.is_none() && !has_own {
                    return Err("a webhook needs [url]".to_owned());
                }
                if has_own != webhook.key.is_some() {
                    return Err("[key] belongs to the formats [pagerduty] and [opsgenie], which need it".to_owned());
                }
                if webhook.body.is_some() && webhook.format != WebhookFormat::Json {
                    return Err("[body] and [format] exclude each other".to_owned());
                }
                crate::senders::check_webhook(webhook)
            }
            Self::Syslog(syslog) => match syslog.address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
                _ => Err(format!("[address] is HOST:PORT, not [{}]", syslog.address)),
            },
            Self::Kafka(kafka) => kafka.check(),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(own: Value) -> Result<T, String> {
    serde_json::from_value(own).map_err(|error| error.to_string())
}

fn must_be_secret(name: &str, value: Option<&str>) -> Result<(), String> {
    match value {
        Some(value) if value.strip_prefix(SECRET).is_none_or(str::is_empty) => Err(format!(
            "[{name}] is [{SECRET}NAME]: the value is in the keystore as [notify.secret.NAME]"
        )),
        _ => Ok(()),
    }
}

/// Returns a value, or the secret of the keystore that it names.
pub(crate) fn resolve(value: &str, secrets: &Secrets) -> Result<String, String> {
    match value.strip_prefix(SECRET) {
        None => Ok(value.to_owned()),
        Some(name) => secrets(name).ok_or_else(|| format!("the keystore has no [notify.secret.{name}]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: Value) -> Result<Channel, String> {
        Channel::parse("c", body.as_object().unwrap()).map_err(|error| error.reason().to_owned())
    }

    #[test]
    fn a_definition_is_read_and_its_mistakes_are_named() {
        let mail = json!({
            "type": "email", "host": "mail.example.com", "from": "firn <firn@example.com>", "to": ["ann@example.com"],
            "username": "firn", "password": "secret:mail", "tenant": "alpha", "subscribe": {"min_severity": "high"},
            "max_per_minute": 5, "retry_for": "2h",
        });
        let channel = parse(mail).unwrap();
        assert_eq!((channel.per_minute, channel.retry_for.as_secs()), (5, 7200));
        assert_eq!(channel.subscribes_from, Some(Severity::High));
        let audience = channel.audience();
        assert_eq!((audience.channel.as_str(), audience.tenant.is_some()), ("c", true));

        let hook = parse(json!({"type": "webhook", "url": "https://example.com/x"})).unwrap();
        assert_eq!((hook.per_minute, hook.subscribes_from), (PER_MINUTE, None));
        parse(json!({"type": "webhook", "format": "pagerduty", "key": "secret:pager"})).unwrap();
        parse(json!({"type": "webhook", "url": "secret:slack", "format": "slack"})).unwrap();
        parse(json!({"type": "syslog", "address": "[::1]:514", "protocol": "udp"})).unwrap();

        let kafka = |name: &str, value: Value| {
            let mut body = json!({"type": "kafka", "settings": {"bootstrap.servers": "k:1"}, "topic": "alerts"});
            body[name] = value;
            body
        };
        parse(kafka("key", json!("{{host.name}}"))).unwrap();
        let mail = |name: &str, value: Value| {
            let mut body = json!({"type": "email", "host": "h", "from": "a@example.com", "to": ["b@example.com"]});
            body[name] = value;
            body
        };
        for (body, reason) in [
            (json!({}), "missing field `type`"),
            (json!({"type": "pigeon"}), "pigeon"),
            (json!({"type": "webhook"}), "needs [url]"),
            (json!({"type": "webhook", "url": "ftp://example.com"}), "http"),
            (json!({"type": "webhook", "url": "https://u:p@example.com"}), "user"),
            (
                json!({"type": "webhook", "url": "https://example.com", "key": "secret:x"}),
                "[key]",
            ),
            (
                json!({"type": "webhook", "url": "https://example.com", "signing_key": "x"}),
                "secret:NAME",
            ),
            (
                json!({"type": "webhook", "url": "https://example.com", "headers": {"a b": "c"}}),
                "a b",
            ),
            (
                json!({"type": "webhook", "url": "https://example.com", "body": "{{rule.name}"}),
                "{{",
            ),
            (
                json!({"type": "webhook", "url": "https://example.com", "body": "{\"a\": {{rule.name}}}"}),
                "[body]",
            ),
            (
                json!({"type": "webhook", "url": "https://example.com", "colour": 1}),
                "colour",
            ),
            (mail("to", json!([])), "[to]"),
            (mail("to", json!(["ann at home"])), "[ann at home]"),
            (mail("from", json!("a\r\nBcc: c@example.com")), "Bcc"),
            (mail("password", json!("hunter2")), "secret:NAME"),
            (mail("username", json!("x")), "go together"),
            (mail("subscribe", json!({"min_severity": "bad"})), "not [bad]"),
            (mail("subscribe", json!([])), "[subscribe]"),
            (mail("host", json!("a\r\nb")), "[host]"),
            (mail("port", json!(0)), "[port]"),
            (mail("max_per_minute", json!(0)), "[max_per_minute]"),
            (mail("retry_for", json!("soon")), "[retry_for]"),
            (mail("tenant", json!("A b")), "channel [c]"),
            (json!({"type": "syslog", "address": "host"}), "HOST:PORT"),
            (json!({"type": "kafka", "topic": "t"}), "[bootstrap_servers]"),
            (kafka("bootstrap_servers", json!("k:1")), "exclude each other"),
            (kafka("topic", json!("")), "[topic]"),
            (kafka("key", json!("{{a")), "{{"),
            (kafka("colour", json!("red")), "colour"),
            (
                kafka(
                    "settings",
                    json!({"bootstrap.servers": "k:1", "sasl.password": "hunter2"}),
                ),
                "secret:NAME",
            ),
        ] {
            let error = parse(body.clone()).unwrap_err();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }
}
