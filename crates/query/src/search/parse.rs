//! Parser of search requests.

use std::time::Duration;

use firn_model::Error;
use firn_model::Result;
use firn_model::dates::parse_duration_ms;
use serde_json::{Map, Value};

use super::shape::{ShapeParser, unknown};
use super::{Collapse, HitShape, IndexTarget, PointInTime, SearchRequest, Slice, SortBy, TrackTotalHits, sort};
use crate::aggs::Aggregations;
use crate::json::{as_bool, as_f32, as_i64, as_text, token};
use crate::query::{MatchAll, Query};

/// Default `size`.
const SIZE: usize = 10;

/// Default `track_total_hits`: hits are counted exactly up to this number.
const TRACK_TOTAL_HITS: u64 = 10_000;

/// Maximum entries of `indices_boost`: each is resolved for every search.
const INDICES_BOOST_MAX: usize = 1000;

/// Keys of a search body that Elasticsearch supports and firn does not. Trivial values (null, false, empty) are
/// accepted.
const NOT_YET: &[&str] = &[
    "explain",
    "ext",
    "knn",
    "min_compatible_shard_node",
    "point_in_time",
    "rank",
    "rescore",
    "retriever",
    "runtime_mappings",
    "script_fields",
    "stats",
    "sub_searches",
    "suggest",
];

/// Returns the keys of a body that firn does not support.
pub(crate) fn refused_keys() -> &'static [&'static str] {
    NOT_YET
}

impl SearchRequest {
    /// Whether hits have scores and the answer has `max_score`. A sort that does not compare scores omits them unless
    /// `track_scores` is set.
    pub fn shows_scores(&self) -> bool {
        self.track_scores || self.sort.is_empty() || self.sort.iter().any(|key| key.by == SortBy::Score)
    }

    /// Returns a request with all defaults: match all, size 10.
    pub fn new(target: IndexTarget) -> Self {
        Self {
            target,
            query: Query::MatchAll(MatchAll::default()),
            post_filter: None,
            from: 0,
            size: SIZE,
            sort: Vec::new(),
            search_after: None,
            shape: HitShape::default(),
            collapse: None,
            aggs: Aggregations::default(),
            typed_keys: false,
            indices_boost: Vec::new(),
            profile: false,
            track_total_hits: TrackTotalHits::UpTo(TRACK_TOTAL_HITS),
            track_scores: false,
            request_cache: None,
            min_score: None,
            timeout: None,
            terminate_after: 0,
            routing: Vec::new(),
            only_shards: Vec::new(),
            allow_partial_results: true,
            point_in_time: None,
            scroll: None,
            slice: None,
            concurrent_shards_max: None,
        }
    }

    /// Returns the score boost of documents of a concrete index.
    pub fn boost_of(&self, index: &str) -> f32 {
        let mut boosts = self.indices_boost.iter();
        boosts.find(|(name, _)| name == index).map_or(1.0, |(_, boost)| *boost)
    }

    /// Parses the body of `_search` (`None` or an empty object: all defaults). URL parameters are set afterwards; then
    /// [`SearchRequest::check`] checks the combination.
    pub fn parse(target: IndexTarget, body: Option<&Value>) -> Result<Self> {
        let mut request = Self::new(target);
        match body {
            None => {}
            Some(Value::Object(body)) => {
                request.read(body)?;
                request.check()?;
            }
            Some(other) => {
                return Err(Error::parsing(format!(
                    "Expected [START_OBJECT] but found [{}]",
                    token(other)
                )));
            }
        }
        Ok(request)
    }

    /// Refuses invalid combinations. Call it again after a parsed request changes.
    pub fn check(&self) -> Result<()> {
        if let Some(values) = &self.search_after {
            // Without `sort` hits are sorted by score, which is one key.
            let keys = self.sort.len().max(1);
            if values.len() != keys && !self.is_tie_broken(values.len()) {
                return Err(Error::illegal_argument(format!(
                    "search_after has {} value(s) but sort has {keys}.",
                    values.len()
                )));
            }
            if self.from > 0 {
                return Err(Error::illegal_argument(
                    "`from` parameter must be set to 0 when `search_after` is used.",
                ));
            }
        }
        Ok(())
    }

