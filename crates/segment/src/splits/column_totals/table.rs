//! Table of the statistics of columns, and the measures by value, as they are stored.

use std::ops::Range;

use crate::varint::{self, Reader};

/// Columns with more values are not counted.
pub(in crate::splits) const VALUES_MAX: usize = 256;

/// Statistics by the number of the column in the table of columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Totals(pub(in crate::splits) Vec<Option<ColumnTotals>>);

/// Statistics of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnTotals {
    /// Documents with a value; never 0.
    pub docs: u64,
    /// Values; a string that a document has several times counts once.
    pub values: u64,
    /// The sum of all values, if they are integers whose sums are exact in `f64` in any order.
    pub sum: Option<i64>,
    /// Documents by value, if there are few values.
    pub counted: Option<Counted>,
}

/// Documents by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Raw values, ascending, or ordinals, which are 0, 1, 2, ...; each with the number of its documents.
    pub values: Vec<(u64, u64)>,
    /// Columns that are measured by value, ascending, and the place of the measures in the part.
    pub(in crate::splits) measured: Vec<(usize, Range<u64>)>,
}

/// Statistics of a column over the documents with one value of another column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Number of values.
    pub count: u64,
    /// Raw; 0 if `count` is 0.
    pub min: u64,
    /// Raw; 0 if `count` is 0.
    pub max: u64,
    /// 0 if the sum of the whole column is unknown.
    pub sum: i64,
}

const KNOWN: u8 = 1;
const HAS_SUM: u8 = 2;
const COUNTED: u8 = 4;
/// The values are ordinals.
const ORDINALS: u8 = 8;

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

impl Totals {
    pub(in crate::splits) fn column(&self, number: usize) -> Option<&ColumnTotals> {
        self.0.get(number)?.as_ref()
    }

    /// Returns the columns whose values are counted.
    pub(in crate::splits) fn counted(&self) -> impl Iterator<Item = usize> + '_ {
        let columns = self.0.iter().enumerate();
        columns.filter_map(|(number, column)| column.as_ref()?.counted.as_ref().map(|_| number))
    }

    pub(in crate::splits) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, self.0.len() as u64);
        for column in &self.0 {
            match column {
                Some(column) => column.encode(&mut bytes),
                None => bytes.push(0),
            }
        }
        bytes
    }

    /// Decodes the statistics of `column_count` columns and `docs` documents, with a part of `part_len` bytes; `None`:
    /// the bytes are invalid.
    pub(in crate::splits) fn decode(bytes: &[u8], column_count: usize, docs: u64, part_len: u64) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        if reader.small()? as usize != column_count {
            return None;
        }
        let mut end = 0;
        let mut columns = Vec::with_capacity(column_count);
        for _ in 0..column_count {
            let column = ColumnTotals::decode(&mut reader, column_count, &mut end)?;
            columns.push(column);
        }
        let fits = |column: &ColumnTotals| {
            let counted = column.counted.iter().flat_map(|counted| &counted.values);
            let most = counted.map(|(_, docs)| *docs).max();
            column.docs <= docs && most.is_none_or(|most| most <= column.docs)
        };
        let fit = columns.iter().flatten().all(fits) && end <= part_len && reader.rest.is_empty();
        fit.then_some(Self(columns))
    }
}

impl ColumnTotals {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let has_sum = if self.sum.is_some() { HAS_SUM } else { 0 };
        let counted = match &self.counted {
            None => 0,
            Some(counted) if counted.are_ordinals() => COUNTED | ORDINALS,
            Some(_) => COUNTED,
        };
        bytes.push(KNOWN | has_sum | counted);
        varint::put(bytes, self.docs);
        varint::put(bytes, self.values);
        if let Some(sum) = self.sum {
            varint::put(bytes, zigzag(sum));
        }
        let Some(counted) = &self.counted else {
            return;
        };
        varint::put(bytes, counted.values.len() as u64);
        let mut before = 0;
        for &(value, docs) in &counted.values {
            if !counted.are_ordinals() {
                varint::put(bytes, value - before);
                before = value;
            }
            varint::put(bytes, docs);
        }
        varint::put(bytes, counted.measured.len() as u64);
        for (column, range) in &counted.measured {
            varint::put(bytes, *column as u64);
            varint::put(bytes, range.end - range.start);
        }
    }

    /// `Some(None)`: the column has no statistics. `end` is the start of its measures at the call, and their end
    /// afterwards.
    fn decode(reader: &mut Reader<'_>, column_count: usize, end: &mut u64) -> Option<Option<Self>> {
        let flags = reader.byte()?;
        if flags == 0 {
            return Some(None);
        }
        if flags & KNOWN == 0 || flags & !(KNOWN | HAS_SUM | COUNTED | ORDINALS) != 0 {
            return None;
        }
        let (docs, values) = (reader.number()?, reader.number()?);
        let sum = match flags & HAS_SUM {
            0 => None,
            _ => Some(unzigzag(reader.number()?)),
        };
        let counted = match flags & COUNTED {
            0 => None,
            _ => Some(Counted::decode(reader, flags & ORDINALS != 0, column_count, end)?),
        };
        Some(Some(Self {
            docs,
            values,
            sum,
            counted,
        }))
    }
}

