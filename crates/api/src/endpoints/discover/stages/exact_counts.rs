//! Most frequent values of a field with exact counts.
//!
//! Each shard returns its most frequent values. If a shard has more values than it returns, its events with other
//! values are missing in their counts, and the answer has an error bound per value. Values for which the error matters
//! are counted again by a search over their events only; mostly there are none.

use std::collections::HashMap;

use firn_query::search::SearchRequest;
use serde_json::{Value, json};

use super::outcome::{aggregations, buckets, number};
use crate::endpoints::discover::stage_run::Step;
use crate::wire::error::ApiError;

/// Result of the counts.
#[derive(Debug, PartialEq)]
pub(super) struct Counted<'a> {
    /// Buckets of `terms`: most events first.
    pub(super) buckets: Vec<&'a Value>,
    /// Occurrences of all other values.
    pub(super) other: u64,
    /// Whether the counts are exact.
    pub(super) exact: bool,
    /// Whether certainly no other value has more events than the last of these.
    pub(super) exact_choice: bool,
}

/// Builds the `terms` aggregation for the first `size` values, with `shard_size` values per shard.
pub(super) fn terms(field: &str, size: u64, shard_size: u64) -> Value {
    json!({"field": field, "size": size, "shard_size": shard_size, "show_term_doc_count_error": true})
}

/// Returns the maximum error of a value that is not returned.
fn error_max(terms: &Value) -> u64 {
    number(&terms["doc_count_error_upper_bound"])
}

/// Returns the maximum error of a bucket.
fn error_of(bucket: &Value, terms: &Value) -> u64 {
    match bucket.get("doc_count_error_upper_bound") {
        Some(error) => number(error),
        None => error_max(terms),
    }
}

/// Builds a search that counts the inexact values of a `terms` aggregation again if they may be among the first `size`;
/// `None`: there are none. `below` is a sub-aggregation of each value.
pub(super) async fn again(
    step: &Step<'_>,
    field: &str,
    terms: &Value,
    size: u64,
    below: Option<Value>,
) -> Result<Option<SearchRequest>, ApiError> {
    let values: Vec<&Value> = uncertain(terms, size).into_iter().map(written).collect();
    if values.is_empty() {
        return Ok(None);
    }
    let question = &step.run.question;
    // A few values are found faster by an index of values than by a scan. For a repository that index would have to be
    // fetched, whereas the values of all events were fetched just now.
    let query = match step.run.finds_by_value(field).await? {
        true => question.narrowed(json!({"terms": {field: values}})),
        false => question.query_dsl.clone(),
    };
    // The size covers all values, so no shard omits one.
    let mut counts =
        json!({"terms": {"field": field, "include": values, "size": values.len(), "shard_size": values.len()}});
    if let Some(below) = below {
        counts["aggs"] = below;
    }
    Ok(Some(
        question.search_for(query, aggregations(json!({"values": counts})))?,
    ))
}

/// Returns the buckets with inexact counts that may be among the first `size`.
fn uncertain(terms: &Value, size: u64) -> Vec<&Value> {
    let found = buckets(terms);
    let last = found.iter().take(size as usize).next_back().map_or(0, count);
    let matters = |bucket: &&Value| {
        let error = error_of(bucket, terms);
        error > 0 && count(bucket).saturating_add(error) >= last
    };
    found.iter().filter(matters).collect()
}

/// Returns a value in the form that `include` accepts: dates in the format of their field.
fn written(bucket: &Value) -> &Value {
    bucket.get("key_as_string").unwrap_or(&bucket["key"])
}

fn count(bucket: &Value) -> u64 {
    number(&bucket["doc_count"])
}

impl<'a> Counted<'a> {
    /// Takes the first `size` values of `terms`, with the corrected counts of `again` if there are any. `requested`:
    /// size of the `terms` aggregation. `whole`: all shards answered completely.
    pub(super) fn new(terms: &'a Value, again: Option<&'a Value>, size: u64, requested: u64, whole: bool) -> Self {
        let found = buckets(terms);
        let occurrences = sum(found.iter()) + number(&terms["sum_other_doc_count"]);
        let error_max = error_max(terms);
        let uncertain = uncertain(terms, size);
        let recounted = again.and_then(|again| recounted(&uncertain, again));
        let is_certain = uncertain.is_empty() || recounted.is_some();
        let by_key = recounted.unwrap_or_default();
        let mut listed: Vec<&Value> = found
            .iter()
            .map(|bucket| by_key.get(&key(bucket)).copied().unwrap_or(bucket))
            .collect();
        // Without corrected counts they are already in this order.
        listed.sort_by_key(|bucket| std::cmp::Reverse(count(bucket)));
        listed.truncate(size as usize);
        let least = listed.last().map_or(0, |bucket| count(bucket));
        // A value that was not returned has at most the count of the last returned one plus the error of the shards.
        let unfound_max = match found.len() as u64 >= requested {
            true => found.last().map_or(0, count) + error_max,
            false => error_max,
        };
        Self {
            other: occurrences.saturating_sub(sum(listed.iter().copied())),
            exact: whole && is_certain,
            exact_choice: whole && is_certain && (error_max == 0 || least >= unfound_max),
            buckets: listed,
        }
    }
}

/// Returns the identity of a bucket.
fn key(bucket: &Value) -> String {
    bucket["key"].to_string()
}

