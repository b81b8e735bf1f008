//! Syslog: records by UDP, one a datagram, and by TCP and TLS, framed by octet counts or newlines (RFC 5425, 5426, 6587).
//!
//! The source hands over records as they are; the pack of the pipeline parses them, so CEF, LEEF and plain lines come the same
//! way. Neither UDP nor plain TCP has acknowledgements: a sender does not learn that a record was stored. When the pipeline is
//! full, TCP connections are not read, which holds their senders back, and datagrams are dropped and counted. What the connections hold
//! is bounded ([`buffer_bound`]).

mod buffer_bound;
mod connection;
mod datagrams;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use firn_model::{Error, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::buffer_bound::STUCK_AFTER;
use super::joiner::{join, joined};
use super::{Source, SourceOutput};
use crate::definition::SyslogDefinition;

/// Source of a definition: its addresses, and the certificate of the TLS listener.
struct Syslog {
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    tls: Option<(SocketAddr, TlsAcceptor)>,
    buffer_bytes_max: usize,
    stuck_after: Duration,
}

/// Bound sockets.
struct Sockets {
    udp: Option<UdpSocket>,
    tcp: Option<TcpListener>,
    tls: Option<(TcpListener, TlsAcceptor)>,
    buffer_bytes_max: usize,
    stuck_after: Duration,
}

/// Makes a source. Reads the certificate and the key; the sockets are bound when it runs.
///
/// # Errors
/// [`firn_model::ErrorKind::IllegalArgument`]: the certificate or its key cannot be used.
pub(super) fn open(definition: &SyslogDefinition) -> Result<Box<dyn Source>> {
    let tls = definition
        .tls
        .as_ref()
        .map(|tls| Ok::<_, Error>((tls.address, acceptor(&tls.certificate, &tls.key)?)));
    Ok(Box::new(Syslog {
        udp: definition.udp,
        tcp: definition.tcp,
        tls: tls.transpose()?,
        buffer_bytes_max: definition.buffer_bytes()?,
        stuck_after: STUCK_AFTER,
    }))
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Error::illegal_argument(format!("cannot read [{}]: {error}", path.display())))
    };
    let refuse = |path: &Path, error: &dyn std::fmt::Display| {
        Error::illegal_argument(format!("cannot use [{}]: {error}", path.display()))
    };
    let pem = read(certificate)?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| refuse(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| refuse(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::internal(format!("cannot set up TLS: {error}")))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| refuse(certificate, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[async_trait]
impl Source for Syslog {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        self.bind().await?.serve(output).await;
        Ok(())
    }
}

impl Syslog {
    async fn bind(self) -> Result<Sockets> {
        let refuse = |address: SocketAddr| {
            move |error: std::io::Error| Error::illegal_argument(format!("cannot listen on [{address}]: {error}"))
        };
        Ok(Sockets {
            udp: match self.udp {
                Some(address) => Some(datagrams::bind(address).await.map_err(refuse(address))?),
                None => None,
            },
            tcp: match self.tcp {
                Some(address) => Some(TcpListener::bind(address).await.map_err(refuse(address))?),
                None => None,
            },
            tls: match self.tls {
                Some((address, acceptor)) => {
                    let listener = TcpListener::bind(address).await.map_err(refuse(address))?;
                    Some((listener, acceptor))
                }
                None => None,
            },
            buffer_bytes_max: self.buffer_bytes_max,
            stuck_after: self.stuck_after,
        })
    }
}

impl Sockets {
    /// Reads until the pipeline stops; then delivers what was read.
    async fn serve(self, output: SourceOutput) {
        let (groups, joiner) = joined();
        let joining = tokio::spawn(join(joiner, output.clone()));
        let mut tasks = JoinSet::new();
        if let Some(socket) = self.udp {
            tasks.spawn(datagrams::read(socket, groups.clone(), output.clone()));
        }
        let connections = connection::Connections::new(output.clone(), self.buffer_bytes_max, self.stuck_after);
        if let Some(listener) = self.tcp {
            tasks.spawn(connection::accept(
                listener,
                None,
                Arc::clone(&connections),
                groups.clone(),
            ));
        }
        if let Some((listener, acceptor)) = self.tls {
            tasks.spawn(connection::accept(
                listener,
                Some(acceptor),
                connections,
                groups.clone(),
            ));
        }
        drop(groups);
        while tasks.join_next().await.is_some() {}
        // It ends once every connection has ended.
        let _ = joining.await;
    }
}
