//! Server under test: a separate firn process, or a real server that a variable names.

use std::collections::BTreeMap;
use std::path::Path;

use firn_testkit::random::Random;
use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::Value;

/// How a server's answer differs from the reference.
pub(crate) enum Difference {
    /// The server refused the request.
    Refused(String),
    /// The answers differ.
    Answer(String),
}

/// Server under test.
pub(crate) struct Server {
    node: Option<Node>,
    folder: tempfile::TempDir,
    client: Client,
    /// Refusals of a real server by reason: it lacks features of firn.
    refused: BTreeMap<String, usize>,
    /// Found differences, and the number that ends the test.
    differences: Vec<String>,
    differences_max: usize,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let peer = std::env::var("FIRN_REFERENCE_PEER").ok();
        let node = peer.is_none().then(|| start(folder.path()));
        let client = match (&node, peer) {
            (Some(node), _) => node.client().clone(),
            (None, peer) => Client::new(peer.unwrap()),
        };
        Self {
            node,
            folder,
            client,
            refused: BTreeMap::new(),
            differences: Vec::new(),
            differences_max: number("FIRN_REFERENCE_DIFFERENCES").unwrap_or(1),
        }
    }

    /// Adds a difference; the test fails at once, or with all of them when the limit is reached.
    pub(crate) fn differs(&mut self, difference: String) {
        self.differences.push(difference);
        assert!(
            self.differences.len() < self.differences_max,
            "{}",
            self.differences.join("\n\n")
        );
    }

    pub(crate) fn is_peer(&self) -> bool {
        self.node.is_none()
    }

    /// Sends a request that must succeed.
    pub(crate) fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body);
        assert_eq!(answer.status, 200, "{method} {path} {body}: {}", answer.text());
        answer.json()
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let path = &format!("/{path}");
        let answer = match body {
            Value::Null => self.client.send(method, path, None, b""),
            Value::String(lines) => self.client.bulk(path, lines.as_bytes()),
            body => self.client.json(method, path, body),
        };
        answer.unwrap_or_else(|error| panic!("{method} {path} {body}: {error:#}"))
    }

    /// Returns the answer to a search; `None` if a real server does not support it.
    pub(crate) fn search(&mut self, index: &str, body: &Value) -> Result<Option<Value>, Difference> {
        let answer = self.send("POST", &format!("{index}/_search"), body);
        match answer.status {
            200 => Ok(Some(answer.json())),
            400 if self.is_peer() => {
                let reason = answer.json()["error"]["root_cause"][0]["reason"].to_string();
                *self.refused.entry(reason).or_default() += 1;
                Ok(None)
            }
            status => Err(Difference::Refused(format!("{status} {}", answer.text()))),
        }
    }

    /// Restarts the process, in half of all cases after a kill.
    pub(crate) fn restart(&mut self, random: &mut Random) {
        let Some(node) = self.node.take() else { return };
        match random.chance(50) {
            true => node.kill9().unwrap(),
            false => node.stop().unwrap(),
        }
        let node = start(self.folder.path());
        self.client = node.client().clone();
        self.node = Some(node);
    }

    #[allow(clippy::print_stderr, reason = "the test harness shows it with --nocapture")]
    pub(crate) fn report(&self, questions: usize) {
        assert!(self.differences.is_empty(), "{}", self.differences.join("\n\n"));
        let refused: usize = self.refused.values().sum();
        eprintln!("{} answers were those of the reference", questions - refused);
        for (reason, count) in &self.refused {
            eprintln!("refused {count} times: {reason}");
        }
    }
}

/// Returns a number from the environment.
pub(crate) fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn start(folder: &Path) -> Node {
    // Daily buckets of a year within daily buckets of a year are more than one answer may have by default.
    let options = NodeOptions {
        settings: vec![("search.max_buckets".to_owned(), "1000000".to_owned())],
    };
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &options).unwrap()
}
