//! `_firn/discover/tail`: live tail of events.
//!
//! Every shard numbers its writes, and a search sees these numbers without gaps. So the tail remembers the last seen
//! number of each shard and searches for later ones: an event with an old timestamp is new all the same, and no event
//! is sent twice. While nothing is written, the engine answers without searching.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_engine::{Error, RequestContext};
use firn_model::metadata::Metadata;
use firn_query::search::{Hit, IndexTarget, SearchRequest, SearchResponse, SearchShards};
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use super::event_stream::{Wire, with_keep_alive};
use super::highlights;
use super::opening::{body, opened, resolve};
use super::request::{EventSelection, write_hits};
use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::endpoints::search::shards_object;
use crate::state::disclosure::disclose_error;
use crate::state::discover_store::ReaderSlot;
use crate::state::edge::Edge;
use crate::state::partial_results::PartialResult;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

/// Polling interval: with the second until an event is searchable, it arrives after 1.5 s at most.
const EVERY: Duration = Duration::from_millis(250);
/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Maximum events of one message. If there are more, only the newest are sent, with the number of dropped ones. No user
/// reads faster.
const HITS_MAX: usize = 500;
/// Maximum indices of one tail: each is a condition of each search.
const INDICES_MAX: usize = 1024;

/// `POST /_firn/discover/tail`.
pub(crate) async fn tail(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let wire = Wire::of(&call);
    let now_ms = edge.now_ms();
    let mut fields = Fields::new("discover request", body(&call)?);
    let mut question = EventSelection::take(&mut fields, now_ms)?;
    question.highlight = fields.bool("highlight")?.unwrap_or(false);
    fields.finish()?;
    question.open_end();
    question.newest_first();
    let (_, indices) = resolve(&edge, &call, &question).await?;
    let discover = edge.discovers.open(
        Arc::clone(&call.ctx.scope),
        call.ctx.cancel.clone(),
        None,
        &*edge.config.random,
    )?;
    let opened = opened(&discover.id, &question, &indices, now_ms);
    let mut tail = Tail {
        place: edge.discovers.place(discover),
        ends: question.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        edge,
        ctx: call.ctx,
        question,
        last: HashMap::new(),
        unseen: HashSet::new(),
        begun: false,
        failing: false,
        event_count: 0,
    };
    // Existing events are not new.
    tail.look().await?;
    tail.begun = true;
    Ok(wire.reply(with_keep_alive(tail.pieces(opened, wire), wire), true))
}

/// Running tail.
struct Tail {
    place: ReaderSlot,
    /// End that the client set; `None`: when the client disconnects.
    ends: Option<Instant>,
    edge: Arc<Edge>,
    ctx: RequestContext,
    question: EventSelection,
    /// Last seen sequence number by index uuid and shard number.
    last: HashMap<(String, u32), i64>,
    /// Shards that failed at the start: the events in them at the first successful read are not new.
    unseen: HashSet<(String, u32)>,
    /// The existing events of the shards are known.
    begun: bool,
    /// The last search failed, and the client was informed.
    failing: bool,
    /// Number of sent messages.
    event_count: u64,
}

/// Writes since the last read.
#[derive(Default)]
struct New {
    /// Oldest first.
    hits: Vec<Hit>,
    /// Number of dropped events.
    dropped: u64,
    shards: SearchShards,
}

/// Index that accepts writes.
struct Written {
    name: String,
    uuid: String,
    shard_count: u32,
}

impl Written {
    /// Returns the key of one of its shards.
    fn shard(&self, number: u32) -> (String, u32) {
        (self.uuid.clone(), number)
    }
}

