//! Rules that read records, evaluated on the events that pipelines have stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use firn_detect::DetectionRule;
use firn_engine::Scope;
use firn_engine::document::{BulkItemResponse, BulkRequest, BulkResponse, Effect, Operation, Written};
use firn_engine::origin::SourcePosition;
use firn_model::{Error, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Connectors, Destination, Evaluated, PushedEvent, Runner, StoredDocument, StoredEvent};

/// 2026-01-10T00:00:00Z.
const NOW_NS: i64 = 1_768_003_200_000_000_000;

/// Destination that stores documents in memory; an id is a number.
#[derive(Default)]
struct Memory(Mutex<Vec<(String, Bytes)>>);

#[async_trait]
impl Destination for Memory {
    async fn bulk(&self, _: &Arc<Scope>, request: BulkRequest) -> Result<BulkResponse> {
        let mut stored = self.0.lock();
        let items = request.items.into_iter().map(|item| {
            let (Operation::Create { source } | Operation::Index { source }) = item.operation else {
                panic!("documents are created");
            };
            stored.push((item.index.clone(), source));
            BulkItemResponse {
                index: item.index,
                id: (stored.len() - 1).to_string(),
                result: Ok(Written {
                    effect: Effect::Created,
                    version: 1,
                    seq_no: 0,
                    primary_term: 1,
                    forced_refresh: false,
                    get: None,
                }),
            }
        });
        Ok(BulkResponse { items: items.collect() })
    }

    async fn resume_offset(&self, _: &str, _: &str) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn settle(&self, _: &str, _: &str, _: u64) {}

    async fn source_positions(&self, _: &str) -> Result<Vec<SourcePosition>> {
        Ok(Vec::new())
    }

    async fn window_records(&self, _: &str, _: &str) -> Result<Vec<Bytes>> {
        Ok(Vec::new())
    }

    async fn create_template(&self, _: &str, _: &Value) -> Result<()> {
        Ok(())
    }
}

struct World {
    destination: Arc<Memory>,
    runner: Arc<Runner>,
}

impl World {
    fn new() -> Self {
        let destination = Arc::new(Memory::default());
        let connectors = Connectors::of_sources(Arc::new(|_| Err(Error::internal("no source"))));
        let of_runner = Arc::clone(&destination) as Arc<dyn Destination>;
        let runner = Runner::new(of_runner, connectors, Arc::new(|| NOW_NS), 2);
        Self { destination, runner }
    }

    async fn apply(&self, bodies: &[(&str, Value)]) {
        let bodies = bodies
            .iter()
            .map(|(id, body)| ((*id).to_owned(), Arc::new(body.as_object().unwrap().clone())));
        self.runner.apply(&bodies.collect()).await;
        assert_eq!(self.runner.refused(), []);
    }

    /// Hands records to a pipeline.
    async fn send(&self, pipeline: &str, records: &[&[u8]]) {
        let records = records.iter().map(|record| Bytes::copy_from_slice(record).into());
        let records: Vec<PushedEvent> = records.collect();
        self.runner.submit(pipeline, records).await.unwrap();
    }

    /// Returns the events of an index as a search would find them.
    fn events(&self, index: &str) -> Vec<StoredEvent> {
        let stored = self.destination.0.lock();
        let of_index = stored.iter().enumerate().filter(|(_, (of, _))| of == index);
        let event = |(id, (_, source)): (usize, &(String, Bytes))| {
            let event: Value = serde_json::from_slice(source).unwrap();
            let time = event["@timestamp"].as_str().unwrap();
            let time_ns = firn_model::dates::DateFormat::default_millis()
                .parse_nanos(time)
                .unwrap();
            StoredEvent {
                index: index.into(),
                id: id.to_string(),
                names: Arc::new([index.to_owned()]),
                source: source.clone(),
                tenant: None,
                time_ns: i64::try_from(time_ns).unwrap(),
            }
        };
        of_index.map(event).collect()
    }

