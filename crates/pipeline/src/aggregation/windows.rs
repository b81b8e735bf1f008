//! Windows of a pipeline: the state that its journal leads to.

mod rule_rows;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::definition::AggregateDefinition;
use super::event::{self, Closed};
use super::record::{Base, Content, Delta, Progress, Record, RuleKey, WindowRow};
use super::row::{Row, print};
use super::rule_row::{RuleRow, kind_of};
use super::rule_state::{KeyState, Outcome, RuleState};
use super::rule_windows::{RuleKind, WindowAlert};
use super::threshold_key::{Counted, Reached};
use super::threshold_table::{Class, ThresholdTable};

/// Closed windows whose number of closings is remembered, by aggregate.
const CLOSINGS_MAX: usize = 10_000;
/// Open windows of an aggregate past which all of them are closed early: times of events may be anything.
const OPEN_MAX: usize = 10_000;
/// Rows of one part of a base, and keys of rules and entries of theirs.
const PART_ROWS: usize = 2_000;
const PART_KEYS: usize = 10_000;
/// Entries of a key that are as much as another key.
const KEY_ENTRIES: usize = 4;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Windows {
    pipeline: Arc<str>,
    aggregates: BTreeMap<String, Aggregate>,
    /// Keys of the aggregates that are thresholds.
    thresholds: ThresholdTable,
    partitions: BTreeMap<String, Progress>,
    /// Highest watermark of a closing, ms since the epoch.
    watermark: Option<i64>,
    /// Which journal it is: a new one after the stored one was lost. Empty: none.
    generation: String,
    /// Events that closings have made in this generation.
    emitted: u64,
    noted: Noted,
}

/// Counts of all deltas since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Noted {
    late: u64,
    overflowed: u64,
}

impl Noted {
    /// Takes what a row of this many events led to.
    fn take(&mut self, outcome: Outcome, events: u64, emitted: &mut u64, emissions: &mut Vec<Emission>) {
        if outcome.is_beyond {
            self.overflowed += events;
        }
        emissions.extend(outcome.alert.map(|alert| Emission::of_alert(alert, emitted)));
    }
}

impl Emission {
    fn of_alert(alert: WindowAlert, emitted: &mut u64) -> Self {
        *emitted += 1;
        Self {
            offset: *emitted - 1,
            content: EmissionContent::Alert(alert),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Aggregate {
    definition: Arc<AggregateDefinition>,
    every_ms: i64,
    lateness_ms: i64,
    open: BTreeMap<i64, Window>,
    /// Keys of all open windows.
    keys: usize,
    /// How often the last windows were closed, by their start.
    closings: BTreeMap<i64, u32>,
    /// Of a rule.
    rule_state: RuleState,
    /// Of a threshold, the number of the rule in the table.
    threshold: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Window {
    rows: BTreeMap<Box<str>, Row>,
    /// Keys beyond the maximum.
    overflow: Option<Row>,
}

/// Event that a closing made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Emission {
    /// Number of the event among all that the pipeline's windows made.
    pub(crate) offset: u64,
    pub(crate) content: EmissionContent,
}

/// Content of an event that a closing made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EmissionContent {
    /// Event of a closed window.
    Event { index: String, document: Value },
    /// Alert of a rule.
    Alert(WindowAlert),
}

/// Counts of windows, for operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Open windows of all aggregates.
    pub open: u64,
    /// Keys of the open windows, and those that rules remember.
    pub keys: u64,
    /// Events that came after their window was closed, since the journal was read.
    pub late: u64,
    /// Events of keys beyond the maximum, since the journal was read.
    pub overflowed: u64,
    /// Events that closed windows have become.
    pub emitted: u64,
    /// Windows that end before this time and their lateness are closed, ms since the epoch.
    pub watermark_ms: Option<i64>,
}

impl Aggregate {
    fn new(definition: Arc<AggregateDefinition>) -> Self {
        Self {
            every_ms: definition.window_ms(),
            lateness_ms: definition
                .lateness_ms()
                .ok()
                .and_then(|ms| i64::try_from(ms).ok())
                .unwrap_or(0),
            definition,
            open: BTreeMap::new(),
            keys: 0,
            closings: BTreeMap::new(),
            rule_state: RuleState::default(),
            threshold: None,
        }
    }

