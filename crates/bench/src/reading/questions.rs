//! Queries of the benchmark.

use anyhow::Context;
use firn_tools::generate::Random;
use serde_json::{Value, json};

use super::fields::{Roles, TIME};
use super::material::Material;

const HOUR_MS: i64 = 60 * 60 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A query with the bodies of all its requests.
pub(super) struct Question {
    pub(super) name: String,
    pub(super) answers: Answers,
    /// The body is always the same.
    pub(super) repeated: bool,
    bodies: Vec<String>,
}

/// The part of a response that must be equal on both servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The number of hits.
    Count,
    /// The number of hits, and which, in any order.
    Documents,
    /// The number of hits, and their sort values in order.
    Sorted,
    /// The number of hits and, roughly, the scores of the best.
    Scored,
    /// The number of hits and the buckets.
    Buckets,
}

impl Question {
    /// Returns `count` bodies from a position on.
    pub(super) fn bodies(&self, start: usize, count: usize) -> Vec<&str> {
        (start..start + count)
            .map(|position| self.bodies[position % self.bodies.len()].as_str())
            .collect()
    }
}

/// Draws values and builds bodies.
struct QuestionRunner<'a> {
    roles: &'a Roles,
    material: &'a Material,
    random: Random,
}

/// Returns all queries, each with `count` different bodies, and once more with one body.
pub(super) fn all(roles: &Roles, material: &Material, seed: u64, count: usize) -> anyhow::Result<Vec<Question>> {
    let mut list = list(roles, material);
    list.extend(hostile_list(roles));
    let mut asker = QuestionRunner {
        roles,
        material,
        random: Random::new(seed ^ 0x0a5_0be),
    };
    let mut questions = Vec::with_capacity(2 * list.len());
    for (name, answers, draw) in &list {
        questions.push(Question {
            name: name.clone(),
            answers: *answers,
            repeated: false,
            bodies: (0..count).map(|_| draw(&mut asker, Window::Most).to_string()).collect(),
        });
    }
    for (name, answers, draw) in list {
        questions.push(Question {
            name,
            answers,
            repeated: true,
            bodies: vec![draw(&mut asker, Window::All).to_string()],
        });
    }
    let last = questions.last().context("there are queries")?;
    debug_assert!(last.repeated);
    Ok(questions)
}