    fn alerts(&self) -> Vec<Value> {
        let stored = self.destination.0.lock();
        let alerts = stored.iter().filter(|(index, _)| index.starts_with(".alerts-"));
        alerts
            .map(|(_, alert)| serde_json::from_slice(alert).unwrap())
            .collect()
    }

    /// Returns the ids of the events that have an alert.
    fn alerted(&self) -> BTreeSet<String> {
        let alerts = self.alerts();
        let id = |alert: &Value| alert["firn"]["alert"]["event"]["id"].as_str().unwrap().to_owned();
        alerts.iter().map(id).collect()
    }

    /// Evaluates a rule on the records of events.
    async fn evaluate(&self, rule: &DetectionRule, events: &[StoredEvent]) -> Vec<Evaluated> {
        let records = self.runner.record_rule(rule, &Scope::operator()).await.unwrap();
        records.evaluate(events.to_vec()).await.unwrap()
    }
}

fn rule(condition: &str, members: &Value) -> DetectionRule {
    let sigma = format!(
        "title: Logon\nlogsource: {{product: windows, service: security}}\ndetection:\n  selection: {condition}\n  condition: selection\n"
    );
    let mut body = json!({"type": "sigma", "sigma": sigma});
    body.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    DetectionRule::parse("logon", body.as_object().unwrap()).unwrap()
}

fn windows(members: &Value) -> Value {
    let mut body = json!({"source": {"type": "http"}, "pack": "windows", "index": "logs"});
    body.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    body
}

fn reasons(found: &[Evaluated]) -> Vec<&str> {
    found
        .iter()
        .map(|one| match (&one.obstacle, &one.not_applicable) {
            (Some(obstacle), _) => obstacle.reason.as_str(),
            (None, Some(reason)) => reason.as_str(),
            (None, None) if one.matched.is_some() => "match",
            (None, None) => "no match",
        })
        .collect()
}

#[tokio::test]
async fn stored_events_match_as_their_records_did_when_they_came() {
    let world = World::new();
    // The pack stores the domain apart from the name, and in other fields; the exception reads common fields.
    let rule = rule(
        r"{EventID: 4624, SubjectUserName|contains: 'EXAMPLE\A'}",
        &json!({"exceptions": [{"query": "host.name: lab"}], "group_by": ["host.name"]}),
    );
    world.apply(&[("win", windows(&json!({})))]).await;
    world
        .runner
        .set_rules(vec![Arc::new(rule.clone())], Vec::new())
        .await
        .unwrap();
    let record = |number: u32, user: &str, host: &str| {
        json!({"Channel": "Security", "EventID": number, "Computer": host, "SubjectUserName": user}).to_string()
    };
    let mut records: Vec<Vec<u8>> = Vec::new();
    for number in [4624, 4625] {
        for user in [r"EXAMPLE\ann", r"EXAMPLE\Bob", "ann", "\u{1f600}\" \\"] {
            for host in ["dc1", "dc2", "lab"] {
                records.push(record(number, user, host).into_bytes());
            }
        }
    }
    let mut broken = record(4624, r"EXAMPLE\a?", "dc3").into_bytes();
    let place = broken.iter().position(|byte| *byte == b'?').unwrap();
    broken[place] = 0xff;
    records.push(broken);
    // One at a time, so that each match of a group has its alert.
    for record in &records {
        world.send("win", &[record]).await;
    }
    let events = world.events("logs");
    assert_eq!(events.len(), records.len());
    let found = world.evaluate(&rule, &events).await;
    let matched: BTreeSet<String> = events
        .iter()
        .zip(&found)
        .filter(|(_, evaluated)| evaluated.matched.is_some())
        .map(|(event, _)| event.id.clone())
        .collect();
    assert_eq!(matched, world.alerted());
    assert_eq!(matched.len(), 3, "two hosts, and the record that is not UTF-8");
    for (event, evaluated) in events.iter().zip(&found) {
        assert!(
            evaluated.obstacle.is_none() && evaluated.not_applicable.is_none(),
            "{evaluated:?}"
        );
        assert!(
            evaluated
                .matched
                .as_ref()
                .is_none_or(|matched| *matched == event.source)
        );
    }
}

