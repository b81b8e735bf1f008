//! Statistics of a column of numbers: documents by value where there are few values, and the bounds of blocks of documents.
//!
//! Both answer conditions on numbers, for which there are no terms. Splits store the counts of columns with few values; those of a segment
//! on disk are computed by the first request that has to count all matching documents, and cached.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use firn_model::Result;
use foldhash::fast::RandomState;
use tantivy::columnar::{Cardinality, Column, ColumnIndex};
use tantivy::{DocId, SegmentReader};

use super::column::{NumColumn, is_full};
use super::paths;
use crate::segment_cache::{CACHE, CacheKey};
use crate::splits::RunValues;

/// Most values whose documents are counted.
const VALUES_MAX: usize = 65_536;
/// Documents of a block with bounds.
const BLOCK_DOCS: u32 = 4096;

/// Statistics of a number column of one segment, as far as they are known.
pub struct NumberStatistics {
    key: CacheKey,
    /// Counts that a split stores.
    stored: Option<ValueCounts>,
    cached: Option<Arc<Computed>>,
}

/// Statistics that were computed from a whole column.
#[derive(Debug, PartialEq, Eq)]
struct Computed {
    /// `None`: too many values, or documents with several.
    counts: Option<ValueCounts>,
    /// Smallest and largest value of each block of documents; empty unless each document has exactly one value.
    bounds: Box<[(u64, u64)]>,
}

/// Documents by value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ValueCounts {
    /// Raw values, ascending.
    values: Box<[u64]>,
    /// By value, the number of documents with it or a smaller one.
    sums: Box<[u64]>,
}

impl ValueCounts {
    /// Takes values with the numbers of their documents, ascending.
    fn new(counted: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut sum = 0;
        let (values, sums): (Vec<u64>, Vec<u64>) = counted
            .map(|(value, docs)| {
                sum += docs;
                (value, sum)
            })
            .unzip();
        Self {
            values: values.into(),
            sums: sums.into(),
        }
    }

    fn count(&self, range: &RangeInclusive<u64>) -> u64 {
        let sum_before = |end: usize| end.checked_sub(1).map_or(0, |last| self.sums[last]);
        let first = self.values.partition_point(|value| value < range.start());
        let end = self.values.partition_point(|value| value <= range.end());
        sum_before(end.max(first)) - sum_before(first)
    }

    fn bytes(&self) -> usize {
        self.values.len() * 2 * size_of::<u64>()
    }
}

impl NumberStatistics {
    /// Finds what is known of the numbers of a field; reads nothing.
    pub fn of(reader: &SegmentReader, path: &str) -> Self {
        let name = paths::column_name("num", path);
        let key = CacheKey {
            segment: reader.segment_id(),
            name: format!("number statistics {name}").into(),
        };
        let cached = CACHE.get(&key);
        let stored = match cached {
            Some(_) => None,
            None => stored_counts(reader, &name),
        };
        Self { key, stored, cached }
    }

    /// Returns whether no documents have a value in a range, as far as that is known.
    pub fn has_none(&self, range: &RangeInclusive<u64>) -> bool {
        self.counts().is_some_and(|counts| counts.count(range) == 0)
    }

    fn counts(&self) -> Option<&ValueCounts> {
        let computed = || self.cached.as_ref()?.counts.as_ref();
        self.stored.as_ref().or_else(computed)
    }

    /// Returns whether some of these documents, of which there is at least one, may have a value in a range of raw values.
    pub fn may_have_any(&self, docs: Range<DocId>, range: &RangeInclusive<u64>) -> bool {
        let blocks = (docs.start / BLOCK_DOCS) as usize..=((docs.end - 1) / BLOCK_DOCS) as usize;
        let bounds = self.cached.as_ref().and_then(|cached| cached.bounds.get(blocks));
        let overlaps = |(min, max): &(u64, u64)| min <= range.end() && range.start() <= max;
        bounds.is_none_or(|bounds| bounds.iter().any(overlaps))
    }