/// Returns the recounted buckets by key; `None`: events were written or removed in between, so the two searches do not
/// fit together.
fn recounted<'a>(uncertain: &[&Value], again: &'a Value) -> Option<HashMap<String, &'a Value>> {
    let by_key: HashMap<String, &Value> = buckets(again).iter().map(|bucket| (key(bucket), bucket)).collect();
    let is_no_less = |before: &&Value| by_key.get(&key(before)).is_some_and(|now| count(now) >= count(before));
    uncertain.iter().all(is_no_less).then_some(by_key)
}

fn sum<'a>(buckets: impl Iterator<Item = &'a Value>) -> u64 {
    buckets.map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes for each value its key, its count and its maximum error.
    fn terms(error_max: u64, other: u64, counts: &[(&str, u64, u64)]) -> Value {
        let buckets: Vec<Value> = counts
            .iter()
            .map(|(key, count, error)| json!({"key": key, "doc_count": count, "doc_count_error_upper_bound": error}))
            .collect();
        json!({"doc_count_error_upper_bound": error_max, "sum_other_doc_count": other, "buckets": buckets})
    }

    fn keys<'a>(buckets: &[&'a Value]) -> Vec<(&'a str, u64)> {
        let pair = |bucket: &&'a Value| (bucket["key"].as_str().unwrap(), count(bucket));
        buckets.iter().map(pair).collect()
    }

    #[test]
    fn what_is_exact_is_not_counted_again() {
        let found = terms(0, 7, &[("a", 5, 0), ("b", 4, 0), ("c", 1, 0)]);
        assert!(uncertain(&found, 2).is_empty());
        let counted = Counted::new(&found, None, 2, 3, true);
        assert_eq!(keys(&counted.buckets), [("a", 5), ("b", 4)]);
        assert_eq!((counted.other, counted.exact, counted.exact_choice), (8, true, true));
        assert!(!Counted::new(&found, None, 2, 3, false).exact, "a shard is missing");
    }

    #[test]
    fn what_all_shards_have_named_is_not_counted_again() {
        // An inexact value cannot rank before the second.
        let found = terms(3, 10, &[("a", 9, 0), ("b", 8, 0), ("c", 4, 3), ("d", 1, 0)]);
        assert!(uncertain(&found, 2).is_empty());
        let counted = Counted::new(&found, None, 2, 4, true);
        assert_eq!(keys(&counted.buckets), [("a", 9), ("b", 8)]);
        assert_eq!((counted.other, counted.exact, counted.exact_choice), (15, true, true));
        // It may be among the first three, and a value that was not returned may rank before the last of four.
        assert_eq!(keys(&uncertain(&found, 3)), [("c", 4)]);
        assert!(!Counted::new(&found, None, 3, 4, true).exact);
        let second = terms(0, 0, &[("c", 6, 0)]);
        let four = Counted::new(&found, Some(&second), 4, 4, true);
        assert!(four.exact && !four.exact_choice);
    }

    #[test]
    fn the_second_count_is_used() {
        let found = terms(3, 10, &[("a", 9, 0), ("b", 8, 3), ("c", 4, 3)]);
        assert_eq!(keys(&uncertain(&found, 2)), [("b", 8)]);
        assert!(!Counted::new(&found, None, 2, 3, true).exact);
        let second = terms(0, 0, &[("b", 11, 0)]);
        let counted = Counted::new(&found, Some(&second), 2, 3, true);
        assert_eq!(keys(&counted.buckets), [("b", 11), ("a", 9)]);
        // All 31 occurrences minus 20; a value that was not returned has 4 + 3 at most.
        assert_eq!((counted.other, counted.exact, counted.exact_choice), (11, true, true));
        let second = terms(0, 0, &[("b", 11, 0), ("c", 4, 0)]);
        let third = Counted::new(&found, Some(&second), 3, 3, true);
        assert!(third.exact && !third.exact_choice, "another may have more than 4");
        // Fewer values than requested were found: only values that no shard returned are unknown.
        assert!(Counted::new(&found, Some(&second), 3, 9, true).exact_choice);
    }

    #[test]
    fn a_second_count_of_something_else_is_ignored() {
        let found = terms(3, 0, &[("a", 9, 3), ("b", 8, 3)]);
        for second in [
            terms(0, 0, &[("a", 9, 0)]),
            // More in total, but an event of one value is missing.
            terms(0, 0, &[("a", 12, 0), ("b", 7, 0)]),
        ] {
            let counted = Counted::new(&found, Some(&second), 2, 2, true);
            assert_eq!((keys(&counted.buckets)[0], counted.exact), (("a", 9), false));
        }
    }

    #[test]
    fn an_engine_that_says_nothing_of_values_is_not_believed() {
        let mut found = terms(3, 0, &[("a", 9, 0)]);
        found["buckets"][0]
            .as_object_mut()
            .unwrap()
            .remove("doc_count_error_upper_bound");
        assert_eq!(keys(&uncertain(&found, 1)), [("a", 9)]);
    }

    #[test]
    fn dates_have_the_format_of_their_field() {
        let bucket = json!({"key": 86_400_000, "key_as_string": "1970-01-02", "doc_count": 9});
        assert_eq!(written(&bucket), "1970-01-02");
    }
}
