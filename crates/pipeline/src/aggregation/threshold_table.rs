//! Keys of all thresholds of a pipeline: the states of the rules of a key lie together, and rules that have counted the same share one.
//!
//! A row of a batch is of a set of rules, so it finds its key once. Rules share a state until one of them counts what another one does
//! not, or is looked through at another time; then each has one of its own. So nothing depends on whether they share it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::compact_key::CompactKey;
use super::definition::{AggregateDefinition, MetricDefinition};
use super::rule_row::RuleRow;
use super::rule_windows::RuleKind;
use super::threshold_key::{Counted, Reached, Threshold, ThresholdKey};

/// What rules are compared with, and when they forget. Rules of different classes share no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class {
    counted: Counted,
    /// Bits of the number.
    at_least: u64,
    pane: i64,
    window: i64,
    lateness: i64,
}

/// Rules of one class, by their numbers in the table, ascending.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RuleSet {
    class: Class,
    rules: Box<[u32]>,
}

/// What some rules remember of a key.
#[derive(Debug, Clone, PartialEq)]
struct State {
    /// One of [`ThresholdTable::sets`].
    rules: Arc<RuleSet>,
    key: CompactKey,
}

/// States of a key, of different rules.
#[derive(Debug, Clone, PartialEq)]
enum States {
    One(State),
    Many(Vec<State>),
}

const _: () = assert!(size_of::<States>() <= 40);

/// Rule of the table.
#[derive(Debug, Clone, PartialEq)]
struct TableRule {
    class: Class,
    max_keys: usize,
    /// Number of its keys.
    keys: usize,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ThresholdTable {
    keys: HashMap<Box<str>, States, RandomState>,
    /// By number; `None`: it was removed.
    rules: Vec<Option<TableRule>>,
    /// Sets of rules that states have: one each, so that equal sets have the same address.
    sets: HashSet<Arc<RuleSet>, RandomState>,
}

/// Window that a row completes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Raised {
    /// Number of the rule.
    pub(super) rule: u32,
    /// Place of the row.
    pub(super) row: u32,
    pub(super) reached: Reached,
}

/// What rows lead to.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) raised: Vec<Raised>,
    /// Events of keys that there was no place for.
    pub(super) overflowed: u64,
}

impl Class {
    /// Returns the class of a rule; `None`: it is no threshold.
    pub(super) fn of(definition: &AggregateDefinition, pane: i64, lateness: i64) -> Option<Self> {
        let RuleKind::Sliding {
            window,
            at_least,
            sample_bits,
        } = definition.rule.as_ref()?.kind
        else {
            return None;
        };
        Some(Self {
            counted: match definition.metrics.values().next() {
                None => Counted::Events,
                Some(MetricDefinition::Cardinality(_)) => Counted::Values { sample_bits },
                Some(_) => Counted::Sum,
            },
            at_least: at_least.to_bits(),
            pane,
            window,
            lateness,
        })
    }

    pub(super) fn threshold(&self) -> Threshold {
        Threshold {
            counted: self.counted,
            at_least: f64::from_bits(self.at_least),
            pane: self.pane,
            window: self.window,
        }
    }

    pub(super) fn counted(&self) -> Counted {
        self.counted
    }
}

