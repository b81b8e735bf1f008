//! Brings the bytes of splits near before they are searched, all of a search at once.
//!
//! Without it a search would be right and wait for every read by itself: some 30 ms each, one after the
//! other, for each of many splits. What it will read is asked of the compiled search itself
//! ([`crate::splits::reads`]), so nothing here knows how a query or a column reads. Segments on disk have nothing
//! to bring, and a search of such does nothing here.

use std::collections::HashMap;

use firn_engine::RequestContext;
use firn_engine::search::{SearchRequest, SortBy};
use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_storage::split::PartKind;

use super::ShardSearch;
use super::column::{NumColumn, open_strings};
use super::execute::{Ready, Task};
use super::fetch::Place;
use super::field::{self, Target};
use super::memory::Memory;
use super::segment_run::ShardPlan;
use crate::schema::Class;
use crate::segment::Segment;
use crate::splits::reads::{Reads, bring};

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
    bring(&|| ctx.check(), || remote.iter().for_each(|shard| prepare(shard)))
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
    bring(&|| ctx.check(), || {
        for task in &remote {
            let _ = ready[task.shard].plan().selection.reach(&task.segment);
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
    let columns = columns(request);
    bring(&|| ctx.check(), || {
        for task in &remote {
            let shard = &ready[task.shard];
            segment(&shard.search, shard.plan(), &task.segment, &columns);
        }
    })
}

/// Tries what searching a segment begins with. Whatever fails here fails again where it counts.
pub(super) fn segment(shard: &ShardSearch, plan: &ShardPlan, segment: &Segment, columns: &[String]) {
    for path in columns {
        let _ = open_column(shard, segment, path);
    }
    if let Ok(reach) = plan.selection.reach(segment) {
        let _ = plan.selection.open_reach(segment, reach, plan.scoring);
    }
    if let Some(weight) = &plan.post_filter {
        let _ = weight.scorer(&segment.reader, 1.0);
    }
}

/// What a search would fetch of splits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchReads {
    /// Splits that have to be looked at.
    pub splits: u64,
    /// Requests, neighbours being one.
    pub requests: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Requests that wait for others, one after the other.
    pub rounds: u64,
}

/// A list of documents is short, or the term is not worth a needle: two pages.
const POSTINGS_BYTES: u64 = 8 << 10;
/// A piece of the index of documents and a block, in pages.
const DOCUMENT_BYTES: u64 = 24 << 10;

impl SearchReads {
    /// From the reads that a search begins with, and a guess of those that depend on them: which documents match is
    /// known only then.
    pub(super) fn of(first: Reads, splits: u64, request: &SearchRequest) -> Self {
        let mut found = Self {
            splits,
            ..Self::default()
        };
        for (bytes, wanted) in first.into_wanted() {
            let (requests, len) = bytes.missing(&wanted);
            found.requests += requests;
            found.bytes += len;
            // The postings of its terms come next.
            if wanted.iter().any(|(kind, _)| *kind == PartKind::Terms) {
                found.requests += 1;
                found.bytes += POSTINGS_BYTES;
                found.rounds = found.rounds.max(1);
            }
        }
        found.rounds += u64::from(found.requests > 0);
        if splits > 0 && request.size > 0 && !request.shape.no_stored_fields {
            let documents = (request.from + request.size) as u64;
            let read_from = documents.min(splits);
            found.requests += 2 * read_from;
            found.bytes += documents.min(DOCUMENTS_MAX) * DOCUMENT_BYTES;
            found.rounds += 2;
        }
        found
    }
}

/// Hits beyond so many share their blocks with others.
const DOCUMENTS_MAX: u64 = 100;

/// The fields whose columns a search reads.
pub(super) fn columns(request: &SearchRequest) -> Vec<String> {
    let mut paths = request.aggs.fields();
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

fn open_column(shard: &ShardSearch, segment: &Segment, path: &str) -> Result<()> {
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

/// The documents at these places.
pub(super) fn documents(
    tasks: &[Task],
    by_order: &HashMap<u32, usize>,
    places: &[Place],
    memory: &Memory,
) -> Result<()> {
    let segment = |place: &Place| by_order.get(&place.order).map(|&task| &tasks[task].segment);
    let remote: Vec<_> = places
        .iter()
        .filter_map(|place| Some((segment(place)?.derived.split()?, place.doc)))
        .collect();
    if remote.is_empty() {
        return Ok(());
    }
    bring(&|| memory.take(0), || {
        for (split, doc) in &remote {
            let _ = split.note_document(*doc);
        }
    })
}
