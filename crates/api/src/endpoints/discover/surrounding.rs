//! `_firn/discover/surrounding`: the events just before and after an event.
//!
//! Events have a total order: by time, then by arrival, then by position. The request reads neighbours from one point
//! in time, so no event is missing or duplicated.

use std::sync::Arc;

use firn_engine::{Error, RequestContext};
use firn_query::search::{Hit, SearchResponse};
use serde_json::{Value, json};

use super::event::{by_id, only};
use super::opening::{body, resolve};
use super::request::{EventSelection, fitting, number, write_hits};
use crate::endpoints::call::Call;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

/// Maximum events on one side.
const SIDE_MAX: u64 = 100;
const SIDE: u64 = 5;

/// `POST /_firn/discover/surrounding`.
pub(crate) async fn surrounding(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut fields = Fields::new("discover request", body(&call)?);
    let anchor = fields.take("anchor").unwrap_or(Value::Null);
    let (index, id) = read_anchor(anchor)?;
    let before = number(&mut fields, "before", SIDE, 0, SIDE_MAX)?;
    let after = number(&mut fields, "after", SIDE, 0, SIDE_MAX)?;
    let question = EventSelection::take(&mut fields, edge.now_ms())?;
    fields.finish()?;
    resolve(&edge, &call, &question).await?;
    let around = Around::open(&edge, &call.ctx, question).await?;
    let anchor = around.anchor(&edge, &index, &id).await?;
    let sides = [(before, "desc"), (after, "asc")].map(|(size, order)| around.side(&anchor, size, order));
    let [before, after] = sides;
    let (mut before, after) = futures_util::try_join!(before, after)?;
    // The most distant events are omitted first.
    let omitted = before.hits.len() - fitting(&before.hits);
    before.hits.truncate(before.hits.len() - omitted);
    before.hits.reverse();
    Ok(Reply::raw(print(&anchor, &before, &after, omitted)))
}

fn read_anchor(anchor: Value) -> Result<(String, String), ApiError> {
    let mut fields = Fields::of("anchor", anchor)?;
    let mut required = |name: &str| {
        let missing = || ApiError::from(Error::illegal_argument(format!("[{name}] of [anchor] is required")));
        fields.string(name)?.filter(|text| !text.is_empty()).ok_or_else(missing)
    };
    let (index, id) = (required("index")?, required("id")?);
    fields.finish()?;
    Ok((index, id))
}

/// Point in time and sort order of the request.
struct Around {
    moment: SharedPointInTime,
    question: EventSelection,
    time_field: String,
}

impl Around {
    async fn open(edge: &Arc<Edge>, ctx: &RequestContext, question: EventSelection) -> Result<Self, ApiError> {
        Ok(Self {
            moment: SharedPointInTime::open(edge, ctx, &question.target, Vec::new(), None).await?,
            time_field: match &question.time {
                Some(time) => time.field.clone(),
                None => "@timestamp".to_owned(),
            },
            question,
        })
    }

    fn sort(&self, order: &str) -> Value {
        json!([
            {&self.time_field: {"order": order, "unmapped_type": "date"}},
            {"_seq_no": order},
            {"_shard_doc": order},
        ])
    }

    fn body(&self, size: u64, order: &str) -> Value {
        let mut body = json!({"size": size, "track_total_hits": false, "sort": self.sort(order)});
        if !self.question.columns.is_empty() {
            body["fields"] = self.question.columns.clone().into();
        }
        body
    }

    /// Returns the event itself, with its sort values.
    async fn anchor(&self, edge: &Edge, index: &str, id: &str) -> Result<Hit, ApiError> {
        let query = json!({"bool": {"filter": [{"term": {"_index": index}}, by_id(id)]}});
        let request = self.moment.request(&query, self.body(1, "asc"))?;
        let hit = only(edge, self.moment.search(request).await?, id, index)?;
        let exists = json!({"bool": {"filter": [query, {"exists": {"field": self.time_field}}]}});
        let request = self
            .moment
            .request(&exists, json!({"size": 0, "track_total_hits": true}))?;
        let counted = self.moment.search(request).await?;
        match counted.total.is_some_and(|total| total.value > 0) {
            true => Ok(hit),
            false => Err(Error::illegal_argument(format!(
                "event [{id}] has no [{}], so it has no surrounding events",
                self.time_field
            ))
            .into()),
        }
    }

    /// Returns the neighbours on one side, the nearest first. The query and the filters apply, the time range does not.
    async fn side(&self, anchor: &Hit, size: u64, order: &str) -> Result<SearchResponse, ApiError> {
        if size == 0 {
            return Ok(SearchResponse::default());
        }
        let mut conditions = self.question.conditions().to_vec();
        conditions.push(json!({"exists": {"field": self.time_field}}));
        let mut body = self.body(size, order);
        body["search_after"] = anchor.sort.clone().into();
        let mut request = self.moment.request(&json!({"bool": {"filter": conditions}}), body)?;
        request.timeout = self.question.timeout;
        self.moment.search(request).await
    }
}

fn print(anchor: &Hit, before: &SearchResponse, after: &SearchResponse, mut omitted: usize) -> Vec<u8> {
    let is_partial = |side: &SearchResponse| side.timed_out || !side.shards.failures.is_empty();
    let mut output = b"{\"anchor\":".to_vec();
    anchor.write(&mut output);
    for (name, side) in [("before", before), ("after", after)] {
        output.extend_from_slice(format!(",\"{name}\":").as_bytes());
        omitted += write_hits(&mut output, &side.hits);
    }
    let partial = is_partial(before) || is_partial(after) || omitted > 0;
    output.extend_from_slice(format!(",\"partial\":{partial}}}").as_bytes());
    output
}
