//! `auto_date_histogram` aggregation: time buckets that widen when there are too many of them.

use std::collections::HashMap;

use firn_model::Result;
use firn_model::dates::Rounding;
use firn_query::aggs::{AutoDateHistogram, AutoDateHistogramPartial, Bucket, Ladder, Partial, ValueFormat};
use firn_segment::columns::column::{NumColumn, Number, ValueBlock};
use tantivy::DocId;

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope};
use super::source::{self, Source};
use crate::compile::field::Numeric;

/// `auto_date_histogram`, compiled.
pub(super) struct AutoDateHistogramPlan {
    source: Source,
    format: ValueFormat,
    ladder: Ladder,
    missing_ms: Option<i64>,
}

impl AutoDateHistogramPlan {
    pub(super) fn compile(compiler: &Compiler, part: &AutoDateHistogram) -> Result<Self> {
        const NAME: &str = "auto_date_histogram";
        let source = Source::numbers(compiler, &part.field, NAME)?;
        let numeric = source.numeric();
        if !matches!(numeric, Numeric::Date(_) | Numeric::DateNanos(_) | Numeric::Integer) {
            return Err(source::unsupported(compiler, &part.field, NAME));
        }
        let missing_ms = match &part.missing {
            None => None,
            Some(value) => match source::missing_number(&numeric, value, compiler.now_ms)? {
                Number::Int(ms) => Some(i64::try_from(ms).unwrap_or(i64::MAX)),
                Number::Float(ms) => Some(ms as i64),
            },
        };
        let format = match numeric.date_format() {
            Some(_) => source.value_format(part.format.as_deref())?,
            None => ValueFormat::Raw,
        };
        Ok(Self {
            source,
            format,
            ladder: part.ladder()?,
            missing_ms,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let column = match &self.source {
            Source::Numbers { path, .. } => NumColumn::open(&scope.segment.reader, path)?,
            Source::MetaNumbers(name) => NumColumn::open_named(&scope.segment.reader, name)?,
            _ => None,
        };
        Ok(Box::new(AutoDateHistogramCollector {
            column,
            units_per_ms: self.source.numeric().units_per_ms(),
            missing_ms: self.missing_ms,
            format: self.format.clone(),
            ladder: self.ladder.clone(),
            parents: Vec::new(),
            buckets: Buckets::new(None, sub, scope.memory),
            values: ValueBlock::default(),
            own: Vec::new(),
        }))
    }
}

/// The buckets of a parent so far.
struct Parent {
    rung: usize,
    rounding: Rounding,
    /// Starts of its buckets at this width; `buckets` has the counts.
    starts: std::collections::HashSet<i64, super::table::Mixer>,
    /// The bucket of the previous timestamp: (start, end).
    known: (i64, i64),
}

struct AutoDateHistogramCollector {
    column: Option<NumColumn>,
    units_per_ms: i64,
    missing_ms: Option<i64>,
    format: ValueFormat,
    ladder: Ladder,
    parents: Vec<Parent>,
    /// Keyed by start; starts from before a parent's buckets widened are rounded at the end.
    buckets: Buckets,
    values: ValueBlock,
    own: Vec<i64>,
}

const SIGN: u64 = 1 << 63;

impl Parent {
    fn new(ladder: &Ladder) -> Self {
        Self {
            rung: ladder.finest(),
            rounding: ladder.rounding(ladder.finest()),
            starts: std::collections::HashSet::default(),
            known: (0, 0),
        }
    }

    fn start(&mut self, ms: i64, ladder: &Ladder) -> i64 {
        if self.known.0 <= ms && ms < self.known.1 {
            return self.known.0;
        }
        let mut start = self.rounding.round_down(ms);
        if self.starts.insert(start) {
            while ladder.is_too_many(self.starts.len(), self.rung) && ladder.has_next(self.rung) {
                self.rung += 1;
                self.rounding = ladder.rounding(self.rung);
                let starts = self.starts.drain().collect::<Vec<_>>();
                self.starts
                    .extend(starts.into_iter().map(|start| self.rounding.round_down(start)));
            }
            start = self.rounding.round_down(ms);
        }
        self.known = (start, self.rounding.next(start));
        start
    }
}

impl Collector for AutoDateHistogramCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        while self.parents.len() < needed {
            self.parents.push(Parent::new(&self.ladder));
        }
        if let Some(column) = &self.column {
            self.values.read(&column.column, docs);
        }
        let mut next = 0;
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            self.own.clear();
            let state = &mut self.parents[parent as usize];
            let begin = next;
            if let Some(column) = &self.column {
                while self.values.positions.get(next) == Some(&(position as u32)) {
                    let ms = source::stored_to_ms(column.as_i64(self.values.raws[next]), self.units_per_ms);
                    self.own.push(state.start(ms, &self.ladder));
                    next += 1;
                }
            }
            if begin == next {
                self.own.extend(self.missing_ms.map(|ms| state.start(ms, &self.ladder)));
            }
            if self.own.len() > 1 {
                // A document counts once per bucket, even with several dates in it; a later date may have widened
                // the buckets of an earlier one.
                for start in &mut self.own {
                    *start = state.rounding.round_down(*start);
                }
                self.own.sort_unstable();
                self.own.dedup();
            }
            for &start in &self.own {
                self.buckets.push(doc, parent, start as u64 ^ SIGN);
            }
        }
        self.buckets.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let mut found: Vec<HashMap<i64, Bucket>> = vec![HashMap::new(); bucket_count];
        for (entry, bucket) in self.buckets.finish()? {
            let parent = entry.parent as usize;
            let (Some(buckets), Some(state)) = (found.get_mut(parent), self.parents.get(parent)) else {
                continue;
            };
            let start = state.rounding.round_down((entry.key ^ SIGN) as i64);
            let own = buckets.entry(start).or_default();
            own.doc_count += bucket.doc_count;
            own.sub.merge(bucket.sub)?;
        }
        let rungs = self.parents.iter().map(|parent| parent.rung);
        let rungs = rungs.chain(std::iter::repeat(self.ladder.finest()));
        found
            .into_iter()
            .zip(rungs)
            .map(|(buckets, rung)| {
                let partial = AutoDateHistogramPartial::new(buckets, rung, self.format.clone(), &self.ladder)?;
                Ok(Partial::AutoDateHistogram(partial))
            })
            .collect()
    }
}
