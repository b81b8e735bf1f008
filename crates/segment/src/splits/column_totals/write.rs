//! Writer of the statistics of columns, computed from Tantivy's columnar file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::Result;
use tantivy::DocId;
use tantivy::columnar::{Column, ColumnIndex, ColumnType, ColumnarReader, DynamicColumn, MonotonicallyMappableToU64};
use tantivy::directory::FileSlice;
use tantivy::directory::footer::Footer;

use super::super::split_files::owned;
use super::table::{ColumnTotals, Counted, Measure, Totals, VALUES_MAX, encode_measures};
use crate::columns::column::docs_with_value;

/// Minimum of documents per value, on average, for a column to be counted: with fewer, the counts would be no shorter
/// than the column.
const DOCS_PER_VALUE: u64 = 16;
/// The same minimum for a column by whose values others are measured, which takes some ten bytes a value.
const DOCS_PER_MEASURE: u64 = 64;
/// Measured are the `MEASURED_MAX` columns with the most documents, by the values of the `MEASURED_BY_MAX` columns with
/// the fewest values: 256 pairs, each of which costs a pass over both columns.
const MEASURED_BY_MAX: usize = 16;
const MEASURED_MAX: usize = 16;
/// Integers up to this value are exact in `f64`.
const EXACT_MAX: u128 = 1 << 53;
/// Values read at once.
const BLOCK: u32 = 1 << 14;
/// Prefix of the names of number columns, and of string columns.
const NUMBERS: &str = "num\u{1}";
const STRINGS: [&str; 2] = ["kw\u{1}", "kwc\u{1}"];
/// No value, in [`ranks`].
const NONE: u16 = u16::MAX;

struct Source {
    number: usize,
    column: Column<u64>,
    is_string: bool,
    integer: Option<Integer>,
}

/// Converts a raw value to an integer.
type Integer = fn(u64) -> i128;

