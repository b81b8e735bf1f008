//! `cardinality` aggregation: the number of distinct values.
//!
//! Strings are marked by ordinal, and each is hashed once per segment, however often it occurs.

use std::collections::HashSet;

use firn_model::Result;
use firn_query::aggs::cardinality::{Sketch, hash_bytes, hash_u64};
use firn_query::aggs::{Cardinality, Partial};
use firn_segment::columns::column;
use firn_segment::columns::column::{NumColumn, Number, ValueBlock};
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use tantivy::{DocId, SegmentReader};

use super::super::compile::Compiler;
use super::collector::{Collector, Scope};
use super::known_values::{KnownValues, ReadColumn, ReadValues};
use super::prepared_cardinality;
use super::prepared_cardinality::PreparedCollector;
use super::source::{self, Source};
use super::table::Mixer;
use crate::compile::field::{NANOS, Numeric};
use crate::compile::string_scan::Texts;
use crate::run::memory::Memory;

/// `cardinality`, compiled.
pub(super) struct CardinalityPlan {
    source: Source,
    empty: Sketch,
    /// The hash of documents without a value.
    missing: Option<u64>,
}

impl CardinalityPlan {
    pub(super) fn compile(compiler: &Compiler, part: &Cardinality) -> Result<Self> {
        let source = Source::compile(compiler, &part.field)?;
        let numeric = source.numeric();
        let missing = match (&part.missing, &source) {
            (None, _) => None,
            (Some(value), Source::Numbers { .. } | Source::MetaNumbers(_)) => {
                let number = source::missing_number(&numeric, value, compiler.now_ms)?;
                let number = match number {
                    // Dates are in ms here, and are hashed in stored units.
                    Number::Int(ms) => Number::Int(ms * i128::from(numeric.units_per_ms())),
                    Number::Float(value) => match numeric {
                        Numeric::Scaled(factor) => Number::Float((value * factor).round()),
                        _ => Number::Float(value),
                    },
                };
                Some(hash_number(&numeric, number))
            }
            (Some(value), Source::Strings { is_ip, .. }) => {
                Some(hash_bytes(source::stored_string(*is_ip, value)?.as_bytes()))
            }
            (Some(value), _) => Some(hash_bytes(source::stored_string(false, value)?.as_bytes())),
        };
        Ok(Self {
            source,
            empty: part.sketch(),
            missing,
        })
    }

    /// Returns the column of a whole segment, if its statistics are enough; reads nothing.
    pub(super) fn known_of_whole(&self, segment: &Segment) -> Result<Option<KnownValues>> {
        KnownValues::find(&self.source, segment)
    }

    /// Returns the sketch of the values of a whole segment; `without` documents have no value.
    pub(super) fn of_whole(&self, values: ReadValues, without: u64) -> Result<Sketch> {
        let mut sketch = self.empty.clone();
        if let (Some(missing), true) = (self.missing, without > 0) {
            sketch.insert(missing);
        }
        let present = values.counts.iter().filter(|(_, docs)| *docs > 0).map(|(raw, _)| *raw);
        match &values.column {
            ReadColumn::Numbers(column) => {
                let numeric = self.source.numeric();
                present.for_each(|raw| {
                    sketch.insert(hash_number(&numeric, column.number(raw)));
                });
            }
            ReadColumn::Strings(strings) => {
                let ordinals: Vec<u64> = present.collect();
                strings.dictionary().sorted_ords_to_term_cb(&ordinals, |term| {
                    sketch.insert(hash_bytes(term));
                })?;
            }
        }
        Ok(sketch)
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let numbers = |column: Option<NumColumn>| column.map(|column| Values::Numbers(column, self.source.numeric()));
        let values = match &self.source {
            Source::Numbers { path, .. } => numbers(NumColumn::open(reader, path)?),
            Source::MetaNumbers(name) => numbers(NumColumn::open_named(reader, name)?),
            Source::Strings { class, path, .. } => column::open_strings(reader, *class, path)?.map(Values::Strings),
            Source::Constant(text) => Some(Values::One(hash_bytes(text.as_bytes()))),
            Source::Nothing => None,
        };
        let origin = match &self.source {
            Source::Strings { class, path, .. } => Some(StringOrigin {
                reader: reader.clone(),
                class: *class,
                path: path.clone(),
            }),
            _ => None,
        };
        if let (Source::Strings { class, path, .. }, Some(Values::Strings(strings))) = (&self.source, &values)
            && self.empty.takes_prepared()
            && let Some(prepared) = prepared_cardinality::find(scope.segment, *class, path, strings)?
        {
            return Ok(Box::new(PreparedCollector::new(
                strings.clone(),
                prepared,
                self.missing,
                self.empty.clone(),
                scope.memory,
                origin,
            )));
        }
        Ok(Box::new(CardinalityCollector {
            base: values.as_ref().and_then(narrow),
            values,
            missing: self.missing,
            empty: self.empty.clone(),
            first: Vec::new(),
            others: HashSet::default(),
            sketches: Vec::new(),
            hashed: 0,
            accounted: 0,
            block: ValueBlock::default(),
            memory: scope.memory.clone(),
            origin,
        }))
    }
}

