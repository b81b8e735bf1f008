//! HTTP server that takes the messages of webhooks.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

/// Message that a receiver got.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

impl Message {
    /// Ids of the alerts in it.
    pub(crate) fn alerts(&self) -> Vec<String> {
        let alerts = self.body["alerts"].as_array().unwrap().iter();
        alerts
            .map(|alert| alert["firn"]["alert"]["id"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

/// HTTP server that records messages, and answers as it is told.
pub(crate) struct Receiver {
    pub(crate) url: String,
    messages: Arc<Mutex<Vec<Message>>>,
    /// Heads of the next answers; then 200.
    answers: Arc<Mutex<VecDeque<&'static str>>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self {
            url: format!("http://{}/hook", listener.local_addr().unwrap()),
            messages: Arc::default(),
            answers: Arc::default(),
        };
        let (messages, answers) = (Arc::clone(&receiver.messages), Arc::clone(&receiver.answers));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (messages, answers) = (Arc::clone(&messages), Arc::clone(&answers));
                std::thread::spawn(move || while receive(&stream, &messages, &answers).is_some() {});
            }
        });
        receiver
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.messages.lock().unwrap().clone()
    }

    /// Whether it still has answers to give that were set.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.lock().unwrap().is_empty()
    }

    pub(crate) fn answer_next(&self, heads: &[&'static str]) {
        self.answers.lock().unwrap().extend(heads);
    }
}

fn receive(stream: &TcpStream, messages: &Mutex<Vec<Message>>, answers: &Mutex<VecDeque<&'static str>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    messages.lock().unwrap().push(Message {
        headers,
        body: serde_json::from_slice(&body).unwrap(),
        at: Instant::now(),
    });
    let head = answers.lock().unwrap().pop_front().unwrap_or("200 OK");
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n").ok()
}