    /// Returns the number of documents, deleted ones included, with a value in one of these ranges, which do not overlap; `None`: the values
    /// are not counted. Reads the whole column if nothing is known of it. `go_on` is called regularly; if it returns false, there is no
    /// number.
    pub fn count(
        &mut self,
        column: &Column<u64>,
        ranges: &mut dyn Iterator<Item = RangeInclusive<u64>>,
        go_on: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Option<u64>> {
        // The values of a split may have to be fetched; it stores the counts of columns with few values.
        let is_split = column.values.downcast_ref::<RunValues>().is_some();
        if self.stored.is_none() && self.cached.is_none() && !is_split {
            let Some(computed) = Computed::of_column(column, go_on)? else {
                return Ok(None);
            };
            let computed = Arc::new(computed);
            CACHE.put(self.key.clone(), Arc::clone(&computed), computed.bytes());
            self.cached = Some(computed);
        }
        Ok(self
            .counts()
            .map(|counts| ranges.map(|range| counts.count(&range)).sum()))
    }
}

/// Returns the counts that a split stores of a column, by its full name. A document with several values has several counts, so that a range
/// has no count.
fn stored_counts(reader: &SegmentReader, name: &str) -> Option<ValueCounts> {
    let (_, runs) = NumColumn::known(reader, name).ok()??;
    let totals = runs.totals()?;
    let counted = totals.counted.as_ref().filter(|_| totals.values == totals.docs)?;
    Some(ValueCounts::new(counted.values.iter().copied()))
}

impl Computed {
    /// Reads a column; `None`: `go_on` has returned false.
    fn of_column(column: &Column<u64>, go_on: &mut dyn FnMut() -> Result<bool>) -> Result<Option<Self>> {
        let has_several = column.index.get_cardinality() == Cardinality::Multivalued;
        let is_full = is_full(column);
        let count = match column.index {
            ColumnIndex::Empty { .. } => 0,
            _ => column.values.num_vals(),
        };
        if has_several {
            return Ok(Some(Self {
                counts: None,
                bounds: Box::default(),
            }));
        }
        let mut counter = Some(Counter::new(column));
        let mut bounds = Vec::new();
        let mut values = vec![0; BLOCK_DOCS as usize];
        for start in (0..count).step_by(BLOCK_DOCS as usize) {
            if !go_on()? {
                return Ok(None);
            }
            let values = &mut values[..BLOCK_DOCS.min(count - start) as usize];
            column.values.get_range(start.into(), values);
            if is_full {
                let first = (u64::MAX, u64::MIN);
                bounds.push(
                    values
                        .iter()
                        .fold(first, |(min, max), &value| (min.min(value), max.max(value))),
                );
            } else if counter.is_none() {
                break;
            }
            counter = counter.and_then(|counter| counter.add(values));
        }
        Ok(Some(Self {
            counts: counter.map(Counter::finish),
            bounds: bounds.into(),
        }))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.counts.as_ref().map_or(0, ValueCounts::bytes) + size_of_val(&*self.bounds)
    }
}

/// Counter of values: by their distance from the smallest one, or in a map if they are far from each other.
enum Counter {
    Near { base: u64, counts: Vec<u64> },
    Far(HashMap<u64, u64, RandomState>),
}

impl Counter {
    fn new(column: &Column<u64>) -> Self {
        let (base, max) = (column.values.min_value(), column.values.max_value());
        match max.checked_sub(base) {
            Some(width) if width < VALUES_MAX as u64 => Self::Near {
                base,
                counts: vec![0; width as usize + 1],
            },
            _ => Self::Far(HashMap::default()),
        }
    }

    /// Counts values; `None`: there are too many different ones.
    fn add(mut self, values: &[u64]) -> Option<Self> {
        match &mut self {
            Self::Near { base, counts } => {
                for value in values {
                    counts[(value - *base) as usize] += 1;
                }
            }
            Self::Far(counts) => {
                for value in values {
                    *counts.entry(*value).or_default() += 1;
                }
                if counts.len() > VALUES_MAX {
                    return None;
                }
            }
        }
        Some(self)
    }

    fn finish(self) -> ValueCounts {
        match self {
            Self::Near { base, counts } => {
                let counted = counts.into_iter().enumerate().filter(|(_, docs)| *docs > 0);
                ValueCounts::new(counted.map(|(distance, docs)| (base + distance as u64, docs)))
            }
            Self::Far(counts) => {
                let mut counted: Vec<(u64, u64)> = counts.into_iter().collect();
                counted.sort_unstable();
                ValueCounts::new(counted.into_iter())
            }
        }
    }
}
