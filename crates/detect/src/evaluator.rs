//! Evaluation of one event after the other.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::cost_meter::{CostMeter, CpuClock};
use crate::event::{EventFields, FieldId, Value};
use crate::index::GroupState;
use crate::rule_set::RuleSet;

/// Most combinations of selecting values whose groups are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Longest selecting values, together, that are remembered, in bytes.
const KEY_BYTES_MAX: usize = 512;

/// Evaluator of one thread: a set of rules, and buffers that are used again for each event.
#[derive(Debug)]
pub struct Evaluator {
    rules: Arc<RuleSet>,
    fields: EventFields,
    states: Vec<GroupState>,
    /// Groups by the values of the selecting fields.
    remembered: HashMap<Box<str>, Box<[u16]>, FixedState>,
    key: String,
    /// Keywords look at the texts of all fields.
    reads_all_texts: bool,
    /// Whether a rule is not evaluated, by its number; rules behind the end are.
    skipped: Arc<[bool]>,
    /// `None`: costs are not measured.
    meter: Option<CostMeter>,
}

impl Evaluator {
    /// Creates an evaluator.
    pub fn new(rules: Arc<RuleSet>) -> Self {
        Self {
            fields: EventFields::new(rules.names()),
            states: rules.parts.iter().map(|part| part.group.state()).collect(),
            remembered: HashMap::default(),
            key: String::new(),
            reads_all_texts: rules.reads_all_texts(),
            skipped: Arc::new([]),
            meter: None,
            rules,
        }
    }

    /// Leaves out the rules for whose numbers this is `true` from the next event on. Costs no compilation.
    pub fn skip(&mut self, skipped: Arc<[bool]>) {
        self.skipped = skipped;
    }

    /// Measures the costs of the rules by this clock.
    pub fn measure(&mut self, clock: CpuClock) {
        self.meter = Some(CostMeter::new(clock, self.rules.rules().len()));
    }

    /// Sum of the costs that were not [taken](Self::take_costs), nanoseconds of processor time; 0 without a clock.
    pub fn cost_nanos(&self) -> i64 {
        self.meter.as_ref().map_or(0, CostMeter::total_nanos)
    }

    /// Calls `each` with the number and the cost of each rule that has one since the last call, nanoseconds of processor time. The
    /// costs are estimates, and a single one may be below zero.
    pub fn take_costs(&mut self, each: impl FnMut(u32, i64)) {
        if let Some(meter) = &mut self.meter {
            meter.take(each);
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// Removes the fields of the last event and returns those of the next one, to be filled.
    pub fn begin(&mut self) -> &mut EventFields {
        self.fields.clear();
        &mut self.fields
    }

    /// Returns the fields of this event.
    pub fn fields(&mut self) -> &mut EventFields {
        &mut self.fields
    }

    /// Returns the fields of this event, to be read.
    pub(crate) fn event(&self) -> &EventFields {
        &self.fields
    }

    /// Adds a value by the name of its field.
    pub fn push(&mut self, name: &str, value: Value<'_>) {
        self.push_value(self.rules.names().find(name), value);
    }

    /// Whether an object of this name may have a value that a rule looks at.
    pub(crate) fn reads_below(&self, name: &str) -> bool {
        self.reads_all_texts || self.rules.names().is_parent(name)
    }

    /// Adds a value of a field; `None`: no rule reads it by name.
    pub(crate) fn push_value(&mut self, field: Option<FieldId>, value: Value<'_>) {
        match field {
            Some(field) => self.fields.push(field, value),
            None => {
                if let Value::Text(text) = value
                    && self.reads_all_texts
                {
                    self.fields.push_other(text);
                }
            }
        }
    }

    /// Appends the numbers of the rules that the event matches, in order.
    pub fn evaluate(&mut self, matches: &mut Vec<u32>) {
        let start = matches.len();
        let Self {
            rules,
            fields,
            states,
            remembered,
            key,
            skipped,
            meter,
            ..
        } = self;
        key.clear();
        for field in &rules.selectors {
            for value in fields.values(*field) {
                key.push_str(value.lower);
                key.push('\u{1}');
            }
            key.push('\u{2}');
        }
        let computed;
        let of_event = if key.len() > KEY_BYTES_MAX {
            computed = groups(rules, fields);
            &computed
        } else {
            if !remembered.contains_key(key.as_str()) {
                if remembered.len() >= REMEMBERED_MAX {
                    remembered.clear();
                }
                remembered.insert(key.as_str().into(), groups(rules, fields));
            }
            &remembered[key.as_str()]
        };
        let weight = meter.as_mut().and_then(|meter| meter.sample(fields.text_bytes()));
        for group in of_event {
            let place = usize::from(*group);
            let (part, state) = (&rules.parts[place], &mut states[place]);
            part.group.find_candidates(fields, state);
            let mut measurement = match (&mut *meter, weight) {
                (Some(meter), Some(weight)) => Some(meter.start(weight)),
                _ => None,
            };
            part.group
                .evaluate(fields, state, (&part.numbers, skipped), &mut |rule, holds| {
                    if let Some(measurement) = &mut measurement {
                        measurement.evaluated(rule, &rules.rules()[rule as usize].id);
                    }
                    if holds {
                        matches.push(rule);
                    }
                });
        }
        matches[start..].sort_unstable();
        // A rule may be in several groups of an event: those of entries that stand in for others.
        let mut distinct = start;
        for place in start..matches.len() {
            if place == start || matches[place] != matches[distinct - 1] {
                matches[distinct] = matches[place];
                distinct += 1;
            }
        }
        matches.truncate(distinct);
    }
}

/// Returns the groups of an event.
fn groups(rules: &RuleSet, fields: &EventFields) -> Box<[u16]> {
    let mut groups = rules.always.clone();
    for source in &rules.sources {
        let is_met = source.when.iter().all(|(field, wanted)| {
            let mut values = fields.values(*field);
            values.any(|value| wanted.iter().any(|wanted| wanted == value.lower))
        });
        if is_met {
            groups.extend_from_slice(&source.groups);
        }
    }
    groups.sort_unstable();
    groups.dedup();
    groups.into()
}
