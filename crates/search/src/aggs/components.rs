//! Components of keys with several fields, for `multi_terms` and `composite`.
//!
//! A value of a component is a number: an ordinal for strings, and for numbers one that is the same in all
//! segments. These numbers have the order of the values.

use std::ops::Bound;

use firn_model::dates::{DateFormat, Rounding, Zone};
use firn_model::{Error, Result};
use firn_query::aggs::{CompositeSource, Key, KeyBytes, MultiTermsSource, SourceKind, ValueFormat};
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, ValueBlock};
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema;
use serde_json::Value;
use tantivy::DocId;

use super::super::compile::Compiler;
use super::collector::Scope;
use super::source::{self, Source};
use crate::compile::field::{Numeric, scalar_text};

/// A component, compiled.
pub(super) struct ComponentPlan {
    source: Source,
    make: Make,
    pub(super) format: ValueFormat,
    /// The key of documents without a value; `None`: they have no key.
    pub(super) missing: Option<KeyBytes>,
}

/// The conversion of a number to a key.
#[derive(Clone)]
enum Make {
    /// The number itself.
    Same,
    /// The multiple of this at or below the number.
    Multiple(f64),
    /// The start of the number's interval, in ms.
    Start(Rounding),
}

const INT_BASE: i128 = 1 << 63;

impl ComponentPlan {
    pub(super) fn of_terms(compiler: &Compiler, part: &MultiTermsSource) -> Result<Self> {
        let source = Source::compile(compiler, &part.field)?;
        let missing = match (&part.missing, &source) {
            (None, _) => None,
            (Some(value), Source::Numbers { .. } | Source::MetaNumbers(_)) => {
                let numeric = source.numeric();
                let number = source::missing_number(&numeric, value, compiler.now_ms)?;
                Some(key_of(&numeric, number))
            }
            (Some(value), Source::Strings { is_ip, .. }) => {
                Some(text_key(&source::stored_string(*is_ip, value)?, *is_ip))
            }
            (Some(value), _) => Some(text_key(&source::stored_string(false, value)?, false)),
        };
        Ok(Self {
            format: source.value_format(part.format.as_deref())?,
            source,
            make: Make::Same,
            missing,
        })
    }

    pub(super) fn of_composite(compiler: &Compiler, part: &CompositeSource) -> Result<Self> {
        let missing = part.missing_bucket.then_some(KeyBytes::Null);
        let (source, make) = match &part.kind {
            SourceKind::Terms => (Source::compile(compiler, &part.field)?, Make::Same),
            SourceKind::Histogram { interval } => (
                Source::numbers(compiler, &part.field, "composite")?,
                Make::Multiple(*interval),
            ),
            SourceKind::DateHistogram { .. } => {
                let source = Source::numbers(compiler, &part.field, "composite")?;
                let make = part.rounding()?.map_or(Make::Same, Make::Start);
                (source, make)
            }
        };
        if part.format.is_some()
            && matches!(&source, Source::Numbers { numeric, .. } if numeric.date_format().is_none())
        {
            return Err(Error::not_implemented("a number [format] in a source of [composite]"));
        }
        // Dates are numbers in keys unless the request has a format.
        let format = match (source.value_format(part.format.as_deref())?, &part.format) {
            (ValueFormat::Date(_), None) => ValueFormat::Raw,
            (format, _) => format,
        };
        Ok(Self {
            source,
            make,
            format,
            missing,
        })
    }

    /// Reads a key of `after` as this component prints it.
    pub(super) fn read_after(&self, name: &str, value: &Value) -> Result<KeyBytes> {
        let wrong = || {
            Error::illegal_argument(format!(
                "Invalid value for [after.{name}]: [{}] is not a key of the source",
                scalar_text(value).unwrap_or_default()
            ))
        };
        if value.is_null() {
            return Ok(KeyBytes::Null);
        }
        let numeric = match &self.source {
            Source::Strings { is_ip, .. } => return Ok(text_key(&source::stored_string(*is_ip, value)?, *is_ip)),
            Source::Constant(_) | Source::Nothing => {
                return Ok(text_key(&source::stored_string(false, value)?, false));
            }
            Source::Numbers { .. } | Source::MetaNumbers(_) => self.source.numeric(),
        };
        if let (ValueFormat::Date(format), Value::String(text)) = (&self.format, value) {
            return Ok(KeyBytes::I64(
                self.parse_date(format, text)
                    .map_err(|cause| wrong().caused_by(cause))?,
            ));
        }
        if let Make::Multiple(interval) = self.make {
            let value = value
                .as_f64()
                .or_else(|| value.as_str()?.trim().parse().ok())
                .ok_or_else(wrong)?;
            // The key was printed as a product, so dividing it may return slightly less than the number.
            let near = (value / interval).round();
            let number = if near * interval == value {
                near
            } else {
                (value / interval).floor()
            };
            return Ok(KeyBytes::from_f64(number * interval));
        }
        match &numeric {
            Numeric::Date(format) | Numeric::DateNanos(format) => {
                if let Some(ms) = value.as_i64() {
                    return Ok(KeyBytes::I64(ms));
                }
                let text = value.as_str().ok_or_else(wrong)?;
                let ms = self
                    .parse_date(format, text)
                    .map_err(|cause| wrong().caused_by(cause))?;
                Ok(KeyBytes::I64(ms))
            }
            numeric => Ok(key_of(numeric, numeric.read(value).ok_or_else(wrong)?)),
        }
    }

