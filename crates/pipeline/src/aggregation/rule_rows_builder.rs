//! Builder of the rows of rules: groups the rules of each event that count the same, so that they share their rows.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use foldhash::fast::RandomState;

use super::definition::AggregateDefinition;
use super::row::add;
use super::rule_row::{RuleRow, RuleRows, kind_of};
use super::rule_windows::RuleKind;
use super::sample::{Measured, RuleCount, RuleSample};

/// How a rule counts an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Counting {
    /// Length of the windows of its aggregate, ms.
    every: i64,
    /// Bits that are 0 in the hashes of values that it counts.
    mask: u64,
    /// Each event has a row of its own: the order of the single events of a sequence counts.
    is_event: bool,
}

/// Rules that count the same of an event.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    set: u32,
    /// Places in the sample; of the value, plus one.
    key: u32,
    value: u32,
    steps: u16,
    position: u16,
}

/// Numbers of the aggregates of rules that count alike, ascending.
#[derive(Debug)]
struct Set {
    counting: Counting,
    rules: Vec<u32>,
}

/// Row of the rules of a set.
#[derive(Debug, Default)]
struct RowBuilder {
    row: RuleRow,
    /// Number of its first event, and of the counts of a rule before it in this event.
    first: (u32, u16),
    /// Other rows have taken its place.
    is_replaced: bool,
}

/// What an event adds to a row.
#[derive(Debug, Clone, Copy)]
struct Contribution {
    row: u32,
    event: u32,
    position: u16,
    /// Number of the hashes that it adds.
    hashes: u32,
    number: Option<f64>,
}

/// Collects the rows of the events of a batch.
#[derive(Debug)]
pub(super) struct RuleRowsBuilder<'s> {
    /// By the number of the aggregate; `None`: it is no rule's.
    countings: Vec<Option<Counting>>,
    keys: Vec<&'s str>,
    key_places: HashMap<&'s str, u32, RandomState>,
    /// Places of the keys of this event.
    of_event: Vec<Option<u32>>,
    /// Buckets of events that match the same rules with the same keys.
    shapes: HashMap<&'s [RuleCount], Range<usize>, RandomState>,
    last_shape: (&'s [RuleCount], Range<usize>),
    buckets: Vec<Bucket>,
    sets: Vec<Set>,
    set_places: HashMap<(Counting, Vec<u32>), u32, RandomState>,
    rows: Vec<RowBuilder>,
    /// Last row of a set and a key.
    last_rows: HashMap<(u32, u32), u32, RandomState>,
    /// In the order of the events.
    contributions: Vec<Contribution>,
    events: u32,
}

