//! Budget of detection rules, simulated: clocks and costs are the test's, batches come one after the other, and the node's runner is
//! stopped and started again. The holes are exact, other rules go on, and each alert exists once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use firn_detect::{BudgetLimits, CpuClock, DetectionRule};
use firn_engine::{Engine, Result};
use firn_model::dates::{DateFormat, Zone};
use firn_model::metadata::{Command, DetectionCommand};
use firn_model::names::IndicesOptions;
use firn_pipeline::definition::Definition;
use firn_pipeline::rule_budget::RuleBudgets;
use firn_pipeline::rule_history::{FillLimits, HoleFiller, RuleLedger, restore_pauses};
use firn_pipeline::runner::{Connectors, EngineDestination, Runner};
use firn_pipeline::sources::{Batch, Clock, Source, SourceEvent, SourceOutput};
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::node::{Node, START_MS, ctx};
use super::{ID, bodies, status, wait_for};

const PARTITION: &str = "scripted/0";
const SECOND: i64 = 1_000_000_000;

thread_local! {
    /// Processor time of this thread, as the simulation has it.
    static CPU_NANOS: Cell<u64> = const { Cell::new(0) };
}

/// A source that sends what the test hands over, and reads nothing again.
#[derive(Clone)]
struct Scripted(Arc<tokio::sync::Mutex<mpsc::Receiver<Batch>>>);

#[async_trait]
impl Source for Scripted {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        output.resume_offset(PARTITION).await?;
        let mut batches = self.0.lock().await;
        loop {
            let batch = tokio::select! {
                batch = batches.recv() => batch,
                () = output.stopped() => return Ok(()),
            };
            let Some(batch) = batch else {
                output.stopped().await;
                return Ok(());
            };
            output.send(batch).await?;
        }
    }
}

struct World {
    node: Node,
    now: Arc<AtomicI64>,
    /// Cost of the slow rule on one event, nanoseconds.
    cost: Arc<AtomicU64>,
    batches: mpsc::Sender<Batch>,
    source: Scripted,
    rules: BTreeMap<String, Map<String, Value>>,
    pipeline: Value,
}

/// Pack of records with the fields of the events, and a log source.
fn pack() -> Value {
    json!({
        "name": "test", "version": 1, "prefix": "raw", "parser": "json", "related": false,
        "fields": {"@timestamp": "@timestamp", "n": {"to": "n", "type": "long"}, "kind": "kind", "tenant": "tenant"},
        "sigma": {"log_sources": [{"product": "test"}]},
    })
}

/// A started runner.
struct Running {
    runner: Arc<Runner>,
    budget: Arc<RuleBudgets>,
    filler: HoleFiller,
}

impl World {
    /// Rules that read events.
    fn new() -> Self {
        let rule = json!({"type": "query", "name": "r", "query": "kind: odd"});
        Self::with(&rule, super::definition(None))
    }

    /// Rules that read records.
    fn of_records() -> Self {
        let sigma = "title: r\nlogsource: {product: test}\ndetection: {s: {kind: odd}, condition: s}\n";
        let mut pipeline = super::definition(None);
        pipeline["pack"] = pack();
        Self::with(&json!({"type": "sigma", "sigma": sigma}), pipeline)
    }

