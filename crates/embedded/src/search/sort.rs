//! Sorting: keys of documents, comparable within a segment as numbers and across segments as
//! values.
//!
//! Within a segment a key is a `u128` that is smaller for documents that come earlier: a rank
//! (missing first, a value, missing last), then the place of the value among the raw values of
//! the column. Raw values stand on every fourth place, so that values which the segment does not
//! have (of `search_after`, `missing` or the last hit so far) have places between two of them.

use std::cmp::Ordering;

use firn_engine::search::{SortBy, SortKey, SortMissing, SortMode};
use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::FieldType;
use firn_model::{Error, ErrorKind, Result};
use serde_json::Value;
use tantivy::columnar::{Column, MonotonicallyMappableToU64, StrColumn};
use tantivy::{DocId, Score};

use super::column::{self, NumColumn, Number, Place};
use super::compile::Compiler;
use super::field::{Meta, Numeric, Target, parse_ip_or_block, read_number, scalar_text};
use super::format;
use crate::schema::{self, Class};
use crate::segment::Segment;

/// A key's value, comparable across segments and shards.
#[derive(Debug, Clone)]
pub(super) enum SortValue {
    /// The document has none.
    Missing,
    /// A number, as stored.
    Number(Number),
    /// A string (addresses in their encoded form).
    Text(Box<str>),
}

/// A sort key on one shard.
#[derive(Clone)]
pub(super) struct ShardKey {
    source: Source,
    pub(super) descending: bool,
    missing: Missing,
    mode: Option<SortMode>,
    /// Prints dates.
    format: Option<DateFormat>,
}

#[derive(Clone)]
enum Source {
    Score,
    Doc,
    Number {
        path: String,
        numeric: Numeric,
        long: bool,
    },
    /// A metadata column of integers.
    MetaNumber(&'static str),
    Text {
        class: Class,
        path: String,
        is_ip: bool,
    },
    /// The same for every document.
    Constant(SortValue),
}

#[derive(Clone)]
enum Missing {
    First,
    Last,
    Value(SortValue),
}

impl ShardKey {
    /// Resolves a key. Fails as Elasticsearch does for unmapped fields, text and fields without
    /// doc values.
    pub(super) fn compile(compiler: &Compiler, key: &SortKey) -> Result<Self> {
        let index = &compiler.snapshot.index;
        let source = match &key.by {
            SortBy::Score => Source::Score,
            SortBy::Doc => Source::Doc,
            SortBy::Field(path) => match compiler.resolve(path) {
                Target::Meta(Meta::Index) => Source::Constant(SortValue::Text(index.as_ref().into())),
                Target::Meta(Meta::SeqNo) => Source::MetaNumber("_seq_no"),
                Target::Meta(Meta::Id) => {
                    return Err(Error::illegal_argument(
                        "Fielddata access on the _id field is disallowed, you can re-enable it by updating the \
                         dynamic cluster setting: indices.id_field_data.enabled",
                    ));
                }
                Target::Meta(meta) => return Err(Error::not_implemented(format!("sorting on [{meta:?}]"))),
                Target::Nothing => unmapped(path, key)?,
                Target::Field(field) => match (field.class, field.numeric()) {
                    _ if field.mapping.is_none() => unmapped(path, key)?,
                    (Class::Number, Some(numeric)) => Source::Number {
                        long: !matches!(numeric, Numeric::Float { .. } | Numeric::Scaled(_)),
                        path: field.path,
                        numeric,
                    },
                    (class @ (Class::Keyword | Class::KeywordColumn), _) => Source::Text {
                        class,
                        is_ip: field.field_type == FieldType::Ip,
                        path: field.path,
                    },
                    (Class::Text(_), _) => return Err(field.fielddata_error(index)),
                    _ if field.field_type == FieldType::ConstantKeyword => {
                        let constant = field.mapping.as_ref().and_then(|mapping| mapping.constant.as_deref());
                        Source::Constant(constant.map_or(SortValue::Missing, |text| SortValue::Text(text.into())))
                    }
                    _ => return Err(field.doc_values_error()),
                },
            },
        };
        let mut compiled = Self {
            source,
            descending: key.descending,
            missing: match key.missing {
                SortMissing::First => Missing::First,
                _ => Missing::Last,
            },
            mode: key.mode,
            format: key.format.as_deref().map(DateFormat::new).transpose()?,
        };
        if let SortMissing::Value(value) = &key.missing {
            compiled.missing = Missing::Value(compiled.read(value, compiler.now_ms)?);
        }
        Ok(compiled)
    }

