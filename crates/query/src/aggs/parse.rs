//! Parser of aggregation requests: names, levels, and the parameters that all aggregations share.

use firn_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use super::{
    Aggregation, AggregationKind, Aggregations, adjacency_matrix, auto_date_histogram, avg, boxplot, cardinality,
    composite, date_histogram, date_range, diversified_sampler, extended_stats, filter, filters, global, histogram,
    ip_prefix, ip_range, max, median_absolute_deviation, min, missing, multi_terms, percentile_ranks, percentiles,
    pipeline, range, rare_terms, sampler, significant_terms, stats, string_stats, sum, terms, top_hits, top_metrics,
    value_count, weighted_avg,
};
use crate::json::{as_bool, as_i64, as_text, token};

/// Maximum levels of aggregations. Every level multiplies buckets, so real requests have two to five.
pub const DEPTH_MAX: usize = 20;

/// Maximum aggregations in one request, all levels together. The largest dashboards send some hundred.
pub const COUNT_MAX: usize = 4096;

/// One line per aggregation.
const KINDS: &[Kind] = &[
    Kind::bucket(terms::NAME, terms::parse),
    Kind::bucket(date_histogram::NAME, date_histogram::parse),
    Kind::metric(min::NAME, min::parse),
    Kind::metric(max::NAME, max::parse),
    Kind::metric(sum::NAME, sum::parse),
    Kind::metric(avg::NAME, avg::parse),
    Kind::metric(stats::NAME, stats::parse),
    Kind::metric(extended_stats::NAME, extended_stats::parse),
    Kind::metric(percentiles::NAME, percentiles::parse),
    Kind::metric(percentile_ranks::NAME, percentile_ranks::parse),
    Kind::metric(median_absolute_deviation::NAME, median_absolute_deviation::parse),
    Kind::metric(boxplot::NAME, boxplot::parse),
    Kind::metric(weighted_avg::NAME, weighted_avg::parse),
    Kind::metric(string_stats::NAME, string_stats::parse),
    Kind::metric(top_metrics::NAME, top_metrics::parse),
    Kind::metric(value_count::NAME, value_count::parse),
    Kind::metric(cardinality::NAME, cardinality::parse),
    Kind::bucket(filter::NAME, filter::parse),
    Kind::bucket(filters::NAME, filters::parse),
    Kind::bucket(missing::NAME, missing::parse),
    Kind::bucket(range::NAME, range::parse),
    Kind::bucket(date_range::NAME, date_range::parse),
    Kind::bucket(ip_range::NAME, ip_range::parse),
    Kind::bucket(histogram::NAME, histogram::parse),
    Kind::metric(top_hits::NAME, top_hits::parse),
    Kind::bucket(auto_date_histogram::NAME, auto_date_histogram::parse),
    Kind::bucket(multi_terms::NAME, multi_terms::parse),
    Kind::bucket(rare_terms::NAME, rare_terms::parse),
    Kind::bucket(composite::NAME, composite::parse),
    Kind::bucket(global::NAME, global::parse),
    Kind::bucket(significant_terms::NAME, significant_terms::parse),
    Kind::bucket(sampler::NAME, sampler::parse),
    Kind::bucket(diversified_sampler::NAME, diversified_sampler::parse),
    Kind::bucket(adjacency_matrix::NAME, adjacency_matrix::parse),
    Kind::bucket(ip_prefix::NAME, ip_prefix::parse),
];

/// Aggregations that Elasticsearch supports and firn does not.
const NOT_YET: &[&str] = &[
    "bucket_correlation",
    "bucket_count_ks_test",
    "categorize_text",
    "change_point",
    "children",
    "cumulative_cardinality",
    "frequent_item_sets",
    "geo_bounds",
    "geo_centroid",
    "geo_distance",
    "geo_line",
    "geohash_grid",
    "geohex_grid",
    "geotile_grid",
    "inference",
    "matrix_stats",
    "moving_percentiles",
    "nested",
    "parent",
    "random_sampler",
    "rate",
    "reverse_nested",
    "scripted_metric",
    "significant_text",
    "t_test",
    "time_series",
    "variable_width_histogram",
];

/// Returns the names of supported and refused aggregations.
pub(crate) fn inventory() -> crate::inventory::Inventory {
    let kinds = KINDS.iter().map(|kind| kind.name);
    crate::inventory::Inventory {
        answered: kinds.chain(pipeline::KINDS.iter().map(|(name, _)| *name)).collect(),
        refused: NOT_YET,
    }
}

/// Input of one aggregation's parser: its name, its body, and its sub-aggregations.
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    pub(super) body: &'a Map<String, Value>,
    pub(super) sub: &'a Aggregations,
}

