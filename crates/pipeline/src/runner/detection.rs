//! Detection rules of one pipeline: evaluated on each event before it is stored, and the alerts that its matches raise.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_detect::{
    Audience, DetectionRule, Evaluator, EventPlace, Input, LogSources, MaintenanceWindows, RuleSet, Unmapped,
    WindowKind, alert, channels_of, without_event,
};
use firn_model::dates::DateFormat;
use firn_model::tenant::TenantId;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub(super) use super::alert_groups::Draft;
use super::alert_template::PREFIX;
use super::coverage_ledger::RuleVersions;
use super::rule_exceptions::CompiledExceptions;
use super::rule_sets::RuleSets;
use crate::aggregation::{AggregateDefinition, Matched, TENANT_FIELD, WindowAlert, aggregate_of};
use crate::mapping::Pack;
use crate::mapping::dates::push_iso;
use crate::rule_budget::{RuleBudgets, Throttled};

/// Bytes of the hash of a set of rules.
const FINGERPRINT_BYTES: usize = 16;
/// Follows the start in the name for events without a tenant.
const NO_TENANT: &str = "default";

/// Rules in the form in which a pipeline evaluates them.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Those that read records; `None`: there are none.
    record: Option<Arc<CompiledRules>>,
    /// Those that read events.
    event: Option<Arc<CompiledRules>>,
    exceptions: Option<Arc<CompiledExceptions>>,
    /// Sigma rules for which the pack of the pipeline has no log source.
    pub(super) unmapped: Arc<[Unmapped]>,
    /// Of the channels that deliver alerts.
    audiences: Arc<[Audience]>,
    streams: Arc<AlertStreams>,
    /// Versions of the rules that are evaluated, by id.
    pub(super) versions: BTreeMap<String, String>,
    /// Versions of the rules that are not evaluated because of the budget, by id.
    pub(super) skipped: BTreeMap<String, String>,
    /// Hash of the versions; empty: there is no rule.
    pub(super) fingerprint: String,
    maintenance: Arc<ArcSwap<MaintenanceWindows>>,
    /// `None`: costs are not measured.
    pub(super) budget: Option<Arc<RuleBudgets>>,
    /// What the budget throttled when `skipped` was made; `None`: the rules are evaluated in any case.
    throttled: Option<Arc<Throttled>>,
}

/// What all pipelines of a runner evaluate.
#[derive(Debug, Clone, Default)]
pub(super) struct RunnerRules {
    pub(super) rules: Arc<[Arc<DetectionRule>]>,
    pub(super) audiences: Arc<[Audience]>,
    pub(super) streams: Arc<AlertStreams>,
    /// The same for all rules that are set, so that a change of windows compiles nothing.
    pub(super) maintenance: Arc<ArcSwap<MaintenanceWindows>>,
    pub(super) sets: Arc<RuleSets>,
    /// `None`: costs are not measured, and no rule is throttled.
    pub(super) budget: Option<Arc<RuleBudgets>>,
    /// Whether rules are evaluated although they are throttled.
    pub(super) ignores_throttles: bool,
}

impl super::Runner {
    /// Suppresses the delivery of alerts that are raised in these maintenance windows from now on.
    pub fn set_maintenance_windows(&self, windows: Arc<MaintenanceWindows>) {
        self.rules.lock().maintenance.store(windows);
    }
}

/// Data streams of alerts that this node has named.
#[derive(Debug, Default)]
pub(super) struct AlertStreams(Mutex<HashSet<String>>);

/// Most data streams of alerts that a node names: the tenants in events may be anything, and each stream costs files and memory.
const STREAMS_MAX: usize = 1_000;

impl AlertStreams {
    /// Returns the data stream of a tenant. Those beyond the maximum share the one of events without a tenant: in it, too, a tenant sees
    /// its own alerts alone.
    fn name_of(&self, tenant: Option<&str>) -> String {
        // Names of indices are lower-case; tenants whose names differ in case share a stream.
        let name = format!("{PREFIX}{}", tenant.unwrap_or(NO_TENANT).to_lowercase());
        let mut known = self.0.lock();
        if known.contains(&name) {
            return name;
        }
        match known.len() < STREAMS_MAX {
            true => {
                known.insert(name.clone());
                name
            }
            false => format!("{PREFIX}{NO_TENANT}"),
        }
    }
}