    /// Returns what the keys of a threshold are compared with, and their maximum; `None`: it is none.
    fn class(&self) -> Option<(Class, usize)> {
        let class = Class::of(&self.definition, self.every_ms, self.lateness_ms)?;
        Some((class, self.definition.max_keys))
    }

    fn rule_kind(&self) -> Option<RuleKind> {
        kind_of(&self.definition)
    }

    /// Whether a closing at a watermark looks through the keys of a threshold.
    fn is_look_due(&self, thresholds: &ThresholdTable, watermark: i64) -> bool {
        match (self.rule_kind(), self.threshold) {
            (Some(RuleKind::Sliding { window, .. }), Some(rule)) => {
                thresholds.keys_of(rule) > 0 && self.rule_state.is_look_due(window, watermark)
            }
            _ => false,
        }
    }

    /// Whether a closing at a watermark closes a window, or has keys of a rule to look at.
    fn has_due(&self, thresholds: &ThresholdTable, watermark: i64) -> bool {
        if self.is_look_due(thresholds, watermark) {
            return true;
        }
        let of_rule = self.rule_kind();
        of_rule.is_some_and(|kind| {
            self.rule_state
                .has_due(kind, self.every_ms, self.lateness_ms, watermark)
        }) || self.open.keys().any(|start| self.is_due(*start, watermark))
    }

    /// Takes a row of a threshold as earlier builds wrote it.
    fn add_to_threshold(&self, thresholds: &mut ThresholdTable, rule: u32, row: &WindowRow) -> Outcome {
        let Some(key) = &row.key else {
            return Outcome::beyond();
        };
        let converted = RuleRow {
            start_ms: row.start_ms,
            events: row.row.events,
            ..RuleRow::default()
        };
        let sets = [thresholds.sets_of(&[rule])];
        let applied = thresholds.apply(std::slice::from_ref(key), &[converted], &sets);
        Outcome {
            alert: applied.raised.first().map(|raised| self.alert_of(key, &raised.reached)),
            is_beyond: applied.overflowed > 0,
        }
    }

    /// Takes a row of a rule as earlier builds wrote it.
    fn add_to_rule(&mut self, kind: RuleKind, row: &WindowRow) -> Outcome {
        let (start_ms, every_ms) = (row.start_ms, self.every_ms);
        let Some(key) = row.key.as_deref() else {
            // Of keys that are counted together none need have a reason for an alert.
            return Outcome::beyond();
        };
        let RuleKind::Quarters { at_least } = kind else {
            let converted = RuleRow {
                start_ms,
                events: row.row.events,
                ..RuleRow::default()
            };
            return self.add_rule_row(kind, &key.into(), &converted);
        };
        if self.merge(start_ms, Some(key), &row.row) {
            return Outcome::beyond();
        }
        let window = self.open.get(&start_ms);
        let own = window.and_then(|window| window.rows.get(key));
        let own = own.filter(|own| self.rule_state.reaches(at_least, key, start_ms, every_ms, own));
        let alert = own.map(|own| {
            let times = (start_ms, start_ms.saturating_add(every_ms));
            self.alert(key, times, own.events, own.values().next().flatten())
        });
        Outcome {
            alert,
            is_beyond: false,
        }
    }

    fn alert(&self, key: &str, (start_ms, end_ms): (i64, i64), events: u64, value: Option<Value>) -> WindowAlert {
        WindowAlert {
            definition: Arc::clone(&self.definition),
            start_ms,
            end_ms,
            key: key.into(),
            events,
            value,
            steps: Vec::new(),
            baseline: None,
        }
    }

    /// Returns the alert of a threshold that a window of a key reaches.
    fn alert_of(&self, key: &str, reached: &Reached) -> WindowAlert {
        let counted = self.class().map(|(class, _)| class.counted());
        let value = match counted {
            None | Some(Counted::Events) => None,
            Some(Counted::Sum | Counted::Values { .. }) => print(reached.value),
        };
        self.alert(key, (reached.start, reached.end), reached.events, value)
    }

    fn add_rule_row(&mut self, kind: RuleKind, key: &Arc<str>, row: &RuleRow) -> Outcome {
        self.rule_state.add(&self.definition, kind, self.every_ms, (key, row))
    }

