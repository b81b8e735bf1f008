//! Parsed responses of a server, and their comparison with those of another one.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::questions::{Measure, SAMPLE_HITS};

/// Servers estimate the number of distinct values, each with a different error.
const DISTINCT_TOLERANCE: f64 = 0.03;

/// A response without the parts that may differ.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// The times of the hits in order.
    Sample(Vec<Value>),
    /// Events by day (ms) and class. Days without events are omitted, because servers differ in whether they list those
    /// at the ends of the window.
    Histogram(BTreeMap<i64, BTreeMap<String, u64>>),
    Distinct(f64),
    Top {
        counts: Vec<(String, u64)>,
        /// Maximum by which a count may be too low, as the server reports.
        error: u64,
    },
}

impl Answer {
    /// Parses a response for `tenant`. Fails if it is incomplete.
    pub(super) fn read(measure: Measure, tenant: &str, body: &[u8]) -> anyhow::Result<Self> {
        let answer: Value = serde_json::from_slice(body).context("not JSON")?;
        ensure!(
            answer["timed_out"] == false && answer.pointer("/_shards/failed") == Some(&Value::from(0)),
            "the response is incomplete: {}",
            answer["_shards"]
        );
        let aggregation = &answer["aggregations"]["measured"];
        Ok(match measure {
            Measure::Sample => Self::Sample(sample(tenant, &answer)?),
            Measure::Histogram => Self::Histogram(histogram(aggregation)?),
            Measure::Cardinality => Self::Distinct(aggregation["value"].as_f64().context("there is no value")?),
            Measure::HighTop | Measure::LowTop => Self::Top {
                counts: counts(aggregation)?,
                error: aggregation["doc_count_error_upper_bound"].as_u64().unwrap_or(0),
            },
        })
    }

    /// Returns the difference between two responses to the same query, beyond the errors that their servers announce.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let same = match (self, other) {
            (Self::Distinct(a), Self::Distinct(b)) => (a - b).abs() <= DISTINCT_TOLERANCE * a.max(*b),
            (
                Self::Top { counts, error },
                Self::Top {
                    counts: others,
                    error: other_error,
                },
            ) => {
                let error = error + other_error;
                let near = counts.iter().zip(others).all(|(a, b)| a.1.abs_diff(b.1) <= error);
                // With exact counts the keys are fixed as well.
                let keys = error > 0 || counts.iter().zip(others).all(|(a, b)| a.0 == b.0);
                counts.len() == others.len() && near && keys
            }
            (a, b) => a == b,
        };
        (!same).then(|| format!("{self:?} and {other:?}"))
    }

    /// Checks that a histogram equals the generated events, by day since `first_day_ms`.
    pub(super) fn check_days(&self, first_day_ms: i64, expected: &[u64]) -> anyhow::Result<()> {
        let Self::Histogram(days) = self else { return Ok(()) };
        let counted = |day: usize| {
            let start_ms = first_day_ms + day as i64 * super::period::DAY_MS;
            days.get(&start_ms).map_or(0, |classes| classes.values().sum::<u64>())
        };
        let counted: Vec<u64> = (0..expected.len()).map(counted).collect();
        ensure!(
            counted == expected,
            "the days have {counted:?} events, but {expected:?} were generated"
        );
        Ok(())
    }
}

fn sample(tenant: &str, answer: &Value) -> anyhow::Result<Vec<Value>> {
    let hits = answer.pointer("/hits/hits").and_then(Value::as_array);
    let hits = hits.context("there are no hits")?;
    let total = answer.pointer("/hits/total/value").and_then(Value::as_u64);
    let expected = total.context("there is no total")?.min(SAMPLE_HITS as u64);
    ensure!(
        hits.len() as u64 == expected,
        "{} hits instead of {expected}",
        hits.len()
    );
    let foreign = hits.iter().find(|hit| hit["_source"]["tenant"] != tenant);
    ensure!(foreign.is_none(), "a hit is not of [{tenant}]: {foreign:?}");
    Ok(hits.iter().map(|hit| hit["sort"].clone()).collect())
}

