//! Execution of one search, from its shards to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};
use firn_query::aggs::AggregationKind;
use firn_query::search::{SearchRequest, SearchResponse, SortBy};
use firn_scheduler::Pool;
use firn_segment::splits::dry_run::catch;

use super::answer::Answering;
use super::memory::Memory;
use super::prefetch;
use super::prepare::prepare;
use super::prepared_shard::{PreparedShard, Task, fails_request};
use super::profile::{Part, ShardTimes, Stopwatch};
use super::progress::Reporter;
use super::second_pass::second_run;
use super::shared_state::Shared;
use super::task_runner::TaskRunner;
use crate::compile::limits::{Deadline, Stop};
use crate::pruning::segment_pruning;
use crate::result_cache::cached_aggregations::CachedAggregations;
use crate::result_cache::cached_segments::RepeatableRequest;
use crate::{After, FailedShard, SearchLimits, ShardSearch};

/// Elasticsearch checks time ranges up front from this number of shards on, and reports skipped shards only then
/// (`pre_filter_shard_size`).
const PRE_FILTER_SHARDS: usize = 128;

pub(crate) fn search(
    shards: Vec<Result<ShardSearch, FailedShard>>,
    request: Arc<SearchRequest>,
    pool: &Arc<Pool>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: SearchLimits,
    after: Option<&After>,
) -> Result<(SearchResponse, Option<After>)> {
    let shard_total = shards.len();
    let mut failures: Vec<FailedShard> = Vec::new();
    let mut healthy = Vec::new();
    for shard in shards {
        match shard {
            Ok(shard) => healthy.push(shard),
            Err(failed) => failures.push(failed),
        }
    }
    check_window(&healthy, &request)?;
    // A shard that fails midway has already added hits and counts that cannot be separated, so the other shards are
    // searched again without it. Such failures come from damaged files, and are rare.
    let inputs = SearchInputs {
        request: &request,
        pool,
        ctx,
        now_ms,
        limits,
        after,
    };
    let mut is_again = false;
    let (mut response, last) = loop {
        ctx.check()?;
        check_failures(shard_total, &healthy, &failures, &request)?;
        if let Some(progress) = &ctx.progress {
            progress.fail(failures.iter().map(FailedShard::named).collect());
        }
        let deadline = Deadline::new(ctx, request.timeout, is_again);
        is_again = true;
        let attempt = match catch(|| attempt(&healthy, deadline, &inputs)) {
            // Damage found after the segments were searched, as when hits are fetched: the error does not say in
            // which shard.
            Err(error) if error.kind() == ErrorKind::ShardDamaged => Attempt::Failed(damaged_of(&healthy, error)?),
            attempt => attempt?,
        };
        match attempt {
            Attempt::Done(response, last) => break (*response, last),
            Attempt::Failed(failed) => {
                healthy.retain(|shard| {
                    let snapshot = &shard.snapshot;
                    !failed
                        .iter()
                        .any(|failed| failed.index == *snapshot.index && failed.shard == snapshot.shard)
                });
                failures.extend(failed);
            }
        }
    };
    response.shards.total = shard_total as u32;
    response.shards.successful = healthy.len() as u32;
    response.shards.failures = failures.iter().map(FailedShard::named).collect();
    response.took_ms = u64::try_from(ctx.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok((response, last))
}

fn check_window(shards: &[ShardSearch], request: &SearchRequest) -> Result<()> {
    let wanted = request.from.saturating_add(request.size) as u64;
    for shard in shards {
        if wanted > shard.max_result_window && request.scroll.is_some() {
            return Err(Error::illegal_argument(format!(
                "Batch size is too large, size must be less than or equal to: [{}] but was [{wanted}]. Scroll batch \
                 sizes cost as much memory as result windows so they are controlled by the [index.max_result_window] \
                 index level setting.",
                shard.max_result_window
            )));
        }
        if wanted > shard.max_result_window {
            return Err(Error::illegal_argument(format!(
                "Result window is too large, from + size must be less than or equal to: [{}] but was [{wanted}]. See \
                 the scroll api for a more efficient way to request large data sets. This limit can be set by changing \
                 the [index.max_result_window] index level setting.",
                shard.max_result_window
            )));
        }
    }
    check_top_hits(shards, request)?;
    if let (Some(collapse), Some(_)) = (&request.collapse, &request.search_after) {
        let by_group = SortBy::Field(collapse.field.clone());
        if request.sort.len() != 1 || request.sort[0].by != by_group {
            return Err(Error::illegal_argument(
                "Cannot use [collapse] in conjunction with [search_after] unless the search is sorted on the same \
                 field. Multiple sort fields are not allowed.",
            ));
        }
    }
    if request.search_after.is_some() && request.from > 0 {
        return Err(Error::illegal_argument(
            "`from` parameter must be set to 0 when `search_after` is used",
        ));
    }
    match &request.search_after {
        Some(_) if request.sort.is_empty() => Err(Error::illegal_argument("Sort must contain at least one field.")),
        Some(values) if values.len() != request.sort.len() => Err(Error::illegal_argument(format!(
            "search_after has {} value(s) but sort has {}.",
            values.len(),
            request.sort.len()
        ))),
        _ => Ok(()),
    }
}

fn check_top_hits(shards: &[ShardSearch], request: &SearchRequest) -> Result<()> {
    let Some(limit) = shards.iter().map(|shard| shard.max_inner_result_window).min() else {
        return Ok(());
    };
    let mut outcome = Ok(());
    request.aggs.visit(&mut |name, aggregation| {
        if let AggregationKind::TopHits(top) = &aggregation.kind {
            let wanted = top.from.saturating_add(top.size) as u64;
            if wanted > limit && outcome.is_ok() {
                outcome = Err(Error::illegal_argument(format!(
                    "Top hits result window is too large, the top hits aggregator [{name}]'s from + size must be less \
                     than or equal to: [{limit}] but was [{wanted}]. This limit can be set by changing the \
                     [index.max_inner_result_window] index level setting."
                )));
            }
        }
    });
    outcome
}

fn check_failures(
    shard_total: usize,
    healthy: &[ShardSearch],
    failures: &[FailedShard],
    request: &SearchRequest,
) -> Result<()> {
    let Some(first) = failures.first() else {
        return Ok(());
    };
    if !request.allow_partial_results || (healthy.is_empty() && shard_total > 0) {
        let error = first.error.clone();
        return Err(match error.index() {
            Some(_) => error,
            None => error.with_index(&*first.index),
        });
    }
    Ok(())
}

enum Attempt {
    /// The answer, and the end of its hits.
    Done(Box<SearchResponse>, Option<After>),
    /// These shards failed; the others must be searched again without them.
    Failed(Vec<FailedShard>),
}

/// The inputs of a search, the same for each attempt.
struct SearchInputs<'a> {
    request: &'a Arc<SearchRequest>,
    pool: &'a Arc<Pool>,
    ctx: &'a RequestContext,
    now_ms: i64,
    limits: SearchLimits,
    after: Option<&'a After>,
}

