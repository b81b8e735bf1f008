//! Collector of `cardinality` over strings with prepared hashes.
//!
//! Segments have a file with the register and the rank of each value ([`firn_segment::distinct`]). Once a bucket has
//! more values than its sketch counts exactly, their prepared hashes are added to its registers, without the
//! dictionary and without a hash. The result is the same as that of the hashes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use firn_model::{ErrorKind, Result};
use firn_query::aggs::Partial;
use firn_query::aggs::cardinality::{PREPARED_BITS, Sketch};
use firn_segment::columns::column::ValueBlock;
use firn_segment::columns::strings::StrColumn;
use firn_segment::distinct::{DistinctColumn, EntryReader, StoredZones};
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use tantivy::DocId;
use tantivy::columnar::ColumnIndex;

use super::cardinality::{StringOrigin, hash_ordinals, ones};
use super::collector::Collector;
use super::table::Mixer;
use crate::run::memory::Memory;

/// Approximate bytes of an ordinal of a parent bucket.
const ORDINAL_BYTES: usize = 32;
/// Documents that are read at once.
const BLOCK: u32 = 1024;

/// Finds the prepared hashes of a field; `None`: the segment has none.
pub(super) fn find(segment: &Segment, class: Class, path: &str, strings: &StrColumn) -> Result<Option<DistinctColumn>> {
    let class_field = match class {
        Class::Keyword => "kw",
        Class::KeywordColumn => "kwc",
        _ => return Ok(None),
    };
    let file = segment.derived.distinct()?;
    Ok(file.and_then(|file| file.column(class_field, path, strings)))
}

pub(super) struct PreparedCollector {
    strings: StrColumn,
    prepared: DistinctColumn,
    entries: EntryReader,
    /// The hash of documents without a value.
    missing: Option<u64>,
    empty: Sketch,
    /// By parent bucket. A sketch is dense once its bucket has more values than it counts exactly.
    sketches: Vec<Sketch>,
    first: FirstBucket,
    /// Prepared hashes of the other parent buckets, by bucket and ordinal.
    others: HashMap<(u32, u32), u32, Mixer>,
    /// Ordinals in `others` of each parent bucket.
    counts: Vec<u32>,
    zones: TakenZones,
    /// Numbers of the entries of a block, and the entries.
    numbers: Vec<u32>,
    found: Vec<u32>,
    block: ValueBlock,
    memory: Memory,
    origin: Option<StringOrigin>,
}

/// Values of parent bucket 0.
#[derive(Default)]
struct FirstBucket {
    /// One bit for each ordinal.
    marks: Vec<u64>,
    /// Ordinals with a mark.
    count: usize,
    /// With entries by row: a row of each of these ordinals, until the sketch is dense.
    rows: Vec<u32>,
}

impl FirstBucket {
    /// Marks an ordinal; `row` is one of its rows, if the entries are by row.
    #[inline]
    fn mark(&mut self, ordinal: u64, row: Option<u32>) {
        let (word, bit) = ((ordinal / 64) as usize, 1 << (ordinal % 64));
        if self.marks[word] & bit == 0 {
            self.marks[word] |= bit;
            self.count += 1;
            self.rows.extend(row);
        }
    }
}

/// Zones that were not read document by document.
#[derive(Default)]
struct TakenZones {
    documents: Vec<Range<DocId>>,
    registers: Vec<u8>,
}

impl PreparedCollector {
    pub(super) fn new(
        strings: StrColumn,
        prepared: DistinctColumn,
        missing: Option<u64>,
        empty: Sketch,
        memory: &Memory,
        origin: Option<StringOrigin>,
    ) -> Self {
        Self {
            entries: prepared.entries(),
            strings,
            prepared,
            missing,
            empty,
            sketches: Vec::new(),
            first: FirstBucket::default(),
            others: HashMap::default(),
            counts: Vec::new(),
            zones: TakenZones::default(),
            numbers: Vec::new(),
            found: Vec::new(),
            block: ValueBlock::default(),
            memory: memory.clone(),
            origin,
        }
    }

    fn grow(&mut self, needed: usize) -> Result<()> {
        if needed > self.sketches.len() {
            let bytes = size_of::<Sketch>() + size_of::<u32>();
            self.memory.take((needed - self.sketches.len()) * bytes)?;
            self.sketches.resize_with(needed, || self.empty.clone());
            self.counts.resize(needed, 0);
        }
        Ok(())
    }

