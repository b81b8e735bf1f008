//! Aggregations by value: `terms`, `rare_terms`, `multi_terms`.

use serde_json::{Map, Value as Json, json};

use super::super::schema::{self, Document, Kind, Value};
use super::super::text;
use super::{Bucket, Scope, key_of, order, values_of};

/// Computes `terms`. Shards omit no term, because the generator sets a large `shard_size`.
pub(super) fn answer<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let buckets = by_value(body, documents);
    let least = body["min_doc_count"].as_u64().unwrap_or(1) as usize;
    let buckets = buckets
        .into_iter()
        .filter(|bucket| bucket.documents.len() >= least)
        .collect();
    let size = body["size"].as_u64().unwrap_or(10) as usize;
    let default = json!({"_count": "desc"});
    ordered(scope, buckets, sub, body.get("order").unwrap_or(&default), size)
}

/// Computes `rare_terms`: terms in few documents, the rarest first.
pub(super) fn rare<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let most = body["max_doc_count"].as_u64().unwrap_or(1) as usize;
    let mut buckets = by_value(body, documents);
    buckets.retain(|bucket| bucket.documents.len() <= most);
    buckets.sort_by_key(|bucket| bucket.documents.len());
    json!({"buckets": scope.list(buckets, sub)})
}

/// Computes `multi_terms`: combinations of values of several fields.
pub(super) fn multi<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let sources: Vec<&Json> = body["terms"].as_array().expect("sources").iter().collect();
    let mut groups: Vec<(Vec<Value>, Vec<&Document>)> = Vec::new();
    for document in documents {
        let lists: Vec<Vec<Value>> = sources
            .iter()
            .map(|source| distinct(values_of(source, document)))
            .collect();
        for key in combinations(&lists) {
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(document),
                None => groups.push((key, vec![document])),
            }
        }
    }
    groups.sort_by(|(left, _), (right, _)| {
        let mut orders = left.iter().zip(right).map(|(left, right)| left.compare(right));
        orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    let kinds: Vec<Kind> = sources
        .iter()
        .map(|source| schema::kind(source["field"].as_str().expect("a field")))
        .collect();
    let bucket = |(key, documents): (Vec<Value>, Vec<&'d Document>)| {
        let parts: Vec<Map<String, Json>> = key
            .iter()
            .zip(&kinds)
            .map(|(value, kind)| key_of(value, *kind, None))
            .collect();
        // In this aggregation a key has its printed form; booleans stay booleans.
        let printed = |(part, kind): (&Map<String, Json>, &Kind)| match part.get("key_as_string") {
            Some(text) if *kind == Kind::Boolean => json!(text == "true"),
            Some(text) => text.clone(),
            None => part["key"].clone(),
        };
        let keys: Vec<Json> = parts.iter().zip(&kinds).map(printed).collect();
        let texts: Vec<String> = keys
            .iter()
            .map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned))
            .collect();
        let mut head = Map::new();
        head.insert("key".into(), json!(keys));
        head.insert("key_as_string".into(), json!(texts.join("|")));
        Bucket { head, documents }
    };
    let size = body["size"].as_u64().unwrap_or(10) as usize;
    let default = json!({"_count": "desc"});
    ordered(
        scope,
        groups.into_iter().map(bucket).collect(),
        sub,
        body.get("order").unwrap_or(&default),
        size,
    )
}

/// Returns every combination of one element per list.
pub(super) fn combinations<T: Clone>(lists: &[Vec<T>]) -> Vec<Vec<T>> {
    let mut found = vec![Vec::new()];
    for list in lists {
        let longer = found.iter().flat_map(|head: &Vec<T>| {
            list.iter()
                .map(move |value| head.iter().cloned().chain([value.clone()]).collect())
        });
        found = longer.collect();
    }
    found
}

/// Removes duplicates: a document counts once per value.
pub(super) fn distinct(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by(Value::compare);
    values.dedup();
    values
}

/// Returns buckets by key, ascending.
fn by_value<'d>(body: &Json, documents: &[&'d Document]) -> Vec<Bucket<'d>> {
    let kind = schema::kind(body["field"].as_str().expect("a field"));
    let mut groups: Vec<(Value, Vec<&Document>)> = Vec::new();
    for document in documents {
        let mut values = values_of(body, document);
        if kind == Kind::DateNanos {
            // Keys are in ms; values in ns that fall into one ms share a key.
            values = values
                .iter()
                .map(|value| Value::Int(value.number(kind) as i128))
                .collect();
        }
        for value in distinct(values) {
            match groups.iter_mut().find(|(known, _)| *known == value) {
                Some((_, group)) => group.push(document),
                None => groups.push((value, vec![document])),
            }
        }
    }
    groups.sort_by(|(left, _), (right, _)| left.compare(right));
    let kind = if kind == Kind::DateNanos { Kind::Date } else { kind };
    let bucket = |(value, documents): (Value, Vec<&'d Document>)| Bucket {
        head: key_of(&value, kind, body["format"].as_str()),
        documents,
    };
    let mut buckets: Vec<Bucket<'d>> = groups.into_iter().map(bucket).collect();
    let listed = |filter: &Json, bucket: &Bucket<'_>| {
        let key = &bucket.head["key"];
        match filter {
            Json::String(pattern) => text::whole(pattern, false).is_match(key.as_str().expect("a string")),
            list => {
                let text = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                list.as_array()
                    .expect("a list")
                    .iter()
                    .any(|value| value == key || value.as_str() == Some(&text))
            }
        }
    };
    if let Some(include) = body.get("include") {
        buckets.retain(|bucket| listed(include, bucket));
    }
    if let Some(exclude) = body.get("exclude") {
        buckets.retain(|bucket| !listed(exclude, bucket));
    }
    buckets
}

fn ordered<'d>(scope: &Scope<'d>, buckets: Vec<Bucket<'d>>, sub: Option<&Json>, order: &Json, size: usize) -> Json {
    // The order may refer to sub-aggregations, so all buckets are printed before truncation; pipeline aggregations run
    // after it.
    let mut printed: Vec<Json> = buckets
        .into_iter()
        .map(|bucket| scope.print(bucket.head, &bucket.documents, sub))
        .collect();
    order::sort(&mut printed, order);
    let rest = printed.split_off(size.min(printed.len()));
    let other: u64 = rest
        .iter()
        .map(|bucket| bucket["doc_count"].as_u64().expect("a count"))
        .sum();
    let buckets = super::pipeline::inside(sub, printed);
    json!({"doc_count_error_upper_bound": {"$any": true}, "sum_other_doc_count": other, "buckets": buckets})
}