#[tokio::test]
async fn an_exception_holds_for_the_events_before_its_end() {
    let world = World::new();
    world.apply(&[("win", windows(&json!({})))]).await;
    let time = |time: &str| json!({"@timestamp": time, "Channel": "Security", "EventID": 4624}).to_string();
    for text in [
        "2026-01-01T00:00:00Z",
        "2026-01-02T23:59:59.999Z",
        "2026-01-03T00:00:00Z",
    ] {
        world.send("win", &[time(text).as_bytes()]).await;
    }
    let exceptions = json!({"exceptions": [{"query": "event.code: 4624", "expires": "2026-01-03"}]});
    let rule = rule("{EventID: 4624}", &exceptions);
    let found = world.evaluate(&rule, &world.events("logs")).await;
    assert_eq!(reasons(&found), ["no match", "no match", "match"]);
}

#[tokio::test]
async fn what_cannot_be_evaluated_says_why() {
    let world = World::new();
    let record = json!({"Channel": "Security", "EventID": 4624}).to_string();
    let cleared = rule("{EventID: 4624}", &json!({}));
    // The records are not stored, and the pipeline does not run any more.
    world.apply(&[("win", windows(&json!({"keep_original": false})))]).await;
    world.send("win", &[record.as_bytes()]).await;
    world.apply(&[("win", windows(&json!({})))]).await;
    world.send("win", &[record.as_bytes()]).await;
    let events = world.events("logs");
    for enabled in [true, false] {
        world.apply(&[("win", windows(&json!({"enabled": enabled})))]).await;
        let found = world.evaluate(&cleared, &events).await;
        assert_eq!(reasons(&found), ["no record in [event.original]", "match"], "{enabled}");
    }
    // Records that were stored before are found although further ones are not.
    world.apply(&[("win", windows(&json!({"keep_original": false})))]).await;
    let found = world.evaluate(&cleared, &events).await;
    assert_eq!(reasons(&found), ["no record in [event.original]", "match"]);
    // Another pack in its place, and no pipeline at all.
    world.apply(&[("win", windows(&json!({"pack": "zeek"})))]).await;
    let found = world.evaluate(&cleared, &events).await;
    assert_eq!(
        reasons(&found)[1],
        "no pipeline with the pack [windows] stores into the index now"
    );
    world.apply(&[]).await;
    let found = world.evaluate(&cleared, &events).await;
    assert_eq!(
        reasons(&found)[1],
        "no pipeline with the pack [windows] stores into the index now"
    );
    // A pack whose events never belong to the log source of the rule.
    world
        .apply(&[("cef", windows(&json!({"pack": "cef", "index": "fw"})))])
        .await;
    world.send("cef", &[b"CEF:0|a|b|1|2|c|3|src=10.0.0.1"]).await;
    let found = world.evaluate(&cleared, &world.events("fw")).await;
    assert_eq!(reasons(&found), ["the pack [cef] has no log source for the rule"]);
    assert!(found[0].obstacle.is_none());
}