fn buckets(aggregation: &Value) -> anyhow::Result<&Vec<Value>> {
    aggregation["buckets"].as_array().context("there are no buckets")
}

fn counts(terms: &Value) -> anyhow::Result<Vec<(String, u64)>> {
    let count = |bucket: &Value| Some((bucket["key"].as_str()?.to_owned(), bucket["doc_count"].as_u64()?));
    let counts: Option<Vec<_>> = buckets(terms)?.iter().map(count).collect();
    counts.context("a bucket has no key or count")
}

fn histogram(days: &Value) -> anyhow::Result<BTreeMap<i64, BTreeMap<String, u64>>> {
    let mut found = BTreeMap::new();
    for day in buckets(days)? {
        let start_ms = day["key"].as_i64().context("a day has no key")?;
        let classes: BTreeMap<String, u64> = counts(&day["classes"])?.into_iter().collect();
        if !classes.is_empty() {
            found.insert(start_ms, classes);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn top(counts: &[(&str, u64)], error: u64) -> Answer {
        Answer::Top {
            counts: counts.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect(),
            error,
        }
    }

    #[test]
    fn only_announced_errors_are_allowed() {
        let check = |a: &Answer, b: &Answer, same: bool| assert_eq!(a.difference(b).is_none(), same, "{a:?} {b:?}");
        check(&top(&[("a", 5)], 0), &top(&[("a", 5)], 0), true);
        check(&top(&[("a", 5)], 0), &top(&[("b", 5)], 0), false);
        check(&top(&[("a", 5)], 0), &top(&[("b", 4)], 1), true);
        check(&top(&[("a", 5)], 0), &top(&[("a", 3)], 1), false);
        check(&top(&[("a", 5)], 0), &top(&[], 9), false);
        check(&Answer::Distinct(100.0), &Answer::Distinct(102.0), true);
        check(&Answer::Distinct(100.0), &Answer::Distinct(110.0), false);
        check(
            &Answer::Sample(vec![json!([1])]),
            &Answer::Sample(vec![json!([2])]),
            false,
        );
    }

    #[test]
    fn answers_that_are_not_whole_are_refused() {
        let read = |measure, answer: Value| Answer::read(measure, "t", answer.to_string().as_bytes());
        let with = |failed: u64, timed_out: bool, hits: Value, total: u64| {
            json!({
                "timed_out": timed_out, "_shards": {"failed": failed},
                "hits": {"total": {"value": total}, "hits": hits},
            })
        };
        let hit = |tenant: &str| json!([{"_source": {"tenant": tenant}, "sort": [7]}]);
        assert!(read(Measure::Sample, with(0, false, hit("t"), 1)).is_ok());
        assert!(read(Measure::Sample, with(1, false, hit("t"), 1)).is_err());
        assert!(read(Measure::Sample, with(0, true, hit("t"), 1)).is_err());
        assert!(read(Measure::Sample, with(0, false, hit("t"), 2)).is_err());
        assert!(read(Measure::Sample, with(0, false, hit("other"), 1)).is_err());
        assert!(read(Measure::Histogram, with(0, false, json!([]), 0)).is_err());
    }

    #[test]
    fn histograms_are_held_against_what_was_generated() {
        let day = |key: i64, count: u64| {
            let classes = if count > 0 {
                json!([{"key": "c", "doc_count": count}])
            } else {
                json!([])
            };
            json!({"key": key, "doc_count": count, "classes": {"buckets": classes}})
        };
        let answer = json!({
            "timed_out": false, "_shards": {"failed": 0},
            "aggregations": {"measured": {"buckets": [day(0, 2), day(super::super::period::DAY_MS, 0)]}},
        });
        let answer = Answer::read(Measure::Histogram, "t", answer.to_string().as_bytes()).unwrap();
        assert!(answer.check_days(0, &[2, 0]).is_ok());
        assert!(answer.check_days(0, &[2, 1]).is_err());
    }
}