impl Tail {
    /// Returns the stream of events, starting with `opened`.
    fn pieces(self, opened: PartialResult, wire: Wire) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
        stream::unfold(
            (self, Some(opened), false),
            move |(mut tail, opened, ended)| async move {
                if ended {
                    return None;
                }
                let news = match opened {
                    Some(opened) => opened,
                    None => tail.next().await,
                };
                tail.event_count += 1;
                let mut output = Vec::new();
                wire.write(&mut output, tail.event_count, &news);
                let ended = news.event == "end";
                Some((Ok(output.into()), (tail, None, ended)))
            },
        )
    }

    /// Waits for the next event of the stream.
    async fn next(&mut self) -> PartialResult {
        loop {
            let pause = if self.failing { AFTER_FAILURE } else { EVERY };
            tokio::time::sleep(pause).await;
            if self.ends.is_some_and(|ends| Instant::now() >= ends) || self.place.is_over() {
                return self.end();
            }
            match self.look().await {
                Ok(new) => {
                    let failing = !new.shards.failures.is_empty();
                    let is_reported = failing && self.failing;
                    self.failing = failing;
                    if !new.hits.is_empty() || (failing && !is_reported) {
                        return self.hits(&new);
                    }
                }
                Err(_) if self.place.is_over() => return self.end(),
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        return failed(&disclose_error(&self.ctx, error));
                    }
                }
            }
        }
    }

    /// Reads what was written since the last read.
    async fn look(&mut self) -> Result<New, ApiError> {
        let metadata = self.edge.engine.metadata(&self.ctx).await?;
        let indices = self.written(&metadata)?;
        let shard_count = indices.iter().map(|index| index.shard_count).max().unwrap_or(0);
        let mut new = New::default();
        // Events of one shard are sent even if another shard fails.
        let mut failed = None;
        for shard in 0..shard_count {
            let of_shard = indices.iter().filter(|index| shard < index.shard_count);
            let (unseen, seen): (Vec<_>, Vec<_>) =
                of_shard.partition(|index| !self.begun || self.unseen.contains(&index.shard(shard)));
            for (indices, is_seen) in [(unseen, false), (seen, true)] {
                if indices.is_empty() {
                    continue;
                }
                let request = self.request(&indices, shard, is_seen)?;
                match search::run(&self.edge, &self.ctx, request, b"").await {
                    Ok(response) => {
                        self.remember(&indices, shard, &response);
                        new.add(response);
                    }
                    Err(error) if !self.begun => return Err(error),
                    Err(error) => failed = Some(error),
                }
            }
        }
        new.settle();
        match failed {
            Some(error) if new.hits.is_empty() => Err(error),
            _ => Ok(new),
        }
    }

    /// Returns the indices that may have new events; mounted indices never do.
    fn written(&self, metadata: &Metadata) -> Result<Vec<Written>, ApiError> {
        let names = self.edge.resolve_names(&self.question.target, metadata)?;
        let indices: Vec<Written> = names
            .iter()
            .filter_map(|name| metadata.indices.get(name))
            .filter(|index| !index.settings.is_mounted() && !index.closed)
            .map(|index| Written {
                name: index.name.clone(),
                uuid: index.uuid.clone(),
                shard_count: index.settings.number_of_shards,
            })
            .collect();
        match indices.len() {
            0..=INDICES_MAX => Ok(indices),
            count => {
                let reason = format!("a tail may have at most [{INDICES_MAX}] indices, found [{count}]");
                Err(Error::illegal_argument(reason).into())
            }
        }
    }

    /// Builds the search of one shard of each of these indices. It returns hits only for shards that were read before.
    /// The conditions of the question filter the hits, but not the aggregation, which returns the last read numbers.
    fn request(&self, indices: &[&Written], shard: u32, is_seen: bool) -> Result<SearchRequest, ApiError> {
        let after = indices.iter().map(|index| {
            let last = self.last.get(&index.shard(shard)).copied().unwrap_or(-1);
            json!({"bool": {"filter": [
                {"term": {"_index": index.name}},
                {"range": {"_seq_no": {"gt": last}}},
            ]}})
        });
        let query = json!({"bool": {"should": after.collect::<Vec<_>>(), "minimum_should_match": 1}});
        let mut rest = json!({
            "size": 0,
            "track_total_hits": false,
            "aggs": {"indices": {
                "terms": {"field": "_index", "size": INDICES_MAX},
                "aggs": {"last": {"max": {"field": "_seq_no"}}},
            }},
        });
        if is_seen {
            rest["size"] = HITS_MAX.into();
            rest["track_total_hits"] = true.into();
            rest["post_filter"] = self.question.query_dsl.clone();
            rest["sort"] = self.question.sort.clone();
            // The conditions of the question are not in the query, so highlighting needs them.
            if let Some(highlight) = highlights::highlight(&self.question, Some(&self.question.query_dsl)) {
                rest["highlight"] = highlight;
            }
        }
        if !self.question.columns.is_empty() {
            rest["fields"] = self.question.columns.clone().into();
        }
        let mut request = self.question.search_for(query, rest)?;
        request.target = IndexTarget {
            expression: indices.iter().map(|index| index.name.clone()).collect(),
            options: self.question.target.options,
        };
        request.only_shards = vec![shard];
        request.timeout = None;
        Ok(request)
    }

    fn remember(&mut self, indices: &[&Written], shard: u32, response: &SearchResponse) {
        let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
        for bucket in aggregations["indices"]["buckets"].as_array().into_iter().flatten() {
            let index = indices.iter().find(|index| bucket["key"] == index.name.as_str());
            if let (Some(index), Some(last)) = (index, bucket["last"]["value"].as_f64()) {
                self.last.insert(index.shard(shard), last as i64);
            }
        }
        // An empty shard counts as read.
        for index in indices {
            let failed = |(name, number, _): &(String, u32, Error)| *name == index.name && *number == shard;
            if !response.shards.failures.iter().any(failed) {
                self.last.entry(index.shard(shard)).or_insert(-1);
                self.unseen.remove(&index.shard(shard));
            } else if !self.begun {
                self.unseen.insert(index.shard(shard));
            }
        }
    }

    fn hits(&self, new: &New) -> PartialResult {
        let mut output = Vec::new();
        let omitted = write_hits(&mut output, &new.hits);
        let head = json!({"event": "hits", "dropped": new.dropped + omitted as u64});
        let mut json = head.to_string().into_bytes();
        json.pop();
        json.extend_from_slice(b",\"hits\":");
        json.extend_from_slice(&output);
        if !new.shards.failures.is_empty() {
            let shards = shards_object(&new.shards, &self.edge.config.node_id, None);
            json.extend_from_slice(format!(",\"shards\":{shards}").as_bytes());
        }
        json.push(b'}');
        PartialResult {
            event: "hits",
            json: json.into(),
        }
    }

    fn end(&self) -> PartialResult {
        let took_ms = self.ctx.started.elapsed().as_millis() as u64;
        PartialResult {
            event: "end",
            json: json!({"event": "end", "took_ms": took_ms}).to_string().into(),
        }
    }
}

