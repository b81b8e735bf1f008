//! Slots of connections with and without authenticated requests.

use std::time::Duration;

use firn_auth::SignInThrottleLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fake::Node;
use crate::security::{basic, secure};
use crate::server::{Served, serve};

const PLACES: usize = 8;
/// Longer than any step takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a node that requires authentication.
async fn secured(change: impl FnOnce(&mut firn_api::ApiConfig)) -> (Served, String) {
    let (node, control) = secure(SignInThrottleLimits::default());
    control
        .set_operator_password(&firn_auth::Password("an operator's password".to_owned()))
        .unwrap();
    drop(node);
    let node = Node::with(|config| {
        config.max_connections = PLACES;
        config.security = firn_api::Security::On(control);
        change(config);
    });
    (serve(node).await, basic("elastic", "an operator's password"))
}

async fn connect(served: &Served) -> TcpStream {
    TcpStream::connect(served.address).await.unwrap()
}

/// Sends a request on a connection that stays open and returns the status of its answer; `None`: the connection was
/// closed.
async fn ask(stream: &mut TcpStream, path: &str, who: Option<&str>) -> Option<String> {
    let authorization = who.map_or(String::new(), |who| format!("authorization: {who}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    answered(stream).await
}

async fn answered(stream: &mut TcpStream) -> Option<String> {
    let mut answer = Vec::new();
    let (head, length) = loop {
        if tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer))
            .await
            .expect("an answer")
            .ok()?
            == 0
        {
            return None;
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            break (
                head.to_owned(),
                length.map_or(0, |length| length.parse::<usize>().unwrap()),
            );
        }
    };
    let mut rest = (head.len() + 4 + length).saturating_sub(answer.len());
    while rest > 0 {
        let mut body = vec![0; rest];
        rest -= stream.read(&mut body).await.ok().filter(|count| *count > 0)?;
    }
    Some(head.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// Waits until the server closes a connection.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .expect("it is closed");
}

#[tokio::test]
async fn unauthenticated_connections_block_no_authenticated_client() {
    let (served, operator) = secured(|config| {
        config.stranger_timeout = PATIENCE;
    })
    .await;
    let mut held = Vec::new();
    let mut shipper = connect(&served).await;
    assert_eq!(ask(&mut shipper, "/", Some(&operator)).await.as_deref(), Some("200"));
    for round in 0..12 {
        for number in 0..PLACES {
            let mut stranger = connect(&served).await;
            let begin: &[u8] = match (round + number) % 4 {
                0 => b"",
                1 => b"GET / HTTP/1.1\r\nhost:",
                2 => b"PRI * HTTP/2.0\r\n",
                // The request is refused, and the client continues to send.
                _ => b"POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{",
            };
            // The server may revoke the slot of a connection right after it was opened.
            let _ = stranger.write_all(begin).await;
            held.push(stranger);
        }
        // A new authenticated connection, and one that existed before.
        let mut other = connect(&served).await;
        assert_eq!(
            ask(&mut other, "/", Some(&operator)).await.as_deref(),
            Some("200"),
            "round {round}"
        );
        assert_eq!(
            ask(&mut shipper, "/", Some(&operator)).await.as_deref(),
            Some("200"),
            "round {round}"
        );
    }
    let mut wrong = connect(&served).await;
    assert_eq!(ask(&mut wrong, "/", None).await.as_deref(), Some("401"));
    assert_eq!(
        ask(&mut wrong, "/", Some(&basic("elastic", "wrong"))).await.as_deref(),
        Some("401")
    );
    held.push(wrong);
    for number in 0..PLACES {
        assert_eq!(ask(&mut shipper, "/", Some(&operator)).await.as_deref(), Some("200"));
        let mut stranger = connect(&served).await;
        if number + 1 == PLACES {
            assert_eq!(ask(&mut stranger, "/", None).await.as_deref(), Some("401"));
        }
        held.push(stranger);
    }
    // A refused request does not count as authenticated.
    closed(&mut held[12 * PLACES]).await;
    assert_eq!(ask(&mut shipper, "/", Some(&operator)).await.as_deref(), Some("200"));
}

#[tokio::test]
async fn idle_connections_make_room_and_busy_ones_do_not() {
    let served = serve(Node::with(|config| config.max_connections = PLACES)).await;
    let mut known = Vec::new();
    for _ in 0..PLACES {
        let mut stream = connect(&served).await;
        assert_eq!(ask(&mut stream, "/", None).await.as_deref(), Some("200"));
        known.push(stream);
    }
    // The first connection was used last.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(ask(&mut known[0], "/", None).await.as_deref(), Some("200"));
    let mut next = connect(&served).await;
    assert_eq!(ask(&mut next, "/", None).await.as_deref(), Some("200"));
    closed(&mut known[1]).await;
    known.remove(1);
    assert_eq!(ask(&mut known[0], "/", None).await.as_deref(), Some("200"));
    known.push(next);

    *served.node.fake.search_delay.lock().unwrap() = Duration::from_millis(700);
    for stream in &mut known {
        stream
            .write_all(b"GET /_search HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
    }
    while served.node.fake.contexts.lock().unwrap().len() < PLACES {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut waits = connect(&served).await;
    assert_eq!(ask(&mut waits, "/", None).await.as_deref(), Some("200"));
    // The new connection got the slot of one whose answer had been sent.
    for stream in &mut known {
        assert_eq!(answered(stream).await.as_deref(), Some("200"));
    }
}

#[tokio::test]
async fn unauthenticated_connections_are_closed_soon() {
    let (served, operator) = secured(|config| config.stranger_timeout = Duration::from_millis(300)).await;
    let mut known = connect(&served).await;
    assert_eq!(ask(&mut known, "/", Some(&operator)).await.as_deref(), Some("200"));
    let mut silent = connect(&served).await;
    let mut begun = connect(&served).await;
    begun.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    let mut refused = connect(&served).await;
    assert_eq!(ask(&mut refused, "/", None).await.as_deref(), Some("401"));
    for stream in [&mut silent, &mut begun, &mut refused] {
        closed(stream).await;
    }
    assert_eq!(ask(&mut known, "/", Some(&operator)).await.as_deref(), Some("200"));
}
