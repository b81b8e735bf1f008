//! Costs of the detection rules of one pipeline since its start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firn_detect::{Charge, DetectionRule};
use parking_lot::Mutex;

/// Cost of a rule in one pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCost {
    /// Processor time of its conditions and exceptions, nanoseconds; estimated from a sample of the events.
    pub nanos: u64,
    /// Events since its first cost, without those that it was not evaluated on because of the budget.
    pub events: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RuleCosts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    events: u64,
    by_rule: HashMap<String, Cost>,
}

#[derive(Debug)]
struct Cost {
    nanos: i64,
    /// Events of the pipeline before the first cost, and those without the rule since then.
    other_events: u64,
}

/// Costs of some events, by the ids of the rules.
#[derive(Default)]
pub(super) struct Pending(BTreeMap<String, (Arc<DetectionRule>, i64)>);

impl Pending {
    pub(super) fn add(&mut self, rule: &Arc<DetectionRule>, nanos: i64) {
        match self.0.get_mut(&rule.rule.id) {
            Some((_, sum)) => *sum = sum.saturating_add(nanos),
            None => drop(self.0.insert(rule.rule.id.clone(), (Arc::clone(rule), nanos))),
        }
    }

    pub(super) fn charges(&self) -> impl Iterator<Item = Charge<'_>> {
        self.0.iter().map(|(id, (rule, nanos))| Charge {
            rule: id,
            version: &rule.version,
            tenant: rule.tenant.as_ref(),
            counts_events: rule.window.is_some(),
            nanos: *nanos,
        })
    }
}

impl RuleCosts {
    pub(super) fn add(&self, pending: &Pending) {
        let mut state = self.0.lock();
        let before = state.events;
        for (id, (_, nanos)) in &pending.0 {
            match state.by_rule.get_mut(id) {
                Some(cost) => cost.nanos = cost.nanos.saturating_add(*nanos),
                None => {
                    let cost = Cost {
                        nanos: *nanos,
                        other_events: before,
                    };
                    state.by_rule.insert(id.clone(), cost);
                }
            }
        }
    }

    /// Counts the events of a batch, on which the rules were evaluated but for those of `skipped`.
    pub(super) fn add_events(&self, events: u64, skipped: &BTreeMap<String, String>) {
        let mut state = self.0.lock();
        state.events += events;
        for id in skipped.keys() {
            if let Some(cost) = state.by_rule.get_mut(id) {
                cost.other_events += events;
            }
        }
    }

    /// Forgets rules that are not evaluated any more.
    pub(super) fn retain(&self, is_evaluated: impl Fn(&str) -> bool) {
        self.0.lock().by_rule.retain(|id, _| is_evaluated(id));
    }

    /// Returns the costs by the ids of the rules.
    pub(super) fn get(&self) -> BTreeMap<String, RuleCost> {
        let state = self.0.lock();
        let costs = state.by_rule.iter().map(|(id, cost)| {
            let cost = RuleCost {
                nanos: cost.nanos.max(0).unsigned_abs(),
                events: state.events.saturating_sub(cost.other_events),
            };
            (id.clone(), cost)
        });
        costs.collect()
    }
}