impl Counted {
    fn are_ordinals(&self) -> bool {
        (0..).zip(&self.values).all(|(ordinal, (value, _))| ordinal == *value)
    }

    fn decode(reader: &mut Reader<'_>, are_ordinals: bool, column_count: usize, end: &mut u64) -> Option<Self> {
        let count = Some(reader.small()? as usize).filter(|count| *count <= VALUES_MAX)?;
        let mut values: Vec<(u64, u64)> = Vec::with_capacity(count);
        for ordinal in 0..count as u64 {
            let value = match (are_ordinals, values.last()) {
                (true, _) => ordinal,
                (false, None) => reader.number()?,
                (false, Some((before, _))) => before.checked_add(reader.number().filter(|step| *step > 0)?)?,
            };
            values.push((value, reader.number()?));
        }
        let mut measured: Vec<(usize, Range<u64>)> = Vec::new();
        for _ in 0..reader.small()? {
            let column = Some(reader.small()? as usize).filter(|column| *column < column_count)?;
            if measured.last().is_some_and(|(before, _)| *before >= column) {
                return None;
            }
            let start = *end;
            *end = start.checked_add(reader.number()?)?;
            measured.push((column, start..*end));
        }
        Some(Self { values, measured })
    }
}

/// Writes the measures by value. `min` is the smallest value of the column.
pub(super) fn encode_measures(measures: &[Measure], min: u64, has_sum: bool, bytes: &mut Vec<u8>) {
    for measure in measures {
        varint::put(bytes, measure.count);
        if measure.count > 0 {
            varint::put(bytes, measure.min - min);
            varint::put(bytes, measure.max - measure.min);
            if has_sum {
                varint::put(bytes, zigzag(measure.sum));
            }
        }
    }
}

/// Decodes [`encode_measures`] of `count` values; `None`: the bytes are invalid.
pub(in crate::splits) fn decode_measures(bytes: &[u8], count: usize, min: u64, has_sum: bool) -> Option<Vec<Measure>> {
    let mut reader = Reader { rest: bytes };
    let mut measures = Vec::with_capacity(count);
    for _ in 0..count {
        let mut measure = Measure {
            count: reader.number()?,
            ..Measure::default()
        };
        if measure.count > 0 {
            measure.min = min.checked_add(reader.number()?)?;
            measure.max = measure.min.checked_add(reader.number()?)?;
            if has_sum {
                measure.sum = unzigzag(reader.number()?);
            }
        }
        measures.push(measure);
    }
    reader.rest.is_empty().then_some(measures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_come_back() {
        let counted = |values: Vec<(u64, u64)>, measured| Some(Counted { values, measured });
        let column = |sum, counted| {
            Some(ColumnTotals {
                docs: 900,
                values: 1000,
                sum,
                counted,
            })
        };
        let totals = Totals(vec![
            column(
                None,
                counted(vec![(0, 5), (1, 0), (2, 900)], vec![(2, 0..7), (3, 7..7)]),
            ),
            None,
            column(
                Some(i64::MIN),
                counted(vec![(1 << 63, 3), (u64::MAX, 4)], vec![(0, 7..300)]),
            ),
            column(Some(-3), None),
        ]);
        let bytes = totals.encode();
        assert_eq!(Totals::decode(&bytes, 4, 900, 300), Some(totals));
        assert_eq!(Totals::decode(&bytes, 4, 900, 299), None);
        assert_eq!(Totals::decode(&bytes, 4, 899, 300), None);
        assert_eq!(Totals::decode(&bytes, 5, 900, 300), None);
        for len in 0..bytes.len() {
            assert_eq!(Totals::decode(&bytes[..len], 4, 900, 300), None, "{len}");
        }
    }

    #[test]
    fn measures_come_back() {
        let measures = [
            Measure {
                count: 3,
                min: 7,
                max: u64::MAX,
                sum: -5,
            },
            Measure::default(),
        ];
        let mut bytes = Vec::new();
        encode_measures(&measures, 5, true, &mut bytes);
        assert_eq!(decode_measures(&bytes, 2, 5, true).unwrap(), measures);
        for len in 0..bytes.len() {
            assert_eq!(decode_measures(&bytes[..len], 2, 5, true), None, "{len}");
        }
        assert_eq!(decode_measures(&bytes, 1, 5, true), None);
    }
}
