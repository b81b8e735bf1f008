//! Printer of search requests: the body of `_search` that parses to a request.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Collapse, InnerHits, PointInTime, SearchRequest, Slice, TrackTotalHits, sort};
use crate::json::print_f32;
use crate::query::{MatchAll, Query};

impl SearchRequest {
    /// Returns the body of `_search` that [`SearchRequest::parse`] reads as this request. Keys with their default are
    /// left out.
    ///
    /// The body has no `target`, and none of the parts that only URL parameters set: `typed_keys`, `request_cache`,
    /// `routing`, `only_shards`, `allow_partial_results`, `scroll` and `concurrent_shards_max`. A budget of fragments
    /// ([`super::HighlightBudget`]) is not part of the language either.
    pub fn print(&self) -> Value {
        let defaults = Self::new(self.target.clone());
        let mut body = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(key.to_owned(), value);
            }
        };
        let is_match_all = self.query == Query::MatchAll(MatchAll::default());
        put("query", (!is_match_all).then(|| self.query.print()));
        put("post_filter", self.post_filter.as_ref().map(Query::print));
        put("from", (self.from != defaults.from).then(|| self.from.into()));
        put("size", (self.size != defaults.size).then(|| self.size.into()));
        put("sort", (!self.sort.is_empty()).then(|| sort::print(&self.sort)));
        put("search_after", self.search_after.clone().map(Value::Array));
        put("collapse", self.collapse.as_ref().map(Collapse::print));
        put("aggs", (!self.aggs.0.is_empty()).then(|| self.aggs.print()));
        put(
            "indices_boost",
            (!self.indices_boost.is_empty()).then(|| {
                let boosts = self.indices_boost.iter();
                boosts
                    .map(|(index, boost)| json!({ index.as_str(): print_f32(*boost) }))
                    .collect()
            }),
        );
        put("profile", self.profile.then_some(Value::Bool(true)));
        put("track_scores", self.track_scores.then_some(Value::Bool(true)));
        put(
            "track_total_hits",
            (self.track_total_hits != defaults.track_total_hits).then_some(match self.track_total_hits {
                TrackTotalHits::Exact => true.into(),
                TrackTotalHits::UpTo(count) => count.into(),
                TrackTotalHits::No => false.into(),
            }),
        );
        put("min_score", self.min_score.map(print_f32));
        put("timeout", self.timeout.map(print_duration));
        put(
            "terminate_after",
            (self.terminate_after > 0).then(|| self.terminate_after.into()),
        );
        put("pit", self.point_in_time.as_ref().map(PointInTime::print));
        put("slice", self.slice.as_ref().map(Slice::print));
        self.shape.print_into(&mut body);
        Value::Object(body)
    }
}

impl Collapse {
    fn print(&self) -> Value {
        let mut body = json!({"field": self.field});
        if !self.inner_hits.is_empty() {
            body["inner_hits"] = self.inner_hits.iter().map(InnerHits::print).collect();
        }
        body
    }
}

impl InnerHits {
    fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("name".to_owned(), self.name.as_str().into());
        body.insert("from".to_owned(), self.from.into());
        body.insert("size".to_owned(), self.size.into());
        if !self.sort.is_empty() {
            body.insert("sort".to_owned(), sort::print(&self.sort));
        }
        if self.track_scores {
            body.insert("track_scores".to_owned(), true.into());
        }
        if let Some(field) = &self.collapse {
            body.insert("collapse".to_owned(), json!({ "field": field }));
        }
        self.shape.print_into(&mut body);
        Value::Object(body)
    }
}

impl PointInTime {
    fn print(&self) -> Value {
        let mut body = json!({"id": self.id});
        if let Some(keep_alive) = self.keep_alive {
            body["keep_alive"] = print_duration(keep_alive);
        }
        body
    }
}

impl Slice {
    fn print(&self) -> Value {
        let mut body = json!({"id": self.id, "max": self.max});
        if let Some(field) = &self.field {
            body["field"] = field.as_str().into();
        }
        body
    }
}

