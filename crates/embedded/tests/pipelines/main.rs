//! Event pipelines over the engine of one machine: sources that are scripted, events that are stored once, accounts that are
//! balanced.

#[path = "../engine/node.rs"]
#[allow(dead_code, reason = "the tests of the engine use the rest")]
mod node;
mod rule_budget;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::{Engine, ErrorKind, Result};
use firn_model::Error;
use firn_model::metadata::Command;
use firn_pipeline::definition::Definition;
use firn_pipeline::runner::{Connectors, EngineDestination, OpenSource, PipelineStatus, Runner};
use firn_pipeline::sources::{BATCH_EVENTS_MAX, Batch, Source, SourceEvent, SourceOutput};
use node::{Node, START_MS};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

const ID: &str = "events";

/// A source of one partition with `end` numbered records, which can be read again from any offset.
#[derive(Clone)]
struct Numbers {
    partition: &'static str,
    end: u64,
    record: fn(u64) -> String,
    /// Offsets sent, also repeatedly.
    sent: Arc<AtomicU64>,
    random: Arc<parking_lot::Mutex<fastrand::Rng>>,
}

impl Numbers {
    fn new(end: u64, record: fn(u64) -> String) -> Self {
        Self {
            partition: "numbers/0",
            end,
            record,
            sent: Arc::default(),
            random: Arc::new(parking_lot::Mutex::new(fastrand::Rng::with_seed(1))),
        }
    }
}

#[async_trait]
impl Source for Numbers {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        let mut next = output.resume_offset(self.partition).await?.unwrap_or(0);
        let mut waiting = Vec::new();
        while next < self.end && !output.is_stopped() {
            let last = (next + self.random.lock().u64(0..200)).min(self.end - 1);
            let (done, outcome) = oneshot::channel();
            let event = |offset: u64| SourceEvent {
                bytes: (self.record)(offset).into(),
                offset,
                received_ns: START_MS * 1_000_000,
                context: None,
                stored_at: None,
            };
            let batch = Batch {
                stored: None,
                partition: Some(self.partition.into()),
                events: (next..=last).map(event).collect(),
                first_offset: next,
                last_offset: last,
                retries: true,
                note: None,
                done: Some(done),
            };
            self.sent.fetch_add(last + 1 - next, Ordering::Relaxed);
            output.send(batch).await?;
            waiting.push(outcome);
            next = last + 1;
        }
        for outcome in waiting {
            if !matches!(outcome.await, Ok(Ok(_))) {
                return Ok(());
            }
        }
        output.stopped().await;
        Ok(())
    }
}

fn open_source(source: Numbers) -> OpenSource {
    Arc::new(move |_: &Definition| Ok(Box::new(source.clone()) as Box<dyn Source>))
}

fn runner(node: &Node, open_source: OpenSource) -> Arc<Runner> {
    let engine = Arc::clone(&node.engine) as Arc<dyn Engine>;
    Runner::new(
        EngineDestination::new(engine),
        Connectors::of_sources(open_source),
        Arc::new(|| START_MS * 1_000_000),
        2,
    )
}

fn bodies(body: &Value) -> BTreeMap<String, Arc<Map<String, Value>>> {
    BTreeMap::from([(ID.to_owned(), Arc::new(body.as_object().unwrap().clone()))])
}

/// A definition whose source is replaced by the test's.
fn definition(pack: Option<&str>) -> Value {
    json!({"source": {"type": "file", "paths": ["/nowhere"]}, "pack": pack, "index": "events"})
}

fn create(node: &Node) {
    let mappings = json!({"dynamic": "strict", "properties": {"@timestamp": {"type": "date"}, "n": {"type": "long"}}});
    node.create(
        "events",
        json!({"settings": {"number_of_shards": 2}, "mappings": mappings}),
    )
    .unwrap();
}

fn number(offset: u64) -> String {
    match offset % 50 {
        // Not JSON.
        7 => format!("{{\"n\":{offset}"),
        // Not in the strict mapping.
        9 => json!({"n": offset, "other": true}).to_string(),
        _ => json!({"n": offset}).to_string(),
    }
}

