//! Execution of one search, from its shards to its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};
use firn_query::aggs::{AggregationKind, Partials};
use firn_query::search::{SearchRequest, SearchResponse, SortBy};
use firn_scheduler::Pool;
use firn_scheduler::parallel::run_indexed_within;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::{catch, metered};
use parking_lot::Mutex;

use super::answer::Answering;
use super::collapse::GroupField;
use super::memory::Memory;
use super::prefetch;
use super::prepare::prepare;
use super::profile::{Part, ShardTimes, Stopwatch};
use super::progress::Reporter;
use super::second_pass::second_run;
use super::segment_run::{self, SegmentFacts, ShardPlan, Shared, Top, fails_request};
use crate::compile::limits::{Deadline, Stop};
use crate::pruning::segment_pruning;
use crate::result_cache::cached_aggregations::CachedAggregations;
use crate::result_cache::cached_segments::RepeatableRequest;
use crate::sort::ShardKey;
use crate::{After, FailedShard, SearchLimits, ShardSearch};

/// Elasticsearch checks time ranges up front from this number of shards on, and reports skipped shards only then
/// (`pre_filter_shard_size`).
const PRE_FILTER_SHARDS: usize = 128;

/// A shard with its compiled plan and its partial results.
pub(crate) struct PreparedShard {
    pub(crate) search: ShardSearch,
    /// The number of its first segment.
    first_segment: u32,
    /// Tells when to stop, for what is compiled later.
    pub(crate) stop: Stop,
    plan: ShardPlan,
    partials: Mutex<Partials>,
    failure: Mutex<Option<Error>>,
}