/// Searches the shards once.
fn attempt(shards: &[ShardSearch], deadline: Deadline, inputs: &SearchInputs<'_>) -> Result<Attempt> {
    let SearchInputs {
        request,
        pool,
        ctx,
        now_ms,
        ref limits,
        ..
    } = *inputs;
    let memory = Memory::until(
        limits.memory_bytes_max,
        limits.node_memory.clone(),
        ctx.cancel.clone(),
        deadline.instant(ctx),
    );
    let prepared = prepare_shards(shards, &Stop::new(ctx, deadline, &memory), inputs)?;
    if !prepared.failed.is_empty() {
        return Ok(Attempt::Failed(prepared.failed));
    }
    let (ready, tasks) = (Arc::new(prepared.ready), Arc::new(prepared.tasks));
    let shared = Shared::new(ctx, request, deadline, memory);
    shared.timed_out.store(prepared.timed_out, Ordering::Relaxed);
    let reporter = ctx
        .progress
        .as_ref()
        .map(|progress| Reporter::new(progress, request, &tasks, ready.len(), pool, now_ms, limits));
    if let Some(reporter) = &reporter {
        reporter.begin(&shared);
    }
    let runner = TaskRunner {
        ready: Arc::clone(&ready),
        shared: Arc::new(shared),
        pool: Arc::clone(pool),
        reporter: reporter.map(Arc::new),
    };
    let shared = &runner.shared;
    let whole = CachedAggregations::of(&ready, &tasks, request, limits.buckets_max)?;
    let known = whole.as_ref().and_then(|whole| whole.get(&ready));
    match &known {
        Some((total, _)) => shared.count(*total),
        None => runner.search(&tasks, request)?,
    }
    let all_tasks_read = &Arc::clone(&tasks);
    let mut tasks = tasks;
    if ready.iter().any(|shard| shard.plan().aggs.looks_twice()) {
        tasks = Arc::new(all_tasks(&ready));
        second_run(&runner, &tasks)?;
    }
    let failed = failed_of(&ready);
    if !failed.is_empty() {
        return Ok(Attempt::Failed(failed));
    }
    let (mut response, last) = Answering {
        ready: &ready,
        tasks: &tasks,
        shared,
        request,
        pool,
        ctx,
        now_ms,
        limits: limits.clone(),
        known: known.as_ref().map(|(_, aggregations)| Arc::clone(aggregations)),
    }
    .answer()?;
    // Shards whose hits could not be read.
    let failed = failed_of(&ready);
    if !failed.is_empty() {
        return Ok(Attempt::Failed(failed));
    }
    if let (Some(whole), None, Some(aggregations)) = (whole, known, &response.aggregations)
        && !response.timed_out
    {
        whole.put(all_tasks_read, shared.total.load(Ordering::Relaxed), aggregations);
    }
    let sorted_by_field = matches!(request.sort.first().map(|key| &key.by), Some(SortBy::Field(_)));
    if shards.len() > PRE_FILTER_SHARDS || sorted_by_field {
        // At least one shard counts as not skipped, so that the shape of the answer is known.
        response.shards.skipped = prepared.skipped.min((shards.len() as u32).saturating_sub(1));
    }
    Ok(Attempt::Done(Box::new(response), last))
}

