//! Pipeline aggregations: they read the printed answers of other aggregations.

use serde_json::{Map, Value as Json, json};

use super::kind_of;
use super::metric::Stats;
use super::order;

/// Parent pipeline aggregations: they add to the buckets that contain them.
const PARENTS: &[&str] = &[
    "derivative",
    "cumulative_sum",
    "moving_fn",
    "serial_diff",
    "bucket_script",
    "bucket_selector",
    "bucket_sort",
];

/// Sibling pipeline aggregations: they read the buckets of another aggregation.
const SIBLINGS: &[&str] = &[
    "avg_bucket",
    "min_bucket",
    "max_bucket",
    "sum_bucket",
    "stats_bucket",
    "extended_stats_bucket",
    "percentiles_bucket",
];

pub(super) fn is_sibling(kind: &str) -> bool {
    SIBLINGS.contains(&kind)
}

/// Returns whether a kind is a pipeline aggregation.
pub(super) fn is_one(kind: &str) -> bool {
    is_sibling(kind) || PARENTS.contains(&kind)
}

/// Returns the number at `path` (`_count`, `name`, `name.part`, `outer>name`); `None`: it has no value.
pub(super) fn value_at(bucket: &Json, path: &str) -> Option<f64> {
    let mut at = bucket;
    let mut names = path.split('>').peekable();
    while let Some(name) = names.next() {
        if names.peek().is_some() {
            at = &at[name];
            continue;
        }
        if name == "_count" {
            return at["doc_count"].as_f64();
        }
        let (name, part) = name.split_once('.').unwrap_or((name, "value"));
        at = &at[name];
        // A path that ends at a bucket means the bucket's count.
        at = if part == "value" && at.get("value").is_none() {
            &at["doc_count"]
        } else {
            &at[part.trim_start_matches('_')]
        };
        if part == "_count" {
            at = bucket_count(bucket, path);
        }
    }
    at.as_f64()
}

fn bucket_count<'j>(bucket: &'j Json, path: &str) -> &'j Json {
    let steps = path.trim_end_matches("._count").split('>');
    &steps.fold(bucket, |at, name| &at[name])["doc_count"]
}

/// Returns the input of a pipeline aggregation in a bucket: `NaN` if the bucket is empty, unless gaps are zeros or the
/// path is the count.
fn read(bucket: &Json, path: &str, body: &Json) -> f64 {
    if path == "_count" {
        return value_at(bucket, path).expect("a count");
    }
    let gap = if body["gap_policy"] == "insert_zeros" {
        0.0
    } else {
        f64::NAN
    };
    match value_at(bucket, path) {
        Some(value) if bucket["doc_count"] != 0 => value,
        _ => gap,
    }
}

fn path_of(body: &Json) -> &str {
    body["buckets_path"].as_str().expect("a path")
}

fn parents(sub: Option<&Json>) -> Vec<(&String, &str, &Json)> {
    let definitions = sub.and_then(Json::as_object).into_iter().flatten();
    let kinds = definitions.map(|(name, definition)| {
        let (kind, body) = kind_of(definition);
        (name, kind, body)
    });
    kinds.filter(|(_, kind, _)| PARENTS.contains(kind)).collect()
}

/// A single bucket has no neighbours: only scripts are valid in it, and the generator adds none.
pub(super) fn inside_single(sub: Option<&Json>, _: &mut Json) {
    assert!(
        parents(sub).is_empty(),
        "a parent pipeline aggregation in a single bucket"
    );
}

/// Returns the buckets after their parent pipeline aggregations.
pub(super) fn inside(sub: Option<&Json>, mut buckets: Vec<Json>) -> Vec<Json> {
    for (name, kind, body) in parents(sub) {
        match kind {
            "bucket_sort" => buckets = bucket_sort(body, buckets),
            "bucket_selector" => buckets.retain(|bucket| selects(body, bucket)),
            "bucket_script" => {
                for bucket in &mut buckets {
                    if let Some(value) = script(body, bucket) {
                        bucket[name.as_str()] = json!({"value": value});
                    }
                }
            }
            _ => series(kind, name, body, &mut buckets),
        }
    }
    buckets
}

