//! Windows against a naive count, and journals that are read again at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

const PIPELINE: &str = "p";

fn definitions(max_keys: usize) -> BTreeMap<String, Arc<AggregateDefinition>> {
    let traffic = json!({"index": "traffic", "every": "1m", "by": ["source.ip"], "lateness": "10s", "max_keys": max_keys,
        "metrics": {"network.bytes": {"sum": "network.bytes"}, "least": {"min": "network.bytes"},
            "greatest": {"max": "network.bytes"}, "users": {"cardinality": "user.name"}}});
    let all = json!({"index": "all", "every": "5m"});
    [("traffic", traffic), ("all", all)]
        .into_iter()
        .map(|(name, body)| (name.to_owned(), Arc::new(serde_json::from_value(body).unwrap())))
        .collect()
}

fn sampler(definitions: &BTreeMap<String, Arc<AggregateDefinition>>) -> Sampler {
    Sampler::new(definitions.values().map(|definition| &**definition))
}

fn event(minute: i64, ip: u32, bytes: u64, user: u32) -> Value {
    json!({"@timestamp": minute * 60_000 + 5_000, "source": {"ip": format!("10.0.0.{ip}")}, "network": {"bytes": bytes},
        "user": {"name": format!("user{user}")}})
}

/// A journal in memory, with the windows that it leads to.
struct Journal {
    definitions: BTreeMap<String, Arc<AggregateDefinition>>,
    records: Vec<Record>,
    windows: Windows,
    emissions: Vec<Emission>,
    next_order: u64,
}

impl Journal {
    fn new(max_keys: usize) -> Self {
        let definitions = definitions(max_keys);
        let mut journal = Self {
            windows: Windows::new(&PIPELINE.into(), &definitions),
            definitions,
            records: Vec::new(),
            emissions: Vec::new(),
            next_order: 0,
        };
        journal.base();
        journal
    }

    fn append(&mut self, content: Content) {
        self.emissions.extend(self.windows.apply(&content));
        self.push(content);
    }

    fn push(&mut self, content: Content) {
        let record = Record {
            order: self.next_order,
            token: self.next_order.to_string(),
            content,
        };
        self.next_order += 1;
        // As it is stored.
        let document = record.to_document(PIPELINE).unwrap();
        let read = Record::of_document(&document).unwrap();
        assert_eq!(read, record);
        self.records.push(read);
    }

    fn base(&mut self) {
        let first = self.records.len();
        for base in self.windows.to_base() {
            self.push(Content::Base(base));
        }
        self.records.drain(..first);
    }

    fn add(&mut self, partition: &str, through: Option<u64>, events: &[(u64, Value)]) {
        let sampler = sampler(&self.definitions);
        let samples: Vec<(u64, i64, Sample)> = events
            .iter()
            .map(|(offset, event)| {
                let sample = sampler.read(event.to_string().as_bytes(), 0);
                (*offset, i64::MAX, sample)
            })
            .collect();
        let held = self.windows.through(partition);
        let delta = Delta::of_samples(&self.definitions, partition, held, through, &samples);
        self.append(Content::Delta(delta));
    }

    fn close(&mut self, minute: i64) {
        self.append(Content::Closing {
            watermark: minute * 60_000,
            retired: Vec::new(),
        });
    }

    /// Checks that the stored journal leads to the same windows, and to the same last events.
    fn check(&self) {
        let (windows, emissions) = Windows::of_journal(&PIPELINE.into(), &BTreeMap::new(), &self.records);
        let rows = |windows: &Windows| windows.to_base();
        assert_eq!(rows(&windows), rows(&self.windows));
        let again = self.emissions.len() - emissions.len();
        assert_eq!(emissions, self.emissions[again..]);
    }

    fn events_of(&self, index: &str) -> impl Iterator<Item = &Value> {
        let of_index = self.emissions.iter().filter(move |emission| emission.index == index);
        of_index.map(|emission| &emission.document)
    }
}

