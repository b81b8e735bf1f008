//! `top_hits` aggregation on one segment: the first documents of each bucket.

use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{Partial, TopHits, TopHitsPartial, TopRow};
use tantivy::DocId;

use super::super::compile::Compiler;
use super::super::sort::{SegmentKey, ShardKey};
use super::collector::{Collector, Scope};
use super::score_table::ScoreBoard;
use crate::run::memory::Memory;
use crate::run::top_k::{Entry, TopK};

/// Approximate bytes of a retained row.
const ROW_BYTES: usize = 160;

/// `top_hits`, compiled.
pub(super) struct TopHitsPlan {
    keys: Vec<ShardKey>,
    keep: usize,
    /// Sort values are part of the answer.
    sorted: bool,
    shows_scores: bool,
    pub(super) needs_scores: bool,
}

impl TopHitsPlan {
    pub(super) fn compile(compiler: &Compiler, top: &TopHits) -> Result<Self> {
        let mut keys = top
            .sort
            .iter()
            .map(|key| ShardKey::compile(compiler, key))
            .collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            keys.push(ShardKey::score());
        }
        Ok(Self {
            keys,
            keep: top.from.saturating_add(top.size),
            sorted: !top.sort.is_empty(),
            shows_scores: top.shows_scores(),
            needs_scores: top.needs_scores(),
        })
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        let open = |key: &ShardKey| key.open(scope.segment, scope.order);
        Ok(Box::new(TopHitsCollector {
            keys: self.keys.iter().map(open).collect::<Result<_>>()?,
            shard_keys: self.keys.clone(),
            keep: self.keep,
            sorted: self.sorted,
            shows_scores: self.shows_scores,
            order: scope.order,
            scores: Arc::clone(scope.scores),
            memory: scope.memory.clone(),
            buckets: Vec::new(),
        }))
    }
}

struct TopHitsCollector {
    keys: Vec<SegmentKey>,
    shard_keys: Vec<ShardKey>,
    keep: usize,
    sorted: bool,
    shows_scores: bool,
    order: u32,
    scores: Arc<ScoreBoard>,
    memory: Memory,
    buckets: Vec<Bucket>,
}

struct Bucket {
    total: u64,
    max_score: f32,
    top_k: TopK,
}

impl Collector for TopHitsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().max().map_or(0, |&bucket| bucket as usize + 1);
        if needed > self.buckets.len() {
            self.memory.take((needed - self.buckets.len()) * size_of::<Bucket>())?;
            let keep = self.keep;
            self.buckets.resize_with(needed, || Bucket {
                total: 0,
                max_score: f32::NEG_INFINITY,
                top_k: TopK::new(false, keep, 0),
            });
        }
        let Some((first_key, rest_keys)) = self.keys.split_first() else {
            return Ok(());
        };
        let mut scores = self.scores.read();
        for (&doc, &number) in docs.iter().zip(buckets) {
            let bucket = &mut self.buckets[number as usize];
            let score = scores.of(doc);
            bucket.total += 1;
            bucket.max_score = bucket.max_score.max(score);
            let first = first_key.read(doc, score);
            if first > bucket.top_k.bound() {
                continue;
            }
            if !bucket.top_k.is_full() {
                self.memory.take(ROW_BYTES)?;
            }
            bucket.top_k.push(Entry {
                first,
                rest: rest_keys.iter().map(|key| key.read(doc, score)).collect(),
                doc,
                score_bits: score.to_bits(),
                group: None,
            });
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let mut found = std::mem::take(&mut self.buckets).into_iter();
        (0..bucket_count)
            .map(|_| {
                Ok(Partial::TopHits(match found.next() {
                    Some(bucket) => self.partial(bucket)?,
                    None => TopHitsPartial {
                        keep: self.keep,
                        ..TopHitsPartial::default()
                    },
                }))
            })
            .collect()
    }
}

impl TopHitsCollector {
    fn partial(&self, bucket: Bucket) -> Result<TopHitsPartial> {
        let rows = bucket.top_k.into_sorted().into_iter().map(|entry| self.row(&entry));
        Ok(TopHitsPartial {
            total: bucket.total,
            max_score: (self.shows_scores && bucket.total > 0).then_some(bucket.max_score),
            rows: rows.collect::<Result<_>>()?,
            keep: self.keep,
        })
    }

    fn row(&self, entry: &Entry) -> Result<TopRow> {
        let score = f32::from_bits(entry.score_bits);
        let mut key = Vec::new();
        let mut sort = Vec::new();
        for (own, shard_key) in self.keys.iter().zip(&self.shard_keys) {
            let value = own.value(entry.doc, score)?;
            shard_key.write_comparable(&value, &mut key);
            if self.sorted {
                sort.push(shard_key.print(&value));
            }
        }
        Ok(TopRow {
            key: key.into(),
            segment: self.order,
            doc: entry.doc,
            score: self.shows_scores.then_some(score),
            sort,
        })
    }
}
