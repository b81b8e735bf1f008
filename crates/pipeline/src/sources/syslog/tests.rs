use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::testing::{Run, Stored, wait_for};
use super::*;

const LOOPBACK: &str = "127.0.0.1:0";

struct Server {
    run: Run,
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    tls: Option<SocketAddr>,
}

/// Starts a source on free ports, over a channel of `bytes_max` bytes.
async fn serve(source: Syslog, bytes_max: usize) -> Server {
    let sockets = source.bind().await.unwrap();
    let (udp, tcp) = (&sockets.udp, &sockets.tcp);
    let (udp, tcp) = (
        udp.as_ref().map(|it| it.local_addr().unwrap()),
        tcp.as_ref().map(|it| it.local_addr().unwrap()),
    );
    let tls = sockets.tls.as_ref().map(|(it, _)| it.local_addr().unwrap());
    let run = Run::start_with(&Arc::new(Stored::default()), bytes_max, |output| async move {
        sockets.serve(output).await;
        Ok(())
    });
    Server { run, udp, tcp, tls }
}

fn udp_and_tcp() -> Syslog {
    Syslog {
        udp: Some(LOOPBACK.parse().unwrap()),
        tcp: Some(LOOPBACK.parse().unwrap()),
        tls: None,
        buffer_bytes_max: 64 << 20,
        stuck_after: STUCK_AFTER,
    }
}

#[tokio::test]
async fn records_come_by_udp_and_by_tcp_in_both_framings() {
    let server = serve(udp_and_tcp(), 1 << 20).await;
    let udp = UdpSocket::bind(LOOPBACK).await.unwrap();
    udp.send_to(b"<1>by udp\n", server.udp.unwrap()).await.unwrap();
    let mut lines = TcpStream::connect(server.tcp.unwrap()).await.unwrap();
    lines
        .write_all(b"<2>a line\n<3>with \xff\nCEF:0|bare\nno line break")
        .await
        .unwrap();
    drop(lines);
    let mut counted = TcpStream::connect(server.tcp.unwrap()).await.unwrap();
    counted.write_all(b"8 <4>a\nb c9 <5>cut of").await.unwrap();
    drop(counted);
    server.run.wait_for_count(7).await;
    let expected = [
        "<1>by udp",
        "<2>a line",
        "<3>with \u{fffd}",
        "<4>a\nb c",
        "<5>cut of",
        "CEF:0|bare",
        "no line break",
    ];
    assert_eq!(server.run.stored.records(), expected);
    let counters = || server.run.counters.values();
    wait_for("the end of the connections", || counters()["connections"] == 0).await;
    assert_eq!((counters()["connections_total"], counters()["udp_datagrams"]), (2, 1));
    let open = TcpStream::connect(server.tcp.unwrap()).await.unwrap();
    wait_for("an open connection", || counters()["connections"] == 1).await;
    drop(open);
    wait_for("no open connection", || counters()["connections"] == 0).await;
    assert_eq!(counters()["connections_total"], 3);
    server.run.stop().await.unwrap();
}

#[tokio::test]
async fn a_full_pipeline_holds_tcp_back_and_loses_nothing() {
    let server = serve(udp_and_tcp(), 64 << 10).await;
    server.run.take_batches(false);
    let address = server.tcp.unwrap();
    let record = |number: usize| format!("<1>{number:06} {}\n", "x".repeat(1000));
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let sending = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        for number in 0..40_000 {
            stream.write_all(record(number).as_bytes()).await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Buffers on the way take some; then the sender stands still.
    let mut before = usize::MAX;
    wait_for("a sender that is held back", || {
        let now = sent.load(Ordering::Relaxed);
        std::mem::replace(&mut before, now) == now && now > 0
    })
    .await;
    assert!(
        sent.load(Ordering::Relaxed) < 40_000,
        "40 MB fit into a pipeline of 64 KB"
    );
    server.run.take_batches(true);
    sending.await.unwrap();
    server.run.wait_for_count(40_000).await;
    let records = server.run.stored.records();
    assert!(
        records
            .iter()
            .enumerate()
            .all(|(number, text)| text.starts_with(&format!("<1>{number:06} ")))
    );
    server.run.stop().await.unwrap();
}

#[tokio::test]
async fn datagrams_that_a_full_pipeline_cannot_take_are_counted() {
    let server = serve(udp_and_tcp(), 16 << 10).await;
    server.run.take_batches(false);
    let udp = UdpSocket::bind(LOOPBACK).await.unwrap();
    let record = "x".repeat(1000);
    let dropped = || server.run.counters.values().get("udp_dropped").copied().unwrap_or(0);
    let mut sent = 0_u64;
    while dropped() == 0 {
        udp.send_to(record.as_bytes(), server.udp.unwrap()).await.unwrap();
        sent += 1;
        assert!(sent < 200_000, "nothing was dropped");
        tokio::task::yield_now().await;
    }
    server.run.take_batches(true);
    let counters = || server.run.counters.values();
    wait_for("all datagrams", || counters()["udp_datagrams"] == sent).await;
    let taken = usize::try_from(sent - dropped()).unwrap();
    server.run.wait_for_count(taken).await;
    server.run.stop().await.unwrap();
}

#[tokio::test]
async fn tls_carries_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let (chain, private) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, certificate.pem()).unwrap();
    std::fs::write(&private, key.serialize_pem()).unwrap();
    let source = Syslog {
        udp: None,
        tcp: None,
        tls: Some((LOOPBACK.parse().unwrap(), acceptor(&chain, &private).unwrap())),
        ..udp_and_tcp()
    };
    let server = serve(source, 1 << 20).await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.tls.unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    stream.write_all(b"<1>secret\n").await.unwrap();
    stream.shutdown().await.unwrap();
    server.run.wait_for_count(1).await;
    // A client without TLS is refused and counted.
    let mut plain = TcpStream::connect(server.tls.unwrap()).await.unwrap();
    plain.write_all(b"<1>plain\n<1>plain\n").await.unwrap();
    let counters = || server.run.counters.values();
    wait_for("a refused handshake", || counters()["tls_handshakes_failed"] == 1).await;
    wait_for("its end", || counters()["connections"] == 0).await;
    server.run.stop().await.unwrap();
    let error = acceptor(&private, &private).err().unwrap();
    assert!(error.reason().contains("key.pem"), "{}", error.reason());
}