    /// Makes the sketch of a bucket dense that has more values than it counts exactly.
    fn make_dense(&mut self, bucket: usize) -> Result<()> {
        let sketch = &mut self.sketches[bucket];
        if !sketch.is_dense() {
            sketch.insert_prepared(std::iter::empty());
            self.memory.take(sketch.size_bytes())?;
        }
        Ok(())
    }

    /// Adds the entries of these rows to bucket 0, whose sketch is dense.
    fn fold_rows(&mut self, docs: &[DocId]) -> Result<()> {
        let rows = self.block.find_rows(self.strings.ords(), docs);
        self.found.clear();
        self.entries.read(rows, &mut self.found)?;
        self.sketches[0].insert_prepared(self.found.drain(..));
        Ok(())
    }

    /// Adds the values of documents of bucket 0 whose ordinals are known from the block.
    fn mark_first(&mut self, docs: &[DocId]) -> Result<()> {
        let by_row = self.prepared.is_by_row();
        for (&ordinal, &row) in self.block.raws.iter().zip(self.block.rows(docs)) {
            self.first.mark(ordinal, by_row.then_some(row));
        }
        self.end_exact_first()
    }

    /// Makes the sketch of bucket 0 dense if it has too many values. With entries by ordinal the marks are added at
    /// the end, in the order of the file.
    fn end_exact_first(&mut self) -> Result<()> {
        if self.first.count > self.empty.threshold() {
            self.make_dense(0)?;
        }
        if self.sketches[0].is_dense() && !self.first.rows.is_empty() {
            let mut rows = std::mem::take(&mut self.first.rows);
            rows.sort_unstable();
            self.found.clear();
            self.entries.read(&rows, &mut self.found)?;
            self.sketches[0].insert_prepared(self.found.drain(..));
        }
        Ok(())
    }

    fn open_marks(&mut self) -> Result<()> {
        if self.first.marks.is_empty() {
            let words = self.strings.num_terms().div_ceil(64);
            self.memory.take(words * 8)?;
            self.first.marks.resize(words, 0);
        }
        Ok(())
    }

    /// Adds the values of documents of several buckets.
    fn collect_mixed(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let mut block = std::mem::take(&mut self.block);
        block.read(self.strings.ords(), docs);
        let before = self.others.len();
        let added = self.add_mixed(&block, docs, buckets);
        self.block = block;
        added?;
        self.memory.take((self.others.len() - before) * ORDINAL_BYTES)?;
        self.end_exact_first()
    }

    fn add_mixed(&mut self, block: &ValueBlock, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let by_row = self.prepared.is_by_row();
        let values = block.positions.iter().zip(&block.raws).zip(block.rows(docs));
        for ((&position, &ordinal), &row) in values {
            let bucket = buckets[position as usize];
            let number = if by_row { row } else { ordinal as u32 };
            let sketch = &mut self.sketches[bucket as usize];
            if bucket == 0 && !(by_row && sketch.is_dense()) {
                self.first.mark(ordinal, by_row.then_some(row));
                continue;
            }
            if sketch.is_dense() {
                sketch.insert_prepared(std::iter::once(self.entries.get(number)?));
                continue;
            }
            if let Entry::Vacant(place) = self.others.entry((bucket, ordinal as u32)) {
                place.insert(self.entries.get(number)?);
                let count = &mut self.counts[bucket as usize];
                *count += 1;
                if *count as usize > self.empty.threshold() {
                    self.make_dense(bucket as usize)?;
                }
            }
        }
        Ok(())
    }

    /// Inserts the hash of missing values for documents without a row.
    fn collect_missing(&mut self, buckets: &[u32]) {
        let Some(missing) = self.missing else {
            return;
        };
        let mut next = 0;
        for (position, &bucket) in buckets.iter().enumerate() {
            let start = next;
            while self.block.positions.get(next) == Some(&(position as u32)) {
                next += 1;
            }
            if next == start {
                self.sketches[bucket as usize].insert(missing);
            }
        }
    }

    fn is_full(&self) -> bool {
        matches!(self.strings.ords().index, ColumnIndex::Full)
    }

