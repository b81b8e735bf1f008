//! One search from its shards to its answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use firn_engine::RequestContext;
use firn_engine::aggs::{AggregationKind, Partials};
use firn_engine::query::{Query, Rewrite, Term};
use firn_engine::search::{SearchRequest, SearchResponse, SortBy};
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::aggs::Plan;
use super::answer::Answering;
use super::collapse::GroupField;
use super::compile::Compiler;
use super::docs::Selection;
use super::guard::{Guard, Stop};
use super::memory::Memory;
use super::profile::{Part, ShardTimes, Stopwatch};
use super::repeat::Repeatable;
use super::second_run::second_run;
use super::segment_run::{self, ShardPlan, Shared, Top, fails_request};
use super::sort::ShardKey;
use super::statistics::Statistics;
use super::weight::Compiled;
use super::{After, FailedShard, SearchLimits, ShardSearch, prune, slice, time_window};
use crate::parallel::run_indexed;
use crate::pool::Pool;
use crate::segment::Segment;

/// Elasticsearch looks at time ranges up front from this many shards on, and reports what it
/// skipped only then (`pre_filter_shard_size`).
const PRE_FILTER_SHARDS: usize = 128;

/// A shard made ready.
pub(super) struct Ready {
    pub(super) search: ShardSearch,
    /// Whether to stop, for what is compiled later on.
    pub(super) stop: Stop,
    plan: ShardPlan,
    partials: Mutex<Partials>,
    failure: Mutex<Option<Error>>,
}

/// A segment to search.
pub(super) struct Task {
    pub(super) shard: usize,
    pub(super) segment: Arc<Segment>,
    /// Its number: by shard, then as the snapshot has it. Ties sort by it.
    pub(super) order: u32,
}

pub(super) fn search(
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
    // A shard that fails on the way leaves hits and counts behind that cannot be told apart, so
    // the rest is searched again without it. Failures are damage, and rare.
    let (mut response, last) = loop {
        ctx.check()?;
        check_failures(shard_total, &healthy, &failures, &request)?;
        let attempt = attempt(&healthy, &request, pool, ctx, now_ms, limits.clone(), after)?;
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
    response.shards.failures = failures
        .into_iter()
        .map(|failed| (failed.index, failed.shard, failed.error))
        .collect();
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
        return Err(first.error.clone());
    }
    Ok(())
}

enum Attempt {
    /// The answer, and where its hits end.
    Done(Box<SearchResponse>, Option<After>),
    /// These shards failed; the rest has to be searched without them.
    Failed(Vec<FailedShard>),
}

