//! Property tests: the answer does not depend on the distribution of documents over segments, and equals that of a
//! simple loop over the documents.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Shard, ids, run};

#[derive(Debug, Clone)]
struct Event {
    name: Option<&'static str>,
    tags: Vec<&'static str>,
    number: Option<i64>,
    ms: Option<i64>,
    deleted: bool,
}

fn event() -> impl Strategy<Value = Event> {
    let word = prop::sample::select(vec!["a", "b", "c", "d"]);
    (
        prop::option::weighted(0.8, word.clone()),
        prop::collection::vec(word, 0..3),
        prop::option::weighted(0.8, prop_oneof![-3i64..4, Just(i64::MAX), Just(i64::MIN)]),
        prop::option::weighted(0.9, (0i64..96).prop_map(|hours| 1_700_000_000_000 + hours * 3_600_000)),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(name, tags, number, ms, deleted)| Event {
            name,
            tags,
            number,
            ms,
            deleted,
        })
}

impl Event {
    fn source(&self, id: usize) -> Value {
        let mut source = json!({"id": format!("{id:03}"), "tags": self.tags});
        if let Some(name) = self.name {
            source["name"] = json!(name);
        }
        if let Some(number) = self.number {
            source["number"] = json!(number);
        }
        if let Some(ms) = self.ms {
            source["@timestamp"] = json!(ms);
        }
        source
    }
}

fn shard(events: &[Event], cuts: &[usize]) -> Shard {
    let mut shard = Shard::new(&json!({"properties": {
        "@timestamp": {"type": "date"}, "id": {"type": "keyword"}, "name": {"type": "keyword"},
        "tags": {"type": "keyword"}, "number": {"type": "long"}
    }}));
    let mut bounds: Vec<usize> = cuts.iter().map(|cut| cut % (events.len() + 1)).collect();
    bounds.extend([0, events.len()]);
    bounds.sort_unstable();
    bounds.dedup();
    for pair in bounds.windows(2) {
        let part = &events[pair[0]..pair[1]];
        let documents: Vec<Value> = part
            .iter()
            .enumerate()
            .map(|(position, event)| event.source(pair[0] + position))
            .collect();
        let deleted: Vec<usize> = part
            .iter()
            .enumerate()
            .filter_map(|(position, event)| event.deleted.then_some(position))
            .collect();
        shard.segment(&documents, &deleted);
    }
    shard
}

/// A query and its meaning.
#[derive(Debug, Clone)]
enum Question {
    CacheKey(&'static str),
    Tags(Vec<&'static str>),
    Number(Option<i64>, Option<i64>),
    Since(i64, i64),
    HasName,
    All(Vec<Question>),
    Any(Vec<Question>),
    Not(Box<Question>),
}

fn question() -> impl Strategy<Value = Question> {
    let word = prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let bound = || prop::option::of(prop_oneof![-4i64..5, Just(i64::MAX), Just(i64::MIN)]);
    let leaf = prop_oneof![
        word.clone().prop_map(Question::CacheKey),
        prop::collection::vec(word, 0..3).prop_map(Question::Tags),
        (bound(), bound()).prop_map(|(from, to)| Question::Number(from, to)),
        (0i64..96, 0i64..96).prop_map(|(from, to)| Question::Since(
            1_700_000_000_000 + from * 3_600_000,
            1_700_000_000_000 + to * 3_600_000
        )),
        Just(Question::HasName),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Question::All),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Question::Any),
            inner.prop_map(|inner| Question::Not(Box::new(inner))),
        ]
    })
}

impl Question {
    fn query(&self) -> Value {
        let each = |parts: &[Question]| -> Vec<Value> { parts.iter().map(Question::query).collect() };
        match self {
            Self::CacheKey(name) => json!({"term": {"name": name}}),
            Self::Tags(tags) => json!({"terms": {"tags": tags}}),
            Self::Number(from, to) => {
                let mut range = json!({});
                if let Some(from) = from {
                    range["gte"] = json!(from);
                }
                if let Some(to) = to {
                    range["lt"] = json!(to);
                }
                json!({"range": {"number": range}})
            }
            Self::Since(from, to) => json!({"range": {"@timestamp": {"gt": from, "lte": to}}}),
            Self::HasName => json!({"exists": {"field": "name"}}),
            Self::All(parts) => json!({"bool": {"filter": each(parts)}}),
            Self::Any(parts) => json!({"bool": {"should": each(parts)}}),
            Self::Not(part) => json!({"bool": {"must_not": [part.query()]}}),
        }
    }

    fn holds(&self, event: &Event) -> bool {
        match self {
            Self::CacheKey(name) => event.name == Some(name),
            Self::Tags(tags) => tags.iter().any(|tag| event.tags.contains(tag)),
            Self::Number(from, to) => event
                .number
                .is_some_and(|number| from.is_none_or(|from| number >= from) && to.is_none_or(|to| number < to)),
            Self::Since(from, to) => event.ms.is_some_and(|ms| ms > *from && ms <= *to),
            Self::HasName => event.name.is_some(),
            Self::All(parts) => parts.iter().all(|part| part.holds(event)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(event)),
            Self::Not(part) => !part.holds(event),
        }
    }
}

