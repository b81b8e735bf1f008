//! Budget of the detection rules of a node: shared by its pipelines, which charge it and leave out the rules that it throttles.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use firn_detect::{BudgetLimits, Charge, CpuClock, Pause, RuleBudget, Throttle};
use firn_model::tenant::TenantId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::sources::Clock;

/// Rules that are not evaluated, with their versions, by id.
pub type Throttled = BTreeMap<String, String>;

/// Where a hole in the coverage of a rule begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolePlace {
    /// Id of the pipeline.
    pub pipeline: String,
    /// Partition; empty: the source has none.
    pub partition: String,
    /// Offset of the first event; `None`: the source has no offsets.
    pub offset: Option<u64>,
    /// When it arrived, RFC 3339.
    pub received: String,
}

/// Why holes are not filled, by their places.
pub type UnfilledHoles = BTreeMap<HolePlace, String>;

/// Throttles that wait for a reader, at most; further ones are in the log and the stats alone.
const NOTICES_MAX: usize = 1_000;

/// Budget of a node. All methods may be called concurrently.
pub struct RuleBudgets {
    clock: Clock,
    cpu_clock: CpuClock,
    state: Mutex<RuleBudget>,
    throttled: ArcSwap<Throttled>,
    /// End of the next pause, nanoseconds since the epoch; `i64::MAX`: no rule is throttled.
    next_end_ns: AtomicI64,
    notices: Mutex<Notices>,
    /// Notified when there are notices.
    noticed: Notify,
    /// By the ids of the rules.
    unfilled: Mutex<BTreeMap<String, UnfilledHoles>>,
}

#[derive(Default)]
struct Notices {
    throttled: Vec<Throttle>,
    resumed: Vec<String>,
    /// Throttles since the start.
    count: u64,
}

impl std::fmt::Debug for RuleBudgets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleBudgets").finish_non_exhaustive()
    }
}