fn print_duration(duration: Duration) -> Value {
    format!("{}ms", duration.as_millis()).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::tests as strategy;
    use crate::search::IndexTarget;

    fn parsed(body: &Value) -> SearchRequest {
        SearchRequest::parse(IndexTarget::default(), Some(body)).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// Checks that a request prints to a body that parses to it.
    fn check(body: &Value) -> SearchRequest {
        let request = parsed(body);
        let text = serde_json::to_string(&request.print()).unwrap();
        assert_eq!(parsed(&serde_json::from_str(&text).unwrap()), request, "{body}: {text}");
        request
    }

    #[test]
    fn every_key_of_a_body_is_printed() {
        assert_eq!(parsed(&json!({})).print(), json!({}));
        let body = json!({
            "query": {"term": {"a": 1}}, "post_filter": {"exists": {"field": "b"}}, "size": 5, "min_score": 0.1,
            "sort": ["_score", {"b": {"order": "desc", "missing": "_first", "mode": "avg", "format": "yyyy"}}],
            "search_after": [1, "x"], "indices_boost": [{"a*": 2}, {"a*": 0.5}], "profile": true, "track_scores": true,
            "track_total_hits": 100, "timeout": "1500ms", "terminate_after": 7, "version": true,
            "aggs": {"m": {"max": {"field": "n"}}}, "seq_no_primary_term": true, "_source": {"excludes": ["x"]},
            "fields": ["a.*", {"field": "t", "format": "yyyy"}], "docvalue_fields": ["n"], "stored_fields": ["s"],
            "highlight": {"encoder": "html", "fields": {"b": {"number_of_fragments": 0}}},
            "slice": {"field": "n", "id": 1, "max": 3}, "pit": {"id": "p", "keep_alive": "2m"},
            "collapse": {"field": "user", "inner_hits": [
                {"name": "last", "size": 1, "from": 2, "sort": [{"n": "desc"}], "track_scores": true, "_source": false},
                {"name": "all", "collapse": {"field": "host"}, "version": true},
            ]},
        });
        let printed = check(&body).print();
        let keys = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(keys(&printed), keys(&body));
    }

    #[test]
    fn forms_of_a_key_print_to_the_same_meaning() {
        for body in [
            json!({"from": 3, "size": 0, "track_total_hits": true}),
            json!({"track_total_hits": false, "timeout": "-1"}),
            json!({"track_total_hits": 0, "timeout": "0ms", "min_score": 0}),
            json!({"sort": "_score"}),
            json!({"sort": "_score", "pit": {"id": "p"}}),
            json!({"sort": [{"_score": "asc"}], "search_after": [0.25]}),
            json!({"search_after": [0.25], "sort": ["_doc"]}),
            json!({"_source": []}),
            json!({"_source": {"includes": ["a", "b.*"]}}),
            json!({"_source": "a"}),
            json!({"stored_fields": "_none_"}),
            json!({"stored_fields": ["a", "_source"]}),
            json!({"stored_fields": ["a"], "_source": ["b"]}),
            json!({"collapse": {"field": "a"}}),
            json!({"slice": {"id": 0, "max": 2}}),
        ] {
            check(&body);
        }
    }

    fn field() -> impl Strategy<Value = String> {
        "[a-z]{1,3}(\\.[a-z]{1,2})?"
    }

    fn sort() -> impl Strategy<Value = Value> {
        let key =
            (field(), prop::sample::select(vec!["asc", "desc"]), 0..5u8).prop_map(|(field, order, form)| match form {
                0 => json!("_score"),
                1 => json!("_doc"),
                2 => json!({field: {"order": order, "missing": "_first", "numeric_type": "long"}}),
                3 => json!({field: {"order": order, "missing": 7, "mode": "median", "unmapped_type": "long"}}),
                _ => json!({ field: order }),
            });
        prop::collection::vec(key, 0..4).prop_map(Value::from)
    }

    prop_compose! {
        fn body()(
            query in prop::option::of(strategy::query()),
            post_filter in prop::option::of(strategy::query()),
            sort in sort(),
            page in (0..50usize, 0..50usize),
            total in prop::sample::select(vec![json!(true), json!(false), json!(10_000), json!(3)]),
            min_score in prop::option::of(0.0f32..10.0),
            boosts in prop::collection::vec((field(), 0.0f32..10.0), 0..3),
            numbers in (0..1000u64, 0..1000u64),
            flags in prop::array::uniform4(any::<bool>()),
            source in prop::collection::vec(field(), 0..3),
        ) -> Value {
            let (from, size) = page;
            let (timeout_ms, terminate_after) = numbers;
            let [profile, track_scores, version, is_in_context] = flags;
            let mut body = json!({
                "from": from, "size": size, "sort": sort, "track_total_hits": total, "profile": profile,
                "track_scores": track_scores, "version": version, "timeout": format!("{timeout_ms}ms"),
                "terminate_after": terminate_after, "_source": {"includes": source},
                "indices_boost": boosts.iter().map(|(index, boost)| json!({ index: boost })).collect::<Vec<_>>(),
            });
            for (key, query) in [("query", query), ("post_filter", post_filter)] {
                if let Some(query) = query {
                    body[key] = query.print();
                }
            }
            if let Some(score) = min_score {
                body["min_score"] = score.into();
            }
            if is_in_context {
                body["pit"] = json!({"id": "p", "keep_alive": "5s"});
                body["slice"] = json!({"id": 0, "max": 2 + terminate_after});
            }
            body
        }
    }

    proptest! {
        #[test]
        fn printed_requests_parse_to_themselves(body in body()) {
            check(&body);
        }
    }
}
