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
use super::segment_run::{self, SegmentFacts};
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;

/// For fewer rows, one thread is faster than the time that other threads take to wake up.
const SPREAD_ROWS_MIN: u64 = 1 << 14;

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
        self.run(&Arc::new(unknown), segment_run::run)
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
        let (shard, shared) = (&self.ready[task.shard], &self.shared);
        if shard.has_failed() {
            return Ok(());
        }
        let done = metered(&shared.ctx, || run_task(shared, shard, task, step));
        // Segments that could not be read in time are missing from the answer, which is no failure.
        shard.fail_with(shared.in_time(done).map(|_| ()))?;
        self.report(task);
        Ok(())
    }

    /// Reports the results so far, if the request wants progress.
    fn report(&self, task: &Task) {
        if let Some(reporter) = &self.reporter {
            reporter.segment_done(&self.ready, task.shard, &self.shared);
        }
    }
}

/// Runs one task. A panic is a bug, or a damaged file that the checks missed: it fails the shard, not the process.
fn run_task(shared: &Shared, shard: &PreparedShard, task: &Task, step: Step) -> Result<()> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        catch(|| step(shared, shard.plan(), &task.segment, task.order))
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
