//! HTTP/2 with prior knowledge, that is with the preface alone (under TLS see `tls.rs`).

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::fake::Node;
use crate::server::serve;

/// Client side of a connection.
pub(crate) struct Client {
    send: h2::client::SendRequest<Bytes>,
    /// Completes when the server closes the connection.
    pub(crate) connection: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    pub(crate) async fn new(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        Self {
            send,
            connection: tokio::spawn(connection),
        }
    }

    pub(crate) async fn send(
        &self,
        request: Request<()>,
        body: &'static str,
    ) -> Result<(Response<()>, String), h2::Error> {
        let mut send = self.send.clone().ready().await?;
        let (answer, mut sent) = send.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            sent.send_data(Bytes::from(body), true)?;
        }
        let (parts, mut body) = answer.await?.into_parts();
        let mut text = String::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            text.push_str(std::str::from_utf8(&data).unwrap());
        }
        Ok((Response::from_parts(parts, ()), text))
    }
}

pub(crate) fn get(path: &str) -> Request<()> {
    Request::get(format!("http://localhost{path}")).body(()).unwrap()
}

#[tokio::test]
async fn a_client_may_begin_with_http2() {
    let served = serve(Node::new()).await;
    let client = Client::new(TcpStream::connect(served.address).await.unwrap()).await;
    let (head, body) = client.send(get("/"), "").await.unwrap();
    assert_eq!(head.status(), 200);
    assert!(body.contains("You Know, for Search"), "{body}");
    assert_eq!(head.headers()["x-elastic-product"], "Elasticsearch");

    let search = Request::post("http://localhost/_search?pretty")
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (head, _) = client.send(search, r#"{"query":{"match_all":{}}}"#).await.unwrap();
    assert_eq!(head.status(), 200);
    let (head, body) = client.send(get("/_nothing_like_it"), "").await.unwrap();
    assert_eq!(head.status(), 400, "{body}");
}

#[tokio::test]
async fn requests_of_one_connection_run_side_by_side() {
    let served = serve(Node::new()).await;
    *served.node.fake.search_delay.lock().unwrap() = Duration::from_millis(300);
    let client = Client::new(TcpStream::connect(served.address).await.unwrap()).await;
    let search = client.send(get("/_search"), "");
    let root = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        tokio::time::timeout(Duration::from_millis(200), client.send(get("/"), "")).await
    };
    let (search, root) = tokio::join!(search, root);
    assert_eq!(root.expect("not behind the search").unwrap().0.status(), 200);
    assert_eq!(search.unwrap().0.status(), 200);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_the_connection_lives_on() {
    let served = serve(Node::new()).await;
    let client = Client::new(TcpStream::connect(served.address).await.unwrap()).await;
    // Heads below the limit pass, however many bytes they take on the wire.
    let mut request = get("/");
    request
        .headers_mut()
        .insert("authorization", "x".repeat(8 << 10).parse().unwrap());
    assert_eq!(client.send(request.clone(), "").await.unwrap().0.status(), 200);
    request
        .headers_mut()
        .insert("authorization", "x".repeat(40 << 10).parse().unwrap());
    let (head, _) = client.send(request, "").await.unwrap();
    assert_eq!(head.status(), 431);
    assert_eq!(client.send(get("/"), "").await.unwrap().0.status(), 200);
}

#[tokio::test]
async fn running_requests_finish_when_the_server_stops() {
    let served = serve(Node::new()).await;
    *served.node.fake.search_delay.lock().unwrap() = Duration::from_millis(300);
    let client = Client::new(TcpStream::connect(served.address).await.unwrap()).await;
    let idle = Client::new(TcpStream::connect(served.address).await.unwrap()).await;
    let silent = TcpStream::connect(served.address).await.unwrap();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        served.stop.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(client.send(get("/_search"), ""), stop);
    assert_eq!(answer.unwrap().0.status(), 200);
    tokio::time::timeout(Duration::from_secs(5), served.server)
        .await
        .expect("neither idle nor silent connections hold the server up")
        .unwrap()
        .unwrap();
    drop((idle, silent));
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let served = serve(Node::with(|config| config.head_timeout = Duration::from_millis(300))).await;
    let client = Client::new(TcpStream::connect(served.address).await.unwrap()).await;
    *served.node.fake.search_delay.lock().unwrap() = Duration::from_millis(800);
    // Longer than the idle timeout, but not idle.
    assert_eq!(client.send(get("/_search"), "").await.unwrap().0.status(), 200);
    tokio::time::timeout(Duration::from_secs(5), client.connection)
        .await
        .expect("an idle connection is closed")
        .unwrap()
        .unwrap();
}
