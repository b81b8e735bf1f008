//! Partial result and answer of `significant_terms`: merges, scores and prints buckets.

use std::collections::HashMap;

use firn_model::Result;

use super::SignificantTerms;
use super::heuristic::Counts;
use crate::aggs::finish::Finisher;
use crate::aggs::finished::{Buckets, FinishedBucket, Keys};
use crate::aggs::key::float;
use crate::aggs::partial::{Room, fold_buckets};
use crate::aggs::{Aggregations, Bucket, Key, KeyBytes, ValueFormat};

/// Partial result of `significant_terms`. Segments collect the foreground; the background is counted per shard, once
/// its candidates are known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SignificantTermsPartial {
    /// Candidates, with their foreground documents.
    pub buckets: HashMap<KeyBytes, Bucket>,
    /// Background documents by candidate.
    pub background: HashMap<KeyBytes, u64>,
    /// Number of foreground documents.
    pub subset_size: u64,
    /// Number of background documents.
    pub superset_size: u64,
    /// Format of the keys.
    pub format: ValueFormat,
    /// Whether any index has the field.
    pub is_mapped: bool,
}

impl SignificantTermsPartial {
    pub(in crate::aggs) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.subset_size += other.subset_size;
        self.superset_size += other.superset_size;
        self.is_mapped |= other.is_mapped;
        self.format.merge(&other.format);
        for (key, count) in other.background {
            *self.background.entry(key).or_default() += count;
        }
        fold_buckets(&mut self.buckets, other.buckets, room)
    }

    fn background_of(&self, key: &KeyBytes) -> u64 {
        self.background.get(key).copied().unwrap_or(0)
    }

    fn score(&self, terms: &SignificantTerms, key: &KeyBytes, bucket: &Bucket) -> f64 {
        terms.heuristic.score(Counts {
            subset: bucket.doc_count as f64,
            subset_size: self.subset_size as f64,
            superset: self.background_of(key) as f64,
            superset_size: self.superset_size as f64,
        })
    }

    /// Retains the candidates with the highest scores, for the merged result of one whole shard.
    pub(in crate::aggs) fn cut(&mut self, terms: &SignificantTerms) {
        let ranked = self.ranked(terms, terms.shard_min_doc_count, terms.shard_size());
        self.buckets = ranked.into_iter().map(|(key, bucket, _)| (key, bucket)).collect();
        let buckets = &self.buckets;
        self.background.retain(|key, _| buckets.contains_key(key));
    }

    /// Returns the candidates with the highest scores; ties sort by key.
    fn ranked(&mut self, terms: &SignificantTerms, least: u64, size: usize) -> Vec<(KeyBytes, Bucket, f64)> {
        let all = std::mem::take(&mut self.buckets).into_iter();
        let mut ranked: Vec<(KeyBytes, Bucket, f64)> = all
            .filter(|(_, bucket)| bucket.doc_count >= least.max(1))
            .map(|(key, bucket)| {
                let score = self.score(terms, &key, &bucket);
                (key, bucket, score)
            })
            .collect();
        ranked.sort_unstable_by(|(left_key, _, left), (right_key, _, right)| {
            right.total_cmp(left).then_with(|| left_key.cmp(right_key))
        });
        ranked.truncate(size);
        ranked
    }
}

