//! `top_hits` aggregation: the first documents of each bucket, as hits.
//!
//! Segments report rows: the position of a document, and a key that compares like its sort values. Merging rows reads
//! nothing; only the hits of the finished tree are fetched.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::finished::{Finished, Level};
use super::parse::{Request, put};
use super::{AggregationKind, Aggregations};
use crate::json::{as_bool, as_i64, print_f32};
use crate::search::{Hit, HitShape, ShapeParser, SortBy, SortKey, parse_sort, print_sort, without_default_sort};

pub(super) const NAME: &str = "top_hits";

/// Default `size`.
const SIZE: usize = 3;

/// Parameters that Elasticsearch supports and firn does not.
const NOT_YET: &[&str] = &["explain", "fielddata_fields", "script_fields"];

/// A `top_hits` aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct TopHits {
    /// Hits to skip.
    pub from: usize,
    /// Maximum hits; `from + size` is at most `index.max_inner_result_window`.
    pub size: usize,
    /// Empty: sorted by score, highest first.
    pub sort: Vec<SortKey>,
    /// Compute scores even if sorted by another key.
    pub track_scores: bool,
    /// Returned parts of each hit.
    pub shape: HitShape,
}

/// Partial result of one bucket.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopHitsPartial {
    /// Documents of the bucket.
    pub total: u64,
    /// Highest score, if hits show scores.
    pub max_score: Option<f32>,
    /// First rows, sorted; at most `keep`.
    pub rows: Vec<TopRow>,
    /// `from + size`.
    pub keep: usize,
}

/// A candidate hit.
#[derive(Debug, Clone, PartialEq)]
pub struct TopRow {
    /// Byte-comparable sort key; smaller sorts first, also across segments and shards.
    pub key: Box<[u8]>,
    /// Segment number in the search.
    pub segment: u32,
    /// Document number in the segment.
    pub doc: u32,
    /// Score, if hits show scores.
    pub score: Option<f32>,
    /// Sort values as the answer prints them; empty if sorted by score.
    pub sort: Vec<Value>,
}

/// Rows of the finished tree, to be fetched.
#[derive(Debug)]
pub struct WantedHits<'a> {
    /// Aggregation of the rows.
    pub top_hits: &'a TopHits,
    /// Sorted.
    pub rows: Vec<TopRow>,
}

/// Fetches the rows of all buckets in one call: returns one list of hits per list of rows, in the same order.
pub type FetchHits<'a> = dyn Fn(Vec<WantedHits<'_>>) -> Result<Vec<Vec<Hit>>> + 'a;

/// The finished bucket, before and after its hits are fetched.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Page {
    total: u64,
    max_score: Option<f32>,
    rows: Vec<TopRow>,
    hits: Vec<Value>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut shape = ShapeParser::default();
    let mut top = TopHits {
        from: 0,
        size: SIZE,
        sort: Vec::new(),
        track_scores: false,
        shape: HitShape::default(),
    };
    for (key, value) in request.body {
        let unknown = || crate::search::unknown_key(key, value);
        match key.as_str() {
            "from" => top.from = page(request, key, value)?,
            "size" => top.size = page(request, key, value)?,
            "sort" => top.sort = without_default_sort(parse_sort(value)?),
            "track_scores" => top.track_scores = as_bool(value).ok_or_else(unknown)?,
            key if NOT_YET.contains(&key) => {
                if as_bool(value) != Some(false) {
                    return Err(Error::not_implemented(format!(
                        "parameter [{key}] of aggregation [{NAME}]"
                    )));
                }
            }
            _ if shape.take(key, value)? => {}
            _ => return Err(unknown()),
        }
    }
    top.shape = shape.finish()?;
    if top.size == 0 {
        return Err(Error::illegal_argument(
            "numHits must be > 0; please use TotalHitCountCollectorManager if you just need the total hit count",
        ));
    }
    Ok(AggregationKind::TopHits(Box::new(top)))
}

fn page(request: &Request<'_>, key: &str, value: &Value) -> Result<usize> {
    let number = as_i64(value).ok_or_else(|| crate::search::unknown_key(key, value))?;
    usize::try_from(number)
        .ok()
        .filter(|_| number <= i64::from(i32::MAX))
        .ok_or_else(|| {
            Error::illegal_argument(format!(
                "[{key}] must be greater than or equal to 0. Found [{number}] in [{}]",
                request.name
            ))
        })
}