    fn parse_date(&self, format: &DateFormat, text: &str) -> Result<i64> {
        let zone = match &self.make {
            Make::Start(rounding) => rounding.zone().clone(),
            _ => Zone::utc(),
        };
        format.parse_math_ms(text, 0, false, &zone)
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Component> {
        let reader = &scope.segment.reader;
        let values = match &self.source {
            Source::Strings { class, path, is_ip } => match column::open_strings(reader, *class, path)? {
                Some(strings) => Values::Strings { strings, is_ip: *is_ip },
                None => Values::Nothing,
            },
            Source::Numbers { path, .. } => self.numbers(NumColumn::open(reader, path)?),
            Source::MetaNumbers(name) => self.numbers(NumColumn::open_named(reader, name)?),
            Source::Constant(text) => Values::Constant(text.clone()),
            Source::Nothing => Values::Nothing,
        };
        Ok(Component {
            values,
            block: ValueBlock::default(),
            next: 0,
            own: Vec::new(),
            known: (0, 0, 0),
        })
    }

    fn numbers(&self, column: Option<NumColumn>) -> Values {
        match column {
            Some(column) => Values::Numbers {
                column,
                numeric: self.source.numeric(),
                make: self.make.clone(),
            },
            None => Values::Nothing,
        }
    }
}

/// A component on a segment.
pub(super) struct Component {
    values: Values,
    block: ValueBlock,
    next: usize,
    own: Vec<u128>,
    /// The interval of the previous timestamp: (start, end, value). Events are mostly in time order, so it is
    /// mostly the same.
    known: (i64, i64, u128),
}

enum Values {
    Strings {
        strings: StrColumn,
        is_ip: bool,
    },
    Numbers {
        column: NumColumn,
        numeric: Numeric,
        make: Make,
    },
    /// The same value for every document.
    Constant(String),
    Nothing,
}

/// Position of a key among the values of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    At(u128),
    /// Between the previous value and this one.
    Before(u128),
}

impl Component {
    /// Reads the values of a block of documents.
    pub(super) fn read(&mut self, docs: &[DocId]) {
        self.next = 0;
        match &self.values {
            Values::Strings { strings, .. } => self.block.read(strings.ords(), docs),
            Values::Numbers { column, .. } => self.block.read(&column.column, docs),
            Values::Constant(_) | Values::Nothing => {}
        }
    }

    /// Returns the distinct values of the document at a position of the block, ascending. Call it with ascending
    /// positions.
    pub(super) fn values_at(&mut self, position: usize) -> &[u128] {
        self.own.clear();
        match &self.values {
            Values::Nothing => {}
            Values::Constant(_) => self.own.push(0),
            Values::Strings { .. } | Values::Numbers { .. } => {
                while self.block.positions.get(self.next) == Some(&(position as u32)) {
                    let raw = self.block.raws[self.next];
                    self.next += 1;
                    let value = match &self.values {
                        Values::Numbers { column, numeric, make } => made(column, numeric, make, raw, &mut self.known),
                        _ => raw.into(),
                    };
                    self.own.push(value);
                }
                if self.own.len() > 1 {
                    self.own.sort_unstable();
                    self.own.dedup();
                }
            }
        }
        &self.own
    }

