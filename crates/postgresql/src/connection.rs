//! Connection to a server, with the notifications that it sends.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Time to connect, unless the connection string says another one.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection. It ends when this value is dropped.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Count of notifications; closed once the connection has ended.
    pub(crate) notifications: watch::Receiver<u64>,
}

/// Connects with the connection string of a file.
pub(crate) async fn connect(file: &Path, certificate_authority: Option<&Path>) -> Result<Connection, String> {
    let (file, authority) = (file.to_owned(), certificate_authority.map(Path::to_owned));
    let prepared = tokio::task::spawn_blocking(move || Ok::<_, String>((config(&file)?, tls(authority.as_deref())?)));
    let (config, tls) = prepared
        .await
        .map_err(|_| "failed because of a bug, see the log".to_owned())??;
    let (client, mut connection) = config.connect(MakeRustlsConnect::new(tls)).await.map_err(print)?;
    let (counter, notifications) = watch::channel(0_u64);
    tokio::spawn(async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(_))) => counter.send_modify(|count| *count += 1),
                Some(Ok(AsyncMessage::Notice(notice))) => tracing::debug!(%notice, "a notice of PostgreSQL"),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(error = print(error), "a connection to PostgreSQL ended");
                    return;
                }
                None => return,
            }
        }
    });
    Ok(Connection { client, notifications })
}

fn config(file: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read [{}]: {error}", file.display()))?;
    // The error of the parser may show a part of the text, which may hold a password.
    let parsed: Result<Config, _> = text.trim().parse();
    let mut config = parsed.map_err(|_| format!("[{}] holds no connection string of PostgreSQL", file.display()))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIME_MAX);
    }
    if config.get_application_name().is_none() {
        config.application_name("firn");
    }
    Ok(config)
}

fn tls(certificate_authority: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match certificate_authority {
        Some(path) => {
            let refuse = |error: String| format!("cannot use [{}]: {error}", path.display());
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
                roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(refuse("it holds no certificate".to_owned()));
            }
        }
        None => {
            // Certificates of the system that cannot be used are passed over, as OpenSSL does.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Prints an error with what caused it, which PostgreSQL's client leaves out.
pub(crate) fn print(error: tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