    /// Index order.
    pub(super) fn doc() -> Self {
        Self {
            source: Source::Doc,
            descending: false,
            missing: Missing::Last,
            mode: None,
            format: None,
        }
    }

    /// Highest score first.
    pub(super) fn score() -> Self {
        Self {
            source: Source::Score,
            descending: true,
            ..Self::doc()
        }
    }

    pub(super) fn is_score(&self) -> bool {
        matches!(self.source, Source::Score)
    }

    /// Whether it is the field whose bounds segments know.
    pub(super) fn is_timestamp(&self) -> bool {
        matches!(&self.source, Source::Number { path, .. } if path == super::prune::TIMESTAMP)
    }

    /// Reads a value of `search_after` or `missing`.
    pub(super) fn read(&self, value: &Value, now_ms: i64) -> Result<SortValue> {
        if value.is_null() {
            return Ok(SortValue::Missing);
        }
        let bad = || {
            Error::illegal_argument(format!(
                "Failed to parse search_after value for field [{}]: [{value}]",
                self.name()
            ))
        };
        let text = scalar_text(value).ok_or_else(bad)?;
        match &self.source {
            Source::Text { is_ip: true, .. } => {
                let (address, _) = parse_ip_or_block(&text).ok_or_else(bad)?;
                Ok(SortValue::Text(schema::encode_ip(address).into()))
            }
            Source::Text { .. } | Source::Constant(_) => Ok(SortValue::Text(text.into())),
            Source::Score | Source::Doc | Source::MetaNumber(_) => {
                read_number(&text).map(SortValue::Number).ok_or_else(bad)
            }
            Source::Number { numeric, .. } => {
                if value.as_i64().is_some_and(|number| self.prints_missing(number)) {
                    return Ok(SortValue::Missing);
                }
                let infinity = match text.as_str() {
                    "Infinity" => Some(f64::INFINITY),
                    "-Infinity" => Some(f64::NEG_INFINITY),
                    _ => None,
                };
                if let Some(infinity) = infinity {
                    let is_missing = (infinity > 0.0) == self.missing_is_largest();
                    return Ok(match is_missing {
                        true => SortValue::Missing,
                        false => SortValue::Number(Number::Float(infinity)),
                    });
                }
                match numeric {
                    Numeric::Date(format) | Numeric::DateNanos(format) => {
                        let units = i128::from(numeric.units_per_ms());
                        if let (Value::Number(_), Some(number)) = (value, read_number(&text)) {
                            // Printed as stored.
                            return Ok(SortValue::Number(number));
                        }
                        let format = self.format.as_ref().unwrap_or(format);
                        let ms = format.parse_math_ms(&text, now_ms, false, &Zone::utc())?;
                        Ok(SortValue::Number(Number::Int(i128::from(ms) * units)))
                    }
                    Numeric::Scaled(factor) => {
                        let number = read_number(&text).ok_or_else(bad)?;
                        Ok(SortValue::Number(Number::Float((number.as_f64() * factor).round())))
                    }
                    Numeric::Float { single: true } => {
                        let number = read_number(&text).ok_or_else(bad)?;
                        Ok(SortValue::Number(Number::Float(f64::from(number.as_f64() as f32))))
                    }
                    _ => numeric
                        .read(value)
                        .or_else(|| read_number(&text))
                        .map(SortValue::Number)
                        .ok_or_else(bad),
                }
            }
        }
    }

    fn name(&self) -> &str {
        match &self.source {
            Source::Score => "_score",
            Source::Doc => "_doc",
            Source::Number { path, .. } | Source::Text { path, .. } => path,
            Source::MetaNumber(name) => name,
            Source::Constant(_) => "_index",
        }
    }

    fn missing_is_largest(&self) -> bool {
        matches!(self.missing, Missing::First) == self.descending
    }

    /// Elasticsearch prints documents without an integer as the most extreme one.
    fn prints_missing(&self, number: i64) -> bool {
        let long = matches!(self.source, Source::Number { long: true, .. });
        long && number == if self.missing_is_largest() { i64::MAX } else { i64::MIN }
    }