    fn read(&mut self, body: &Map<String, Value>) -> Result<()> {
        let mut shape = ShapeParser::default();
        for (key, value) in body {
            let unknown = || unknown(key, value);
            let flag = || as_bool(value).ok_or_else(unknown);
            match key.as_str() {
                "query" => self.query = Query::parse(value)?,
                "post_filter" => self.post_filter = Some(Query::parse(value)?),
                "from" => self.from = from(as_i64(value).ok_or_else(unknown)?)?,
                "size" => self.size = size(as_i64(value).ok_or_else(unknown)?)?,
                "sort" => self.sort = sort::parse(value)?,
                "collapse" => self.collapse = Some(Collapse::parse(value)?),
                "profile" => self.profile = flag()?,
                "indices_boost" => self.indices_boost = indices_boost(value)?,
                "search_after" => self.search_after = Some(search_after(value)?),
                "aggs" | "aggregations" => {
                    if !self.aggs.0.is_empty() {
                        return Err(Error::parsing(
                            "Found two sub aggregation definitions: [aggs] and [aggregations]",
                        ));
                    }
                    self.aggs = Aggregations::parse(value)?;
                }
                "track_total_hits" => self.track_total_hits = track_total_hits(value).ok_or_else(unknown)??,
                "track_scores" => self.track_scores = flag()?,
                "min_score" => self.min_score = Some(as_f32(value).ok_or_else(unknown)?),
                "timeout" => self.timeout = timeout(&as_text(value).ok_or_else(unknown)?)?,
                "terminate_after" => self.terminate_after = terminate_after(as_i64(value).ok_or_else(unknown)?)?,
                "pit" => self.point_in_time = Some(PointInTime::parse(value)?),
                "slice" => self.slice = Some(Slice::parse(value)?),
                name if NOT_YET.contains(&name) => {
                    if !is_trivial(value) {
                        return Err(Error::not_implemented(format!("[{name}] of a search")));
                    }
                }
                _ if shape.take(key, value)? => {}
                _ => return Err(unknown()),
            }
        }
        self.shape = shape.finish()?;
        // On a point in time this sort gets a second key, and therefore sort values.
        if self.point_in_time.is_none() {
            self.sort = sort::without_default(std::mem::take(&mut self.sort));
        }
        Ok(())
    }
}

/// Null, false, and empty lists and objects have no effect.
pub(super) fn is_trivial(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Number(_) | Value::String(_) => false,
    }
}

/// Parses a list of objects, or one object: index expressions and boosts.
fn indices_boost(value: &Value) -> Result<Vec<(String, f32)>> {
    let objects = match value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut boosts = Vec::new();
    for object in objects {
        let Value::Object(entries) = object else {
            return Err(unknown("indices_boost", object));
        };
        if boosts.len() + entries.len() > INDICES_BOOST_MAX {
            return Err(Error::illegal_argument(format!(
                "[indices_boost] has more than the allowed maximum of [{INDICES_BOOST_MAX}] entries"
            )));
        }
        for (index, boost) in entries {
            let boost = as_f32(boost).ok_or_else(|| {
                Error::parsing(format!(
                    "Expected [VALUE_NUMBER] in [indices_boost] but found [{}]",
                    token(boost)
                ))
            })?;
            if boost < 0.0 {
                return Err(Error::illegal_argument(format!(
                    "negative [boost] are not allowed in [indices_boost], got [{boost}] for [{index}]"
                )));
            }
            boosts.push((index.clone(), boost));
        }
    }
    Ok(boosts)
}

fn from(number: i64) -> Result<usize> {
    if number < 0 {
        return Err(Error::illegal_argument(format!(
            "[from] parameter cannot be negative but was [{number}]"
        )));
    }
    integer("from", number)
}

fn size(number: i64) -> Result<usize> {
    if number < 0 {
        return Err(Error::illegal_argument(format!(
            "[size] parameter cannot be negative, found [{number}]"
        )));
    }
    integer("size", number)
}

fn integer(name: &str, number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(size) if number <= i64::from(i32::MAX) => Ok(size),
        _ => Err(Error::illegal_argument(format!(
            "Numeric value ({number}) of [{name}] out of range of int"
        ))),
    }
}

fn terminate_after(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::illegal_argument("terminateAfter must be > 0"))
}

/// `-1` means no timeout.
fn timeout(text: &str) -> Result<Option<Duration>> {
    if text == "-1" {
        return Ok(None);
    }
    parse_duration_ms(text).map(|ms| Some(Duration::from_millis(ms)))
}

