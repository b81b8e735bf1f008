//! The merge phase of a search: turns partial results into the answer, fetches hits and finishes
//! aggregations.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::RequestContext;
use firn_model::{Error, Result};
use firn_query::aggs::{FinishOptions, Partials, WantedHits};
use firn_query::search::{
    Hit, HitShape, Profile, SearchRequest, SearchResponse, SearchShards, SortBy, TotalHits, TrackTotalHits,
};
use firn_scheduler::Pool;
use serde_json::Value;

use super::prepared_shard::{PreparedShard, Task};
use super::shared_state::{Row, Shared, Top};
use crate::fetch;
use crate::fetch::inner_hits::Surroundings;
use crate::fetch::{RowAddress, Shown};
use crate::{After, SearchLimits};

/// The inputs of an answer.
pub(crate) struct Answering<'a> {
    pub(crate) ready: &'a Arc<Vec<PreparedShard>>,
    pub(crate) tasks: &'a Arc<Vec<Task>>,
    pub(crate) shared: &'a Shared,
    pub(crate) request: &'a SearchRequest,
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) ctx: &'a RequestContext,
    pub(crate) now_ms: i64,
    pub(crate) limits: SearchLimits,
    /// The aggregations, if the response cache has them.
    pub(crate) known: Option<Arc<Value>>,
}

