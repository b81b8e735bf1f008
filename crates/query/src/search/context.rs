//! Parameters that relate a search to others: `pit`, `slice`, and the checks that scrolls and points in time need.

use std::time::Duration;

use firn_model::dates::parse_duration_ms;
use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::{SearchRequest, SortBy, SortKey, TrackTotalHits};
use crate::json::{as_i64, as_text, token};

/// Maximum slices of one scroll or point in time (`index.max_slices_per_scroll`).
const SLICES_MAX: u32 = 1024;

/// `pit` of a search: <https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-open-point-in-time>.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointInTime {
    /// Id that opening the point in time returned.
    pub id: String,
    /// How long it stays open after this search; `None`: unchanged.
    pub keep_alive: Option<Duration>,
}

/// `slice`: one of `max` disjoint parts that together cover everything. The slice of a document depends only on the
/// document, so clients can read the slices in parallel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Numeric field that divides the documents; `None` (or `_id`): an even division by document.
    pub field: Option<String>,
    /// Number of the slice, from 0.
    pub id: u32,
    /// Number of slices; at least 2.
    pub max: u32,
}

impl PointInTime {
    /// Parses `{"id": …, "keep_alive": …}`.
    pub fn parse(value: &Value) -> Result<Self> {
        let object = object("pit", value)?;
        let mut id = None;
        let mut keep_alive = None;
        for (key, value) in object {
            let text = || as_text(value).ok_or_else(|| wrong_type("pit", key, value));
            match key.as_str() {
                "id" => id = Some(text()?),
                "keep_alive" => keep_alive = Some(parse_keep_alive(&text()?)?),
                _ => return Err(Error::parsing(format!("[pit] unknown field [{key}]"))),
            }
        }
        let id = id.filter(|id| !id.is_empty());
        Ok(Self {
            id: id.ok_or_else(|| Error::illegal_argument("Required [id] in [pit]"))?,
            keep_alive,
        })
    }
}

/// Parses a `keep_alive` or `scroll` of a body.
pub fn parse_keep_alive(text: &str) -> Result<Duration> {
    let ms = parse_duration_ms(text).map_err(|error| {
        Error::illegal_argument(format!(
            "failed to parse setting [keep_alive] with value [{text}] as a time value"
        ))
        .caused_by(error)
    })?;
    Ok(Duration::from_millis(ms))
}

impl Slice {
    /// Parses `{"id": 0, "max": 2, "field": …}`.
    pub fn parse(value: &Value) -> Result<Self> {
        let object = object("slice", value)?;
        let (mut field, mut id, mut max) = (None, None, None);
        for (key, value) in object {
            let number = || {
                as_i64(value)
                    .and_then(|number| i32::try_from(number).ok())
                    .ok_or_else(|| wrong_type("slice", key, value))
            };
            match key.as_str() {
                "field" => field = Some(as_text(value).ok_or_else(|| wrong_type("slice", key, value))?),
                "id" => id = Some(number()?),
                "max" => max = Some(number()?),
                _ => return Err(Error::parsing(format!("[slice] unknown field [{key}]"))),
            }
        }
        let (Some(id), Some(max)) = (id, max) else {
            return Err(Error::illegal_argument("Required [id, max] in [slice]"));
        };
        let Ok(id) = u32::try_from(id) else {
            return Err(Error::illegal_argument("id must be greater than or equal to 0"));
        };
        let max = u32::try_from(max)
            .ok()
            .filter(|max| *max > 1)
            .ok_or_else(|| Error::illegal_argument("max must be greater than 1"))?;
        if max <= id {
            return Err(Error::illegal_argument("max must be greater than id"));
        }
        Ok(Self { field, id, max })
    }
}

impl SearchRequest {
    /// Refuses parameters that conflict with a scroll or point in time, and parameters that require one. Call it after
    /// the URL parameters are set.
    pub fn check_context(&self) -> Result<()> {
        let mut problems = Vec::new();
        if self.scroll.is_some() {
            if self.track_total_hits == TrackTotalHits::No {
                problems.push("disabling [track_total_hits] is not allowed in a scroll context");
            }
            if self.from > 0 {
                problems.push("using [from] is not allowed in a scroll context");
            }
            if self.size == 0 {
                problems.push("[size] cannot be [0] in a scroll context");
            }
            if self.point_in_time.is_some() {
                problems.push("using [point in time] is not allowed in a scroll context");
            }
            if self.collapse.is_some() {
                problems.push("cannot use `collapse` in a scroll context");
            }
            if self.profile {
                problems.push("[profile] cannot be used in a scroll context");
            }
            if self.search_after.is_some() {
                problems.push("[search_after] cannot be used in a scroll context");
            }
        }
        if self.point_in_time.is_some() {
            if !self.target.expression.is_empty() {
                problems
                    .push("[indices] cannot be used with point in time. Do not specify any index with point in time.");
            }
            if !self.routing.is_empty() {
                problems.push("[routing] cannot be used with point in time");
            }
        } else if self.sort.iter().any(|key| key.by == SortBy::ShardDoc) {
            problems.push("[_shard_doc] sort field cannot be used without [point in time]");
        }
        if self.slice.is_some() && self.scroll.is_none() && self.point_in_time.is_none() {
            problems.push("[slice] can only be used with [scroll] or [point-in-time] requests");
        }
        if !problems.is_empty() {
            return Err(Error::validation(&problems));
        }
        match &self.slice {
            Some(slice) if slice.max > SLICES_MAX => Err(Error::illegal_argument(format!(
                "The number of slices [{}] is too large. It must be less than [{SLICES_MAX}]. This limit can be set by \
                 changing the [index.max_slices_per_scroll] index level setting.",
                slice.max
            ))),
            _ => Ok(()),
        }
    }

