//! Metric aggregations over the values of a list of documents.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::super::dates;
use super::super::schema::{self, Document, Kind, Value};
use super::super::sort;
use super::{key_of, values_of};

/// Returns the answer of one metric.
pub(super) fn answer(kind: &str, body: &Json, documents: &[&Document]) -> Json {
    match kind {
        "top_hits" => return top_hits(body, documents),
        "top_metrics" => return top_metrics(body, documents),
        "weighted_avg" => return weighted_avg(body, documents),
        _ => {}
    }
    let values: Vec<Value> = documents
        .iter()
        .flat_map(|document| values_of(body, document))
        .collect();
    let field = schema::kind(body["field"].as_str().expect("a field"));
    match kind {
        "value_count" => return json!({"value": values.len()}),
        "cardinality" => return json!({"value": distinct(&values)}),
        "string_stats" => return string_stats(body, &values),
        _ => {}
    }
    let mut numbers: Vec<f64> = values.iter().map(|value| value.number(field)).collect();
    numbers.sort_by(f64::total_cmp);
    let stats = Stats(&numbers);
    match kind {
        "min" => one(numbers.first().copied(), field),
        "max" => one(numbers.last().copied(), field),
        "sum" => one(Some(stats.sum()), field),
        "avg" => one(stats.mean(), field),
        "stats" => with_text(stats.basic(), field, numbers.is_empty()),
        "extended_stats" => stats.extended(body["sigma"].as_f64().unwrap_or(2.0)),
        "percentiles" => percentiles(body, &numbers),
        "percentile_ranks" => percentile_ranks(body, &numbers),
        "median_absolute_deviation" => median_absolute_deviation(&numbers),
        "boxplot" => boxplot(&numbers),
        _ => panic!("the reference has no aggregation [{kind}]"),
    }
}

fn distinct(values: &[Value]) -> usize {
    let mut values = values.to_vec();
    values.sort_by(Value::compare);
    values.dedup();
    values.len()
}

fn one(value: Option<f64>, kind: Kind) -> Json {
    let mut answer = Map::new();
    answer.insert("value".into(), json!(value));
    if let (Some(value), Some(text)) = (value, value.and_then(|value| text(value, kind))) {
        assert!(value.is_finite());
        answer.insert("value_as_string".into(), json!(text));
    }
    Json::Object(answer)
}

fn text(value: f64, kind: Kind) -> Option<String> {
    match kind {
        Kind::Boolean => Some((value != 0.0).to_string()),
        Kind::Date | Kind::DateNanos => Some(dates::print(value as i64, None, &dates::zone("UTC"))),
        _ => None,
    }
}

fn with_text(mut stats: Map<String, Json>, kind: Kind, empty: bool) -> Json {
    for name in ["min", "max", "avg", "sum"] {
        let text = stats[name].as_f64().and_then(|value| text(value, kind));
        if let Some(text) = text.filter(|_| !empty) {
            stats.insert(format!("{name}_as_string"), json!(text));
        }
    }
    Json::Object(stats)
}

/// Numbers, ascending.
pub(super) struct Stats<'n>(pub(super) &'n [f64]);