impl TopHits {
    /// Whether hits show their score.
    pub fn shows_scores(&self) -> bool {
        self.sort.is_empty() || self.track_scores
    }

    /// Whether scores must be computed.
    pub fn needs_scores(&self) -> bool {
        self.shows_scores() || self.sort.iter().any(|key| key.by == SortBy::Score)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("from".into(), self.from.into());
        body.insert("size".into(), self.size.into());
        put(
            &mut body,
            "sort",
            (!self.sort.is_empty()).then(|| print_sort(&self.sort)),
        );
        put(&mut body, "track_scores", self.track_scores.then_some(true));
        self.shape.print_into(&mut body);
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut std::collections::BTreeSet<String>) {
        for key in &self.sort {
            if let SortBy::Field(field) = &key.by {
                fields.insert(field.clone());
            }
        }
        let shown = self.shape.fields.iter().chain(&self.shape.docvalue_fields);
        fields.extend(shown.map(|spec| spec.field.clone()));
    }

    pub(super) fn empty(&self) -> TopHitsPartial {
        TopHitsPartial {
            keep: self.from.saturating_add(self.size),
            ..TopHitsPartial::default()
        }
    }

    pub(super) fn answer(&self, partial: TopHitsPartial) -> Page {
        Page {
            total: partial.total,
            max_score: partial.max_score.filter(|_| self.shows_scores()),
            rows: partial.rows.into_iter().skip(self.from).take(self.size).collect(),
            hits: Vec::new(),
        }
    }
}

impl TopHitsPartial {
    /// Merges the rows of another part. Associative and commutative.
    pub(super) fn merge(&mut self, other: Self) {
        self.total += other.total;
        self.max_score = match (self.max_score, other.max_score) {
            (Some(own), Some(theirs)) => Some(own.max(theirs)),
            (own, theirs) => own.or(theirs),
        };
        self.keep = self.keep.max(other.keep);
        self.rows.extend(other.rows);
        self.rows
            .sort_by(|a, b| (&a.key, a.segment, a.doc).cmp(&(&b.key, b.segment, b.doc)));
        self.rows.truncate(self.keep);
    }
}

impl Page {
    pub(super) fn print(self) -> Map<String, Value> {
        let hits = json!({
            "total": {"value": self.total, "relation": "eq"},
            "max_score": self.max_score.map(print_f32),
            "hits": self.hits,
        });
        Map::from_iter([("hits".to_owned(), hits)])
    }
}

/// Fetches all hits of the tree in one call.
pub(super) fn fetch(aggregations: &Aggregations, tree: &mut Level, fetch: &FetchHits<'_>) -> Result<()> {
    let mut wanted = Vec::new();
    each_page(aggregations, tree, &mut |top_hits, page| {
        if !page.rows.is_empty() {
            wanted.push(WantedHits {
                top_hits,
                rows: page.rows.clone(),
            });
        }
        Ok(())
    })?;
    if wanted.is_empty() {
        return Ok(());
    }
    let mut fetched = fetch(wanted)?.into_iter();
    each_page(aggregations, tree, &mut |_, page| {
        if !page.rows.is_empty() {
            let hits = fetched
                .next()
                .ok_or_else(|| Error::internal("fewer hits were fetched than requested"))?;
            page.hits = hits.iter().map(Hit::to_json).collect::<Result<_>>()?;
        }
        Ok(())
    })
}

