//! Windows against a naive count, and journals that are read again at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_detect::DetectionRule;
use serde_json::{Value, json};

use super::*;

pub(super) const PIPELINE: &str = "p";

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
pub(super) struct Journal {
    pub(super) definitions: BTreeMap<String, Arc<AggregateDefinition>>,
    pub(super) records: Vec<Record>,
    pub(super) windows: Windows,
    pub(super) emissions: Vec<Emission>,
    next_order: u64,
}

impl Journal {
    fn new(max_keys: usize) -> Self {
        Self::with(definitions(max_keys))
    }

    pub(super) fn with(definitions: BTreeMap<String, Arc<AggregateDefinition>>) -> Self {
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

    pub(super) fn append(&mut self, content: Content) {
        self.emissions.extend(self.windows.apply(&content));
        self.push(content);
    }

    pub(super) fn push(&mut self, content: Content) {
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

    pub(super) fn base(&mut self) {
        let first = self.records.len();
        for base in self.windows.to_base() {
            self.push(Content::Base(base));
        }
        self.records.drain(..first);
    }

    pub(super) fn add(&mut self, partition: &str, through: Option<u64>, events: &[(u64, Value)]) {
        let sampler = sampler(&self.definitions);
        let samples: Vec<(u64, i64, Sample)> = events
            .iter()
            .map(|(offset, event)| {
                let matched = self.matched(&sampler, event);
                let sample = sampler.read(event.to_string().as_bytes(), 0, &matched, &|_| Value::Null);
                (*offset, i64::MAX, sample)
            })
            .collect();
        let held = self.windows.through(partition);
        let delta = Delta::of_samples(&self.definitions, partition, held, through, &samples);
        self.append(Content::Delta(delta));
    }

    /// Each event matches each rule; of those with steps, the steps that it names.
    fn matched(&self, sampler: &Sampler, event: &Value) -> Vec<Matched> {
        let steps_of_event = event["steps"].as_u64().unwrap_or(0);
        let mut matched = Vec::new();
        for (id, place) in sampler.rules() {
            let rule = self.definitions[&format!("#rule {id}")].rule.as_ref().unwrap();
            match rule.steps.len() {
                0 => matched.push(Matched { place, step: 0 }),
                steps => {
                    let own = (0..steps).filter(|step| steps_of_event & (1 << step) != 0);
                    matched.extend(own.map(|step| Matched { place, step }));
                }
            }
        }
        matched
    }

    pub(super) fn close(&mut self, minute: i64) {
        self.close_at(minute * 60_000);
    }

    pub(super) fn close_at(&mut self, watermark: i64) {
        self.append(Content::Closing {
            watermark,
            retired: Vec::new(),
        });
    }

    /// Checks that the stored journal leads to the same windows, and to the same last events.
    pub(super) fn check(&self) {
        let (windows, emissions) = Windows::of_journal(&PIPELINE.into(), &BTreeMap::new(), &self.records);
        let rows = |windows: &Windows| windows.to_base();
        assert_eq!(rows(&windows), rows(&self.windows));
        let again = self.emissions.len() - emissions.len();
        assert_eq!(emissions, self.emissions[again..]);
    }

    fn events_of(&self, index: &str) -> impl Iterator<Item = &Value> {
        self.emissions
            .iter()
            .filter_map(move |emission| match &emission.content {
                EmissionContent::Event { index: own, document } if own == index => Some(document),
                EmissionContent::Event { .. } | EmissionContent::Alert(_) => None,
            })
    }

    /// Rule, key, seconds of start and end of the window, and number of events of each alert.
    pub(super) fn alerts(&self) -> Vec<(&str, &str, [i64; 2], u64)> {
        let alerts = self.emissions.iter().filter_map(|emission| match &emission.content {
            EmissionContent::Alert(alert) => Some(alert),
            EmissionContent::Event { .. } => None,
        });
        let alert = |alert: &'_ WindowAlert| {
            let rule = &self.definitions[&alert_name(alert)].rule.as_ref().unwrap().id;
            let window = [alert.start_ms / 1000, alert.end_ms / 1000];
            (rule.as_str(), alert.events, window)
        };
        alerts
            .map(|of| {
                let (rule, events, window) = alert(of);
                (rule, &*of.key, window, events)
            })
            .collect()
    }
}

fn alert_name(alert: &WindowAlert) -> String {
    format!("#rule {}", alert.definition.rule.as_ref().unwrap().id)
}

/// Aggregates of rules with these ids and definitions.
pub(super) fn rules<const N: usize>(bodies: [(&str, Value); N]) -> BTreeMap<String, Arc<AggregateDefinition>> {
    let aggregates = bodies.into_iter().map(|(id, members)| {
        let mut body = json!({"name": id, "query": "*", "group_by": ["user.name"]});
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        let rule = DetectionRule::parse(id, body.as_object().unwrap()).unwrap();
        let (name, aggregate) = aggregate_of(&rule).unwrap();
        (name, Arc::new(aggregate))
    });
    aggregates.collect()
}

/// Event of a user at a second, to a port.
pub(super) fn of_user(second: i64, user: &str, port: u32) -> Value {
    json!({"@timestamp": second * 1000, "user": {"name": user}, "port": port, "tenant": "t"})
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

#[test]
fn a_threshold_is_reached_in_the_window_and_once_for_each_length() {
    let mut journal = Journal::with(rules([
        (
            "scan",
            json!({"type": "threshold", "window": "60s", "threshold": {"distinct": "port", "at_least": 3}}),
        ),
        (
            "bytes",
            json!({"type": "threshold", "window": "60s", "threshold": {"sum": "port", "at_least": 100}}),
        ),
    ]));
    // Two events in one minute and one in the next: whole in a window that starts between.
    journal.add(
        "a",
        Some(2),
        &[
            (0, of_user(50, "ann", 1)),
            (1, of_user(50, "ann", 1)),
            (2, of_user(55, "ann", 2)),
        ],
    );
    assert!(journal.alerts().is_empty());
    journal.add("a", Some(4), &[(3, of_user(70, "ann", 3)), (4, of_user(70, "bob", 99))]);
    let ann = "[\"t\",\"ann\"]";
    assert_eq!(journal.alerts(), [("scan", ann, [10, 71], 4)]);
    // More of the same is no further alert, and a minute later it is one again.
    journal.add("a", Some(5), &[(5, of_user(72, "ann", 4))]);
    assert_eq!(journal.alerts().len(), 1);
    let later = (0..3).map(|n| (6 + n, of_user(130, "ann", n as u32)));
    journal.add("a", Some(8), &later.collect::<Vec<_>>());
    assert_eq!(journal.alerts()[1..], [("scan", ann, [70, 131], 5)]);
    journal.check();
    // The alerts are remembered through a base, for the length of a window.
    journal.base();
    journal.add("a", Some(9), &[(9, of_user(131, "ann", 7))]);
    assert_eq!(journal.alerts().len(), 2);
    journal.close(9);
    assert_eq!(journal.windows.counts().keys, 0);
    journal.check();
}

#[test]
fn a_key_without_events_is_absent_once_until_it_comes_back() {
    let mut journal = Journal::with(rules([("silent", json!({"type": "absence", "after": "10m"}))]));
    journal.add("a", Some(1), &[(0, of_user(30, "ann", 1)), (1, of_user(300, "bob", 1))]);
    journal.close(10);
    assert!(journal.alerts().is_empty());
    assert!(journal.windows.is_due(11 * 60_000) && !journal.windows.is_due(10 * 60_000));
    journal.close(11);
    let ann = "[\"t\",\"ann\"]";
    assert_eq!(journal.alerts(), [("silent", ann, [60, 660], 0)]);
    journal.base();
    journal.close(12);
    journal.check();
    assert_eq!(journal.alerts().len(), 1);
    // An event of the past is no return.
    journal.add("a", Some(2), &[(2, of_user(10, "ann", 1))]);
    journal.close(13);
    assert_eq!(journal.alerts().len(), 1);
    journal.add("a", Some(3), &[(3, of_user(800, "ann", 1))]);
    journal.close(25);
    assert_eq!(journal.alerts().iter().filter(|alert| alert.1 == ann).count(), 2);
    journal.check();
}

#[test]
fn a_value_is_new_once_after_the_time_of_learning() {
    let first = json!({"type": "new_value", "learn_for": "1h", "max_keys": 3});
    let mut journal = Journal::with(rules([("first", first)]));
    journal.add("a", Some(0), &[(0, of_user(0, "ann", 1))]);
    journal.base();
    journal.add(
        "a",
        Some(2),
        &[(1, of_user(3599, "bob", 1)), (2, of_user(3600, "cat", 1))],
    );
    assert_eq!(journal.alerts(), [("first", "[\"t\",\"cat\"]", [3600, 3610], 1)]);
    journal.add(
        "a",
        Some(4),
        &[(3, of_user(4000, "cat", 1)), (4, of_user(4000, "dan", 1))],
    );
    assert_eq!(journal.alerts().len(), 1);
    assert_eq!(journal.windows.counts().overflowed, 1);
    journal.check();
}

#[test]
fn a_rule_that_changes_goes_on_unless_it_counts_otherwise() {
    let rule = |members: Value| {
        let mut body = json!({"type": "threshold", "window": "60s", "threshold": {"count": 3}});
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        rules([
            ("scan", body),
            (
                "first",
                json!({"type": "new_value", "learn_for": "1h", "severity": "low"}),
            ),
        ])
    };
    let mut journal = Journal::with(rule(json!({})));
    journal.add("a", Some(1), &[(0, of_user(50, "ann", 1)), (1, of_user(51, "ann", 1))]);
    let change = |journal: &mut Journal, members: Value, closed: &[&str]| {
        let next = rule(members);
        assert_eq!(journal.windows.changed(&next), closed);
        journal.windows.define(&next);
        journal.definitions = next;
        journal.base();
        journal.check();
    };
    change(&mut journal, json!({"severity": "high", "query": "a: 1"}), &[]);
    journal.add("a", Some(2), &[(2, of_user(52, "ann", 1))]);
    assert_eq!(journal.alerts().len(), 1);
    assert_eq!(journal.alerts()[0].3, 3);
    // The windows of another length are others; the values that are known stay so.
    change(&mut journal, json!({"window": "30s"}), &["#rule scan"]);
    journal.add("a", Some(3), &[(3, of_user(4000, "ann", 1))]);
    assert_eq!(journal.alerts().len(), 1);
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
