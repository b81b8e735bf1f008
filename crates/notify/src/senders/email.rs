//! Mail over SMTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, MultiPart};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::bounded_stream::BoundedStream;
use super::{SendError, SendErrorKind, Sender, email_text, read_certificates, with_causes};
use crate::channel::{Email, Secrets, SmtpTls, resolve};
use crate::notification::Notification;
use crate::template::{Template, one_line};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const QUIT_TIME_MAX: Duration = Duration::from_secs(2);
const SUBMISSION: u16 = 587;
const SUBMISSIONS: u16 = 465;
const RELAY: u16 = 25;
/// Longest subject in characters.
const SUBJECT_CHARS_MAX: usize = 200;

/// Sends mails through one server.
pub(super) struct EmailSender {
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
    from: Mailbox,
    to: Vec<Mailbox>,
    subject: Option<Template>,
}

/// How a connection is encrypted.
enum Security {
    None,
    Starttls(TlsParameters),
    Tls(Box<(TlsConnector, ServerName<'static>)>),
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
        let (port, security) = match email.tls {
            SmtpTls::Starttls => (SUBMISSION, Security::Starttls(starttls(email)?)),
            SmtpTls::Tls => (SUBMISSIONS, Security::Tls(Box::new(tls(email)?))),
            SmtpTls::None => (RELAY, Security::None),
        };
        let credentials = match (&email.username, &email.password) {
            (Some(username), Some(password)) => Some(Credentials::new(username.clone(), resolve(password, secrets)?)),
            _ => None,
        };
        Ok(Self {
            host: email.host.clone(),
            port: email.port.unwrap_or(port),
            security,
            credentials,
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

fn starttls(email: &Email) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(email.host.clone());
    if let Some(path) = &email.certificate_authority {
        let pem = read_certificates(path)?;
        let refuse = |error| format!("[certificate_authority] {}: {}", path.display(), with_causes(&error));
        let certificate = Certificate::from_pem(&pem).map_err(refuse)?;
        builder = builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    builder.build_rustls().map_err(|error| with_causes(&error))
}

fn tls(email: &Email) -> Result<(TlsConnector, ServerName<'static>), String> {
    let mut roots = rustls::RootCertStore::empty();
    match &email.certificate_authority {
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        Some(path) => {
            let pem = read_certificates(path)?;
            let refuse = |reason: String| format!("[certificate_authority] {}: {reason}", path.display());
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
                roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
            }
        }
    }
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(email.host.clone());
    let name = name.map_err(|_| format!("[host] is not a server name: [{}]", email.host))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

impl EmailSender {
    async fn connect(&self) -> Result<AsyncSmtpConnection, SendError> {
        let channel = |error: &dyn std::fmt::Display| {
            SendError::channel(format!("SMTP server [{}:{}]: {error}", self.host, self.port))
        };
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, connect).await;
        let stream = connected.map_err(|_| channel(&"no connection in time"))?;
        let stream = stream.map_err(|error| channel(&error))?;
        let peer = stream.peer_addr().map_err(|error| channel(&error))?;
        let hello = ClientId::default();
        let connection = match &self.security {
            Security::Tls(tls) => {
                let (connector, name) = &**tls;
                let encrypted = connector.connect(name.clone(), stream).await;
                let encrypted = encrypted.map_err(|error| channel(&error))?;
                AsyncSmtpConnection::connect_with_transport(Box::new(BoundedStream::new(encrypted, peer)), &hello).await
            }
            Security::None | Security::Starttls(_) => {
                AsyncSmtpConnection::connect_with_transport(Box::new(BoundedStream::new(stream, peer)), &hello).await
            }
        };
        let smtp = |error: SmtpError| SendError::channel(format!("SMTP: {}", with_causes(&error)));
        let mut connection = connection.map_err(smtp)?;
        if let Security::Starttls(parameters) = &self.security {
            connection.starttls(parameters.clone(), &hello).await.map_err(smtp)?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await.map_err(smtp)?;
        }
        Ok(connection)
    }

    async fn deliver(&self, envelope: &Envelope, mail: &[u8]) -> Result<(), Refusal> {
        let mut connection = self.connect().await.map_err(Refusal::Connection)?;
        let sent = connection.send(envelope, mail).await;
        match sent {
            Ok(_) => {
                // The mail is taken, also if the server does not say good-bye.
                let _ = tokio::time::timeout(QUIT_TIME_MAX, connection.quit()).await;
                Ok(())
            }
            Err(error) => Err(Refusal::Mail(error)),
        }
    }

    /// Sends a mail to each recipient on its own, because one of them was refused. Returns what did not arrive.
    async fn deliver_one_by_one(&self, envelope: &Envelope, mail: &[u8]) -> Result<Option<String>, SendError> {
        let (mut refused, mut first) = (Vec::new(), None);
        for to in envelope.to() {
            let own = Envelope::new(envelope.from().cloned(), vec![to.clone()]).map_err(SendError::message)?;
            match self.deliver(&own, mail).await {
                Ok(()) => {}
                Err(refusal) => {
                    let error = refusal.into_error();
                    refused.push(format!("[{to}] {}", error.reason));
                    // An error that may pass is tried again, if the mail reached no recipient.
                    if first
                        .as_ref()
                        .is_none_or(|first: &SendError| first.kind == SendErrorKind::Message)
                    {
                        first = Some(error);
                    }
                }
            }
        }
        match first {
            Some(error) if refused.len() == envelope.to().len() => Err(error),
            Some(_) => Ok(Some(format!("not delivered to {}", refused.join(", ")))),
            None => Ok(None),
        }
    }
}

/// Why a mail was not taken.
enum Refusal {
    Connection(SendError),
    Mail(SmtpError),
}

impl Refusal {
    fn into_error(self) -> SendError {
        let error = match self {
            Self::Connection(error) => return error,
            Self::Mail(error) => error,
        };
        let reason = format!("SMTP: {}", with_causes(&error));
        let status = error.status().map(|code| code.to_string());
        // What the server says about the client and its sign-in is not about this message.
        let is_of_channel = matches!(
            status.as_deref(),
            Some("500" | "502" | "503" | "530" | "534" | "535" | "538")
        );
        match error.is_permanent() && !is_of_channel {
            true => SendError::message(reason),
            false => SendError::channel(reason),
        }
    }
}

#[async_trait]
impl Sender for EmailSender {
    async fn send(&self, notification: &Notification) -> Result<Option<String>, SendError> {
        let message = self.message(notification).map_err(SendError::message)?;
        let (envelope, mail) = (message.envelope(), message.formatted());
        match self.deliver(envelope, &mail).await {
            Ok(()) => Ok(None),
            Err(Refusal::Mail(error)) if error.status().is_some() && envelope.to().len() > 1 => {
                self.deliver_one_by_one(envelope, &mail).await
            }
            Err(refusal) => Err(refusal.into_error()),
        }
    }
}

#[cfg(test)]
mod tests {
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
