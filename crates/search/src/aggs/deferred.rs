//! The second phase of aggregations, after all segments of a shard were searched.
//!
//! Samplers pass on their documents: only now the best documents of the shard are known. `significant_terms` counts
//! the background of its candidates, which are also known only now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{Bucket, KeyBytes, Partial, Partials, Sampled};
use firn_segment::segment::Segment;
use tantivy::{DocId, Score};

use super::collector::{DocumentOrder, Scope};
use super::plan::{Kind, Node, Plan};
use super::score_table::ScoreBoard;
use super::significant_terms::{Background, BackgroundCount, Counted};
use crate::run::memory::Memory;

/// Documents passed on together.
const BLOCK: usize = 1024;

impl Plan {
    /// Returns whether the tree has a sampler.
    pub(crate) fn has_samples(&self) -> bool {
        self.any(&|kind| matches!(kind, Kind::Sampler(_)))
    }

    /// Returns whether the tree has a `significant_terms`.
    pub(crate) fn has_backgrounds(&self) -> bool {
        self.any(&|kind| matches!(kind, Kind::SignificantTerms(_)))
    }

    fn any(&self, test: &dyn Fn(&Kind) -> bool) -> bool {
        self.0.iter().any(|node| test(&node.kind) || node.sub.any(test))
    }

    /// Passes the documents of samples to their sub-aggregations; `segments` are the shard's, by their numbers in
    /// the search.
    pub(crate) fn resolve_samples(
        &self,
        levels: Vec<&mut Partials>,
        segments: &BTreeMap<u32, Arc<Segment>>,
        memory: &Memory,
    ) -> Result<()> {
        if !self.has_samples() {
            return Ok(());
        }
        let mut levels = levels;
        for node in &self.0 {
            let mut found: Vec<&mut Partial> = levels
                .iter_mut()
                .filter_map(|level| level.0.get_mut(&node.name))
                .collect();
            if matches!(node.kind, Kind::Sampler(_)) {
                node.resolve(&mut found, segments, memory)?;
            }
            let below = found
                .into_iter()
                .flat_map(Partial::buckets_mut)
                .map(|bucket| &mut bucket.sub);
            node.sub.resolve_samples(below.collect(), segments, memory)?;
        }
        Ok(())
    }

    /// Collects the backgrounds that `levels` need, in the order of the tree.
    pub(crate) fn wanted(&self, levels: Vec<&mut Partials>, wanted: &mut Vec<BackgroundCount>) {
        let mut levels = levels;
        for node in &self.0 {
            let found: Vec<&mut Partial> = levels
                .iter_mut()
                .filter_map(|level| level.0.get_mut(&node.name))
                .collect();
            if matches!(node.kind, Kind::SignificantTerms(_)) {
                let mut candidates: HashSet<&KeyBytes> = HashSet::new();
                for partial in &found {
                    if let Partial::SignificantTerms(terms) = &**partial {
                        candidates.extend(terms.buckets.keys());
                    }
                }
                let mut candidates: Vec<KeyBytes> = candidates.into_iter().cloned().collect();
                candidates.sort_unstable();
                wanted.push(BackgroundCount { candidates });
            }
            let below = found
                .into_iter()
                .flat_map(Partial::buckets_mut)
                .map(|bucket| &mut bucket.sub);
            node.sub.wanted(below.collect(), wanted);
        }
    }

    /// Opens the backgrounds on a segment, in the order of the tree.
    pub(crate) fn open_backgrounds(&self, segment: &Segment, wanted: &[BackgroundCount]) -> Result<Vec<Background>> {
        let mut open = Vec::with_capacity(wanted.len());
        self.open_each(segment, wanted, &mut open)?;
        Ok(open)
    }

    fn open_each(&self, segment: &Segment, wanted: &[BackgroundCount], open: &mut Vec<Background>) -> Result<()> {
        for node in &self.0 {
            if let (Kind::SignificantTerms(plan), Some(wanted)) = (&node.kind, wanted.get(open.len())) {
                open.push(plan.open_background(segment, &wanted.candidates)?);
            }
            node.sub.open_each(segment, wanted, open)?;
        }
        Ok(())
    }

