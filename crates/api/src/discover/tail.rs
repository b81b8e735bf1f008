//! `_firn/discover/tail`: events as they come.
//!
//! Every shard numbers what is written to it, and what a search sees of a shard has no gaps in these numbers. So the
//! tail remembers of each shard the last number that it has seen and asks for what comes after it: an event that is late
//! by its own time is new all the same, and none is told twice. As long as nothing is written the engine knows the
//! answer without searching.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_engine::search::{Hit, IndexTarget, SearchRequest, SearchResponse, SearchShards};
use firn_engine::{Error, RequestContext};
use firn_model::metadata::Metadata;
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use super::board::News;
use super::request::{Question, write_hits};
use super::store::Place;
use super::stream::{Wire, kept_alive};
use super::{body, marks, opened, resolve};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::reply::Reply;
use crate::request::{Call, Edge};
use crate::search::{self, shards_object};

/// How often is asked for what is new: with the second until it is searchable an event is there after 1.5 s at most.
const EVERY: Duration = Duration::from_millis(250);
/// How long is waited after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// New events that are told at once; of more only the newest, and how many were left out. Nobody reads faster.
const HITS_MAX: usize = 500;
/// Indices of one tail: each is a condition of each search.
const INDICES_MAX: usize = 1024;

/// `POST /_firn/discover/tail`.
pub(crate) async fn tail(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let wire = Wire::of(&call);
    let now_ms = edge.now_ms();
    let mut fields = Fields::new("discover request", body(&call)?);
    let mut question = Question::take(&mut fields, now_ms)?;
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
        told: 0,
    };
    // What is there already is not new.
    tail.look().await?;
    tail.begun = true;
    Ok(wire.reply(kept_alive(tail.pieces(opened, wire), wire), true))
}

/// A tail on its way.
struct Tail {
    place: Place,
    /// When its client wants no more; `None`: when he goes away.
    ends: Option<Instant>,
    edge: Arc<Edge>,
    ctx: RequestContext,
    question: Question,
    /// The last number that was seen, by the id of an index and the number of a shard.
    last: HashMap<(String, u32), i64>,
    /// Shards that were there at the beginning and did not answer: what they have then is not new.
    unseen: HashSet<(String, u32)>,
    /// It is known what is there already.
    begun: bool,
    /// The last search failed, and that was told.
    failing: bool,
    /// Pieces of news so far.
    told: u64,
}

/// What was written since the last look.
#[derive(Default)]
struct New {
    /// Oldest first.
    hits: Vec<Hit>,
    /// Further ones.
    dropped: u64,
    shards: SearchShards,
}

/// An index that is written to.
struct Written {
    name: String,
    uuid: String,
    shard_count: u32,
}

impl Written {
    /// What one of its shards is known by.
    fn shard(&self, number: u32) -> (String, u32) {
        (self.uuid.clone(), number)
    }
}

impl Tail {
    /// The news, beginning with `opened`.
    fn pieces(self, opened: News, wire: Wire) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
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
                tail.told += 1;
                let mut output = Vec::new();
                wire.write(&mut output, tail.told, &news);
                let ended = news.event == "end";
                Some((Ok(output.into()), (tail, None, ended)))
            },
        )
    }

    /// The next piece of news, whenever there is one.
    async fn next(&mut self) -> News {
        loop {
            let pause = if self.failing { AFTER_FAILURE } else { EVERY };
            tokio::time::sleep(pause).await;
            if self.ends.is_some_and(|ends| Instant::now() >= ends) || self.place.is_over() {
                return self.end();
            }
            match self.look().await {
                Ok(new) => {
                    let failing = !new.shards.failures.is_empty();
                    let is_told = failing && self.failing;
                    self.failing = failing;
                    if !new.hits.is_empty() || (failing && !is_told) {
                        return self.hits(&new);
                    }
                }
                Err(_) if self.place.is_over() => return self.end(),
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        return failed(&error.told(&self.ctx));
                    }
                }
            }
        }
    }

    /// What was written since the last look.
    async fn look(&mut self) -> Result<New, ApiError> {
        let metadata = self.edge.engine.metadata(&self.ctx).await?;
        let indices = self.written(&metadata)?;
        let shard_count = indices.iter().map(|index| index.shard_count).max().unwrap_or(0);
        let mut new = New::default();
        // What one shard has told is told, whatever becomes of the others.
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

    /// The indices that may have something new: what is mounted from a snapshot never has.
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
                let reason = format!("a tail may be about at most [{INDICES_MAX}] indices, found [{count}]");
                Err(Error::illegal_argument(reason).into())
            }
        }
    }

    /// A search of one shard of each of these indices; only of those that were seen before it tells hits. What the question narrows hits to does not narrow the
    /// aggregation, which tells how far was read.
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
            // What narrows the hits stands beside the query.
            if let Some(highlight) = marks::highlight(&self.question, Some(&self.question.query_dsl)) {
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
        // Of an empty shard it is known that it was looked at.
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

    fn hits(&self, new: &New) -> News {
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
        News {
            event: "hits",
            json: json.into(),
        }
    }

    fn end(&self) -> News {
        let took_ms = self.ctx.started.elapsed().as_millis() as u64;
        News {
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

    /// Oldest first, and no more than can be told.
    fn settle(&mut self) {
        let time_of = |hit: &Hit| hit.sort.first().and_then(Value::as_i64);
        self.hits.reverse();
        self.hits.sort_by_key(time_of);
        let over = self.hits.len().saturating_sub(HITS_MAX);
        self.hits.drain(..over);
        self.dropped += over as u64;
    }
}

fn failed(error: &ApiError) -> News {
    let mut body = error.body(None, false);
    let json = json!({"event": "failed", "status": error.status().as_u16(), "error": body["error"].take()});
    News {
        event: "failed",
        json: json.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use firn_engine::search::TotalHits;

    use super::*;

    #[test]
    fn the_newest_are_told_oldest_first() {
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
