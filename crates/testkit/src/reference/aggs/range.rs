//! Range aggregations: `range`, `date_range`, `ip_range`. Lower bounds are inclusive.

use serde_json::{Map, Value as Json, json};

use super::super::dates as instants;
use super::super::schema::{self, Document, Value, scalar_text};
use super::{Bucket, Scope, values_of};

/// Range with its numeric bounds and its printed fields.
struct Range {
    from: Option<f64>,
    to: Option<f64>,
    key: String,
    head: Map<String, Json>,
}

pub(super) fn numbers<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let text = |bound: Option<f64>| bound.map_or("*".to_owned(), |bound| format!("{bound:?}"));
    let ranges = body["ranges"].as_array().expect("ranges").iter().map(|range| {
        let (from, to) = (range["from"].as_f64(), range["to"].as_f64());
        let mut head = Map::new();
        from.into_iter()
            .for_each(|from| drop(head.insert("from".into(), json!(from))));
        to.into_iter().for_each(|to| drop(head.insert("to".into(), json!(to))));
        let own = range["key"].as_str().map(str::to_owned);
        let key = own.unwrap_or_else(|| format!("{}-{}", text(from), text(to)));
        Range { from, to, key, head }
    });
    buckets(scope, body, sub, documents, ranges.collect())
}

pub(super) fn dates<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let zone = instants::zone(body["time_zone"].as_str().unwrap_or("UTC"));
    let format = body["format"].as_str();
    let ranges = body["ranges"].as_array().expect("ranges").iter().map(|range| {
        let ms = |side: &str| {
            let text = scalar_text(&range[side])?;
            let ns = instants::parse(&text, false, &zone).expect("a date");
            Some(ns.div_euclid(1_000_000) as f64)
        };
        let (from, to) = (ms("from"), ms("to"));
        let text = |ms: f64| instants::print(ms as i64, format, &zone);
        let mut head = Map::new();
        for (name, bound) in [("from", from), ("to", to)] {
            if let Some(ms) = bound {
                head.insert(name.into(), json!(ms));
                head.insert(format!("{name}_as_string"), json!(text(ms)));
            }
        }
        let side = |bound: Option<f64>| bound.map_or("*".to_owned(), text);
        let own = range["key"].as_str().map(str::to_owned);
        let key = own.unwrap_or_else(|| format!("{}-{}", side(from), side(to)));
        Range { from, to, key, head }
    });
    buckets(scope, body, sub, documents, ranges.collect())
}

fn buckets<'d>(
    scope: &Scope<'d>,
    body: &Json,
    sub: Option<&Json>,
    documents: &[&'d Document],
    mut ranges: Vec<Range>,
) -> Json {
    let kind = schema::kind(body["field"].as_str().expect("a field"));
    let low = |range: &Range| range.from.unwrap_or(f64::NEG_INFINITY);
    let high = |range: &Range| range.to.unwrap_or(f64::INFINITY);
    ranges.sort_by(|left, right| {
        low(left)
            .total_cmp(&low(right))
            .then(high(left).total_cmp(&high(right)))
    });
    let inside = |range: &Range, document: &Document| {
        let numbers = values_of(body, document).into_iter().map(|value| value.number(kind));
        numbers
            .into_iter()
            .any(|number| low(range) <= number && number < high(range))
    };
    let found = ranges.into_iter().map(|range| {
        let documents = documents
            .iter()
            .copied()
            .filter(|document| inside(&range, document))
            .collect();
        let mut head = Map::new();
        head.insert("key".into(), json!(range.key));
        head.extend(range.head);
        Bucket { head, documents }
    });
    print(scope, body, sub, found.collect())
}

pub(super) fn addresses<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let field = body["field"].as_str().expect("a field");
    let mut ranges: Vec<(Option<u128>, Option<u128>, String)> = Vec::new();
    for range in body["ranges"].as_array().expect("ranges") {
        let own = range["key"].as_str().map(str::to_owned);
        if let Some(mask) = range["mask"].as_str() {
            let (first, last) = schema::block(mask).expect("a block");
            ranges.push((Some(first), Some(last + 1), own.unwrap_or_else(|| mask.to_owned())));
            continue;
        }
        let side = |side: &str| {
            range[side]
                .as_str()
                .map(|text| schema::address(text).expect("an address"))
        };
        let (from, to) = (side("from"), side("to"));
        let text = |bound: Option<u128>| bound.map_or("*".to_owned(), schema::print_address);
        ranges.push((from, to, own.unwrap_or_else(|| format!("{}-{}", text(from), text(to)))));
    }
    ranges.sort_by_key(|(from, to, _)| (from.unwrap_or(0), to.unwrap_or(u128::MAX)));
    let found = ranges.into_iter().map(|(from, to, key)| {
        let inside = |value: &Value| match value {
            Value::Ip(bits) => from.is_none_or(|from| *bits >= from) && to.is_none_or(|to| *bits < to),
            _ => false,
        };
        let mut head = Map::new();
        head.insert("key".into(), json!(key));
        from.into_iter()
            .for_each(|from| drop(head.insert("from".into(), json!(schema::print_address(from)))));
        to.into_iter()
            .for_each(|to| drop(head.insert("to".into(), json!(schema::print_address(to)))));
        let documents = documents
            .iter()
            .copied()
            .filter(|document| document.values(field).iter().any(inside));
        Bucket {
            head,
            documents: documents.collect(),
        }
    });
    print(scope, body, sub, found.collect())
}

fn print<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, found: Vec<Bucket<'d>>) -> Json {
    let mut printed = scope.list(found, sub);
    if body["keyed"] != true {
        return json!({"buckets": printed});
    }
    let mut keyed = Map::new();
    for bucket in &mut printed {
        let bucket = bucket.as_object_mut().expect("a bucket");
        let key = bucket.remove("key").expect("a key");
        keyed.insert(key.as_str().expect("a text").to_owned(), Json::Object(bucket.clone()));
    }
    json!({"buckets": keyed})
}