impl RuleBudgets {
    /// Creates the budget of a node. `clock` is that of its pipelines.
    pub fn new(limits: BudgetLimits, clock: Clock, cpu_clock: CpuClock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            cpu_clock,
            state: Mutex::new(RuleBudget::new(limits)),
            throttled: ArcSwap::default(),
            next_end_ns: AtomicI64::new(i64::MAX),
            notices: Mutex::default(),
            noticed: Notify::new(),
            unfilled: Mutex::default(),
        })
    }

    pub(crate) fn cpu_clock(&self) -> CpuClock {
        Arc::clone(&self.cpu_clock)
    }

    /// Returns the rules that are not to be evaluated now. The same value as long as they are the same.
    pub fn throttled(&self) -> Arc<Throttled> {
        let now_ns = (self.clock)();
        if now_ns >= self.next_end_ns.load(Ordering::Acquire) {
            let mut state = self.state.lock();
            let resumed = state.resume(now_ns);
            self.publish(&state);
            drop(state);
            for throttle in &resumed {
                tracing::info!(
                    rule = throttle.rule,
                    "a detection rule is evaluated again after its pause"
                );
            }
            let skipped = resumed.into_iter().filter(|throttle| throttle.is_skipped);
            self.notices
                .lock()
                .resumed
                .extend(skipped.map(|throttle| throttle.rule));
            self.noticed.notify_one();
        }
        self.throttled.load_full()
    }

    /// Adds costs, and throttles what is beyond the budget.
    pub(crate) fn charge<'a>(&self, charges: impl IntoIterator<Item = Charge<'a>>) {
        let now_ns = (self.clock)();
        let mut state = self.state.lock();
        for charge in charges {
            state.charge(now_ns, charge);
        }
        let found = state.throttle(now_ns);
        if found.is_empty() {
            return;
        }
        self.publish(&state);
        drop(state);
        let mut notices = self.notices.lock();
        for throttle in found {
            let owner = throttle.tenant.as_ref().map_or("the operator", TenantId::as_str);
            let percent = |share: f64| format!("{:.2}", share * 100.0);
            let does = match throttle.is_skipped {
                true => "it is not evaluated for a pause",
                false => "it counts several events, and goes on",
            };
            tracing::warn!(
                rule = throttle.rule,
                owner,
                core_percent = percent(throttle.share),
                core_percent_max = percent(throttle.share_max),
                pause_s = (throttle.until_ns - throttle.since_ns) / 1_000_000_000,
                "a detection rule exhausts the budget of its owner: {does}"
            );
            notices.count += 1;
            if notices.throttled.len() < NOTICES_MAX {
                notices.throttled.push(throttle);
            }
        }
        drop(notices);
        self.noticed.notify_one();
    }

    /// Adds costs of a run over stored events, which throttle no rule.
    pub(crate) fn charge_run<'a>(&self, charges: impl IntoIterator<Item = Charge<'a>>) {
        let now_ns = (self.clock)();
        let mut state = self.state.lock();
        for charge in charges {
            state.charge_run(now_ns, charge.tenant, charge.nanos);
        }
    }

    fn publish(&self, state: &RuleBudget) {
        let end_ns = state.next_end_ns().unwrap_or(i64::MAX);
        self.next_end_ns.store(end_ns, Ordering::Release);
        let skipped = state.throttles().filter(|throttle| throttle.is_skipped);
        let throttled: Throttled = skipped
            .map(|throttle| (throttle.rule.clone(), throttle.version.clone()))
            .collect();
        if **self.throttled.load() != throttled {
            self.throttled.store(Arc::new(throttled));
        }
    }

    /// Forgets the rules of which `is_current` does not know the id and version.
    pub(crate) fn retain(&self, is_current: impl Fn(&str, &str) -> bool) {
        let mut state = self.state.lock();
        let before = self.throttled.load_full();
        state.retain(&is_current);
        self.publish(&state);
        drop(state);
        let changed = before.iter().filter(|(id, version)| !is_current(id, version));
        self.notices.lock().resumed.extend(changed.map(|(id, _)| id.clone()));
        self.noticed.notify_one();
    }

    /// Returns the throttles, by the ids of their rules.
    pub fn throttles(&self) -> BTreeMap<String, Throttle> {
        let state = self.state.lock();
        let throttles = state
            .throttles()
            .map(|throttle| (throttle.rule.clone(), throttle.clone()));
        throttles.collect()
    }

    /// Returns the pauses that go on.
    pub(crate) fn pauses(&self) -> Vec<Pause> {
        self.state.lock().pauses()
    }

    /// Goes on with the pauses of a node that was stopped.
    pub fn restore(&self, pauses: Vec<Pause>) {
        let now_ns = (self.clock)();
        let mut state = self.state.lock();
        state.restore(now_ns, pauses);
        self.publish(&state);
    }

    /// Returns the share of a core that each rule has used in the window, by id.
    pub fn shares(&self) -> BTreeMap<String, f64> {
        self.state.lock().shares((self.clock)())
    }

    /// Whether there is room to evaluate a rule of an owner on stored events.
    pub fn has_room(&self, tenant: Option<&TenantId>) -> bool {
        self.state.lock().has_room((self.clock)(), tenant)
    }

    /// Number of throttles since the start.
    pub fn throttle_count(&self) -> u64 {
        self.notices.lock().count
    }

    /// Returns the throttles since the last call, each once.
    pub fn take_throttled(&self) -> Vec<Throttle> {
        std::mem::take(&mut self.notices.lock().throttled)
    }

    /// Returns the rules whose pause has ended since the last call.
    pub fn take_resumed(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock().resumed)
    }

    /// Returns why holes of a rule are not filled, as far as it was tried since the start.
    pub fn unfilled(&self, rule: &str) -> UnfilledHoles {
        self.unfilled.lock().get(rule).cloned().unwrap_or_default()
    }

    pub(crate) fn set_unfilled(&self, rule: &str, holes: UnfilledHoles) {
        let mut unfilled = self.unfilled.lock();
        match holes.is_empty() {
            true => drop(unfilled.remove(rule)),
            false => drop(unfilled.insert(rule.to_owned(), holes)),
        }
    }

    /// Waits until rules were throttled or evaluated again.
    pub async fn noticed(&self) {
        self.noticed.notified().await;
    }
}