fn is_dead(offset: u64) -> bool {
    matches!(offset % 50, 7 | 9)
}

async fn wait_for(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen within 30 s");
}

async fn status(runner: &Runner) -> PipelineStatus {
    runner.status(ID).await.expect("the pipeline is there")
}

/// Returns the numbers in an index, sorted, with repetitions.
fn numbers(node: &Node, index: &str, number_of: impl Fn(&Value) -> u64) -> Vec<u64> {
    node.refresh(index);
    let response = node.search(index, json!({"size": 10_000})).unwrap();
    let number = |source: &[u8]| number_of(&serde_json::from_slice(source).unwrap());
    let mut found: Vec<u64> = response
        .hits
        .iter()
        .map(|hit| number(hit.source.as_deref().unwrap()))
        .collect();
    found.sort_unstable();
    found
}

fn check_all_stored(node: &Node, end: u64) {
    let expected: Vec<u64> = (0..end).filter(|offset| !is_dead(*offset)).collect();
    assert_eq!(
        numbers(node, "events", |source| source["n"].as_u64().unwrap()),
        expected
    );
    let dead: Vec<u64> = (0..end).filter(|offset| is_dead(*offset)).collect();
    let offset = |source: &Value| source["firn"]["dead_letter"]["offset"].as_u64().unwrap();
    assert_eq!(numbers(node, "dead-letters", offset), dead);
}

#[test]
fn every_event_is_stored_once_through_kills_and_new_definitions() {
    let seed = firn_testkit::seed("every_event_is_stored_once_through_kills_and_new_definitions");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut node = Node::new();
    create(&node);
    let end = 6000;
    let source = Numbers::new(end, number);
    *source.random.lock() = random.fork();
    let (mut kills, mut shown) = (0, String::new());
    loop {
        let runner = runner(&node, open_source(source.clone()));
        let is_done = node.run(async {
            runner.apply(&bodies(&definition(None))).await;
            // The first nodes are killed early, so that there are several; later ones have more and more time.
            let longest = if kills < 3 { 15 } else { 120 + 40 * kills };
            tokio::time::sleep(Duration::from_millis(random.u64(1..longest))).await;
            if kills >= 3 && random.bool() {
                let mut changed = definition(None);
                changed["description"] = "changed".into();
                runner.apply(&bodies(&changed)).await;
                tokio::time::sleep(Duration::from_millis(random.u64(5..60))).await;
            }
            let status = status(&runner).await;
            shown = format!("{status:?}");
            status.partitions.first().is_some_and(|at| at.totals.read() == end)
        });
        if is_done {
            node.run(runner.stop());
            break;
        }
        drop(runner);
        node = node.reopen();
        kills += 1;
        assert!(kills < 200, "no progress: {shown}");
    }
    assert!(kills >= 3, "the test must kill the node");
    check_all_stored(&node, end);
    let positions = node
        .run(node.engine.source_positions(&node::ctx(), ID))
        .unwrap()
        .known()
        .unwrap();
    let totals = positions.iter().find(|at| at.partition == "numbers/0").unwrap().totals;
    let dead = (0..end).filter(|offset| is_dead(*offset)).count() as u64;
    assert_eq!(
        (totals.indexed, totals.dead_lettered, totals.read()),
        (end - dead, dead, end)
    );
}

/// Sends a batch that is too large, one behind it, and then both again in parts.
struct TooLarge(Arc<parking_lot::Mutex<Vec<bool>>>);