fn series(kind: &str, name: &str, body: &Json, buckets: &mut [Json]) {
    let values: Vec<f64> = buckets.iter().map(|bucket| read(bucket, path_of(body), body)).collect();
    let mut sum = 0.0;
    for (index, bucket) in buckets.iter_mut().enumerate() {
        let value = match kind {
            "derivative" if index == 0 => continue,
            "derivative" => values[index] - values[index - 1],
            "cumulative_sum" => {
                if values[index].is_finite() {
                    sum += values[index];
                }
                sum
            }
            "serial_diff" => {
                let lag = body["lag"].as_u64().unwrap_or(1) as usize;
                if index < lag || values[index].is_nan() || values[index - lag].is_nan() {
                    continue;
                }
                values[index] - values[index - lag]
            }
            "moving_fn" => {
                if values[index].is_nan() {
                    continue;
                }
                let window = body["window"].as_u64().expect("a window") as usize;
                // As in Elasticsearch the window ends before this value, moved by `shift`, and omits missing values.
                let shift = body["shift"].as_u64().unwrap_or(0) as usize;
                let seen: Vec<(usize, f64)> = values
                    .iter()
                    .copied()
                    .enumerate()
                    .filter(|(_, value)| !value.is_nan())
                    .collect();
                let place = seen.iter().position(|(at, _)| *at == index).expect("seen");
                let end = (place + shift).min(seen.len());
                let start = (place + shift).saturating_sub(window).min(end);
                let window: Vec<f64> = seen[start..end].iter().map(|(_, value)| *value).collect();
                moving(body["script"].as_str().expect("a script"), &window)
            }
            _ => panic!("the reference has no aggregation [{kind}]"),
        };
        bucket[name] = json!({"value": if value.is_nan() { Json::Null } else { json!(value) }});
    }
}

fn moving(script: &str, window: &[f64]) -> f64 {
    let function = script.strip_prefix("MovingFunctions.").expect("a function");
    let name = function.split('(').next().expect("a name");
    let sum: f64 = window.iter().sum();
    match name {
        "sum" => sum,
        "max" => window.iter().copied().fold(f64::NAN, f64::max),
        "min" => window.iter().copied().fold(f64::NAN, f64::min),
        "unweightedAvg" if window.is_empty() => f64::NAN,
        "unweightedAvg" => sum / window.len() as f64,
        _ => panic!("the reference has no function [{name}]"),
    }
}

fn bucket_sort(body: &Json, mut buckets: Vec<Json>) -> Vec<Json> {
    if let Some(keys) = body["sort"].as_array() {
        // The generator sorts only by values that every bucket has.
        let order: Vec<Json> = keys
            .iter()
            .map(|key| {
                let (path, options) = super::super::query::only(key);
                json!({path: options["order"].as_str().unwrap_or("asc")})
            })
            .collect();
        order::sort(&mut buckets, &Json::Array(order));
    }
    let from = body["from"].as_u64().unwrap_or(0) as usize;
    let size = body["size"].as_u64().map_or(usize::MAX, |size| size as usize);
    buckets.into_iter().skip(from).take(size).collect()
}

/// Returns the variables of a script; `None` if one has no value.
fn variables(body: &Json, bucket: &Json) -> Option<Vec<(String, f64)>> {
    let paths = body["buckets_path"].as_object().expect("paths").iter();
    let values = paths.map(|(name, path)| {
        let value = read(bucket, path.as_str().expect("a path"), body);
        (!value.is_nan()).then(|| (name.clone(), value))
    });
    values.collect()
}

