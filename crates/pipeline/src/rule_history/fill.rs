//! Filling the holes that the budget of rules leaves: the rule is run over the stored events of the hole once its owner has room.
//!
//! A step is bounded, and each one looks at the budget anew. What cannot be filled stays a hole, with a reason.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firn_detect::{DetectionRule, HistoryCount, Input, Mark, Pause, history_search};
use firn_engine::{Engine, RequestContext, Scope};
use firn_model::dates::DateFormat;
use firn_model::metadata::Metadata;
use firn_model::names::{IndicesOptions, matches_pattern};
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::IndexTarget;
use serde_json::{Map, Value};

use super::ledger::{self, Hole, PartitionCoverage, RuleLedger, SharedEngine};
use super::stored_run::{RunOutcome, RunReport, StoredRun};
use super::unevaluated::Unevaluated;
use crate::rule_budget::{HolePlace, RuleBudgets, UnfilledHoles};
use crate::run_mark::RunMark;
use crate::runner::Runner;
use crate::sources::Clock;

/// Events of one step: one page. A step may take more than the room that there is.
const EVENTS_MAX: u64 = 500;
/// If the node was stopped in a hole, the times of its events are not known. They are looked for from that long before their arrival
/// on.
const LATE_MS: i64 = 3_600_000;
/// The same behind it: the clock of a sender may be ahead.
const EARLY_MS: i64 = 60_000;
/// Pause before a rule whose holes go on is looked at again, and the longest one.
const AGAIN_AFTER_NS: i64 = 1_000_000_000;
const AGAIN_AFTER_MAX_NS: i64 = 60 * AGAIN_AFTER_NS;
/// How often the whole ledger is looked at: a hole that could not be filled may be now.
const ALL_AGAIN_AFTER_NS: i64 = 3600 * AGAIN_AFTER_NS;

/// Limits of filling.
#[derive(Debug, Clone, Copy)]
pub struct FillLimits {
    /// Most bytes that a step fetches from snapshot repositories.
    pub fetch_bytes_max: u64,
    /// How long after its end a hole is filled, nanoseconds: the alerts of the events around it must be stored.
    pub settle_ns: i64,
}

/// Fills holes. Runs in one task.
pub struct HoleFiller {
    engine: SharedEngine,
    runner: Arc<Runner>,
    budget: Arc<RuleBudgets>,
    clock: Clock,
    limits: FillLimits,
    /// Rules that may have holes.
    waiting: BTreeMap<String, Wait>,
    /// Versions of the rules that do not wait, as their holes were looked at last; `None`: there was no such rule.
    settled: BTreeMap<String, Option<String>>,
    /// Rules that `settled` was compared with last.
    rules: Option<Arc<[Arc<DetectionRule>]>>,
    /// How far holes are filled.
    progress: HashMap<(String, HolePlace), Progress>,
    /// When the ledger is read as a whole again.
    next_all_ns: i64,
    /// Pauses that are stored.
    stored_pauses: Vec<Pause>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    until_ns: i64,
    pause_ns: i64,
}

#[derive(Debug, Clone, PartialEq)]
struct Progress {
    version: String,
    /// Times of the events of the hole, ms since the epoch, as they were when it was begun.
    times_ms: (i64, i64),
    /// Place of the next event; `None`: all were read, of a hole that goes on or that cannot be filled.
    next: Option<RunMark>,
    is_certain: bool,
    /// Events on which the rule could not be evaluated.
    not_evaluated: Unevaluated,
    /// Why it cannot be filled although all were read, and when it is read again, nanoseconds since the epoch.
    cannot: Option<(String, i64)>,
}

/// What became of a hole, or of a rule.
enum Filled {
    /// A step was done; others may follow.
    Step,
    /// It is to be looked at later.
    Later,
    /// There is nothing to fill.
    Done,
    /// It cannot be filled.
    Cannot(String),
}