impl Answering<'_> {
    /// Returns the answer and the end of its hits; the caller fills in the part about shards.
    pub(crate) fn answer(&self) -> Result<(SearchResponse, Option<After>)> {
        let (request, shared) = (self.request, self.shared);
        let Top { rows, max_score } = std::mem::take(&mut *shared.top.lock());
        // With the score as a later key, the first hit is not the one with the best score.
        let best_first = match request.sort.first() {
            None => true,
            Some(key) => key.by == SortBy::Score && key.descending,
        };
        let scores_shown = request.size > 0 && (best_first || request.track_scores);
        let max_score = match self.constant_score() {
            // The score is the same within a shard, but other shards may have another.
            Some(_) => rows.iter().map(|row| row.score).reduce(f32::max),
            None => max_score,
        };
        let rows: Vec<Row> = rows.into_iter().skip(request.from).take(request.size).collect();
        let last = rows.last().map(|row| After {
            values: row.values.clone(),
            tie: Some((row.order, row.doc)),
        });
        let hits = self.hits(rows)?;
        let aggregations = match &self.known {
            _ if request.aggs.0.is_empty() => None,
            Some(known) => Some(Arc::clone(known)),
            None => Some(Arc::new(self.aggregations()?)),
        };
        let response = SearchResponse {
            took_ms: 0,
            timed_out: shared.timed_out.load(Ordering::Relaxed),
            terminated_early: (request.terminate_after > 0).then(|| shared.terminated.load(Ordering::Relaxed)),
            shards: SearchShards::default(),
            total: self.total(),
            max_score: if scores_shown { max_score } else { None },
            hits,
            aggregations,
            profile: request.profile.then(|| self.profile()),
            ..SearchResponse::default()
        };
        Ok((response, last))
    }

    fn profile(&self) -> Profile {
        let one = |shard: &PreparedShard| Some(shard.times()?.report(&shard.search, &self.request.aggs));
        Profile {
            query: self.request.query.print(),
            shards: self.ready.iter().filter_map(one).collect(),
        }
    }

    fn total(&self) -> Option<TotalHits> {
        let total = self.shared.total.load(Ordering::Relaxed);
        match self.request.track_total_hits {
            TrackTotalHits::No => None,
            TrackTotalHits::UpTo(limit) if total > limit => Some(TotalHits {
                value: limit,
                exact: false,
            }),
            _ => Some(TotalHits {
                value: total,
                exact: !self.shared.total_cut.load(Ordering::Relaxed),
            }),
        }
    }

    fn constant_score(&self) -> Option<f32> {
        self.ready.first().and_then(PreparedShard::constant_score)
    }

    /// Returns the hits of the page.
    fn hits(&self, rows: Vec<Row>) -> Result<Vec<Hit>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let request = self.request;
        let places = rows.iter().map(Row::place).collect();
        let fetched = self.fetch(places, &request.shape)?;
        let shows_scores = request.shows_scores();
        let shards: HashMap<u32, usize> = self.tasks.iter().map(|task| (task.order, task.shard)).collect();
        let mut hits = Vec::with_capacity(fetched.len());
        for (hit, row) in fetched.into_iter().zip(&rows) {
            let Some(mut hit) = hit else { continue };
            let shard = &self.ready[shards[&row.order]];
            hit.score = shows_scores.then(|| shard.constant_score().unwrap_or(row.score));
            if !request.sort.is_empty() {
                let keys = shard.keys().iter().zip(&row.values);
                hit.sort = keys.map(|(key, value)| key.print(value)).collect();
            }
            if let (Some(collapse), Some(field), Some(group)) = (&request.collapse, shard.collapse(), &row.group) {
                let value = field.print(group);
                if !value.is_null() {
                    let values = Value::Array(vec![value.clone()]);
                    hit.fields.insert(collapse.field.clone(), values);
                }
                self.surroundings().expand(collapse, &value, &mut hit)?;
            }
            hits.push(hit);
        }
        Ok(hits)
    }

    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            shards: self.ready.iter().map(|shard| shard.search.clone()).collect(),
            request: self.request,
            pool: self.pool,
            ctx: self.ctx,
            now_ms: self.now_ms,
            limits: self.limits.clone(),
            timed_out: &self.shared.timed_out,
        }
    }

    fn fetch(&self, places: Vec<RowAddress>, shape: &HitShape) -> Result<Vec<Option<Hit>>> {
        let (query, post_filter) = (&self.request.query, self.request.post_filter.as_ref());
        let orders: HashSet<u32> = places.iter().map(|place| place.order).collect();
        let with_hits = self.tasks.iter().filter(|task| orders.contains(&task.order));
        let with_hits = with_hits.map(|task| task.shard).collect();
        let shown = Shown::new(shape, self.ready, &with_hits, query, post_filter, self.now_ms)?;
        let shown = Arc::new(shown);
        let hits = fetch::fetch(self.ready, self.tasks, places, &shown, self.pool, self.shared)?;
        self.shared.timed_out.fetch_or(shown.timed_out(), Ordering::Relaxed);
        Ok(hits)
    }

    fn aggregations(&self) -> Result<Value> {
        self.finish(self.ready.iter().map(PreparedShard::take_partials).collect())
    }

    /// Finishes the aggregations from the partial results of the shards.
    pub(crate) fn finish(&self, shards: Vec<Partials>) -> Result<Value> {
        let aggs = &self.request.aggs;
        let mut all = aggs.empty();
        for mut partials in shards {
            // A lone shard is cut too: a shard with a single segment is already cut, and the answer
            // must not reveal the number of segments.
            match self.ready.len() {
                1 => aggs.cut_lone_shard(&mut partials, &self.ctx.cancel)?,
                _ => aggs.cut_shard(&mut partials, &self.ctx.cancel)?,
            }
            all.merge_watched(partials, &self.ctx.cancel)?;
        }
        let mut options = FinishOptions::new(self.limits.buckets_max);
        options.typed_keys = self.request.typed_keys;
        options.now_ms = Some(self.now_ms);
        options.cancel = self.ctx.cancel.clone();
        aggs.finish_fetching(all, &options, &|wanted| self.fetch_wanted(wanted))
    }

    /// Reads the hits of `top_hits`: those of all buckets of one aggregation together.
    fn fetch_wanted(&self, wanted: Vec<WantedHits<'_>>) -> Result<Vec<Vec<Hit>>> {
        let mut pages: Vec<Vec<Hit>> = wanted.iter().map(|_| Vec::new()).collect();
        let mut done = vec![false; wanted.len()];
        for first in 0..wanted.len() {
            if done[first] {
                continue;
            }
            let same: Vec<usize> = (first..wanted.len())
                .filter(|&other| std::ptr::eq(wanted[other].top_hits, wanted[first].top_hits))
                .collect();
            let rows = same.iter().flat_map(|&page| &wanted[page].rows);
            let places = rows
                .map(|row| RowAddress {
                    order: row.segment,
                    doc: row.doc,
                })
                .collect();
            let mut fetched = self.fetch(places, &wanted[first].top_hits.shape)?.into_iter();
            for page in same {
                done[page] = true;
                for row in &wanted[page].rows {
                    let fetched = fetched.next();
                    let hit = fetched.ok_or_else(|| Error::internal("fewer hits were fetched than requested"))?;
                    let Some(mut hit) = hit else { continue };
                    hit.score = row.score;
                    hit.sort.clone_from(&row.sort);
                    pages[page].push(hit);
                }
            }
        }
        Ok(pages)
    }
}

impl Row {
    fn place(&self) -> RowAddress {
        RowAddress {
            order: self.order,
            doc: self.doc,
        }
    }
}