    /// Returns the alerts of a closing. Windows of rules are closed without an event.
    fn close_rule(&mut self, kind: RuleKind, watermark: i64) -> Vec<WindowAlert> {
        if let RuleKind::Quarters { .. } = kind {
            let oldest = watermark.saturating_sub(self.every_ms).saturating_sub(self.lateness_ms);
            self.rule_state.forget_alerted(oldest.saturating_sub(self.every_ms));
        }
        let times = (self.every_ms, self.lateness_ms);
        self.rule_state.close(&self.definition, kind, times, watermark)
    }

    fn is_due(&self, start_ms: i64, watermark: i64) -> bool {
        start_ms.saturating_add(self.every_ms).saturating_add(self.lateness_ms) <= watermark
    }

    /// Merges a row, and returns whether it went to the overflow.
    fn merge(&mut self, start_ms: i64, key: Option<&str>, row: &Row) -> bool {
        let window = self.open.entry(start_ms).or_default();
        let own = match key {
            Some(key) if window.rows.contains_key(key) || self.keys < self.definition.max_keys => {
                match window.rows.entry(key.into()) {
                    Entry::Occupied(own) => own.into_mut(),
                    Entry::Vacant(place) => {
                        self.keys += 1;
                        place.insert(Row::new(&self.definition))
                    }
                }
            }
            _ => window.overflow.get_or_insert_with(|| Row::new(&self.definition)),
        };
        own.merge(row);
        window.overflow.is_some() && key.is_some_and(|key| !window.rows.contains_key(key))
    }

    /// Takes the windows that are due, with the number of their closings before.
    fn close(&mut self, watermark: i64, all: bool) -> Vec<(i64, Option<u32>, Window)> {
        let due: Vec<i64> = self
            .open
            .keys()
            .copied()
            .filter(|start| all || self.is_due(*start, watermark))
            .collect();
        let mut closed = Vec::new();
        for start in due {
            let Some(window) = self.open.remove(&start) else {
                continue;
            };
            self.keys -= window.rows.len();
            let forgotten = self.closings.len() >= CLOSINGS_MAX
                && self.closings.first_key_value().is_some_and(|(first, _)| start < *first);
            let revision = match forgotten {
                true => None,
                false => {
                    let times = self.closings.entry(start).or_insert(0);
                    *times += 1;
                    Some(*times - 1)
                }
            };
            while self.closings.len() > CLOSINGS_MAX {
                self.closings.pop_first();
            }
            closed.push((start, revision, window));
        }
        closed
    }
}

impl Windows {
    /// Creates windows without events.
    pub(crate) fn new(pipeline: &Arc<str>, definitions: &BTreeMap<String, Arc<AggregateDefinition>>) -> Self {
        let mut windows = Self {
            pipeline: Arc::clone(pipeline),
            aggregates: BTreeMap::new(),
            thresholds: ThresholdTable::default(),
            partitions: BTreeMap::new(),
            watermark: None,
            generation: String::new(),
            emitted: 0,
            noted: Noted::default(),
        };
        windows.define(definitions);
        windows
    }

    /// Returns the definitions of the aggregates.
    pub(crate) fn definitions(&self) -> BTreeMap<String, Arc<AggregateDefinition>> {
        let definitions = self.aggregates.iter();
        definitions
            .map(|(name, aggregate)| (name.clone(), Arc::clone(&aggregate.definition)))
            .collect()
    }

    /// Returns the generation of the journal; empty: it has none yet.
    pub(crate) fn generation(&self) -> &str {
        &self.generation
    }

    /// Starts another generation: its events are counted from 0.
    pub(crate) fn start_generation(&mut self, generation: String) {
        self.generation = generation;
        self.emitted = 0;
    }

    /// Returns the number of events that closings have made in this generation.
    pub(crate) fn emitted(&self) -> u64 {
        self.emitted
    }

