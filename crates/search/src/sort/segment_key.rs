//! A sort key on one segment.
//!
//! A document's key is a `u128` that is smaller for documents that sort earlier: a rank (missing first, a value,
//! missing last), then the place of the value among the raw values of the column. Raw values occupy every fourth
//! place, so that values that the segment does not have (from `search_after`, `missing` or the last hit so far) get
//! places between two of them.

use std::cmp::Ordering;
use std::ops::Range;

use firn_model::Result;
use firn_query::search::SortMode;
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, Place};
use firn_segment::columns::strings::StrColumn;
use firn_segment::segment::Segment;
use tantivy::columnar::{Column, MonotonicallyMappableToU64, TermOrdHit};
use tantivy::{DocId, Score};

use super::number::Kind;
use super::{Missing, ShardKey, SortValue, Source};

impl ShardKey {
    /// Opens the key on a segment; `order` is the segment's number in the search.
    pub(crate) fn open(&self, segment: &Segment, order: u32) -> Result<SegmentKey> {
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

const RANK_SHIFT: u32 = 96;
const RANK_FIRST: u128 = 0;
const RANK_VALUE: u128 = 1 << RANK_SHIFT;
const RANK_LAST: u128 = 2 << RANK_SHIFT;
/// Larger than every place.
const PLACES: u128 = 1 << 67;

/// A key on one segment.
pub(crate) struct SegmentKey {
    values: Values,
    key: ShardKey,
    /// The key of documents without a value.
    missing: u128,
}

enum Values {
    Score,
    /// Index order: the number of the segment's first document.
    Doc(u64),
    Number(NumColumn),
    Text(StrColumn),
    /// The value of every document.
    Constant(SortValue),
}

impl SegmentKey {
    fn directed(&self, place: u128) -> u128 {
        RANK_VALUE + if self.key.descending { PLACES - place } else { place }
    }

    fn of_raw(&self, raw: u64) -> u128 {
        self.directed((u128::from(raw) << 2) + 3)
    }

    /// Returns the key of a value from its place. The substitute for missing values may be between the same raw
    /// values; then the two are compared directly.
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

    /// Returns whether it compares scores.
    pub(crate) fn is_score(&self) -> bool {
        matches!(self.values, Values::Score)
    }

    /// Returns whether it is the order of documents in the segment.
    pub(crate) fn is_ascending_doc(&self) -> bool {
        matches!(self.values, Values::Doc(_)) && !self.key.descending
    }

    /// Returns whether its values are computed from those of the column.
    fn is_computed(&self) -> bool {
        let combined = matches!(self.key.mode, Some(SortMode::Sum | SortMode::Avg | SortMode::Median));
        combined || matches!(self.key.source, Source::Number { convert: Some(_), .. })
    }

    /// Returns the key of any value, whether or not a document of the segment has it.
    pub(crate) fn encode(&self, value: &SortValue) -> Result<u128> {
        Ok(match (&self.values, value) {
            (_, SortValue::Missing) => match self.key.missing {
                Missing::First => RANK_FIRST,
                Missing::Last => RANK_LAST,
                Missing::Value(_) => self.missing,
            },
            (Values::Score, SortValue::Number(number)) => self.of_raw(number.as_f64().to_u64()),
            (Values::Doc(_), SortValue::Number(Number::Int(order))) => {
                self.of_raw(u64::try_from(*order).unwrap_or(u64::MAX))
            }
            (Values::Number(_), SortValue::Number(number)) if self.is_computed() => {
                self.of_raw(self.kind().raw(*number))
            }
            (Values::Number(column), SortValue::Number(number)) => self.of_place(column.place(*number), value),
            (Values::Text(strings), SortValue::Text(text)) => {
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
            // A number among strings, or the reverse.
            (Values::Text(_), SortValue::Number(_)) => self.of_place(Place::Before(0), value),
            (_, _) => self.of_place(Place::Past, value),
        })
    }

    /// Returns the earliest key that a document of this segment can have; `None`: unknown.
    pub(crate) fn best(&self, segment: &Segment) -> Option<u128> {
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

    /// Returns the latest key that a document of this segment can have; `None`: unknown.
    pub(crate) fn worst(&self, segment: &Segment) -> Option<u128> {
        match &self.values {
            Values::Doc(first) => Some(self.of_raw(if self.key.descending {
                *first
            } else {
                first + u64::from(segment.max_doc)
            })),
            Values::Number(column) if !self.is_computed() && column::is_full(&column.column) => {
                let values = &column.column.values;
                Some(self.of_raw(if self.key.descending {
                    values.min_value()
                } else {
                    values.max_value()
                }))
            }
            Values::Constant(_) => Some(self.read(0, 0.0)),
            _ => None,
        }
    }

    /// Returns the column of `@timestamp`, if the key compares it and each document has one value.
    pub(crate) fn time_column(&self) -> Option<&Column<u64>> {
        match &self.values {
            Values::Number(column)
                if self.key.is_timestamp() && !self.is_computed() && column::is_full(&column.column) =>
            {
                Some(&column.column)
            }
            _ => None,
        }
    }

    /// Returns whether keys follow the order of rows that are sorted by `@timestamp`, or its reverse.
    pub(crate) fn is_ordered_in(&self, rows: &Range<DocId>) -> bool {
        let Values::Number(column) = &self.values else {
            return false;
        };
        let column = &column.column;
        // The rows without a value are last.
        let all_have_one = || rows.is_empty() || column.index.has_value(rows.end - 1);
        let is_time = self.key.is_timestamp() && !self.is_computed();
        is_time && !column.get_cardinality().is_multivalue() && all_have_one()
    }

    /// In index order, returns the first document of this segment after the one that `value` identifies; in other
    /// orders 0.
    pub(crate) fn first_doc_after(&self, value: &SortValue) -> DocId {
        match (&self.values, value) {
            (Values::Doc(first), SortValue::Number(Number::Int(at))) if !self.key.descending => {
                let after = at - i128::from(*first) + 1;
                DocId::try_from(after.max(0)).unwrap_or(DocId::MAX)
            }
            _ => 0,
        }
    }

    /// Returns the earliest key of raw values within bounds.
    pub(crate) fn best_within(&self, min: u64, max: u64) -> u128 {
        self.of_raw(if self.key.descending { max } else { min })
    }

    /// Reads the keys of a block of documents, in its order.
    pub(crate) fn read_block(&self, docs: &[DocId], scores: &[Score], scratch: &mut Vec<u64>, keys: &mut Vec<u128>) {
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
        column::read_values(column, docs, scratch);
        keys.extend(scratch.iter().map(|&raw| self.of_raw(raw)));
    }

    /// Returns the key of one document.
    pub(crate) fn read(&self, doc: DocId, score: Score) -> u128 {
        match &self.values {
            Values::Score => self.of_raw(f64::from(score).to_u64()),
            Values::Doc(first) => self.of_raw(first + u64::from(doc)),
            Values::Number(column) if self.is_computed() => match self.computed(column, doc) {
                Some(value) => self.of_raw(self.kind().raw(value)),
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

    fn kind(&self) -> Kind {
        match &self.key.source {
            Source::Number { kind, .. } => *kind,
            _ => Kind::Long,
        }
    }

    fn computed(&self, column: &NumColumn, doc: DocId) -> Option<Number> {
        let convert = match &self.key.source {
            Source::Number { convert, .. } => *convert,
            _ => None,
        };
        let values = column.column.values_for_doc(doc).map(|raw| {
            let number = column.number(raw);
            convert.map_or(number, |convert| convert.apply(number))
        });
        let default = if self.key.descending {
            SortMode::Max
        } else {
            SortMode::Min
        };
        self.kind().combine(self.key.mode.unwrap_or(default), values.collect())
    }

    /// Returns the raw value of one document; `None`: it has none. Fails if it has several.
    pub(crate) fn single_raw(&self, doc: DocId) -> Result<Option<u64>, ()> {
        let column = match &self.values {
            Values::Number(column) => &column.column,
            Values::Text(strings) => strings.ords(),
            Values::Score | Values::Doc(_) | Values::Constant(_) => return Ok(None),
        };
        let mut values = column.values_for_doc(doc);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(()),
        }
    }

    /// Returns the value of one document.
    pub(crate) fn value(&self, doc: DocId, score: Score) -> Result<SortValue> {
        let found = match &self.values {
            Values::Score => SortValue::Number(Number::Float(score.into())),
            Values::Doc(first) => SortValue::Number(Number::Int(i128::from(first + u64::from(doc)))),
            Values::Number(column) if self.is_computed() => match self.computed(column, doc) {
                Some(value) => SortValue::Number(value),
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