type Parse = fn(&Request<'_>) -> Result<AggregationKind>;

struct Kind {
    name: &'static str,
    parse: Parse,
    has_buckets: bool,
}

impl Kind {
    const fn bucket(name: &'static str, parse: Parse) -> Self {
        Self {
            name,
            parse,
            has_buckets: true,
        }
    }

    const fn metric(name: &'static str, parse: Parse) -> Self {
        Self {
            name,
            parse,
            has_buckets: false,
        }
    }
}

/// Parses one level and the levels below.
pub(super) fn level(value: &Value, depth: usize, count: &mut usize) -> Result<Aggregations> {
    if depth > DEPTH_MAX {
        return Err(Error::illegal_argument(format!(
            "aggregations are nested deeper than [{DEPTH_MAX}] levels"
        )));
    }
    let Value::Object(entries) = value else {
        return Err(Error::parsing(format!(
            "Unexpected token {} in [aggs]: aggregations definitions must start with START_OBJECT",
            token(value)
        )));
    };
    *count += entries.len();
    if *count > COUNT_MAX {
        return Err(Error::illegal_argument(format!(
            "the request has more than [{COUNT_MAX}] aggregations"
        )));
    }
    let mut level = Aggregations::default();
    for (name, definition) in entries {
        level.0.insert(name.clone(), one(name, definition, depth, count)?);
    }
    if depth == 1 {
        pipeline::check(None, &level)?;
    }
    Ok(level)
}

fn one(name: &str, definition: &Value, depth: usize, count: &mut usize) -> Result<Aggregation> {
    if name.is_empty() || name.contains(['[', ']', '>']) {
        return Err(Error::parsing(format!(
            "Invalid aggregation name [{name}]. Aggregation names can contain any character except '[', ']', and '>'"
        )));
    }
    let Value::Object(definition) = definition else {
        return Err(Error::parsing(format!(
            "Aggregation definition for [{name} starts with a [{}], expected a [START_OBJECT].",
            token(definition)
        )));
    };
    let mut found: Option<(&str, &Map<String, Value>)> = None;
    let mut below: Option<&Value> = None;
    let mut meta = None;
    for (key, value) in definition {
        let Value::Object(body) = value else {
            return Err(Error::parsing(format!(
                "Expected [START_OBJECT] under [{key}], but got a [{}] in [{name}]",
                token(value)
            )));
        };
        match key.as_str() {
            "meta" => meta = Some(value.clone()),
            "aggs" | "aggregations" => {
                if below.replace(value).is_some() {
                    return Err(Error::parsing(format!(
                        "Found two sub aggregation definitions under [{name}]"
                    )));
                }
            }
            _ => {
                if let Some((first, _)) = found.replace((key, body)) {
                    return Err(Error::parsing(format!(
                        "Found two aggregation type definitions in [{name}]: [{first}] and [{key}]"
                    )));
                }
            }
        }
    }
    let Some((kind, body)) = found else {
        return Err(Error::parsing(format!("Missing definition for aggregation [{name}]")));
    };
    let kind = find(kind)?;
    let sub = match below {
        Some(_) if matches!(kind, Found::Pipeline(_)) => {
            return Err(Error::illegal_argument(format!(
                "Aggregation [{name}] cannot define sub-aggregations"
            )));
        }
        Some(value) => level(value, depth + 1, count)?,
        None => Aggregations::default(),
    };
    let request = Request { name, body, sub: &sub };
    let kind = match kind {
        Found::Pipeline(parse) => AggregationKind::Pipeline(parse(&request)?),
        Found::Kind(kind) if !kind.has_buckets && !sub.0.is_empty() => {
            return Err(Error::parsing(format!(
                "Aggregator [{name}] of type [{}] cannot accept sub-aggregations",
                kind.name
            )));
        }
        Found::Kind(kind) => (kind.parse)(&request)?,
    };
    pipeline::check(Some(&kind), &sub)?;
    check_place(name, &kind, &sub)?;
    Ok(Aggregation { kind, sub, meta })
}

/// Refuses aggregations that may not be below others.
fn check_place(name: &str, kind: &AggregationKind, sub: &Aggregations) -> Result<()> {
    for (sub_name, below) in &sub.0 {
        match below.kind {
            AggregationKind::Global => {
                return Err(Error::illegal_argument(format!(
                    "Aggregation [{name}] cannot have a global sub-aggregation [{sub_name}]. Global aggregations can only \
                     be defined as top level aggregations"
                )));
            }
            AggregationKind::Composite(_) if !kind.is_single_bucket() => {
                return Err(Error::illegal_argument(format!(
                    "[composite] aggregation cannot be used with a parentAggregation of type: [{}]",
                    kind.name()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the aggregation type `name` has buckets.
pub(super) fn has_buckets(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == name && kind.has_buckets)
}

enum Found {
    Kind(&'static Kind),
    Pipeline(pipeline::Parse),
}

fn find(name: &str) -> Result<Found> {
    if let Some(kind) = KINDS.iter().find(|kind| kind.name == name) {
        return Ok(Found::Kind(kind));
    }
    if let Some((_, parse)) = pipeline::KINDS.iter().find(|(known, _)| *known == name) {
        return Ok(Found::Pipeline(*parse));
    }
    if NOT_YET.contains(&name) {
        return Err(Error::not_implemented(format!("aggregation [{name}]")));
    }
    Err(Error::parsing(format!("Unknown aggregation type [{name}]")))
}

/// Returns the JSON of a whole level.
pub(super) fn print(aggregations: &Aggregations) -> Value {
    let one = |aggregation: &Aggregation| {
        let mut definition = Map::new();
        definition.insert(aggregation.kind.name().into(), aggregation.kind.print());
        if !aggregation.sub.0.is_empty() {
            definition.insert("aggs".into(), print(&aggregation.sub));
        }
        if let Some(meta) = &aggregation.meta {
            definition.insert("meta".into(), meta.clone());
        }
        Value::Object(definition)
    };
    let entries = aggregations.0.iter();
    Value::Object(
        entries
            .map(|(name, aggregation)| (name.clone(), one(aggregation)))
            .collect(),
    )
}

/// Returns the error for a parameter that `kind` does not have, or that firn does not support.
pub(super) fn unknown_field(kind: &str, key: &str) -> Error {
    match key {
        "script" | "value_type" | "shard_min_doc_count" | "params" => {
            Error::not_implemented(format!("parameter [{key}] of aggregation [{kind}]"))
        }
        _ => Error::new(ErrorKind::JsonParse, format!("[{kind}] unknown field [{key}]")),
    }
}

fn wrong_type(kind: &str, key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "[{kind}] {key} doesn't support values of type: {}",
        token(value)
    ))
}

/// Parses a string (numbers and booleans count as their text).
pub(super) fn text(kind: &str, key: &str, value: &Value) -> Result<String> {
    as_text(value).ok_or_else(|| wrong_type(kind, key, value))
}

/// Returns a string, number or boolean unchanged.
pub(super) fn scalar(kind: &str, key: &str, value: &Value) -> Result<Value> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(value.clone()),
        _ => Err(wrong_type(kind, key, value)),
    }
}

/// Parses a boolean.
pub(super) fn flag(kind: &str, key: &str, value: &Value) -> Result<bool> {
    as_bool(value).ok_or_else(|| wrong_type(kind, key, value))
}

/// Parses a finite number, also from a string.
pub(super) fn double(kind: &str, key: &str, value: &Value) -> Result<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| wrong_type(kind, key, value))
}

/// Parses an integer that is at least `least`; errors print the minimum as Elasticsearch does.
pub(super) fn number(request: &Request<'_>, kind: &str, key: &str, value: &Value, least: i64) -> Result<u64> {
    let number = as_i64(value).ok_or_else(|| wrong_type(kind, key, value))?;
    let shown = match key {
        "shard_size" => "shardSize",
        "min_doc_count" => "minDocCount",
        "precision_threshold" => "precisionThreshold",
        other => other,
    };
    if number < least {
        let bound = if least > 0 {
            "greater than 0".to_owned()
        } else {
            "greater than or equal to 0".to_owned()
        };
        return Err(Error::illegal_argument(format!(
            "[{shown}] must be {bound}. Found [{number}] in [{}]",
            request.name
        )));
    }
    if number > i64::from(i32::MAX) && key != "min_doc_count" {
        return Err(Error::parsing(format!(
            "[{kind}] failed to parse field [{key}]: [{number}] is out of range for an integer"
        )));
    }
    Ok(number as u64)
}

/// Returns the `field`, which all firn aggregations with a field require.
pub(super) fn required_field(field: Option<String>) -> Result<String> {
    match field {
        Some(field) if !field.is_empty() => Ok(field),
        _ => Err(Error::illegal_argument(
            "Required one of fields [field, script], but none were specified. ",
        )),
    }
}

/// Returns the body of an aggregation over a field, to which its other options are added.
pub(super) fn body_of(field: &str) -> Map<String, Value> {
    Map::from_iter([("field".to_owned(), field.into())])
}

/// Inserts `key` if the flag is set.
pub(super) fn put_flag(body: &mut Map<String, Value>, key: &str, flag: bool) {
    put(body, key, flag.then_some(true));
}

/// Inserts `key` if there is a value.
pub(super) fn put<T: serde::Serialize>(body: &mut Map<String, Value>, key: &str, value: Option<T>) {
    if let Some(value) = value {
        body.insert(key.into(), json!(value));
    }
}
