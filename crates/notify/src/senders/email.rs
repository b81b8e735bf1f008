//! Mail over SMTP.

use std::time::Duration;

use async_trait::async_trait;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, MultiPart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};

use super::{SendError, Sender, email_text, with_causes};
use crate::channel::{Email, Secrets, SmtpTls, resolve};
use crate::notification::Notification;
use crate::template::{Template, one_line};

/// Time of each command of SMTP.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);
const SUBMISSION: u16 = 587;
const SUBMISSIONS: u16 = 465;
const RELAY: u16 = 25;
/// Longest subject in characters.
const SUBJECT_CHARS_MAX: usize = 200;

/// Sends mails through one server.
pub(super) struct EmailSender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    to: Vec<Mailbox>,
    subject: Option<Template>,
}

/// Checks the addresses of a definition.
pub(crate) fn check_addresses(email: &Email) -> Result<(), String> {
    mailbox(&email.from)?;
    email.to.iter().try_for_each(|address| mailbox(address).map(drop))
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    let refuse = |reason: String| format!("[{text}] is not an address of e-mail: {reason}");
    if text.chars().any(char::is_control) {
        return Err(refuse("it holds a control character".to_owned()));
    }
    text.parse()
        .map_err(|error: lettre::address::AddressError| refuse(error.to_string()))
}

impl EmailSender {
    pub(super) fn open(email: &Email, secrets: &Secrets) -> Result<Self, String> {
        // The first call installs the provider; a later call fails, which does no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (port, tls) = match email.tls {
            SmtpTls::Starttls => (SUBMISSION, Tls::Required(tls_of(email)?)),
            SmtpTls::Tls => (SUBMISSIONS, Tls::Wrapper(tls_of(email)?)),
            SmtpTls::None => (RELAY, Tls::None),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&email.host)
            .port(email.port.unwrap_or(port))
            .timeout(Some(COMMAND_TIME_MAX))
            .tls(tls);
        if let (Some(username), Some(password)) = (&email.username, &email.password) {
            builder = builder.credentials(Credentials::new(username.clone(), resolve(password, secrets)?));
        }
        Ok(Self {
            transport: builder.build(),
            from: mailbox(&email.from)?,
            to: email
                .to
                .iter()
                .map(|address| mailbox(address))
                .collect::<Result<_, _>>()?,
            subject: email.subject.clone(),
        })
    }

    fn message(&self, notification: &Notification) -> Result<Message, String> {
        let subject = match (&self.subject, notification.single()) {
            (Some(template), Some(alert)) => template.render(&alert.document, one_line),
            _ => notification.summary(),
        };
        let subject: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
        let id = format!("<{}@{}>", notification.id, self.from.email.domain());
        let mut builder = Message::builder()
            .from(self.from.clone())
            .subject(subject)
            .message_id(Some(id));
        for (name, value) in [
            ("Auto-Submitted", "auto-generated"),
            ("X-Firn-Channel", &*notification.channel),
        ] {
            let name = HeaderName::new_from_ascii(name.to_owned()).map_err(|error| error.to_string())?;
            builder = builder.raw_header(HeaderValue::new(name, value.to_owned()));
        }
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        let parts = MultiPart::alternative_plain_html(email_text::plain(notification), email_text::html(notification));
        builder.multipart(parts).map_err(|error| error.to_string())
    }
}

fn tls_of(email: &Email) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(email.host.clone());
    if let Some(path) = &email.certificate_authority {
        let refuse = |reason: String| format!("[certificate_authority] {}: {reason}", path.display());
        let pem = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
        let certificate = Certificate::from_pem(&pem).map_err(|error| refuse(with_causes(&error)))?;
        builder = builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    builder.build_rustls().map_err(|error| with_causes(&error))
}

#[async_trait]
impl Sender for EmailSender {
    async fn send(&self, notification: &Notification) -> Result<(), SendError> {
        let message = self.message(notification).map_err(SendError::message)?;
        let Err(error) = self.transport.send(message).await else {
            return Ok(());
        };
        let reason = format!("SMTP: {}", with_causes(&error));
        let status = error.status().map(|code| code.to_string());
        // What the server says about the client and its sign-in is not about this message.
        let is_of_channel = matches!(
            status.as_deref(),
            Some("500" | "502" | "503" | "530" | "534" | "535" | "538")
        );
        match error.is_permanent() && !is_of_channel {
            true => Err(SendError::message(reason)),
            false => Err(SendError::channel(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::notification::alert;

    #[test]
    fn a_mail_has_a_stable_id_and_one_line_of_subject() {
        let email: Email = serde_json::from_value(json!({
            "host": "localhost", "tls": "none", "from": "firn <firn@example.com>", "to": ["ann@example.com", "Bob <bob@example.com>"],
        }))
        .unwrap();
        let secrets: Secrets = Arc::new(|_| None);
        let sender = EmailSender::open(&email, &secrets).unwrap();
        let notification = Notification::new("c", vec![alert("1", "Scan\r\nBcc: eve@example.com", "high")]);
        let mail = String::from_utf8(sender.message(&notification).unwrap().formatted()).unwrap();
        let (head, body) = mail.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Message-ID: <{}@example.com>", notification.id)),
            "{head}"
        );
        assert!(
            head.contains("Subject: [high] Scan  Bcc: eve@example.com (alpha)"),
            "{head}"
        );
        assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{head}");
        assert!(
            head.contains("ann@example.com") && head.contains("bob@example.com"),
            "{head}"
        );
        assert!(body.contains("text/plain") && body.contains("text/html"), "{body}");
        assert!(body.contains("&lt;web&gt;"), "{body}");
    }
}
