//! TLS certificate of the server, and its replacement at runtime.

use std::sync::{Arc, PoisonError, RwLock};

use firn_engine::Error;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InvalidMessage, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// ALPN name of HTTP/2.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// TLS 1.2 and 1.3 with one replaceable certificate: open connections continue with the certificate that they started
/// with.
#[derive(Debug)]
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Creates the configuration from a certificate chain, the server's certificate first, and its key, both as PEM.
    /// Fails with `IllegalArgument` if one is invalid or they do not match.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            config: RwLock::new(server_config(certificates, key)?),
        })
    }

    /// Uses another certificate from the next connection on. After a failure the old one stays.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), Error> {
        let config = server_config(certificates, key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }
}

fn server_config(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, Error> {
    let chain = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::illegal_argument(format!("cannot read the certificate: {error}")))?;
    if chain.is_empty() {
        return Err(Error::illegal_argument("the certificate file holds no PEM certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        let hint = if is_encrypted(key) {
            "it is encrypted, which is not supported: decrypt it with `openssl pkey`".to_owned()
        } else {
            error.to_string()
        };
        Error::illegal_argument(format!("cannot read the private key: {hint}"))
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::internal(format!("cannot set up TLS: {error}")))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| Error::illegal_argument(format!("cannot use the certificate with its key: {error}")))?;
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(Arc::new(config))
}

fn is_encrypted(key: &[u8]) -> bool {
    String::from_utf8_lossy(key).contains("ENCRYPTED")
}

/// Returns why a handshake failed, for the log.
pub(crate) fn explain(error: &std::io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "plain HTTP or another protocol without TLS on the HTTPS port".to_owned()
        }
        _ => format!("the TLS handshake failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_is_taken_and_replaced() {
        let (certificate, key) = pair();
        let tls = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap();
        let before = Arc::as_ptr(&tls.config.read().unwrap());
        let (other, other_key) = pair();
        // A certificate whose key has not been replaced yet.
        tls.replace(other.as_bytes(), key.as_bytes()).unwrap_err();
        assert_eq!(before, Arc::as_ptr(&tls.config.read().unwrap()));
        tls.replace(other.as_bytes(), other_key.as_bytes()).unwrap();
        assert_ne!(before, Arc::as_ptr(&tls.config.read().unwrap()));
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let (certificate, key) = pair();
        let check = |certificate: &str, key: &str, words: &str| {
            let error = Tls::new(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert!(error.reason().contains(words), "{error} lacks `{words}`");
        };
        check("", &key, "holds no PEM certificate");
        check(&key, &key, "holds no PEM certificate");
        check(&certificate, "", "cannot read the private key");
        check(&certificate, &certificate, "cannot read the private key");
        check(&certificate, &pair().1, "cannot use the certificate with its key");
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        check(&certificate, encrypted, "decrypt it with `openssl pkey`");
    }
}
