//! Connection of a client, with its connection to the store.

use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::message::{Body, Message};
use super::stats::{Method, ProxiedRequest};
use super::{Fault, Shared};

/// Maximum number of written keys to remember for stale listings.
const WRITTEN_MAX: usize = 64;
/// Idle time after which a client's connection is closed.
const IDLE_TIME_MAX: Duration = Duration::from_secs(120);
/// Bodies are forwarded in pieces of this length, each delayed if bandwidth is limited.
const PIECE_BYTES: usize = 16 << 10;

/// Serves a client until either side closes.
pub(super) fn serve(shared: &Shared, client: TcpStream) {
    // If the client or the store disconnects, the connection ends; no caller needs the error.
    let _ = try_serve(shared, client);
}

fn try_serve(shared: &Shared, client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(IDLE_TIME_MAX))?;
    let mut requests = BufReader::new(client.try_clone()?);
    let mut store: Option<BufReader<TcpStream>> = None;
    while let Some(request) = Message::read(&mut requests, Body::OfRequest)? {
        if shared.ends.load(Relaxed) {
            return Ok(());
        }
        let mut exchange = Exchange::new(shared, &request);
        let goes_on = exchange.run(&request, &client, &mut store);
        exchange.count();
        if !matches!(goes_on, Ok(true)) {
            let _ = client.shutdown(Shutdown::Both);
            return goes_on.map(drop);
        }
    }
    Ok(())
}

/// Request with its outcome.
struct Exchange<'a> {
    shared: &'a Shared,
    request: ProxiedRequest,
    is_counted: bool,
}

impl<'a> Exchange<'a> {
    fn new(shared: &'a Shared, request: &Message) -> Self {
        let mut parts = request.start.split(' ');
        let verb = parts.next().unwrap_or_default();
        let target = parts.next().unwrap_or_default().to_owned();
        let method = match verb {
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            _ if target.contains("list-type=2") => Method::List,
            _ => Method::Get,
        };
        let mut state = shared.state();
        let state = &mut *state;
        let fault = state
            .faults
            .draw(&mut state.random, method, &target, !request.body.is_empty());
        Self {
            shared,
            request: ProxiedRequest {
                method,
                target,
                range: request.header("range").map(str::to_owned),
                status: None,
                sent: request.body.len() as u64,
                received: 0,
                fault,
            },
            is_counted: false,
        }
    }

