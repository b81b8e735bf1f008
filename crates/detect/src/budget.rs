//! Budget of detection rules: processor time of a tenant's rules over a sliding window, and which rules are throttled beyond it.
//!
//! A rule belongs to its tenant, or, without one, to the operator. If the rules of an owner use more than its share of a core, the most
//! expensive ones are throttled until the others are within the share. A throttled rule is not evaluated for a pause that doubles
//! each time. Rules over several events are named and go on: without some of the events they would raise false alerts
//! (absences, drops of a rate), and no search over stored events can make up for them. Their cost is therefore
//! compared with the share on its own, so that no other rule is throttled because of it.

use std::collections::BTreeMap;

use firn_model::tenant::TenantId;
use serde::{Deserialize, Serialize};

/// Parts of the window. The oldest part is forgotten as a whole.
const PARTS: usize = 20;
/// Longest pause, as a multiple of the first one.
const PAUSE_FACTOR_MAX: i64 = 16;

/// Limits of a budget. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetLimits {
    /// Share of one core for the rules of the operator; `None`: no limit.
    pub operator_share: Option<f64>,
    /// Share of one core for the rules of each tenant; `None`: no limit.
    pub tenant_share: Option<f64>,
    /// Time over which the share counts, positive.
    pub window_ns: i64,
    /// First pause of a throttled rule.
    pub pause_ns: i64,
}

impl BudgetLimits {
    fn share(&self, tenant: Option<&TenantId>) -> Option<f64> {
        match tenant {
            Some(_) => self.tenant_share,
            None => self.operator_share,
        }
    }
}

/// Cost of a rule.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// Id of the rule.
    pub rule: &'a str,
    /// Version of its definition.
    pub version: &'a str,
    /// Tenant of the rule; `None`: the operator's.
    pub tenant: Option<&'a TenantId>,
    /// Whether it counts several events.
    pub counts_events: bool,
    /// Processor time, nanoseconds. An estimate may be below zero.
    pub nanos: i64,
}

/// A rule beyond the budget of its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttle {
    /// Id of the rule.
    pub rule: String,
    /// Version of its definition.
    pub version: String,
    /// Owner; `None`: the operator.
    pub tenant: Option<TenantId>,
    /// Whether it is not evaluated; one that counts several events is.
    pub is_skipped: bool,
    /// Share of a core that it used.
    pub share: f64,
    /// Share of a core that the rules of its owner may use.
    pub share_max: f64,
    /// Since when, nanoseconds since the epoch.
    pub since_ns: i64,
    /// Until when.
    pub until_ns: i64,
}

/// Pause of a throttled rule, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// See [`Throttle`].
    pub rule: String,
    /// Version of its definition.
    pub version: String,
    /// Owner; `None`: the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether it is not evaluated.
    pub is_skipped: bool,
    /// Share of a core that it used.
    pub share: f64,
    /// Share of a core that the rules of its owner may use.
    pub share_max: f64,
    /// Since when, nanoseconds since the epoch.
    pub since_ns: i64,
    /// Until when.
    pub until_ns: i64,
    /// Length of the next pause, nanoseconds.
    pub next_pause_ns: i64,
}

/// Costs over a sliding window.
#[derive(Debug)]
struct Window {
    /// Number of the latest part of the window.
    latest: i64,
    /// Costs by the number of the part, modulo their count.
    parts: [i64; PARTS],
}

impl Window {
    fn new(part: i64) -> Self {
        Self {
            latest: part,
            parts: [0; PARTS],
        }
    }

    fn add(&mut self, part: i64, nanos: i64) {
        self.advance(part);
        let place = self.latest.rem_euclid(PARTS as i64) as usize;
        self.parts[place] = self.parts[place].saturating_add(nanos);
    }

    fn advance(&mut self, part: i64) {
        let steps = part.saturating_sub(self.latest);
        if steps <= 0 {
            return;
        }
        for step in 1..=steps.min(PARTS as i64) {
            self.parts[(self.latest + step).rem_euclid(PARTS as i64) as usize] = 0;
        }
        if steps > PARTS as i64 {
            self.parts = [0; PARTS];
        }
        self.latest = part;
    }