#[derive(Debug)]
struct CompiledRules {
    set: Arc<RuleSet>,
    /// By the numbers that evaluators report.
    conditions: Vec<Condition>,
    /// Ids of the rules, sorted.
    ids: Vec<String>,
}

/// Condition of a rule, or of one of its steps.
#[derive(Debug, Clone)]
struct Condition {
    rule: Arc<DetectionRule>,
    /// Number of the step; 0 if the rule has none.
    step: usize,
    /// Number of the aggregate that counts its events; `None`: each raises an alert, or none counts them yet.
    place: Option<usize>,
}

impl Rules {
    /// Compiles the rules of a pipeline. Without a pack, Sigma rules have no log source. `places` are the numbers of the aggregates of
    /// rules by their ids. What `previous`, or another pipeline, has compiled is not compiled again.
    pub(super) fn compile(
        all: &RunnerRules,
        pipeline: &str,
        pack: Option<&Pack>,
        places: &HashMap<&str, usize>,
        previous: Option<&Self>,
    ) -> Self {
        let by_id: BTreeMap<&str, &Arc<DetectionRule>> = all
            .rules
            .iter()
            .filter(|rule| rule.is_for_pipeline(pipeline))
            .map(|rule| (rule.rule.id.as_str(), rule))
            .collect();
        let mut unmapped = Vec::new();
        let mut compile = |input: Input, sources: &LogSources| {
            let rules: Vec<&Arc<DetectionRule>> = by_id.values().copied().filter(|rule| rule.input == input).collect();
            if rules.is_empty() {
                return None;
            }
            let mut conditions: HashMap<&str, Condition> = HashMap::new();
            let mut to_compile = Vec::new();
            for rule in &rules {
                let steps = rule.steps.iter().map(|step| &step.rule);
                let alone = rule.steps.is_empty().then_some(&rule.rule);
                for (step, condition) in steps.chain(alone).enumerate() {
                    let of_step = Condition {
                        rule: Arc::clone(rule),
                        step,
                        place: places.get(rule.rule.id.as_str()).copied(),
                    };
                    conditions.insert(&condition.id, of_step);
                    to_compile.push(Arc::clone(condition));
                }
            }
            let steps = rules.iter().flat_map(|rule| &rule.steps);
            let fields = steps.flat_map(|step| step.record_keys.iter().chain(&step.record_value));
            let previous = previous.and_then(|previous| match input {
                Input::Record => previous.record.as_ref(),
                Input::Event => previous.event.as_ref(),
            });
            let previous = previous.map(|previous| &previous.set);
            let compiled = all
                .sets
                .compile(previous, to_compile, sources, fields.map(String::as_str));
            for error in &compiled.errors {
                // Definitions are compiled before they are stored.
                tracing::error!(pipeline, "a detection rule cannot be evaluated: {error}");
            }
            let usable = compiled.set.rules().iter();
            let conditions: Vec<Condition> = usable
                .filter_map(|rule| conditions.get(rule.id.as_str()).cloned())
                .collect();
            let mut counts: HashMap<&str, usize> = HashMap::new();
            for condition in &conditions {
                *counts.entry(&condition.rule.rule.id).or_default() += 1;
            }
            let mut ids = Vec::new();
            for rule in rules {
                match is_evaluated(rule, counts.get(rule.rule.id.as_str()).copied().unwrap_or(0)) {
                    true => ids.push(rule.rule.id.clone()),
                    false => unmapped.push(Unmapped {
                        id: rule.rule.id.clone(),
                        title: rule.rule.title.clone(),
                        log_source: rule.rule.log_source.clone(),
                    }),
                }
            }
            let compiled = CompiledRules {
                conditions,
                ids,
                set: compiled.set,
            };
            (!compiled.conditions.is_empty()).then(|| Arc::new(compiled))
        };
        let sources = pack.map_or(LogSources::Known(Vec::new()), Pack::log_sources);
        let record = compile(Input::Record, &sources);
        let event = compile(Input::Event, &LogSources::Any);
        let evaluated = [&record, &event].into_iter().flatten();
        let evaluated = evaluated.flat_map(|rules: &Arc<CompiledRules>| &rules.ids);
        let versions: BTreeMap<String, String> = evaluated
            .map(|id| (id.clone(), by_id[id.as_str()].version.clone()))
            .collect();
        let is_throttled = all.budget.is_some() && !all.ignores_throttles;
        let rules = Self {
            fingerprint: fingerprint(&versions),
            versions,
            skipped: BTreeMap::new(),
            record,
            event,
            exceptions: CompiledExceptions::compile(
                pipeline,
                by_id.values().copied(),
                &all.sets,
                previous.and_then(|previous| previous.exceptions.as_deref()),
            )
            .map(Arc::new),
            unmapped: unmapped.into(),
            audiences: Arc::clone(&all.audiences),
            streams: Arc::clone(&all.streams),
            maintenance: Arc::clone(&all.maintenance),
            budget: all.budget.clone(),
            throttled: is_throttled.then(Arc::default),
        };
        rules.throttled_now().unwrap_or(rules)
    }

