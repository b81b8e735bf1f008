//! Table of thresholds against the plain state of each rule and key, over random rules, events, closings, restores and changes of rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::row::{add, print};
use super::rule_row::RuleRow;
use super::rule_windows::RuleKind;
use super::tests::{PIPELINE, rules};
use super::threshold_key_reference::{Counted, Threshold, ThresholdKey};
use super::*;

type Definitions = BTreeMap<String, Arc<AggregateDefinition>>;

/// Event of the model: its time (ms), the values of its fields, and the rules that it matches, by their places.
#[derive(Debug, Clone)]
struct Event {
    time: i64,
    user: String,
    host: Option<String>,
    port: u64,
    matched: Vec<usize>,
}

/// Alert: the rule, the key, start and end of the window, the number of events and the value.
type Found = (String, String, i64, i64, u64, Option<Value>);

/// What one rule remembers, and how it is compared.
struct ModelRule {
    definition: Arc<AggregateDefinition>,
    threshold: Threshold,
    lateness: i64,
    keys: BTreeMap<String, ThresholdKey>,
    closed_to: Option<i64>,
}

#[derive(Default)]
struct Model {
    rules: BTreeMap<String, ModelRule>,
    watermark: Option<i64>,
    late: u64,
    overflowed: u64,
    found: Vec<Found>,
}

impl ModelRule {
    fn new(definition: &Arc<AggregateDefinition>) -> Self {
        let RuleKind::Sliding {
            window,
            at_least,
            sample_bits,
        } = definition.rule.as_ref().unwrap().kind
        else {
            panic!("no threshold");
        };
        Self {
            threshold: Threshold {
                counted: match definition.metrics.values().next() {
                    None => Counted::Events,
                    Some(MetricDefinition::Cardinality(_)) => Counted::Values { sample_bits },
                    Some(_) => Counted::Sum,
                },
                at_least,
                pane: definition.window_ms(),
                window,
            },
            lateness: definition.lateness_ms().unwrap() as i64,
            definition: Arc::clone(definition),
            keys: BTreeMap::new(),
            closed_to: None,
        }
    }

    /// Returns the rows of a batch: events of a key that follow each other in one pane are one row.
    fn rows(&self, place: usize, batch: &[Event]) -> Vec<(String, RuleRow)> {
        let mut rows: Vec<(String, RuleRow)> = Vec::new();
        for event in batch.iter().filter(|event| event.matched.contains(&place)) {
            let key = match self.definition.by[1].as_str() {
                "user.name" => json!(["t", event.user]),
                _ => match &event.host {
                    Some(host) => json!(["t", host]),
                    None => continue,
                },
            };
            let key = key.to_string();
            let start_ms = event.time - event.time.rem_euclid(self.threshold.pane);
            let last = rows.iter_mut().rev().find(|(other, _)| *other == key);
            let row = match last.filter(|(_, row)| row.start_ms == start_ms) {
                Some((_, row)) => row,
                None => {
                    rows.push((
                        key,
                        RuleRow {
                            start_ms,
                            ..RuleRow::default()
                        },
                    ));
                    &mut rows.last_mut().unwrap().1
                }
            };
            row.events += 1;
            match self.threshold.counted {
                Counted::Events => {}
                Counted::Sum => row.sum = add(row.sum, event.port as f64),
                Counted::Values { sample_bits } => {
                    let hash = crate::murmur3::murmur3(event.port.to_string().as_bytes()).0;
                    if hash & ((1 << sample_bits) - 1) == 0 {
                        row.hashes.push(hash);
                    }
                }
            }
        }
        for (_, row) in &mut rows {
            row.hashes.sort_unstable();
            row.hashes.dedup();
        }
        rows
    }
}

impl Model {
    fn add(&mut self, batch: &[Event]) {
        for (place, (name, rule)) in self.rules.iter_mut().enumerate() {
            for (key, row) in rule.rows(place, batch) {
                let end = row.start_ms + rule.threshold.pane + rule.lateness;
                if self.watermark.is_some_and(|watermark| end <= watermark) {
                    self.late += row.events;
                }
                if !rule.keys.contains_key(&key) && rule.keys.len() >= rule.definition.max_keys {
                    self.overflowed += row.events;
                    continue;
                }
                let state = rule.keys.entry(key.clone()).or_default();
                if let Some(reached) = state.add(&rule.threshold, &row) {
                    let value = match rule.threshold.counted {
                        Counted::Events => None,
                        Counted::Sum | Counted::Values { .. } => print(reached.value),
                    };
                    self.found
                        .push((name.clone(), key, reached.start, reached.end, reached.events, value));
                }
            }
        }
    }

    fn close(&mut self, watermark: i64) {
        for rule in self.rules.values_mut().filter(|rule| !rule.keys.is_empty()) {
            let pause = (rule.threshold.window / 2).max(1_000);
            if rule.closed_to.is_none_or(|last| watermark >= last + pause) {
                rule.closed_to = Some(watermark);
                let horizon = watermark - rule.lateness;
                rule.keys.retain(|_, key| !key.forget(&rule.threshold, horizon));
            }
        }
        self.watermark = self.watermark.max(Some(watermark));
    }