/// Hashes a stored number independent of the type of its column. Aggregations compute with dates in ms, as in
/// Elasticsearch: values in the same bucket of `terms` count as one value.
fn hash_number(numeric: &Numeric, number: Number) -> u64 {
    match (numeric, number) {
        (Numeric::DateNanos(_), Number::Int(nanos)) => hash_u64(nanos.div_euclid(NANOS.into()) as u64),
        (Numeric::Float { .. } | Numeric::Scaled(_), number) => hash_u64((number.as_f64() + 0.0).to_bits()),
        (_, Number::Int(value)) => hash_u64(value as u64),
        (_, Number::Float(value)) => hash_u64(value as i64 as u64),
    }
}

enum Values {
    Numbers(NumColumn, Numeric),
    Strings(StrColumn),
    /// The hash of one value for every document.
    One(u64),
}

/// In ranges up to this width, numbers are marked in bits and hashed once each: 128 KB of marks.
const NUMBER_WIDTH_MAX: u64 = 1 << 20;

/// Returns the smallest raw number of a column whose range is narrow enough for marks.
fn narrow(values: &Values) -> Option<u64> {
    let Values::Numbers(column, _) = values else {
        return None;
    };
    let (min, max) = (column.column.min_value(), column.column.max_value());
    max.checked_sub(min)
        .is_some_and(|width| width < NUMBER_WIDTH_MAX)
        .then_some(min)
}

/// From this number of values on, the dictionary is read as a whole.
const TEXTS_MIN: usize = 4096;
/// Approximate bytes of a hash in a set.
const HASH_BYTES: usize = 24;

struct CardinalityCollector {
    values: Option<Values>,
    /// The smallest raw number, if numbers are marked like ordinals.
    base: Option<u64>,
    missing: Option<u64>,
    empty: Sketch,
    /// Marks of parent bucket 0, one bit each: ordinals, or numbers minus the smallest one.
    first: Vec<u64>,
    /// Ordinals of the other parent buckets.
    others: HashSet<(u32, u64), Mixer>,
    /// By parent bucket: values that were hashed immediately.
    sketches: Vec<Sketch>,
    /// Number of values hashed immediately.
    hashed: usize,
    accounted: usize,
    block: ValueBlock,
    memory: Memory,
    origin: Option<StringOrigin>,
}

/// The column whose strings can be read as a whole.
pub(super) struct StringOrigin {
    reader: SegmentReader,
    class: Class,
    path: String,
}

impl CardinalityCollector {
    fn grow(&mut self, buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.sketches.len() {
            self.memory.take((needed - self.sketches.len()) * size_of::<Sketch>())?;
            self.sketches.resize_with(needed, || self.empty.clone());
        }
        Ok(())
    }

    /// Reserves the memory by which this many hashes may have grown sketches.
    fn account(&mut self, hashed: usize) -> Result<()> {
        self.hashed += hashed;
        // A sketch stops growing at 256 KB.
        let bytes = (self.hashed * HASH_BYTES).min(self.sketches.len() << 18);
        if bytes > self.accounted {
            self.memory.take(bytes - self.accounted)?;
            self.accounted = bytes;
        }
        Ok(())
    }
}