#[test]
fn a_closed_window_is_an_event_for_each_key() {
    let mut journal = Journal::new(100);
    let events = [
        (0, event(1, 1, 10, 1)),
        (1, event(1, 1, 5, 2)),
        (2, event(1, 2, 7, 1)),
        (3, event(2, 1, 1, 1)),
    ];
    journal.add("a", Some(3), &events);
    journal.close(2);
    // 10 s of lateness are left.
    assert_eq!(journal.emissions.len(), 0);
    journal.close(3);
    let first = journal.events_of("traffic").next().unwrap();
    let expect = json!({
        "@timestamp": "1970-01-01T00:01:00.000Z", "event": {"kind": "metric"},
        "firn": {"aggregate": {"name": "traffic", "pipeline": "p", "events": 2,
            "window": {"start": "1970-01-01T00:01:00.000Z", "end": "1970-01-01T00:02:00.000Z"}}},
        "source": {"ip": "10.0.0.1"}, "greatest": 10, "least": 5, "network": {"bytes": 15}, "users": 2,
    });
    assert_eq!(*first, expect);
    assert_eq!(journal.events_of("traffic").count(), 2);
    journal.check();
}

#[test]
fn a_late_event_is_a_revision_that_adds_to_the_first() {
    let mut journal = Journal::new(100);
    journal.add("", None, &[(0, event(1, 1, 10, 1))]);
    journal.close(3);
    journal.add("", None, &[(0, event(1, 1, 4, 1))]);
    journal.close(3);
    let events: Vec<&Value> = journal.events_of("traffic").collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["firn"]["aggregate"].get("late"), None);
    let aggregate = &events[1]["firn"]["aggregate"];
    assert_eq!(
        (&aggregate["late"], &aggregate["revision"], &aggregate["events"]),
        (&json!(true), &json!(1), &json!(1))
    );
    assert_eq!(events[1]["network"]["bytes"], 4);
    assert_eq!(journal.windows.counts().late, 1);
    journal.check();
}

#[test]
fn keys_beyond_the_maximum_are_counted_together_by_name() {
    let mut journal = Journal::new(2);
    let events: Vec<(u64, Value)> = (0..10).map(|n| (n, event(1, n as u32, 1, 1))).collect();
    journal.add("a", Some(9), &events);
    journal.close(3);
    let overflow: Vec<&Value> = journal
        .events_of("traffic")
        .filter(|event| event["firn"]["aggregate"]["overflow"] == json!(true))
        .collect();
    assert_eq!(overflow.len(), 1);
    assert_eq!(
        (&overflow[0]["firn"]["aggregate"]["events"], overflow[0].get("source")),
        (&json!(8), None)
    );
    assert_eq!(journal.windows.counts().overflowed, 8);
    journal.check();
}

#[test]
fn offsets_that_come_again_are_counted_once() {
    let mut journal = Journal::new(100);
    journal.add("a", Some(1), &[(0, event(1, 1, 1, 1)), (1, event(1, 1, 1, 1))]);
    // The source was read again, in other batches.
    journal.add("a", Some(2), &[(1, event(1, 1, 1, 1)), (2, event(1, 1, 1, 1))]);
    journal.add("b", Some(0), &[(0, event(1, 1, 1, 1))]);
    journal.close(9);
    let events: Vec<&Value> = journal
        .events_of("traffic")
        .map(|event| &event["firn"]["aggregate"]["events"])
        .collect();
    assert_eq!(events, [&json!(4)]);
}

#[test]
fn an_aggregate_that_changes_closes_its_windows() {
    let mut journal = Journal::new(100);
    journal.add("a", Some(0), &[(0, event(1, 1, 1, 1))]);
    let mut next = journal.definitions.clone();
    next.remove("all");
    assert_eq!(journal.windows.changed(&next), ["all"]);
    journal.append(Content::Closing {
        watermark: i64::MIN,
        retired: vec!["all".to_owned()],
    });
    journal.windows.define(&next);
    journal.base();
    journal.check();
    assert_eq!(
        (journal.events_of("all").count(), journal.events_of("traffic").count()),
        (1, 0)
    );
    // What came for it before its end is no hindrance.
    journal.close(9);
    assert_eq!(journal.events_of("traffic").count(), 1);
}