    fn define(&mut self, next: &Definitions) {
        let mut before = std::mem::take(&mut self.rules);
        for (name, definition) in next {
            let mut rule = ModelRule::new(definition);
            let same = before.remove(name);
            if let Some(same) = same.filter(|same| definition.continues(&same.definition)) {
                (rule.keys, rule.closed_to) = (same.keys, same.closed_to);
            }
            self.rules.insert(name.clone(), rule);
        }
    }

    /// State of each rule and key as JSON.
    fn states(&self) -> BTreeMap<(String, String), Value> {
        let states = self.rules.iter().flat_map(|(name, rule)| {
            let keys = rule.keys.iter();
            keys.map(move |(key, state)| ((name.clone(), key.clone()), json!({"threshold": state})))
        });
        states.collect()
    }
}

/// Random thresholds, some of which differ in nothing but their names.
fn random_rules(random: &mut fastrand::Rng, count: usize) -> Definitions {
    let mut definitions = Definitions::new();
    for number in 0..count {
        let distinct = [3, 5, 600][random.usize(0..3)];
        let of = match random.u8(0..5) {
            0 | 1 => json!({"count": random.u64(2..8)}),
            2 | 3 => json!({"distinct": "port", "at_least": distinct}),
            _ => json!({"sum": "port", "at_least": random.u64(5..40)}),
        };
        let by = ["user.name", "host.name"][random.usize(0..2)];
        let window = ["60s", "60s", "7s"][random.usize(0..3)];
        let lateness = ["10s", "10s", "0s"][random.usize(0..3)];
        let few = random.usize(1..6);
        let max_keys = [1_000, 1_000, 1_000, few][random.usize(0..4)];
        let body = json!({"type": "threshold", "threshold": of, "group_by": [by], "window": window, "lateness": lateness,
            "max_keys": max_keys});
        let id = format!("r{number:02}");
        definitions.extend(rules([(id.as_str(), body)]));
    }
    definitions
}

/// How events match rules.
#[derive(Debug, Clone, Copy)]
enum Matching {
    /// Each event all rules.
    All,
    /// Each event one of a few lists.
    Lists,
    /// Each event some rules.
    Some,
}

fn random_batch(random: &mut fastrand::Rng, now: &mut i64, rules: usize, matching: Matching) -> Vec<Event> {
    let (keys, ports) = ([2, 5, 40][random.usize(0..3)], [3, 9, 5_000][random.usize(0..3)]);
    let lists = [
        (0..rules).collect(),
        (0..rules).step_by(2).collect(),
        (0..rules).skip(1).step_by(3).collect::<Vec<usize>>(),
    ];
    let pace = [20, 500, 5_000][random.usize(0..3)];
    let count = random.usize(1..120);
    let mut event = || {
        *now += random.i64(0..pace);
        let behind = match random.u8(0..20) {
            0 => random.i64(0..200_000),
            1..6 => random.i64(0..20_000),
            _ => 0,
        };
        Event {
            time: *now - behind,
            user: format!("u{}", random.u32(0..keys)),
            host: (random.u8(0..8) > 0).then(|| format!("h{}", random.u32(0..keys))),
            port: random.u64(0..ports),
            matched: match matching {
                Matching::All => lists[0].clone(),
                Matching::Lists => lists[random.usize(0..3)].clone(),
                Matching::Some => (0..rules).filter(|_| random.bool()).collect(),
            },
        }
    };
    (0..count).map(|_| event()).collect()
}

/// Applies a content as it is stored.
fn apply(windows: &mut Windows, content: Content) -> Vec<Emission> {
    let record = Record {
        order: 0,
        token: String::new(),
        content,
    };
    let read = Record::of_document(&record.to_document(PIPELINE).unwrap()).unwrap();
    assert_eq!(read, record);
    windows.apply(&read.content)
}

fn delta(definitions: &Definitions, batch: &[Event]) -> Delta {
    let sampler = Sampler::new(definitions.values().map(|definition| &**definition));
    let samples = batch.iter().zip(0..).map(|(event, offset)| {
        let document = json!({"@timestamp": event.time, "tenant": "t", "user": {"name": event.user}, "host": {"name": event.host},
            "port": event.port});
        let matched = event.matched.iter().map(|place| Matched { place: *place, step: 0 });
        let matched: Vec<Matched> = matched.collect();
        (offset, i64::MAX, sampler.read(document.to_string().as_bytes(), 0, &matched, &|_| Value::Null))
    });
    let samples: Vec<ReceivedSample> = samples.collect();
    Delta::of_samples(definitions, "", None, None, &samples)
}

fn states(windows: &Windows) -> BTreeMap<(String, String), Value> {
    let keys = windows.to_base().into_iter().flat_map(|base| base.keys);
    keys.map(|key| {
        (
            (key.aggregate, key.key.into()),
            serde_json::to_value(&key.state).unwrap(),
        )
    })
    .collect()
}