impl HoleFiller {
    /// Creates the filler of a node whose pipelines have a budget.
    pub fn new(
        engine: SharedEngine,
        runner: Arc<Runner>,
        budget: Arc<RuleBudgets>,
        clock: Clock,
        limits: FillLimits,
    ) -> Self {
        Self {
            engine,
            runner,
            budget,
            clock,
            limits,
            waiting: BTreeMap::new(),
            settled: BTreeMap::new(),
            rules: None,
            progress: HashMap::new(),
            next_all_ns: i64::MIN,
            stored_pauses: Vec::new(),
        }
    }

    /// Does one bounded step, if there is anything to fill and room for it. Returns whether it did.
    ///
    /// # Errors
    /// Of the engine, for the log: the step is done again later.
    pub async fn step(&mut self) -> Result<bool> {
        let now_ns = (self.clock)();
        // Ends pauses, also without events.
        let throttled = self.budget.throttled();
        for id in self.budget.take_resumed() {
            self.waiting.insert(id, Wait::default());
        }
        self.look_at_changed_rules();
        let pauses = self.budget.pauses();
        if pauses != self.stored_pauses {
            self.runner.store_pauses(&pauses).await?;
            self.stored_pauses = pauses;
        }
        if now_ns >= self.next_all_ns {
            for id in ledger::throttled_rules(&*self.engine).await? {
                self.waiting.entry(id).or_default();
            }
            self.next_all_ns = now_ns.saturating_add(ALL_AGAIN_AFTER_NS);
        }
        let due = self.waiting.iter().filter(|(id, wait)| {
            // A rule that is throttled again is looked at when that ends.
            wait.until_ns <= now_ns && !throttled.contains_key(*id)
        });
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let rule = self.runner.rule(&id);
            let tenant = rule.as_ref().and_then(|rule| rule.tenant.as_ref());
            if !self.budget.has_room(tenant) {
                continue;
            }
            let filled = match &rule {
                Some(rule) => self.fill(rule).await,
                None => self.of_unknown_rule(&id).await,
            };
            match filled {
                Ok(Filled::Step) => {
                    self.waiting.insert(id, Wait::default());
                    return Ok(true);
                }
                Ok(Filled::Later) => self.later(&id, now_ns),
                Ok(Filled::Done | Filled::Cannot(_)) => {
                    self.waiting.remove(&id);
                    self.settled.insert(id.clone(), rule.map(|rule| rule.version.clone()));
                    self.progress.retain(|(rule, _), _| *rule != id);
                }
                Err(error) => {
                    self.later(&id, now_ns);
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    /// Looks at the holes of rules again that were changed since: one that is enabled again can be filled.
    fn look_at_changed_rules(&mut self) {
        let rules = self.runner.rules();
        if self.rules.as_ref().is_some_and(|last| Arc::ptr_eq(last, &rules)) {
            return;
        }
        let versions: HashMap<&str, &str> = rules
            .iter()
            .map(|rule| (rule.rule.id.as_str(), rule.version.as_str()))
            .collect();
        let waiting = &mut self.waiting;
        self.settled.retain(|id, version| {
            let is_same = versions.get(id.as_str()).copied() == version.as_deref();
            if !is_same {
                waiting.insert(id.clone(), Wait::default());
            }
            is_same
        });
        self.rules = Some(rules);
    }

    /// After a start, stored rules are not set yet.
    async fn of_unknown_rule(&self, id: &str) -> Result<Filled> {
        let metadata = self.engine.metadata(&RequestContext::new()).await?;
        Ok(match metadata.detection_rules.by_id.contains_key(id) {
            true => Filled::Later,
            false => Filled::Done,
        })
    }

    fn later(&mut self, id: &str, now_ns: i64) {
        let wait = self.waiting.entry(id.to_owned()).or_default();
        wait.pause_ns = (wait.pause_ns * 2).clamp(AGAIN_AFTER_NS, AGAIN_AFTER_MAX_NS);
        wait.until_ns = now_ns.saturating_add(wait.pause_ns);
    }

    /// Does one step of the first hole of a rule that is not filled.
    async fn fill(&mut self, rule: &DetectionRule) -> Result<Filled> {
        let id = rule.rule.id.as_str();
        let ledger = RuleLedger::read(&*self.engine, id).await?;
        let metadata = self.engine.metadata(&RequestContext::new()).await?;
        // A part of a correlation has no definition of its own, and needs none: it reads records.
        let body = metadata.detection_rules.by_id.get(id).map(|body| &**body);
        let query = match history_search(rule, body.unwrap_or(&Map::new())) {
            Ok(search) if matches!(search.count, HistoryCount::Events | HistoryCount::Records) => Ok(search.query),
            Ok(_) => Err("the rule counts several events: only a pipeline evaluates it".to_owned()),
            Err(reason) => Err(reason),
        };
        let mut unfilled = UnfilledHoles::new();
        let (mut is_later, mut has_stepped) = (false, false);
        for of_partition in ledger.partitions() {
            let Some(definition) = self.runner.definition(&of_partition.pipeline) else {
                // After a start, stored pipelines are not set yet.
                if metadata.event_pipelines.by_id.contains_key(&of_partition.pipeline) {
                    is_later = true;
                    continue;
                }
                for hole in of_partition.holes().filter(|hole| hole.interval.is_throttled) {
                    let reason = "the pipeline was deleted; run the rule over its indices";
                    unfilled.insert(place_of(&of_partition, &hole), reason.to_owned());
                }
                continue;
            };
            let indices = definition.event_indices().to_vec();
            let without_tenants = rule
                .tenant
                .as_ref()
                .and_then(|_| index_without_tenants(&metadata, &indices));
            let query = match without_tenants {
                Some(index) => Err(reason_without_tenants(&index)),
                None => query.clone(),
            };
            for hole in of_partition.holes().filter(|hole| hole.interval.is_throttled) {
                if ledger.is_filled(&hole, &indices) {
                    continue;
                }
                let place = place_of(&of_partition, &hole);
                let filled = match &query {
                    _ if has_stepped => Filled::Later,
                    Err(reason) => Filled::Cannot(reason.clone()),
                    Ok(query) => self.fill_hole(rule, query, &place, &hole, &indices).await?,
                };
                match filled {
                    Filled::Step => has_stepped = true,
                    Filled::Later => is_later = true,
                    Filled::Done => {}
                    Filled::Cannot(reason) => drop(unfilled.insert(place, reason)),
                }
            }
        }
        self.budget.set_unfilled(id, unfilled);
        Ok(match (has_stepped, is_later) {
            (true, _) => Filled::Step,
            (false, true) => Filled::Later,
            (false, false) => Filled::Done,
        })
    }

    async fn fill_hole(
        &mut self,
        rule: &DetectionRule,
        query: &Value,
        place: &HolePlace,
        hole: &Hole<'_>,
        indices: &[String],
    ) -> Result<Filled> {
        // Without events, the hole of a rule that is evaluated again would have no end, and a version that was set since would not be known.
        let is_open = hole.interval.to.is_none() || !hole.next_versions.contains(&rule.version.as_str());
        if is_open && self.runner.note_quiet(&place.pipeline, &rule.rule.id).await? {
            return Ok(Filled::Later);
        }
        let key = (rule.rule.id.clone(), place.clone());
        let now_ns = (self.clock)();
        let known = self.progress.get(&key).filter(|known| {
            let is_over = known.cannot.as_ref().is_some_and(|(_, again_ns)| now_ns >= *again_ns);
            known.version == rule.version && !is_over
        });
        if let Some((reason, _)) = known.and_then(|known| known.cannot.as_ref()) {
            return Ok(Filled::Cannot(reason.clone()));
        }
        let is_new = known.is_none();
        let mut progress = match known {
            Some(known) => known.clone(),
            None => match self.begin(rule, hole, indices) {
                Ok(progress) => progress,
                Err(filled) => return Ok(filled),
            },
        };
        let Some(next) = progress.next else {
            // The hole went on when it was filled. Events after that have one of their own, or end this one.
            if hole.interval.to.is_some() {
                self.progress.remove(&key);
            }
            return Ok(Filled::Later);
        };
        let scope = Arc::new(rule.tenant.clone().map_or_else(Scope::operator, Scope::tenant));
        let records = match rule.input {
            Input::Record => Some(self.runner.record_rule(rule, &scope).await?),
            Input::Event => None,
        };
        let run = StoredRun {
            engine: &self.engine,
            ctx: RequestContext {
                scope,
                ..RequestContext::new()
            },
            target: IndexTarget {
                expression: indices.to_vec(),
                options: IndicesOptions {
                    ignore_unavailable: true,
                    ..IndicesOptions::default()
                },
            },
            rule,
            query,
            records: records.as_ref(),
            from: next,
            to_ms: progress.times_ms.1,
            fetch_bytes_max: self.limits.fetch_bytes_max,
        };
        if is_new && let RunOutcome::TooDear(cost) = run.check_cost().await? {
            return Ok(Filled::Cannot(format!(
                "it would fetch {} bytes from snapshot repositories; run the rule by hand",
                cost.bytes
            )));
        }
        let running = match self.runner.start_rule_run(rule).await {
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(Filled::Later),
            running => running?,
        };
        let report = run.run(&running, EVENTS_MAX).await?;
        if let Some(failure) = report.failure {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("a hole of detection rule [{}] cannot be read: {failure}", rule.rule.id),
            ));
        }
        progress.is_certain &= report.is_certain_but_for_records();
        progress.not_evaluated.merge(report.not_evaluated.clone());
        progress.next = report.continue_from;
        if progress.next.is_some() || hole.interval.to.is_none() {
            self.progress.insert(key, progress);
            return Ok(Filled::Step);
        }
        if let Some(reason) = why_uncertain(&progress, &report) {
            // Until it is read again, other holes of the rule are.
            progress.cannot = Some((reason.clone(), now_ns.saturating_add(ALL_AGAIN_AFTER_NS)));
            self.progress.insert(key, progress);
            return Ok(Filled::Cannot(reason));
        }
        let (from, to) = progress.times_ms;
        let marks = (RunMark::at_ms(from), RunMark::at_ms(to));
        running.complete(&indices.join(","), marks).await?;
        self.progress.remove(&key);
        tracing::info!(
            rule = rule.rule.id,
            pipeline = place.pipeline,
            partition = place.partition,
            "a hole that the budget of detection rules left is filled"
        );
        Ok(Filled::Step)
    }

    /// Returns the beginning of a hole that is to be filled.
    fn begin(
        &self,
        rule: &DetectionRule,
        hole: &Hole<'_>,
        indices: &[String],
    ) -> std::result::Result<Progress, Filled> {
        if !rule.enabled {
            return Err(Filled::Cannot("the rule is disabled; run it by hand".to_owned()));
        }
        let is_other = |id: &String| {
            let definition = self.runner.definition(id);
            !rule.is_for_pipeline(id)
                && definition.is_some_and(|other| other.event_indices().iter().any(|index| indices.contains(index)))
        };
        if let Some(other) = self.runner.ids().into_iter().find(is_other) {
            return Err(Filled::Cannot(format!(
                "the pipeline [{other}], which the rule is not for, stores its events in the same index; run the rule by hand"
            )));
        }
        let Some(from_ms) = arrival_ms(&hole.interval.from) else {
            return Err(Filled::Cannot("its beginning cannot be read".to_owned()));
        };
        let settled_ms = ((self.clock)() - self.limits.settle_ns) / 1_000_000;
        let to_ms = match &hole.interval.to {
            None => settled_ms,
            Some(to) => {
                let Some(to_ms) = arrival_ms(to) else {
                    return Err(Filled::Cannot("its end cannot be read".to_owned()));
                };
                // A version that was set since is known once the pipeline evaluates it.
                if to_ms >= settled_ms || !hole.next_versions.contains(&rule.version.as_str()) {
                    return Err(Filled::Later);
                }
                (to_ms + EARLY_MS).min(settled_ms)
            }
        };
        let (from_ms, to_ms) = match hole.interval.times_ms {
            Some((first_ms, last_ms)) => (first_ms, last_ms + 1),
            None => (from_ms - LATE_MS, to_ms),
        };
        if from_ms >= to_ms {
            return Err(Filled::Later);
        }
        Ok(Progress {
            version: rule.version.clone(),
            times_ms: (from_ms, to_ms),
            next: Some(RunMark::at_ms(from_ms)),
            is_certain: true,
            not_evaluated: Unevaluated::default(),
            cannot: None,
        })
    }
}

/// Goes on with the pauses of rules that were stored before the node was stopped. Before the first event is evaluated.
///
/// # Errors
/// What is stored cannot be read.
pub async fn restore_pauses(engine: &dyn Engine, budget: &RuleBudgets) -> Result<()> {
    budget.restore(ledger::stored_pauses(engine).await?);
    Ok(())
}

/// Returns an index among those of these names that does not hold events by tenant: a run for one tenant cannot read it.
pub fn index_without_tenants(metadata: &Metadata, names: &[String]) -> Option<String> {
    let is_excluded = |name: &str| {
        let mut excluded = names.iter().filter_map(|pattern| pattern.strip_prefix('-'));
        excluded.any(|pattern| matches_pattern(pattern, name))
    };
    // Wildcards stand for no hidden index.
    let is_named = |name: &str| {
        let mut included = names
            .iter()
            .filter(|pattern| !name.starts_with('.') || pattern.starts_with('.') || !pattern.contains('*'));
        included.any(|pattern| matches_pattern(pattern, name)) && !is_excluded(name)
    };
    let mut indices = metadata.indices.values();
    let found = indices.find(|index| {
        let mut aliases = index.aliases.keys();
        index.settings.tenant_field.is_none()
            && (is_named(&index.name)
                || index.data_stream.as_deref().is_some_and(is_named)
                || aliases.any(|alias| is_named(alias)))
    });
    found.map(|index| index.name.clone())
}

/// Says why a run of the rule of a tenant cannot read an index.
pub fn reason_without_tenants(index: &str) -> String {
    format!("the rule is for one tenant, and [{index}] does not hold events by tenant ([index.tenant.field])")
}

fn place_of(of_partition: &PartitionCoverage, hole: &Hole<'_>) -> HolePlace {
    HolePlace {
        pipeline: of_partition.pipeline.clone(),
        partition: of_partition.partition.clone(),
        offset: hole.interval.from.offset,
        received: hole.interval.from.received.clone(),
    }
}

/// Returns why a hole is not filled of which all events were read; `None`: it is.
fn why_uncertain(progress: &Progress, last: &RunReport) -> Option<String> {
    if progress.not_evaluated.events > 0 {
        let reason = progress.not_evaluated.describe();
        return Some(format!("alerts of the other events were raised, but {reason}"));
    }
    let reason = match last.without_time {
        _ if progress.is_certain => return None,
        Some(0) => {
            "alerts were raised, but some events are in the time of an alert of their group, which may count them"
        }
        Some(_) => "alerts were raised, but some events that match have no time",
        None => {
            "alerts were raised, but events without a time cannot be counted without fetching much from snapshot repositories"
        }
    };
    Some(reason.to_owned())
}

fn arrival_ms(mark: &Mark) -> Option<i64> {
    DateFormat::default_millis().parse_ms(&mark.received).ok()
}