    fn nanos(&self) -> i64 {
        self.parts.iter().sum::<i64>().max(0)
    }
}

/// What is known of a rule.
#[derive(Debug)]
struct Use {
    version: String,
    tenant: Option<TenantId>,
    counts_events: bool,
    window: Window,
    throttle: Option<Throttle>,
    /// Pause of the next throttle.
    next_pause_ns: i64,
    /// End of the last pause.
    resumed_ns: Option<i64>,
}

impl Use {
    fn is_skipped(&self) -> bool {
        self.throttle.as_ref().is_some_and(|throttle| throttle.is_skipped)
    }
}

/// Costs of rules over a sliding window, and the rules that are throttled. The time is handed over, nanoseconds since the epoch.
#[derive(Debug)]
pub struct RuleBudget {
    limits: BudgetLimits,
    rules: BTreeMap<String, Use>,
    /// Costs of runs over stored events, by the owner of the rules.
    runs: BTreeMap<Option<TenantId>, Window>,
}

impl RuleBudget {
    /// Creates a budget of which nothing is used.
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            rules: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    /// Forgets the rules of which `is_current` does not know the id and version: a rule that was changed begins anew.
    pub fn retain(&mut self, is_current: impl Fn(&str, &str) -> bool) {
        self.rules.retain(|id, of_rule| is_current(id, &of_rule.version));
    }

    /// Returns the pauses that go on, by the ids of the rules.
    pub fn pauses(&self) -> Vec<Pause> {
        let pause = |of_rule: &Use| {
            let throttle = of_rule.throttle.as_ref()?;
            Some(Pause {
                rule: throttle.rule.clone(),
                version: throttle.version.clone(),
                tenant: throttle.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
                is_skipped: throttle.is_skipped,
                share: throttle.share,
                share_max: throttle.share_max,
                since_ns: throttle.since_ns,
                until_ns: throttle.until_ns,
                next_pause_ns: of_rule.next_pause_ns,
            })
        };
        self.rules.values().filter_map(pause).collect()
    }

    /// Goes on with the pauses of a node that was stopped. Those of rules that are known stay as they are.
    pub fn restore(&mut self, now_ns: i64, pauses: Vec<Pause>) {
        let part = self.part(now_ns);
        for pause in pauses {
            // The name of a tenant was valid when it was stored.
            let Ok(tenant) = pause.tenant.as_deref().map(TenantId::parse).transpose() else {
                continue;
            };
            let throttle = Throttle {
                rule: pause.rule.clone(),
                version: pause.version.clone(),
                tenant: tenant.clone(),
                is_skipped: pause.is_skipped,
                share: pause.share,
                share_max: pause.share_max,
                since_ns: pause.since_ns,
                until_ns: pause.until_ns,
            };
            self.rules.entry(pause.rule).or_insert_with(|| Use {
                version: pause.version,
                tenant,
                counts_events: !pause.is_skipped,
                window: Window::new(part),
                throttle: Some(throttle),
                next_pause_ns: pause.next_pause_ns,
                resumed_ns: None,
            });
        }
    }

    /// Adds a cost.
    pub fn charge(&mut self, now_ns: i64, charge: Charge<'_>) {
        let part = self.part(now_ns);
        let new = || Use {
            version: charge.version.to_owned(),
            tenant: charge.tenant.cloned(),
            counts_events: charge.counts_events,
            window: Window::new(part),
            throttle: None,
            next_pause_ns: self.limits.pause_ns,
            resumed_ns: None,
        };
        if !self.rules.contains_key(charge.rule) {
            self.rules.insert(charge.rule.to_owned(), new());
        }
        let Some(of_rule) = self.rules.get_mut(charge.rule) else {
            return;
        };
        // A batch of the version before may end late.
        if of_rule.version == charge.version {
            of_rule.window.add(part, charge.nanos);
        }
    }

    /// Adds a cost of a run over stored events. It takes [room](Self::has_room), and throttles no rule.
    pub fn charge_run(&mut self, now_ns: i64, tenant: Option<&TenantId>, nanos: i64) {
        let part = self.part(now_ns);
        let of_owner = self.runs.entry(tenant.cloned());
        of_owner.or_insert_with(|| Window::new(part)).add(part, nanos);
    }