    /// Returns the rules without those that the budget throttles now; `None`: they are that already.
    pub(super) fn throttled_now(&self) -> Option<Self> {
        let throttled = self.budget.as_ref()?.throttled();
        (!Arc::ptr_eq(self.throttled.as_ref()?, &throttled)).then(|| self.without(&throttled))
    }

    /// Returns the rules without those that were left out and those that the budget throttles now: for the rest of a batch, a rule that
    /// is evaluated again is not. `None`: they are the same.
    pub(super) fn also_throttled_now(&self) -> Option<Self> {
        let throttled = self.budget.as_ref()?.throttled();
        if Arc::ptr_eq(self.throttled.as_ref()?, &throttled) {
            return None;
        }
        let mut both = self.skipped.clone();
        both.extend(throttled.iter().map(|(id, version)| (id.clone(), version.clone())));
        let rules = self.without(&Arc::new(both));
        (rules.skipped != self.skipped).then_some(rules)
    }

    fn without(&self, throttled: &Arc<Throttled>) -> Self {
        let mut versions = self.versions.clone();
        versions.extend(self.skipped.clone());
        let skipped: BTreeMap<String, String> = throttled
            .iter()
            .filter(|(id, version)| versions.get(*id) == Some(version))
            .map(|(id, version)| (id.clone(), version.clone()))
            .collect();
        versions.retain(|id, _| !skipped.contains_key(id));
        let mut fingerprint = fingerprint(&versions);
        if !skipped.is_empty() {
            // Of two sets with the same versions, one may have a rule that is throttled and the other one that is disabled.
            let parts = [("evaluated", fingerprint), ("skipped", self::fingerprint(&skipped))];
            let parts = parts.map(|(name, hash)| (name.to_owned(), hash));
            fingerprint = self::fingerprint(&parts.into());
        }
        Self {
            versions,
            skipped,
            fingerprint,
            throttled: Some(Arc::clone(throttled)),
            ..self.clone()
        }
    }

    /// Whether the budget throttles them; otherwise they run over stored events.
    pub(super) fn are_throttled(&self) -> bool {
        self.throttled.is_some()
    }

    /// Whether the rules are those of `other`, of which others may be left out.
    pub(super) fn has_rules_of(&self, other: &Self) -> bool {
        let is_same = |one: &Option<Arc<CompiledRules>>, other: &Option<Arc<CompiledRules>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same(&self.record, &other.record) && is_same(&self.event, &other.event)
    }

    /// Returns for each rule that reads records whether it is left out.
    pub(super) fn skipped_of_records(&self) -> Arc<[bool]> {
        self.skipped_of(self.record.as_ref())
    }

    fn skipped_of(&self, rules: Option<&Arc<CompiledRules>>) -> Arc<[bool]> {
        if self.skipped.is_empty() {
            return Arc::new([]);
        }
        let conditions = rules.iter().flat_map(|rules| &rules.conditions);
        conditions
            .map(|condition| self.skipped.contains_key(&condition.rule.rule.id))
            .collect()
    }

    /// Returns the rule of a condition that reads records.
    pub(super) fn rule_of_record(&self, number: u32) -> Option<&Arc<DetectionRule>> {
        let condition = self.record.as_ref()?.conditions.get(number as usize)?;
        Some(&condition.rule)
    }

    /// Returns a rule that reads records or events by its id.
    fn rule(&self, id: &str) -> Option<&Arc<DetectionRule>> {
        let sets = [&self.record, &self.event].into_iter().flatten();
        let mut rules = sets
            .flat_map(|rules| &rules.conditions)
            .map(|condition| &condition.rule);
        rules.find(|rule| rule.rule.id == id)
    }

