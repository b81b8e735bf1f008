//! Real connections: answers without bodies, early refusals, graceful shutdown.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::fake::Node;

pub(crate) struct Served {
    pub(crate) node: Node,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) server: tokio::task::JoinHandle<std::io::Result<()>>,
}

pub(crate) async fn serve(node: Node) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(firn_api::serve(listener, node.api.clone(), async {
        let _ = stopped.await;
    }));
    Served {
        node,
        address,
        stop,
        server,
    }
}

async fn exchange(address: std::net::SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_head_has_a_length_and_no_body() {
    let served = serve(Node::new()).await;
    let answer = exchange(
        served.address,
        b"HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("content-length: "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

/// The client sends nothing after its head: the answer does not wait for the body.
#[tokio::test]
async fn a_head_that_announces_too_much_is_answered_at_once() {
    let served = serve(Node::new()).await;
    for head in [
        "POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-length: 10737418240\r\ncontent-type: application/json\r\n\r\n",
        "POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-length: 10737418240\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = async {
            while !String::from_utf8_lossy(&answer).contains("status\":413}") {
                assert_ne!(
                    stream.read_buf(&mut answer).await.unwrap(),
                    0,
                    "closed without an answer"
                );
            }
        };
        tokio::time::timeout(Duration::from_secs(5), read).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("entity content is too long [10737418240]"), "{answer}");
    }
}

/// A client that sends everything before it reads gets the answer too, not a reset connection.
#[tokio::test]
async fn a_client_that_sends_first_sees_why_it_was_refused() {
    let served = serve(Node::new()).await;
    let length = 101 << 20;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\ncontent-type: application/json\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let part = vec![b' '; 1 << 20];
    for _ in 0..length / part.len() {
        stream.write_all(&part).await.unwrap();
    }
    let mut answer = vec![0; 64 << 10];
    let count = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let served = serve(Node::new()).await;
    let head = b"POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-length: 300000000\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n\r\n";
    let answer = tokio::time::timeout(Duration::from_secs(5), exchange(served.address, head))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("content_too_long_exception"), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let served = serve(Node::new()).await;
    let check = async |head: String, expect: &str| {
        let answer = exchange(served.address, head.as_bytes()).await;
        assert!(answer.starts_with(expect), "{answer}");
    };
    let long = "x".repeat(40 << 10);
    check(
        format!("GET / HTTP/1.1\r\nhost: x\r\nauthorization: ApiKey {long}\r\n\r\n"),
        "HTTP/1.1 431",
    )
    .await;
    let many: String = (0..200).map(|number| format!("h{number}: 1\r\n")).collect();
    check(format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"), "HTTP/1.1 431").await;
    check(
        "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
        "HTTP/1.1 200",
    )
    .await;
}

#[tokio::test]
async fn running_requests_finish_when_the_server_stops() {
    let served = serve(Node::new()).await;
    *served.node.fake.search_delay.lock().unwrap() = Duration::from_millis(200);
    let request = tokio::spawn(exchange(served.address, b"GET /_search HTTP/1.1\r\nhost: x\r\n\r\n"));
    // An idle connection does not delay the shutdown.
    let idle = TcpStream::connect(served.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    served.stop.send(()).unwrap();
    let answer = request.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    tokio::time::timeout(Duration::from_secs(5), served.server)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    drop(idle);
}

#[tokio::test]
async fn a_closed_connection_cancels_its_search() {
    let served = serve(Node::new()).await;
    *served.node.fake.search_delay.lock().unwrap() = Duration::from_secs(60);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream
        .write_all(b"GET /_search HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(stream);
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if served.node.fake.contexts.lock().unwrap()[0].cancel.is_cancelled() {
            return;
        }
    }
    panic!("the search goes on");
}

#[tokio::test]
async fn unread_answers_are_bounded_in_bytes_and_time() {
    let node = Node::with(|config| {
        config.unread_answers_max = 30 << 20;
        config.body_idle_timeout = Duration::from_millis(500);
    });
    // More than the buffers of a connection hold.
    let source = format!(r#"{{"a":"{}"}}"#, "x".repeat(20 << 20));
    node.ok("PUT", "/i/_doc/1", &source).await;
    let served = serve(node).await;
    let ask = b"GET /i/_doc/1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    silent.write_all(ask).await.unwrap();
    // The answer has begun to arrive.
    silent.read_exact(&mut [0; 9]).await.unwrap();
    let refused = exchange(served.address, ask).await;
    assert!(
        refused.starts_with("HTTP/1.1 429 "),
        "{}",
        &refused[..200.min(refused.len())]
    );
    assert!(refused.contains("circuit_breaking_exception"), "{refused}");
    // A small answer needs no memory budget.
    let small = exchange(
        served.address,
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(small.starts_with("HTTP/1.1 200 "), "{small}");
    // The silent client is cut off, and its memory budget is free again.
    let began = std::time::Instant::now();
    loop {
        let answer = exchange(served.address, ask).await;
        if answer.starts_with("HTTP/1.1 200 ") {
            assert!(answer.len() > source.len());
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{}", &answer[..200]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut rest = Vec::new();
    let cut = silent.read_to_end(&mut rest).await;
    assert!(cut.is_err() || rest.len() < source.len(), "it got all");
}