/// Draws a body.
type Draw = fn(&mut QuestionRunner<'_>, Window) -> Value;

/// Returns the name of each query, what its servers must agree on, and how its bodies are drawn.
fn list(roles: &Roles, material: &Material) -> Vec<(String, Answers, Draw)> {
    let (many, few, number, tenant) = (
        &roles.many.field,
        &roles.few.field,
        &roles.number.field,
        &roles.tenant.field,
    );
    let (text, code) = (&roles.text.field, &roles.code.field);
    let every = if material.time_ms.1 - material.time_ms.0 >= 2 * DAY_MS {
        "day"
    } else {
        "hour"
    };
    vec![
        (
            format!("needle on {many}, with the document"),
            Answers::Documents,
            |asker, _| asker.needle(),
        ),
        (
            format!("100 latest of a {tenant}, 7 days"),
            Answers::Sorted,
            |asker, _| asker.latest(),
        ),
        (
            format!("histogram by {every} and {few}, one {tenant}"),
            Answers::Buckets,
            |asker, _| {
                let filters = vec![asker.tenant(), asker.week()];
                asker.histogram(filters)
            },
        ),
        (
            format!("histogram by {every} and {few}, all"),
            Answers::Buckets,
            |asker, window| {
                let filters = asker.most(window);
                asker.histogram(filters)
            },
        ),
        (format!("cardinality of {many}"), Answers::Buckets, |asker, window| {
            let filters = asker.most(window);
            let field = asker.roles.many.field.clone();
            buckets(filters, json!({"distinct": {"cardinality": {"field": field}}}))
        }),
        (format!("top 5 of {many}"), Answers::Buckets, |asker, window| {
            asker.top(window, |roles| &roles.many.field)
        }),
        (format!("top 5 of {few}"), Answers::Buckets, |asker, window| {
            asker.top(window, |roles| &roles.few.field)
        }),
        (format!("top 5 of {number}"), Answers::Buckets, |asker, window| {
            asker.top(window, |roles| &roles.number.field)
        }),
        (format!("one value of {number}, count"), Answers::Count, |asker, _| {
            asker.number()
        }),
        (
            format!("leading wildcard on {code}, count"),
            Answers::Count,
            |asker, _| asker.wildcard(),
        ),
        (format!("one word in {text}, count"), Answers::Count, |asker, _| {
            counting(asker.word())
        }),
        (
            format!("one word in {text}, 10 latest"),
            Answers::Sorted,
            |asker, _| json!({"query": asker.word(), "sort": [{TIME: "desc"}], "size": 10}),
        ),
        (format!("two words in {text}, 10 best"), Answers::Scored, |asker, _| {
            asker.best()
        }),
    ]
}

/// Returns the queries that hostile events make slow.
fn hostile_list(roles: &Roles) -> Vec<(String, Answers, Draw)> {
    let (many, tenant, text) = (&roles.many.field, &roles.tenant.field, &roles.text.field);
    vec![
        (
            format!("distinct {many}, part of the time"),
            Answers::Buckets,
            |asker, _| {
                let filters = asker.most(Window::Most);
                let field = asker.roles.many.field.clone();
                buckets(filters, json!({"distinct": {"cardinality": {"field": field}}}))
            },
        ),
        (
            format!("top 5 of {many}, part of the time"),
            Answers::Buckets,
            |asker, _| asker.top(Window::Most, |roles| &roles.many.field),
        ),
        (
            format!("100 latest of a small {tenant}"),
            Answers::Sorted,
            |asker, _| asker.latest_of_small(),
        ),
        (
            format!("three words in {text}, one of them in most events, 10 best, exact total"),
            Answers::Scored,
            |asker, _| {
                let mut body = asker.three_words();
                body["track_total_hits"] = json!(true);
                body
            },
        ),
        (
            format!("three words in {text}, one of them in most events, 10 best"),
            Answers::Scored,
            |asker, _| asker.three_words(),
        ),
    ]
}

/// Time range of a query without a tenant.
#[derive(Debug, Clone, Copy)]
enum Window {
    /// Without an hour or so at both ends, so that each one differs.
    Most,
    /// No condition.
    All,
}

impl QuestionRunner<'_> {
    fn draw<'b, T>(&mut self, list: &'b [T]) -> &'b T {
        &list[self.random.below(list.len() as u64) as usize]
    }

    fn tenant(&mut self) -> Value {
        let material = self.material;
        let value = self.draw(&material.tenants);
        json!({"term": {&self.roles.tenant.field: value}})
    }

    /// Returns seven days (or half of all, if that is less) that end somewhere in the last quarter.
    fn week(&mut self) -> Value {
        let (first, last) = self.material.time_ms;
        let span = last - first;
        let end = last - self.random.below((span / 4).max(1) as u64) as i64;
        let length = if span < DAY_MS { span / 2 } else { 7 * DAY_MS };
        range(end - length, end)
    }

    fn most(&mut self, window: Window) -> Vec<Value> {
        let (first, last) = self.material.time_ms;
        // At most 2 % of all.
        let mut part = || self.random.below(((last - first) / 100).max(1) as u64) as i64;
        match window {
            Window::All => Vec::new(),
            Window::Most => vec![range(first + part(), last - part())],
        }
    }

    fn needle(&mut self) -> Value {
        let material = self.material;
        let value = self.draw(&material.needles);
        json!({"query": {"term": {&self.roles.many.field: value}}})
    }

    fn latest(&mut self) -> Value {
        let filters = vec![self.tenant(), self.week()];
        json!({"query": {"bool": {"filter": filters}}, "sort": [{TIME: "desc"}], "size": 100})
    }

    fn latest_of_small(&mut self) -> Value {
        let material = self.material;
        let value = self.draw(&material.small_tenants);
        let filters = vec![json!({"term": {&self.roles.tenant.field: value}}), self.week()];
        json!({"query": {"bool": {"filter": filters}}, "sort": [{TIME: "desc"}], "size": 100})
    }

    fn histogram(&mut self, filters: Vec<Value>) -> Value {
        let (first, last) = self.material.time_ms;
        let every = if last - first >= 2 * DAY_MS { "day" } else { "hour" };
        buckets(
            filters,
            json!({"times": {
                "date_histogram": {"field": TIME, "calendar_interval": every},
                "aggs": {"kinds": {"terms": {"field": self.roles.few.field, "size": 20}}}
            }}),
        )
    }

    fn top(&mut self, window: Window, field: fn(&Roles) -> &String) -> Value {
        let filters = self.most(window);
        buckets(
            filters,
            json!({"top": {"terms": {"field": field(self.roles), "size": 5}}}),
        )
    }

    fn number(&mut self) -> Value {
        let material = self.material;
        let value = self.draw(&material.numbers);
        counting(json!({"term": {&self.roles.number.field: value}}))
    }

    /// Returns `*A42?` for `K7XA42Q`.
    fn wildcard(&mut self) -> Value {
        let material = self.material;
        let code = self.draw(&material.codes);
        let letters: Vec<char> = code.chars().collect();
        let mut pattern = "*".to_owned();
        for &letter in &letters[letters.len() - 4..letters.len() - 1] {
            if matches!(letter, '*' | '?' | '\\') {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern.push('?');
        counting(json!({"wildcard": {&self.roles.code.field: {"value": pattern}}}))
    }

    fn word(&mut self) -> Value {
        let material = self.material;
        let words = self.draw(&material.texts);
        let word = self.draw(words);
        json!({"match": {&self.roles.text.field: word}})
    }

    fn best(&mut self) -> Value {
        let query = self.two_words();
        json!({"query": {"match": {&self.roles.text.field: query}}})
    }

    /// Returns two words of one event and the word that most events have.
    fn three_words(&mut self) -> Value {
        let query = format!("{} {}", self.two_words(), self.material.common_word);
        json!({"query": {"match": {&self.roles.text.field: query}}})
    }

    fn two_words(&mut self) -> String {
        let material = self.material;
        let words = self.draw(&material.texts);
        let first = self.random.below(words.len() as u64) as usize;
        let other = (first + 1 + self.random.below(words.len() as u64 - 1) as usize) % words.len();
        format!("{} {}", words[first], words[other])
    }
}

/// `_count` has no parameter for the request cache, so a search without hits counts.
fn counting(query: Value) -> Value {
    json!({"query": query, "size": 0, "track_total_hits": true})
}

fn range(from_ms: i64, to_ms: i64) -> Value {
    json!({"range": {TIME: {"gte": from_ms, "lt": to_ms, "format": "epoch_millis"}}})
}

fn buckets(filters: Vec<Value>, aggs: Value) -> Value {
    let query = match filters.is_empty() {
        true => json!({"match_all": {}}),
        false => json!({"bool": {"filter": filters}}),
    };
    json!({"query": query, "size": 0, "aggs": aggs})
}
