//! Rows of rules: what the events of a batch add to the keys of rules over several events.

use std::collections::{BTreeMap, HashMap};

use firn_detect::STEPS_MAX;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::definition::AggregateDefinition;
use super::row::add;
use super::rule_windows::RuleKind;
use super::sample::{Measured, Part};

/// Rows of all rules of one delta. Rules share the keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct RuleRows {
    /// Values of each key as a JSON array.
    pub(crate) keys: Vec<Box<str>>,
    /// In the order in which the events came, by the name of the aggregate.
    pub(crate) rows: BTreeMap<String, Vec<RuleRow>>,
}

/// Events of a key of a rule in one window of its aggregate; of a sequence, one event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct RuleRow {
    /// Start of the window, ms since the epoch.
    #[serde(rename = "w")]
    pub(crate) start_ms: i64,
    /// Place of the key.
    #[serde(rename = "k")]
    pub(crate) key: u32,
    /// Number of events.
    #[serde(rename = "n", default = "one", skip_serializing_if = "is_one")]
    pub(crate) events: u64,
    /// Sum of the field that is summed.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub(crate) sum: f64,
    /// Hashes of the different values that are counted, sorted.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hashes: Vec<u64>,
    /// Bits of the steps that the event is of.
    #[serde(rename = "m", default, skip_serializing_if = "is_none")]
    pub(crate) steps: u16,
}

const _: () = assert!(STEPS_MAX <= u16::BITS as usize);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn is_zero(sum: &f64) -> bool {
    *sum == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn is_none(steps: &u16) -> bool {
    *steps == 0
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn is_one(events: &u64) -> bool {
    *events == 1
}

impl RuleRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows of all rules.
    pub(crate) fn len(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }
}

/// Collects the rows of the events of a batch.
#[derive(Debug, Default)]
pub(super) struct RuleRowsBuilder<'s> {
    keys: Vec<&'s str>,
    places: HashMap<&'s str, u32, RandomState>,
    /// Keys of this event, with their places: rules with the same fields share them.
    of_event: Vec<(&'s str, u32)>,
    /// By the number of the aggregate.
    of_rules: Vec<RuleBuilder>,
}

#[derive(Debug, Default)]
struct RuleBuilder {
    rows: Vec<RuleRow>,
    /// Place of the last row of each key, plus one.
    last: Vec<u32>,
}

impl<'s> RuleRowsBuilder<'s> {
    /// Begins another event.
    pub(super) fn begin_event(&mut self) {
        self.of_event.clear();
    }

    /// Adds the event to the rule of the aggregate with this number. `start_ms` is the start of its window.
    pub(super) fn add(&mut self, place: usize, kind: RuleKind, start_ms: i64, part: &'s Part) {
        let key = self.place_of(&part.key);
        if self.of_rules.len() <= place {
            self.of_rules.resize_with(place + 1, RuleBuilder::default);
        }
        let own = &mut self.of_rules[place];
        let number = key as usize;
        if own.last.len() <= number {
            own.last.resize(number + 1, 0);
        }
        let last = own.last[number].checked_sub(1).map(|last| last as usize);
        let is_same = |row: &RuleRow| row.start_ms == start_ms;
        // The order of the single events of a sequence counts.
        let is_event = matches!(kind, RuleKind::Sequence { .. });
        let same = last.filter(|last| !is_event && own.rows.get(*last).is_some_and(is_same));
        let row = match same {
            Some(same) => own.rows.get_mut(same),
            None => {
                own.rows.push(RuleRow {
                    start_ms,
                    key,
                    ..RuleRow::default()
                });
                own.last[number] = own.rows.len() as u32;
                own.rows.last_mut()
            }
        };
        let Some(row) = row else { return };
        row.events += 1;
        row.steps |= part.steps;
        let mask = match kind {
            RuleKind::Sliding { sample_bits, .. } => (1_u64 << sample_bits) - 1,
            _ => 0,
        };
        match part.measured.first() {
            Some(Measured::Number(number)) => row.sum = add(row.sum, *number),
            Some(Measured::Hashes(hashes)) => row.hashes.extend(hashes.iter().filter(|hash| *hash & mask == 0)),
            Some(Measured::Nothing) | None => {}
        }
    }

    fn place_of(&mut self, key: &'s str) -> u32 {
        if let Some((_, place)) = self.of_event.iter().find(|(known, _)| std::ptr::eq(*known, key)) {
            return *place;
        }
        let keys = &mut self.keys;
        let place = *self.places.entry(key).or_insert_with(|| {
            keys.push(key);
            (keys.len() - 1) as u32
        });
        self.of_event.push((key, place));
        place
    }

    /// Returns the rows. `names` are those of the aggregates, by their numbers.
    pub(super) fn finish(self, names: &[&String]) -> RuleRows {
        let of_rules = self.of_rules.into_iter().zip(names);
        let rows = of_rules.filter(|(own, _)| !own.rows.is_empty()).map(|(mut own, name)| {
            for row in own.rows.iter_mut().filter(|row| row.hashes.len() > 1) {
                row.hashes.sort_unstable();
                row.hashes.dedup();
            }
            ((*name).clone(), own.rows)
        });
        RuleRows {
            keys: self.keys.into_iter().map(Into::into).collect(),
            rows: rows.collect(),
        }
    }
}

/// Returns the kind of the rule of an aggregate, if it is one's.
pub(super) fn kind_of(definition: &AggregateDefinition) -> Option<RuleKind> {
    definition.rule.as_ref().map(|rule| rule.kind)
}
