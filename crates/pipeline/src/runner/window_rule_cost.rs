//! Cost of rules over several events. Prints CPU time and memory, which are useful in a release build with more events than a test has:
//! `FIRN_RULE_COST_EVENTS=300000 cargo test --release -p firn-pipeline --lib window_rule_cost -- --nocapture --test-threads 1`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cpu_time::ThreadTime;
use firn_detect::DetectionRule;
use serde_json::{Value, json};

use super::detection::RunnerRules;
use super::steps::Steps;
use crate::aggregation::{AggregateDefinition, Content, Delta, EmissionContent, ReceivedSample, Record, Windows};
use crate::definition::Definition;
use crate::mapping::dates::push_iso;
use crate::sources::SourceEvent;
use crate::tables::Tables;

/// Events of a test.
const EVENTS: u64 = 3_000;
const EVENTS_A_SECOND: u64 = 1_000;
const EVENTS_A_BATCH: u64 = 250;
const CORRELATIONS: u64 = 50;
/// Sources of events by which different correlations match.
const SOURCES: u64 = 16;
const PIPELINE: &str = "p";
/// Start of the events, ms since the epoch.
const START_MS: u64 = 1_700_000_000_000;

#[expect(
    clippy::disallowed_methods,
    reason = "the size of the test comes from the environment"
)]
fn number_of_events() -> u64 {
    std::env::var("FIRN_RULE_COST_EVENTS").map_or(EVENTS, |events| events.parse().unwrap())
}

/// Correlations over 60 s by user and by address, in turn counts of events and of different values. All events match each of their rules;
/// no threshold is reached by many of the keys.
fn correlations() -> Vec<Arc<DetectionRule>> {
    let rule = |number: u64| {
        let (kind, condition) = match number % 2 {
            0 => ("event_count", "{gte: 2000}"),
            _ => ("value_count", "{gte: 1000, field: IpPort}"),
        };
        let by = ["TargetUserName", "IpAddress"][number as usize / 2 % 2];
        let sigma = format!(
            "title: base {number}\nid: base-{number}\nname: base_{number}\nlogsource: {{product: windows, service: security}}\n\
             detection:\n  selection: {{EventID: 4625, LogonType: [10, {}]}}\n  condition: selection\n---\n\
             title: correlation {number}\nid: c-{number}\ncorrelation:\n  type: {kind}\n  rules: [base_{number}]\n  group-by: [{by}]\n  \
             timespan: 60s\n  condition: {condition}\n",
            number + 100
        );
        let body = json!({"type": "sigma", "sigma": sigma});
        Arc::new(DetectionRule::parse(&format!("c-{number}"), body.as_object().unwrap()).unwrap())
    };
    (0..CORRELATIONS).map(rule).collect()
}

/// Twice as many correlations as [`CORRELATIONS`], each of which has a threshold of its own and counts a half of the events: those with
/// some of the sources. No two of them remember the same.
fn different_correlations() -> Vec<Arc<DetectionRule>> {
    let mut random = fastrand::Rng::with_seed(21);
    let mut rule = |number: u64| {
        let (kind, condition) = match number % 2 {
            0 => ("event_count", format!("{{gte: {}}}", 2000 + number)),
            _ => ("value_count", format!("{{gte: {}, field: IpPort}}", 1000 + number)),
        };
        let by = ["TargetUserName", "IpAddress"][number as usize / 2 % 2];
        let mut sources: Vec<u64> = (0..SOURCES).collect();
        random.shuffle(&mut sources);
        let sources: Vec<String> = sources[..SOURCES as usize / 2]
            .iter()
            .map(|source| format!("source-{source}"))
            .collect();
        let sigma = format!(
            "title: base {number}\nid: base-{number}\nname: base_{number}\nlogsource: {{product: windows, service: security}}\n\
             detection:\n  selection: {{EventID: 4625, WorkstationName: [{}]}}\n  condition: selection\n---\n\
             title: correlation {number}\nid: c-{number}\ncorrelation:\n  type: {kind}\n  rules: [base_{number}]\n  group-by: [{by}]\n  \
             timespan: 60s\n  condition: {condition}\n",
            sources.join(", ")
        );
        let body = json!({"type": "sigma", "sigma": sigma});
        Arc::new(DetectionRule::parse(&format!("c-{number}"), body.as_object().unwrap()).unwrap())
    };
    (0..2 * CORRELATIONS).map(&mut rule).collect()
}