impl Stats<'_> {
    fn sum(&self) -> f64 {
        // The empty sum is -0.0 in Rust, which sorts before 0.0.
        self.0.iter().sum::<f64>() + 0.0
    }

    fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.sum() / self.0.len() as f64)
    }

    pub(super) fn basic(&self) -> Map<String, Json> {
        let mut answer = Map::new();
        answer.insert("count".into(), json!(self.0.len()));
        answer.insert("min".into(), json!(self.0.first()));
        answer.insert("max".into(), json!(self.0.last()));
        answer.insert("avg".into(), json!(self.mean()));
        answer.insert("sum".into(), json!(self.sum()));
        answer
    }

    /// Uses the mean of squared distances; a sample of one has no spread (`NaN`).
    pub(super) fn extended(&self, sigma: f64) -> Json {
        let mut answer = self.basic();
        let count = self.0.len() as f64;
        let mean = self.mean();
        let squares = |mean: f64| self.0.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
        let population = mean.map(|mean| squares(mean) / count);
        let sampling = mean.map(|mean| squares(mean) / (count - 1.0));
        let number = |value: Option<f64>| match value {
            Some(value) if value.is_nan() => json!("NaN"),
            value => json!(value),
        };
        let sum_of_squares = mean.map(|_| self.0.iter().map(|number| number * number).sum::<f64>());
        answer.insert("sum_of_squares".into(), json!(sum_of_squares));
        let root = |value: Option<f64>| value.map(f64::sqrt);
        for (name, value) in [
            ("variance", population),
            ("variance_population", population),
            ("variance_sampling", sampling),
            ("std_deviation", root(population)),
            ("std_deviation_population", root(population)),
            ("std_deviation_sampling", root(sampling)),
        ] {
            answer.insert(name.into(), number(value));
        }
        let bound = |sign: f64, variance: Option<f64>| {
            number(mean.zip(root(variance)).map(|(mean, root)| mean + sign * sigma * root))
        };
        let bounds = json!({
            "upper": bound(1.0, population), "lower": bound(-1.0, population),
            "upper_population": bound(1.0, population), "lower_population": bound(-1.0, population),
            "upper_sampling": bound(1.0, sampling), "lower_sampling": bound(-1.0, sampling),
        });
        answer.insert("std_deviation_bounds".into(), bounds);
        Json::Object(answer)
    }
}

/// Returns a range for a percentile. Digests interpolate differently: the answer must lie between the values next to
/// the rank.
fn near_rank(numbers: &[f64], percent: f64) -> Json {
    if numbers.is_empty() {
        return Json::Null;
    }
    let rank = percent / 100.0 * numbers.len() as f64;
    let at = |index: f64| numbers[index.clamp(0.0, numbers.len() as f64 - 1.0) as usize];
    json!({"$between": [at(rank.floor() - 2.0), at(rank.ceil() + 1.0)]})
}

fn by_number(body: &Json, entries: impl Iterator<Item = (f64, Json)>) -> Json {
    let text = |number: f64| {
        if number.fract() == 0.0 {
            format!("{number:.1}")
        } else {
            number.to_string()
        }
    };
    if body["keyed"] == false {
        let list: Vec<Json> = entries
            .map(|(key, value)| json!({"key": key, "value": value}))
            .collect();
        return json!({"values": list});
    }
    let values: Map<String, Json> = entries.map(|(key, value)| (text(key), value)).collect();
    json!({"values": values})
}

fn numbers_of(list: &Json) -> Vec<f64> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|number| number.as_f64().expect("a number"))
        .collect()
}

fn percentiles(body: &Json, numbers: &[f64]) -> Json {
    let percents = match body.get("percents") {
        Some(percents) => numbers_of(percents),
        None => vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0],
    };
    by_number(
        body,
        percents
            .into_iter()
            .map(|percent| (percent, near_rank(numbers, percent))),
    )
}

fn percentile_ranks(body: &Json, numbers: &[f64]) -> Json {
    let rank = |value: f64| {
        if numbers.is_empty() {
            return Json::Null;
        }
        let share = |count: usize| count as f64 / numbers.len() as f64 * 100.0;
        let below = numbers.iter().filter(|number| **number < value).count();
        let up_to = numbers.iter().filter(|number| **number <= value).count();
        let step = 100.0 / numbers.len() as f64;
        json!({"$between": [(share(below) - step).max(0.0), (share(up_to) + step).min(100.0)]})
    };
    by_number(
        body,
        numbers_of(&body["values"])
            .into_iter()
            .map(|value| (value, rank(value))),
    )
}

fn median_absolute_deviation(numbers: &[f64]) -> Json {
    if numbers.is_empty() {
        return json!({"value": null});
    }
    // Two nested digest medians: only the extremes bound the result of every digest.
    let spread = numbers[numbers.len() - 1] - numbers[0];
    json!({"value": {"$between": [0.0, spread]}})
}