    /// Throttles rules until those of each owner are within its share. Returns the new throttles.
    pub fn throttle(&mut self, now_ns: i64) -> Vec<Throttle> {
        self.advance(now_ns);
        let mut found = Vec::new();
        for (owner, counts_events, nanos_max) in self.beyond() {
            let of_owner = |of_rule: &Use| {
                of_rule.tenant == owner && of_rule.counts_events == counts_events && of_rule.throttle.is_none()
            };
            let own = self.rules.iter().filter(|(_, of_rule)| of_owner(of_rule));
            let mut own: Vec<(i64, String)> = own.map(|(id, of_rule)| (of_rule.window.nanos(), id.clone())).collect();
            own.sort_by(|(one, _), (other, _)| other.cmp(one));
            let mut used: i64 = own.iter().map(|(nanos, _)| nanos).sum();
            for (nanos, id) in own {
                if used <= nanos_max {
                    break;
                }
                used -= nanos;
                let Some(of_rule) = self.rules.get_mut(&id) else {
                    continue;
                };
                let pause_ns = of_rule.next_pause_ns;
                let longest = self.limits.pause_ns.saturating_mul(PAUSE_FACTOR_MAX);
                of_rule.next_pause_ns = pause_ns.saturating_mul(2).min(longest);
                let throttle = Throttle {
                    rule: id,
                    version: of_rule.version.clone(),
                    tenant: owner.clone(),
                    is_skipped: !counts_events,
                    share: nanos as f64 / self.limits.window_ns as f64,
                    share_max: nanos_max as f64 / self.limits.window_ns as f64,
                    since_ns: now_ns,
                    until_ns: now_ns.saturating_add(pause_ns),
                };
                of_rule.throttle = Some(throttle.clone());
                found.push(throttle);
            }
        }
        found
    }

    /// Returns the owners whose rules of one kind, those that count several events or the others, use more than they may, with what they
    /// may use, nanoseconds. Called for each batch.
    fn beyond(&self) -> Vec<(Option<TenantId>, bool, i64)> {
        let mut used: BTreeMap<(Option<&TenantId>, bool), i64> = BTreeMap::new();
        for of_rule in self.rules.values().filter(|of_rule| of_rule.throttle.is_none()) {
            let of_owner = used.entry((of_rule.tenant.as_ref(), of_rule.counts_events));
            *of_owner.or_default() += of_rule.window.nanos();
        }
        let beyond = used.into_iter().filter_map(|((tenant, counts_events), nanos)| {
            let nanos_max = (self.limits.share(tenant)? * self.limits.window_ns as f64) as i64;
            (nanos > nanos_max).then(|| (tenant.cloned(), counts_events, nanos_max))
        });
        beyond.collect()
    }

    /// Ends the throttles whose pause is over, and returns them. Their rules begin with an empty window.
    pub fn resume(&mut self, now_ns: i64) -> Vec<Throttle> {
        let (pause_ns, window_ns) = (self.limits.pause_ns, self.limits.window_ns);
        let mut found = Vec::new();
        for of_rule in self.rules.values_mut() {
            if let Some(throttle) = of_rule.throttle.take_if(|throttle| throttle.until_ns <= now_ns) {
                of_rule.window.parts = [0; PARTS];
                of_rule.resumed_ns = Some(now_ns);
                found.push(throttle);
            } else if of_rule.throttle.is_none()
                && let Some(resumed_ns) = of_rule.resumed_ns
                // It was evaluated for as long as it would pause next.
                && now_ns.saturating_sub(resumed_ns) >= of_rule.next_pause_ns.max(window_ns)
            {
                of_rule.resumed_ns = None;
                of_rule.next_pause_ns = pause_ns;
            }
        }
        found
    }

    /// Returns the end of the next pause; `None`: no rule is throttled.
    pub fn next_end_ns(&self) -> Option<i64> {
        self.throttles().map(|throttle| throttle.until_ns).min()
    }

    /// Returns the throttles, by the ids of the rules.
    pub fn throttles(&self) -> impl Iterator<Item = &Throttle> {
        self.rules.values().filter_map(|of_rule| of_rule.throttle.as_ref())
    }

