//! Brings the bytes of splits near before they are searched, all of a search at once.
//!
//! Without it a search would be right and wait for every read by itself: some 30 ms each, one after the
//! other, for each of many splits. What it will read is asked of the compiled search itself
//! ([`crate::splits::reads`]), so nothing here knows how a query or a column reads. Segments on disk have nothing
//! to bring, and a search of such does nothing here.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::search::{SearchRequest, SortBy};
use firn_model::mapping::FieldType;
use firn_model::{ErrorKind, Result};

use super::ShardSearch;
use super::column::{NumColumn, failed, open_strings};
use super::docs::Reach;
use super::execute::{Ready, Task};
use super::fetch::Place;
use super::field::{self, Target};
use super::newest;
use super::prune::TIMESTAMP;
use super::segment_run::ShardPlan;
use crate::schema::Class;
use crate::segment::Segment;
use crate::splits::RUN_ROWS;
use crate::splits::reads::{Rows, bring, noted, on_rows};

/// What scoring looks up in every segment before any is searched. `prepare` prepares one shard.
pub(super) fn statistics(
    shards: &[ShardSearch],
    request: &SearchRequest,
    ctx: &RequestContext,
    prepare: impl Fn(&ShardSearch),
) -> Result<()> {
    let remote: Vec<&ShardSearch> = shards.iter().filter(|shard| has_splits(shard)).collect();
    // Which documents match is told by no other segment.
    let looks_up = request.size > 0 || request.min_score.is_some();
    if remote.is_empty() || !looks_up {
        return Ok(());
    }
    bring_in_time(ctx, || remote.iter().for_each(|shard| prepare(shard)))
}

/// What has not come when the time of the search is over is left to those who look at the segments: they stop there, and say so.
fn bring_in_time(ctx: &RequestContext, work: impl Fn()) -> Result<()> {
    match bring(ctx.waiting(), work) {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(()),
        outcome => outcome,
    }
}

fn has_splits(shard: &ShardSearch) -> bool {
    let mut segments = shard.snapshot.segments.iter();
    segments.any(|segment| segment.derived.split().is_some())
}

/// What tells which documents of these segments are looked at: whether that was answered before is asked by it.
pub(super) fn reaches(ready: &[Ready], tasks: &[Task], ctx: &RequestContext) -> Result<()> {
    let remote = in_splits(tasks);
    if remote.is_empty() {
        return Ok(());
    }
    bring_in_time(ctx, || {
        for task in &remote {
            let _ = reach(ready[task.shard].plan(), &task.segment);
        }
    })
}

fn in_splits(tasks: &[Task]) -> Vec<&Task> {
    let is_remote = |task: &&Task| task.segment.derived.split().is_some();
    tasks.iter().filter(is_remote).collect()
}

/// What searching these segments reads before the first document is shown.
pub(super) fn segments(ready: &[Ready], tasks: &[Task], request: &SearchRequest, ctx: &RequestContext) -> Result<()> {
    let remote = in_splits(tasks);
    if remote.is_empty() {
        return Ok(());
    }
    let reading = Reading::of(request);
    bring_in_time(ctx, || {
        for task in &remote {
            let shard = &ready[task.shard];
            segment(&shard.search, shard.plan(), &task.segment, &reading);
        }
    })
}

/// What a request reads of columns.
pub(super) struct Reading {
    /// The fields.
    columns: Vec<String>,
    /// Only to find the first hits.
    hits_only: bool,
    /// Aggregations over all that match, and nothing else.
    aggs_only: bool,
    /// Nothing is fetched, so what matches is never known: all that may be read counts.
    is_estimate: bool,
}

impl Reading {
    pub(super) fn of(request: &SearchRequest) -> Self {
        Self {
            columns: columns(request),
            hits_only: request.aggs.fields().is_empty() && request.size > 0,
            aggs_only: request.size == 0 && request.min_score.is_none() && request.terminate_after == 0,
            is_estimate: false,
        }
    }

    /// To tell what it costs.
    pub(super) fn estimated(request: &SearchRequest) -> Self {
        Self {
            is_estimate: true,
            ..Self::of(request)
        }
    }
}

/// Matches that are so few are looked at one by one: what they need of columns may be much less than all.
const FEW_DOCS: usize = 1024;
/// Of a segment of more documents columns wait until it is known which documents match. Of a smaller one waiting costs more
/// than what is fetched in vain: a column has four runs at most.
const DOCS_WORTH_A_ROUND: u32 = 4 * RUN_ROWS;