    fn with(rule: &Value, pipeline: Value) -> Self {
        let node = Node::new();
        let mappings = json!({"properties": {
            "@timestamp": {"type": "date"}, "n": {"type": "long"}, "kind": {"type": "keyword"}, "tenant": {"type": "keyword"},
        }});
        node.create("events", json!({"mappings": mappings})).unwrap();
        let rule = |members: Value| {
            let mut body = rule.clone();
            body.as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            body.as_object().unwrap().clone()
        };
        let rules = [
            ("slow", rule(json!({}))),
            ("fast", rule(json!({"name": "fast"}))),
            ("of-alpha", rule(json!({"name": "of alpha", "tenant": "alpha"}))),
        ];
        let rules: BTreeMap<String, Map<String, Value>> =
            rules.into_iter().map(|(id, body)| (id.to_owned(), body)).collect();
        let stored = rules.iter().map(|(id, body)| (id.clone(), body.clone())).collect();
        node.execute(Command::Detection(DetectionCommand::PutRules(stored)))
            .unwrap();
        let (batches, receiver) = mpsc::channel(1);
        Self {
            node,
            now: Arc::new(AtomicI64::new(START_MS * 1_000_000)),
            cost: Arc::new(AtomicU64::new(0)),
            batches,
            source: Scripted(Arc::new(tokio::sync::Mutex::new(receiver))),
            rules,
            pipeline,
        }
    }

    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.now);
        Arc::new(move || now.load(Ordering::SeqCst))
    }

    fn cpu_clock(&self) -> CpuClock {
        let cost = Arc::clone(&self.cost);
        Arc::new(move |rule| {
            let spent = match rule {
                Some("slow") => cost.load(Ordering::SeqCst),
                // As much as the budget of the tenant bears.
                Some(_) => 1_000,
                None => 0,
            };
            CPU_NANOS.set(CPU_NANOS.get() + spent);
            CPU_NANOS.get()
        })
    }

    async fn start(&self) -> Running {
        let engine = Arc::clone(&self.node.engine) as Arc<dyn Engine>;
        let limits = BudgetLimits {
            operator_share: Some(0.5),
            tenant_share: Some(0.5),
            window_ns: 20 * SECOND,
            pause_ns: 10 * SECOND,
        };
        let budget = RuleBudgets::new(limits, self.clock(), self.cpu_clock());
        restore_pauses(&*engine, &budget).await.unwrap();
        let source = self.source.clone();
        let open = Arc::new(move |_: &Definition| Ok(Box::new(source.clone()) as Box<dyn Source>));
        let runner = Runner::with_budget(
            EngineDestination::new(Arc::clone(&engine)),
            Connectors::of_sources(open),
            self.clock(),
            // One after the other, so that the events that are measured are the same in each run.
            1,
            Some(Arc::clone(&budget)),
        );
        let rules = self.rules.iter();
        let rules = rules.map(|(id, body)| Arc::new(DetectionRule::parse(id, body).unwrap()));
        runner.set_rules(rules.collect(), Vec::new()).await.unwrap();
        runner.apply(&bodies(&self.pipeline)).await;
        wait_for("the pipeline", async || status(&runner).await.running).await;
        let limits = FillLimits {
            fetch_bytes_max: 0,
            settle_ns: 5 * SECOND,
        };
        let filler = HoleFiller::new(engine, Arc::clone(&runner), Arc::clone(&budget), self.clock(), limits);
        Running { runner, budget, filler }
    }

    /// Sends the events from `first` on, and waits until they are stored.
    async fn send(&self, first: u64, count: u64, late_ms: i64) {
        let now_ns = self.now.load(Ordering::SeqCst);
        let event = |offset: u64| {
            let kind = if offset % 2 == 1 { "odd" } else { "even" };
            let time = DateFormat::default_millis().print_ms(now_ns / 1_000_000 - late_ms, &Zone::utc());
            let mut event = json!({"@timestamp": time, "n": offset, "kind": kind});
            if offset % 4 == 1 {
                event["tenant"] = "alpha".into();
            }
            SourceEvent {
                bytes: event.to_string().into(),
                offset,
                received_ns: now_ns,
                context: None,
                stored_at: None,
            }
        };
        let (done, outcome) = oneshot::channel();
        let batch = Batch {
            stored: None,
            partition: Some(PARTITION.into()),
            events: (first..first + count).map(event).collect(),
            first_offset: first,
            last_offset: first + count - 1,
            retries: true,
            note: None,
            done: Some(done),
        };
        self.batches.send(batch).await.unwrap();
        outcome.await.unwrap().unwrap();
    }

    /// Returns how often each event has an alert of a rule, by its number.
    async fn alerts(&self, rule: &str) -> BTreeMap<u64, u64> {
        let target = IndexTarget {
            expression: vec![".alerts-*".to_owned()],
            options: IndicesOptions {
                expand_hidden: true,
                ..IndicesOptions::default()
            },
        };
        self.node.engine.refresh(&ctx(), target.clone()).await.unwrap();
        let body = json!({"size": 10_000, "query": {"term": {"rule.id": rule}}});
        let request = SearchRequest::parse(target, Some(&body)).unwrap();
        let found = self.node.engine.search(&ctx(), request).await.unwrap();
        assert!(found.shards.failures.is_empty() && found.hits.len() < 10_000);
        let mut counts = BTreeMap::new();
        for hit in &found.hits {
            let alert: Value = serde_json::from_slice(hit.source.as_deref().unwrap()).unwrap();
            *counts.entry(alert["n"].as_u64().unwrap()).or_default() += 1;
        }
        counts
    }

    /// Returns the holes of a rule: first offset, offset behind the last one, whether the budget left it, whether it is filled.
    async fn holes(&self, rule: &str) -> Vec<(u64, Option<u64>, bool, bool)> {
        let ledger = RuleLedger::read(&*self.node.engine, rule).await.unwrap();
        let mut found = Vec::new();
        for of_partition in ledger.partitions() {
            assert_eq!(
                (of_partition.pipeline.as_str(), of_partition.partition.as_str()),
                (ID, PARTITION)
            );
            for hole in of_partition.holes() {
                let is_filled = ledger.is_filled(&hole, &["events".to_owned()]);
                let to = hole.interval.to.as_ref().and_then(|to| to.offset);
                found.push((
                    hole.interval.from.offset.unwrap(),
                    to,
                    hole.interval.is_throttled,
                    is_filled,
                ));
            }
        }
        found
    }
}