    /// Adds the request to the statistics, once. It is counted before the client has the whole answer.
    fn count(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.shared.state().stats.add(self.request.clone());
        }
    }

    /// Handles the request and returns whether the connection stays open.
    fn run(
        &mut self,
        request: &Message,
        client: &TcpStream,
        store: &mut Option<BufReader<TcpStream>>,
    ) -> io::Result<bool> {
        let (latency, silence) = {
            let state = self.shared.state();
            (state.faults.latency, state.faults.silence)
        };
        std::thread::sleep(latency);
        if self.request.fault == Some(Fault::Hold) {
            self.shared.hold();
        }
        if self.request.fault == Some(Fault::SlowDown) {
            return self.slow_down(client);
        }
        let mut body = request.body.clone();
        if self.request.fault == Some(Fault::BitFlipInWrite) {
            self.flip(&mut body);
        }
        self.pace(body.len());
        let mut answer = match self.ask(request, &body, store.take()) {
            Ok((answer, stream)) => {
                *store = answer.stays_open().then_some(stream);
                answer
            }
            Err(error) => return Err(error),
        };
        self.request.status = answer.status();
        self.remember_write(&answer);
        if self.request.fault == Some(Fault::TimeoutAfterSuccess) {
            std::thread::sleep(silence);
            return Ok(false);
        }
        self.spoil(&mut answer);
        self.send(client, &answer)
    }

    fn slow_down(&mut self, client: &TcpStream) -> io::Result<bool> {
        let body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
        self.request.status = Some(503);
        let mut client = client;
        let is_head = self.request.method == Method::Head;
        let (len, body) = if is_head { (0, "") } else { (body.len(), body) };
        self.count();
        write!(
            client,
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nContent-Length: {len}\r\n\r\n{body}"
        )?;
        Ok(true)
    }

    /// Forwards the request to the store. Reopens a connection that the store closed in the meantime.
    fn ask(
        &self,
        request: &Message,
        body: &[u8],
        open: Option<BufReader<TcpStream>>,
    ) -> io::Result<(Message, BufReader<TcpStream>)> {
        let kind = if self.request.method == Method::Head {
            Body::None
        } else {
            Body::OfAnswer
        };
        let ask = |mut stream: BufReader<TcpStream>| -> io::Result<(Message, BufReader<TcpStream>)> {
            let len = (!body.is_empty() || request.header("content-length").is_some()).then_some(body.len());
            stream.get_mut().write_all(&request.head_bytes(len))?;
            stream.get_mut().write_all(body)?;
            loop {
                let answer = Message::read(&mut stream, kind)?.ok_or(io::ErrorKind::ConnectionReset)?;
                if answer.status() != Some(100) {
                    return Ok((answer, stream));
                }
            }
        };
        if let Some(open) = open
            && let Ok(done) = ask(open)
        {
            return Ok(done);
        }
        let stream = TcpStream::connect(("127.0.0.1", self.shared.upstream))?;
        stream.set_nodelay(true)?;
        ask(BufReader::new(stream))
    }

    /// Damages an answer according to the fault.
    fn spoil(&self, answer: &mut Message) {
        let is_success = matches!(answer.status(), Some(200..=299));
        match self.request.fault {
            Some(Fault::BitFlip) if is_success => self.flip(&mut answer.body),
            Some(Fault::ShortRead) if is_success => {
                let len = answer.body.len() / 2;
                answer.body.truncate(len);
            }
            Some(Fault::StaleListing) => {
                let (written, unlisted) = {
                    let state = self.shared.state();
                    (state.written.clone(), state.faults.unlisted)
                };
                let newest = written.iter().rev().take(unlisted);
                let body = newest.fold(String::from_utf8_lossy(&answer.body).into_owned(), |body, key| {
                    without_entry(&body, key)
                });
                answer.body = body.into_bytes();
            }
            _ => {}
        }
    }

    fn send(&mut self, client: &TcpStream, answer: &Message) -> io::Result<bool> {
        let mut client = client;
        let len = (self.request.method != Method::Head).then_some(answer.body.len());
        let is_stalled = self.request.fault == Some(Fault::Stall);
        let is_cut = self.request.fault == Some(Fault::Reset) || is_stalled;
        let sent = if is_cut {
            answer.body.len() / 2
        } else {
            answer.body.len()
        };
        if sent == 0 {
            self.count();
        }
        client.write_all(&answer.head_bytes(len))?;
        let mut rest = sent;
        for piece in answer.body[..sent].chunks(PIECE_BYTES) {
            self.pace(piece.len());
            rest -= piece.len();
            self.request.received += piece.len() as u64;
            if rest == 0 {
                self.count();
            }
            client.write_all(piece)?;
        }
        client.flush()?;
        if is_stalled {
            let silence = self.shared.state().faults.silence;
            std::thread::sleep(silence);
        }
        Ok(!is_cut)
    }

    fn pace(&self, bytes: usize) {
        let wait = {
            let mut state = self.shared.state();
            let rate = state.faults.bytes_per_second;
            rate.map(|rate| state.pace.wait(bytes, rate))
        };
        if let Some(wait) = wait {
            std::thread::sleep(wait);
        }
    }

    fn flip(&self, bytes: &mut [u8]) {
        if !bytes.is_empty() {
            let bit = self.shared.state().random.usize(..bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    fn remember_write(&self, answer: &Message) {
        let is_write = self.request.method == Method::Put && matches!(answer.status(), Some(200..=299));
        let path = self.request.target.split('?').next().unwrap_or_default();
        // The key follows the bucket.
        if let Some((_, key)) = path.trim_start_matches('/').split_once('/').filter(|_| is_write) {
            let mut state = self.shared.state();
            if state.written.len() == WRITTEN_MAX {
                state.written.remove(0);
            }
            state.written.push(key.to_owned());
        }
    }
}

/// Returns a listing without the entry of a key.
fn without_entry(listing: &str, key: &str) -> String {
    let name = format!("<Key>{key}</Key>");
    let Some(at) = listing.find(&name) else {
        return listing.to_owned();
    };
    let (open, close) = ("<Contents>", "</Contents>");
    let (Some(from), Some(to)) = (listing[..at].rfind(open), listing[at..].find(close)) else {
        return listing.to_owned();
    };
    format!("{}{}", &listing[..from], &listing[at + to + close.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leaves_a_listing() {
        let listing = "<L><Contents><Key>a</Key></Contents><Contents><Key>b</Key><Size>1</Size></Contents></L>";
        assert_eq!(without_entry(listing, "b"), "<L><Contents><Key>a</Key></Contents></L>");
        assert_eq!(without_entry(listing, "c"), listing);
    }
}