/// Tries what of a segment has to be looked at.
pub(super) fn reach(plan: &ShardPlan, segment: &Segment) -> Result<Reach> {
    on_rows(&Rows::Of(Arc::default()), || plan.selection.reach(segment))
}

/// Tries what searching a segment begins with. Whatever fails here fails again where it counts.
pub(super) fn segment(shard: &ShardSearch, plan: &ShardPlan, segment: &Segment, reading: &Reading) {
    let nothing = Rows::Of(Arc::default());
    let Ok(reach) = reach(plan, segment) else {
        return;
    };
    if reading.aggs_only && plan.post_filter.is_none() && plan.selection.is_whole(&reach, segment) {
        // What fails is waited for, and is all that is.
        match on_rows(&nothing, || plan.aggs.of_whole(segment)) {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // Instants that a window cuts are read to find out which documents match.
    let tested = Rows::Of(reach.tested().into());
    let _ = on_rows(&tested, || NumColumn::open(&segment.reader, TIMESTAMP));
    let in_reach = reach.docs().map_or(Rows::All, |docs| Rows::Of(docs.into()));
    let first = match reading.hits_only && plan.may_read_newest_first() {
        true => newest::first_rows(plan, segment, &reach),
        false => None,
    };
    let before = noted();
    let opened = on_rows(&in_reach, || {
        let docs = plan.selection.open_reach(segment, reach, plan.scoring)?;
        Ok(docs.is_asked().then(|| docs.few(FEW_DOCS)))
    });
    // What is not here yet counts as what matches nothing.
    let is_guess = reading.is_estimate && noted() > before;
    let rows = match opened {
        Ok(Some(Some(few))) if !is_guess => Rows::Of(few.into()),
        Err(_) if segment.max_doc > DOCS_WORTH_A_ROUND && !reading.is_estimate => nothing,
        _ => match first {
            Some(first) => Rows::Of([first].into()),
            None => in_reach,
        },
    };
    for path in &reading.columns {
        let _ = on_rows(&rows, || open_column(shard, segment, path));
    }
    let _ = on_rows(&rows, || {
        plan.aggs.try_date_histograms(segment);
        Ok(())
    });
    if let Some(weight) = &plan.post_filter {
        let _ = on_rows(&rows, || weight.scorer(&segment.reader, 1.0).map(drop).map_err(failed));
    }
}

/// The fields whose columns a search reads, beside those of date histograms.
fn columns(request: &SearchRequest) -> Vec<String> {
    let mut paths = request.aggs.fields_beside_date_histograms();
    for key in &request.sort {
        if let SortBy::Field(path) = &key.by {
            paths.push(path.clone());
        }
    }
    paths.extend(request.collapse.iter().map(|collapse| collapse.field.clone()));
    paths.sort_unstable();
    paths.dedup();
    paths
}

pub(super) fn open_column(shard: &ShardSearch, segment: &Segment, path: &str) -> Result<()> {
    let Target::Field(field) = field::resolve(&shard.mapping, path) else {
        return Ok(());
    };
    let reader = &segment.reader;
    match field.class {
        Class::Keyword | Class::KeywordColumn => open_strings(reader, field.class, &field.path).map(drop),
        Class::Number if field.field_type == FieldType::GeoPoint => {
            let _ = NumColumn::open(reader, &format!("{}#lat", field.path));
            NumColumn::open(reader, &format!("{}#lon", field.path)).map(drop)
        }
        Class::Number => NumColumn::open(reader, &field.path).map(drop),
        Class::KeywordTerms | Class::Text(_) | Class::None => Ok(()),
    }
}

/// The documents at these places, as far as they come within the time of the search.
pub(super) fn documents(
    tasks: &[Task],
    by_order: &HashMap<u32, usize>,
    places: &[Place],
    ctx: &RequestContext,
) -> Result<()> {
    let segment = |place: &Place| by_order.get(&place.order).map(|&task| &tasks[task].segment);
    let remote: Vec<_> = places
        .iter()
        .filter_map(|place| Some((segment(place)?.derived.split()?, place.doc)))
        .collect();
    if remote.is_empty() {
        return Ok(());
    }
    bring_in_time(ctx, || {
        for (split, doc) in &remote {
            let _ = split.note_document(*doc);
        }
    })
}