#[test]
fn windows_without_end_are_closed_early_and_lose_nothing() {
    let mut journal = Journal::new(10);
    assert_eq!(journal.windows.crowded(), Vec::<String>::new());
    let events: Vec<(u64, Value)> = (0..10_001).map(|n| (n, event(n as i64, 1, 1, 1))).collect();
    journal.add("a", Some(10_000), &events);
    assert_eq!(journal.windows.crowded(), ["traffic"]);
    journal.append(Content::Closing {
        watermark: i64::MIN,
        retired: journal.windows.crowded(),
    });
    journal.add("a", Some(10_001), &[(10_001, event(5, 1, 1, 1))]);
    journal.close(20_000);
    let events = journal
        .events_of("traffic")
        .map(|event| event["firn"]["aggregate"]["events"].as_u64().unwrap());
    assert_eq!(events.sum::<u64>(), 10_002);
    journal.check();
}

#[test]
fn a_base_that_is_incomplete_does_not_count() {
    let mut journal = Journal::new(100_000);
    let events: Vec<(u64, Value)> = (0..5_000).map(|n| (n, event(n as i64, 1, 1, 1))).collect();
    journal.add("a", Some(4_999), &events);
    let before = journal.records.clone();
    let parts = journal.windows.to_base();
    assert!(parts.len() > 2);
    for part in &parts[..parts.len() - 1] {
        journal.push(Content::Base(part.clone()));
    }
    assert_eq!(last_base(&journal.records), Some(0..1));
    journal.check();
    journal.records = before;
    journal.base();
    assert_eq!(last_base(&journal.records), Some(0..parts.len()));
    journal.check();
}

/// For any batches, closings and bases, the events of all windows count each event once, and a journal that is read again
/// leads to the same windows and makes the same events.
#[test]
fn random_journals() {
    for seed in 0..80 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut journal = Journal::new(random.usize(1..8));
        let mut next_offsets = [0_u64; 3];
        let (mut events, mut bytes) = (0_u64, 0_u64);
        for _ in 0..random.usize(1..60) {
            match random.u8(0..10) {
                0..6 => {
                    let partition = random.usize(0..3);
                    let first = next_offsets[partition];
                    let batch: Vec<(u64, Value)> = (first..first + random.u64(1..20))
                        .map(|offset| {
                            let sent = random.u64(0..100);
                            bytes += sent;
                            (
                                offset,
                                event(random.i64(0..20), random.u32(0..6), sent, random.u32(0..4)),
                            )
                        })
                        .collect();
                    events += batch.len() as u64;
                    next_offsets[partition] += batch.len() as u64;
                    let through = next_offsets[partition] - 1;
                    journal.add(&partition.to_string(), Some(through), &batch);
                }
                6..9 => journal.close(random.i64(0..25)),
                _ => journal.base(),
            }
            journal.check();
        }
        journal.append(Content::Closing {
            watermark: i64::MAX,
            retired: Vec::new(),
        });
        let sum = |index: &str, value: &dyn Fn(&Value) -> u64| journal.events_of(index).map(value).sum::<u64>();
        let counted = |event: &Value| event["firn"]["aggregate"]["events"].as_u64().unwrap();
        assert_eq!(sum("traffic", &counted), events, "seed {seed}");
        assert_eq!(sum("all", &counted), events, "seed {seed}");
        let sent = |event: &Value| event["network"]["bytes"].as_u64().unwrap();
        assert_eq!(sum("traffic", &sent), bytes, "seed {seed}");
        let offsets = journal.emissions.iter().map(|emission| emission.offset);
        assert!(offsets.eq(0..journal.emissions.len() as u64), "seed {seed}");
    }
}