    /// Returns the share of a core that each rule has used in the window, by id.
    pub fn shares(&mut self, now_ns: i64) -> BTreeMap<String, f64> {
        self.advance(now_ns);
        let share = |of_rule: &Use| of_rule.window.nanos() as f64 / self.limits.window_ns as f64;
        let shares = self.rules.iter().map(|(id, of_rule)| (id.clone(), share(of_rule)));
        shares.collect()
    }

    /// Whether the rules of an owner, in pipelines and in runs, use at most half of its share: there is room to evaluate a rule on stored events.
    pub fn has_room(&mut self, now_ns: i64, tenant: Option<&TenantId>) -> bool {
        self.advance(now_ns);
        let Some(share_max) = self.limits.share(tenant) else {
            return true;
        };
        // What a skipped rule used is over.
        let own = self.rules.values();
        let own = own.filter(|of_rule| of_rule.tenant.as_ref() == tenant && !of_rule.is_skipped());
        let in_pipelines: i64 = own.map(|of_rule| of_rule.window.nanos()).sum();
        let in_runs = self.runs.get(&tenant.cloned()).map_or(0, Window::nanos);
        let used = in_pipelines.saturating_add(in_runs);
        used as f64 <= share_max * self.limits.window_ns as f64 / 2.0
    }

    fn part(&self, now_ns: i64) -> i64 {
        now_ns.div_euclid((self.limits.window_ns / PARTS as i64).max(1))
    }