impl New {
    fn add(&mut self, response: SearchResponse) {
        let total = response.total.map_or(0, |total| total.value);
        self.dropped += total.saturating_sub(response.hits.len() as u64);
        self.hits.extend(response.hits);
        self.shards.total += response.shards.total;
        self.shards.successful += response.shards.successful;
        self.shards.skipped += response.shards.skipped;
        self.shards.failures.extend(response.shards.failures);
    }

    /// Sorts the hits oldest first, and drops the oldest over the limit.
    fn settle(&mut self) {
        let time_of = |hit: &Hit| hit.sort.first().and_then(Value::as_i64);
        self.hits.reverse();
        self.hits.sort_by_key(time_of);
        let over = self.hits.len().saturating_sub(HITS_MAX);
        self.hits.drain(..over);
        self.dropped += over as u64;
    }
}

fn failed(error: &ApiError) -> PartialResult {
    let mut body = error.body(None, false);
    let json = json!({"event": "failed", "status": error.status().as_u16(), "error": body["error"].take()});
    PartialResult {
        event: "failed",
        json: json.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use firn_query::search::TotalHits;

    use super::*;

    #[test]
    fn the_newest_are_sent_oldest_first() {
        let hit = |ms: i64| Hit {
            sort: vec![json!(ms)],
            ..Hit::default()
        };
        let page = |first: i64, count: i64, total: u64| SearchResponse {
            hits: (first..first + count).rev().map(hit).collect(),
            total: Some(TotalHits {
                value: total,
                exact: true,
            }),
            ..SearchResponse::default()
        };
        let mut new = New::default();
        new.add(page(1000, 500, 700));
        new.add(page(0, 10, 10));
        new.settle();
        let times: Vec<_> = new.hits.iter().map(|hit| hit.sort[0].as_i64().unwrap()).collect();
        assert_eq!((times.len(), times[0], times[499]), (500, 1000, 1499));
        assert_eq!(new.dropped, 210);
    }
}