/// A segment to search.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) shard: usize,
    pub(crate) segment: Arc<Segment>,
    /// Its number: ordered by shard, then as in the snapshot. It breaks ties in sorting.
    pub(crate) order: u32,
}

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
    let asking = ShardRequest {
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
        let attempt = match catch(|| attempt(&healthy, deadline, &asking)) {
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
struct ShardRequest<'a> {
    request: &'a Arc<SearchRequest>,
    pool: &'a Arc<Pool>,
    ctx: &'a RequestContext,
    now_ms: i64,
    limits: SearchLimits,
    after: Option<&'a After>,
}

fn attempt(shards: &[ShardSearch], deadline: Deadline, asking: &ShardRequest<'_>) -> Result<Attempt> {
    let ShardRequest {
        request,
        pool,
        ctx,
        now_ms,
        ref limits,
        after,
    } = *asking;
    let mut ready = Vec::with_capacity(shards.len());
    let mut tasks = Vec::new();
    let mut failed = Vec::new();
    let mut skipped = 0u32;
    let mut order = 0u32;
    let node_memory = limits.node_memory.clone();
    let memory = Memory::until(
        limits.memory_bytes_max,
        node_memory,
        ctx.cancel.clone(),
        deadline.instant(ctx),
    );
    let stop = Stop::new(ctx, deadline, &memory);
    let mut timed_out = false;
    let asked = RepeatableRequest::of(request);
    prefetch::statistics(shards, request, ctx, |shard| {
        // The shard is prepared again below; only that outcome counts.
        let _ = prepare(shard, request, &asked, now_ms, after, &stop);
    })?;
    for shard in shards {
        if let Some(first) = shard.first_segment {
            order = first;
        }
        let times = request.profile.then(|| ShardTimes::new(&request.aggs));
        let mut watch = Stopwatch::start(times.as_ref());
        let first_segment = order;
        let prepared = match catch(|| prepare(shard, request, &asked, now_ms, after, &stop)) {
            Ok(prepared) => prepared,
            Err(error) if fails_request(error.kind()) => return Err(error),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                timed_out = true;
                order += shard.snapshot.segments.len() as u32;
                continue;
            }
            Err(error) => {
                failed.push(failed_shard(shard, error));
                continue;
            }
        };
        let (mut plan, bounds) = prepared;
        watch.lap(Part::Compile);
        let before = tasks.len();
        for segment in &shard.snapshot.segments {
            if is_searched(&plan, segment, bounds) {
                tasks.push(Task {
                    shard: ready.len(),
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
        plan.single_segment = tasks.len() == before + 1;
        skipped += u32::from(tasks.len() == before && bounds.is_some());
        ready.push(PreparedShard {
            search: shard.clone(),
            first_segment,
            stop: stop.clone(),
            plan,
            partials: Mutex::new(request.aggs.empty()),
            failure: Mutex::new(None),
        });
    }
    if !failed.is_empty() {
        return Ok(Attempt::Failed(failed));
    }
    sort_tasks(&mut tasks, ready.first());
    let tasks = Arc::new(tasks);
    let reporter = ctx
        .progress
        .as_ref()
        .map(|progress| Reporter::new(progress, request, &tasks, ready.len(), pool, now_ms, limits));
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        deadline,
        threads_max: request.concurrent_shards_max.map_or(usize::MAX, |max| max as usize),
        memory,
        track_total_hits: request.track_total_hits,
        min_score: request.min_score,
        terminate_after: request.terminate_after,
        keep: if request.size == 0 {
            0
        } else {
            request.from.saturating_add(request.size)
        },
        total: AtomicU64::new(0),
        total_cut: AtomicBool::new(false),
        timed_out: AtomicBool::new(timed_out),
        terminated: AtomicBool::new(false),
        top: Mutex::new(Top::default()),
        reporter,
    });
    if let Some(reporter) = &shared.reporter {
        reporter.begin(&shared);
    }
    let ready = Arc::new(ready);
    let whole = CachedAggregations::of(&ready, &tasks, request, limits.buckets_max)?;
    let known = whole.as_ref().and_then(|whole| whole.get(&ready));
    match &known {
        Some((total, _)) => shared.count(*total),
        None => run_segments(&ready, &tasks, request, &shared, pool)?,
    }
    let all_tasks_read = &Arc::clone(&tasks);
    let mut tasks = tasks;
    if ready.iter().any(|shard| shard.plan.aggs.looks_twice()) {
        tasks = Arc::new(all_tasks(&ready));
        second_run(&ready, &tasks, &shared, pool)?;
    }
    let failed = failed_of(&ready);
    if !failed.is_empty() {
        return Ok(Attempt::Failed(failed));
    }
    let (mut response, last) = Answering {
        ready: &ready,
        tasks: &tasks,
        shared: &shared,
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
        response.shards.skipped = skipped.min((shards.len() as u32).saturating_sub(1));
    }
    Ok(Attempt::Done(Box::new(response), last))
}

/// Returns whether a segment must be searched, if every match is within these time bounds.
pub(crate) fn is_searched(plan: &ShardPlan, segment: &Segment, bounds: Option<(i64, i64)>) -> bool {
    let tenant = plan.selection.tenant();
    let in_time = segment_pruning::overlaps(segment_pruning::time_range_of(segment, tenant), bounds);
    let may_match = !plan.selection.is_none() && !segment_pruning::lacks(segment, tenant) && in_time;
    segment.max_doc > segment.deleted_count && (may_match || plan.aggs.wants_zeros())
}

/// Returns the shards that failed midway.
fn failed_of(ready: &[PreparedShard]) -> Vec<FailedShard> {
    let failed = |shard: &PreparedShard| Some(failed_shard(&shard.search, shard.failure.lock().take()?));
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
    let Some(key) = shard.and_then(|shard| shard.plan.keys.first()) else {
        return;
    };
    if !key.is_timestamp() {
        return;
    }
    let tenant = shard.and_then(|shard| shard.plan.selection.tenant());
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

/// For fewer rows, one thread is faster than the time that other threads take to wake up.
const SPREAD_ROWS_MIN: u64 = 1 << 14;

/// Searches all segments, except those with cached partial results.
fn run_segments(
    ready: &Arc<Vec<PreparedShard>>,
    tasks: &Arc<Vec<Task>>,
    request: &SearchRequest,
    shared: &Arc<Shared>,
    pool: &Arc<Pool>,
) -> Result<()> {
    prefetch::reaches(ready, tasks, &shared.ctx)?;
    let mut unknown = Vec::with_capacity(tasks.len());
    let mut rows = 0;
    for task in tasks.iter() {
        let shard = &ready[task.shard];
        match catch(|| segment_run::run_again(shared, &shard.plan, &task.segment)) {
            Ok(SegmentFacts::Partials(partials)) => {
                shard.merge(partials, shared)?;
                report(ready, task, shared);
            }
            Ok(SegmentFacts::RowCount(count)) => {
                rows += count;
                unknown.push(task.clone());
            }
            Err(error) => shard.fail_with(Err(error))?,
        }
    }
    prefetch::segments(ready, &unknown, request, &shared.ctx)?;
    if rows < SPREAD_ROWS_MIN {
        for task in &unknown {
            run_in(ready, task, shared, segment_run::run)?;
        }
        return Ok(());
    }
    run(ready, &Arc::new(unknown), shared, pool, segment_run::run)
}

/// The work on one segment.
pub(crate) type Step = fn(&Shared, &ShardPlan, &Segment, u32) -> Result<Option<Partials>>;

/// Runs all tasks; fails only with errors that fail the whole request.
pub(crate) fn run(
    ready: &Arc<Vec<PreparedShard>>,
    tasks: &Arc<Vec<Task>>,
    shared: &Arc<Shared>,
    pool: &Arc<Pool>,
    step: Step,
) -> Result<()> {
    let count = tasks.len();
    let (ready, tasks, shared) = (Arc::clone(ready), Arc::clone(tasks), Arc::clone(shared));
    let outcomes = run_indexed_within(pool, shared.threads_max, count, move |number| -> Result<()> {
        let task = &tasks[number];
        run_in(&ready, task, &shared, step)
    });
    outcomes.into_iter().collect()
}

/// Runs one task, unless its shard has already failed.
fn run_in(ready: &Arc<Vec<PreparedShard>>, task: &Task, shared: &Shared, step: Step) -> Result<()> {
    let shard = &ready[task.shard];
    if shard.failure.lock().is_some() {
        return Ok(());
    }
    let done = metered(&shared.ctx, || run_task(shared, shard, task, step));
    // Segments that could not be read in time are missing from the answer, which is no failure.
    shard.fail_with(shared.in_time(done).map(|_| ()))?;
    report(ready, task, shared);
    Ok(())
}

/// Reports the results so far, if the request asked for progress.
fn report(ready: &Arc<Vec<PreparedShard>>, task: &Task, shared: &Shared) {
    if let Some(reporter) = &shared.reporter {
        reporter.segment_done(ready, task.shard, shared);
    }
}

/// Runs one task. A panic is a bug, or a damaged file that the checks missed: it fails the shard, not the process.
fn run_task(shared: &Shared, shard: &PreparedShard, task: &Task, step: Step) -> Result<()> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        catch(|| step(shared, &shard.plan, &task.segment, task.order))
    }));
    let partials = match outcome {
        Ok(partials) => partials?,
        Err(_) => {
            // Damage that an earlier read found may make Tantivy panic.
            if let Some(damage) = task.segment.derived.damage() {
                return Err(damage.clone());
            }
            return Err(Error::internal(format!(
                "search of segment _{} panicked; see the log",
                task.segment.generation
            )));
        }
    };
    match partials {
        Some(partials) => shard.merge(partials, shared),
        None => Ok(()),
    }
}