/// Events of users that are skewed, and of addresses that are not.
fn events(count: u64) -> Vec<SourceEvent> {
    let mut random = fastrand::Rng::with_seed(20);
    let event = |number: u64| {
        let mut time = String::new();
        push_iso(
            (START_MS + number * 1_000 / EVENTS_A_SECOND) as i64 * 1_000_000,
            &mut time,
        );
        let user = 2_000_f64.powf(random.f64()) as u64;
        let event = json!({
            "@timestamp": time, "Channel": "Security", "EventID": 4625, "LogonType": 10,
            "TargetUserName": format!("user-{user}"), "IpAddress": format!("10.0.{}.{}", random.u8(..), random.u8(..)),
            "IpPort": random.u16(..), "WorkstationName": format!("source-{}", random.u64(..SOURCES)),
        });
        SourceEvent {
            bytes: Bytes::from(event.to_string()),
            offset: number,
            received_ns: i64::MAX,
            context: None,
            stored_at: None,
        }
    };
    (0..count).map(event).collect()
}

/// A pipeline with rules, and the journal of their windows.
struct Subject {
    steps: Steps,
    aggregates: BTreeMap<String, Arc<AggregateDefinition>>,
    windows: Windows,
    records: u64,
    /// Bytes of the journal.
    journal_bytes: u64,
    /// CPU time of samples, of printing the journal, and of its application, µs.
    times: [f64; 3],
    alerts: u64,
}

impl Subject {
    fn new(rules: Vec<Arc<DetectionRule>>) -> Self {
        let rules = RunnerRules {
            rules: rules.into(),
            ..RunnerRules::default()
        };
        let aggregates = rules.aggregates(PIPELINE);
        let definition = json!({"source": {"type": "http"}, "index": "events", "pack": "windows"});
        let definition: Definition = serde_json::from_value(definition).unwrap();
        let steps = Steps::new(PIPELINE, &definition, &aggregates, Tables::default(), Arc::new(|| 0)).unwrap();
        steps.set_rules(&rules);
        Self {
            windows: Windows::new(&PIPELINE.into(), &aggregates),
            steps,
            aggregates,
            records: 0,
            journal_bytes: 0,
            times: [0.0; 3],
            alerts: 0,
        }
    }

    fn append(&mut self, content: Content) {
        let record = Record {
            order: self.records,
            token: self.records.to_string(),
            content,
        };
        self.records += 1;
        let started = ThreadTime::now();
        self.journal_bytes += record.to_document(PIPELINE).unwrap().len() as u64;
        self.note_time(1, started);
        let started = ThreadTime::now();
        let made = self.windows.apply(&record.content);
        self.note_time(2, started);
        let alerts = made
            .iter()
            .filter(|made| matches!(made.content, EmissionContent::Alert(_)));
        self.alerts += alerts.count() as u64;
    }

    fn note_time(&mut self, of: usize, started: ThreadTime) {
        self.times[of] += started.elapsed().as_secs_f64() * 1e6;
    }

    /// Runs the events as a pipeline does, without storing them.
    fn run(&mut self, events: &[SourceEvent]) {
        let mut watermark = 0;
        for batch in events.chunks(EVENTS_A_BATCH as usize) {
            let started = ThreadTime::now();
            let documents = self.steps.run(Some("0"), batch);
            self.note_time(0, started);
            assert!(documents.iter().all(|document| document.error.is_none()));
            if self.aggregates.is_empty() {
                continue;
            }
            let received = documents.into_iter().zip(batch);
            let samples: Vec<ReceivedSample> = received
                .filter_map(|(document, event)| {
                    Some((document.offset, event.received_ns / 1_000_000, document.sample?))
                })
                .collect();
            let through = batch.last().map(|event| event.offset);
            for (_, delta) in
                Delta::parts_of_samples(&self.aggregates, "0", self.windows.through("0"), through, &samples)
            {
                self.append(Content::Delta(delta));
            }
            let second = samples.last().map_or(0, |(.., sample)| sample.time_ms / 1_000);
            if second > watermark {
                watermark = second;
                self.append(Content::Closing {
                    watermark: second * 1_000,
                    retired: Vec::new(),
                });
            }
        }
    }
}

/// Returns µs of CPU time an event.
fn cost(subject: &mut Subject, events: &[SourceEvent]) -> f64 {
    let started = ThreadTime::now();
    subject.run(events);
    started.elapsed().as_secs_f64() * 1e6 / events.len() as f64
}