    /// Adds the zones to bucket 0: their registers if it has too many values to be exact, else their documents.
    fn finish_zones(&mut self) -> Result<()> {
        let zones = std::mem::take(&mut self.zones);
        if zones.documents.is_empty() {
            return Ok(());
        }
        // Each register that is set stands for a value.
        let values_min = zones.registers.iter().filter(|rank| **rank > 0).count();
        if values_min > self.empty.threshold() {
            self.make_dense(0)?;
        }
        self.end_exact_first()?;
        if !self.sketches[0].is_dense() {
            let zeros = [0u32; BLOCK as usize];
            let blocks = zones.documents.iter().flat_map(|zone| {
                let starts = zone.clone().step_by(BLOCK as usize);
                starts.map(move |start| start..zone.end.min(start + BLOCK))
            });
            for block in blocks {
                let docs: Vec<DocId> = block.collect();
                match self.memory.pause() {
                    // The results so far are retained.
                    Err(error) if error.kind() == ErrorKind::Timeout => break,
                    outcome => outcome?,
                }
                self.collect(&docs, &zeros[..docs.len()])?;
            }
        }
        if self.sketches[0].is_dense() {
            self.sketches[0].merge_prepared(&zones.registers);
        }
        Ok(())
    }
}

impl Collector for PreparedCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.grow(buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1))?;
        let only_first = buckets.iter().all(|bucket| *bucket == 0);
        if only_first && !buckets.is_empty() && self.prepared.is_by_row() && self.sketches[0].is_dense() {
            self.fold_rows(docs)?;
        } else {
            self.open_marks()?;
            match only_first {
                true => {
                    self.block.read(self.strings.ords(), docs);
                    if !buckets.is_empty() {
                        self.mark_first(docs)?;
                    }
                }
                false => self.collect_mixed(docs, buckets)?,
            }
        }
        if !self.is_full() {
            self.collect_missing(buckets);
        }
        Ok(())
    }

    fn zones(&self) -> Option<StoredZones> {
        // Zones do not say which documents have no value.
        (self.missing.is_none() || self.is_full()).then(|| self.prepared.zones())
    }

    fn collect_zone(&mut self, documents: Range<DocId>) -> Result<()> {
        self.grow(1)?;
        if self.zones.registers.is_empty() {
            self.memory.take(1 << PREPARED_BITS)?;
            self.zones.registers.resize(1 << PREPARED_BITS, 0);
        }
        let number = documents.start / self.prepared.zones().docs;
        self.prepared.merge_zone(number, &mut self.zones.registers)?;
        self.zones.documents.push(documents);
        Ok(())
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.grow(bucket_count)?;
        self.sketches.truncate(bucket_count);
        if bucket_count == 0 {
            return Ok(Vec::new());
        }
        self.finish_zones()?;
        self.end_exact_first()?;
        let mut exact: Vec<(u64, u32)> = Vec::new();
        match self.sketches[0].is_dense() {
            // The rows were added already.
            true if self.prepared.is_by_row() => {}
            true => {
                for word in 0..self.first.marks.len() {
                    let start = word as u64 * 64;
                    self.numbers
                        .extend(ones(&self.first.marks[word..=word]).map(|ordinal| (start + ordinal) as u32));
                    let is_last = word + 1 == self.first.marks.len();
                    if self.numbers.len() < BLOCK as usize && !is_last {
                        continue;
                    }
                    self.entries.read(&self.numbers, &mut self.found)?;
                    self.sketches[0].insert_prepared(self.found.drain(..));
                    self.numbers.clear();
                }
            }
            false => exact.extend(ones(&self.first.marks).map(|ordinal| (ordinal, 0))),
        }
        for ((bucket, ordinal), prepared) in self.others.drain() {
            match self.sketches.get_mut(bucket as usize) {
                Some(sketch) if sketch.is_dense() => sketch.insert_prepared(std::iter::once(prepared)),
                Some(_) => exact.push((ordinal.into(), bucket)),
                None => {}
            }
        }
        hash_ordinals(
            &self.strings,
            self.origin.as_ref(),
            exact.into_iter(),
            &mut self.sketches,
        )?;
        Ok(self.sketches.into_iter().map(Partial::Cardinality).collect())
    }
}