fn boxplot(numbers: &[f64]) -> Json {
    let (Some(min), Some(max)) = (numbers.first(), numbers.last()) else {
        return json!({"min": "Infinity", "max": "-Infinity", "q1": "NaN", "q2": "NaN", "q3": "NaN",
                      "lower": "NaN", "upper": "NaN"});
    };
    json!({
        "min": min, "max": max,
        "q1": near_rank(numbers, 25.0), "q2": near_rank(numbers, 50.0), "q3": near_rank(numbers, 75.0),
        "lower": {"$between": [min, max]}, "upper": {"$between": [min, max]},
    })
}

fn string_stats(body: &Json, values: &[Value]) -> Json {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?} is no string"),
    };
    let texts: Vec<String> = values.iter().map(text).collect();
    let lengths: Vec<usize> = texts.iter().map(|text| text.encode_utf16().count()).collect();
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    texts
        .iter()
        .flat_map(|text| text.chars())
        .for_each(|letter| *counts.entry(letter).or_default() += 1);
    let total: usize = counts.values().sum();
    let share = |count: &usize| *count as f64 / total as f64;
    let entropy: f64 = counts.values().map(share).map(|share| -share * share.log2()).sum();
    let mean = (!lengths.is_empty()).then(|| lengths.iter().sum::<usize>() as f64 / lengths.len() as f64);
    let mut answer = json!({
        "count": texts.len(), "min_length": lengths.iter().min(), "max_length": lengths.iter().max(),
        "avg_length": mean, "entropy": if texts.is_empty() { 0.0 } else { entropy },
    });
    if body["show_distribution"] == true && texts.is_empty() {
        answer["distribution"] = Json::Null;
    } else if body["show_distribution"] == true {
        let mut letters: Vec<(char, f64)> = counts.iter().map(|(letter, count)| (*letter, share(count))).collect();
        letters.sort_by(|(left, left_share), (right, right_share)| {
            right_share.total_cmp(left_share).then(left.cmp(right))
        });
        let distribution: Map<String, Json> = letters
            .into_iter()
            .map(|(letter, share)| (letter.to_string(), json!(share)))
            .collect();
        answer["distribution"] = Json::Object(distribution);
    }
    answer
}

fn weighted_avg(body: &Json, documents: &[&Document]) -> Json {
    let kind = |part: &str| schema::kind(body[part]["field"].as_str().expect("a field"));
    let (mut sum, mut weights) = (0.0, 0.0);
    for document in documents {
        let Some(weight) = values_of(&body["weight"], document)
            .first()
            .map(|weight| weight.number(kind("weight")))
        else {
            continue;
        };
        for value in values_of(&body["value"], document) {
            sum += value.number(kind("value")) * weight;
            weights += weight;
        }
    }
    json!({"value": (weights != 0.0).then(|| sum / weights)})
}

fn top_hits(body: &Json, documents: &[&Document]) -> Json {
    let keys = sort::Key::list(&body["sort"]);
    let size = body["size"].as_u64().unwrap_or(3) as usize;
    let from = body["from"].as_u64().unwrap_or(0) as usize;
    let hits = sort::sorted(documents, &keys).into_iter().skip(from).take(size);
    let hits: Vec<Json> = hits
        .map(|(document, _)| json!({"$subset": {"_id": document.id}}))
        .collect();
    json!({"hits": {"$subset": {"total": {"value": documents.len(), "relation": "eq"}, "hits": hits}}})
}

fn top_metrics(body: &Json, documents: &[&Document]) -> Json {
    let sort = json!([body["sort"]]);
    let keys = sort::Key::list(&sort);
    let size = body["size"].as_u64().unwrap_or(1) as usize;
    let field = body["metrics"]["field"].as_str().expect("a field");
    let top = sort::sorted(documents, &keys)
        .into_iter()
        .take(size)
        .map(|(document, values)| {
            let value = document.values(field).first();
            let metric = value.map_or(Json::Null, |value| {
                key_of(value, schema::kind(field), None)["key"].clone()
            });
            json!({"sort": values, "metrics": {field: metric}})
        });
    json!({"top": top.collect::<Vec<Json>>()})
}