    /// Returns the rules that read records; `None`: there are none.
    pub(super) fn of_records(&self) -> Option<Arc<RuleSet>> {
        self.record.as_ref().map(|rules| Arc::clone(&rules.set))
    }

    /// Returns the ids of the rules that are evaluated.
    pub(super) fn evaluated(&self) -> impl Iterator<Item = &str> {
        let sets = [&self.record, &self.event].into_iter().flatten();
        let ids = sets.flat_map(|rules| rules.ids.iter().map(String::as_str));
        ids.filter(|id| !self.skipped.contains_key(*id))
    }

    /// Returns what the coverage ledger records of them.
    pub(super) fn recorded(&self) -> RuleVersions<'_> {
        RuleVersions {
            by_id: &self.versions,
            throttled: &self.skipped,
            fingerprint: &self.fingerprint,
        }
    }

    /// Number of rules that are evaluated.
    pub(super) fn count(&self) -> usize {
        self.evaluated().count()
    }
}

/// Whether a rule of which this many conditions are for events of a pipeline can raise alerts there: a sequence needs all of its steps.
fn is_evaluated(rule: &DetectionRule, conditions: usize) -> bool {
    match rule.window.as_ref().map(|window| &window.kind) {
        Some(WindowKind::Sequence { .. }) => conditions == rule.steps.len(),
        _ => conditions > 0,
    }
}

fn fingerprint(versions: &BTreeMap<String, String>) -> String {
    if versions.is_empty() {
        return String::new();
    }
    let mut hash = Sha256::new();
    for part in versions.iter().flat_map(|(id, version)| [id, version]) {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..FINGERPRINT_BYTES])
}

impl Draft {
    /// Sets the id of the alert of an event that is stored already: the same whichever pipeline or run finds it.
    pub(super) fn set_id_of_stored(&mut self, index: &str, id: &str) {
        let rule = self.document["rule"]["id"].as_str().unwrap_or_default();
        let mut parts = BTreeMap::new();
        parts.insert(rule.to_owned(), format!("{}:{index}{id}", index.len()));
        self.document["firn"]["alert"]["id"] = fingerprint(&parts).into();
    }
}

/// Evaluator of one thread.
#[derive(Debug)]
pub(super) struct Detection {
    rules: Arc<Rules>,
    event: Option<Evaluator>,
    exceptions: Option<Evaluator>,
    matches: Vec<u32>,
}