fn found(emissions: Vec<Emission>) -> Vec<Found> {
    let alerts = emissions.into_iter().map(|emission| {
        let EmissionContent::Alert(alert) = emission.content else {
            panic!("no alert");
        };
        let name = format!("#rule {}", alert.definition.rule.as_ref().unwrap().id);
        (
            name,
            alert.key.into(),
            alert.start_ms,
            alert.end_ms,
            alert.events,
            alert.value,
        )
    });
    alerts.collect()
}

/// The windows as a journal of their base alone leads to them.
fn restored(windows: &Windows) -> Windows {
    let records = windows.to_base().into_iter().zip(0..).map(|(base, order)| Record {
        order,
        token: String::new(),
        content: Content::Base(base),
    });
    let documents = records.map(|record| record.to_document(PIPELINE).unwrap());
    let records: Vec<Record> = documents
        .map(|document| Record::of_document(&document).unwrap())
        .collect();
    Windows::of_journal(&PIPELINE.into(), &BTreeMap::new(), &records).0
}

/// Compares the states; prints the first difference.
fn check(windows: &Windows, model: &Model, at: &str) {
    let (own, expected) = (states(windows), model.states());
    for (place, state) in &expected {
        assert_eq!(own.get(place), Some(state), "{at}: {place:?}");
    }
    let mut others = own.keys().filter(|place| !expected.contains_key(place));
    assert_eq!(others.next(), None, "{at}");
    let counts = windows.counts();
    assert_eq!(
        (counts.keys, counts.late, counts.overflowed),
        (expected.len() as u64, model.late, model.overflowed),
        "{at}"
    );
}

#[test]
fn the_table_is_the_plain_state_of_each_rule_and_key() {
    let (mut alerts, mut overflowed) = (0, 0);
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rules_count = random.usize(1..14);
        let mut definitions = random_rules(&mut random, rules_count);
        let matching = [Matching::All, Matching::Lists, Matching::Some][random.usize(0..3)];
        let mut windows = Windows::new(&PIPELINE.into(), &definitions);
        let mut model = Model::default();
        model.define(&definitions);
        let mut now = 1_000_000;
        for step in 0..random.usize(5..40) {
            let at = format!("seed {seed}, step {step}, {matching:?}");
            match random.u8(0..20) {
                0..13 => {
                    let batch = random_batch(&mut random, &mut now, definitions.len(), matching);
                    model.found.clear();
                    model.add(&batch);
                    let own = found(apply(&mut windows, Content::Delta(delta(&definitions, &batch))));
                    assert_eq!(own.len(), model.found.len(), "{at}");
                    for (own, expected) in own.iter().zip(&model.found) {
                        assert_eq!(own, expected, "{at}");
                    }
                    alerts += own.len();
                }
                13..17 => {
                    let watermark = now - random.i64(0..30_000);
                    model.close(watermark);
                    let retired = Vec::new();
                    assert!(apply(&mut windows, Content::Closing { watermark, retired }).is_empty());
                }
                17 | 18 => {
                    windows = restored(&windows);
                    // They are counted since the journal was read.
                    overflowed += model.overflowed;
                    (model.late, model.overflowed) = (0, 0);
                }
                _ => {
                    let count = random.usize(1..14);
                    let others = random_rules(&mut random, count);
                    for (name, definition) in others {
                        if random.u8(0..3) == 0 {
                            definitions.insert(name, definition);
                        }
                    }
                    if definitions.len() > 1 && random.bool() {
                        let name = definitions.keys().nth(random.usize(0..definitions.len())).cloned();
                        definitions.remove(&name.unwrap());
                    }
                    model.define(&definitions);
                    windows.define(&definitions);
                }
            }
            check(&windows, &model, &at);
        }
    }
    assert!(
        alerts > 1_000 && overflowed > 100,
        "{alerts} alerts, {overflowed} overflowed"
    );
}

/// Journal that the build before rules shared their rows wrote, and the state and the alerts that it led to there.
#[test]
fn a_journal_with_rows_by_rule_leads_to_the_same_state_and_alerts() {
    let text = include_str!("fixtures/journal_by_rule.ndjson");
    let records = text.lines().map(|line| Record::of_document(line.as_bytes()).unwrap());
    let records: Vec<Record> = records.collect();
    let (windows, emissions) = Windows::of_journal(&PIPELINE.into(), &BTreeMap::new(), &records);
    let base: Vec<Value> = windows
        .to_base()
        .iter()
        .map(|base| serde_json::to_value(base).unwrap())
        .collect();
    let expected: Value = serde_json::from_str(include_str!("fixtures/journal_by_rule.json")).unwrap();
    assert_eq!(json!(base), expected["base"]);
    let alerts = emissions.iter().map(|emission| {
        let EmissionContent::Alert(alert) = &emission.content else {
            panic!("no alert");
        };
        let rule = &alert.definition.rule.as_ref().unwrap().id;
        json!([
            emission.offset,
            rule,
            alert.key,
            alert.start_ms,
            alert.end_ms,
            alert.events,
            alert.value,
            alert.steps
        ])
    });
    let alerts: Vec<Value> = alerts.collect();
    assert_eq!(json!(alerts), expected["alerts"]);
    assert!(alerts.len() > 3);
}
