//! `date_histogram` aggregation: buckets of time intervals.

use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json, json};

use super::super::dates::{self, Interval, Unit};
use super::super::schema::{self, Document, scalar_text};
use super::{Bucket, Scope, order, pipeline, values_of};

/// Rounding of a date histogram, also inside `composite`.
pub(super) struct Rounding {
    interval: Interval,
    pub(super) zone: TimeZone,
    offset_ms: i64,
}

impl Rounding {
    pub(super) fn new(body: &Json) -> Self {
        let interval = match (body["fixed_interval"].as_str(), body["calendar_interval"].as_str()) {
            (Some(fixed), _) => Interval::Fixed(dates::duration_ms(fixed)),
            (_, Some(unit)) => Interval::Calendar(Unit::of_name(unit)),
            _ => panic!("no interval in {body}"),
        };
        Self {
            interval,
            zone: dates::zone(body["time_zone"].as_str().unwrap_or("UTC")),
            offset_ms: body["offset"].as_str().map_or(0, dates::duration_ms),
        }
    }

    /// Returns the start of an instant's bucket, in ms.
    pub(super) fn start(&self, ms: i64) -> i64 {
        self.interval.start(ms - self.offset_ms, &self.zone) + self.offset_ms
    }

    fn next(&self, start_ms: i64) -> i64 {
        self.interval.next(start_ms - self.offset_ms, &self.zone) + self.offset_ms
    }
}

pub(super) fn answer<'d>(scope: &Scope<'d>, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
    let kind = schema::kind(body["field"].as_str().expect("a field"));
    let rounding = Rounding::new(body);
    let bounds = |name: &str| {
        let side = |side: &str| {
            let text = scalar_text(&body[name][side])?;
            let ns = dates::parse(&text, false, &rounding.zone).expect("a date");
            Some(ns.div_euclid(1_000_000) as i64)
        };
        (side("min"), side("max"))
    };
    let hard = bounds("hard_bounds");
    let inside = |start: &i64| hard.0.is_none_or(|min| *start >= min) && hard.1.is_none_or(|max| *start < max);
    let mut groups: Vec<(i64, Vec<&Document>)> = Vec::new();
    for document in documents {
        let values = values_of(body, document)
            .into_iter()
            .map(|value| value.number(kind) as i64);
        let mut starts: Vec<i64> = values.map(|ms| rounding.start(ms)).filter(inside).collect();
        starts.dedup();
        for start in starts {
            match groups.iter_mut().find(|(known, _)| *known == start) {
                Some((_, group)) => group.push(document),
                None => groups.push((start, vec![document])),
            }
        }
    }
    let least = body["min_doc_count"].as_u64().unwrap_or(0) as usize;
    groups.retain(|(_, group)| group.len() >= least);
    if least == 0 {
        let (min, max) = bounds("extended_bounds");
        let found: Vec<i64> = groups.iter().map(|(start, _)| *start).collect();
        let first = found.iter().copied().chain(min.map(|min| rounding.start(min))).min();
        let last = found.iter().copied().chain(max.map(|max| rounding.start(max))).max();
        // Without documents both bounds are needed to define the first and the last bucket.
        let known = !found.is_empty() || (min.is_some() && max.is_some());
        if let (Some(mut start), Some(last), true) = (first, last, known) {
            while start <= last {
                if !found.contains(&start) && inside(&start) {
                    groups.push((start, Vec::new()));
                }
                start = rounding.next(start);
            }
        }
    }
    groups.sort_by_key(|(start, _)| *start);
    let bucket = |(start, documents): (i64, Vec<&'d Document>)| {
        let mut head = Map::new();
        head.insert(
            "key_as_string".into(),
            json!(dates::print(start, body["format"].as_str(), &rounding.zone)),
        );
        head.insert("key".into(), json!(start));
        Bucket { head, documents }
    };
    let mut printed: Vec<Json> = groups
        .into_iter()
        .map(bucket)
        .map(|bucket| scope.print(bucket.head, &bucket.documents, sub))
        .collect();
    if let Some(keys) = body.get("order") {
        order::sort(&mut printed, keys);
    }
    let printed = pipeline::inside(sub, printed);
    if body["keyed"] == true {
        let entry = |bucket: Json| (bucket["key_as_string"].as_str().expect("a text").to_owned(), bucket);
        let buckets: Map<String, Json> = printed.into_iter().map(entry).collect();
        return json!({"buckets": buckets});
    }
    json!({"buckets": printed})
}
