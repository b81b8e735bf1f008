//! Changes of rules while pipelines run, over a destination that holds one of them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use firn_detect::{BudgetLimits, DetectionRule, Pause};
use firn_engine::Scope;
use firn_engine::document::{BulkItemResponse, BulkRequest, BulkResponse, Effect, Written};
use firn_engine::origin::SourcePosition;
use firn_model::{Error, Result};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Connectors, Destination, PushedEvent, Runner};
use crate::rule_budget::RuleBudgets;

/// Index whose bulks wait while the destination is closed.
const HELD: &str = "held";

/// Destination that stores nothing.
struct Gate {
    is_open: watch::Sender<bool>,
    /// Number of bulks of [`HELD`] that have come.
    arrived: watch::Sender<usize>,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            is_open: watch::channel(true).0,
            arrived: watch::channel(0).0,
        })
    }
}

#[async_trait]
impl Destination for Gate {
    async fn bulk(&self, _: &Arc<Scope>, request: BulkRequest) -> Result<BulkResponse> {
        if request.items.iter().any(|item| item.index == HELD) {
            self.arrived.send_modify(|count| *count += 1);
            let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        }
        let written = |index: String| BulkItemResponse {
            index,
            id: String::new(),
            result: Ok(Written {
                effect: Effect::Created,
                version: 1,
                seq_no: 0,
                primary_term: 1,
                forced_refresh: false,
                get: None,
            }),
        };
        Ok(BulkResponse {
            items: request.items.into_iter().map(|item| written(item.index)).collect(),
        })
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

fn rule(id: &str, members: Value) -> Arc<DetectionRule> {
    let mut body = json!({"type": "query", "name": id, "query": "a: 1"});
    let members = members.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    Arc::new(DetectionRule::parse(id, body.as_object().unwrap()).unwrap())
}

/// Starts a runner with pipelines that take events by requests and store them in an index of their name.
async fn runner(gate: &Arc<Gate>, budget: Option<Arc<RuleBudgets>>, pipelines: &[&str]) -> Arc<Runner> {
    let connectors = Connectors::of_sources(Arc::new(|_| Err(Error::internal("no source"))));
    let destination = Arc::clone(gate) as Arc<dyn Destination>;
    let runner = Runner::with_budget(destination, connectors, Arc::new(|| 7), 2, budget);
    let body = |id: &&str| {
        let body = json!({"source": {"type": "http"}, "index": id});
        ((*id).to_owned(), Arc::new(body.as_object().unwrap().clone()))
    };
    runner.apply(&pipelines.iter().map(body).collect()).await;
    runner
}

/// Waits until pipelines evaluate a rule.
async fn wait_for(runner: &Runner, rule: &str, pipelines: &[&str], within: Duration) {
    let is_evaluated = async || {
        while runner
            .rule_coverage()
            .get(rule)
            .is_none_or(|of_rule| of_rule.evaluated_by != pipelines)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(within, is_evaluated()).await;
    assert!(ended.is_ok(), "{rule}: {:?}", runner.rule_coverage());
}

#[tokio::test]
async fn a_pipeline_that_stops_slowly_does_not_keep_others_from_new_rules() {
    let gate = Gate::new();
    let runner = runner(&gate, None, &[HELD, "other"]).await;
    runner
        .set_rules(vec![rule("first", json!({}))], Vec::new())
        .await
        .unwrap();
    gate.is_open.send_replace(false);
    let sending = tokio::spawn({
        let runner = Arc::clone(&runner);
        let events: Vec<PushedEvent> = vec![Bytes::from_static(b"{\"@timestamp\":0,\"a\":1}").into()];
        async move { runner.submit(HELD, events).await }
    });
    gate.arrived.subscribe().wait_for(|count| *count > 0).await.unwrap();

    // A rule that counts events makes its pipeline start anew, which waits for the events that were taken.
    let threshold = json!({"type": "threshold", "window": "1m", "threshold": {"count": 2}, "pipelines": [HELD]});
    let rules = vec![
        rule("first", json!({})),
        rule("second", json!({})),
        rule("count", threshold),
    ];
    let setting = tokio::spawn({
        let runner = Arc::clone(&runner);
        async move { runner.set_rules(rules, Vec::new()).await }
    });
    wait_for(&runner, "second", &["other"], Duration::from_secs(3)).await;
    assert!(!setting.is_finished(), "the pipeline does not wait for its events");
    gate.is_open.send_replace(true);
    setting.await.unwrap().unwrap();
    sending.await.unwrap().unwrap();
    let enough = Duration::from_secs(20);
    wait_for(&runner, "second", &[HELD, "other"], enough).await;
    wait_for(&runner, "count", &[HELD], enough).await;
    runner.stop().await;
}

#[tokio::test]
async fn a_pause_that_was_restored_ends_in_the_stats_without_an_event() {
    // The other one of both is looked at later: it may find what the first one has made.
    for is_status_first in [true, false] {
        check_end_of_pause(is_status_first).await;
    }
}

async fn check_end_of_pause(is_status_first: bool) {
    let paused = rule("paused", json!({}));
    let now_ns = Arc::new(AtomicI64::new(1));
    let limits = BudgetLimits {
        operator_share: Some(0.5),
        tenant_share: Some(0.5),
        window_ns: 10,
        pause_ns: 100,
    };
    let clock = {
        let now_ns = Arc::clone(&now_ns);
        Arc::new(move || now_ns.load(Ordering::Relaxed))
    };
    let budget = RuleBudgets::new(limits, clock, Arc::new(|_| 0));
    budget.restore(vec![Pause {
        rule: "paused".to_owned(),
        version: paused.version.clone(),
        tenant: None,
        is_skipped: true,
        share: 0.75,
        share_max: 0.5,
        since_ns: 0,
        until_ns: 100,
        next_pause_ns: 200,
    }]);
    let runner = runner(&Gate::new(), Some(budget), &["p"]).await;
    runner
        .set_rules(vec![paused, rule("other", json!({}))], Vec::new())
        .await
        .unwrap();
    let evaluated = async || runner.status("p").await.unwrap().rules.unwrap().evaluated;
    let places = || {
        let coverage = runner.rule_coverage();
        let of_rule = coverage.get("paused").cloned().unwrap_or_default();
        (of_rule.evaluated_by, of_rule.throttled_in)
    };
    let is = |evaluated: &[&str], throttled: &[&str]| {
        let names = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        (names(evaluated), names(throttled))
    };
    assert_eq!((evaluated().await, places()), (1, is(&[], &["p"])));
    now_ns.store(100, Ordering::Relaxed);
    if is_status_first {
        assert_eq!(evaluated().await, 2);
    }
    assert_eq!(places(), is(&["p"], &[]));
    assert_eq!(evaluated().await, 2);
    runner.stop().await;
}