type Visit<'v, 'a> = dyn FnMut(&'a TopHits, &mut Page) -> Result<()> + 'v;

fn each_page<'a>(aggregations: &'a Aggregations, tree: &mut Level, visit: &mut Visit<'_, 'a>) -> Result<()> {
    for (aggregation, finished) in aggregations.0.values().zip(&mut tree.0) {
        match (&aggregation.kind, finished) {
            (AggregationKind::TopHits(top), Finished::Hits(page)) => visit(top, page)?,
            (_, Finished::Buckets(buckets)) if !aggregation.sub.0.is_empty() => {
                for bucket in &mut buckets.buckets {
                    each_page(&aggregation.sub, &mut bucket.sub, visit)?;
                }
            }
            (_, Finished::Single(bucket)) => each_page(&aggregation.sub, &mut bucket.sub, visit)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::FinishOptions;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};
    use crate::aggs::{Partial, Partials};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"top_hits": {}}}));
        check_round_trip(json!({"x": {"top_hits": {
            "from": 1, "size": 5, "track_scores": true, "version": true, "seq_no_primary_term": true, "explain": false,
            "sort": [{"a": {"order": "desc", "missing": "_first", "mode": "max", "unmapped_type": "long", "format": "yyyy"}}, "_score", "_doc"],
            "_source": {"includes": ["a.*"], "excludes": "b"}, "fields": ["a", {"field": "t", "format": "epoch_millis"}],
            "docvalue_fields": ["n"], "highlight": {"fields": {"a": {}}}
        }}}));
        check_round_trip(json!({"x": {"top_hits": {"stored_fields": "_none_"}}}));
        check_round_trip(json!({"x": {"top_hits": {"_source": false, "sort": {"a": {"missing": 3}}}}}));
    }

    #[test]
    fn refuses() {
        let refused = |body: Value, reason: &str| check_refused(json!({"x": {"top_hits": body}}), reason);
        refused(
            json!({"size": -1}),
            "[size] must be greater than or equal to 0. Found [-1] in [x]",
        );
        refused(json!({"foo": {}}), "Unknown key for a START_OBJECT in [foo].");
        refused(
            json!({"explain": true}),
            "parameter [explain] of aggregation [top_hits] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"top_hits": {}, "aggs": {"y": {"max": {"field": "a"}}}}}),
            "Aggregator [x] of type [top_hits] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"top_hits": {"sort": ["b", "_score"], "fields": ["c"], "docvalue_fields": ["a"]}}}),
            &["a", "b", "c"],
        );
    }

    fn partial(keep: usize, rows: &[(u8, u32)]) -> TopHitsPartial {
        TopHitsPartial {
            total: rows.len() as u64,
            max_score: rows.iter().map(|(key, _)| f32::from(255 - key)).reduce(f32::max),
            rows: rows
                .iter()
                .map(|&(key, doc)| TopRow {
                    key: Box::new([key]),
                    segment: 0,
                    doc,
                    score: Some(1.0),
                    sort: Vec::new(),
                })
                .collect(),
            keep,
        }
    }

    #[test]
    fn merges_in_any_order() {
        let parts = [
            partial(2, &[(3, 1), (9, 2)]),
            partial(2, &[(3, 0)]),
            partial(2, &[]),
            partial(2, &[(1, 7)]),
        ];
        let mut orders = Vec::new();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut merged = TopHitsPartial::default();
            for number in order {
                merged.merge(parts[number].clone());
            }
            assert_eq!((merged.total, merged.max_score), (4, Some(254.0)));
            orders.push(merged.rows.iter().map(|row| row.doc).collect::<Vec<_>>());
        }
        assert_eq!(orders, [[7, 0], [7, 0], [7, 0]]);
    }

    #[test]
    fn only_returned_hits_are_fetched() {
        let aggregations = parsed(json!({"x": {"top_hits": {"from": 1, "size": 1}}}));
        let found = partial(2, &[(1, 5), (2, 6)]);
        let partials = Partials([("x".to_owned(), Partial::TopHits(found))].into_iter().collect());
        let fetch = |wanted: Vec<WantedHits<'_>>| -> Result<Vec<Vec<Hit>>> {
            let docs = |wanted: &WantedHits<'_>| {
                wanted
                    .rows
                    .iter()
                    .map(|row| Hit::new(format!("d{}", row.doc)))
                    .collect()
            };
            Ok(wanted.iter().map(docs).collect())
        };
        let answer = aggregations
            .finish_fetching(partials, &FinishOptions::new(10), &fetch)
            .unwrap();
        assert_eq!(
            answer["x"]["hits"],
            json!({
                "total": {"value": 2, "relation": "eq"}, "max_score": 254.0,
                "hits": [{"_index": "d6", "_score": null}]
            })
        );
        let nothing = aggregations
            .finish_fetching(Partials::default(), &FinishOptions::new(10), &|_| {
                panic!("nothing to fetch")
            })
            .unwrap();
        assert_eq!(
            nothing["x"]["hits"],
            json!({"total": {"value": 0, "relation": "eq"}, "max_score": null, "hits": []})
        );
    }
}
