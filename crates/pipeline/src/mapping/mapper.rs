//! The mapper: one record to one event with common fields, printed as JSON.

use std::borrow::Cow;
use std::sync::Arc;

use firn_detect::{CpuClock, RuleSet};

use super::convert::{self, Context, Outcome};
use super::dates::push_iso;
use super::detector::Detector;
use super::items::{Item, ItemBuffers, Items, NO_SOURCE, Stored};
use super::json_pass;
use super::lookup::BoundLookup;
use super::pack::{Format, Pack, Piece, Rules, Template};
use super::print::print;
use super::raw_fields::{CONSUMED, RawBuffers, RawFields, text_of};
use crate::event::{FieldSink, Value};
use crate::parsers::ParseError;
use crate::tables::Tables;

/// What a mapper writes besides the mapped fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapOptions {
    /// Stores the record in `event.original`.
    pub original: bool,
    /// Time of arrival in nanoseconds since the epoch: the year of dates without one, and `@timestamp` of events without one.
    pub received: Option<i64>,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self {
            original: true,
            received: None,
        }
    }
}

/// Mapper of one thread: a pack, its tables, and buffers that are used again for each event.
#[derive(Debug)]
pub struct Mapper {
    pack: Arc<Pack>,
    options: MapOptions,
    lookups: Vec<BoundLookup>,
    detector: Option<Detector>,
    raw: RawBuffers,
    items: ItemBuffers,
    /// Sections of the event.
    sections: Vec<u16>,
    /// Places of raw fields that stay under the prefix.
    remaining: Vec<usize>,
}

impl Mapper {
    /// Creates a mapper. Look-ups in tables that are not there are left out.
    pub fn new(pack: Arc<Pack>, tables: &Tables, options: MapOptions) -> Self {
        let bind = |lookup| {
            Some(BoundLookup::new(
                lookup,
                Arc::clone(tables.get(&pack.lookups[lookup].table)?),
                &pack,
            ))
        };
        Self {
            lookups: (0..pack.lookups.len()).filter_map(bind).collect(),
            options,
            detector: None,
            raw: RawBuffers::default(),
            items: ItemBuffers::default(),
            sections: Vec::new(),
            remaining: Vec::new(),
            pack,
        }
    }

    /// Returns the pack.
    pub fn pack(&self) -> &Arc<Pack> {
        &self.pack
    }

    /// Evaluates rules on the records that follow. They are to be compiled for the [log sources of the pack](Pack::log_sources).
    pub fn set_rules(&mut self, rules: Option<Arc<RuleSet>>) {
        self.detector = rules.map(|rules| Detector::new(&self.pack, rules));
    }

    /// Measures the costs of the rules by this clock, see [`firn_detect::Evaluator::measure`].
    pub fn measure_rules(&mut self, clock: CpuClock) {
        if let Some(detector) = &mut self.detector {
            detector.evaluator().measure(clock);
        }
    }

    /// Leaves rules out, see [`firn_detect::Evaluator::skip`].
    pub fn skip_rules(&mut self, skipped: Arc<[bool]>) {
        if let Some(detector) = &mut self.detector {
            detector.evaluator().skip(skipped);
        }
    }

    /// Sum of the costs of rules that were not taken, nanoseconds of processor time.
    pub fn rule_cost_nanos(&mut self) -> i64 {
        self.detector
            .as_mut()
            .map_or(0, |detector| detector.evaluator().cost_nanos())
    }

    /// Hands over the costs of rules, see [`firn_detect::Evaluator::take_costs`].
    pub fn take_rule_costs(&mut self, each: impl FnMut(u32, i64)) {
        if let Some(detector) = &mut self.detector {
            detector.evaluator().take_costs(each);
        }
    }

    /// Returns the rules that are evaluated.
    pub fn rules(&self) -> Option<&Arc<RuleSet>> {
        self.detector.as_ref().map(Detector::rules)
    }

    /// Returns the rules that the last record matches, by their numbers, in order.
    pub fn matches(&self) -> &[u32] {
        self.detector.as_ref().map_or(&[], Detector::matches)
    }

    /// Returns the value of a field of the last record, as rules read it: a scalar, a list, or null if it has none or no rule reads it.
    pub fn record_value(&self, name: &str) -> serde_json::Value {
        let value = self.detector.as_ref().map(|detector| detector.value(name));
        value.unwrap_or(serde_json::Value::Null)
    }