    /// Stores the counts in the partial results, in the order of the tree.
    pub(crate) fn fill(
        &self,
        levels: Vec<&mut Partials>,
        results: &mut dyn Iterator<Item = (BackgroundCount, Counted)>,
    ) {
        let mut levels = levels;
        for node in &self.0 {
            let mut found: Vec<&mut Partial> = levels
                .iter_mut()
                .filter_map(|level| level.0.get_mut(&node.name))
                .collect();
            if matches!(node.kind, Kind::SignificantTerms(_))
                && let Some((wanted, counted)) = results.next()
            {
                let counts: HashMap<KeyBytes, u64> = wanted.candidates.into_iter().zip(counted.counts).collect();
                for partial in &mut found {
                    if let Partial::SignificantTerms(terms) = &mut **partial {
                        let keys = terms.buckets.keys();
                        terms.background = keys.filter_map(|key| Some((key.clone(), *counts.get(key)?))).collect();
                        terms.superset_size = counted.size;
                    }
                }
            }
            let below = found
                .into_iter()
                .flat_map(Partial::buckets_mut)
                .map(|bucket| &mut bucket.sub);
            node.sub.fill(below.collect(), results);
        }
    }
}

impl Node {
    /// Converts samples into buckets.
    fn resolve(
        &self,
        found: &mut [&mut Partial],
        segments: &BTreeMap<u32, Arc<Segment>>,
        memory: &Memory,
    ) -> Result<()> {
        let mut by_segment: BTreeMap<u32, Vec<(DocId, u32, Score)>> = BTreeMap::new();
        let mut buckets: Vec<Bucket> = Vec::with_capacity(found.len());
        for (number, partial) in (0u32..).zip(found.iter()) {
            let docs: &[Sampled] = match &**partial {
                Partial::Sample(sample) => &sample.docs,
                _ => &[],
            };
            for sampled in docs {
                let list = by_segment.entry(sampled.segment).or_default();
                list.push((sampled.doc, number, sampled.score));
            }
            buckets.push(Bucket {
                doc_count: docs.len() as u64,
                ..Bucket::default()
            });
        }
        for (order, mut docs) in by_segment {
            let Some(segment) = segments.get(&order) else {
                continue;
            };
            docs.sort_unstable_by_key(|(doc, bucket, _)| (*doc, *bucket));
            let below = self.collect_below(segment, order, &docs, buckets.len(), memory)?;
            for (bucket, below) in buckets.iter_mut().zip(below) {
                bucket.sub.merge(below)?;
            }
        }
        for (partial, bucket) in found.iter_mut().zip(buckets) {
            if matches!(&**partial, Partial::Sample(_)) {
                **partial = Partial::Single(bucket);
            }
        }
        Ok(())
    }

    fn collect_below(
        &self,
        segment: &Segment,
        order: u32,
        docs: &[(DocId, u32, Score)],
        bucket_count: usize,
        memory: &Memory,
    ) -> Result<Vec<Partials>> {
        let scores = Arc::new(ScoreBoard::default());
        let scope = Scope {
            segment,
            memory,
            manner: DocumentOrder::default(),
            order,
            scores: &scores,
        };
        let mut level = self.sub.level(scope)?;
        for block in docs.chunks(BLOCK) {
            let ids: Vec<DocId> = block.iter().map(|(doc, _, _)| *doc).collect();
            let buckets: Vec<u32> = block.iter().map(|(_, bucket, _)| *bucket).collect();
            let block_scores: Vec<Score> = block.iter().map(|(_, _, score)| *score).collect();
            scores.put(&ids, &block_scores, 0.0);
            if !level.collect_in_time(&ids, &buckets)? {
                break;
            }
        }
        level.finish(bucket_count)
    }
}