/// Computes the statistics of the columns of a segment with `max_doc` documents, and writes the measures by value.
pub(in crate::splits) fn write(
    file: &Bytes,
    max_doc: DocId,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Totals> {
    let (_, body) = Footer::extract_footer(FileSlice::new(Arc::new(owned(file.clone()))))?;
    let mut totals = Vec::new();
    let mut sources = Vec::new();
    for (number, (name, handle)) in ColumnarReader::open(body)?.list_columns()?.into_iter().enumerate() {
        stop()?;
        totals.push(None);
        let is_string = handle.column_type() == ColumnType::Str;
        let is_own = match is_string {
            true => STRINGS.iter().any(|start| name.starts_with(start)),
            false => name.starts_with(NUMBERS),
        };
        if !is_own {
            continue;
        }
        let (column, term_count) = match handle.open()? {
            DynamicColumn::Str(strings) => (Some(strings.ords().clone()), strings.num_terms()),
            _ => (handle.open_u64_lenient()?, 0),
        };
        let Some(column) = column else {
            continue;
        };
        let found = match is_string {
            true => strings(&column, term_count, max_doc, stop)?,
            false => numbers(&column, integer_of(handle.column_type()), max_doc, stop)?,
        };
        if found.is_some() {
            sources.push(Source {
                number,
                column,
                is_string,
                integer: integer_of(handle.column_type()),
            });
        }
        totals[number] = found;
    }
    let mut totals = Totals(totals);
    measure(&mut totals, &sources, max_doc, out, stop)?;
    Ok(totals)
}

/// Whether any document has several values.
fn is_multivalued(column: &Column<u64>) -> bool {
    column.get_cardinality().is_multivalue()
}

fn strings(
    column: &Column<u64>,
    term_count: usize,
    max_doc: DocId,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Option<ColumnTotals>> {
    let docs = docs_with_value(&column.index, max_doc);
    let are_few = term_count <= VALUES_MAX && term_count as u64 * DOCS_PER_VALUE <= docs;
    let mut counts = vec![0; if are_few { term_count } else { 0 }];
    let mut values = docs;
    if are_few || is_multivalued(column) {
        values = 0;
        each_value(column, max_doc, stop, |ordinal| {
            values += 1;
            if let Some(count) = counts.get_mut(ordinal as usize) {
                *count += 1;
            }
        })?;
    }
    Ok((docs > 0).then(|| ColumnTotals {
        docs,
        values,
        sum: None,
        counted: are_few.then(|| Counted {
            values: (0..).zip(counts).collect(),
            measured: Vec::new(),
        }),
    }))
}

fn numbers(
    column: &Column<u64>,
    integer: Option<Integer>,
    max_doc: DocId,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Option<ColumnTotals>> {
    let docs = docs_with_value(&column.index, max_doc);
    let (mut min, mut max) = (u64::MAX, 0);
    let (mut sum, mut magnitude) = (0i128, 0u128);
    let mut few = Few::default();
    each_row(column, stop, |raw| {
        (min, max) = (min.min(raw), max.max(raw));
        few.see(raw);
        let number = integer.map_or(0, |integer| integer(raw));
        sum += number;
        magnitude += number.unsigned_abs();
    })?;
    // Readers use the minimum and maximum that the column states.
    if docs == 0 || (min, max) != (column.min_value(), column.max_value()) {
        return Ok(None);
    }
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    if let Some(values) = few
        .values()
        .filter(|values| values.len() as u64 * DOCS_PER_VALUE <= docs)
    {
        counts.extend(values.iter().map(|value| (*value, 0)));
        each_value(column, max_doc, stop, |raw| {
            if let Some(count) = counts.get_mut(&raw) {
                *count += 1;
            }
        })?;
    }
    Ok(Some(ColumnTotals {
        docs,
        values: column.values.num_vals().into(),
        sum: i64::try_from(sum)
            .ok()
            .filter(|_| integer.is_some() && magnitude <= EXACT_MAX),
        counted: (!counts.is_empty()).then(|| Counted {
            values: counts.into_iter().collect(),
            measured: Vec::new(),
        }),
    }))
}

/// Returns the conversion of raw values to integers; `None`: the type is not an integer.
fn integer_of(column_type: ColumnType) -> Option<Integer> {
    match column_type {
        ColumnType::I64 => Some(|raw| i64::from_u64(raw).into()),
        ColumnType::U64 => Some(|raw| raw.into()),
        _ => None,
    }
}

/// The distinct values, while they are few.
#[derive(Default)]
struct Few {
    values: BTreeSet<u64>,
    last: Option<u64>,
    are_many: bool,
}

impl Few {
    fn see(&mut self, value: u64) {
        if self.are_many || self.last == Some(value) {
            return;
        }
        self.last = Some(value);
        self.values.insert(value);
        self.are_many = self.values.len() > VALUES_MAX;
    }

    fn values(&self) -> Option<&BTreeSet<u64>> {
        (!self.are_many).then_some(&self.values)
    }
}

/// Calls `take` with each row's value.
fn each_row(column: &Column<u64>, stop: &dyn Fn() -> Result<()>, mut take: impl FnMut(u64)) -> Result<()> {
    let rows = column.values.num_vals();
    let mut values = vec![0; BLOCK as usize];
    for start in (0..rows).step_by(BLOCK as usize) {
        stop()?;
        let values = &mut values[..BLOCK.min(rows - start) as usize];
        column.values.get_range(start.into(), values);
        values.iter().for_each(|value| take(*value));
    }
    Ok(())
}

/// Calls `take` with each value of each document, once for each document.
fn each_value(
    column: &Column<u64>,
    max_doc: DocId,
    stop: &dyn Fn() -> Result<()>,
    mut take: impl FnMut(u64),
) -> Result<()> {
    if !is_multivalued(column) {
        return each_row(column, stop, take);
    }
    let mut own = Vec::new();
    for doc in 0..max_doc {
        if doc % BLOCK == 0 {
            stop()?;
        }
        own.clear();
        own.extend(column.values_for_doc(doc));
        own.sort_unstable();
        own.dedup();
        own.iter().for_each(|value| take(*value));
    }
    Ok(())
}

/// Measures columns by the values of other columns. A column in which a document has several values takes no part.
fn measure(
    totals: &mut Totals,
    sources: &[Source],
    max_doc: DocId,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let known = |source: &Source| totals.0[source.number].as_ref();
    let value_count = |source: &Source| known(source)?.counted.as_ref().map(|counted| counted.values.len());
    let single: Vec<&Source> = sources
        .iter()
        .filter(|source| !is_multivalued(&source.column))
        .collect();
    let is_by = |source: &&&Source| {
        let docs = known(source).map_or(0, |totals| totals.docs);
        value_count(source).is_some_and(|count| count as u64 * DOCS_PER_MEASURE <= docs)
    };
    let mut by: Vec<&Source> = single.iter().filter(is_by).copied().collect();
    by.sort_by_key(|source| (value_count(source), source.number));
    by.truncate(MEASURED_BY_MAX);
    by.sort_by_key(|source| source.number);
    let mut measured: Vec<&Source> = single.iter().filter(|source| !source.is_string).copied().collect();
    measured.sort_by_key(|source| {
        (
            std::cmp::Reverse(known(source).map(|totals| totals.docs)),
            source.number,
        )
    });
    measured.truncate(MEASURED_MAX);
    measured.sort_by_key(|source| source.number);
    let mut found = Vec::new();
    let mut end = 0;
    for by in by {
        let Some(counted) = known(by).and_then(|totals| totals.counted.as_ref()) else {
            continue;
        };
        let ranks = ranks(by, counted, max_doc, stop)?;
        let mut places = Vec::new();
        for other in measured.iter().filter(|other| other.number != by.number) {
            let sum = known(other).and_then(|totals| totals.sum);
            let measures = measures_of(other, &ranks, counted.values.len(), sum.is_some(), stop)?;
            let mut bytes = Vec::new();
            encode_measures(&measures, other.column.min_value(), sum.is_some(), &mut bytes);
            out.write_all(&bytes)?;
            let start = end;
            end += bytes.len() as u64;
            places.push((other.number, start..end));
        }
        found.push((by.number, places));
    }
    for (number, places) in found {
        if let Some(counted) = totals.0[number].as_mut().and_then(|totals| totals.counted.as_mut()) {
            counted.measured = places;
        }
    }
    Ok(())
}

/// Calls `take` with each document that has a value, in order. A document has at most one value.
fn each_doc(column: &Column<u64>, stop: &dyn Fn() -> Result<()>, mut take: impl FnMut(DocId, u64)) -> Result<()> {
    match &column.index {
        ColumnIndex::Optional(optional) => {
            let mut docs = optional.iter_non_null_docs();
            each_row(column, stop, |value| {
                if let Some(doc) = docs.next() {
                    take(doc, value);
                }
            })
        }
        _ => {
            let mut docs = 0..;
            each_row(column, stop, |value| {
                if let Some(doc) = docs.next() {
                    take(doc, value);
                }
            })
        }
    }
}

/// Returns the index of each document's value among the counted values.
fn ranks(source: &Source, counted: &Counted, max_doc: DocId, stop: &dyn Fn() -> Result<()>) -> Result<Vec<u16>> {
    let mut ranks = vec![NONE; max_doc as usize];
    each_doc(&source.column, stop, |doc, value| {
        let found = counted.values.binary_search_by_key(&value, |(value, _)| *value);
        if let (Ok(rank), Some(place)) = (found, ranks.get_mut(doc as usize)) {
            *place = rank as u16;
        }
    })?;
    Ok(ranks)
}

fn measures_of(
    source: &Source,
    ranks: &[u16],
    value_count: usize,
    has_sum: bool,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<Measure>> {
    let mut measures = vec![Measure::default(); value_count];
    let integer = source.integer.filter(|_| has_sum);
    each_doc(&source.column, stop, |doc, raw| {
        let rank = ranks.get(doc as usize).copied().unwrap_or(NONE);
        let Some(measure) = measures.get_mut(rank as usize) else {
            return;
        };
        if measure.count == 0 {
            (measure.min, measure.max) = (raw, raw);
        }
        measure.count += 1;
        measure.min = measure.min.min(raw);
        measure.max = measure.max.max(raw);
        // If the sum of all values is exact, a sum of some of them is far from the limits of `i64`.
        measure.sum += integer.map_or(0, |integer| integer(raw) as i64);
    })?;
    Ok(measures)
}