    /// The value as the answer shows it, to be read back by [`Self::read`].
    pub(super) fn print(&self, value: &SortValue) -> Value {
        match (&self.source, value) {
            (Source::Number { long: true, .. }, SortValue::Missing) => {
                Value::from(if self.missing_is_largest() { i64::MAX } else { i64::MIN })
            }
            (Source::Number { long: false, .. }, SortValue::Missing) => Value::from(if self.missing_is_largest() {
                "Infinity"
            } else {
                "-Infinity"
            }),
            (_, SortValue::Missing) => Value::Null,
            (Source::Text { is_ip: true, .. }, SortValue::Text(text)) => format::ip(text),
            (_, SortValue::Text(text)) => Value::from(text.as_ref()),
            (Source::Number { numeric, .. }, SortValue::Number(number)) => match (numeric, &self.format) {
                (Numeric::Date(_) | Numeric::DateNanos(_), Some(format)) => {
                    let units = i128::from(numeric.units_per_ms());
                    let Number::Int(stored) = *number else {
                        return format::number(*number);
                    };
                    let ms = i64::try_from(stored.div_euclid(units)).unwrap_or(i64::MAX);
                    Value::from(format.print_ms(ms, &Zone::utc()))
                }
                (Numeric::Boolean, _) => Value::from(number.as_f64() != 0.0),
                (Numeric::Scaled(factor), _) => format::float(number.as_f64() / factor),
                (Numeric::Float { single: true }, _) => format::single(number.as_f64()),
                (Numeric::Float { single: false }, _) => format::float(number.as_f64()),
                _ => format::number(*number),
            },
            (Source::Score, SortValue::Number(number)) => format::single(number.as_f64()),
            (_, SortValue::Number(number)) => format::number(*number),
        }
    }

    /// The value that a document without one counts as.
    fn of_missing(&self) -> SortValue {
        match &self.missing {
            Missing::Value(value) => value.clone(),
            Missing::First | Missing::Last => SortValue::Missing,
        }
    }

    fn rank(&self, value: &SortValue) -> u8 {
        match (value, &self.missing) {
            (SortValue::Missing, Missing::First) => 0,
            (SortValue::Missing, _) => 2,
            _ => 1,
        }
    }

    /// Which of two values comes first.
    pub(super) fn compare(&self, a: &SortValue, b: &SortValue) -> Ordering {
        let by_rank = self.rank(a).cmp(&self.rank(b));
        if by_rank.is_ne() {
            return by_rank;
        }
        let ascending = Self::ascending(a, b);
        if self.descending {
            ascending.reverse()
        } else {
            ascending
        }
    }

    /// Compares two values that are not missing.
    fn ascending(a: &SortValue, b: &SortValue) -> Ordering {
        match (a, b) {
            (SortValue::Number(a), SortValue::Number(b)) => a.compare(*b),
            (SortValue::Text(a), SortValue::Text(b)) => a.cmp(b),
            // Indices that disagree about the type: numbers before strings.
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
            (SortValue::Missing, _) | (_, SortValue::Missing) => Ordering::Equal,
        }
    }

    /// Opens the key on a segment. `order` is the segment's number in the search.
    pub(super) fn open(&self, segment: &Segment, order: u32) -> Result<SegmentKey> {
        let reader = &segment.reader;
        let values = match &self.source {
            Source::Score => Values::Score,
            Source::Doc => Values::Doc(u64::from(order) << 32),
            Source::Number { path, .. } => match NumColumn::open(reader, path)? {
                Some(column) => Values::Number(column),
                None => Values::Constant(self.of_missing()),
            },
            Source::MetaNumber(name) => match NumColumn::open_named(reader, name)? {
                Some(column) => Values::Number(column),
                None => Values::Constant(self.of_missing()),
            },
            Source::Text { class, path, .. } => match column::open_strings(reader, *class, path)? {
                Some(strings) => Values::Text(strings),
                None => Values::Constant(self.of_missing()),
            },
            Source::Constant(SortValue::Missing) => Values::Constant(self.of_missing()),
            Source::Constant(value) => Values::Constant(value.clone()),
        };
        let mut key = SegmentKey {
            values,
            key: self.clone(),
            missing: 0,
        };
        key.missing = match &self.missing {
            Missing::First => RANK_FIRST,
            Missing::Last => RANK_LAST,
            Missing::Value(value) => key.encode(value)?,
        };
        Ok(key)
    }
}

fn unmapped(path: &str, key: &SortKey) -> Result<Source> {
    match key.unmapped_type.as_deref() {
        None => Err(Error::new(
            ErrorKind::QueryShard,
            format!("No mapping found for [{path}] in order to sort on"),
        )),
        Some("keyword" | "ip" | "wildcard" | "constant_keyword" | "text" | "string") => {
            Ok(Source::Constant(SortValue::Missing))
        }
        Some(name) => {
            // Its documents print as those of the type without a value.
            let float = matches!(name, "float" | "double" | "half_float" | "scaled_float");
            Ok(Source::Number {
                path: path.to_owned(),
                numeric: if float {
                    Numeric::Float { single: false }
                } else {
                    Numeric::Integer
                },
                long: !float,
            })
        }
    }
}

const RANK_SHIFT: u32 = 96;
const RANK_FIRST: u128 = 0;
const RANK_VALUE: u128 = 1 << RANK_SHIFT;
const RANK_LAST: u128 = 2 << RANK_SHIFT;
/// Above every place.
const PLACES: u128 = 1 << 67;

/// A key on one segment.
pub(super) struct SegmentKey {
    values: Values,
    key: ShardKey,
    /// The key of documents without a value.
    missing: u128,
}

enum Values {
    Score,
    /// Index order: documents count from here.
    Doc(u64),
    Number(NumColumn),
    Text(StrColumn),
    /// Every document's.
    Constant(SortValue),
}

impl SegmentKey {
    fn directed(&self, place: u128) -> u128 {
        RANK_VALUE + if self.key.descending { PLACES - place } else { place }
    }

