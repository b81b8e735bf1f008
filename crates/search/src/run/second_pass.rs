//! The second run over the segments, after all of them were searched for the query's documents: all documents for
//! `global`, the documents of samples, and the background counts of `significant_terms`.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::Partials;
use firn_scheduler::parallel::run_indexed;
use firn_segment::segment::Segment;

use super::prepared_shard::Task;
use super::segment_run;
use super::task_runner::TaskRunner;
use crate::aggs::{BackgroundCount, Counted};

/// Runs it, if the aggregations of any shard need it. `tasks` are all segments of all shards.
pub(crate) fn second_run(runner: &TaskRunner, tasks: &Arc<Vec<Task>>) -> Result<()> {
    let ready = &runner.ready;
    if ready.iter().any(|shard| shard.plan().aggs.has_global()) {
        runner.run(tasks, |shared, plan, segment, order| {
            segment_run::run_everything(shared, plan, segment, order).map(Some)
        })?;
    }
    for (number, shard) in ready.iter().enumerate() {
        let plan = &shard.plan().aggs;
        if !plan.has_samples() && !plan.has_backgrounds() {
            continue;
        }
        let mut partials = shard.take_partials();
        let outcome = after_segments(runner, number, tasks, &mut partials);
        shard.fail_with(outcome)?;
        shard.put_partials(partials);
    }
    Ok(())
}

fn after_segments(runner: &TaskRunner, number: usize, tasks: &[Task], partials: &mut Partials) -> Result<()> {
    let (ready, shared) = (&runner.ready, &runner.shared);
    let plan = &ready[number].plan().aggs;
    let own = tasks.iter().filter(|task| task.shard == number);
    let segments: BTreeMap<u32, Arc<Segment>> = own.map(|task| (task.order, Arc::clone(&task.segment))).collect();
    if plan.has_samples() {
        plan.resolve_samples(vec![&mut *partials], &segments, &shared.memory)?;
        shared.note_late();
    }
    if !plan.has_backgrounds() {
        return Ok(());
    }
    let mut wanted = Vec::new();
    plan.wanted(vec![&mut *partials], &mut wanted);
    let wanted = Arc::new(wanted);
    let counted = count(runner, number, segments, &wanted)?;
    let wanted = Arc::unwrap_or_clone(wanted);
    plan.fill(vec![partials], &mut wanted.into_iter().zip(counted));
    Ok(())
}

/// Counts backgrounds over all segments of a shard.
fn count(
    runner: &TaskRunner,
    number: usize,
    segments: BTreeMap<u32, Arc<Segment>>,
    wanted: &Arc<Vec<BackgroundCount>>,
) -> Result<Vec<Counted>> {
    let segments: Vec<Arc<Segment>> = segments.into_values().collect();
    let work = {
        let (ready, shared, wanted) = (
            Arc::clone(&runner.ready),
            Arc::clone(&runner.shared),
            Arc::clone(wanted),
        );
        move |segment: usize| segment_run::run_background(&shared, ready[number].plan(), &segments[segment], &wanted)
    };
    let segment_count = runner.ready[number].search.snapshot.segments.len();
    let mut total: Vec<Counted> = wanted
        .iter()
        .map(|wanted| Counted {
            counts: vec![0; wanted.candidates.len()],
            size: 0,
        })
        .collect();
    for outcome in run_indexed(&runner.pool, segment_count, work) {
        for (total, counted) in total.iter_mut().zip(outcome?) {
            total.size += counted.size;
            for (total, count) in total.counts.iter_mut().zip(counted.counts) {
                *total += count;
            }
        }
    }
    Ok(total)
}