impl Detection {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        let mut detection = Self {
            event: rules.event.as_ref().map(|rules| Evaluator::new(Arc::clone(&rules.set))),
            exceptions: rules
                .exceptions
                .as_ref()
                .map(|exceptions| Evaluator::new(Arc::clone(&exceptions.set))),
            matches: Vec::new(),
            rules: Arc::clone(&rules),
        };
        if let Some(budget) = &rules.budget {
            let evaluators = detection.event.iter_mut().chain(&mut detection.exceptions);
            evaluators.for_each(|evaluator| evaluator.measure(budget.cpu_clock()));
        }
        detection.leave_out(rules);
        detection
    }

    /// Evaluates the same rules without those that are left out of `rules`.
    pub(super) fn leave_out(&mut self, rules: Arc<Rules>) {
        if let Some(evaluator) = &mut self.event {
            evaluator.skip(rules.skipped_of(rules.event.as_ref()));
        }
        if let Some(evaluator) = &mut self.exceptions {
            let of_rules = rules.exceptions.iter().flat_map(|exceptions| &exceptions.of);
            let skipped = of_rules.map(|(rule, _)| rules.skipped.contains_key(rule)).collect();
            evaluator.skip(skipped);
        }
        self.rules = rules;
    }

    /// Costs that were not taken, nanoseconds of processor time.
    pub(super) fn cost_nanos(&self) -> i64 {
        let evaluators = self.event.iter().chain(&self.exceptions);
        evaluators.map(Evaluator::cost_nanos).sum()
    }

    /// Hands over the costs of the rules that read events, and of the exceptions of all rules.
    pub(super) fn take_costs(&mut self, mut each: impl FnMut(&Arc<DetectionRule>, i64)) {
        let rules = &self.rules;
        if let (Some(evaluator), Some(of_events)) = (&mut self.event, &rules.event) {
            evaluator.take_costs(|number, nanos| each(&of_events.conditions[number as usize].rule, nanos));
        }
        if let (Some(evaluator), Some(exceptions)) = (&mut self.exceptions, &rules.exceptions) {
            evaluator.take_costs(|number, nanos| {
                if let Some(rule) = rules.rule(&exceptions.of[number as usize].0) {
                    each(rule, nanos);
                }
            });
        }
    }

    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Returns the alerts of an event, and adds the rules over several events that it matches to `counted`, sorted. `of_record` are the
    /// matches of its record; `place` has the tenant of the pipeline.
    pub(super) fn alerts(
        &mut self,
        of_record: &[u32],
        printed: &[u8],
        place: EventPlace<'_>,
        detected: &str,
        counted: &mut Vec<Matched>,
    ) -> Vec<Draft> {
        self.matches.clear();
        if let Some(evaluator) = &mut self.event {
            evaluator.begin();
            if let Err(error) = evaluator.push_printed(printed) {
                tracing::error!(pipeline = place.pipeline, %error, "a bug: an event is no JSON, and rules do not see it");
                return Vec::new();
            }
            evaluator.evaluate(&mut self.matches);
        }
        let rules = Arc::clone(&self.rules);
        let mut matched: Vec<&Condition> = Vec::with_capacity(of_record.len() + self.matches.len());
        for (rules, numbers) in [(&rules.record, of_record), (&rules.event, &self.matches[..])] {
            let conditions = rules.as_ref().map_or(&[][..], |rules| &rules.conditions[..]);
            matched.extend(numbers.iter().filter_map(|number| conditions.get(*number as usize)));
        }
        // Most matches of rules over several events need nothing else of the event.
        let needs_event = |condition: &&Condition| {
            let rule = &condition.rule;
            rule.window.is_none() || !rule.exceptions.is_empty() || rule.tenant.is_some()
        };
        if !matched.iter().any(needs_event) {
            count(&matched, counted);
            return Vec::new();
        }
        let Ok(event) = serde_json::from_slice::<Map<String, Value>>(printed) else {
            tracing::error!(
                pipeline = place.pipeline,
                "a bug: an event is no object, and raises no alert"
            );
            return Vec::new();
        };
        if let (Some(evaluator), Some(exceptions)) = (&mut self.exceptions, &rules.exceptions)
            && matched.iter().any(|condition| !condition.rule.exceptions.is_empty())
        {
            evaluator.begin();
            evaluator.push_object(&event);
            self.matches.clear();
            evaluator.evaluate(&mut self.matches);
            let of_event = self
                .matches
                .iter()
                .filter_map(|number| exceptions.of.get(*number as usize));
            let exempt: Vec<&String> = of_event
                .filter(|(_, expires_ms)| expires_ms.is_none_or(|expires_ms| is_before(detected, expires_ms)))
                .map(|(id, _)| id)
                .collect();
            matched.retain(|condition| !exempt.contains(&&condition.rule.rule.id));
        }
        let tenant = match place.tenant {
            Some(tenant) => TenantId::parse(tenant).ok(),
            None => {
                let of_event = event.get(TENANT_FIELD).and_then(Value::as_str);
                of_event.and_then(|tenant| TenantId::parse(tenant).ok())
            }
        };
        matched.retain(|condition| condition.rule.tenant.is_none() || condition.rule.tenant == tenant);
        count(&matched, counted);
        matched.retain(|condition| condition.rule.window.is_none());
        let place = EventPlace {
            tenant: tenant.as_ref().map(TenantId::as_str),
            ..place
        };
        let index = self.rules.streams.name_of(place.tenant);
        let maintenance = self.rules.maintenance.load();
        let drafts = matched.iter().map(|Condition { rule, .. }| Draft {
            index: index.clone(),
            document: {
                let channels = channels_of(rule, tenant.as_ref(), &self.rules.audiences);
                let mut document = alert(rule, &event, place, detected, &channels);
                maintenance.suppress(&mut document);
                document
            },
        });
        drafts.collect()
    }
}

/// Whether a time in RFC 3339 is before another one, ms since the epoch.
fn is_before(time: &str, end_ms: i64) -> bool {
    DateFormat::default_millis()
        .parse_ms(time)
        .is_ok_and(|time_ms| time_ms < end_ms)
}

