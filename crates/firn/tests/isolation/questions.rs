//! Random requests of `alpha`.

use serde_json::{Value, json};

use crate::MARK;

/// Generator of random requests; the seed is printed.
pub(crate) struct Questions(pub(crate) fastrand::Rng);

impl Questions {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.usize(..from.len())]
    }

    fn field(&mut self) -> String {
        let fields = [
            "class",
            "message",
            "message.keyword",
            "tenant",
            "@timestamp",
            "_id",
            "_index",
            "*",
            "MARK_field.inner",
            "al_field.inner",
            "MARK_field.*",
            "_seq_no",
        ];
        self.pick(&fields).replace("MARK", MARK)
    }

    fn text(&mut self) -> String {
        let texts = [
            "al-1",
            "MARK-1",
            "MARK*",
            "says",
            "MARK",
            "bravo",
            "*",
            "MARK text",
            "2026-01-05",
            "3",
        ];
        self.pick(&texts).replace("MARK", MARK)
    }

    fn query(&mut self, depth: usize) -> Value {
        let (field, text) = (self.field(), self.text());
        match self.0.u8(0..if depth == 0 { 11 } else { 14 }) {
            0 => json!({"match_all": {}}),
            1 => json!({"term": {field: text}}),
            2 => json!({"match": {field: text}}),
            3 => json!({"prefix": {field: text}}),
            4 => json!({"wildcard": {field: text}}),
            5 => json!({"fuzzy": {field: text}}),
            6 => json!({"range": {field: {"gte": text}}}),
            7 => json!({"exists": {"field": field}}),
            8 => json!({"query_string": {"query": text}}),
            9 => {
                json!({"ids": {"values": [text, format!("{MARK}-{}", self.0.u8(0..40)), format!("al-{}", self.0.u8(0..5))]}})
            }
            10 => json!({"multi_match": {"query": text, "fields": [field, "*"]}}),
            11 => json!({"bool": {"must_not": [self.query(depth - 1)]}}),
            12 => json!({"bool": {"should": [self.query(depth - 1), self.query(depth - 1)]}}),
            _ => json!({"bool": {"filter": [self.query(depth - 1)], "must": [self.query(depth - 1)]}}),
        }
    }

    /// Returns a query without the mark, because an explanation repeats the words of the query one by one.
    fn unmarked_query(&mut self) -> Value {
        loop {
            let query = self.query(1);
            if !query.to_string().contains(MARK) {
                return query;
            }
        }
    }

    fn aggregation(&mut self, depth: usize) -> Value {
        let field = self.field();
        let mut aggregation = match self.0.u8(0..12) {
            0 => json!({"terms": {"field": field, "min_doc_count": self.0.u8(0..2), "size": 1000}}),
            1 => json!({"cardinality": {"field": field}}),
            2 => json!({"significant_terms": {"field": field, "min_doc_count": 1}}),
            3 => json!({"global": {}}),
            4 => json!({"min": {"field": field}}),
            5 => json!({"max": {"field": field}}),
            6 => json!({"rare_terms": {"field": field}}),
            7 => json!({"top_hits": {"size": 5}}),
            8 => json!({"filter": self.query(1)}),
            9 => json!({"date_histogram": {"field": "@timestamp", "calendar_interval": "day", "min_doc_count": 0}}),
            10 => json!({"composite": {"size": 100, "sources": [{"key": {"terms": {"field": field}}}]}}),
            _ => json!({"missing": {"field": field}}),
        };
        let buckets = ["terms", "global", "filter", "missing", "composite", "date_histogram"];
        if depth > 0 && buckets.iter().any(|kind| aggregation.get(kind).is_some()) {
            aggregation["aggs"] = json!({"below": self.aggregation(depth - 1)});
        }
        aggregation
    }

    fn search(&mut self) -> Value {
        let mut body = json!({"query": self.query(2), "size": self.0.u8(0..50)});
        for part in 0..6 {
            match self.0.bool().then_some(part) {
                Some(0) => body["aggs"] = json!({"one": self.aggregation(2), "two": self.aggregation(1)}),
                Some(1) => {
                    body["sort"] =
                        json!([{self.field(): {"order": self.pick(&["asc", "desc"]), "unmapped_type": "keyword"}}])
                }
                Some(2) => body["highlight"] = json!({"fields": {self.field(): {}}}),
                Some(3) => body["fields"] = json!([self.field()]),
                Some(4) => body["docvalue_fields"] = json!([self.field()]),
                Some(5) => body["profile"] = json!(true),
                _ => {}
            }
        }
        body
    }

    /// Returns method, path, and body.
    pub(crate) fn request(&mut self) -> (&'static str, String, Value) {
        let index = self.pick(&["events", "*", "_all", "al-own", "*own", ".ds-*", "events,missing*"]);
        let id = format!("{}-{}", self.pick(&[MARK, "al"]), self.0.u8(0..40));
        // Ids of `bravo` in its own index.
        let number = self.0.u8(0..40);
        match self.0.u8(0..15) {
            // Excludes the initial events, so that later requests still find some.
            14 => (
                "POST",
                format!("/{index}/_delete_by_query?conflicts=proceed&refresh=true"),
                json!({"query": {"bool": {"must": [self.query(2)], "must_not": [{"regexp": {"class": "al-[0-9]+"}}]}}}),
            ),
            0 => ("POST", format!("/{index}/_count"), json!({"query": self.query(2)})),
            1 => (
                "POST",
                format!("/{index}/_terms_enum"),
                json!({"field": self.field(), "string": self.pick(&["", "a", "z"])}),
            ),
            2 => (
                "GET",
                format!("/{index}/_field_caps?fields={}", self.pick(&["*", "m*", "*field*"])),
                Value::Null,
            ),
            3 => (
                "POST",
                "/_mget".to_owned(),
                json!({"docs": [{"_index": "al-own", "_id": id}, {"_index": "events", "_id": "al-1"}]}),
            ),
            4 => (
                "POST",
                format!("/{index}/_validate/query?explain=true&rewrite=true"),
                json!({"query": self.unmarked_query()}),
            ),
            5 => ("POST", format!("/{index}/_pit?keep_alive=1s"), Value::Null),
            6 => (
                "PUT",
                format!("/al-own/_doc/{number}"),
                json!({"class": "al-new", "tenant": self.pick(&["alpha", "bravo"])}),
            ),
            7 => ("DELETE", format!("/al-own/_doc/{number}"), Value::Null),
            8 => (
                "POST",
                format!("/al-own/_update/{number}"),
                json!({"doc": {"class": "al-x"}, "upsert": {"class": "al-up"}}),
            ),
            9 => (
                "POST",
                format!("/{index}/_search?scroll=1s"),
                json!({"size": 3, "query": self.query(1)}),
            ),
            _ => ("POST", format!("/{index}/_search"), self.search()),
        }
    }
}