#[async_trait]
impl Source for TooLarge {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        let end = BATCH_EVENTS_MAX as u64 + 10;
        for (first, last) in [
            (0, end - 6),
            (end - 5, end - 1),
            (0, 99),
            (100, end - 11),
            (end - 10, end - 1),
        ] {
            let (done, outcome) = oneshot::channel();
            let event = |offset: u64| SourceEvent {
                bytes: json!({"n": offset}).to_string().into(),
                offset,
                received_ns: START_MS * 1_000_000,
                context: None,
                stored_at: None,
            };
            let batch = Batch {
                stored: None,
                partition: Some("large/0".into()),
                events: (first..=last).map(event).collect(),
                first_offset: first,
                last_offset: last,
                retries: true,
                note: None,
                done: Some(done),
            };
            output.send(batch).await?;
            let is_stored = matches!(outcome.await, Ok(Ok(_)));
            self.0.lock().push(is_stored);
        }
        output.stopped().await;
        Ok(())
    }
}

#[test]
fn nothing_is_stored_behind_a_batch_that_failed() {
    let node = Node::new();
    create(&node);
    let outcomes = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let shared = Arc::clone(&outcomes);
    let runner = runner(&node, Arc::new(move |_| Ok(Box::new(TooLarge(Arc::clone(&shared))))));
    node.run(async {
        runner.apply(&bodies(&definition(None))).await;
        wait_for("all batches", async || outcomes.lock().len() == 5).await;
        runner.stop().await;
    });
    assert_eq!(*outcomes.lock(), [false, false, true, true, true]);
    let end = BATCH_EVENTS_MAX as u64 + 10;
    assert_eq!(node.count("events", json!({"match_all": {}})), end);
}

#[test]
fn an_index_that_refuses_writes_holds_the_source_back() {
    let node = Node::new();
    create(&node);
    let block = |blocked: bool| {
        let command = Command::PutSettings {
            names: vec!["events".to_owned()],
            settings: json!({"index.blocks.write": blocked}),
            preserve_existing: false,
        };
        node.execute(command).unwrap();
    };
    block(true);
    // Records of 100 KB: more than may wait.
    let source = Numbers::new(1000, |offset| {
        json!({"n": offset, "pad": "x".repeat(100_000)}).to_string()
    });
    let runner = runner(&node, open_source(source.clone()));
    node.run(async {
        runner.apply(&bodies(&definition(None))).await;
        wait_for("a retry", async || status(&runner).await.retries > 3).await;
        let now = status(&runner).await;
        assert!(now.error.as_deref().unwrap().contains("block"), "{:?}", now.error);
        assert_eq!((now.events.indexed, now.events.dead_lettered), (0, 0));
        assert!(
            now.events.in_flight > 0 && now.events.in_flight == now.events.read,
            "{:?}",
            now.events
        );
    });
    let sent = source.sent.load(Ordering::Relaxed);
    assert!(
        sent < 1000,
        "the source sent all of its {sent} events into a full pipeline"
    );
    block(false);
    node.run(async {
        wait_for("the rest", async || status(&runner).await.events.dead_lettered == 1000).await;
        let now = status(&runner).await;
        assert_eq!((now.error, now.events.read, now.events.in_flight), (None, 1000, 0));
        runner.stop().await;
    });
}