/// Adds the rules over several events among the matches, sorted.
fn count(matched: &[&Condition], counted: &mut Vec<Matched>) {
    let of_windows = matched.iter().filter(|condition| condition.rule.window.is_some());
    counted.extend(of_windows.filter_map(|condition| {
        Some(Matched {
            place: condition.place?,
            step: condition.step,
        })
    }));
    counted.sort_unstable();
}

impl RunnerRules {
    /// Returns the aggregates of the rules of a pipeline that count events, by name.
    pub(super) fn aggregates(&self, pipeline: &str) -> BTreeMap<String, Arc<AggregateDefinition>> {
        let own = self.rules.iter().filter(|rule| rule.is_for_pipeline(pipeline));
        let aggregates = own.filter_map(|rule| aggregate_of(rule));
        aggregates
            .map(|(name, aggregate)| (name, Arc::new(aggregate)))
            .collect()
    }
}

/// Returns the alert of a rule that counts events. `place` has the tenant of the pipeline.
pub(super) fn window_alert(
    rule: &DetectionRule,
    of: &WindowAlert,
    place: EventPlace<'_>,
    detected: &str,
    all: &RunnerRules,
) -> Draft {
    let key: Vec<Value> = serde_json::from_str(&of.key).unwrap_or_default();
    // The first one is the tenant, also if a field of the record has its name.
    let of_key = key.first().and_then(Value::as_str);
    let tenant = place.tenant.or(of_key).and_then(|tenant| TenantId::parse(tenant).ok());
    let reads_record = of.definition.rule.as_ref().is_some_and(|rule| !rule.record.is_empty());
    let by = of.definition.by.iter().zip(key);
    let mut event = Map::new();
    for (field, value) in by {
        if !value.is_null() {
            event.insert(field.clone(), value);
        }
    }
    let [start, end] = [of.start_ms, of.end_ms].map(iso);
    event.insert("@timestamp".to_owned(), end.as_str().into());
    let place = EventPlace {
        tenant: tenant.as_ref().map(TenantId::as_str),
        ..place
    };
    let channels = channels_of(rule, tenant.as_ref(), &all.audiences);
    let mut document = alert(rule, &event, place, detected, &channels);
    if reads_record {
        // Fields of a record are no common fields, and are in the group alone.
        document = without_event(&document);
    }
    let state = &mut document["firn"]["alert"];
    // It stands for no event of its own.
    state["event"] = json!({"time": end, "pipeline": place.pipeline});
    state["count"] = of.events.into();
    state["window"] = json!({"start": start, "end": end, "events": of.events});
    if let Some(value) = &of.value {
        state["window"]["value"] = value.clone();
    }
    if let Some(baseline) = of.baseline {
        state["window"]["baseline"] = baseline.into();
    }
    if !of.steps.is_empty() {
        let names = of.definition.rule.iter().flat_map(|rule| &rule.steps);
        let steps = names.zip(&of.steps);
        let steps: Vec<Value> = steps
            .map(|(name, time)| json!({"name": name, "time": iso(*time)}))
            .collect();
        state["window"]["steps"] = steps.into();
    }
    all.maintenance.load().suppress(&mut document);
    Draft {
        index: all.streams.name_of(place.tenant),
        document,
    }
}