impl States {
    fn as_slice(&self) -> &[State] {
        match self {
            Self::One(state) => std::slice::from_ref(state),
            Self::Many(states) => states,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [State] {
        match self {
            Self::One(state) => std::slice::from_mut(state),
            Self::Many(states) => states,
        }
    }

    fn push(&mut self, state: State) {
        if let Self::Many(states) = self {
            if states.len() == states.capacity() {
                // Less than a doubling: keys are many, and their rules seldom become more.
                states.reserve_exact(states.len() / 4 + 1);
            }
            states.push(state);
            return;
        }
        if let Self::One(first) = std::mem::replace(self, Self::Many(Vec::new())) {
            *self = Self::Many(vec![first, state]);
        }
    }

    /// Makes the states of a key of them; `None`: there are none.
    fn of(mut states: Vec<State>) -> Option<Self> {
        match states.len() {
            0 => None,
            1 => states.pop().map(Self::One),
            length => {
                if states.capacity() > 2 * length {
                    states.shrink_to_fit();
                }
                Some(Self::Many(states))
            }
        }
    }

    fn into_vec(self) -> Vec<State> {
        match self {
            Self::One(state) => vec![state],
            Self::Many(states) => states,
        }
    }
}

/// Returns the set of these rules, which are of one class.
fn intern(sets: &mut HashSet<Arc<RuleSet>, RandomState>, class: Class, rules: Vec<u32>) -> Arc<RuleSet> {
    let set = RuleSet {
        class,
        rules: rules.into(),
    };
    if let Some(known) = sets.get(&set) {
        return Arc::clone(known);
    }
    let set = Arc::new(set);
    sets.insert(Arc::clone(&set));
    set
}

/// Splits numbers into those that another list has, and the others. Both ascend.
fn split(numbers: &[u32], by: &[u32]) -> (Vec<u32>, Vec<u32>) {
    numbers.iter().partition(|number| by.binary_search(number).is_ok())
}

impl ThresholdTable {
    /// Number of keys of a rule.
    pub(super) fn keys_of(&self, rule: u32) -> usize {
        self.rules
            .get(rule as usize)
            .and_then(Option::as_ref)
            .map_or(0, |rule| rule.keys)
    }

    /// Adds a rule without keys, and returns its number.
    pub(super) fn add_rule(&mut self, class: Class, max_keys: usize) -> u32 {
        let rule = Some(TableRule {
            class,
            max_keys,
            keys: 0,
        });
        let free = self.rules.iter().position(Option::is_none);
        let number = free.unwrap_or(self.rules.len());
        match free {
            Some(place) => self.rules[place] = rule,
            None => self.rules.push(rule),
        }
        number as u32
    }

    /// Gives rules other definitions; `None`: their keys are forgotten.
    pub(super) fn change_rules(&mut self, changes: &[(u32, Option<(Class, usize)>)]) {
        let mut is_changed = false;
        for (number, change) in changes {
            let Some(place) = self.rules.get_mut(*number as usize) else {
                continue;
            };
            match (place.as_mut(), change) {
                (Some(rule), Some((class, max_keys))) => {
                    is_changed |= rule.class != *class;
                    (rule.class, rule.max_keys) = (*class, *max_keys);
                }
                (rule, None) => {
                    is_changed |= rule.is_some_and(|rule| rule.keys > 0);
                    *place = None;
                }
                (None, Some(_)) => {}
            }
        }
        if is_changed {
            self.regroup();
        }
    }

    /// Brings the sets of all states up to date with the classes of their rules.
    fn regroup(&mut self) {
        let Self { keys, rules, sets } = self;
        let class_of = |rule: u32| rules[rule as usize].as_ref().map(|rule| rule.class);
        keys.retain(|_, states| {
            let old = std::mem::replace(states, States::Many(Vec::new())).into_vec();
            let mut new: Vec<State> = Vec::with_capacity(old.len());
            for state in old {
                let mut of_classes: Vec<(Class, Vec<u32>)> = Vec::new();
                for rule in &state.rules.rules {
                    let Some(class) = class_of(*rule) else { continue };
                    match of_classes.iter_mut().find(|(known, _)| *known == class) {
                        Some((_, own)) => own.push(*rule),
                        None => of_classes.push((class, vec![*rule])),
                    }
                }
                new.extend(of_classes.into_iter().map(|(class, own)| State {
                    rules: intern(sets, class, own),
                    key: state.key.clone(),
                }));
            }
            match States::of(new) {
                Some(new) => {
                    *states = new;
                    true
                }
                None => false,
            }
        });
        self.clean_sets();
    }

    /// Forgets sets that no state has.
    fn clean_sets(&mut self) {
        self.sets.retain(|set| Arc::strong_count(set) > 1);
    }

    /// Returns the sets of some rules, by their classes.
    pub(super) fn sets_of(&mut self, rules: &[u32]) -> Vec<Arc<RuleSet>> {
        let mut of_classes: Vec<(Class, u32)> = Vec::with_capacity(rules.len());
        for rule in rules {
            if let Some(Some(known)) = self.rules.get(*rule as usize) {
                of_classes.push((known.class, *rule));
            }
        }
        of_classes.sort_unstable();
        let of_classes = of_classes.chunk_by(|one, other| one.0 == other.0);
        let sets = of_classes.map(|own| {
            let rules = own.iter().map(|(_, rule)| *rule).collect();
            intern(&mut self.sets, own[0].0, rules)
        });
        sets.collect()
    }

    /// Takes rows in their order. `sets` are those of the sets of the rows.
    pub(super) fn apply(&mut self, keys: &[Box<str>], rows: &[RuleRow], sets: &[Vec<Arc<RuleSet>>]) -> Applied {
        let mut order: Vec<(u32, u32)> = Vec::with_capacity(rows.len());
        order.extend((0..).zip(rows).map(|(place, row)| (row.key, place)));
        if self.has_place(rows, sets) {
            // No key is refused, so keys come one after the other.
            order.sort_unstable();
        }
        let mut applied = Applied::default();
        let Self {
            keys: known,
            rules,
            sets: interned,
        } = self;
        let mut adding = Adding {
            rules,
            sets: interned,
            applied: &mut applied,
        };
        for of_key in order.chunk_by(|one, other| one.0 == other.0) {
            let Some(key) = keys.get(of_key[0].0 as usize) else {
                continue;
            };
            let found = known.get_mut(key);
            let is_new = found.is_none();
            let mut new = States::Many(Vec::new());
            let states = found.unwrap_or(&mut new);
            for (_, place) in of_key {
                let row = &rows[*place as usize];
                for set in &sets[row.set as usize] {
                    adding.add(states, *place, row, set);
                }
            }
            if is_new && let Some(new) = States::of(new.into_vec()) {
                known.insert(key.clone(), new);
            }
        }
        applied
    }

    /// Whether there is place for all keys of rows.
    fn has_place(&self, rows: &[RuleRow], sets: &[Vec<Arc<RuleSet>>]) -> bool {
        let mut of_sets = vec![0; sets.len()];
        for row in rows {
            of_sets[row.set as usize] += 1;
        }
        let mut of_rules = vec![0; self.rules.len()];
        for (count, sets) in of_sets.into_iter().zip(sets) {
            for rule in sets.iter().flat_map(|set| &set.rules) {
                of_rules[*rule as usize] += count;
            }
        }
        let mut rules = self.rules.iter().zip(of_rules);
        rules.all(|(rule, count)| {
            let rule = rule.as_ref();
            rule.is_none_or(|rule| rule.keys + count <= rule.max_keys)
        })
    }

    /// Forgets what some rules do not need at a watermark.
    pub(super) fn forget(&mut self, due: &[u32], watermark: i64) {
        if due.is_empty() {
            return;
        }
        let Self { keys, rules, sets } = self;
        let mut are_due = vec![false; rules.len()];
        for rule in due {
            are_due[*rule as usize] = true;
        }
        let is_due = |rule: &u32| are_due[*rule as usize];
        let mut split_off: Vec<State> = Vec::new();
        let mut forget = |state: &mut State, split_off: &mut Vec<State>| {
            let count = state.rules.rules.iter().filter(|rule| is_due(rule)).count();
            if count == 0 {
                return false;
            }
            if count < state.rules.rules.len() {
                let (own, others): (Vec<u32>, Vec<u32>) = state.rules.rules.iter().partition(|rule| is_due(rule));
                let class = state.rules.class;
                split_off.push(State {
                    rules: intern(sets, class, others),
                    key: state.key.clone(),
                });
                state.rules = intern(sets, class, own);
            }
            let class = &state.rules.class;
            let is_empty = state
                .key
                .forget(&class.threshold(), watermark.saturating_sub(class.lateness));
            if is_empty {
                for rule in &state.rules.rules {
                    if let Some(rule) = &mut rules[*rule as usize] {
                        rule.keys -= 1;
                    }
                }
            }
            is_empty
        };
        keys.retain(|_, states| {
            let is_one_empty = match states {
                States::One(state) => forget(state, &mut split_off),
                States::Many(own) => {
                    own.retain_mut(|state| !forget(state, &mut split_off));
                    false
                }
            };
            if split_off.is_empty() {
                match states {
                    States::One(_) => return !is_one_empty,
                    States::Many(own) if own.len() > 1 && own.capacity() <= 2 * own.len() => return true,
                    States::Many(_) => {}
                }
            }
            let own = std::mem::replace(states, States::Many(Vec::new())).into_vec();
            let own = own.into_iter().filter(|_| !is_one_empty).chain(split_off.drain(..));
            match States::of(own.collect()) {
                Some(own) => {
                    *states = own;
                    true
                }
                None => false,
            }
        });
        self.clean_sets();
        if self.keys.capacity() > 8 * self.keys.len() + 1_000 {
            self.keys.shrink_to_fit();
        }
    }

    /// Returns the keys of each rule with what it remembers of them, by number; sorted.
    pub(super) fn keys(&self) -> Vec<Vec<(&str, &CompactKey)>> {
        let mut of_rules: Vec<Vec<(&str, &CompactKey)>> = Vec::new();
        of_rules.resize_with(self.rules.len(), Vec::new);
        for (key, states) in &self.keys {
            for state in states.as_slice() {
                for rule in &state.rules.rules {
                    of_rules[*rule as usize].push((&**key, &state.key));
                }
            }
        }
        for keys in &mut of_rules {
            keys.sort_unstable_by_key(|(key, _)| *key);
        }
        of_rules
    }

    /// Sets what a rule remembers of a key of which it remembers nothing.
    pub(super) fn set(&mut self, rule: u32, key: &str, state: ThresholdKey) {
        let Self { keys, rules, sets } = self;
        let Some(Some(own)) = rules.get_mut(rule as usize) else {
            return;
        };
        own.keys += 1;
        let state = State {
            rules: intern(sets, own.class, vec![rule]),
            key: state.into(),
        };
        let Some(states) = keys.get_mut(key) else {
            keys.insert(key.into(), States::One(state));
            return;
        };
        let mut others = states.as_mut_slice().iter_mut();
        let same = others.find(|other| other.rules.class == own.class && other.key == state.key);
        match same {
            Some(same) => {
                let mut rules = same.rules.rules.to_vec();
                rules.insert(rules.partition_point(|other| *other < rule), rule);
                same.rules = intern(sets, own.class, rules);
            }
            None => states.push(state),
        }
    }
}

/// What rows change besides the states of a key.
struct Adding<'t> {
    rules: &'t mut [Option<TableRule>],
    sets: &'t mut HashSet<Arc<RuleSet>, RandomState>,
    applied: &'t mut Applied,
}

impl Adding<'_> {
    /// Adds a row to the states of its key.
    fn add(&mut self, states: &mut States, place: u32, row: &RuleRow, set: &Arc<RuleSet>) {
        let mut own = states.as_mut_slice().iter_mut();
        if let Some(state) = own.find(|state| Arc::ptr_eq(&state.rules, set)) {
            let reached = state.key.add(&set.class.threshold(), row);
            self.raise(&state.rules, place, reached);
            return;
        }
        let mut missing = set.rules.to_vec();
        for number in 0..states.as_slice().len() {
            let state = &mut states.as_mut_slice()[number];
            let mut of_state = state.rules.rules.iter();
            if state.rules.class != set.class || !of_state.any(|rule| missing.binary_search(rule).is_ok()) {
                continue;
            }
            let (shared, others) = split(&missing, &state.rules.rules);
            missing = others;
            let mut split_off = None;
            if shared.len() < state.rules.rules.len() {
                let (_, rest) = split(&state.rules.rules, &shared);
                split_off = Some(State {
                    rules: intern(self.sets, set.class, rest),
                    key: state.key.clone(),
                });
                state.rules = intern(self.sets, set.class, shared);
            }
            let reached = state.key.add(&set.class.threshold(), row);
            let rules = Arc::clone(&state.rules);
            self.raise(&rules, place, reached);
            if let Some(split_off) = split_off {
                states.push(split_off);
            }
            if missing.is_empty() {
                return;
            }
        }
        let mut admitted = Vec::with_capacity(missing.len());
        for number in missing {
            match &mut self.rules[number as usize] {
                Some(rule) if rule.keys < rule.max_keys => {
                    rule.keys += 1;
                    admitted.push(number);
                }
                Some(_) => self.applied.overflowed += row.events,
                None => {}
            }
        }
        if admitted.is_empty() {
            return;
        }
        let rules = match admitted.len() == set.rules.len() {
            true => Arc::clone(set),
            false => intern(self.sets, set.class, admitted),
        };
        let (key, reached) = CompactKey::of_row(&set.class.threshold(), row);
        self.raise(&rules, place, reached);
        states.push(State { rules, key });
    }

    fn raise(&mut self, rules: &RuleSet, row: u32, reached: Option<Reached>) {
        let Some(reached) = reached else { return };
        let raised = rules.rules.iter().map(|rule| Raised {
            rule: *rule,
            row,
            reached,
        });
        self.applied.raised.extend(raised);
    }
}