pub(in crate::aggs) fn answer(
    finisher: &mut Finisher<'_>,
    terms: &SignificantTerms,
    sub: &Aggregations,
    mut partial: SignificantTermsPartial,
) -> Result<Buckets> {
    let mut ranked = partial.ranked(terms, terms.min_doc_count, usize::MAX);
    ranked.retain(|(_, _, score)| *score > 0.0);
    ranked.truncate(terms.size);
    finisher.count(ranked.len())?;
    let is_number = |key: &KeyBytes| !matches!(key, KeyBytes::Str(_) | KeyBytes::Ip(_));
    let numbers = partial.format != ValueFormat::Raw || ranked.iter().any(|(key, _, _)| is_number(key));
    let mut buckets = Vec::with_capacity(ranked.len());
    for (key, bucket, score) in ranked {
        let background = partial.background_of(&key);
        let below = finisher.level(sub, bucket.sub)?;
        buckets.push(FinishedBucket {
            after: vec![("score", float(score)), ("bg_count", background.into())],
            ..FinishedBucket::new(Key::from(key), &partial.format, bucket.doc_count, below)
        });
    }
    let head = match partial.is_mapped {
        true => vec![
            ("doc_count", partial.subset_size.into()),
            ("bg_count", partial.superset_size.into()),
        ],
        false => Vec::new(),
    };
    Ok(Buckets {
        type_name: match (partial.is_mapped, numbers) {
            (false, _) => "umsigterms",
            (true, true) => "siglterms",
            (true, false) => "sigsterms",
        },
        head,
        tail: Vec::new(),
        keyed: false,
        keys: Keys::KeyFirst,
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::aggs::test_support::parsed;
    use crate::aggs::{Partial, Partials};

    fn partial(counts: &[(&str, u64, u64)], sizes: (u64, u64)) -> SignificantTermsPartial {
        let key = |name: &str| KeyBytes::Str(name.into());
        let bucket = |doc_count| Bucket {
            doc_count,
            ..Bucket::default()
        };
        SignificantTermsPartial {
            buckets: counts
                .iter()
                .map(|(name, count, _)| (key(name), bucket(*count)))
                .collect(),
            background: counts
                .iter()
                .map(|(name, _, background)| (key(name), *background))
                .collect(),
            subset_size: sizes.0,
            superset_size: sizes.1,
            is_mapped: true,
            ..SignificantTermsPartial::default()
        }
    }

    fn finish(body: &Value, parts: Vec<SignificantTermsPartial>) -> Value {
        let aggregations = parsed(json!({"x": {"significant_terms": body}}));
        let mut all = aggregations.empty();
        for part in parts {
            let mut partials = Partials(
                [("x".to_owned(), Partial::SignificantTerms(part))]
                    .into_iter()
                    .collect(),
            );
            aggregations
                .cut_shard(&mut partials, &crate::cancel::Cancel::default())
                .unwrap();
            all.merge(partials).unwrap();
        }
        aggregations.finish(all, 100).unwrap()["x"].clone()
    }

    #[test]
    fn answers_by_score() {
        let counts = [
            ("usual", 4, 50),
            ("rare", 3, 3),
            ("few", 2, 2),
            ("often", 5, 10),
            ("less", 3, 60),
        ];
        assert_eq!(
            finish(&json!({"field": "a"}), vec![partial(&counts, (5, 100))]),
            json!({"doc_count": 5, "bg_count": 100, "buckets": [
                {"key": "rare", "doc_count": 3, "score": 11.399999999999999, "bg_count": 3},
                {"key": "often", "doc_count": 5, "score": 9.0, "bg_count": 10},
                {"key": "usual", "doc_count": 4, "score": 0.4800000000000001, "bg_count": 50}
            ]})
        );
        let answer = finish(
            &json!({"field": "a", "size": 1, "min_doc_count": 2, "percentage": {}}),
            vec![partial(&counts, (5, 100))],
        );
        assert_eq!(
            answer["buckets"],
            json!([{"key": "few", "doc_count": 2, "score": 1.0, "bg_count": 2}])
        );
        assert_eq!(finish(&json!({"field": "a"}), Vec::new()), json!({"buckets": []}));
    }

    #[test]
    fn shards_add_up() {
        let left = partial(&[("a", 3, 4), ("b", 1, 9)], (4, 50));
        let right = partial(&[("a", 2, 3)], (2, 50));
        let body = json!({"field": "a", "min_doc_count": 1, "shard_size": 1, "size": 1});
        for parts in [vec![left.clone(), right.clone()], vec![right, left]] {
            let answer = finish(&body, parts);
            assert_eq!((&answer["doc_count"], &answer["bg_count"]), (&json!(6), &json!(100)));
            assert_eq!(answer["buckets"][0]["key"], "a");
            assert_eq!(answer["buckets"][0]["bg_count"], 7);
        }
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(counts in prop::collection::vec((0_u8..5, 1_u64..4), 0..20), cut in 0_usize..20) {
            let of = |counts: &[(u8, u64)]| {
                let mut all = SignificantTermsPartial::default();
                for (name, count) in counts {
                    let one = partial(&[(&name.to_string(), *count, 2 * count)], (*count, 10));
                    all.fold(one, &mut Room::new(usize::MAX)).unwrap();
                }
                all
            };
            let cut = cut.min(counts.len());
            let mut forward = of(&counts[..cut]);
            forward.fold(of(&counts[cut..]), &mut Room::new(usize::MAX)).unwrap();
            let mut backward = of(&counts[cut..]);
            backward.fold(of(&counts[..cut]), &mut Room::new(usize::MAX)).unwrap();
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward, of(&counts));
        }
    }
}