    /// Sets the time of arrival of the records that follow, in nanoseconds since the epoch.
    pub fn set_received(&mut self, received: Option<i64>) {
        self.options.received = received;
    }

    /// Appends the event of a record as one line of JSON, without the line break. Invalid UTF-8 is replaced by U+FFFD and
    /// flagged in `firn.mapping.invalid_utf8`.
    ///
    /// # Errors
    /// The record has not the format of the pack; nothing was appended.
    pub fn map(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), ParseError> {
        match str::from_utf8(record) {
            Ok(text) => self.map_text(text, false, out),
            Err(_) => self.map_text(&String::from_utf8_lossy(record), true, out),
        }
    }

    fn map_text(&mut self, record: &str, is_replaced: bool, out: &mut Vec<u8>) -> Result<(), ParseError> {
        let pack = &*self.pack;
        let mut fields = RawFields::of(pack, &mut self.raw);
        let parsed = match &pack.format {
            Format::Json => json_pass::parse(&pack.tree, record, &mut fields),
            Format::Parser(parser) => parser.parse(record, &mut fields),
        };
        if let Err(error) = parsed {
            if let Some(detector) = &mut self.detector {
                detector.clear();
            }
            fields.return_to(&mut self.raw);
            return Err(error);
        }
        let mut items = Items::new(pack.targets.len(), &mut self.items);
        if self.options.original {
            items.set(pack.stamps.original, Item::Plain(record), 0, NO_SOURCE);
        }
        if is_replaced || fields.has_replacements {
            items.set(pack.stamps.invalid_utf8, Item::Bool(true), 0, NO_SOURCE);
        }
        extract(&pack.common, &mut fields);
        choose(pack, &fields, &mut self.sections);
        for section in &self.sections {
            extract(&pack.sections[usize::from(*section)].rules, &mut fields);
        }
        if let Some(detector) = &mut self.detector {
            detector.evaluate(&fields);
        }
        name_by_labels(pack, &mut fields);
        self.remaining.clear();
        let event = Event {
            pack,
            sections: &self.sections,
            received: self.options.received,
        };
        event.apply(&fields, &mut items, &mut self.remaining);
        event.complete(&fields, &mut items);
        for lookup in &mut self.lookups {
            lookup.look_up(pack, self.options.received, &mut items);
        }
        self.remaining.sort_unstable();
        self.remaining.dedup();
        for place in &self.remaining {
            if let Some((number, value)) = fields.known.get_mut(*place) {
                let name = Cow::Borrowed(pack.fields.name(*number));
                let value = std::mem::replace(value, Value::Null);
                fields.push_unmapped(name, value);
            }
        }
        if !fields.unmapped.is_empty() {
            items.mark(pack.stamps.prefix);
        }
        print(pack, &items, &mut fields.unmapped, out);
        items.return_to(&mut self.items);
        fields.return_to(&mut self.raw);
        Ok(())
    }
}

/// What the steps of one event share.
struct Event<'e> {
    pack: &'e Pack,
    sections: &'e [u16],
    received: Option<i64>,
}

