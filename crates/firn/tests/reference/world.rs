//! Same documents in differently divided indices, and queries over them.

use std::fmt::Write;

use firn_testkit::random::Random;
use firn_testkit::reference::{self, Reference};
use serde_json::{Value, json};

use crate::server::{Difference, Server};
use crate::shrink;

/// Number of ids for writes: few enough that many documents are replaced or deleted.
const IDS: usize = 60;

/// Tenants of the documents; each id belongs to one.
const TENANTS: &[&str] = &["acme", "beta", "zeta"];

/// Write: a source, or none for a deletion.
type Written = (String, Option<Value>);

/// Index with its layout.
#[derive(Clone)]
struct Index {
    name: String,
    /// The index stores the documents of each tenant together.
    by_tenant: bool,
}

pub(crate) struct World {
    indices: Vec<Index>,
    reference: Reference,
    sequence: u64,
    /// Every document has a single time, so that those of a tenant can be sorted.
    orderly: bool,
}

impl World {
    /// Creates an index of one shard, one of several, and, in firn, one that is sorted by tenant.
    pub(crate) fn new(number: usize, random: &mut Random, server: &Server) -> Self {
        let several = 2 + random.below(3);
        let mut world = Self {
            indices: Vec::new(),
            reference: Reference::default(),
            sequence: 0,
            orderly: random.chance(60),
        };
        for (kind, shards) in [("one", 1), ("several", several), ("tenants", 1 + random.below(2))] {
            let by_tenant = kind == "tenants";
            if by_tenant && server.is_peer() {
                continue;
            }
            let name = format!("firn-reference-{number}-{kind}");
            create(server, &name, shards, by_tenant);
            world.indices.push(Index { name, by_tenant });
        }
        world
    }

    /// Writes, replaces and deletes documents: the same in every index, in different bulks, each with a refresh that
    /// creates a segment.
    pub(crate) fn write(&mut self, random: &mut Random, server: &Server) {
        let count = 1 + random.below(70);
        let mut writes: Vec<Written> = Vec::new();
        for _ in 0..count {
            let number = random.below(IDS);
            let id = format!("d{number}");
            if random.chance(15) {
                self.reference.delete(&id);
                writes.push((id, None));
            } else {
                self.sequence += 1;
                let mut source = random.document(self.sequence);
                source["tenant"] = json!(TENANTS[number % TENANTS.len()]);
                if let Some(instants) = source["@timestamp"].as_array_mut().filter(|_| self.orderly) {
                    source["@timestamp"] = instants.pop().unwrap_or_default();
                }
                self.reference.put(&id, source.clone());
                writes.push((id, Some(source)));
            }
        }
        for index in &self.indices {
            let mut rest = &writes[..];
            while !rest.is_empty() {
                let (bulk, later) = rest.split_at(1 + random.below(rest.len()));
                send(server, &index.name, index.by_tenant, bulk, random.chance(60));
                rest = later;
            }
            let name = &index.name;
            server.must("POST", &format!("{name}/_refresh"), &Value::Null);
            if random.chance(30) {
                server.must("POST", &format!("{name}/_flush"), &Value::Null);
            }
        }
    }

    /// Merges to one segment per shard.
    pub(crate) fn merge(&self, server: &Server) {
        for Index { name, .. } in &self.indices {
            server.must("POST", &format!("{name}/_forcemerge?max_num_segments=1"), &Value::Null);
            server.must("POST", &format!("{name}/_refresh"), &Value::Null);
        }
    }

    /// Runs some queries on each index, many of them twice, to test cached answers. If an answer differs from the
    /// reference, records the smallest query and documents that still show the difference.
    pub(crate) fn ask(&self, random: &mut Random, server: &mut Server, questions: usize) -> usize {
        for _ in 0..questions {
            let mut body = random.search();
            if random.chance(50) {
                body = random.about_tenant(body, TENANTS);
            }
            let times = 1 + usize::from(random.chance(50));
            // OpenSearch confuses such a field with the name of the index in aggregations.
            if server.is_peer() && body.to_string().contains("\"env\"") {
                continue;
            }
            for Index { name: index, .. } in self.indices.iter().flat_map(|index| std::iter::repeat_n(index, times)) {
                let Err(difference) = check(server, index, &self.reference, &body) else {
                    continue;
                };
                let first = match difference {
                    Difference::Answer(first) => first,
                    // A refusal is reported without reduction.
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
        for Index { name, .. } in &self.indices {
            server.must("DELETE", name, &Value::Null);
        }
    }
}

/// Creates an index with the reference's fields.
pub(crate) fn create(server: &Server, index: &str, shards: usize, by_tenant: bool) {
    let mut settings = json!({"number_of_shards": shards, "number_of_replicas": 0, "refresh_interval": "-1",
                          "index.mapping.ignore_malformed": true});
    if by_tenant {
        settings["index.tenant.field"] = json!("tenant");
    }
    server.must(
        "PUT",
        index,
        &json!({"settings": settings, "mappings": reference::mappings()}),
    );
}

/// Returns the tenant of an id.
fn tenant_of(id: &str) -> &'static str {
    let number: usize = id.trim_start_matches('d').parse().unwrap();
    TENANTS[number % TENANTS.len()]
}

/// Sends one bulk, every item of which must succeed.
pub(crate) fn send(server: &Server, index: &str, by_tenant: bool, writes: &[Written], refresh: bool) {
    let mut lines = String::new();
    for (id, source) in writes {
        match source {
            Some(source) => writeln!(lines, "{}\n{source}", json!({"index": {"_id": id}})).unwrap(),
            None if by_tenant => {
                let action = json!({"delete": {"_id": id, "routing": tenant_of(id)}});
                writeln!(lines, "{action}").unwrap();
            }
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

/// Compares a server's answer with the reference; fails with the difference.
pub(crate) fn check(server: &mut Server, index: &str, reference: &Reference, body: &Value) -> Result<(), Difference> {
    match server.search(index, body)? {
        Some(got) => reference::compare(body, &reference.answer(body), &got).map_err(Difference::Answer),
        None => Ok(()),
    }
}
