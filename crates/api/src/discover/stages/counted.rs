//! The most frequent values of a field, with exact counts.
//!
//! Each shard names the values that are most frequent on it. Where shards have more values than they name, the events of a
//! value on a shard that did not name it are missing in its count. Then the values that were found are counted once more, by
//! a search in which every shard counts each of them.

use serde_json::{Value, json};

use super::{buckets, number};

/// What is known of the most frequent values.
#[derive(Debug, PartialEq)]
pub(super) struct Counted<'a> {
    /// As `terms` tells them: most events first.
    pub(super) buckets: Vec<&'a Value>,
    /// Occurrences of all other values.
    pub(super) other: u64,
    /// The counts are.
    pub(super) exact: bool,
    /// Certainly no other value has more events than the last of these.
    pub(super) exact_choice: bool,
}

/// By how much a count may be too low.
fn error_max(terms: &Value) -> u64 {
    number(&terms["doc_count_error_upper_bound"])
}

/// What counts the found values of a `terms` aggregation again; `None`: their counts are exact.
pub(super) fn again(field: &str, terms: &Value) -> Option<Value> {
    let found = buckets(terms);
    if error_max(terms) == 0 || found.is_empty() {
        return None;
    }
    let values: Vec<&Value> = found.iter().map(written).collect();
    // As many as there are: no shard has to choose.
    Some(json!({"field": field, "include": values, "size": values.len(), "shard_size": values.len()}))
}

/// A value as `include` reads it: dates in the format of their field.
fn written(bucket: &Value) -> &Value {
    bucket.get("key_as_string").unwrap_or(&bucket["key"])
}

impl<'a> Counted<'a> {
    /// The first `size` of the values that `terms` found, of which it was asked for `asked`, counted again by `again` if
    /// there was need; `whole`: all shards have answered to the end.
    pub(super) fn new(terms: &'a Value, again: Option<&'a Value>, size: u64, asked: u64, whole: bool) -> Self {
        let found = buckets(terms);
        let occurrences = sum(found.iter()) + number(&terms["sum_other_doc_count"]);
        let error_max = error_max(terms);
        // Written meanwhile, or not there any more: the two searches are not of one moment.
        let fits = |again: &Value| {
            let counted = buckets(again);
            counted.len() == found.len() && sum(counted.iter()) >= sum(found.iter())
        };
        let again = again.filter(|again| fits(again));
        let mut told: Vec<&Value> = again.map_or(found, buckets).iter().collect();
        told.truncate(size as usize);
        let least = told.last().map_or(0, |bucket| number(&bucket["doc_count"]));
        // What was not found has no more than the last that was, and what shards did not name.
        let unfound_max = match found.len() as u64 >= asked {
            true => found.last().map_or(0, |bucket| number(&bucket["doc_count"])) + error_max,
            false => error_max,
        };
        Self {
            other: occurrences.saturating_sub(sum(told.iter().copied())),
            exact: whole && (error_max == 0 || again.is_some()),
            exact_choice: whole && (error_max == 0 || again.is_some() && least >= unfound_max),
            buckets: told,
        }
    }
}

fn sum<'a>(buckets: impl Iterator<Item = &'a Value>) -> u64 {
    buckets.map(|bucket| number(&bucket["doc_count"])).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(error_max: u64, other: u64, counts: &[(&str, u64)]) -> Value {
        let buckets: Vec<Value> = counts
            .iter()
            .map(|(key, count)| json!({"key": key, "doc_count": count}))
            .collect();
        json!({"doc_count_error_upper_bound": error_max, "sum_other_doc_count": other, "buckets": buckets})
    }

    fn keys(counted: &Counted<'_>) -> Vec<(String, u64)> {
        let pair = |bucket: &&Value| (bucket["key"].to_string(), number(&bucket["doc_count"]));
        counted.buckets.iter().map(pair).collect()
    }

    #[test]
    fn what_is_exact_is_not_counted_again() {
        let found = terms(0, 7, &[("a", 5), ("b", 4), ("c", 1)]);
        assert_eq!(again("f", &found), None);
        let counted = Counted::new(&found, None, 2, 3, true);
        assert_eq!(keys(&counted), [("\"a\"".to_owned(), 5), ("\"b\"".to_owned(), 4)]);
        assert_eq!((counted.other, counted.exact, counted.exact_choice), (8, true, true));
        assert!(!Counted::new(&found, None, 2, 3, false).exact, "a shard is missing");
    }

    #[test]
    fn the_second_count_is_told() {
        let found = terms(3, 10, &[("a", 9), ("b", 8), ("c", 4)]);
        let expect = json!({"field": "f", "include": ["a", "b", "c"], "size": 3, "shard_size": 3});
        assert_eq!(again("f", &found), Some(expect));
        assert!(!Counted::new(&found, None, 2, 3, true).exact);
        let second = terms(0, 0, &[("b", 11), ("a", 9), ("c", 4)]);
        let counted = Counted::new(&found, Some(&second), 2, 3, true);
        assert_eq!(keys(&counted), [("\"b\"".to_owned(), 11), ("\"a\"".to_owned(), 9)]);
        // All 31 occurrences without 20; what was not found has 4 + 3 at most.
        assert_eq!((counted.other, counted.exact, counted.exact_choice), (11, true, true));
        let third = Counted::new(&found, Some(&second), 3, 3, true);
        assert!(third.exact && !third.exact_choice, "another may have more than 4");
        // Fewer were found than asked for: only what no shard named is unknown.
        assert!(Counted::new(&found, Some(&second), 3, 9, true).exact_choice);
    }

    #[test]
    fn a_second_count_of_something_else_is_not_told() {
        let found = terms(3, 0, &[("a", 9), ("b", 8)]);
        for second in [terms(0, 0, &[("a", 9)]), terms(0, 0, &[("a", 2), ("b", 1)])] {
            let counted = Counted::new(&found, Some(&second), 2, 2, true);
            assert_eq!((keys(&counted)[0].1, counted.exact), (9, false));
        }
    }

    #[test]
    fn dates_are_asked_for_in_their_format() {
        let mut found = terms(1, 0, &[("a", 9)]);
        found["buckets"][0] = json!({"key": 86_400_000, "key_as_string": "1970-01-02", "doc_count": 9});
        assert_eq!(again("f", &found).unwrap()["include"], json!(["1970-01-02"]));
    }
}
