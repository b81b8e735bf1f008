//! Parsed request of a delete by query:
//! <https://www.elastic.co/guide/en/elasticsearch/reference/8.17/docs-delete-by-query.html>.

use std::time::Duration;

use firn_engine::{Error, Result};
use firn_model::names::IndicesOptions;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchRequest, SortBy, SortKey, parse_sort_param};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::document_params::wait_for_active_shards;
use crate::endpoints::search::query_param;
use crate::endpoints::shared_point_in_time::{KEEP_ALIVE, SharedPointInTime};
use crate::wire::error::ApiError;
use crate::wire::params::Params;
use crate::wire::preference;

pub(crate) const PARAMS: &[&str] = &[
    "analyze_wildcard",
    "analyzer",
    "conflicts",
    "default_operator",
    "df",
    "from",
    "lenient",
    "max_docs",
    "preference",
    "q",
    "refresh",
    "request_cache",
    "requests_per_second",
    "routing",
    "scroll",
    "scroll_size",
    "search_timeout",
    "search_type",
    "size",
    "slices",
    "sort",
    "stats",
    "terminate_after",
    "timeout",
    "version",
    "wait_for_active_shards",
    "wait_for_completion",
];

/// Default of `scroll_size`, in documents.
const BATCH: usize = 1000;
/// Documents that one search returns. Each search scans all matches, so several small batches share one search.
const FOUND_AT_ONCE: usize = 5000;

/// Options of a request.
#[derive(Debug)]
pub(super) struct ByQueryRequest {
    pub(super) target: IndexTarget,
    pub(super) routing: Vec<String>,
    query: Query,
    sort: Vec<SortKey>,
    slice: Option<Value>,
    /// Maximum number of deleted documents.
    pub(super) max_docs: Option<u64>,
    /// Version conflicts are counted and do not end the run.
    pub(super) proceeds: bool,
    /// Changed indices are refreshed at the end.
    pub(super) refresh: bool,
    /// Documents per batch; at least 1.
    pub(super) batch: usize,
    pub(super) timeout: Option<Duration>,
    /// Rate limit in documents per second; `None`: unlimited.
    pub(super) requests_per_second: Option<f32>,
}

impl ByQueryRequest {
    /// Parses the body and the parameters.
    pub(super) fn read(call: &Call) -> Result<Self, ApiError> {
        let params = &call.params;
        refuse(params)?;
        let mut body = call.object()?;
        let body_max = body.remove("max_docs").map(|value| as_count(&value)).transpose()?;
        let body_conflicts = body.remove("conflicts");
        let request = SearchRequest::parse(IndexTarget::default(), Some(&Value::Object(body.clone())))?;
        let query = match query_param(params)? {
            Some(query) => query,
            None if body.contains_key("query") => request.query,
            None => return Err(ApiError::validation(&["query is missing".to_owned()])),
        };
        let sort = match params.get("sort") {
            Some(sort) => parse_sort_param(sort)?,
            None => request.sort,
        };
        let slice = body.get("slice").cloned();
        refuse_keys(&body)?;
        let max_docs = max_docs(body_max, params.number::<i64>("max_docs")?)?;
        let slices = slices(params.get("slices"))?;
        if slice.is_some() && slices != Some(1) {
            return Err(ApiError::validation(&[
                "can't specify both manual and automatic slicing at the same time".to_owned(),
            ]));
        }
        if let (Some(max_docs), Some(slices)) = (max_docs, slices)
            && max_docs < slices
        {
            return Err(Error::illegal_argument("[max_docs] should be >= [slices]").into());
        }
        let conflicts = match body_conflicts {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(other) => Some(other.to_string()),
        };
        Ok(Self {
            target: call.target(IndicesOptions::default())?,
            routing: params.list("routing").unwrap_or_default(),
            query,
            // The natural order is that of the point in time.
            sort: match sort.is_empty() {
                true => vec![SortKey::new(SortBy::ShardDoc)],
                false => sort,
            },
            slice,
            max_docs,
            proceeds: proceeds(params.get("conflicts").or(conflicts.as_deref()))?,
            refresh: params.bool("refresh", false)?,
            batch: batch(params)?,
            timeout: params.duration("timeout")?,
            requests_per_second: requests_per_second(params.get("requests_per_second"))?,
        })
    }

    /// Returns the number of documents of one search. With a rate limit a page is one batch, so the point in time need
    /// not outlive the waits of many batches.
    pub(super) fn page_size(&self, window: usize) -> usize {
        match self.requests_per_second {
            Some(_) => self.batch,
            None => self.batch.max(FOUND_AT_ONCE.min(window)),
        }
    }

    /// Builds the search for the next documents of a point in time. `window` is the maximum size of one search.
    pub(super) fn search(
        &self,
        moment: &SharedPointInTime,
        window: usize,
        after: Option<&[Value]>,
    ) -> Result<SearchRequest> {
        let size = self.page_size(window);
        let mut body = json!({
            "size": size,
            "_source": false,
            "seq_no_primary_term": true,
            "track_total_hits": after.is_none(),
        });
        if let Some(slice) = &self.slice {
            body["slice"] = slice.clone();
        }
        let mut request = moment.request(&json!({"match_all": {}}), body)?;
        request.query = self.query.clone();
        request.sort.clone_from(&self.sort);
        request.search_after = after.map(<[Value]>::to_vec);
        request.allow_partial_results = false;
        // A rate-limited run waits between two searches.
        if let (Some(rate), Some(pit)) = (self.requests_per_second, &mut request.point_in_time) {
            let paced = Duration::try_from_secs_f32(size as f32 / rate).unwrap_or(Duration::MAX);
            pit.keep_alive = Some(KEEP_ALIVE.saturating_add(paced));
        }
        request.check()?;
        request.check_context()?;
        Ok(request)
    }
}