    fn advance(&mut self, now_ns: i64) {
        let part = self.part(now_ns);
        self.rules.values_mut().for_each(|of_rule| of_rule.window.advance(part));
        self.runs.values_mut().for_each(|window| window.advance(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn limits() -> BudgetLimits {
        BudgetLimits {
            operator_share: Some(1.0),
            tenant_share: Some(0.1),
            window_ns: 60 * SECOND,
            pause_ns: 300 * SECOND,
        }
    }

    fn charge(rule: &str, ms: i64) -> Charge<'_> {
        Charge {
            rule,
            version: "v",
            tenant: None,
            counts_events: false,
            nanos: ms * 1_000_000,
        }
    }

    fn named(throttles: &[Throttle]) -> Vec<&str> {
        throttles.iter().map(|throttle| throttle.rule.as_str()).collect()
    }

    #[test]
    fn the_most_expensive_rules_are_throttled_until_the_others_are_within_the_share() {
        let mut budget = RuleBudget::new(limits());
        for (rule, ms) in [("a", 20_000), ("b", 30_000), ("c", 25_000), ("d", 5_000)] {
            budget.charge(0, charge(rule, ms));
        }
        let found = budget.throttle(SECOND);
        assert_eq!(named(&found), ["b"]);
        assert_eq!((found[0].share, found[0].share_max), (0.5, 1.0));
        assert_eq!((found[0].since_ns, found[0].until_ns), (SECOND, 301 * SECOND));
        assert!(budget.throttle(SECOND).is_empty());
        budget.charge(2 * SECOND, charge("d", 50_000));
        assert_eq!(named(&budget.throttle(2 * SECOND)), ["d"]);
        // What was used is forgotten with the window.
        budget.charge(62 * SECOND, charge("a", 59_000));
        assert!(budget.throttle(62 * SECOND).is_empty());
    }

    #[test]
    fn owners_have_budgets_of_their_own() {
        let tenants = ["alpha", "bravo"].map(|name| TenantId::parse(name).unwrap());
        let of = |place: usize, rule: &'static str, ms| Charge {
            tenant: Some(&tenants[place]),
            ..charge(rule, ms)
        };
        let mut budget = RuleBudget::new(limits());
        budget.charge(0, of(0, "a", 7_000));
        budget.charge(0, of(1, "b", 5_000));
        budget.charge(0, charge("operator", 50_000));
        assert_eq!(named(&budget.throttle(0)), ["a"]);
        assert!(!budget.has_room(0, Some(&tenants[1])));
        assert!(
            budget.has_room(0, Some(&tenants[0])),
            "the throttled rule uses nothing any more"
        );
        let unlimited = BudgetLimits {
            tenant_share: None,
            ..limits()
        };
        let mut budget = RuleBudget::new(unlimited);
        budget.charge(0, of(0, "a", 70_000));
        assert!(budget.throttle(0).is_empty() && budget.has_room(0, Some(&tenants[0])));
    }

    #[test]
    fn pauses_double_until_a_rule_keeps_within_the_share() {
        let mut budget = RuleBudget::new(limits());
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            budget.charge(now, charge("a", 61_000));
            let throttle = budget.throttle(now).remove(0);
            assert!(budget.resume(throttle.until_ns - 1).is_empty());
            pauses.push((throttle.until_ns - throttle.since_ns) / (300 * SECOND));
            assert_eq!(budget.next_end_ns(), Some(throttle.until_ns));
            now = throttle.until_ns;
            assert_eq!(budget.resume(now), [throttle]);
            assert!(budget.throttle(now).is_empty(), "it begins with an empty window");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        now += 16 * 300 * SECOND;
        assert!(budget.resume(now).is_empty());
        budget.charge(now, charge("a", 61_000));
        let throttle = budget.throttle(now).remove(0);
        assert_eq!(throttle.until_ns - throttle.since_ns, 300 * SECOND);
    }

    #[test]
    fn rules_over_several_events_are_named_and_go_on_and_no_other_rule_suffers() {
        let mut budget = RuleBudget::new(limits());
        let counting = Charge {
            counts_events: true,
            ..charge("w", 61_000)
        };
        budget.charge(0, counting);
        budget.charge(0, charge("a", 30_000));
        let found = budget.throttle(0);
        assert_eq!(named(&found), ["w"]);
        assert!(!found[0].is_skipped);
        assert!(budget.throttle(0).is_empty(), "it is named once in a pause");
    }

    #[test]
    fn runs_take_room_and_throttle_no_rule() {
        let mut budget = RuleBudget::new(limits());
        budget.charge(0, charge("a", 20_000));
        assert!(budget.has_room(0, None));
        budget.charge_run(0, None, 90 * SECOND);
        assert!(budget.throttle(0).is_empty());
        assert!(!budget.has_room(0, None) && !budget.has_room(59 * SECOND, None));
        assert!(budget.has_room(61 * SECOND, None));
    }

    #[test]
    fn a_pause_goes_on_in_the_next_process() {
        let mut budget = RuleBudget::new(limits());
        budget.charge(0, charge("a", 61_000));
        let first = budget.throttle(0).remove(0);
        budget.resume(first.until_ns);
        budget.charge(first.until_ns, charge("a", 61_000));
        let second = budget.throttle(first.until_ns).remove(0);
        let stored = serde_json::to_string(&budget.pauses()).unwrap();
        let mut next = RuleBudget::new(limits());
        next.restore(second.since_ns + 1, serde_json::from_str(&stored).unwrap());
        assert_eq!(next.throttles().collect::<Vec<_>>(), [&second]);
        assert_eq!(next.resume(second.until_ns), std::slice::from_ref(&second));
        // The next one is longer, as if the node had not been stopped.
        next.charge(second.until_ns, charge("a", 61_000));
        let third = next.throttle(second.until_ns).remove(0);
        assert_eq!(third.until_ns - third.since_ns, 4 * 300 * SECOND);
    }

    #[test]
    fn a_changed_rule_begins_anew() {
        let mut budget = RuleBudget::new(limits());
        budget.charge(0, charge("a", 61_000));
        assert_eq!(named(&budget.throttle(0)), ["a"]);
        budget.retain(|id, version| (id, version) == ("a", "v"));
        assert_eq!(budget.throttles().count(), 1);
        budget.retain(|id, version| (id, version) == ("a", "w"));
        assert_eq!(budget.throttles().count(), 0);
        let changed = Charge {
            version: "w",
            ..charge("a", 1_000)
        };
        budget.charge(0, changed);
        // A batch of the old version ends late.
        budget.charge(0, charge("a", 61_000));
        assert!(budget.throttle(0).is_empty());
        assert!((budget.shares(0)["a"] - 1.0 / 60.0).abs() < 1e-9);
    }
}