#[test]
fn a_rule_beyond_the_budget_pauses_and_its_exact_hole_is_filled() {
    let seed = firn_testkit::seed("a_rule_beyond_the_budget_pauses_and_its_exact_hole_is_filled");
    check_exact_holes(&World::new(), seed);
}

#[test]
fn the_exact_hole_of_a_rule_that_reads_records_is_filled() {
    let seed = firn_testkit::seed("the_exact_hole_of_a_rule_that_reads_records_is_filled");
    check_exact_holes(&World::of_records(), seed);
}

fn check_exact_holes(world: &World, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let runtime = &world.node;
    runtime.run(async {
        let mut running = world.start().await;
        let (mut next, mut throttles, mut is_filled_while_running) = (0, 0, false);
        // Batches without the slow rule, as the runner has told it.
        let mut left_out: Vec<u64> = Vec::new();
        for round in 0..120 {
            // Dear in the first half; one event in 64 is measured, and counts as often.
            let is_dear = round < 60 && random.u8(0..4) > 0;
            world
                .cost
                .store(if is_dear { 100_000_000 } else { 1_000 }, Ordering::SeqCst);
            let count = random.u64(1..120);
            let before = running.budget.throttled().contains_key("slow");
            world.send(next, count, random.i64(0..30_000)).await;
            // A rule that is throttled in the midst of a batch is left out of the whole batch, or of none of it.
            if before {
                left_out.extend((next..next + count).filter(|offset| offset % 2 == 1));
            }
            next += count;
            world.now.fetch_add(random.i64(0..2 * SECOND), Ordering::SeqCst);
            throttles += running.budget.take_throttled().len();
            if random.u8(0..3) == 0 {
                is_filled_while_running |= running.filler.step().await.unwrap();
            }
            if random.u8(0..30) == 0 {
                running.runner.stop().await;
                running = world.start().await;
            }
        }
        assert!(
            throttles >= 2,
            "the rule must exhaust the budget, and again after its pause: {throttles}"
        );
        // The holes before the last batches are filled: none of the events of these have an alert in excess.
        let holes = world.holes("slow").await;
        assert!(
            !holes.is_empty() && holes.iter().all(|(_, _, is_throttled, _)| *is_throttled),
            "{holes:?}"
        );
        let is_in_hole = |offset: &u64| {
            holes
                .iter()
                .any(|(from, to, ..)| from <= offset && to.is_none_or(|to| *offset < to))
        };
        // Nothing was left out beyond the holes that are recorded.
        let beyond: Vec<&u64> = left_out.iter().filter(|offset| !is_in_hole(offset)).collect();
        assert!(beyond.is_empty(), "{beyond:?} {holes:?}");
        for rule in ["fast", "of-alpha"] {
            assert_eq!(world.holes(rule).await, [], "{rule}");
        }
        // Other rules went on.
        let odd: BTreeMap<u64, u64> = (0..next)
            .filter(|offset| offset % 2 == 1)
            .map(|offset| (offset, 1))
            .collect();
        assert_eq!(world.alerts("fast").await, odd);
        let of_alpha = odd.keys().filter(|offset| *offset % 4 == 1);
        assert_eq!(
            world.alerts("of-alpha").await,
            of_alpha.map(|offset| (*offset, 1)).collect()
        );
        // Before all is filled, what is outside of the holes has its alerts, and nothing twice.
        let found = world.alerts("slow").await;
        let missing: Vec<&u64> = odd
            .keys()
            .filter(|offset| !found.contains_key(offset) && !is_in_hole(offset))
            .collect();
        assert!(
            missing.is_empty(),
            "outside of the holes {holes:?}, events without an alert: {missing:?}"
        );
        let twice: Vec<_> = found.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "{twice:?}");

        // The pauses end, a batch ends the last hole, and time goes by until there is room.
        world.now.fetch_add(400 * SECOND, Ordering::SeqCst);
        world.cost.store(1_000, Ordering::SeqCst);
        world.send(next, 4, 0).await;
        for _ in 0..200 {
            world.now.fetch_add(10 * SECOND, Ordering::SeqCst);
            is_filled_while_running |= running.filler.step().await.unwrap();
        }
        assert!(is_filled_while_running);
        let holes = world.holes("slow").await;
        let open: Vec<_> = holes.iter().filter(|(.., is_filled)| !is_filled).collect();
        assert!(
            open.is_empty(),
            "{open:?} of {holes:?}: {:?}",
            running.budget.unfilled("slow")
        );
        let odd: BTreeMap<u64, u64> = (0..next + 4)
            .filter(|offset| offset % 2 == 1)
            .map(|offset| (offset, 1))
            .collect();
        let found = world.alerts("slow").await;
        let wrong: Vec<u64> = odd
            .keys()
            .filter(|offset| found.get(offset) != Some(&1))
            .copied()
            .collect();
        assert!(wrong.is_empty(), "not one alert: {wrong:?}, holes {holes:?}");
        assert_eq!(found.len(), odd.len());
        running.runner.stop().await;
    });
}