#[tokio::test]
async fn a_text_that_a_pack_writes_in_the_place_of_the_record_is_not_evaluated() {
    let world = World::new();
    let pack = json!({
        "name": "own", "version": 1, "prefix": "own", "parser": "json",
        "fields": {"raw": "event.original", "EventID": "event.code"},
        "sigma": {"log_sources": [{"product": "windows", "service": "security"}]},
    });
    let own = |keep: bool| windows(&json!({"pack": pack, "keep_original": keep}));
    let record = json!({"raw": r#"{"EventID": 4624}"#, "EventID": 1}).to_string();
    let cleared = rule("{EventID: 4624}", &json!({}));
    world.apply(&[("own", own(false))]).await;
    world.send("own", &[record.as_bytes()]).await;
    let found = world.evaluate(&cleared, &world.events("logs")).await;
    assert!(
        reasons(&found)[0].contains("writes another text into [event.original]"),
        "{found:?}"
    );
    // With its record it is evaluated.
    let world = World::new();
    world.apply(&[("own", own(true))]).await;
    world.send("own", &[record.as_bytes()]).await;
    let found = world.evaluate(&cleared, &world.events("logs")).await;
    assert_eq!(reasons(&found), ["no match"]);
}

#[tokio::test]
async fn a_pipeline_that_reads_stored_events_has_them_as_records() {
    let world = World::new();
    let reading = windows(&json!({"source": {"type": "index", "indices": ["raw-*"]}, "index": ""}));
    let storing = json!({"source": {"type": "http"}, "index": "raw-a"});
    world
        .apply(&[("reading", reading.clone()), ("storing", storing.clone())])
        .await;
    let event =
        json!({"@timestamp": "2026-01-01T00:00:00Z", "Channel": "Security", "EventID": 4624, "Computer": "dc1"});
    world.send("storing", &[event.to_string().as_bytes()]).await;
    let rule = rule("{EventID: 4624}", &json!({"exceptions": [{"query": "host.name: lab"}]}));
    let found = world.evaluate(&rule, &world.events("raw-a")).await;
    assert_eq!(reasons(&found), ["match"]);
    // The alert is about what the pack makes of it.
    let matched: Value = serde_json::from_slice(found[0].matched.as_ref().unwrap()).unwrap();
    assert_eq!(
        (&matched["host"]["name"], &matched["event"]["code"]),
        (&json!("dc1"), &json!("4624"))
    );
    let mut stopped = reading;
    stopped["enabled"] = false.into();
    world.apply(&[("reading", stopped), ("storing", storing)]).await;
    let found = world.evaluate(&rule, &world.events("raw-a")).await;
    assert_eq!(
        reasons(&found),
        ["a pipeline that reads the events of the index does not run"]
    );
}

#[tokio::test]
async fn alerts_of_a_run_have_the_same_ids_each_time() {
    let world = World::new();
    world.apply(&[("win", windows(&json!({})))]).await;
    let record = json!({"Channel": "Security", "EventID": 4624, "Computer": "dc1"}).to_string();
    world.send("win", &[record.as_bytes()]).await;
    // The rule itself does not run, and is for other pipelines.
    let exceptions = json!([{"query": "event.code: 4624", "expires": "2026-01-01"}]);
    let members = json!({"enabled": false, "pipelines": ["others"], "severity": "high", "exceptions": exceptions});
    let rule = rule("{EventID: 4624}", &members);
    let event = world.events("logs").remove(0);
    let found = world.evaluate(&rule, std::slice::from_ref(&event)).await;
    let document = StoredDocument {
        index: event.index.to_string(),
        id: event.id.clone(),
        routing: None,
        seq_no: (0, 1),
        source: found[0].matched.clone().unwrap(),
    };
    for _ in 0..2 {
        let run = world.runner.start_rule_run(&rule).await.unwrap();
        assert_eq!(run.raise(vec![(document.clone(), None)]).await.unwrap(), 1);
    }
    let alerts = world.alerts();
    let state = |alert: &Value| alert["firn"]["alert"].clone();
    assert_eq!(alerts.len(), 2);
    assert_eq!(state(&alerts[0])["id"], state(&alerts[1])["id"]);
    assert!(state(&alerts[0])["id"].is_string());
    let link = &state(&alerts[0])["event"];
    assert_eq!((&link["index"], &link["id"]), (&json!("logs"), &json!(event.id)));
    assert_eq!(state(&alerts[0])["rule_version"], json!(rule.version));
    assert_eq!(
        (
            &alerts[0]["rule"]["name"],
            &state(&alerts[0])["severity"],
            &alerts[0]["host"]["name"]
        ),
        (&json!("Logon"), &json!("high"), &json!("dc1"))
    );
}

#[tokio::test]
async fn a_rule_that_reads_events_is_refused() {
    let world = World::new();
    let body = json!({"type": "query", "name": "q", "query": "a: 1"});
    let rule = DetectionRule::parse("q", body.as_object().unwrap()).unwrap();
    assert!(world.runner.record_rule(&rule, &Scope::operator()).await.is_err());
}
