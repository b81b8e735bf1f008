//! The same documents in indices that are cut differently, and questions about them.

use std::fmt::Write;

use firn_testkit::random::Random;
use firn_testkit::reference::{self, Reference};
use serde_json::{Value, json};

use crate::server::{Difference, Server};
use crate::shrink;

/// Ids that writes choose from: few enough that many are replaced or deleted.
const IDS: usize = 60;

/// A write: a source, or none for a deletion.
type Written = (String, Option<Value>);

pub(crate) struct World {
    indices: Vec<String>,
    reference: Reference,
    sequence: u64,
}

impl World {
    /// Creates an index of one shard and one of several.
    pub(crate) fn new(number: usize, random: &mut Random, server: &Server) -> Self {
        let shards = [1, 2 + random.below(3)];
        let name = |shards: &usize| format!("firn-reference-{number}-{shards}");
        let world = Self {
            indices: shards.iter().map(name).collect(),
            reference: Reference::default(),
            sequence: 0,
        };
        for (index, shards) in world.indices.iter().zip(shards) {
            create(server, index, shards);
        }
        world
    }

    /// Writes, replaces and deletes some documents: in every index the same, in other bulks, with
    /// a refresh after each that makes a segment.
    pub(crate) fn write(&mut self, random: &mut Random, server: &Server) {
        let count = 1 + random.below(70);
        let mut writes: Vec<Written> = Vec::new();
        for _ in 0..count {
            let id = format!("d{}", random.below(IDS));
            if random.chance(15) {
                self.reference.delete(&id);
                writes.push((id, None));
            } else {
                self.sequence += 1;
                let source = random.document(self.sequence);
                self.reference.put(&id, source.clone());
                writes.push((id, Some(source)));
            }
        }
        for index in &self.indices {
            let mut rest = &writes[..];
            while !rest.is_empty() {
                let (bulk, later) = rest.split_at(1 + random.below(rest.len()));
                send(server, index, bulk, random.chance(60));
                rest = later;
            }
            server.must("POST", &format!("{index}/_refresh"), &Value::Null);
            if random.chance(30) {
                server.must("POST", &format!("{index}/_flush"), &Value::Null);
            }
        }
    }

    /// Down to one segment a shard.
    pub(crate) fn merge(&self, server: &Server) {
        for index in &self.indices {
            server.must("POST", &format!("{index}/_forcemerge?max_num_segments=1"), &Value::Null);
            server.must("POST", &format!("{index}/_refresh"), &Value::Null);
        }
    }

    /// Asks each index some questions. Of an answer that is not the reference's it notes the smallest
    /// question and documents that still show the difference.
    pub(crate) fn ask(&self, random: &mut Random, server: &mut Server, questions: usize) -> usize {
        for _ in 0..questions {
            let body = random.search();
            // OpenSearch takes such a field for the name of the index when it aggregates.
            if server.is_peer() && body.to_string().contains("\"env\"") {
                continue;
            }
            for index in &self.indices {
                let Err(difference) = check(server, index, &self.reference, &body) else {
                    continue;
                };
                let first = match difference {
                    Difference::Answer(first) => first,
                    // A refusal is understood best as it is.
                    Difference::Refused(refusal) => {
                        server.differs(format!("{index}: {body}\n{refusal}"));
                        continue;
                    }
                };
                let body = shrink::body(body.clone(), |body| {
                    matches!(check(server, index, &self.reference, body), Err(Difference::Answer(_)))
                });
                let small = shrink::documents(server, &self.reference, &body);
                let now = match check(server, index, &self.reference, &body) {
                    Err(Difference::Answer(now)) => now,
                    _ => first,
                };
                server.differs(format!("{index}: {body}\n{now}\n{small}"));
            }
        }
        questions * self.indices.len()
    }

    pub(crate) fn remove(self, server: &Server) {
        for index in &self.indices {
            server.must("DELETE", index, &Value::Null);
        }
    }
}

/// Creates an index of the reference's fields.
pub(crate) fn create(server: &Server, index: &str, shards: usize) {
    let settings = json!({"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": "-1",
                          "index.mapping.ignore_malformed": true});
    server.must(
        "PUT",
        index,
        &json!({"settings": settings, "mappings": reference::mappings()}),
    );
}

/// One bulk, every item of which must work.
pub(crate) fn send(server: &Server, index: &str, writes: &[Written], refresh: bool) {
    let mut lines = String::new();
    for (id, source) in writes {
        match source {
            Some(source) => writeln!(lines, "{}\n{source}", json!({"index": {"_id": id}})).unwrap(),
            None => writeln!(lines, "{}", json!({"delete": {"_id": id}})).unwrap(),
        }
    }
    let answer = server.must(
        "POST",
        &format!("{index}/_bulk?refresh={refresh}"),
        &Value::String(lines),
    );
    for item in answer["items"].as_array().unwrap() {
        let error = &item["index"]["error"];
        assert!(error.is_null(), "{item}");
    }
}

/// Whether a server's answer is the reference's; if not, what differs.
pub(crate) fn check(server: &mut Server, index: &str, reference: &Reference, body: &Value) -> Result<(), Difference> {
    match server.search(index, body)? {
        Some(got) => reference::compare(body, &reference.answer(body), &got).map_err(Difference::Answer),
        None => Ok(()),
    }
}
