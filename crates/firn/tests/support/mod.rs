//! HTTP server with programmable answers, and the binary under test.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod browser;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;

/// Received request.
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Decompressed body.
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns pairs of action and source.
    pub fn events(&self) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines
            .chunks(2)
            .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
            .collect()
    }
}

/// Reaction of the server to a request.
pub enum Reply {
    Json(u16, String),
    /// Closes without an answer.
    Hang,
}

/// Serves until the process ends.
pub fn serve(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || talk(stream, answer.as_ref()));
        }
    });
    address
}

fn talk(stream: TcpStream, answer: &dyn Fn(&Request) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader) {
        match answer(&request) {
            Reply::Hang => return,
            Reply::Json(status, body) => {
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                if writer.write_all(format!("{head}{body}").as_bytes()).is_err() {
                    return;
                }
            }
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        path,
        headers,
        body: Vec::new(),
    };
    let length = request
        .header("content-length")
        .map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    if request.header("content-encoding") == Some("gzip") {
        let mut inflated = Vec::new();
        flate2::read::GzDecoder::new(&body[..])
            .read_to_end(&mut inflated)
            .expect("gzip");
        body = inflated;
    }
    request.body = body;
    Some(request)
}

/// Runs `firn` with these arguments and without variables that would set something.
pub fn firn(arguments: &[&str]) -> Output {
    command(arguments).output().expect("firn runs")
}

/// Returns the same command without a start.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FIRN_") {
            command.env_remove(name);
        }
    }
    command.env(firn_testkit::FLOOD_STAGE, "100mb");
    command
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
