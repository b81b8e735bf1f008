//! `sampler` aggregation, and its common part with `diversified_sampler`: one bucket of the best documents.

use std::cmp::Ordering;
use std::collections::HashMap;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};

pub(super) const NAME: &str = "sampler";

/// Default `shard_size`.
pub(super) const SHARD_SIZE: usize = 100;

/// `sampler`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampler {
    /// Number of best documents that each shard takes (default 100).
    pub shard_size: usize,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut sampler = Sampler { shard_size: SHARD_SIZE };
    for (key, value) in request.body {
        match key.as_str() {
            "shard_size" => sampler.shard_size = parse::number(request, NAME, key, value, 0)? as usize,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    check_below(request)?;
    Ok(AggregationKind::Sampler(sampler))
}

/// Refuses a sampler without sub-aggregations: only they use the sample.
pub(super) fn check_below(request: &Request<'_>) -> Result<()> {
    if request.sub.0.is_empty() {
        return Err(Error::illegal_argument(
            "Sampler aggregation must be used with child aggregations.",
        ));
    }
    Ok(())
}

impl Sampler {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("shard_size".into(), json!(self.shard_size));
        Value::Object(body)
    }
}

/// A candidate of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// Score.
    pub score: f32,
    /// Segment number in the search.
    pub segment: u32,
    /// Document number in the segment.
    pub doc: u32,
    /// Hash of the value that the sample limits; the same for all documents if there is no limit.
    pub value: u64,
}

/// Documents of a sample, before the sub-aggregations collect them. A sample belongs to a shard, so collection starts
/// after all its segments were searched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SamplePartial {
    /// Best first.
    pub docs: Vec<Sampled>,
    /// Maximum documents; 0 until a segment was collected.
    pub shard_size: usize,
    /// Maximum documents per value.
    pub per_value: usize,
}

impl SamplePartial {
    pub(super) fn fold(&mut self, other: Self) {
        self.shard_size = self.shard_size.max(other.shard_size);
        self.per_value = self.per_value.max(other.per_value);
        self.docs.extend(other.docs);
        self.select();
    }

    /// Retains the best documents of each value, and of those the best. A document that a part drops would be dropped
    /// in the whole too, so parts may call this at any time.
    pub fn select(&mut self) {
        self.docs.sort_unstable_by(compare);
        if self.per_value < self.shard_size {
            let mut taken: HashMap<u64, usize> = HashMap::new();
            let per_value = self.per_value;
            self.docs.retain(|sampled| {
                let count = taken.entry(sampled.value).or_default();
                *count += 1;
                *count <= per_value
            });
        }
        self.docs.truncate(self.shard_size);
    }
}

/// Higher scores first; equal scores in index order.
fn compare(left: &Sampled, right: &Sampled) -> Ordering {
    let by_score = right.score.total_cmp(&left.score);
    by_score.then_with(|| (left.segment, left.doc).cmp(&(right.segment, right.doc)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"sampler": {"shard_size": 7}, "aggs": {"y": {"max": {"field": "b"}}}}}));
        check_round_trip(json!({"x": {"sampler": {}, "aggs": {"y": {"max": {"field": "b"}}}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"sampler": {}}}),
            "Sampler aggregation must be used with child aggregations.",
        );
        check_refused(json!({"x": {"sampler": {"size": 1}}}), "[sampler] unknown field [size]");
        check_refused(
            json!({"x": {"sampler": {"shard_size": -1}}}),
            "[shardSize] must be greater than or equal to 0. Found [-1] in [x]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"sampler": {}, "aggs": {"y": {"max": {"field": "b"}}}}}),
            &["b"],
        );
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            docs in prop::collection::vec((0_u8..4, 0_u64..4), 0..40), cut in 0_usize..40, shard_size in 1_usize..8,
            per_value in 1_usize..4,
        ) {
            let of = |range: std::ops::Range<usize>| {
                let sampled = |doc: usize| Sampled {
                    score: f32::from(docs[doc].0), segment: (doc % 3) as u32, doc: doc as u32, value: docs[doc].1,
                };
                let mut partial = SamplePartial { docs: range.map(sampled).collect(), shard_size, per_value };
                partial.select();
                partial
            };
            let cut = cut.min(docs.len());
            let mut forward = SamplePartial::default();
            forward.fold(of(0..cut));
            forward.fold(of(cut..docs.len()));
            let mut backward = of(cut..docs.len());
            backward.fold(of(0..cut));
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward, of(0..docs.len()));
        }
    }
}
