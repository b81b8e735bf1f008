//! Fields of one event, as rules read them.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use crate::glob::push_lower_case;

/// Number of a field that a rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub(crate) u16);

impl FieldId {
    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// Numbers of the fields that the rules of a set read.
#[derive(Debug, Clone, Default)]
pub struct FieldNames {
    numbers: HashMap<Box<str>, FieldId, FixedState>,
    /// Names of the objects that the fields are in.
    parents: HashSet<Box<str>, FixedState>,
}

/// Most fields that the rules of a set may read.
pub(crate) const FIELDS_MAX: usize = u16::MAX as usize;

impl FieldNames {
    /// Returns the number of a field; `None`: no rule reads it.
    #[inline]
    pub fn find(&self, name: &str) -> Option<FieldId> {
        self.numbers.get(name).copied()
    }

    /// Returns whether an object of this name may have a field that a rule reads.
    #[inline]
    pub(crate) fn is_parent(&self, name: &str) -> bool {
        self.parents.contains(name)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether no rule reads a field.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(|name| &**name)
    }

    /// Returns the number of a field, which may be new. `None`: there are too many.
    pub(crate) fn intern(&mut self, name: &str) -> Option<FieldId> {
        if let Some(known) = self.find(name) {
            return Some(known);
        }
        let number = u16::try_from(self.numbers.len())
            .ok()
            .filter(|number| usize::from(*number) < FIELDS_MAX)?;
        self.numbers.insert(name.into(), FieldId(number));
        let dots = name.match_indices('.');
        self.parents.extend(dots.map(|(dot, _)| name[..dot].into()));
        Some(FieldId(number))
    }
}

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// JSON's `null`.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A number in JSON's notation.
    Number(&'a str),
    /// A text.
    Text(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Null,
    Boolean,
    Number,
    Text,
}

/// A value in the buffers.
#[derive(Debug, Clone, Copy)]
struct Slot {
    kind: ValueKind,
    raw: (u32, u32),
    lower: (u32, u32),
    /// The next value of the same field, plus one.
    next: u32,
}

/// Fields of one event. Used again for each event; the buffers stay.
#[derive(Debug, Default)]
pub struct EventFields {
    slots: Vec<Slot>,
    /// First and last slot of a field, plus one, by the number of the field.
    heads: Vec<(u32, u32)>,
    /// Fields with a value.
    present: Vec<FieldId>,
    raw: String,
    lower: String,
}

impl EventFields {
    /// Creates the fields for a set of rules.
    pub fn new(names: &FieldNames) -> Self {
        Self {
            heads: vec![(0, 0); names.len()],
            ..Self::default()
        }
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        for field in self.present.drain(..) {
            self.heads[field.place()] = (0, 0);
        }
        self.slots.clear();
        self.raw.clear();
        self.lower.clear();
    }

    /// Adds a value of a field. A list is several values.
    pub fn push(&mut self, field: FieldId, value: Value<'_>) {
        let number = self.add(value);
        let head = &mut self.heads[field.place()];
        match head.1 {
            0 => {
                self.present.push(field);
                *head = (number, number);
            }
            last => {
                self.slots[last as usize - 1].next = number;
                head.1 = number;
            }
        }
    }

    /// Adds a text of a field that no rule reads by name. Keywords look at it.
    pub fn push_other(&mut self, text: &str) {
        self.add(Value::Text(text));
    }

    fn add(&mut self, value: Value<'_>) -> u32 {
        let (kind, text) = match value {
            Value::Null => (ValueKind::Null, ""),
            Value::Boolean(true) => (ValueKind::Boolean, "true"),
            Value::Boolean(false) => (ValueKind::Boolean, "false"),
            Value::Number(text) => (ValueKind::Number, text),
            Value::Text(text) => (ValueKind::Text, text),
        };
        let (raw, lower) = (self.raw.len() as u32, self.lower.len() as u32);
        self.raw.push_str(text);
        push_lower_case(text, &mut self.lower);
        self.slots.push(Slot {
            kind,
            raw: (raw, self.raw.len() as u32),
            lower: (lower, self.lower.len() as u32),
            next: 0,
        });
        self.slots.len() as u32
    }

    /// Returns the values of a field.
    pub(crate) fn values(&self, field: FieldId) -> Values<'_> {
        Values {
            fields: self,
            next: self.heads.get(field.place()).map_or(0, |head| head.0),
        }
    }

    /// Length of all values.
    pub(crate) fn text_bytes(&self) -> usize {
        self.raw.len()
    }

    /// Fields that have a value.
    pub(crate) fn present(&self) -> &[FieldId] {
        &self.present
    }

    /// Returns all texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = StoredValue<'_>> {
        let values = self.slots.iter().map(|slot| self.stored(slot));
        values.filter(|value| value.kind == ValueKind::Text)
    }

    fn stored(&self, slot: &Slot) -> StoredValue<'_> {
        StoredValue {
            kind: slot.kind,
            raw: &self.raw[slot.raw.0 as usize..slot.raw.1 as usize],
            lower: &self.lower[slot.lower.0 as usize..slot.lower.1 as usize],
        }
    }
}

/// A value of the event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredValue<'e> {
    pub(crate) kind: ValueKind,
    pub(crate) raw: &'e str,
    pub(crate) lower: &'e str,
}

impl StoredValue<'_> {
    pub(crate) fn number(&self) -> Option<f64> {
        match self.kind {
            ValueKind::Number | ValueKind::Text => self.raw.parse().ok(),
            ValueKind::Null | ValueKind::Boolean => None,
        }
    }
}

/// Values of one field.
pub(crate) struct Values<'e> {
    fields: &'e EventFields,
    next: u32,
}

impl<'e> Iterator for Values<'e> {
    type Item = StoredValue<'e>;

    fn next(&mut self) -> Option<Self::Item> {
        let slot = self.fields.slots.get((self.next as usize).checked_sub(1)?)?;
        self.next = slot.next;
        Some(self.fields.stored(slot))
    }
}