/// Evaluates scripts of the form `params.a OP params.b`, the only ones that the generator writes. Tests of the
/// expression language cover the rest.
fn evaluate(body: &Json, variables: &[(String, f64)]) -> (f64, bool) {
    let script = body["script"].as_str().expect("a script");
    let words: Vec<&str> = script.split(' ').collect();
    let [left, operator, right] = words.as_slice() else {
        panic!("the reference has no script [{script}]");
    };
    let value = |word: &str| match word.strip_prefix("params.") {
        Some(name) => variables.iter().find(|(known, _)| known == name).expect("a variable").1,
        None => word.parse().expect("a number"),
    };
    let (left, right) = (value(left), value(right));
    match *operator {
        "+" => (left + right, false),
        "-" => (left - right, false),
        "*" => (left * right, false),
        ">" => (0.0, left > right),
        "<=" => (0.0, left <= right),
        "==" => (0.0, left == right),
        operator => panic!("the reference has no operator [{operator}]"),
    }
}

fn script(body: &Json, bucket: &Json) -> Option<f64> {
    variables(body, bucket).map(|variables| evaluate(body, &variables).0)
}

fn selects(body: &Json, bucket: &Json) -> bool {
    let gap = f64::NAN;
    let paths = body["buckets_path"].as_object().expect("paths").iter();
    let variables: Vec<(String, f64)> = paths
        .map(|(name, path)| (name.clone(), read(bucket, path.as_str().expect("a path"), body)))
        .map(|(name, value)| (name, if value.is_nan() { gap } else { value }))
        .collect();
    evaluate(body, &variables).1
}

/// Returns the answer of `avg_bucket` and similar ones.
pub(super) fn sibling(kind: &str, body: &Json, answers: &Map<String, Json>) -> Json {
    let (first, rest) = path_of(body).split_once('>').expect("a path into buckets");
    let buckets: Vec<Json> = match &answers[first]["buckets"] {
        Json::Array(buckets) => buckets.clone(),
        Json::Object(buckets) => buckets.values().cloned().collect(),
        other => panic!("{other} are no buckets"),
    };
    let found: Vec<(String, f64)> = buckets
        .iter()
        .map(|bucket| {
            let key = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
            (
                key.as_str().map_or_else(|| key.to_string(), str::to_owned),
                read(bucket, rest, body),
            )
        })
        .filter(|(_, value)| !value.is_nan())
        .collect();
    let mut numbers: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
    numbers.sort_by(f64::total_cmp);
    let stats = Stats(&numbers);
    let extreme = |value: Option<&f64>| {
        let keys = found
            .iter()
            .filter(|(_, other)| Some(other) == value)
            .map(|(key, _)| key.clone());
        json!({"value": value, "keys": keys.collect::<Vec<String>>()})
    };
    match kind {
        "avg_bucket" => json!({"value": stats.basic()["avg"]}),
        "sum_bucket" => json!({"value": stats.basic()["sum"]}),
        "min_bucket" => extreme(numbers.first()),
        "max_bucket" => extreme(numbers.last()),
        "stats_bucket" => Json::Object(stats.basic()),
        "extended_stats_bucket" => stats.extended(body["sigma"].as_f64().unwrap_or(2.0)),
        "percentiles_bucket" => percentiles(body, &numbers),
        _ => panic!("the reference has no aggregation [{kind}]"),
    }
}

/// Returns the nearest value by rank, without interpolation.
fn percentiles(body: &Json, numbers: &[f64]) -> Json {
    let default = json!([1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0]);
    let percents = body.get("percents").unwrap_or(&default).as_array().expect("percents");
    let value = |percent: f64| match numbers {
        [] => Json::Null,
        numbers => {
            let index = (percent / 100.0 * (numbers.len() as f64 - 1.0) + 0.5).floor();
            json!(numbers[index.max(0.0) as usize])
        }
    };
    let entry = |percent: &Json| {
        let percent = percent.as_f64().expect("a number");
        (format!("{percent:?}"), value(percent))
    };
    json!({"values": percents.iter().map(entry).collect::<Map<String, Json>>()})
}