fn search_after(value: &Value) -> Result<Vec<Value>> {
    let Value::Array(values) = value else {
        return Err(Error::parsing(format!(
            "Expected [START_ARRAY] in [search_after] but found [{}]",
            token(value)
        )));
    };
    if values.is_empty() {
        return Err(Error::illegal_argument("Values must contains at least one value."));
    }
    for value in values {
        if matches!(value, Value::Array(_) | Value::Object(_)) {
            return Err(Error::parsing(format!(
                "Expected [VALUE_STRING] or [VALUE_NUMBER] or [VALUE_BOOLEAN] or [VALUE_NULL] but found [{}] inside \
                 search_after.",
                token(value)
            )));
        }
    }
    Ok(values.clone())
}

/// `None`: neither a boolean nor a number.
fn track_total_hits(value: &Value) -> Option<Result<TrackTotalHits>> {
    if let Some(flag) = as_bool(value) {
        return Some(Ok(if flag {
            TrackTotalHits::Exact
        } else {
            TrackTotalHits::No
        }));
    }
    Some(match as_i64(value)? {
        -1 => Ok(TrackTotalHits::No),
        number => match u64::try_from(number) {
            Ok(number) => Ok(TrackTotalHits::UpTo(number)),
            Err(_) => Err(Error::illegal_argument(format!(
                "[track_total_hits] parameter must be positive or equals to -1, got [{number}]"
            ))),
        },
    })
}