/// Checks parameters without effect in firn, and refuses parameters that would need a missing feature.
fn refuse(params: &Params) -> Result<(), ApiError> {
    if params.get("size").is_some() {
        return Err(Error::illegal_argument("invalid parameter [size], use [max_docs] instead").into());
    }
    if params.get("from").is_some() {
        return Err(ApiError::validation(&[
            "from is not supported in this context".to_owned()
        ]));
    }
    for name in ["search_timeout", "stats", "terminate_after"] {
        if params.get(name).is_some() {
            return Err(Error::not_implemented(format!("the parameter [{name}] of [_delete_by_query]")).into());
        }
    }
    match params.get("search_type") {
        None | Some("query_then_fetch" | "dfs_query_then_fetch") => {}
        Some(other) => return Err(Error::illegal_argument(format!("No search type for [{other}]")).into()),
    }
    if let Some(preference) = params.get("preference")
        && !preference::shards(preference)?.is_empty()
    {
        return Err(Error::not_implemented("the parameter [preference] of [_delete_by_query] with [_shards]").into());
    }
    params.flag("request_cache")?;
    params.flag("version")?;
    params.duration("scroll")?;
    wait_for_active_shards(params)?;
    Ok(())
}

/// Refuses keys that a search body may have and a delete by query may not.
fn refuse_keys(body: &Map<String, Value>) -> Result<(), ApiError> {
    for name in body.keys() {
        match name.as_str() {
            "query" | "sort" | "slice" => {}
            "from" | "stored_fields" => {
                return Err(ApiError::validation(&[format!(
                    "{name} is not supported in this context"
                )]));
            }
            "size" => return Err(Error::illegal_argument("invalid parameter [size], use [max_docs] instead").into()),
            other => return Err(Error::not_implemented(format!("[{other}] of [_delete_by_query]")).into()),
        }
    }
    Ok(())
}

fn as_count(value: &Value) -> Result<i64> {
    value
        .as_i64()
        .ok_or_else(|| Error::illegal_argument(format!("[max_docs] must be a number, found [{value}]")))
}

fn max_docs(in_body: Option<i64>, in_url: Option<i64>) -> Result<Option<u64>, ApiError> {
    if let (Some(body), Some(url)) = (in_body, in_url)
        && body != url
    {
        let reason = format!("[max_docs] set to two different values [{body}] and [{url}]");
        return Err(Error::illegal_argument(reason).into());
    }
    let Some(number) = in_body.or(in_url) else {
        return Ok(None);
    };
    match u64::try_from(number) {
        Ok(0) => Err(ApiError::validation(&[
            "maxDocs should be greater than 0 if the request is limited to some number of documents or -1 if it isn't \
             but it was [0]"
                .to_owned(),
        ])),
        Ok(number) => Ok(Some(number)),
        Err(_) => {
            Err(Error::illegal_argument(format!("[max_docs] parameter cannot be negative, found [{number}]")).into())
        }
    }
}

/// Parses the number of slices; `None`: automatic. One pass reads all slices.
fn slices(text: Option<&str>) -> Result<Option<u64>> {
    match text {
        None => Ok(Some(1)),
        Some("auto") => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => Err(Error::illegal_argument(format!(
                "[slices] must be a positive integer or the string \"auto\", but was [{text}]"
            ))),
        },
    }
}

fn proceeds(text: Option<&str>) -> Result<bool> {
    match text {
        None | Some("abort") => Ok(false),
        Some("proceed") => Ok(true),
        Some(other) => Err(Error::illegal_argument(format!(
            "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
        ))),
    }
}

fn batch(params: &Params) -> Result<usize, ApiError> {
    match params.number::<i64>("scroll_size")? {
        None => Ok(BATCH),
        Some(0) => Err(ApiError::validation(&[
            "[size] cannot be [0] in a scroll context".to_owned()
        ])),
        Some(size) => usize::try_from(size).map_err(|_| {
            Error::illegal_argument(format!("[size] parameter cannot be negative, found [{size}]")).into()
        }),
    }
}

fn requests_per_second(text: Option<&str>) -> Result<Option<f32>> {
    let refused = || {
        Error::illegal_argument("[requests_per_second] must be a float greater than 0. Use -1 to disable throttling.")
    };
    match text {
        None | Some("-1") => Ok(None),
        Some(text) => match text.parse::<f32>() {
            Ok(-1.0) => Ok(None),
            Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(Some(rate)),
            _ => Err(refused()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_elasticsearch_reads_them() {
        assert_eq!(max_docs(Some(5), Some(5)).unwrap(), Some(5));
        assert_eq!(max_docs(None, None).unwrap(), None);
        assert!(max_docs(Some(5), Some(6)).is_err());
        assert!(max_docs(Some(0), None).is_err());
        assert!(max_docs(None, Some(-1)).is_err());
        assert_eq!(slices(None).unwrap(), Some(1));
        assert_eq!(slices(Some("auto")).unwrap(), None);
        assert!(slices(Some("0")).is_err() && slices(Some("few")).is_err());
        assert!(proceeds(Some("proceed")).unwrap() && !proceeds(None).unwrap());
        assert!(proceeds(Some("Proceed")).is_err());
    }

    #[test]
    fn a_rate_is_above_zero_or_none() {
        assert_eq!(requests_per_second(None).unwrap(), None);
        assert_eq!(requests_per_second(Some("-1")).unwrap(), None);
        assert_eq!(requests_per_second(Some("-1.0")).unwrap(), None);
        assert_eq!(requests_per_second(Some("0.5")).unwrap(), Some(0.5));
        for wrong in ["0", "-2", "fast", "NaN", "inf"] {
            assert!(requests_per_second(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
