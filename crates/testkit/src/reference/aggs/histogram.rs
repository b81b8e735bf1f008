//! `histogram` aggregation: buckets of numeric intervals.

use serde_json::{Map, Value as Json, json};

use super::super::schema::{self, Document};
use super::{Bucket, Scope, order, pipeline, values_of};

pub(super) fn answer<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let kind = schema::kind(body["field"].as_str().expect("a field"));
    let interval = body["interval"].as_f64().expect("an interval");
    let offset = body["offset"].as_f64().unwrap_or(0.0);
    let step = |value: f64| ((value - offset) / interval).floor() as i64;
    let bounds = |name: &str| {
        let side = |side: &str| body[name][side].as_f64();
        (side("min"), side("max"))
    };
    let hard = bounds("hard_bounds");
    let mut groups: Vec<(i64, Vec<&Document>)> = Vec::new();
    for document in documents {
        let values = values_of(body, document).into_iter().map(|value| value.number(kind));
        let start = |step: i64| step as f64 * interval + offset;
        // Hard bounds apply to the interval numbers of buckets.
        let inside = |number: &i64| {
            hard.0.is_none_or(|min| *number >= step(min)) && hard.1.is_none_or(|max| start(*number) <= start(step(max)))
        };
        let mut steps: Vec<i64> = values.map(step).filter(inside).collect();
        steps.dedup();
        for step in steps {
            match groups.iter_mut().find(|(known, _)| *known == step) {
                Some((_, group)) => group.push(document),
                None => groups.push((step, vec![document])),
            }
        }
    }
    let least = body["min_doc_count"].as_u64().unwrap_or(0) as usize;
    groups.retain(|(_, group)| group.len() >= least);
    if least == 0 {
        let (min, max) = bounds("extended_bounds");
        let found = || groups.iter().map(|(step, _)| *step);
        let first = found().min().into_iter().chain(min.map(step)).min();
        let last = found().max().into_iter().chain(max.map(step)).max();
        if let (Some(first), Some(last)) = (first, last) {
            let known: Vec<i64> = found().collect();
            groups.extend(
                (first..=last)
                    .filter(|step| !known.contains(step))
                    .map(|step| (step, Vec::new())),
            );
        }
    }
    groups.sort_by_key(|(step, _)| *step);
    let bucket = |(step, documents): (i64, Vec<&'d Document>)| Bucket {
        head: Map::from_iter([("key".to_owned(), json!(step as f64 * interval + offset))]),
        documents,
    };
    let mut printed: Vec<Json> = groups
        .into_iter()
        .map(bucket)
        .map(|bucket| scope.print(bucket.head, &bucket.documents, sub))
        .collect();
    if let Some(keys) = body.get("order") {
        order::sort(&mut printed, keys);
    }
    json!({"buckets": pipeline::inside(sub, printed)})
}