impl<'e> Event<'e> {
    fn rules(&self) -> impl Iterator<Item = &'e Rules> {
        let pack = self.pack;
        let sections = self
            .sections
            .iter()
            .map(move |section| &pack.sections[usize::from(*section)].rules);
        sections.chain([&pack.common])
    }

    /// Runs the actions of all raw fields; those of sections come before the rules for all events.
    fn apply<'a>(&self, fields: &RawFields<'a, '_>, items: &mut Items<'a>, remaining: &mut Vec<usize>)
    where
        'e: 'a,
    {
        for (place, (number, value)) in fields.known.iter().enumerate() {
            if *number == CONSUMED {
                continue;
            }
            let range = self.rules().find_map(|rules| rules.of(*number));
            let Some(range) = range.filter(|range| !range.is_empty()) else {
                remaining.push(place);
                continue;
            };
            let context = Context {
                pack: self.pack,
                received: self.received,
                source: place,
            };
            let mut has_failed = false;
            for action in &self.pack.actions[range] {
                match convert::apply(context, action, value, items) {
                    Outcome::Stored | Outcome::Absent => {}
                    Outcome::Failed => has_failed |= !action.is_optional,
                    Outcome::Lost => remaining.push(place),
                    Outcome::Replaced(other) => remaining.push(other),
                }
            }
            if has_failed {
                remaining.push(place);
                items.append(self.pack.stamps.errors, Item::Plain(self.pack.fields.name(*number)));
            }
        }
    }

    /// Writes templates and constants into targets that have no value yet.
    fn complete<'a>(&self, fields: &RawFields<'a, '_>, items: &mut Items<'a>) {
        for rules in self.rules() {
            for template in &rules.templates {
                if !items.is_filled(template.target) {
                    self.fill(template, fields, items);
                }
            }
            for constant in &rules.constants {
                let mut texts = constant.texts.iter().map(|text| Item::Constant(*text));
                if self.pack.targets.is_list(constant.target) {
                    texts.for_each(|item| items.append(constant.target, item));
                } else if !items.is_filled(constant.target) {
                    if let Some(first) = texts.next() {
                        items.set(constant.target, first, u16::MAX, NO_SOURCE);
                    }
                    texts.for_each(|item| items.extend(constant.target, item));
                }
            }
        }
        if let Some(received) = self.received
            && !items.is_filled(self.pack.stamps.timestamp)
        {
            let start = items.scratch.len() as u32;
            push_iso(received, &mut items.scratch);
            let item = Item::Scratch(start, items.scratch.len() as u32);
            items.set(self.pack.stamps.timestamp, item, u16::MAX, NO_SOURCE);
        }
    }

    fn fill<'a>(&self, template: &Template, fields: &RawFields<'a, '_>, items: &mut Items<'a>) {
        let start = items.scratch.len();
        for piece in &template.pieces {
            match piece {
                Piece::Literal(text) => items.scratch.push_str(text),
                Piece::Field(field) => match fields.text(*field) {
                    Some(text) if !self.pack.is_absent(&text) => items.scratch.push_str(&text),
                    _ => return items.scratch.truncate(start),
                },
            }
        }
        let item = Item::Scratch(start as u32, items.scratch.len() as u32);
        let _: Stored = items.set(template.target, item, u16::MAX, NO_SOURCE);
    }
}

/// Takes fields out of the texts of other fields.
fn extract<'a>(rules: &'a Rules, fields: &mut RawFields<'a, '_>) {
    for extract in &rules.extracts {
        let text: Cow<'a, str> = match fields.get(extract.from) {
            Some(Value::Text(Cow::Borrowed(text))) => Cow::Borrowed(*text),
            Some(value) => match text_of(value) {
                Some(text) => Cow::Owned(text.into_owned()),
                None => continue,
            },
            None => continue,
        };
        match &text {
            Cow::Borrowed(text) => {
                extract
                    .patterns
                    .iter()
                    .any(|pattern| pattern.matches(text, |name, value| fields.field(name, Value::text(value))));
            }
            Cow::Owned(text) => {
                extract.patterns.iter().any(|pattern| {
                    pattern.matches(text, |name, value| {
                        fields.field(name, Value::Text(Cow::Owned(value.to_owned())))
                    })
                });
            }
        }
    }
}

/// Finds the sections whose conditions the event meets, in the order of the pack.
fn choose(pack: &Pack, fields: &RawFields<'_, '_>, chosen: &mut Vec<u16>) {
    chosen.clear();
    let chooser = &pack.chooser;
    if let Some(text) = chooser.field.and_then(|field| fields.text(field)) {
        let found = match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => chooser.values.find(&text.to_ascii_lowercase()),
            false => chooser.values.find(&text),
        };
        if let Some(value) = found {
            chosen.extend_from_slice(&chooser.by_value[usize::from(value)]);
        }
    }
    chosen.extend_from_slice(&chooser.others);
    chosen.retain(|section| {
        let conditions = &pack.sections[usize::from(*section)].conditions;
        conditions
            .iter()
            .all(|(field, condition)| condition.holds(fields.text(*field).as_deref()))
    });
    chosen.sort_unstable();
}

/// Names fields by the text of another field: `cs1=7 cs1Label=Policy` becomes `Policy: 7` under the prefix.
fn name_by_labels<'a>(pack: &Pack, fields: &mut RawFields<'a, '_>) {
    for pair in &pack.labels {
        if fields.get(pair.value).is_none() {
            continue;
        }
        let name = match fields.text(pair.label) {
            Some(label) if !label.is_empty() => label.replace('.', "_"),
            _ => continue,
        };
        fields.consume(pair.label);
        if let Some(value) = fields.consume(pair.value) {
            fields.push_unmapped(Cow::Owned(name), value);
        }
    }
}