/// Parses `track_total_hits` of a URL (`true`, `false`, a number).
pub fn parse_track_total_hits(text: &str) -> Result<TrackTotalHits> {
    track_total_hits(&Value::from(text)).unwrap_or_else(|| {
        Err(Error::illegal_argument(format!(
            "Failed to parse value [{text}] of [track_total_hits] as only [true], [false] or a number are allowed."
        )))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::search::{SortBy, SortKey};
    use crate::source::SourceFilter;
    use firn_model::ErrorKind;

    fn parse(body: Value) -> Result<SearchRequest> {
        SearchRequest::parse(IndexTarget::default(), Some(&body))
    }

    fn parsed(body: Value) -> SearchRequest {
        parse(body.clone()).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    fn check_refused(body: Value, reason: &str) {
        match parse(body.clone()) {
            Ok(request) => panic!("{body} was read as {request:?}"),
            Err(error) => assert_eq!(error.reason(), reason, "{body}"),
        }
    }

    #[test]
    fn defaults() {
        let expected = SearchRequest::new(IndexTarget::default());
        assert_eq!(parsed(json!({})), expected);
        assert_eq!(SearchRequest::parse(IndexTarget::default(), None).unwrap(), expected);
        assert_eq!((expected.from, expected.size), (0, 10));
        assert_eq!(expected.track_total_hits, TrackTotalHits::UpTo(10_000));
    }

    #[test]
    fn everything() {
        let request = parsed(json!({
            "query": {"term": {"a": 1}}, "post_filter": {"exists": {"field": "b"}}, "from": 0, "indices_boost": [{"a*": 2}, {"b": 0.5}], "size": "5", "sort": ["a", {"b": "desc"}],
            "search_after": [1, "x"], "_source": {"includes": ["a"]}, "fields": ["a.*", {"field": "t", "format": "yyyy"}],
            "docvalue_fields": [{"field": "n", "include_unmapped": false}], "aggs": {"m": {"max": {"field": "n"}}},
            "track_total_hits": 100, "track_scores": true, "min_score": 0.5, "profile": true, "timeout": "1500ms", "terminate_after": 7,
            "version": true, "seq_no_primary_term": true
        }));
        assert_eq!(request.query, Query::parse(&json!({"term": {"a": 1}})).unwrap());
        assert_eq!(
            request.post_filter,
            Some(Query::parse(&json!({"exists": {"field": "b"}})).unwrap())
        );
        assert_eq!(request.indices_boost, [("a*".to_owned(), 2.0), ("b".to_owned(), 0.5)]);
        assert_eq!(request.size, 5);
        let by: Vec<_> = request
            .sort
            .iter()
            .map(|key: &SortKey| (key.by.clone(), key.descending))
            .collect();
        assert_eq!(
            by,
            [(SortBy::Field("a".into()), false), (SortBy::Field("b".into()), true)]
        );
        assert_eq!(request.search_after, Some(vec![json!(1), json!("x")]));
        assert_eq!(request.shape.fields[1].format.as_deref(), Some("yyyy"));
        assert_eq!(request.shape.docvalue_fields[0].field, "n");
        assert_eq!(request.aggs.fields(), ["n"]);
        assert_eq!(request.track_total_hits, TrackTotalHits::UpTo(100));
        assert_eq!(request.min_score, Some(0.5));
        assert_eq!(request.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(request.terminate_after, 7);
        assert!(request.profile && request.track_scores && request.shape.version && request.shape.seq_no_primary_term);
    }

    #[test]
    fn sources_and_stored_fields() {
        let check = |body: Value, source: SourceFilter, no_stored_fields: bool| {
            let request = parsed(body.clone());
            assert_eq!(
                (request.shape.source, request.shape.no_stored_fields),
                (source, no_stored_fields),
                "{body}"
            );
        };
        check(json!({"_source": false}), SourceFilter::None, false);
        check(json!({"stored_fields": []}), SourceFilter::None, false);
        check(json!({"stored_fields": ["_source"]}), SourceFilter::All, false);
        check(json!({"stored_fields": [], "_source": true}), SourceFilter::All, false);
        check(json!({"stored_fields": "_none_"}), SourceFilter::None, true);
        check(
            json!({"stored_fields": ["_none_"], "_source": false}),
            SourceFilter::None,
            true,
        );
        check_refused(
            json!({"stored_fields": "_none_", "_source": true}),
            "[stored_fields] cannot be disabled if [_source] is requested",
        );
        check(json!({"stored_fields": ["a"]}), SourceFilter::None, false);
        check(json!({"stored_fields": ["a", "_source"]}), SourceFilter::All, false);
    }

    #[test]
    fn totals() {
        for (text, expected) in [
            ("true", TrackTotalHits::Exact),
            ("false", TrackTotalHits::No),
            ("-1", TrackTotalHits::No),
            ("5", TrackTotalHits::UpTo(5)),
        ] {
            assert_eq!(parse_track_total_hits(text).unwrap(), expected);
        }
        assert!(parse_track_total_hits("maybe").is_err());
        assert_eq!(
            parsed(json!({"track_total_hits": true})).track_total_hits,
            TrackTotalHits::Exact
        );
        check_refused(
            json!({"track_total_hits": -5}),
            "[track_total_hits] parameter must be positive or equals to -1, got [-5]",
        );
    }

    #[test]
    fn refusals() {
        check_refused(json!([]), "Expected [START_OBJECT] but found [START_ARRAY]");
        check_refused(json!({"foo": {}}), "Unknown key for a START_OBJECT in [foo].");
        check_refused(json!({"size": {}}), "Unknown key for a START_OBJECT in [size].");
        check_refused(json!({"from": -1}), "[from] parameter cannot be negative but was [-1]");
        check_refused(json!({"size": -1}), "[size] parameter cannot be negative, found [-1]");
        check_refused(
            json!({"size": 3_000_000_000_u64}),
            "Numeric value (3000000000) of [size] out of range of int",
        );
        check_refused(json!({"terminate_after": -1}), "terminateAfter must be > 0");
        check_refused(
            json!({"sort": ["a"], "search_after": [1, 2]}),
            "search_after has 2 value(s) but sort has 1.",
        );
        check_refused(
            json!({"sort": ["a"], "search_after": [1], "from": 5}),
            "`from` parameter must be set to 0 when `search_after` is used.",
        );
        check_refused(json!({"search_after": []}), "Values must contains at least one value.");
        check_refused(json!({"fields": "a"}), "Unknown key for a VALUE_STRING in [fields].");
        check_refused(
            json!({"fields": [{"field": "a", "include_unmapped": true}]}),
            "option [include_unmapped] of [fields] is not implemented by firn",
        );
    }

    #[test]
    fn unsupported_keys_are_refused_unless_trivial() {
        for name in NOT_YET {
            for nothing in [json!(null), json!(false), json!([]), json!({})] {
                parsed(json!({*name: nothing}));
            }
            let error = parse(json!({*name: {"x": 1}})).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotImplemented);
            assert_eq!(
                error.reason(),
                format!("[{name}] of a search is not implemented by firn")
            );
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(key in "from|size|sort|_source|fields|aggs|timeout|search_after|stored_fields|highlight|collapse|post_filter|indices_boost|profile", text in "\\PC{0,10}", number: i64) {
            for value in [json!(text), json!(number), json!([text, number]), json!({text.as_str(): number}), json!({text.as_str(): {"order": text}})] {
                let _ = parse(json!({key.as_str(): value}));
            }
            let _ = super::sort::parse_sort_param(&text);
            let _ = parse_track_total_hits(&text);
        }
    }
}
