//! Prefetch of split bytes before a search, with one batch of reads for the whole search.
//!
//! Without it, a search would be correct but would wait for each read separately: about 30 ms each, one after the
//! other, for each of many splits. A dry run of the compiled search ([`firn_segment::splits::dry_run`]) finds the reads, so
//! this module does not know how a query or a column reads. For segments on disk it does nothing.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::mapping::FieldType;
use firn_model::metadata::TIMESTAMP;
use firn_model::{ErrorKind, Result};
use firn_query::search::{SearchRequest, SortBy};
use firn_segment::columns::column::{NumColumn, failed, open_strings};
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use firn_segment::splits::RUN_ROWS;
use firn_segment::splits::dry_run::{Rows, bring, noted, on_rows};

use super::matching_docs::DocRange;
use super::newest_first;
use super::prepared_shard::{PreparedShard, Task};
use super::shard_plan::ShardPlan;
use crate::ShardSearch;
use crate::compile::field;
use crate::compile::field::Target;
use crate::fetch::RowAddress;

/// Prefetches the data that scoring looks up in every segment before any is searched. `prepare` prepares one shard.
pub(crate) fn statistics(
    shards: &[ShardSearch],
    request: &SearchRequest,
    ctx: &RequestContext,
    prepare: impl Fn(&ShardSearch),
) -> Result<()> {
    let remote: Vec<&ShardSearch> = shards.iter().filter(|shard| has_splits(shard)).collect();
    // The set of matching documents does not depend on statistics of other segments.
    let looks_up = request.size > 0 || request.min_score.is_some();
    if remote.is_empty() || !looks_up {
        return Ok(());
    }
    bring_in_time(ctx, || remote.iter().for_each(|shard| prepare(shard)))
}

/// Runs a prefetch. A timeout is ignored here: the search of the segments stops at the missing data and reports it.
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

/// Prefetches what determines which documents of these segments are read; the lookup of cached partial results
/// needs it.
pub(crate) fn reaches(ready: &[PreparedShard], tasks: &[Task], ctx: &RequestContext) -> Result<()> {
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

/// Prefetches what the search of these segments reads before the first document is shown.
pub(crate) fn segments(
    ready: &[PreparedShard],
    tasks: &[Task],
    request: &SearchRequest,
    ctx: &RequestContext,
) -> Result<()> {
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
pub(crate) struct Reading {
    /// Paths of the fields.
    columns: Vec<String>,
    /// Columns are read only to find the first hits.
    hits_only: bool,
    /// The request has only aggregations over all matches.
    aggs_only: bool,
    /// It is a cost estimate: nothing is fetched and matches stay unknown, so all possible reads count.
    is_estimate: bool,
}

impl Reading {
    pub(crate) fn of(request: &SearchRequest) -> Self {
        Self {
            columns: columns(request),
            hits_only: request.aggs.fields().is_empty() && request.size > 0,
            aggs_only: request.size == 0 && request.min_score.is_none() && request.terminate_after == 0,
            is_estimate: false,
        }
    }

    /// Returns the reads for a cost estimate.
    pub(crate) fn estimated(request: &SearchRequest) -> Self {
        Self {
            is_estimate: true,
            ..Self::of(request)
        }
    }
}

/// Up to this number of matches, only their rows of a column are prefetched, which may be much less than the
/// column.
const FEW_DOCS: usize = 1024;
/// In a segment with more documents, columns are prefetched only after the matching documents are known. In a
/// smaller one, an extra round costs more than unneeded reads: a column has at most four runs.
const DOCS_WORTH_A_ROUND: u32 = 4 * RUN_ROWS;

/// Dry run of the selection on a segment: finds which documents must be read.
pub(crate) fn reach(plan: &ShardPlan, segment: &Segment) -> Result<DocRange> {
    on_rows(&Rows::Of(Arc::default()), || plan.selection.reach(segment))
}

/// Dry run of the start of a segment's search. An error here occurs again in the search, where it counts.
pub(crate) fn segment(shard: &ShardSearch, plan: &ShardPlan, segment: &Segment, reading: &Reading) {
    let nothing = Rows::Of(Arc::default());
    let Ok(reach) = reach(plan, segment) else {
        return;
    };
    if reading.aggs_only && plan.post_filter.is_none() && plan.selection.is_whole(&reach, segment) {
        // An error means that reads were recorded; they are all that is needed.
        match on_rows(&nothing, || plan.aggs.of_whole(segment)) {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // The timestamps in partial runs are read to find the matching documents.
    let tested = Rows::Of(reach.tested().into());
    let _ = on_rows(&tested, || NumColumn::open(&segment.reader, TIMESTAMP));
    let in_reach = reach.docs().map_or(Rows::All, |docs| Rows::Of(docs.into()));
    let first = match reading.hits_only && plan.may_read_newest_first() {
        true => newest_first::first_rows(plan, segment, &reach),
        false => None,
    };
    let before = noted();
    let opened = on_rows(&in_reach, || {
        let docs = plan.selection.open_reach(segment, reach, plan.scoring)?;
        Ok(docs.has_query().then(|| docs.few(FEW_DOCS)))
    });
    // Missing data counts as empty; the list of matches is then incomplete.
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

/// Returns the fields whose columns a search reads, without those of date histograms.
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

pub(crate) fn open_column(shard: &ShardSearch, segment: &Segment, path: &str) -> Result<()> {
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

/// Prefetches the documents at these places, as far as they arrive before the timeout.
pub(crate) fn documents(
    tasks: &[Task],
    by_order: &HashMap<u32, usize>,
    places: &[RowAddress],
    ctx: &RequestContext,
) -> Result<()> {
    let segment = |place: &RowAddress| by_order.get(&place.order).map(|&task| &tasks[task].segment);
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