/// Runs events without rules and with them, prints the costs, and returns the subject with rules.
#[expect(clippy::print_stdout, reason = "its figures are what it is for")]
fn measure(rules: Vec<Arc<DetectionRule>>, of: &str) -> Subject {
    let events = events(number_of_events());
    let mut without = Subject::new(Vec::new());
    let mut with = Subject::new(rules);
    let (before, after) = (cost(&mut without, &events), cost(&mut with, &events));
    let count = events.len() as f64;
    let [steps, printing, application] = with.times.map(|time| time / count);
    println!(
        "{count} events at {EVENTS_A_SECOND}/s: {before:.2} µs an event without rules, {after:.2} with {of}; {} keys, {} alerts, {:.0} \
         bytes of journal an event; of the time, {steps:.2} are mapping, matching and samples, {printing:.2} printing of the journal, \
         {application:.2} counting",
        with.windows.counts().keys,
        with.alerts,
        with.journal_bytes as f64 / count
    );
    with
}

#[test]
fn correlations_of_all_events() {
    let with = measure(correlations(), "50 correlations of all of them");
    let counts = with.windows.counts();
    // Each event counts in each rule.
    assert!(counts.keys > CORRELATIONS * 100, "{counts:?}");
    assert_eq!(counts.overflowed, 0);
    // The most frequent user reaches the threshold of those that count events in a minute; three seconds do not.
    assert_eq!(with.alerts > 0, number_of_events() > 30 * EVENTS_A_SECOND);
}

#[test]
fn correlations_that_differ() {
    let with = measure(
        different_correlations(),
        "100 correlations of a half of them each, all different",
    );
    let counts = with.windows.counts();
    assert!(counts.keys > CORRELATIONS * 100, "{counts:?}");
    assert_eq!(counts.overflowed, 0);
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Rules that remember a key of each event: a count and a number of different values in a minute, an absence, a new value.
fn rules_of_keys(max_keys: u64) -> Vec<Arc<DetectionRule>> {
    let by = json!(["event.code", "source.ip"]);
    let members = [
        json!({"type": "threshold", "window": "60s", "threshold": {"count": 1_000}}),
        json!({"type": "threshold", "window": "60s", "threshold": {"distinct": "user.name", "at_least": 1_000}}),
        json!({"type": "absence", "after": "60s"}),
        json!({"type": "new_value", "learn_for": "60s"}),
    ];
    let rule = |(number, mut body): (usize, Value)| {
        body["name"] = json!("keys");
        body["query"] = json!("*");
        body["group_by"] = by.clone();
        body["max_keys"] = json!(max_keys);
        Arc::new(DetectionRule::parse(&format!("k-{number}"), body.as_object().unwrap()).unwrap())
    };
    members.into_iter().enumerate().map(rule).collect()
}

#[test]
#[expect(clippy::print_stdout, reason = "its figures are what it is for")]
fn memory_of_keys() {
    let count = number_of_events();
    for rule in rules_of_keys(1_000_000) {
        let kind = rule.rule.id.clone();
        let mut subject = Subject::new(vec![rule]);
        let before = resident();
        // Made in parts, so that they are not what is measured.
        for first in (0..count).step_by(10_000) {
            let mut random = fastrand::Rng::with_seed(first);
            let last = count.min(first + 10_000);
            let event = |number: u64| {
                let mut time = String::new();
                push_iso((START_MS + number * 50_000 / count) as i64 * 1_000_000, &mut time);
                let ip = std::net::Ipv4Addr::from(number as u32);
                let event = json!({"@timestamp": time, "Channel": "Security", "EventID": 4625, "IpAddress": ip, "TargetUserName": random.u32(..).to_string()});
                SourceEvent {
                    bytes: Bytes::from(event.to_string()),
                    offset: number,
                    received_ns: i64::MAX,
                    context: None,
                    stored_at: None,
                }
            };
            let part: Vec<SourceEvent> = (first..last).map(event).collect();
            subject.run(&part);
        }
        let keys = subject.windows.counts().keys;
        let bytes = resident().saturating_sub(before);
        println!(
            "rule {kind}: {keys} keys, {:.0} MB, {:.0} bytes a key",
            bytes as f64 / 1e6,
            bytes as f64 / keys as f64
        );
        assert!(keys * 10 >= count * 9, "{keys} keys of {count}");
    }
}
