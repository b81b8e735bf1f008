//! First hits of a segment, by sort key.

use std::cmp::Ordering as Order;

use firn_model::Result;
use firn_segment::segment::Segment;
use tantivy::{DocId, Score};

use super::collapse::SegmentGroups;
use super::matching_docs::BLOCK;
use super::shard_plan::ShardPlan;
use super::shared_state::{Row, Shared};
use super::top_k::{Entry, TopK};
use crate::sort::SegmentKey;

/// Approximate bytes of a hit that is retained until the end.
const ROW_BYTES: usize = 96;

/// See the module.
pub(crate) struct Hits {
    keys: Vec<SegmentKey>,
    /// The position after which hits start.
    after: Option<EncodedAfter>,
    /// All documents before this one sort before `after`.
    pub(crate) first_doc: DocId,
    /// Hits whose first key is larger are not among the first hits of the search.
    bound: u128,
    top_k: TopK,
    groups: Option<SegmentGroups>,
    keep: usize,
    order: u32,
    constant_score: Option<Score>,
    max_score: Option<Score>,
    firsts: Vec<u128>,
    scratch: Vec<u64>,
}

/// An [`After`](crate::After) encoded for a segment.
struct EncodedAfter {
    keys: Vec<u128>,
    tie: Option<(u32, DocId)>,
}

impl Hits {
    /// Opens the keys on a segment; `None`: no document of the segment can be among the first hits of the search.
    pub(crate) fn open(
        shared: &Shared,
        plan: &ShardPlan,
        segment: &Segment,
        order: u32,
        keep: usize,
    ) -> Result<Option<Self>> {
        let keys = plan
            .keys
            .iter()
            .map(|key| key.open(segment, order))
            .collect::<Result<Vec<_>>>()?;
        let Some(first) = keys.first() else {
            return Ok(None);
        };
        let bound = match shared.threshold() {
            Some(value) => first.encode(&value)?,
            None => u128::MAX,
        };
        if first.best(segment).is_some_and(|best| best > bound) {
            return Ok(None);
        }
        let mut first_doc = 0;
        let after = match &plan.after {
            Some(after) => {
                let encoded: Result<Vec<_>> = keys
                    .iter()
                    .zip(&after.values)
                    .map(|(key, value)| key.encode(value))
                    .collect();
                let encoded = encoded?;
                if first.worst(segment).is_some_and(|worst| worst < encoded[0]) {
                    return Ok(None);
                }
                first_doc = first.first_doc_after(&after.values[0]).min(segment.max_doc);
                Some(EncodedAfter {
                    keys: encoded,
                    tie: after.tie,
                })
            }
            None => None,
        };
        shared.memory.take(keep.min(segment.max_doc as usize) * ROW_BYTES)?;
        Ok(Some(Self {
            keys,
            after,
            first_doc,
            bound,
            top_k: TopK::new(plan.collapse.is_some(), keep, keep.min(BLOCK)),
            groups: plan
                .collapse
                .as_ref()
                .map(|field| field.open(segment, order))
                .transpose()?,
            keep,
            order,
            constant_score: plan.constant_score,
            max_score: None,
            firsts: Vec::with_capacity(BLOCK),
            scratch: Vec::with_capacity(BLOCK),
        }))
    }

    /// Returns the most significant sort key.
    pub(crate) fn first_key(&self) -> &SegmentKey {
        &self.keys[0]
    }

    /// Returns the largest first key that may still be among the first hits.
    pub(crate) fn bound(&self) -> u128 {
        self.bound.min(self.top_k.bound())
    }

    /// Returns the smallest first key that a hit may have, because of `after`.
    pub(crate) fn first_wanted(&self) -> u128 {
        self.after.as_ref().map_or(0, |after| after.keys[0])
    }

    /// Returns whether there are enough hits.
    pub(crate) fn is_full(&self) -> bool {
        self.top_k.is_full()
    }

    /// Adds a block of matching documents.
    pub(crate) fn collect(&mut self, docs: &[DocId], scores: &[Score]) -> Result<()> {
        if docs.is_empty() {
            return Ok(());
        }
        for &score in scores {
            if self.max_score.is_none_or(|max| score > max) {
                self.max_score = Some(score);
            }
        }
        // A score that all hits share is not read with them.
        if scores.is_empty() && self.constant_score.is_some() && self.keys.iter().any(SegmentKey::is_score) {
            let same = vec![self.constant_score.unwrap_or_default(); docs.len()];
            return self.collect(docs, &same);
        }
        let Some((first_key, rest_keys)) = self.keys.split_first() else {
            return Ok(());
        };
        let mut firsts = std::mem::take(&mut self.firsts);
        first_key.read_block(docs, scores, &mut self.scratch, &mut firsts);
        let mut bound = self.bound();
        for (position, &first) in firsts.iter().enumerate() {
            if first > bound {
                continue;
            }
            let doc = docs[position];
            let score = scores
                .get(position)
                .copied()
                .unwrap_or(self.constant_score.unwrap_or_default());
            let rest: Vec<u128> = rest_keys.iter().map(|key| key.read(doc, score)).collect();
            if let Some(EncodedAfter { keys: after, tie }) = &self.after {
                let behind = first.cmp(&after[0]).then_with(|| rest.as_slice().cmp(&after[1..]));
                let behind = behind.then(tie.map_or(Order::Equal, |tie| (self.order, doc).cmp(&tie)));
                if behind.is_le() {
                    continue;
                }
            }
            let group = match &self.groups {
                Some(groups) => groups.read(doc)?,
                None => None,
            };
            self.top_k.push(Entry {
                first,
                rest,
                doc,
                score_bits: score.to_bits(),
                group,
            });
            bound = self.bound.min(self.top_k.bound());
        }
        self.firsts = firsts;
        Ok(())
    }

    /// Returns whether no later document of the segment can be among the first hits.
    pub(crate) fn is_complete(&self) -> bool {
        self.top_k.is_full() && self.keys.first().is_some_and(SegmentKey::is_ascending_doc)
    }

    /// Adds the hits to those of the search.
    pub(crate) fn finish(self, shared: &Shared, plan: &ShardPlan, segment: &Segment) -> Result<()> {
        let entries = self.top_k.into_sorted();
        let mut rows = Vec::with_capacity(entries.len());
        for entry in entries {
            let score = f32::from_bits(entry.score_bits);
            let values = self
                .keys
                .iter()
                .map(|key| key.value(entry.doc, score))
                .collect::<Result<Vec<_>>>()?;
            rows.push(Row {
                values,
                score,
                group: match &self.groups {
                    Some(groups) => Some(groups.group(entry.doc)?),
                    None => None,
                },
                order: self.order,
                doc: entry.doc,
            });
        }
        let mut top = shared.top.lock();
        if let Some(score) = self.max_score {
            top.max_score = Some(top.max_score.map_or(score, |max: f32| max.max(score)));
        }
        top.merge(rows, &plan.keys, shared.keep);
        shared.memory.give(self.keep.min(segment.max_doc as usize) * ROW_BYTES);
        Ok(())
    }
}