impl Collector for CardinalityCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.grow(buckets)?;
        let mut hashed = 0;
        let block = &mut self.block;
        let read = match &self.values {
            Some(Values::Strings(strings)) => {
                block.read(strings.ords(), docs);
                if self.first.is_empty() {
                    let words = strings.num_terms().div_ceil(64);
                    self.memory.take(words * 8)?;
                    self.first.resize(words, 0);
                }
                let before = self.others.len();
                for (&position, &ordinal) in block.positions.iter().zip(&block.raws) {
                    match buckets[position as usize] {
                        0 => self.first[(ordinal / 64) as usize] |= 1 << (ordinal % 64),
                        bucket => drop(self.others.insert((bucket, ordinal))),
                    }
                }
                self.memory.take((self.others.len() - before) * HASH_BYTES)?;
                true
            }
            Some(Values::Numbers(column, numeric)) => {
                block.read(&column.column, docs);
                if let (Some(base), true) = (self.base, self.first.is_empty()) {
                    let words = ((column.column.max_value() - base) / 64 + 1) as usize;
                    self.memory.take(words * 8)?;
                    self.first.resize(words, 0);
                }
                for (&position, &raw) in block.positions.iter().zip(&block.raws) {
                    let bucket = buckets[position as usize];
                    match self.base {
                        Some(base) if bucket == 0 => {
                            let mark = raw - base;
                            self.first[(mark / 64) as usize] |= 1 << (mark % 64);
                        }
                        _ => {
                            let hash = hash_number(numeric, column.number(raw));
                            self.sketches[bucket as usize].insert(hash);
                            hashed += 1;
                        }
                    }
                }
                true
            }
            Some(Values::One(hash)) => {
                for &bucket in buckets {
                    self.sketches[bucket as usize].insert(*hash);
                }
                return Ok(());
            }
            None => false,
        };
        if let Some(missing) = self.missing {
            let mut next = 0;
            for (position, &bucket) in buckets.iter().enumerate() {
                let start = next;
                while read && self.block.positions.get(next) == Some(&(position as u32)) {
                    next += 1;
                }
                if next == start {
                    self.sketches[bucket as usize].insert(missing);
                }
            }
        }
        self.account(hashed)
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.sketches.resize_with(bucket_count, || self.empty.clone());
        if let (Some(Values::Numbers(column, numeric)), Some(base), Some(sketch)) =
            (&self.values, self.base, self.sketches.first_mut())
        {
            for mark in ones(&self.first) {
                sketch.insert(hash_number(numeric, column.number(base + mark)));
            }
        }
        if let Some(Values::Strings(strings)) = &self.values {
            let first = ones(&self.first).map(|ordinal| (ordinal, 0));
            let others = self.others.drain().map(|(bucket, ordinal)| (ordinal, bucket));
            hash_ordinals(strings, self.origin.as_ref(), first.chain(others), &mut self.sketches)?;
        }
        Ok(self.sketches.into_iter().map(Partial::Cardinality).collect())
    }
}

/// Inserts the hashes of ordinals, each with its bucket, into the sketches of their buckets.
pub(super) fn hash_ordinals(
    strings: &StrColumn,
    origin: Option<&StringOrigin>,
    ordinals: impl Iterator<Item = (u64, u32)>,
    sketches: &mut [Sketch],
) -> Result<()> {
    let mut ordinals = ordinals.peekable();
    if ordinals.peek().is_none() {
        return Ok(());
    }
    let texts = match origin {
        Some(origin) if strings.num_terms() >= TEXTS_MIN => {
            Texts::of(&origin.reader, origin.class, &origin.path, &mut || Ok(()))?
        }
        _ => None,
    };
    if let Some(texts) = texts {
        for (ordinal, bucket) in ordinals {
            if let Some(sketch) = sketches.get_mut(bucket as usize) {
                sketch.insert(hash_bytes(texts.get(ordinal as usize)));
            }
        }
        return Ok(());
    }
    let mut ordinals: Vec<(u64, u32)> = ordinals.collect();
    ordinals.sort_unstable();
    let sorted: Vec<u64> = ordinals.iter().map(|(ordinal, _)| *ordinal).collect();
    let mut next = 0;
    strings.dictionary().sorted_ords_to_term_cb(&sorted, |term| {
        let sketch = ordinals
            .get(next)
            .and_then(|(_, bucket)| sketches.get_mut(*bucket as usize));
        if let Some(sketch) = sketch {
            sketch.insert(hash_bytes(term));
        }
        next += 1;
    })?;
    Ok(())
}

/// Returns the positions of the bits that are set.
pub(super) fn ones(words: &[u64]) -> impl Iterator<Item = u64> + '_ {
    words.iter().enumerate().flat_map(|(word, &bits)| {
        let mut bits = bits;
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| u64::from(bits.trailing_zeros()))?;
            bits &= bits - 1;
            Some(word as u64 * 64 + bit)
        })
    })
}
