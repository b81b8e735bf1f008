//! TLS: protocols, refused connections, and the replacement of the certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use firn_api::Tls;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fake::Node;
use crate::http2::{Client, get};
use crate::server::{Served, serve};

struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }
}

async fn serve_with(pair: &Pair) -> (Served, Arc<Tls>) {
    let tls = Arc::new(Tls::new(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap());
    let shown = Arc::clone(&tls);
    (serve(Node::with(|config| config.tls = Some(shown))).await, tls)
}

/// Connects as a client that trusts only `pair`.
async fn connect(
    address: SocketAddr,
    pair: &Pair,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let certificate = rustls::pki_types::CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    roots.add(certificate).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
}

const ANY: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

async fn get_root(mut stream: TlsStream<TcpStream>) -> String {
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn http1_is_spoken_under_both_versions() {
    let pair = Pair::new();
    let (served, _) = serve_with(&pair).await;
    for version in ANY {
        for alpn in [&["http/1.1"][..], &[]] {
            let stream = connect(served.address, &pair, &[*version], alpn).await.unwrap();
            let answer = get_root(stream).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            assert!(answer.contains("You Know, for Search"), "{answer}");
        }
    }
}

#[tokio::test]
async fn http2_is_spoken_with_clients_that_support_it() {
    let pair = Pair::new();
    let (served, _) = serve_with(&pair).await;
    let stream = connect(served.address, &pair, ANY, &["http/1.1", "h2"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let client = Client::new(stream).await;
    let (head, body) = client.send(get("/"), "").await.unwrap();
    assert_eq!((head.status().as_u16(), head.version()), (200, http::Version::HTTP_2));
    assert!(body.contains("You Know, for Search"), "{body}");
}

#[tokio::test]
async fn old_tls_and_plain_http_are_turned_away() {
    let pair = Pair::new();
    let (served, _) = serve_with(&pair).await;

    // Hello of TLS 1.1 with one cipher suite of that time, and one signature algorithm.
    let mut hello = vec![0x16, 3, 1, 0, 55, 1, 0, 0, 51, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 1]);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(&hello).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // Fatal alert protocol_version.
    assert_eq!((answer[0], &answer[5..]), (0x15, &[2, 70][..]), "{answer:?}");

    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");

    // The server still works.
    let stream = connect(served.address, &pair, ANY, &[]).await.unwrap();
    assert!(get_root(stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_new_certificate_is_shown_from_the_next_connection_on() {
    let (old, new) = (Pair::new(), Pair::new());
    let (served, tls) = serve_with(&old).await;
    let open = connect(served.address, &old, ANY, &[]).await.unwrap();
    tls.replace(new.certificate.as_bytes(), new.key.as_bytes()).unwrap();
    connect(served.address, &old, ANY, &[]).await.unwrap_err();
    let stream = connect(served.address, &new, ANY, &[]).await.unwrap();
    assert!(get_root(stream).await.starts_with("HTTP/1.1 200"));
    // The open connection continues.
    assert!(get_root(open).await.starts_with("HTTP/1.1 200"));

    // A broken pair changes nothing.
    tls.replace(old.certificate.as_bytes(), new.key.as_bytes()).unwrap_err();
    let stream = connect(served.address, &new, ANY, &[]).await.unwrap();
    assert!(get_root(stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_handshake_does_not_hold_up_the_end() {
    let pair = Pair::new();
    let (served, _) = serve_with(&pair).await;
    let silent = TcpStream::connect(served.address).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    served.stop.send(()).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(5), served.server)
        .await
        .expect("the server ends")
        .unwrap()
        .unwrap();
    drop(silent);
}