    fn of_raw(&self, raw: u64) -> u128 {
        self.directed((u128::from(raw) << 2) + 3)
    }

    /// The key of a value by its place. The value that stands in for missing ones may be between
    /// the same raw values; then the two compare as themselves.
    fn of_place(&self, place: Place, value: &SortValue) -> u128 {
        let beside = match &self.key.missing {
            Missing::Value(missing) => match ShardKey::ascending(value, missing) {
                Ordering::Less => 0,
                Ordering::Equal => 1,
                Ordering::Greater => 2,
            },
            Missing::First | Missing::Last => 1,
        };
        match place {
            Place::At(raw) => self.of_raw(raw),
            Place::Before(raw) => self.directed((u128::from(raw) << 2) + beside),
            Place::Past => self.directed((1 << 66) + beside),
        }
    }

    /// Whether it compares scores.
    pub(super) fn is_score(&self) -> bool {
        matches!(self.values, Values::Score)
    }

    /// Whether documents come in the order in which the segment has them.
    pub(super) fn is_ascending_doc(&self) -> bool {
        matches!(self.values, Values::Doc(_)) && !self.key.descending
    }

    /// Whether several values become a float of their own.
    fn is_computed(&self) -> bool {
        matches!(self.key.mode, Some(SortMode::Sum | SortMode::Avg | SortMode::Median))
    }

    /// The key of any value, whether a document here has it or not.
    pub(super) fn encode(&self, value: &SortValue) -> Result<u128> {
        Ok(match (&self.values, value) {
            (_, SortValue::Missing) => match self.key.missing {
                Missing::First => RANK_FIRST,
                _ => RANK_LAST,
            },
            (Values::Score, SortValue::Number(number)) => self.of_raw(number.as_f64().to_u64()),
            (Values::Doc(_), SortValue::Number(Number::Int(order))) => {
                self.of_raw(u64::try_from(*order).unwrap_or(u64::MAX))
            }
            (Values::Number(_), SortValue::Number(number)) if self.is_computed() => {
                self.of_raw(number.as_f64().to_u64())
            }
            (Values::Number(column), SortValue::Number(number)) => self.of_place(column.place(*number), value),
            (Values::Text(strings), SortValue::Text(text)) => {
                use tantivy::columnar::TermOrdHit;
                let hit = strings.dictionary().term_ord_or_next(text.as_bytes())?;
                let place = match hit {
                    TermOrdHit::Exact(ordinal) => Place::At(ordinal),
                    TermOrdHit::Next(ordinal) if ordinal >= strings.num_terms() as u64 => Place::Past,
                    TermOrdHit::Next(ordinal) => Place::Before(ordinal),
                };
                self.of_place(place, value)
            }
            (Values::Constant(SortValue::Missing), _) => RANK_VALUE + 1,
            (Values::Constant(own), value) => match self.key.compare(value, own) {
                Ordering::Less => RANK_VALUE,
                Ordering::Equal => RANK_VALUE + 1,
                Ordering::Greater => RANK_VALUE + 2,
            },
            // A number among strings or the reverse.
            (Values::Text(_), SortValue::Number(_)) => self.of_place(Place::Before(0), value),
            (_, _) => self.of_place(Place::Past, value),
        })
    }

    /// The earliest key that a document of this segment can have; `None`: any.
    pub(super) fn best(&self, segment: &Segment) -> Option<u128> {
        match &self.values {
            Values::Doc(first) => Some(self.of_raw(if self.key.descending {
                first + u64::from(segment.max_doc)
            } else {
                *first
            })),
            Values::Number(column) if !self.is_computed() => {
                let values = &column.column.values;
                let raw = if self.key.descending {
                    values.max_value()
                } else {
                    values.min_value()
                };
                let best = self.of_raw(raw);
                Some(if column::is_full(&column.column) {
                    best
                } else {
                    best.min(self.missing)
                })
            }
            Values::Constant(_) => Some(self.read(0, 0.0)),
            _ => None,
        }
    }