#[tokio::test]
async fn frames_that_are_too_long_are_counted_and_the_next_one_is_read() {
    let server = serve(udp_and_tcp(), 4 << 20).await;
    let mut stream = TcpStream::connect(server.tcp.unwrap()).await.unwrap();
    let longest = "x".repeat(1 << 20);
    stream
        .write_all(format!("{longest}\n{longest}y\n<1>next\n").as_bytes())
        .await
        .unwrap();
    drop(stream);
    server.run.wait_for_count(2).await;
    assert_eq!(server.run.counters.values()["frames_too_long"], 1);
    server.run.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let taken = TcpListener::bind(LOOPBACK).await.unwrap();
    let address = taken.local_addr().unwrap();
    let definition = SyslogDefinition {
        udp: None,
        tcp: Some(address),
        tls: None,
        buffer_bytes_max: "64mb".to_owned(),
    };
    let source = open(&definition).unwrap();
    let error = Run::start(source, &Arc::default()).stop().await.unwrap_err();
    assert!(error.reason().contains(&address.to_string()), "{}", error.reason());
}

#[tokio::test]
async fn a_stop_delivers_what_open_connections_have_sent() {
    let server = serve(udp_and_tcp(), 1 << 20).await;
    let mut streams = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(server.tcp.unwrap()).await.unwrap();
        stream
            .write_all(format!("<1>{number:03}\n<1>{number:03} rest").as_bytes())
            .await
            .unwrap();
        streams.push(stream);
    }
    wait_for("the first records", || server.run.stored.count() >= 200).await;
    let stored = Arc::clone(&server.run.stored);
    server.run.stop().await.unwrap();
    assert_eq!(stored.count(), 400);
    drop(streams);
}

#[tokio::test]
async fn unfinished_frames_of_many_connections_are_bounded_and_do_not_stop_others() {
    const BOUND: u64 = 4 << 20;
    let source = Syslog {
        buffer_bytes_max: BOUND as usize,
        stuck_after: std::time::Duration::from_millis(500),
        ..udp_and_tcp()
    };
    let server = serve(source, 16 << 20).await;
    let address = server.tcp.unwrap();
    let holding: Vec<_> = (0..60)
        .map(|_| {
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                // It ends when the connection is closed.
                let sent = stream.write_all(&vec![b'x'; (1 << 20) - 1]).await;
                if sent.is_ok() {
                    std::future::pending::<()>().await;
                }
            })
        })
        .collect();
    let counter = |name: &str| server.run.counters.values().get(name).copied().unwrap_or(0);
    wait_for("the bound", || counter("buffered_bytes") > BOUND / 4).await;
    let mut lines = TcpStream::connect(address).await.unwrap();
    let whole = |text: &str| server.run.stored.has_end(text);
    for number in 0..20 {
        lines.write_all(format!("<1>line {number}\n").as_bytes()).await.unwrap();
        wait_for("a line", || whole(&format!("<1>line {number}"))).await;
        assert!(counter("buffered_bytes") <= BOUND);
    }
    let frame = format!("<2>{} large\n", "y".repeat(500_000));
    // As senders do: one whose connection is closed connects again.
    let sending = tokio::spawn(async move {
        loop {
            let mut large = TcpStream::connect(address).await.unwrap();
            let _ = large.write_all(frame.as_bytes()).await;
            let _ = large.shutdown().await;
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    });
    wait_for("connections that are closed", || {
        assert!(counter("buffered_bytes") <= BOUND);
        counter("connections_closed_buffer_full") > 0
    })
    .await;
    wait_for("a large frame", || whole(" large")).await;
    sending.abort();
    for task in &holding {
        task.abort();
    }
    server.run.stop().await.unwrap();
}