    /// Returns the position of a key.
    pub(super) fn place(&self, key: &KeyBytes) -> Result<Place> {
        Ok(match &self.values {
            Values::Nothing => Place::Before(0),
            Values::Constant(own) => match key {
                KeyBytes::Str(text) => match text.as_ref().cmp(own.as_str()) {
                    std::cmp::Ordering::Less => Place::Before(0),
                    std::cmp::Ordering::Equal => Place::At(0),
                    std::cmp::Ordering::Greater => Place::Before(1),
                },
                _ => Place::Before(0),
            },
            Values::Strings { strings, .. } => {
                let stored = match key {
                    KeyBytes::Str(text) => text.to_string(),
                    KeyBytes::Ip(bits) => schema::encode_ip(firn_query::aggs::address_of(*bits)),
                    _ => return Ok(Place::Before(0)),
                };
                let terms = strings.dictionary();
                if let Some(ordinal) = terms.term_ord(stored.as_bytes())? {
                    return Ok(Place::At(ordinal.into()));
                }
                let from = Bound::Included(stored.as_bytes());
                let (first, _) = terms.term_bounds_to_ord(from, Bound::Unbounded)?;
                Place::Before(match first {
                    Bound::Included(ordinal) => ordinal.into(),
                    Bound::Excluded(ordinal) => u128::from(ordinal) + 1,
                    Bound::Unbounded => strings.num_terms() as u128,
                })
            }
            Values::Numbers { make, numeric, .. } => match (make, key) {
                (Make::Multiple(interval), KeyBytes::F64(_)) => {
                    let key = Key::from(key.clone());
                    let number = match key {
                        Key::F64(value) => (value / interval).round(),
                        _ => 0.0,
                    };
                    Place::At(float_value(number))
                }
                (_, KeyBytes::F64(bits)) => Place::At((*bits).into()),
                (_, KeyBytes::I64(value)) if is_float(numeric) => Place::At(float_value(*value as f64)),
                (_, KeyBytes::I64(value)) => Place::At(int_value((*value).into())),
                (_, KeyBytes::U64(value)) => Place::At(int_value((*value).into())),
                _ => Place::Before(0),
            },
        })
    }

    /// Returns the keys of ascending values.
    pub(super) fn keys(&self, values: &[u128]) -> Result<Vec<KeyBytes>> {
        match &self.values {
            Values::Nothing => Ok(values.iter().map(|_| KeyBytes::Null).collect()),
            Values::Constant(text) => Ok(values.iter().map(|_| KeyBytes::Str(text.as_str().into())).collect()),
            Values::Strings { strings, is_ip } => {
                let ordinals: Vec<u64> = values.iter().map(|value| *value as u64).collect();
                let mut keys = Vec::with_capacity(values.len());
                strings.dictionary().sorted_ords_to_term_cb(&ordinals, |bytes| {
                    keys.push(text_key(&String::from_utf8_lossy(bytes), *is_ip));
                })?;
                Ok(keys)
            }
            Values::Numbers { numeric, make, .. } => {
                let key = |&value: &u128| match make {
                    Make::Multiple(interval) => match Key::from(KeyBytes::F64(value as u64)) {
                        Key::F64(number) => KeyBytes::from_f64(number * interval),
                        _ => KeyBytes::Null,
                    },
                    Make::Same if is_float(numeric) => KeyBytes::F64(value as u64),
                    _ => int_key(value as i128 - INT_BASE),
                };
                Ok(values.iter().map(key).collect())
            }
        }
    }
}

fn made(column: &NumColumn, numeric: &Numeric, make: &Make, raw: u64, known: &mut (i64, i64, u128)) -> u128 {
    match make {
        Make::Multiple(interval) => float_value((numeric.value(column.as_f64(raw)) / interval).floor()),
        Make::Start(rounding) => {
            let ms = source::stored_to_ms(column.as_i64(raw), numeric.units_per_ms());
            if ms < known.0 || known.1 <= ms {
                let start = rounding.round_down(ms);
                *known = (start, rounding.next(start), int_value(start.into()));
            }
            known.2
        }
        Make::Same => match numeric {
            _ if is_float(numeric) => float_value(numeric.value(column.as_f64(raw))),
            Numeric::DateNanos(_) => int_value(source::stored_to_ms(column.as_i64(raw), numeric.units_per_ms()).into()),
            _ => match column.number(raw) {
                Number::Int(value) => int_value(value),
                Number::Float(value) => int_value(value as i128),
            },
        },
    }
}

fn is_float(numeric: &Numeric) -> bool {
    matches!(numeric, Numeric::Float { .. } | Numeric::Scaled(_))
}

fn float_value(value: f64) -> u128 {
    match KeyBytes::from_f64(value) {
        KeyBytes::F64(bits) => bits.into(),
        _ => 0,
    }
}

fn int_value(value: i128) -> u128 {
    (value + INT_BASE).max(0) as u128
}

fn int_key(value: i128) -> KeyBytes {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => KeyBytes::I64(value),
        (_, Ok(value)) => KeyBytes::U64(value),
        _ => KeyBytes::from_f64(value as f64),
    }
}

/// Returns the key of a stored number, in the units that aggregations compute with.
fn key_of(numeric: &Numeric, number: Number) -> KeyBytes {
    match number {
        number if is_float(numeric) => KeyBytes::from_f64(number.as_f64()),
        Number::Int(value) => int_key(value),
        Number::Float(value) => int_key(value as i128),
    }
}

/// Returns the key of a stored string.
pub(super) fn text_key(text: &str, is_ip: bool) -> KeyBytes {
    match is_ip.then(|| schema::decode_ip(text)).flatten() {
        Some(address) => KeyBytes::from_ip(address),
        None => KeyBytes::Str(text.into()),
    }
}
