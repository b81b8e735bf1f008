//! `histogram` aggregation: a bucket per interval of numbers.

use firn_model::Result;
use firn_query::aggs::{Histogram, HistogramPartial, Key, KeyBytes, Partial, ValueFormat};
use firn_segment::columns::column::{NumColumn, ValueBlock};
use tantivy::DocId;

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope};
use super::source::{self, Source};
use crate::compile::field::Numeric;

/// Up to this number of buckets between the first and the last number of a segment, they are counted in a vector.
const WIDTH_MAX: f64 = 65_536.0;

/// `histogram`, compiled.
pub(super) struct NumberHistogramPlan {
    source: Source,
    part: Histogram,
    missing: Option<f64>,
    format: ValueFormat,
}

impl NumberHistogramPlan {
    pub(super) fn compile(compiler: &Compiler, part: &Histogram) -> Result<Self> {
        let source = Source::numbers(compiler, &part.field, "histogram")?;
        let missing = match &part.missing {
            None => None,
            Some(value) => Some(source::missing_number(&source.numeric(), value, compiler.now_ms)?.as_f64()),
        };
        Ok(Self {
            format: match source.value_format(part.format.as_deref())? {
                ValueFormat::Integer => ValueFormat::Raw,
                format => format,
            },
            source,
            part: part.clone(),
            missing,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let column = match &self.source {
            Source::Numbers { path, .. } => NumColumn::open(&scope.segment.reader, path)?,
            Source::MetaNumbers(name) => NumColumn::open_named(&scope.segment.reader, name)?,
            _ => None,
        };
        let numeric = self.source.numeric();
        // The numbers of the buckets from that of the least value to that of the largest.
        let ends = column.iter().flat_map(|column| {
            let values = &column.column.values;
            [values.min_value(), values.max_value()].map(|raw| numeric.value(column.as_f64(raw)))
        });
        let ends = ends.chain(self.missing).map(|value| self.part.number(value));
        let (first, last) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), number| {
            (first.min(number), last.max(number))
        });
        let few = last - first < WIDTH_MAX;
        Ok(Box::new(HistogramCollector {
            column,
            numeric,
            part: self.part.clone(),
            missing: self.missing,
            format: self.format.clone(),
            first: few.then_some(first),
            buckets: Buckets::new(few.then(|| (last - first) as u64 + 1), sub, scope.memory),
            values: ValueBlock::default(),
            own: Vec::new(),
        }))
    }
}

struct HistogramCollector {
    column: Option<NumColumn>,
    numeric: Numeric,
    part: Histogram,
    missing: Option<f64>,
    format: ValueFormat,
    /// Key 0 is the bucket of this number; `None`: keys are the bits of numbers.
    first: Option<f64>,
    buckets: Buckets,
    values: ValueBlock,
    own: Vec<u64>,
}

impl HistogramCollector {
    /// Returns the key of a value's bucket, if it is within the hard bounds.
    #[inline]
    fn key(&self, value: f64) -> Option<u64> {
        let number = self.part.number(value);
        if !self.part.is_within_hard_bounds(number) {
            return None;
        }
        Some(match self.first {
            Some(first) => (number - first) as u64,
            None => (number + 0.0).to_bits(),
        })
    }
}

impl Collector for HistogramCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let mut values = std::mem::take(&mut self.values);
        let mut own = std::mem::take(&mut self.own);
        if let Some(column) = &self.column {
            values.read(&column.column, docs);
        }
        let mut next = 0;
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            own.clear();
            let start = next;
            if let Some(column) = &self.column {
                while values.positions.get(next) == Some(&(position as u32)) {
                    own.extend(self.key(self.numeric.value(column.as_f64(values.raws[next]))));
                    next += 1;
                }
            }
            if start == next {
                own.extend(self.missing.and_then(|value| self.key(value)));
            }
            if own.len() > 1 {
                // A document counts once per bucket, even with several values in it.
                own.sort_unstable();
                own.dedup();
            }
            for &key in &own {
                self.buckets.push(doc, parent, key);
            }
        }
        self.values = values;
        self.own = own;
        self.buckets.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let empty = HistogramPartial {
            format: self.format,
            ..HistogramPartial::default()
        };
        let mut partials = vec![empty; bucket_count];
        for (entry, bucket) in self.buckets.finish()? {
            let number = match self.first {
                Some(first) => first + entry.key as f64,
                None => f64::from_bits(entry.key),
            };
            if let Some(partial) = partials.get_mut(entry.parent as usize) {
                partial.buckets.insert(KeyBytes::from(Key::F64(number)), bucket);
            }
        }
        Ok(partials.into_iter().map(Partial::Histogram).collect())
    }
}