/// The shards of an attempt, compiled.
#[derive(Default)]
struct PreparedShards {
    ready: Vec<PreparedShard>,
    /// The segments to search, those with the first hits first.
    tasks: Vec<Task>,
    failed: Vec<FailedShard>,
    /// Shards without a segment to search.
    skipped: u32,
    /// Some shards could not be compiled before the timeout.
    timed_out: bool,
}

/// Compiles the search for each shard and prunes its segments.
fn prepare_shards(shards: &[ShardSearch], stop: &Stop, inputs: &SearchInputs<'_>) -> Result<PreparedShards> {
    let SearchInputs {
        request,
        ctx,
        now_ms,
        after,
        ..
    } = *inputs;
    let mut prepared = PreparedShards::default();
    let mut order = 0u32;
    let repeatable = RepeatableRequest::of(request);
    prefetch::statistics(shards, request, ctx, |shard| {
        // The shard is prepared again below; only that outcome counts.
        let _ = prepare(shard, request, &repeatable, now_ms, after, stop);
    })?;
    for shard in shards {
        if let Some(first) = shard.first_segment {
            order = first;
        }
        let times = request.profile.then(|| ShardTimes::new(&request.aggs));
        let mut watch = Stopwatch::start(times.as_ref());
        let first_segment = order;
        let (mut plan, bounds) = match catch(|| prepare(shard, request, &repeatable, now_ms, after, stop)) {
            Ok(compiled) => compiled,
            Err(error) if fails_request(error.kind()) => return Err(error),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                prepared.timed_out = true;
                order += shard.snapshot.segments.len() as u32;
                continue;
            }
            Err(error) => {
                prepared.failed.push(failed_shard(shard, error));
                continue;
            }
        };
        watch.lap(Part::Compile);
        let before = prepared.tasks.len();
        for segment in &shard.snapshot.segments {
            if plan.must_search(segment, bounds) {
                prepared.tasks.push(Task {
                    shard: prepared.ready.len(),
                    segment: Arc::clone(segment),
                    order,
                });
            } else if let Some(times) = &times {
                match segment_pruning::lacks(segment, plan.selection.tenant()) {
                    true => times.segment_pruned_by_tenant(),
                    false => times.segment_pruned(),
                }
            }
            order += 1;
        }
        watch.lap(Part::Prune);
        plan.times = times;
        plan.single_segment = prepared.tasks.len() == before + 1;
        prepared.skipped += u32::from(prepared.tasks.len() == before && bounds.is_some());
        let empty = request.aggs.empty();
        let shard = PreparedShard::new(shard.clone(), first_segment, stop.clone(), plan, empty);
        prepared.ready.push(shard);
    }
    sort_tasks(&mut prepared.tasks, prepared.ready.first());
    Ok(prepared)
}

