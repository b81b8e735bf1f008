//! Proxy in front of an object store that delays every request like a remote store, and counts the traffic.
//!
//! It supports the part of HTTP/1.1 that clients of object stores use: persistent connections, bodies with a length or
//! in chunks, `Expect: 100-continue`. One thread for each connection; each request waits separately.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

/// The longest head of a request or response.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Counted traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Traffic {
    pub(super) requests: u64,
    /// Bytes of bodies from the store.
    pub(super) downloaded_bytes: u64,
    /// Bytes of bodies to the store.
    pub(super) uploaded_bytes: u64,
}

impl Traffic {
    /// Returns the traffic after `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            downloaded_bytes: self.downloaded_bytes - earlier.downloaded_bytes,
            uploaded_bytes: self.uploaded_bytes - earlier.uploaded_bytes,
        }
    }
}

/// A running proxy.
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    latency_us: AtomicU64,
    stopped: AtomicBool,
    requests: AtomicU64,
    downloaded: AtomicU64,
    uploaded: AtomicU64,
}

impl Proxy {
    /// Listens on a free port of this machine, in front of `target`.
    pub(super) fn start(target: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port for the proxy")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            latency_us: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            downloaded: AtomicU64::new(0),
            uploaded: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || accept(&listener, &accepting))?;
        Ok(Self { address, shared })
    }

    /// Returns host and port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the delay of each request before it reaches the store.
    pub(super) fn set_latency(&self, latency: Duration) {
        self.shared
            .latency_us
            .store(latency.as_micros() as u64, Ordering::Relaxed);
    }

    /// Returns the traffic so far.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.shared.requests.load(Ordering::Relaxed),
            downloaded_bytes: self.shared.downloaded.load(Ordering::Relaxed),
            uploaded_bytes: self.shared.uploaded.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(client) = client else { continue };
        let shared = Arc::clone(shared);
        // The client sees a broken connection; if no thread can be started, the connection just ends.
        let _ = std::thread::Builder::new()
            .name("proxied".to_owned())
            .spawn(move || serve(client, &shared));
    }
}

/// Forwards requests of one connection, one after the other, until a side closes it.
fn serve(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let store = TcpStream::connect(shared.target)?;
    for stream in [&client, &store] {
        stream.set_nodelay(true)?;
    }
    let (mut to_client, mut to_store) = (client.try_clone()?, store.try_clone()?);
    let (mut from_client, mut from_store) = (BufReader::new(client), BufReader::new(store));
    while let Some(request) = Head::read(&mut from_client)? {
        shared.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(shared.latency_us.load(Ordering::Relaxed)));
        to_store.write_all(&request.bytes)?;
        if request.value("expect").is_some() {
            to_client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        copy_body(&mut from_client, &mut to_store, request.body(), &shared.uploaded)?;
        let answer = loop {
            let head = Head::read(&mut from_store)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if head.status() >= 200 {
                break head;
            }
        };
        to_client.write_all(&answer.bytes)?;
        let body = match (request.first_line().starts_with("HEAD "), answer.status()) {
            (true, _) | (_, 204 | 304) => Body::Length(0),
            _ => answer.body_of_answer(),
        };
        copy_body(&mut from_store, &mut to_client, body, &shared.downloaded)?;
        if body == Body::UntilClosed || request.closes() || answer.closes() {
            break;
        }
    }
    Ok(())
}

/// Length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
    UntilClosed,
}

/// The head of a request or response, unchanged.
struct Head {
    bytes: Vec<u8>,
}

impl Head {
    /// Reads the next head; `None`: the connection was closed.
    fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let left = HEAD_BYTES_MAX - bytes.len() as u64;
            if from.take(left).read_until(b'\n', &mut bytes)? == 0 {
                return match bytes.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
        Ok(Some(Self { bytes }))
    }

    fn first_line(&self) -> &str {
        self.lines().next().unwrap_or_default()
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.bytes
            .split(|byte| *byte == b'\n')
            .map(|line| std::str::from_utf8(line).unwrap_or_default().trim_end())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Returns the status of a response.
    fn status(&self) -> u16 {
        let status = self.first_line().split(' ').nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    fn closes(&self) -> bool {
        self.value("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns the body of a request: without a length it has none.
    fn body(&self) -> Body {
        match self.body_of_answer() {
            Body::UntilClosed => Body::Length(0),
            body => body,
        }
    }

    fn body_of_answer(&self) -> Body {
        if self
            .value("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            return Body::Chunked;
        }
        match self.value("content-length").and_then(|length| length.parse().ok()) {
            Some(length) => Body::Length(length),
            None => Body::UntilClosed,
        }
    }
}

fn copy_body(from: &mut BufReader<TcpStream>, to: &mut TcpStream, body: Body, counter: &AtomicU64) -> io::Result<()> {
    match body {
        Body::Length(length) => copy(from, to, length, counter),
        Body::UntilClosed => copy(from, to, u64::MAX, counter),
        Body::Chunked => loop {
            let mut line = Vec::new();
            from.take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
            to.write_all(&line)?;
            let size = String::from_utf8_lossy(&line);
            let size = size.trim().split(';').next().unwrap_or_default();
            match u64::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)? {
                0 => return copy_trailers(from, to),
                size => copy(from, to, size, counter)?,
            }
            let mut end = [0; 2];
            from.read_exact(&mut end)?;
            to.write_all(&end)?;
        },
    }
}

fn copy_trailers(from: &mut BufReader<TcpStream>, to: &mut TcpStream) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        from.take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
        to.write_all(&line)?;
        if line.len() <= 2 {
            return Ok(());
        }
    }
}

/// Counts before it forwards, so that a received response is counted already.
fn copy(from: &mut BufReader<TcpStream>, to: &mut TcpStream, length: u64, counter: &AtomicU64) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        let ready = from.fill_buf()?;
        let count = ready.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            return match length {
                u64::MAX => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        counter.fetch_add(count as u64, Ordering::Relaxed);
        to.write_all(&ready[..count])?;
        from.consume(count);
        left -= count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A store that answers each request of one connection with the next of these.
    fn store(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut writer = stream;
            for answer in answers {
                let head = Head::read(&mut reader).unwrap().unwrap();
                let mut sink = TcpStream::connect(address).unwrap();
                copy_body(&mut reader, &mut sink, head.body(), &AtomicU64::new(0)).unwrap();
                writer.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn requests_pass_wait_and_are_counted() {
        let proxy = Proxy::start(store(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\nuntil the end",
        ]))
        .unwrap();
        proxy.set_latency(Duration::from_millis(20));
        let started = Instant::now();
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client
            .write_all(
                b"GET /a HTTP/1.1\r\n\r\nPUT /b HTTP/1.1\r\nExpect: 100-continue\r\ncontent-length: 4\r\n\r\nbody",
            )
            .unwrap();
        client
            .write_all(b"HEAD /c HTTP/1.1\r\n\r\nGET /d HTTP/1.1\r\n\r\n")
            .unwrap();
        let mut all = String::new();
        client.read_to_string(&mut all).unwrap();
        for part in [
            "hello",
            "100 Continue",
            "3\r\nabc",
            "Content-Length: 99",
            "until the end",
        ] {
            assert!(all.contains(part), "[{part}] is not in {all}");
        }
        assert!(started.elapsed() >= Duration::from_millis(80));
        let traffic = proxy.traffic();
        assert_eq!((traffic.requests, traffic.uploaded_bytes), (4, 4));
        assert_eq!(traffic.downloaded_bytes, 5 + 3 + 13);
        assert_eq!(traffic.since(traffic), Traffic::default());
    }
}