impl PreparedShard {
    /// Returns its sort keys.
    pub(crate) fn keys(&self) -> &[ShardKey] {
        &self.plan.keys
    }

    /// Returns the score of every hit, if it is the same for all.
    pub(crate) fn constant_score(&self) -> Option<f32> {
        self.plan.constant_score
    }

    /// Returns the timings of `profile`.
    pub(crate) fn times(&self) -> Option<&ShardTimes> {
        self.plan.times.as_ref()
    }

    /// Returns the field that groups hits.
    pub(crate) fn collapse(&self) -> Option<&GroupField> {
        self.plan.collapse.as_ref()
    }

    /// Returns its plan.
    pub(crate) fn plan(&self) -> &ShardPlan {
        &self.plan
    }

    /// Merges the partial result of a segment with those of the others. It does not hold the lock while merging,
    /// because merging may take long and be interrupted.
    fn merge(&self, mut own: Partials, shared: &Shared) -> Result<()> {
        loop {
            let theirs = {
                let mut partials = self.partials.lock();
                if partials.0.is_empty() {
                    *partials = own;
                    return Ok(());
                }
                std::mem::take(&mut *partials)
            };
            own.merge_watched(theirs, &shared.ctx.cancel)?;
        }
    }

    /// Stores a failure of this shard; returns one that fails the whole request.
    pub(crate) fn fail_with(&self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if !fails_request(error.kind()) => {
                self.failure.lock().get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    /// Sets the partial results again after they were taken.
    pub(crate) fn put_partials(&self, partials: Partials) {
        *self.partials.lock() = partials;
    }

    /// Returns a copy of the partial aggregation results so far; `None`: a thread is merging them.
    pub(crate) fn copy_partials(&self) -> Option<Partials> {
        let partials = self.partials.lock();
        (!partials.0.is_empty()).then(|| partials.clone())
    }

    /// Takes the partial aggregation results of its segments.
    pub(crate) fn take_partials(&self) -> Partials {
        std::mem::take(&mut *self.partials.lock())
    }
}