/// Returns the shards that failed midway.
fn failed_of(ready: &[PreparedShard]) -> Vec<FailedShard> {
    let failed = |shard: &PreparedShard| Some(failed_shard(&shard.search, shard.take_failure()?));
    ready.iter().filter_map(failed).collect()
}

/// Returns the shards in which damage was found; if there are none, the error itself.
fn damaged_of(shards: &[ShardSearch], error: Error) -> Result<Vec<FailedShard>> {
    let failed: Vec<FailedShard> = shards
        .iter()
        .filter_map(|shard| {
            let mut segments = shard.snapshot.segments.iter();
            let damage = segments.find_map(|segment| segment.derived.damage())?;
            Some(failed_shard(shard, damage.clone()))
        })
        .collect();
    match failed.is_empty() {
        true => Err(error),
        false => Ok(failed),
    }
}

fn failed_shard(shard: &ShardSearch, error: Error) -> FailedShard {
    let index = shard.snapshot.index.to_string();
    FailedShard {
        error: if error.index().is_some() {
            error
        } else {
            error.with_index(index.clone())
        },
        index,
        shard: shard.snapshot.shard,
    }
}

/// Orders the segments so that those with the first hits come first; later ones can then be skipped.
fn sort_tasks(tasks: &mut [Task], shard: Option<&PreparedShard>) {
    let Some(key) = shard.and_then(|shard| shard.plan().keys.first()) else {
        return;
    };
    if !key.is_timestamp() {
        return;
    }
    let tenant = shard.and_then(|shard| shard.plan().selection.tenant());
    let range = |task: &Task| segment_pruning::time_range_of(&task.segment, tenant);
    if key.descending {
        tasks.sort_by_key(|task| std::cmp::Reverse(range(task).map(|range| range.1)));
    } else {
        tasks.sort_by_key(|task| range(task).map_or(i64::MAX, |range| range.0));
    }
}

/// Returns every segment of all shards, including those in which the query cannot match.
fn all_tasks(ready: &[PreparedShard]) -> Vec<Task> {
    let of_shard = |(shard, ready): (usize, &PreparedShard)| {
        let segments = ready.search.snapshot.segments.iter();
        let task = |(order, segment)| Task {
            shard,
            segment: Arc::clone(segment),
            order,
        };
        (ready.first_segment..).zip(segments).map(task).collect::<Vec<_>>()
    };
    ready.iter().enumerate().flat_map(of_shard).collect()
}
