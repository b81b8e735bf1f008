//! Tests of every fault, against a server with a fixed answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::*;

/// Starts a server that answers every request with this body and accepts every request body.
fn server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(client);
                while let Ok(Some(request)) = message::Message::read(&mut stream, message::Body::OfRequest) {
                    let body = if request.body.is_empty() {
                        answer.to_owned()
                    } else {
                        String::from_utf8_lossy(&request.body).into_owned()
                    };
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    let _ = stream.get_mut().write_all(format!("{head}{body}").as_bytes());
                }
            });
        }
    });
    port
}

/// Sends one request on a new connection and returns head and body of the answer.
fn ask(proxy: &FaultProxy, request: &str) -> (String, String) {
    let port = proxy.endpoint().rsplit_once(':').expect("a port").1.to_owned();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("connect");
    stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("time-out");
    stream.write_all(request.as_bytes()).expect("send");
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return (head, String::new());
        }
    }
    let len = head
        .split_once("Content-Length: ")
        .and_then(|(_, rest)| rest.split("\r\n").next());
    let mut body = Vec::new();
    let len: u64 = len.and_then(|len| len.parse().ok()).unwrap_or(0);
    let _ = stream.take(len).read_to_end(&mut body);
    (head, String::from_utf8_lossy(&body).into_owned())
}

/// Waits for a condition: the proxy counts a request at its end, which may be after its client's.
fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..100 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

const GET: &str = "GET /bucket/key HTTP/1.1\r\nHost: x\r\nRange: bytes=0-9\r\n\r\n";
const LIST: &str = "GET /bucket?list-type=2 HTTP/1.1\r\nHost: x\r\n\r\n";
const PUT: &str = "PUT /bucket/key HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nsent";
const BODY: &str = "0123456789";

#[test]
fn without_faults_it_counts_and_changes_nothing() {
    let proxy = FaultProxy::start(server(BODY), 1).expect("a proxy");
    assert_eq!(ask(&proxy, GET).1, BODY);
    assert_eq!(ask(&proxy, PUT).1, "sent");
    let stats = proxy.reset();
    assert_eq!(
        (stats.requests, stats.sent, stats.received, stats.faults),
        (2, 4, 14, 0)
    );
    assert_eq!((stats.of(Method::Get), stats.of(Method::Put)), (1, 1));
    let get = &stats.request_log[0];
    assert_eq!(
        (get.target.as_str(), get.range.as_deref()),
        ("/bucket/key", Some("bytes=0-9"))
    );
    assert_eq!(proxy.stats().requests, 0);
}

#[test]
fn each_fault_does_what_it_says() {
    let proxy = FaultProxy::start(server(BODY), 2).expect("a proxy");
    let with = |fault, request: &str| {
        proxy.set(Faults {
            silence: Duration::from_millis(400),
            ..Faults::rules([Rule::next(fault, 1)])
        });
        ask(&proxy, request)
    };
    assert!(with(Fault::SlowDown, GET).0.starts_with("HTTP/1.1 503 "));
    assert_eq!(with(Fault::TimeoutAfterSuccess, PUT), (String::new(), String::new()));
    assert_eq!(with(Fault::ShortRead, GET).1, "01234");
    let (head, body) = with(Fault::Reset, GET);
    assert!(
        head.contains("Content-Length: 10\r\n") && body == "01234",
        "{head}{body}"
    );
    let since = Instant::now();
    let (head, body) = with(Fault::Stall, GET);
    assert!(
        head.contains("Content-Length: 10\r\n") && body == "01234",
        "{head}{body}"
    );
    // The reader gives up before the connection ends.
    assert!(since.elapsed() >= Duration::from_millis(200), "{:?}", since.elapsed());
    let flipped = with(Fault::BitFlip, GET).1;
    let bits: u32 = flipped
        .bytes()
        .zip(BODY.bytes())
        .map(|(left, right)| (left ^ right).count_ones())
        .sum();
    assert!(flipped.len() != BODY.len() || bits == 1, "{flipped}");
    assert_ne!(flipped, BODY);
    assert_ne!(with(Fault::BitFlipInWrite, PUT).1, "sent");
    // A fault that does not apply is not injected.
    assert_eq!(with(Fault::BitFlip, PUT).1, "sent");
    assert_eq!(with(Fault::StaleListing, GET).1, BODY);
    let met = || Fault::ALL.map(|fault| proxy.stats().met(fault));
    let expected = Fault::ALL.map(|fault| usize::from(fault != Fault::StaleListing));
    wait_until(|| met() == expected);
    assert_eq!(met(), expected);
}

#[test]
fn a_stale_listing_lacks_what_was_written_last() {
    let listing = "<L><Contents><Key>key</Key></Contents><Contents><Key>old</Key></Contents></L>";
    let proxy = FaultProxy::start(server(listing), 3).expect("a proxy");
    proxy.set(Faults::rules([Rule::share(Fault::StaleListing, 1.0)]));
    assert_eq!(ask(&proxy, LIST).1, listing);
    ask(&proxy, PUT);
    assert_eq!(ask(&proxy, LIST).1, "<L><Contents><Key>old</Key></Contents></L>");
}

#[test]
fn rules_choose_by_kind_target_share_and_number() {
    let proxy = FaultProxy::start(server(BODY), 4).expect("a proxy");
    proxy.set(Faults::rules([Rule::next(Fault::SlowDown, 2)
        .of(Method::Put)
        .at("/bucket/")]));
    assert_eq!(ask(&proxy, GET).1, BODY);
    let answers = [(); 3].map(|()| ask(&proxy, PUT).0.contains(" 503 "));
    assert_eq!(answers, [true, true, false]);
    let drawn = || {
        let proxy = FaultProxy::start(server(BODY), 5).expect("a proxy");
        proxy.set(Faults::rules([Rule::share(Fault::SlowDown, 0.5)]));
        [(); 20].map(|()| ask(&proxy, GET).0.contains(" 503 "))
    };
    let faults = drawn();
    assert_eq!(faults, drawn(), "a seed draws the same");
    assert!(faults.contains(&true) && faults.contains(&false));
}

#[test]
fn latency_and_bandwidth_take_their_time() {
    let proxy = FaultProxy::start(server(BODY), 6).expect("a proxy");
    let timed = |faults| {
        proxy.set(faults);
        let started = Instant::now();
        assert_eq!(ask(&proxy, GET).1, BODY);
        started.elapsed()
    };
    assert!(timed(Faults::latency(Duration::from_millis(50))) >= Duration::from_millis(50));
    let slow = Faults {
        bytes_per_second: Some(200),
        ..Faults::default()
    };
    assert!(timed(slow) >= Duration::from_millis(50));
}

#[test]
fn what_is_held_goes_on_when_faults_are_set_anew() {
    let proxy = FaultProxy::start(server("the answer"), 1).expect("a proxy");
    proxy.set(Faults::rules([Rule::next(Fault::Hold, 1).after(1)]));
    let get = "GET /b/k HTTP/1.1\r\n\r\n";
    assert_eq!(ask(&proxy, get).1, "the answer");
    assert_eq!(proxy.held(), 0);
    // Longer than the timeout of these test clients.
    assert_eq!(ask(&proxy, get).1, "");
    assert_eq!(proxy.held(), 1);
    assert_eq!(ask(&proxy, get).1, "the answer", "the rule has ended");
    proxy.set(Faults::default());
    wait_until(|| proxy.held() == 0 && proxy.stats().requests == 3);
}