impl<'s> RuleRowsBuilder<'s> {
    /// `definitions` are those of all aggregates, in their order.
    pub(super) fn new<'d>(definitions: impl Iterator<Item = &'d AggregateDefinition>) -> Self {
        let counting = |definition: &AggregateDefinition| {
            let kind = kind_of(definition)?;
            Some(Counting {
                every: definition.window_ms(),
                mask: match kind {
                    RuleKind::Sliding { sample_bits, .. } => (1_u64 << sample_bits) - 1,
                    _ => 0,
                },
                is_event: matches!(kind, RuleKind::Sequence { .. }),
            })
        };
        Self {
            countings: definitions.map(counting).collect(),
            keys: Vec::new(),
            key_places: HashMap::default(),
            of_event: Vec::new(),
            shapes: HashMap::default(),
            last_shape: (&[], 0..0),
            buckets: Vec::new(),
            sets: Vec::new(),
            set_places: HashMap::default(),
            rows: Vec::new(),
            last_rows: HashMap::default(),
            contributions: Vec::new(),
            events: 0,
        }
    }

    /// Adds an event.
    pub(super) fn add(&mut self, time_ms: i64, sample: &'s RuleSample) {
        let event = self.events;
        self.events += 1;
        self.of_event.clear();
        self.of_event.resize(sample.keys.len(), None);
        for place in self.buckets_of(&sample.counts) {
            let bucket = self.buckets[place];
            let Some(key) = self.place_of(&sample.keys, bucket.key as usize) else {
                continue;
            };
            let counting = self.sets[bucket.set as usize].counting;
            let start_ms = time_ms - time_ms.rem_euclid(counting.every);
            let last = match counting.is_event {
                true => None,
                false => self.last_rows.get(&(bucket.set, key)).copied(),
            };
            let last = last.filter(|last| self.rows[*last as usize].row.start_ms == start_ms);
            let row = last.unwrap_or_else(|| {
                let row = RuleRow {
                    set: bucket.set,
                    start_ms,
                    key,
                    ..RuleRow::default()
                };
                self.rows.push(RowBuilder {
                    row,
                    first: (event, bucket.position),
                    is_replaced: false,
                });
                let place = (self.rows.len() - 1) as u32;
                self.last_rows.insert((bucket.set, key), place);
                place
            });
            let own = &mut self.rows[row as usize].row;
            let before = own.hashes.len();
            own.events += 1;
            own.steps |= bucket.steps;
            let value = (bucket.value as usize).checked_sub(1);
            let mut number = None;
            match value.and_then(|value| sample.values.get(value)) {
                Some(Measured::Number(summed)) => {
                    number = Some(*summed);
                    own.sum = add(own.sum, *summed);
                }
                Some(Measured::Hashes(hashes)) => {
                    let counted = hashes.iter().filter(|hash| *hash & counting.mask == 0);
                    own.hashes.extend(counted);
                }
                Some(Measured::Nothing) | None => {}
            }
            self.contributions.push(Contribution {
                row,
                event,
                position: bucket.position,
                hashes: (own.hashes.len() - before) as u32,
                number,
            });
        }
    }

    /// Returns the place of a key of this event.
    fn place_of(&mut self, of_event: &'s [std::sync::Arc<str>], place: usize) -> Option<u32> {
        let known = self.of_event.get_mut(place)?;
        if known.is_none() {
            let keys = &mut self.keys;
            let key: &'s str = of_event.get(place)?;
            let number = *self.key_places.entry(key).or_insert_with(|| {
                keys.push(key);
                (keys.len() - 1) as u32
            });
            *known = Some(number);
        }
        *known
    }

    /// Returns the places of the buckets of an event.
    fn buckets_of(&mut self, counts: &'s [RuleCount]) -> Range<usize> {
        if counts.is_empty() || self.last_shape.0 == counts {
            return match counts.is_empty() {
                true => 0..0,
                false => self.last_shape.1.clone(),
            };
        }
        let buckets = match self.shapes.get(counts) {
            Some(known) => known.clone(),
            None => {
                let buckets = self.group(counts);
                self.shapes.insert(counts, buckets.clone());
                buckets
            }
        };
        self.last_shape = (counts, buckets.clone());
        buckets
    }

    /// Groups the rules of an event by what they count.
    fn group(&mut self, counts: &[RuleCount]) -> Range<usize> {
        type Same = (Counting, u32, u32, u16, u16);
        let mut groups: Vec<(Same, Vec<u32>)> = Vec::new();
        let mut places: HashMap<Same, usize, RandomState> = HashMap::default();
        for count in counts {
            let Some(counting) = self.countings.get(count.aggregate as usize).copied().flatten() else {
                continue;
            };
            let steps = if counting.is_event { count.steps } else { 0 };
            let same = (counting, count.key, count.value, steps, count.position);
            let place = *places.entry(same).or_insert_with(|| {
                groups.push((same, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(count.aggregate);
        }
        let first = self.buckets.len();
        for ((counting, key, value, steps, position), mut rules) in groups {
            rules.sort_unstable();
            rules.dedup();
            let set = self.set_of(counting, rules);
            self.buckets.push(Bucket {
                set,
                key,
                value,
                steps,
                position,
            });
        }
        first..self.buckets.len()
    }

    fn set_of(&mut self, counting: Counting, rules: Vec<u32>) -> u32 {
        let sets = &mut self.sets;
        let same = (counting, rules);
        if let Some(place) = self.set_places.get(&same) {
            return *place;
        }
        let place = sets.len() as u32;
        sets.push(Set {
            counting,
            rules: same.1.clone(),
        });
        self.set_places.insert(same, place);
        place
    }

    /// Gives rules that are in several sets with rows of the same key rows of their own, as if each event were of one set: events of one
    /// window that follow each other are one row.
    fn merge_overlapping(&mut self) {
        let mut is_used = vec![false; self.countings.len()];
        let own = self.sets.iter().filter(|set| !set.counting.is_event);
        let mut rules = own.flat_map(|set| &set.rules);
        if !rules.any(|rule| std::mem::replace(&mut is_used[*rule as usize], true)) {
            return;
        }
        let mut of_rows: Vec<Vec<Contribution>> = vec![Vec::new(); self.rows.len()];
        for contribution in &self.contributions {
            of_rows[contribution.row as usize].push(*contribution);
        }
        let mut places: Vec<((u32, Counting), u32, usize)> = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let counting = self.sets[row.row.set as usize].counting;
            if !counting.is_event {
                places.push(((row.row.key, counting), row.row.set, number));
            }
        }
        places.sort_unstable();
        for same in places.chunk_by(|one, other| one.0 == other.0) {
            let mut sets_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for of_set in same.chunk_by(|one, other| one.1 == other.1) {
                for rule in &self.sets[of_set[0].1 as usize].rules {
                    sets_of.entry(*rule).or_default().push(of_set[0].1);
                }
            }
            if sets_of.values().all(|sets| sets.len() == 1) {
                continue;
            }
            let mut rules_of: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
            for (rule, sets) in sets_of {
                rules_of.entry(sets).or_default().push(rule);
            }
            for (sets, rules) in rules_of {
                let rows = same.iter().filter(|(_, set, _)| sets.contains(set));
                let rows: Vec<usize> = rows.map(|(.., row)| *row).collect();
                self.push_merged(&rows, &of_rows, same[0].0.1, rules);
            }
            for (.., row) in same {
                self.rows[*row].is_replaced = true;
            }
        }
    }

    /// Adds rows of what the events of some others add.
    fn push_merged(&mut self, rows: &[usize], of_rows: &[Vec<Contribution>], counting: Counting, rules: Vec<u32>) {
        let set = self.set_of(counting, rules);
        // With the place of the first hash.
        let mut added: Vec<(Contribution, usize)> = Vec::new();
        for row in rows {
            let mut first = 0;
            for contribution in &of_rows[*row] {
                added.push((*contribution, first));
                first += contribution.hashes as usize;
            }
        }
        added.sort_by_key(|(contribution, _)| (contribution.event, contribution.position));
        let mut merged: Option<RowBuilder> = None;
        for (contribution, first) in added {
            let from = &self.rows[contribution.row as usize].row;
            let start_ms = from.start_ms;
            let hashes = from.hashes[first..first + contribution.hashes as usize].to_vec();
            let key = from.key;
            if merged.as_ref().is_some_and(|merged| merged.row.start_ms != start_ms) {
                self.rows.extend(merged.take());
            }
            let own = merged.get_or_insert_with(|| RowBuilder {
                row: RuleRow {
                    set,
                    start_ms,
                    key,
                    ..RuleRow::default()
                },
                first: (contribution.event, contribution.position),
                is_replaced: false,
            });
            own.row.events += 1;
            own.row.hashes.extend(hashes);
            own.row.sum = contribution
                .number
                .map_or(own.row.sum, |number| add(own.row.sum, number));
        }
        self.rows.extend(merged);
    }

    /// Returns the rows. `names` are those of the aggregates, by their numbers.
    pub(super) fn finish(mut self, names: &[&String]) -> RuleRows {
        self.merge_overlapping();
        let mut rows: Vec<RowBuilder> = self.rows.into_iter().filter(|row| !row.is_replaced).collect();
        rows.sort_by_key(|row| row.first);
        let mut is_used = vec![false; names.len()];
        for rule in rows.iter().flat_map(|row| &self.sets[row.row.set as usize].rules) {
            is_used[*rule as usize] = true;
        }
        let used: Vec<usize> = (0..names.len()).filter(|rule| is_used[*rule]).collect();
        let mut set_places = vec![None; self.sets.len()];
        let mut sets = Vec::new();
        let rows = rows.into_iter().map(|RowBuilder { mut row, .. }| {
            let of_rules = &self.sets[row.set as usize].rules;
            row.set = *set_places[row.set as usize].get_or_insert_with(|| {
                let rules = of_rules
                    .iter()
                    .filter_map(|rule| used.binary_search(&(*rule as usize)).ok());
                sets.push(rules.map(|rule| rule as u32).collect());
                (sets.len() - 1) as u32
            });
            if row.hashes.len() > 1 {
                row.hashes.sort_unstable();
                row.hashes.dedup();
            }
            row
        });
        RuleRows {
            rows: rows.collect(),
            keys: self.keys.into_iter().map(Into::into).collect(),
            rules: used.iter().map(|rule| names[*rule].clone()).collect(),
            sets,
        }
    }
}
