//! `composite` aggregation: all combinations of its sources, in pages.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json, json};

use super::super::dates;
use super::super::query::only;
use super::super::schema::{self, Document, Kind, Value};
use super::date_histogram::Rounding;
use super::{Bucket, Scope, key_of, order, terms, values_of};

struct Source<'j> {
    name: &'j str,
    kind: &'j str,
    body: &'j Json,
}

impl Source<'_> {
    /// Returns the keys of a document; null for a missing value, if missing values count.
    fn keys(&self, document: &Document) -> Vec<Json> {
        let field = schema::kind(self.body["field"].as_str().expect("a field"));
        let values = values_of(self.body, document);
        let keys: Vec<Json> = match self.kind {
            "terms" => terms::distinct(values).iter().map(|value| key(value, field)).collect(),
            "histogram" => {
                let interval = self.body["interval"].as_f64().expect("an interval");
                let step = |value: Value| (value.number(field) / interval).floor() * interval;
                values.into_iter().map(step).map(|start| json!(start)).collect()
            }
            "date_histogram" => {
                let rounding = Rounding::new(self.body);
                let start = |value: Value| rounding.start(value.number(field) as i64);
                let print = |start: i64| match self.body["format"].as_str() {
                    Some(format) => json!(dates::print(start, Some(format), &rounding.zone)),
                    None => json!(start),
                };
                values.into_iter().map(start).map(print).collect()
            }
            kind => panic!("the reference has no source [{kind}]"),
        };
        let mut distinct: Vec<Json> = Vec::new();
        for key in keys {
            if !distinct.contains(&key) {
                distinct.push(key);
            }
        }
        if distinct.is_empty() && self.body["missing_bucket"] == true {
            distinct.push(Json::Null);
        }
        distinct
    }

    /// Missing keys are the smallest.
    fn compare(&self, left: &Json, right: &Json) -> Ordering {
        let ascending = match (left, right) {
            (Json::Null, Json::Null) => Ordering::Equal,
            (Json::Null, _) => Ordering::Less,
            (_, Json::Null) => Ordering::Greater,
            (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
            (left, right) => order::compare_keys(left, right),
        };
        if self.body["order"] == "desc" {
            ascending.reverse()
        } else {
            ascending
        }
    }
}

fn key(value: &Value, kind: Kind) -> Json {
    match (value, kind) {
        (Value::Int(flag), Kind::Boolean) => json!(*flag != 0),
        (value, kind) => key_of(value, kind, None)["key"].clone(),
    }
}

pub(super) fn answer<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let sources: Vec<Source<'_>> = body["sources"]
        .as_array()
        .expect("sources")
        .iter()
        .map(|source| {
            let (name, definition) = only(source);
            let (kind, body) = only(definition);
            Source { name, kind, body }
        })
        .collect();
    let mut groups: Vec<(Vec<Json>, Vec<&Document>)> = Vec::new();
    for document in documents {
        let lists: Vec<Vec<Json>> = sources.iter().map(|source| source.keys(document)).collect();
        for key in terms::combinations(&lists) {
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(document),
                None => groups.push((key, vec![document])),
            }
        }
    }
    let compare = |left: &[Json], right: &[Json]| {
        let pairs = sources.iter().zip(left.iter().zip(right));
        let mut orders = pairs.map(|(source, (left, right))| source.compare(left, right));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    groups.sort_by(|(left, _), (right, _)| compare(left, right));
    if let Some(after) = body.get("after") {
        let after: Vec<Json> = sources.iter().map(|source| after[source.name].clone()).collect();
        groups.retain(|(key, _)| compare(key, &after).is_gt());
    }
    groups.truncate(body["size"].as_u64().unwrap_or(10) as usize);
    let named = |key: &[Json]| -> Json {
        let pairs = sources
            .iter()
            .zip(key)
            .map(|(source, key)| (source.name.to_owned(), key.clone()));
        Json::Object(pairs.collect())
    };
    let last = groups.last().map(|(key, _)| named(key));
    let bucket = |(key, documents): (Vec<Json>, Vec<&'d Document>)| Bucket {
        head: Map::from_iter([("key".to_owned(), named(&key))]),
        documents,
    };
    let mut answer = json!({"buckets": scope.list(groups.into_iter().map(bucket).collect(), sub)});
    if let Some(last) = last {
        answer["after_key"] = last;
    }
    answer
}
