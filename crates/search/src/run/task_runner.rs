//! Runner of the work on the segments of a search, over idle threads of the pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firn_model::{Error, Result};
use firn_query::aggs::Partials;
use firn_query::search::SearchRequest;
use firn_scheduler::Pool;
use firn_scheduler::parallel::run_indexed_within;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::{catch, metered};

use super::prefetch;
use super::prepared_shard::{PreparedShard, Task};
use super::progress::Reporter;
use super::segment_parts::{PartOutcome, SegmentParts};
use super::segment_run::{self, SegmentFacts};
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;

/// For fewer rows, one thread is faster than the time that other threads take to wake up. Small in tests, so that they
/// use several.
const SPREAD_ROWS_MIN: u64 = if cfg!(test) { 1 << 12 } else { 1 << 14 };

/// The work on one segment.
pub(crate) type Step = fn(&Shared, &ShardPlan, &Segment, u32) -> Result<Option<Partials>>;

/// See the module.
#[derive(Clone)]
pub(crate) struct TaskRunner {
    pub(crate) ready: Arc<Vec<PreparedShard>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Arc<Pool>,
    /// Reports progress, if the request wants it.
    pub(crate) reporter: Option<Arc<Reporter>>,
}

impl TaskRunner {
    /// Searches all segments, except those with cached partial results.
    pub(crate) fn search(&self, tasks: &[Task], request: &SearchRequest) -> Result<()> {
        let (ready, shared) = (&self.ready, &self.shared);
        prefetch::reaches(ready, tasks, &shared.ctx)?;
        let mut unknown = Vec::with_capacity(tasks.len());
        let mut rows = 0;
        for task in tasks.iter() {
            let shard = &ready[task.shard];
            match catch(|| segment_run::run_again(shared, shard.plan(), &task.segment)) {
                Ok(SegmentFacts::Partials(partials)) => {
                    shard.merge(partials, shared)?;
                    self.report(task);
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
                self.run_in(task, segment_run::run)?;
            }
            return Ok(());
        }
        self.run_divided(unknown)
    }

    /// Searches segments, the large ones in parts if that is possible.
    fn run_divided(&self, tasks: Vec<Task>) -> Result<()> {
        let threads = self.pool.thread_count().min(self.shared.threads_max);
        let mut pieces = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.parts_of(&task, threads)? {
                Some(parts) => {
                    let parts = Arc::new(parts);
                    pieces.extend((0..parts.count()).map(|number| (task.clone(), Some((Arc::clone(&parts), number)))));
                }
                None => pieces.push((task, None)),
            }
        }
        let (runner, count) = (self.clone(), pieces.len());
        let outcomes = run_indexed_within(&self.pool, self.shared.threads_max, count, move |number| {
            let (task, part) = &pieces[number];
            match part {
                Some((parts, number)) => runner.run_part(task, parts, *number),
                None => runner.run_in(task, segment_run::run),
            }
        });
        outcomes.into_iter().collect()
    }

    /// Divides a segment into parts; `None`: one thread reads it.
    fn parts_of(&self, task: &Task, threads: usize) -> Result<Option<SegmentParts>> {
        let (shard, shared) = (&self.ready[task.shard], &self.shared);
        if threads < 2 || shard.has_failed() {
            return Ok(None);
        }
        let divided = catch(|| SegmentParts::of(shared, shard.plan(), &task.segment, threads));
        match divided {
            Ok(parts) => Ok(parts),
            Err(error) => shard.fail_with(Err(error)).map(|()| None),
        }
    }

    /// Runs a part of a task, unless its shard has already failed.
    fn run_part(&self, task: &Task, parts: &SegmentParts, number: usize) -> Result<()> {
        let mut is_finished = false;
        self.run_with(task, |shared, plan| {
            match parts.run(shared, plan, &task.segment, task.order, number)? {
                PartOutcome::Waits => Ok(None),
                PartOutcome::Finished(partials) => {
                    is_finished = true;
                    Ok(partials)
                }
            }
        })?;
        if is_finished {
            self.report(task);
        }
        Ok(())
    }

    /// Runs all tasks; fails only with errors that fail the whole request.
    pub(crate) fn run(&self, tasks: &Arc<Vec<Task>>, step: Step) -> Result<()> {
        let (runner, tasks) = (self.clone(), Arc::clone(tasks));
        let count = tasks.len();
        let outcomes = run_indexed_within(
            &self.pool,
            self.shared.threads_max,
            count,
            move |number| -> Result<()> { runner.run_in(&tasks[number], step) },
        );
        outcomes.into_iter().collect()
    }

    /// Runs one task, unless its shard has already failed.
    fn run_in(&self, task: &Task, step: Step) -> Result<()> {
        if self.run_with(task, |shared, plan| step(shared, plan, &task.segment, task.order))? {
            self.report(task);
        }
        Ok(())
    }

    /// Runs work on a segment; returns false if its shard had already failed.
    fn run_with(
        &self,
        task: &Task,
        work: impl FnOnce(&Shared, &ShardPlan) -> Result<Option<Partials>>,
    ) -> Result<bool> {
        let (shard, shared) = (&self.ready[task.shard], &self.shared);
        if shard.has_failed() {
            return Ok(false);
        }
        let done = metered(&shared.ctx, || run_task(shared, shard, task, work));
        // Segments that could not be read in time are missing from the answer, which is no failure.
        shard.fail_with(shared.in_time(done).map(|_| ()))?;
        Ok(true)
    }

    /// Reports the results so far, if the request wants progress.
    fn report(&self, task: &Task) {
        if let Some(reporter) = &self.reporter {
            reporter.segment_done(&self.ready, task.shard, &self.shared);
        }
    }
}

/// Runs one task. A panic is a bug, or a damaged file that the checks missed: it fails the shard, not the process.
fn run_task(
    shared: &Shared,
    shard: &PreparedShard,
    task: &Task,
    work: impl FnOnce(&Shared, &ShardPlan) -> Result<Option<Partials>>,
) -> Result<()> {
    let outcome = catch_unwind(AssertUnwindSafe(|| catch(|| work(shared, shard.plan()))));
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