    /// Adds `_shard_doc` as the last sort key of a search on a point in time, so that `search_after` never falls
    /// between two equal hits. If the client's `search_after` has no value for that key, the key is not added.
    pub fn break_ties(&mut self) {
        let values = self.search_after.as_ref().map(Vec::len);
        let wanted = self.point_in_time.is_some()
            && self.sort.last().is_some_and(|key| key.by != SortBy::ShardDoc)
            && values.is_none_or(|count| count == self.sort.len() + 1);
        if wanted {
            self.sort.push(SortKey::new(SortBy::ShardDoc));
        }
    }

    /// Whether this number of values covers the sort keys and the tie-breaker.
    pub(super) fn is_tie_broken(&self, values: usize) -> bool {
        self.point_in_time.is_some()
            && self.sort.last().is_some_and(|key| key.by != SortBy::ShardDoc)
            && values == self.sort.len() + 1
    }
}

fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| {
        Error::parsing(format!(
            "Expected [START_OBJECT] in [{name}] but found [{}]",
            token(value)
        ))
    })
}

fn wrong_type(name: &str, key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "[{name}] {key} doesn't support values of type: {}",
        token(value)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::search::IndexTarget;

    fn parse(body: Value) -> Result<SearchRequest> {
        SearchRequest::parse(IndexTarget::default(), Some(&body))
    }

    fn check_refused(body: Value, change: impl Fn(&mut SearchRequest), reason: &str) {
        let refused = parse(body.clone()).and_then(|mut request| {
            change(&mut request);
            request.check_context()
        });
        assert_eq!(refused.unwrap_err().reason(), reason, "{body}");
    }

    #[test]
    fn reads_point_in_time_and_slice() {
        let request = parse(json!({
            "pit": {"id": "x", "keep_alive": "1m"}, "slice": {"id": 1, "max": 3, "field": "n"}
        }))
        .unwrap();
        let pit = request.point_in_time.clone().unwrap();
        assert_eq!((pit.id.as_str(), pit.keep_alive), ("x", Some(Duration::from_secs(60))));
        let slice = request.slice.clone().unwrap();
        assert_eq!((slice.id, slice.max, slice.field.as_deref()), (1, 3, Some("n")));
        request.check_context().unwrap();
    }

    #[test]
    fn refuses_bad_ones() {
        let nothing = |_: &mut SearchRequest| {};
        check_refused(
            json!({"pit": "x"}),
            nothing,
            "Expected [START_OBJECT] in [pit] but found [VALUE_STRING]",
        );
        check_refused(json!({"pit": {}}), nothing, "Required [id] in [pit]");
        check_refused(json!({"pit": {"id": "x", "a": 1}}), nothing, "[pit] unknown field [a]");
        check_refused(json!({"slice": {"id": 0}}), nothing, "Required [id, max] in [slice]");
        check_refused(
            json!({"slice": {"id": 0, "max": 1}}),
            nothing,
            "max must be greater than 1",
        );
        check_refused(
            json!({"slice": {"id": 2, "max": 2}}),
            nothing,
            "max must be greater than id",
        );
        check_refused(
            json!({"slice": {"id": -1, "max": 2}}),
            nothing,
            "id must be greater than or equal to 0",
        );
        check_refused(
            json!({"slice": {"id": 0, "max": 2}}),
            nothing,
            "Validation Failed: 1: [slice] can only be used with [scroll] or [point-in-time] requests;",
        );
        check_refused(
            json!({"sort": ["_shard_doc"]}),
            nothing,
            "Validation Failed: 1: [_shard_doc] sort field cannot be used without [point in time];",
        );
        check_refused(
            json!({"size": 0, "from": 2, "track_total_hits": false}),
            |request| request.scroll = Some(Duration::from_secs(1)),
            "Validation Failed: 1: disabling [track_total_hits] is not allowed in a scroll context;2: using [from] is \
             not allowed in a scroll context;3: [size] cannot be [0] in a scroll context;",
        );
        check_refused(
            json!({"pit": {"id": "x"}, "slice": {"id": 0, "max": 1025}}),
            nothing,
            "The number of slices [1025] is too large. It must be less than [1024]. This limit can be set by changing \
             the [index.max_slices_per_scroll] index level setting.",
        );
    }

    #[test]
    fn ties_are_broken_on_a_point_in_time_alone() {
        let keys = |body: Value| {
            let mut request = parse(body).unwrap();
            request.break_ties();
            request.sort.iter().map(|key| key.by.clone()).collect::<Vec<_>>()
        };
        let field = || SortBy::Field("a".to_owned());
        assert_eq!(keys(json!({"sort": "a"})), [field()]);
        assert_eq!(
            keys(json!({"sort": "a", "pit": {"id": "x"}})),
            [field(), SortBy::ShardDoc]
        );
        assert_eq!(
            keys(json!({"sort": "_shard_doc", "pit": {"id": "x"}})),
            [SortBy::ShardDoc]
        );
        assert_eq!(keys(json!({"pit": {"id": "x"}})), []);
        let after = |values: Value| json!({"sort": "a", "pit": {"id": "x"}, "search_after": values});
        assert_eq!(keys(after(json!([1, 5]))), [field(), SortBy::ShardDoc]);
        assert_eq!(keys(after(json!([1]))), [field()]);
        assert!(parse(after(json!([1, 2, 3]))).is_err());
    }
}