fn attempt(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    pool: &Arc<Pool>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: SearchLimits,
    after: Option<&After>,
) -> Result<Attempt> {
    let mut ready = Vec::with_capacity(shards.len());
    let mut tasks = Vec::new();
    let mut failed = Vec::new();
    let mut skipped = 0u32;
    let mut order = 0u32;
    // A timeout past the end of time is none.
    let deadline = request.timeout.and_then(|timeout| ctx.started.checked_add(timeout));
    let memory = Memory::new(limits.memory_bytes_max, limits.node_memory.clone(), ctx.cancel.clone());
    let stop = Stop::new(ctx, deadline, &memory);
    let mut timed_out = false;
    for shard in shards {
        if let Some(first) = shard.first_segment {
            order = first;
        }
        let times = request.profile.then(|| ShardTimes::new(&request.aggs));
        let mut watch = Stopwatch::start(times.as_ref());
        let prepared = match prepare(shard, request, now_ms, after, &stop) {
            Ok(prepared) => prepared,
            Err(error) if fails_request(error.kind()) => return Err(error),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                timed_out = true;
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
            let may_match = !plan.selection.is_none() && prune::may_match(segment, bounds);
            if segment.max_doc > segment.deleted_count && (may_match || plan.aggs.wants_zeros()) {
                tasks.push(Task {
                    shard: ready.len(),
                    segment: Arc::clone(segment),
                    order,
                });
            } else if let Some(times) = &times {
                times.segment_pruned();
            }
            order += 1;
        }
        watch.lap(Part::Prune);
        plan.times = times;
        plan.single_segment = tasks.len() == before + 1;
        skipped += u32::from(tasks.len() == before && bounds.is_some());
        ready.push(Ready {
            search: shard.clone(),
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
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        deadline,
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
    });
    let ready = Arc::new(ready);
    let tasks = Arc::new(tasks);
    run(&ready, &tasks, &shared, pool, segment_run::run)?;
    let mut tasks = tasks;
    if ready.iter().any(|shard| looks_twice(&shard.plan.aggs)) {
        tasks = Arc::new(all_tasks(shards));
        second_run(&ready, &tasks, &shared, pool)?;
    }
    let failed: Vec<FailedShard> = ready
        .iter()
        .filter_map(|shard| Some(failed_shard(&shard.search, shard.failure.lock().take()?)))
        .collect();
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
        limits,
    }
    .answer()?;
    let sorted_by_field = matches!(request.sort.first().map(|key| &key.by), Some(SortBy::Field(_)));
    if shards.len() > PRE_FILTER_SHARDS || sorted_by_field {
        // One shard always answers, so that the shape of the answer is known.
        response.shards.skipped = skipped.min((shards.len() as u32).saturating_sub(1));
    }
    Ok(Attempt::Done(Box::new(response), last))
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

/// Inclusive bounds of `@timestamp`, ms.
type TimeBounds = Option<(i64, i64)>;

/// Compiles what a shard is searched for, and the time bounds that its hits have.
fn prepare(
    shard: &ShardSearch,
    request: &SearchRequest,
    now_ms: i64,
    after: Option<&After>,
    stop: &Stop,
) -> Result<(ShardPlan, TimeBounds)> {
    let guard = Guard::new(stop);
    let filter = shard.compiler(now_ms, &guard);
    let mut keys = request
        .sort
        .iter()
        .map(|key| ShardKey::compile(&filter, key))
        .collect::<Result<Vec<_>>>()?;
    let by_score = keys.is_empty() || keys.iter().any(ShardKey::is_score);
    let aggs = Plan::compile(&filter, &request.aggs)?;
    let boost = request.boost_of(&shard.snapshot.index);
    let wants_scores =
        by_score && request.size > 0 || request.track_scores || request.min_score.is_some() || aggs.wants_scores();
    let constant_score = if wants_scores {
        constant_score(&request.query).map(|score| score * boost)
    } else {
        None
    };
    let scoring = wants_scores && constant_score.is_none();
    if keys.is_empty() {
        // Hits that all score the same come in index order, which can stop early.
        let differ = scoring || !request.indices_boost.is_empty();
        keys.push(if differ { ShardKey::score() } else { ShardKey::doc() });
    }
    let statistics = scoring.then(|| Statistics::new(&shard.snapshot.segments));
    let compiler = Compiler {
        statistics: statistics.as_ref(),
        ..filter
    };
    let split = time_window::split(&filter, &request.query);
    let (mut compiled, window) = match &split {
        Some((rest, window)) => (compiler.compile(rest)?, Some(*window)),
        None => (compiler.compile(&request.query)?, None),
    };
    compiled = compiled.boost(boost, scoring);
    let mut bounds = prune::time_bounds(&filter, &request.query);
    if !shard.filters.is_empty() || shard.tenant.is_some() {
        let allowed = allowed(&filter, shard)?.constant(0.0, scoring);
        compiled = Compiled::all(vec![compiled, allowed], scoring);
        if !shard.filters.is_empty()
            && let Some((min, max)) = prune::any_bounds(&filter, &shard.filters)
        {
            bounds = Some(bounds.map_or((min, max), |own| (own.0.max(min), own.1.min(max))));
        }
    }
    let mut post_filter = None;
    if let Some(query) = &request.post_filter {
        let allowed = filter.compile(query)?;
        if aggs.is_empty() {
            // Nobody is to see more than the hits, so it is a filter like any other.
            compiled = Compiled::all(vec![compiled, allowed.constant(0.0, scoring)], scoring);
            if let Some((min, max)) = prune::time_bounds(&filter, query) {
                bounds = Some(bounds.map_or((min, max), |own| (own.0.max(min), own.1.min(max))));
            }
        } else {
            post_filter = Some(allowed.into_weight());
        }
    }
    if let Some(part) = &request.slice {
        compiled = Compiled::all(
            vec![compiled, slice::compile(&filter, part)?.constant(0.0, scoring)],
            scoring,
        );
    }
    let after = match (after, &request.search_after) {
        (Some(after), _) => Some(after.clone()),
        (None, Some(values)) => Some(After {
            values: keys
                .iter()
                .zip(values)
                .map(|(key, value)| key.read_after(value, now_ms))
                .collect::<Result<Vec<_>>>()?,
            tie: None,
        }),
        (None, None) => None,
    };
    let plan = ShardPlan {
        selection: Selection::new(compiled, window),
        everything: match looks_twice(&aggs) {
            true => Selection::new(allowed(&filter, shard)?, None),
            false => Selection::new(Compiled::None, None),
        },
        constant_score,
        scoring,
        keys,
        after,
        aggs,
        repeatable: (request.size == 0)
            .then(|| Repeatable::of(&request.aggs, &shard.mapping))
            .flatten(),
        collapse: match &request.collapse {
            Some(collapse) => Some(GroupField::compile(&filter, &collapse.field)?),
            None => None,
        },
        post_filter,
        times: None,
        single_segment: false,
        collected: AtomicU64::new(0),
    };
    Ok((plan, bounds))
}

/// What the tenant and the filters of the aliases let be seen of a shard.
fn allowed(filter: &Compiler, shard: &ShardSearch) -> Result<Compiled> {
    let own = shard.tenant.iter().map(|restriction| {
        filter.compile(&Query::Term(Term {
            field: restriction.field.to_string(),
            value: restriction.tenant.as_str().into(),
            boost: 1.0,
            case_insensitive: false,
        }))
    });
    let mut parts = own.collect::<Result<Vec<_>>>()?;
    if !shard.filters.is_empty() {
        let filters = shard.filters.iter().map(|query| filter.compile(query));
        parts.push(Compiled::any(filters.collect::<Result<_>>()?, false));
    }
    match parts.is_empty() {
        true => Ok(Compiled::All),
        false => Ok(Compiled::all(parts, false)),
    }
}

/// The score of every hit, where the query gives all the same.
fn constant_score(query: &Query) -> Option<f32> {
    Some(match query {
        Query::MatchAll(part) => part.boost,
        Query::MatchNone => 0.0,
        Query::ConstantScore(part) => part.boost,
        Query::Range(part) => part.boost,
        Query::Terms(part) => part.boost,
        Query::Exists(part) => part.boost,
        Query::Ids(part) => part.boost,
        Query::Prefix(part) | Query::Wildcard(part) if part.rewrite == Rewrite::Constant => part.boost,
        Query::Regexp(part) if part.pattern.rewrite == Rewrite::Constant => part.pattern.boost,
        Query::Named(part) => return constant_score(&part.query),
        Query::Bool(part) if part.should.is_empty() => {
            if part.must.is_empty() && part.filter.is_empty() && part.must_not.is_empty() {
                return Some(part.boost.0);
            }
            let mut sum = 0.0;
            for query in &part.must {
                sum += constant_score(query)?;
            }
            sum * part.boost.0
        }
        _ => return None,
    })
}

/// Segments that hold the first hits come first, so that later ones can be passed over.
fn sort_tasks(tasks: &mut [Task], shard: Option<&Ready>) {
    let Some(key) = shard.and_then(|shard| shard.plan.keys.first()) else {
        return;
    };
    if !key.is_timestamp() {
        return;
    }
    if key.descending {
        tasks.sort_by_key(|task| std::cmp::Reverse(task.segment.time_range_ms.map(|range| range.1)));
    } else {
        tasks.sort_by_key(|task| task.segment.time_range_ms.map_or(i64::MAX, |range| range.0));
    }
}

/// Whether aggregations have something to do after all segments were searched.
fn looks_twice(aggs: &Plan) -> bool {
    aggs.has_global() || aggs.has_samples() || aggs.has_backgrounds()
}

/// Every segment of all shards, also those that the query cannot match in.
fn all_tasks(shards: &[ShardSearch]) -> Vec<Task> {
    let segments = shards.iter().enumerate().flat_map(|(shard, search)| {
        let segments = search.snapshot.segments.iter();
        segments.map(move |segment| (shard, segment))
    });
    (0u32..)
        .zip(segments)
        .map(|(order, (shard, segment))| Task {
            shard,
            segment: Arc::clone(segment),
            order,
        })
        .collect()
}

/// What is done with one segment.
pub(super) type Step = fn(&Shared, &ShardPlan, &Segment, u32) -> Result<Option<Partials>>;

/// Runs all tasks; fails with what fails the whole request.
pub(super) fn run(
    ready: &Arc<Vec<Ready>>,
    tasks: &Arc<Vec<Task>>,
    shared: &Arc<Shared>,
    pool: &Arc<Pool>,
    step: Step,
) -> Result<()> {
    let count = tasks.len();
    let (ready, tasks, shared) = (Arc::clone(ready), Arc::clone(tasks), Arc::clone(shared));
    let outcomes = run_indexed(pool, count, move |number| -> Result<()> {
        let task = &tasks[number];
        let shard = &ready[task.shard];
        if shard.failure.lock().is_some() {
            return Ok(());
        }
        shard.fail_with(run_task(&shared, shard, task, step))
    });
    outcomes.into_iter().collect()
}

/// Runs one task. What panics is a bug or a damaged file that slipped through: it costs its shard,
/// not the process.
fn run_task(shared: &Shared, shard: &Ready, task: &Task, step: Step) -> Result<()> {
    shared.ctx.work.add_segment();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        step(shared, &shard.plan, &task.segment, task.order)
    }));
    let partials = match outcome {
        Ok(partials) => partials?,
        Err(_) => {
            return Err(Error::internal(format!(
                "searching segment _{} failed, the log says why",
                task.segment.generation
            )));
        }
    };
    match partials {
        Some(partials) => shard.partials.lock().merge_watched(partials, &shared.ctx.cancel),
        None => Ok(()),
    }
}

impl Ready {
    /// Its sort keys.
    pub(super) fn keys(&self) -> &[ShardKey] {
        &self.plan.keys
    }

    /// The score of every hit, if it is the same for all.
    pub(super) fn constant_score(&self) -> Option<f32> {
        self.plan.constant_score
    }

    /// What `profile` measures.
    pub(super) fn times(&self) -> Option<&ShardTimes> {
        self.plan.times.as_ref()
    }

    /// What hits are grouped by.
    pub(super) fn collapse(&self) -> Option<&GroupField> {
        self.plan.collapse.as_ref()
    }

    /// What it is searched for.
    pub(super) fn plan(&self) -> &ShardPlan {
        &self.plan
    }

    /// Keeps a failure that is its own; passes on what fails the whole request.
    pub(super) fn fail_with(&self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if !fails_request(error.kind()) => {
                self.failure.lock().get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    /// Puts back what was taken.
    pub(super) fn put_partials(&self, partials: Partials) {
        *self.partials.lock() = partials;
    }

    /// What its segments found for the aggregations.
    pub(super) fn take_partials(&self) -> Partials {
        std::mem::take(&mut *self.partials.lock())
    }
}