#[test]
fn dead_letters_have_the_bytes_the_place_and_the_reason() {
    let node = Node::new();
    let body = json!({"source": {"type": "http"}, "pack": "cef", "index": "events"});
    let runner = runner(&node, Arc::new(|_| unreachable!("an http source needs none")));
    let outcome = node.run(async {
        runner.apply(&bodies(&body)).await;
        let cef = "CEF:0|Vendor|Product|1|100|name|5|src=10.0.0.1 dst=10.0.0.2";
        let events = vec![Bytes::from(cef), Bytes::from_static(b"no CEF \xff"), Bytes::from(cef)];
        let outcome = runner.submit(ID, events).await;
        let missing = runner.submit("missing", Vec::<Bytes>::new()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::ResourceNotFound);
        outcome
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.read, outcome.indexed, outcome.dead_lettered), (3, 2, 1));
    node.refresh("events,dead-letters");
    let response = node
        .search(
            "dead-letters",
            json!({"query": {"term": {"firn.dead_letter.step": "parse"}}}),
        )
        .unwrap();
    let letter: Value = serde_json::from_slice(response.hits[0].source.as_deref().unwrap()).unwrap();
    assert!(
        letter["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("cannot parse cef"),
        "{letter}"
    );
    assert_eq!(letter["firn"]["dead_letter"]["base64"], "bm8gQ0VGIP8=");
    assert_eq!(letter["firn"]["dead_letter"]["pipeline"], ID);
    assert_eq!(node.count("events", json!({"term": {"source.ip": "10.0.0.1"}})), 2);
    node.run(runner.stop());
}

#[test]
fn dead_letters_that_their_index_rejects_are_written_when_it_takes_them() {
    let node = Node::new();
    create(&node);
    // An index of the user, which takes no field of a dead letter.
    let body =
        |dynamic: &str| json!({"mappings": {"dynamic": dynamic, "properties": {"@timestamp": {"type": "date"}}}});
    node.create("dead-letters-own", body("strict")).unwrap();
    let mut definition = definition(None);
    definition["dead_letter_index"] = "dead-letters-own".into();
    let source = Numbers::new(100, number);
    let runner = runner(&node, open_source(source));
    node.run(async {
        runner.apply(&bodies(&definition)).await;
        let rejects = async || {
            let error = status(&runner).await.error;
            error.is_some_and(|error| error.contains("[dead-letters-own] rejects dead letters"))
        };
        wait_for("a rejected dead letter", rejects).await;
        let command = Command::PutMapping {
            names: vec!["dead-letters-own".to_owned()],
            mapping: json!({"dynamic": true}),
        };
        node.engine.execute(&node::ctx(), command).await.unwrap();
        wait_for("the dead letters", async || {
            status(&runner).await.events.dead_lettered == 4
        })
        .await;
        let now = status(&runner).await;
        assert_eq!(
            (now.events.indexed, now.events.in_flight, now.partitions.len()),
            (96, 0, 1)
        );
        runner.stop().await;
    });
    let offset = |source: &Value| source["firn"]["dead_letter"]["offset"].as_u64().unwrap();
    assert_eq!(numbers(&node, "dead-letters-own", offset), [7, 9, 57, 59]);
}

#[test]
fn a_request_learns_that_its_events_were_refused() {
    let node = Node::new();
    create(&node);
    let command = Command::PutSettings {
        names: vec!["events".to_owned()],
        settings: json!({"index.blocks.write": true}),
        preserve_existing: false,
    };
    node.execute(command).unwrap();
    let runner = runner(&node, Arc::new(|_| unreachable!("an http source needs none")));
    node.run(async {
        runner
            .apply(&bodies(&json!({"source": {"type": "http"}, "index": "events"})))
            .await;
        let error = runner
            .submit(ID, vec![Bytes::from_static(b"{\"n\":1}")])
            .await
            .unwrap_err();
        // The block will pass: a sender must keep the events.
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let now = status(&runner).await;
        assert_eq!((now.events.read, now.events.refused, now.events.in_flight), (1, 1, 0));
        runner.stop().await;
    });
}

#[test]
fn definitions_that_cannot_run_say_why() {
    let node = Node::new();
    let runner = runner(
        &node,
        Arc::new(|_| Err(firn_engine::Error::illegal_argument("address in use"))),
    );
    let check = |body: Value, words: &str| {
        node.run(async {
            runner.apply(&bodies(&body)).await;
            wait_for(words, async || {
                status(&runner).await.error.is_some_and(|error| error.contains(words))
            })
            .await;
        });
    };
    check(json!({"index": "a"}), "missing field `source`");
    check(
        json!({"source": {"type": "carrier_pigeon"}, "index": "a"}),
        "unknown variant `carrier_pigeon`",
    );
    check(
        json!({"source": {"type": "http"}, "index": "a", "pakc": "cef"}),
        "unknown field `pakc`",
    );
    check(
        json!({"source": {"type": "http"}, "index": "a", "pack": "cfe"}),
        "there is no pack [cfe]",
    );
    check(
        json!({"source": {"type": "http"}, "index": "a*"}),
        "[index] must name one",
    );
    check(
        json!({"source": {"type": "syslog"}, "index": "a"}),
        "needs [udp], [tcp] or [tls]",
    );
    check(
        json!({"source": {"type": "file", "paths": ["/x"]}, "index": "a", "pack": "cef", "tables": {"t": "/no/file.csv"}}),
        "table [t]",
    );
    check(definition(None), "address in use");
    node.run(async {
        runner.apply(&BTreeMap::new()).await;
        assert!(runner.status(ID).await.is_none());
    });
}

#[test]
fn a_simulation_shows_documents_and_dead_letters() {
    let node = Node::new();
    let runner = runner(&node, Arc::new(|_| Err(Error::illegal_argument("no source is opened"))));
    let body = json!({"source": {"type": "http"}, "index": "events"});
    let records = [
        Bytes::from_static(b"{\"a\":1}"),
        Bytes::from_static(b"{}"),
        Bytes::from_static(b"[1]"),
    ];
    let shown = runner.simulate(ID, body.as_object().unwrap(), records.to_vec(), START_MS * 1_000_000);
    let shown = node.run(shown).unwrap();
    let time = "2026-01-01T00:00:00.000Z";
    assert_eq!(shown[0].document, json!({"@timestamp": time, "a": 1}));
    assert_eq!(shown[1].document, json!({"@timestamp": time}));
    assert_eq!(
        (shown[2].index.as_str(), shown[0].index.as_str()),
        ("dead-letters", "events")
    );
    assert!(
        shown[2].error.as_deref().unwrap().contains("JSON object"),
        "{:?}",
        shown[2].error
    );
}

#[test]
fn events_of_a_tenant_belong_to_it() {
    let node = Node::new();
    let template = json!({
        "index_patterns": ["shared"], "data_stream": {},
        "template": {"settings": {"index.tenant.field": "tenant"}, "mappings": {"properties": {"tenant": {"type": "keyword"}}}},
    });
    node.execute(Command::PutIndexTemplate {
        name: "shared".to_owned(),
        body: template,
        create: false,
    })
    .unwrap();
    let runner = runner(&node, Arc::new(|_| unreachable!("an http source needs none")));
    node.run(async {
        runner
            .apply(&bodies(
                &json!({"source": {"type": "http"}, "index": "shared", "tenant": "acme"}),
            ))
            .await;
        let other = Bytes::from_static(b"{\"tenant\":\"bolt\",\"n\":2}");
        let outcome = runner
            .submit(
                ID,
                vec![Bytes::from_static(b"{\"n\":1}"), other, Bytes::from_static(b"no")],
            )
            .await;
        let outcome = outcome.unwrap();
        assert_eq!(
            (outcome.indexed, outcome.dead_lettered),
            (1, 2),
            "an event that names another tenant is a dead letter"
        );
        runner.stop().await;
    });
    let of_acme = json!({"term": {"tenant": "acme"}});
    assert_eq!(node.count("shared", of_acme.clone()), 1);
    assert_eq!(node.count("dead-letters", of_acme), 2);
    let all: BTreeSet<u64> = [node.count("shared", json!({"match_all": {}}))].into();
    assert_eq!(all, [1].into());
}

#[test]
fn a_disabled_pipeline_does_not_run() {
    let node = Node::new();
    let was_opened = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&was_opened);
    let source = Numbers::new(10, number);
    let runner = runner(
        &node,
        Arc::new(move |_| {
            opened.store(true, Ordering::Relaxed);
            Ok(Box::new(source.clone()))
        }),
    );
    node.run(async {
        let mut body = definition(None);
        body["enabled"] = false.into();
        runner.apply(&bodies(&body)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = status(&runner).await;
        assert_eq!((now.running, now.error), (false, None));
        assert!(!was_opened.load(Ordering::Relaxed));
        runner.apply(&bodies(&definition(None))).await;
        wait_for("the events", async || status(&runner).await.events.read == 10).await;
        runner.stop().await;
    });
}