#[test]
fn a_pause_goes_on_after_a_restart_and_its_hole_ends_and_is_filled_without_events() {
    let world = World::new();
    world.node.run(async {
        let mut running = world.start().await;
        world.cost.store(2 * SECOND as u64, Ordering::SeqCst);
        world.send(0, 400, 0).await;
        let throttle = running.budget.take_throttled().remove(0);
        world.cost.store(1_000, Ordering::SeqCst);
        running.filler.step().await.unwrap();
        running.runner.stop().await;

        world.now.fetch_add(SECOND, Ordering::SeqCst);
        running = world.start().await;
        assert_eq!(running.budget.throttles()["slow"].until_ns, throttle.until_ns);
        world.send(400, 20, 0).await;
        assert_eq!(world.holes("slow").await, [(0, None, true, false)]);
        // Stopped again, until the pause is over, and nothing comes any more.
        running.runner.stop().await;
        world.now.store(throttle.until_ns, Ordering::SeqCst);
        running = world.start().await;
        assert!(running.budget.throttled().is_empty());
        for _ in 0..100 {
            world.now.fetch_add(10 * SECOND, Ordering::SeqCst);
            running.filler.step().await.unwrap();
        }
        let holes = world.holes("slow").await;
        assert_eq!(holes.len(), 1, "{holes:?}");
        assert!(holes[0].0 == 0 && holes[0].1.is_some() && holes[0].3, "{holes:?}");
        let odd: BTreeMap<u64, u64> = (0..420)
            .filter(|offset| offset % 2 == 1)
            .map(|offset| (offset, 1))
            .collect();
        assert_eq!(world.alerts("slow").await, odd);
        // What comes then is evaluated, and there is no other hole.
        world.send(420, 4, 0).await;
        assert_eq!(world.holes("slow").await, holes);
        assert_eq!(world.alerts("slow").await.len(), 212);
        running.runner.stop().await;
    });
}

#[test]
fn the_hole_of_a_quiet_pipeline_ends_when_the_pause_does() {
    let world = World::new();
    world.node.run(async {
        let mut running = world.start().await;
        world.cost.store(2 * SECOND as u64, Ordering::SeqCst);
        world.send(0, 400, 0).await;
        world.send(400, 7, 0).await;
        world.cost.store(1_000, Ordering::SeqCst);
        world.now.fetch_add(30 * SECOND, Ordering::SeqCst);
        assert!(!running.filler.step().await.unwrap());
        assert_eq!(world.holes("slow").await, [(0, Some(407), true, false)]);
        world.send(407, 3, 0).await;
        assert_eq!(world.holes("slow").await, [(0, Some(407), true, false)]);
        running.runner.stop().await;
    });
}

#[test]
fn a_hole_stays_with_the_reason_that_it_cannot_be_filled() {
    let world = World::new();
    world.node.run(async {
        let mut running = world.start().await;
        world.cost.store(2 * SECOND as u64, Ordering::SeqCst);
        // Enough events that some are measured.
        world.send(0, 400, 0).await;
        assert_eq!(running.budget.take_throttled().len(), 1);
        world.cost.store(1_000, Ordering::SeqCst);
        world.send(400, 2, 0).await;
        world.now.fetch_add(30 * SECOND, Ordering::SeqCst);
        assert!(running.budget.throttled().is_empty());
        world.send(402, 2, 0).await;
        assert_eq!(world.holes("slow").await, [(0, Some(402), true, false)]);
        // The pipeline is gone, and with it the name of its index.
        running.runner.apply(&BTreeMap::new()).await;
        world.now.fetch_add(30 * SECOND, Ordering::SeqCst);
        assert!(!running.filler.step().await.unwrap());
        let reasons: Vec<String> = running.budget.unfilled("slow").into_values().collect();
        assert_eq!(reasons, ["the pipeline was deleted; run the rule over its indices"]);
        assert_eq!(world.holes("slow").await, [(0, Some(402), true, false)]);
        running.runner.stop().await;
    });
}