    /// Takes other definitions. Aggregates that count otherwise must have no open windows; others keep theirs.
    pub(crate) fn define(&mut self, definitions: &BTreeMap<String, Arc<AggregateDefinition>>) {
        let mut changes = Vec::new();
        self.aggregates.retain(|name, aggregate| {
            let next = definitions.get(name);
            let continues = next.is_some_and(|next| next.continues(&aggregate.definition));
            if !continues {
                changes.extend(aggregate.threshold.map(|rule| (rule, None)));
            }
            continues
        });
        for (name, definition) in definitions {
            let next = Aggregate::new(Arc::clone(definition));
            match self.aggregates.entry(name.clone()) {
                Entry::Vacant(place) => drop(place.insert(next)),
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    (known.every_ms, known.lateness_ms) = (next.every_ms, next.lateness_ms);
                    known.definition = next.definition;
                    changes.extend(known.threshold.map(|rule| (rule, known.class())));
                }
            }
        }
        self.thresholds.change_rules(&changes);
        for aggregate in self
            .aggregates
            .values_mut()
            .filter(|aggregate| aggregate.threshold.is_none())
        {
            let class = aggregate.class();
            aggregate.threshold = class.map(|(class, max_keys)| self.thresholds.add_rule(class, max_keys));
        }
    }