fn iso(ms: i64) -> String {
    let mut text = String::new();
    push_iso(ms.saturating_mul(1_000_000), &mut text);
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::runner::alert_groups::{ALERTS_MAX, Groups};
    use crate::runner::steps::Document;

    /// Runs a rule over events, and returns for each the counts of its alerts.
    fn counts(body: Value, events: &[Value]) -> Vec<Vec<u64>> {
        let found = alerts(body, MaintenanceWindows::default(), events);
        let count = |state: &Value| state["count"].as_u64().unwrap();
        found.iter().map(|states| states.iter().map(count).collect()).collect()
    }

    /// Runs a rule over events, and returns for each the states of its alerts.
    fn alerts(body: Value, windows: MaintenanceWindows, events: &[Value]) -> Vec<Vec<Value>> {
        let rule = DetectionRule::parse("r", body.as_object().unwrap()).unwrap();
        let all = RunnerRules {
            rules: Arc::new([Arc::new(rule)]),
            ..RunnerRules::default()
        };
        all.maintenance.store(Arc::new(windows));
        let rules = Rules::compile(&all, "p", None, &HashMap::new(), None);
        let mut detection = Detection::new(Arc::new(rules));
        let mut groups = Groups::default();
        let mut documents: Vec<Document> = Vec::new();
        for (event, offset) in events.iter().zip(0..) {
            let place = EventPlace {
                pipeline: "p",
                partition: None,
                offset,
                tenant: None,
            };
            let printed = event.to_string();
            let detected = "2026-01-01T00:00:00Z";
            let drafts = detection.alerts(&[], printed.as_bytes(), place, detected, &mut Vec::new());
            let alerts = groups.add(&mut documents, drafts, printed.len());
            documents.push(Document {
                offset,
                source: Bytes::new(),
                error: None,
                sample: None,
                alerts,
            });
        }
        let state = |draft: &Draft| draft.document["firn"]["alert"].clone();
        documents
            .iter()
            .map(|document| document.alerts.iter().map(state).collect())
            .collect()
    }

    #[test]
    fn data_streams_of_alerts_have_lower_case_names_and_are_bounded() {
        let streams = AlertStreams::default();
        assert_eq!(streams.name_of(Some("ACME")), ".alerts-acme");
        assert_eq!(streams.name_of(None), ".alerts-default");
        for number in 0..STREAMS_MAX {
            streams.name_of(Some(&format!("t{number}")));
        }
        assert_eq!(streams.name_of(Some("another")), ".alerts-default");
        assert_eq!(streams.name_of(Some("acme")), ".alerts-acme");
    }

    #[test]
    fn matches_of_a_group_are_one_alert_with_their_count() {
        let rule = json!({"type": "query", "name": "r", "query": "k: *", "group_by": ["k"]});
        let events = ["a", "b", "a", "a"].map(|k| json!({"k": k}));
        assert_eq!(counts(rule, &events), [vec![3], vec![1], vec![], vec![]]);
        let rule = json!({"type": "query", "name": "r", "query": "k: a"});
        let events = ["a", "b", "a"].map(|k| json!({"k": k}));
        assert_eq!(counts(rule, &events), [vec![1], vec![], vec![1]]);
    }

    #[test]
    fn an_exception_ends_at_its_time() {
        let rule = |exceptions: Value| json!({"type": "query", "name": "r", "query": "k: *", "exceptions": exceptions});
        let events = ["a", "b", "c"].map(|k| json!({"k": k}));
        // The events come at 2026-01-01T00:00:00Z.
        let exceptions = json!([
            {"query": "k: a", "expires": "2026-01-01T00:00:00.001Z"}, {"query": "k: b", "expires": "2026-01-01"}, {"query": "k: c"},
        ]);
        assert_eq!(counts(rule(exceptions), &events), [vec![], vec![1], vec![]]);
        // One that is over does not end the others.
        let exceptions = json!([{"query": "k: *", "expires": "2025-12-31"}, {"query": "k: a"}]);
        assert_eq!(counts(rule(exceptions), &events), [vec![], vec![1], vec![1]]);
    }

    #[test]
    fn an_alert_that_is_delivered_is_not_counted_in_a_suppressed_one() {
        let rule = json!({"type": "query", "name": "r", "query": "k: *", "group_by": ["k"], "channels": ["mail"]});
        let window = json!({"title": "t", "start": "2025-12-31", "duration": "2d", "query": "user: ann"});
        let window = firn_detect::MaintenanceWindow::parse("w", window.as_object().unwrap()).unwrap();
        let windows = MaintenanceWindows::new(vec![window]);
        let events = ["ann", "bob", "ann", "bob"].map(|user| json!({"k": "a", "user": user}));
        let found = alerts(rule, windows, &events);
        let shown = |state: &Value| json!([state["count"], state["pending"], state["maintenance_windows"]]);
        let shown: Vec<Vec<Value>> = found.iter().map(|states| states.iter().map(shown).collect()).collect();
        assert_eq!(
            shown,
            [
                vec![json!([2, [], ["w"]])],
                vec![json!([2, ["mail"], null])],
                vec![],
                vec![]
            ]
        );
    }

    #[test]
    fn a_flood_of_matches_is_counted_and_not_dropped() {
        let rule = json!({"type": "query", "name": "r", "query": "k: *"});
        let events = vec![json!({"k": "a"}); ALERTS_MAX + 500];
        let found = counts(rule, &events);
        assert_eq!(found.iter().flatten().count(), ALERTS_MAX);
        assert_eq!(found.iter().flatten().sum::<u64>(), events.len() as u64);
        assert_eq!(found[ALERTS_MAX - 1], [501]);
    }
}