/// Returns the number of cases: `PROPTEST_CASES`, or as many as take a few seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "the number of cases comes from the environment"
)]
fn config() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(48),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_equal_those_of_a_loop(
        events in prop::collection::vec(event(), 1..40),
        cuts in prop::collection::vec(0usize..40, 0..4),
        question in question(),
        descending in any::<bool>(),
        size in 1usize..12,
    ) {
        let shard = shard(&events, &cuts);
        let matching: Vec<(usize, &Event)> = events
            .iter()
            .enumerate()
            .filter(|(_, event)| !event.deleted && question.holds(event))
            .collect();
        let order = if descending { "desc" } else { "asc" };
        let body = json!({
            "query": question.query(), "size": size, "track_total_hits": true,
            "sort": [{"@timestamp": order}, {"number": {"order": order, "missing": "_first"}}, "id"],
            "aggs": {
                "names": {"terms": {"field": "name", "size": 100}, "aggs": {"sum": {"stats": {"field": "number"}}}},
                "tags": {"terms": {"field": "tags", "size": 2}},
                "numbers": {"terms": {"field": "number", "size": 100, "missing": 7}},
                "days": {"date_histogram": {"field": "@timestamp", "calendar_interval": "day", "min_doc_count": 1},
                         "aggs": {"tags": {"cardinality": {"field": "tags"}}}},
                "distinct": {"cardinality": {"field": "number"}},
                "high": {"filter": {"range": {"number": {"gt": 0}}}}
            }
        });
        let response = run(vec![shard.ready()], &body).unwrap();
        prop_assert_eq!(response.total.unwrap().value, matching.len() as u64);

        // The page.
        let mut sorted = matching.clone();
        sorted.sort_by(|(a_id, a), (b_id, b)| {
            let turn = |order: std::cmp::Ordering| if descending { order.reverse() } else { order };
            let by_time = a.ms.is_none().cmp(&b.ms.is_none()).then_with(|| turn(a.ms.cmp(&b.ms)));
            // A document without a number ties with those that have the first possible number.
            let first = if descending { i64::MAX } else { i64::MIN };
            let by_number = turn(a.number.unwrap_or(first).cmp(&b.number.unwrap_or(first)));
            by_time.then(by_number).then(a_id.cmp(b_id))
        });
        let expect: Vec<String> = sorted.iter().take(size).map(|(id, _)| format!("{id:03}")).collect();
        prop_assert_eq!(ids(&response), expect.join(" "));

        // The aggregations.
        let answer = response.aggregations.unwrap();
        let mut names: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut tags: BTreeMap<&str, u64> = BTreeMap::new();
        let mut numbers: BTreeMap<i64, u64> = BTreeMap::new();
        let mut days: BTreeMap<i64, (u64, BTreeSet<&str>)> = BTreeMap::new();
        for (_, event) in &matching {
            if let Some(name) = event.name {
                let entry = names.entry(name).or_default();
                entry.0 += 1;
                entry.1 += u64::from(event.number.is_some());
            }
            for tag in event.tags.iter().collect::<BTreeSet<_>>() {
                *tags.entry(tag).or_default() += 1;
            }
            *numbers.entry(event.number.unwrap_or(7)).or_default() += 1;
            if let Some(ms) = event.ms {
                let entry = days.entry(ms.div_euclid(86_400_000) * 86_400_000).or_default();
                entry.0 += 1;
                entry.1.extend(&event.tags);
            }
        }
        let buckets = |name: &str| answer[name]["buckets"].as_array().unwrap().clone();
        let found: BTreeMap<String, (u64, u64)> = buckets("names")
            .iter()
            .map(|bucket| {
                let key = bucket["key"].as_str().unwrap().to_owned();
                (key, (bucket["doc_count"].as_u64().unwrap(), bucket["sum"]["count"].as_u64().unwrap()))
            })
            .collect();
        prop_assert_eq!(found, names.iter().map(|(name, counts)| ((*name).to_owned(), *counts)).collect());

        let mut ranked: Vec<(&str, u64)> = tags.into_iter().collect();
        ranked.sort_by_key(|(tag, count)| (std::cmp::Reverse(*count), *tag));
        let found: Vec<(String, u64)> = buckets("tags")
            .iter()
            .map(|bucket| (bucket["key"].as_str().unwrap().to_owned(), bucket["doc_count"].as_u64().unwrap()))
            .collect();
        let expect: Vec<(String, u64)> = ranked.iter().take(2).map(|(tag, count)| ((*tag).to_owned(), *count)).collect();
        prop_assert_eq!(found, expect);
        let rest: u64 = ranked.iter().skip(2).map(|(_, count)| count).sum();
        prop_assert_eq!(answer["tags"]["sum_other_doc_count"].as_u64(), Some(rest));

        let found: BTreeMap<i64, u64> = buckets("numbers")
            .iter()
            .map(|bucket| (bucket["key"].as_i64().unwrap(), bucket["doc_count"].as_u64().unwrap()))
            .collect();
        prop_assert_eq!(&found, &numbers);

        let found: Vec<(i64, u64, u64)> = buckets("days")
            .iter()
            .map(|bucket| {
                let field = |value: &Value| value.as_u64().unwrap();
                (bucket["key"].as_i64().unwrap(), field(&bucket["doc_count"]), field(&bucket["tags"]["value"]))
            })
            .collect();
        let expect: Vec<(i64, u64, u64)> =
            days.into_iter().map(|(day, (count, tags))| (day, count, tags.len() as u64)).collect();
        prop_assert_eq!(found, expect);

        let distinct: BTreeSet<i64> = matching.iter().filter_map(|(_, event)| event.number).collect();
        prop_assert_eq!(answer["distinct"]["value"].as_u64(), Some(distinct.len() as u64));
        let high = matching.iter().filter(|(_, event)| event.number.is_some_and(|number| number > 0)).count();
        prop_assert_eq!(answer["high"]["doc_count"].as_u64(), Some(high as u64));
    }
}