    /// Returns the names of the aggregates whose windows cannot go on with these definitions.
    pub(crate) fn changed(&self, definitions: &BTreeMap<String, Arc<AggregateDefinition>>) -> Vec<String> {
        let changed = self.aggregates.iter();
        changed
            .filter(|(name, aggregate)| {
                let next = definitions.get(*name);
                !next.is_some_and(|next| next.continues(&aggregate.definition))
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(crate) fn counts(&self) -> WindowCounts {
        let sum = |count: &dyn Fn(&Aggregate) -> usize| self.aggregates.values().map(count).sum::<usize>() as u64;
        let of_threshold = |aggregate: &Aggregate| aggregate.threshold.map_or(0, |rule| self.thresholds.keys_of(rule));
        WindowCounts {
            open: sum(&|aggregate| aggregate.open.len()),
            keys: sum(&|aggregate| aggregate.keys + aggregate.rule_state.len() + of_threshold(aggregate)),
            late: self.noted.late,
            overflowed: self.noted.overflowed,
            emitted: self.emitted,
            watermark_ms: self.watermark,
        }
    }

    /// Returns the last offset of a partition that the windows hold.
    pub(crate) fn through(&self, partition: &str) -> Option<u64> {
        self.partitions.get(partition)?.through
    }

    /// Returns the latest time of an event of each partition.
    pub(crate) fn latest_times(&self) -> impl Iterator<Item = (&str, i64)> {
        let partitions = self.partitions.iter();
        partitions.filter_map(|(partition, progress)| Some((partition.as_str(), progress.max_ms?)))
    }

    /// Whether a closing at a watermark would close a window.
    pub(crate) fn is_due(&self, watermark: i64) -> bool {
        let mut aggregates = self.aggregates.values();
        aggregates.any(|aggregate| aggregate.has_due(&self.thresholds, watermark))
    }

    /// Whether an aggregate among some has open windows.
    pub(crate) fn has_open(&self, names: &[String]) -> bool {
        let mut open = names.iter().filter_map(|name| self.aggregates.get(name));
        open.any(|aggregate| !aggregate.open.is_empty())
    }

    /// Returns the names of the aggregates with more open windows than they may have.
    pub(crate) fn crowded(&self) -> Vec<String> {
        let crowded = self
            .aggregates
            .iter()
            .filter(|(_, aggregate)| aggregate.open.len() > OPEN_MAX);
        crowded.map(|(name, _)| name.clone()).collect()
    }

    /// Applies a record, and returns the events that it makes.
    pub(crate) fn apply(&mut self, content: &Content) -> Vec<Emission> {
        match content {
            Content::Base(base) => {
                self.apply_base(base);
                Vec::new()
            }
            Content::Delta(delta) => self.apply_delta(delta),
            Content::Closing { watermark, retired } => self.close(*watermark, retired),
        }
    }

    fn apply_delta(&mut self, delta: &Delta) -> Vec<Emission> {
        let mut emissions = Vec::new();
        let progress = self.partitions.entry(delta.partition.clone()).or_default();
        progress.through = progress.through.max(delta.through);
        progress.max_ms = progress.max_ms.max(delta.max_ms);
        for row in &delta.rows {
            let Some(aggregate) = self.aggregates.get_mut(&row.aggregate) else {
                continue;
            };
            if self
                .watermark
                .is_some_and(|watermark| aggregate.is_due(row.start_ms, watermark))
            {
                self.noted.late += row.row.events;
            }
            let outcome = match (aggregate.rule_kind(), aggregate.threshold) {
                (None, _) => Outcome {
                    alert: None,
                    is_beyond: aggregate.merge(row.start_ms, row.key.as_deref(), &row.row),
                },
                (Some(_), Some(rule)) => aggregate.add_to_threshold(&mut self.thresholds, rule, row),
                (Some(kind), None) => aggregate.add_to_rule(kind, row),
            };
            self.noted
                .take(outcome, row.row.events, &mut self.emitted, &mut emissions);
        }
        self.apply_rule_rows(&delta.rules, &mut emissions);
        emissions
    }

    fn close(&mut self, watermark: i64, retired: &[String]) -> Vec<Emission> {
        let mut emissions = Vec::new();
        let mut due = Vec::new();
        for (name, aggregate) in &mut self.aggregates {
            if aggregate.is_look_due(&self.thresholds, watermark) {
                aggregate.rule_state.note_look(watermark);
                due.extend(aggregate.threshold);
            }
            let closed = aggregate.close(watermark, retired.contains(name));
            if let Some(kind) = aggregate.rule_kind() {
                let alerts = aggregate.close_rule(kind, watermark).into_iter();
                emissions.extend(alerts.map(|alert| Emission::of_alert(alert, &mut self.emitted)));
                continue;
            }
            for (start_ms, revision, window) in closed {
                let keyed = window.rows.iter().map(|(key, row)| (Some(&**key), row));
                for (key, row) in keyed.chain(window.overflow.iter().map(|row| (None, row))) {
                    let document = event::document(&Closed {
                        pipeline: &self.pipeline,
                        aggregate: name,
                        definition: &aggregate.definition,
                        start_ms,
                        end_ms: start_ms.saturating_add(aggregate.every_ms),
                        revision,
                        key,
                        row,
                    });
                    emissions.push(Emission {
                        offset: self.emitted,
                        content: EmissionContent::Event {
                            index: aggregate.definition.index.clone(),
                            document,
                        },
                    });
                    self.emitted += 1;
                }
            }
        }
        self.thresholds.forget(&due, watermark);
        self.watermark = self.watermark.max(Some(watermark));
        emissions
    }

    /// Returns the state as a base.
    pub(crate) fn to_base(&self) -> Vec<Base> {
        let mut rows = Vec::new();
        for (name, aggregate) in &self.aggregates {
            for (start_ms, window) in &aggregate.open {
                let keyed = window.rows.iter().map(|(key, row)| (Some(key.clone()), row));
                for (key, row) in keyed.chain(window.overflow.iter().map(|row| (None, row))) {
                    rows.push(WindowRow {
                        aggregate: name.clone(),
                        start_ms: *start_ms,
                        key,
                        row: row.clone(),
                    });
                }
            }
        }
        let closings = self.aggregates.iter().map(|(name, aggregate)| {
            let times = aggregate.closings.iter().map(|(start, times)| (*start, *times));
            (name.clone(), times.collect())
        });
        let mut keys = Vec::new();
        let thresholds = self.thresholds.keys();
        for (name, aggregate) in &self.aggregates {
            let of_threshold = aggregate.threshold.and_then(|rule| thresholds.get(rule as usize));
            keys.extend(of_threshold.into_iter().flatten().map(|(key, state)| RuleKey {
                aggregate: name.clone(),
                key: (*key).into(),
                state: KeyState::Threshold(state.to_whole()),
            }));
            keys.extend(aggregate.rule_state.keys().into_iter().map(|(key, state)| RuleKey {
                aggregate: name.clone(),
                key: (**key).into(),
                state: state.stored(),
            }));
        }
        let of_rows = rows.chunks(PART_ROWS).map(|rows| Base {
            rows: rows.to_vec(),
            ..Base::default()
        });
        let of_keys = parts_of_keys(keys).into_iter().map(|keys| Base {
            keys,
            ..Base::default()
        });
        let mut bases: Vec<Base> = of_rows.chain(of_keys).collect();
        if bases.is_empty() {
            bases.push(Base::default());
        }
        let definitions = self.aggregates.iter();
        bases[0].definitions = definitions
            .map(|(name, aggregate)| (name.clone(), (*aggregate.definition).clone()))
            .collect();
        bases[0].partitions = self.partitions.clone();
        bases[0].watermark = self.watermark;
        bases[0].generation.clone_from(&self.generation);
        bases[0].emitted = self.emitted;
        bases[0].closings = closings.collect();
        let began = self.aggregates.iter();
        let began = began.filter_map(|(name, aggregate)| Some((name.clone(), aggregate.rule_state.began()?)));
        bases[0].began = began.collect();
        let closed_to = self.aggregates.iter();
        let closed_to =
            closed_to.filter_map(|(name, aggregate)| Some((name.clone(), aggregate.rule_state.closed_to()?)));
        bases[0].closed_to = closed_to.collect();
        let parts = bases.len() as u32;
        for (part, base) in (0..).zip(&mut bases) {
            (base.part, base.parts) = (part, parts);
        }
        bases
    }

    fn apply_base(&mut self, base: &Base) {
        if base.part == 0 {
            let noted = self.noted;
            let definitions = base.definitions.iter();
            let definitions = definitions.map(|(name, definition)| (name.clone(), Arc::new(definition.clone())));
            *self = Self::new(&self.pipeline, &definitions.collect());
            self.noted = noted;
            self.partitions = base.partitions.clone();
            self.watermark = base.watermark;
            self.generation.clone_from(&base.generation);
            self.emitted = base.emitted;
            for (name, closings) in &base.closings {
                if let Some(aggregate) = self.aggregates.get_mut(name) {
                    aggregate.closings = closings.iter().copied().collect();
                }
            }
            for (name, aggregate) in &mut self.aggregates {
                let times = (base.began.get(name), base.closed_to.get(name));
                aggregate.rule_state = RuleState::new(times.0.copied(), times.1.copied());
            }
        }
        for key in &base.keys {
            let Some(aggregate) = self.aggregates.get_mut(&key.aggregate) else {
                continue;
            };
            match (aggregate.threshold, &key.state) {
                (Some(rule), KeyState::Threshold(state)) => self.thresholds.set(rule, &key.key, state.clone()),
                // What is remembered of another kind of rule is of no use for a threshold.
                (Some(_), _) => {}
                (None, state) => aggregate.rule_state.set(&key.key, state.clone()),
            }
        }
        for row in &base.rows {
            if let Some(aggregate) = self.aggregates.get_mut(&row.aggregate) {
                aggregate.merge(row.start_ms, row.key.as_deref(), &row.row);
            }
        }
    }

    /// Returns the windows that a journal leads to, and the events that its closings made. `records` are sorted by their order.
    /// `definitions` are those of a journal without a base.
    pub(crate) fn of_journal(
        pipeline: &Arc<str>,
        definitions: &BTreeMap<String, Arc<AggregateDefinition>>,
        records: &[Record],
    ) -> (Self, Vec<Emission>) {
        let mut windows = Self::new(pipeline, definitions);
        let mut emissions = Vec::new();
        let (first, after) = last_base(records).map_or((0, 0), |base| (base.start, base.end));
        for record in &records[first..after] {
            windows.apply(&record.content);
        }
        for record in &records[after..] {
            // A later base is incomplete.
            if !matches!(record.content, Content::Base(_)) {
                emissions.extend(windows.apply(&record.content));
            }
        }
        (windows, emissions)
    }
}

/// Splits keys into parts that are small enough to be stored.
fn parts_of_keys(keys: Vec<RuleKey>) -> Vec<Vec<RuleKey>> {
    let mut parts: Vec<Vec<RuleKey>> = Vec::new();
    let mut size = PART_KEYS;
    for key in keys {
        size += 1 + key.state.size() / KEY_ENTRIES;
        match parts.last_mut().filter(|_| size <= PART_KEYS) {
            Some(part) => part.push(key),
            None => {
                size = 1 + key.state.size() / KEY_ENTRIES;
                parts.push(vec![key]);
            }
        }
    }
    parts
}

/// Returns the places of the last complete base.
pub(crate) fn last_base(records: &[Record]) -> Option<Range<usize>> {
    (0..records.len()).rev().find_map(|first| {
        let Content::Base(Base { part: 0, parts, .. }) = &records[first].content else {
            return None;
        };
        let is_part = |part: u32| {
            let record = records.get(first + part as usize)?;
            let follows = record.order == records[first].order + u64::from(part);
            let Content::Base(base) = &record.content else {
                return None;
            };
            (follows && base.part == part && base.parts == *parts).then_some(())
        };
        let is_complete = (0..*parts).all(|part| is_part(part).is_some());
        is_complete.then(|| first..first + *parts as usize)
    })
}