    /// Keys of a block of documents, in its order.
    pub(super) fn read_block(&self, docs: &[DocId], scores: &[Score], scratch: &mut Vec<u64>, keys: &mut Vec<u128>) {
        keys.clear();
        match &self.values {
            Values::Number(column) if column::is_full(&column.column) && !self.is_computed() => {
                self.read_full(&column.column, docs, scratch, keys);
            }
            Values::Text(strings) if column::is_full(strings.ords()) => {
                self.read_full(strings.ords(), docs, scratch, keys);
            }
            _ => keys.extend(docs.iter().enumerate().map(|(position, &doc)| {
                let score = scores.get(position).copied().unwrap_or_default();
                self.read(doc, score)
            })),
        }
    }

    fn read_full(&self, column: &Column<u64>, docs: &[DocId], scratch: &mut Vec<u64>, keys: &mut Vec<u128>) {
        scratch.resize(docs.len(), 0);
        column.values.get_vals(docs, scratch);
        keys.extend(scratch.iter().map(|&raw| self.of_raw(raw)));
    }

    /// The key of one document.
    pub(super) fn read(&self, doc: DocId, score: Score) -> u128 {
        match &self.values {
            Values::Score => self.of_raw(f64::from(score).to_u64()),
            Values::Doc(first) => self.of_raw(first + u64::from(doc)),
            Values::Number(column) if self.is_computed() => match self.computed(column, doc) {
                Some(value) => self.of_raw(value.to_u64()),
                None => self.missing,
            },
            Values::Number(column) => self.chosen(&column.column, doc),
            Values::Text(strings) => self.chosen(strings.ords(), doc),
            Values::Constant(SortValue::Missing) => self.missing,
            Values::Constant(_) => RANK_VALUE + 1,
        }
    }

    fn chosen(&self, column: &Column<u64>, doc: DocId) -> u128 {
        self.choose(column, doc).map_or(self.missing, |raw| self.of_raw(raw))
    }

    fn choose(&self, column: &Column<u64>, doc: DocId) -> Option<u64> {
        let values = column.values_for_doc(doc);
        let largest = match self.key.mode {
            Some(SortMode::Min) => false,
            Some(SortMode::Max) => true,
            _ => self.key.descending,
        };
        if largest { values.max() } else { values.min() }
    }

    fn computed(&self, column: &NumColumn, doc: DocId) -> Option<f64> {
        let mut values: Vec<f64> = column
            .column
            .values_for_doc(doc)
            .map(|raw| column.as_f64(raw))
            .collect();
        if values.is_empty() {
            return None;
        }
        let sum: f64 = values.iter().sum();
        Some(match self.key.mode {
            Some(SortMode::Avg) => sum / values.len() as f64,
            Some(SortMode::Median) => {
                values.sort_unstable_by(f64::total_cmp);
                let middle = values.len() / 2;
                if values.len().is_multiple_of(2) {
                    f64::midpoint(values[middle - 1], values[middle])
                } else {
                    values[middle]
                }
            }
            _ => sum,
        })
    }

    /// The value of one document.
    pub(super) fn value(&self, doc: DocId, score: Score) -> Result<SortValue> {
        let found = match &self.values {
            Values::Score => SortValue::Number(Number::Float(score.into())),
            Values::Doc(first) => SortValue::Number(Number::Int(i128::from(first + u64::from(doc)))),
            Values::Number(column) if self.is_computed() => match self.computed(column, doc) {
                Some(value) => SortValue::Number(Number::Float(value)),
                None => SortValue::Missing,
            },
            Values::Number(column) => match self.choose(&column.column, doc) {
                Some(raw) => SortValue::Number(column.number(raw)),
                None => SortValue::Missing,
            },
            Values::Text(strings) => match self.choose(strings.ords(), doc) {
                Some(ordinal) => {
                    let mut text = String::new();
                    strings.ord_to_str(ordinal, &mut text)?;
                    SortValue::Text(text.into())
                }
                None => SortValue::Missing,
            },
            Values::Constant(value) => value.clone(),
        };
        Ok(match (found, &self.key.missing) {
            (SortValue::Missing, Missing::Value(value)) => value.clone(),
            (found, _) => found,
        })
    }
}
