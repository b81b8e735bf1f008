//! From the rows of the final page to hits: ids, sources, fields.

mod docvalues;
mod source_fields;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use firn_engine::search::{Hit, SearchRequest};
use firn_engine::source::SourceFilter;
use firn_model::ids::AutoId;
use firn_model::{Error, Result};
use tantivy::schema::Value as _;
use tantivy::schema::document::CompactDocValue;
use tantivy::store::StoreReader;
use tantivy::{DocId, TantivyDocument};

use super::column::{NumColumn, failed};
use super::execute::{Ready, Task};
use super::segment_run::Row;
use crate::parallel::run_indexed;
use crate::pool::Pool;
use crate::schema;
use crate::segment::Segment;

/// Decompressed blocks of the store kept while a segment's hits are read; hits are read in the
/// order of documents, so one would nearly do.
const STORE_BLOCKS: usize = 4;
/// From this many hits on, they are read on several threads.
const PARALLEL_HITS: usize = 8;

/// Reads the hits of a page, in the order of `rows`.
pub(super) fn fetch(
    ready: &Arc<Vec<Ready>>,
    tasks: &Arc<Vec<Task>>,
    rows: Vec<Row>,
    request: &Arc<SearchRequest>,
    pool: &Arc<Pool>,
) -> Result<Vec<Hit>> {
    let by_order: HashMap<u32, usize> = tasks
        .iter()
        .enumerate()
        .map(|(number, task)| (task.order, number))
        .collect();
    let count = rows.len();
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by_key(|&position| (rows[position].order, rows[position].doc));
    // Runs of hits of one segment; large runs are cut, so that one segment uses several threads.
    let threads = if count < PARALLEL_HITS {
        1
    } else {
        pool.thread_count().max(1)
    };
    let run_max = count.div_ceil(threads).max(1);
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for position in positions {
        match runs.last_mut() {
            Some(run) if run.len() < run_max && rows[run[0]].order == rows[position].order => run.push(position),
            _ => runs.push(vec![position]),
        }
    }
    let rows = Arc::new(rows);
    let runs = Arc::new(runs);
    let work = {
        let (ready, tasks, rows, runs, request) = (
            Arc::clone(ready),
            Arc::clone(tasks),
            Arc::clone(&rows),
            Arc::clone(&runs),
            Arc::clone(request),
        );
        move |number: usize| -> Result<Vec<Hit>> {
            let run = &runs[number];
            let task = by_order
                .get(&rows[run[0]].order)
                .map(|&task| &tasks[task])
                .ok_or_else(|| Error::internal("a hit names a segment that was not searched"))?;
            let reader = HitReader::open(&ready[task.shard], &task.segment, &request)?;
            run.iter().map(|&position| reader.read(&rows[position])).collect()
        }
    };
    let outcomes: Vec<Result<Vec<Hit>>> = if threads == 1 {
        (0..runs.len()).map(work).collect()
    } else {
        run_indexed(pool, runs.len(), work)
    };
    let mut hits: Vec<Option<Hit>> = (0..count).map(|_| None).collect();
    for (run, outcome) in runs.iter().zip(outcomes) {
        for (&position, hit) in run.iter().zip(outcome?) {
            hits[position] = Some(hit);
        }
    }
    Ok(hits.into_iter().flatten().collect())
}

/// Reads hits of one segment.
struct HitReader<'a> {
    shard: &'a Ready,
    segment: &'a Segment,
    request: &'a SearchRequest,
    store: Option<StoreReader>,
    seq_no: Option<NumColumn>,
    version: Option<NumColumn>,
    ignored: Option<tantivy::columnar::StrColumn>,
    fields: source_fields::Fields,
    docvalues: docvalues::DocValues,
}

/// What the store keeps of a document.
struct Stored {
    id: Option<String>,
    routing: Option<String>,
    source: Bytes,
}

impl<'a> HitReader<'a> {
    fn open(shard: &'a Ready, segment: &'a Segment, request: &'a SearchRequest) -> Result<Self> {
        let reader = &segment.reader;
        let fields = source_fields::Fields::new(&shard.search.mapping, &request.fields)?;
        let needs_store = !request.no_stored_fields || !fields.is_empty();
        Ok(Self {
            store: match needs_store {
                true => Some(reader.get_store_reader(STORE_BLOCKS)?),
                false => None,
            },
            seq_no: NumColumn::open_named(reader, "_seq_no")?,
            version: match request.version {
                true => NumColumn::open_named(reader, "_version")?,
                false => None,
            },
            ignored: super::column::open_strings(reader, schema::Class::Keyword, schema::IGNORED)?,
            docvalues: docvalues::DocValues::open(shard, segment, &request.docvalue_fields)?,
            fields,
            shard,
            segment,
            request,
        })
    }

    fn read(&self, row: &Row) -> Result<Hit> {
        let request = self.request;
        let snapshot = &self.shard.search.snapshot;
        let doc = row.doc;
        let stored = self.stored(doc)?;
        let seq_no = integer(self.seq_no.as_ref(), doc).unwrap_or_default();
        let mut fields = serde_json::Map::new();
        if let Some(stored) = &stored {
            self.fields.read(&stored.source, &mut fields)?;
        }
        self.docvalues.read(doc, &mut fields)?;
        let mut hit = Hit {
            index: snapshot.index.to_string(),
            id: String::new(),
            score: self.score(row),
            source: None,
            routing: None,
            version: request
                .version
                .then(|| integer(self.version.as_ref(), doc).unwrap_or(1)),
            seq_no: request.seq_no_primary_term.then_some((seq_no, 1)),
            ignored: self.ignored(doc)?,
            fields,
            sort: match request.sort.is_empty() {
                true => Vec::new(),
                false => self
                    .shard
                    .keys()
                    .iter()
                    .zip(&row.values)
                    .map(|(key, value)| key.print(value))
                    .collect(),
            },
        };
        if let Some(stored) = stored.filter(|_| !request.no_stored_fields) {
            hit.id = stored.id.unwrap_or_else(|| {
                AutoId {
                    index_tag: snapshot.index_tag,
                    shard: snapshot.shard as u16,
                    seq_no,
                }
                .encode()
            });
            hit.routing = stored.routing;
            hit.source = match request.source {
                SourceFilter::None => None,
                SourceFilter::All => Some(stored.source),
                SourceFilter::Paths { .. } => request.source.apply(&stored.source)?,
            };
        }
        Ok(hit)
    }

    fn score(&self, row: &Row) -> Option<f32> {
        let shown = self.request.sort.is_empty() || self.request.track_scores;
        let by_score = self
            .request
            .sort
            .iter()
            .any(|key| key.by == firn_engine::search::SortBy::Score);
        (shown || by_score).then(|| self.shard.constant_score().unwrap_or(row.score))
    }

    fn stored(&self, doc: DocId) -> Result<Option<Stored>> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let document: TantivyDocument = store.get(doc).map_err(failed)?;
        let fields = schema::fields();
        let text = |value: Option<CompactDocValue<'_>>| value.and_then(|value| value.as_str().map(str::to_owned));
        let source = document.get_first(fields.source);
        let source = source
            .and_then(|value| value.as_bytes().map(Bytes::copy_from_slice))
            .ok_or_else(|| {
                Error::internal(format!(
                    "document {doc} of segment _{} has no source",
                    self.segment.generation
                ))
            })?;
        Ok(Some(Stored {
            id: text(document.get_first(fields.stored_id)),
            routing: text(document.get_first(fields.routing)),
            source,
        }))
    }

    fn ignored(&self, doc: DocId) -> Result<Vec<String>> {
        let Some(column) = &self.ignored else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for ordinal in column.term_ords(doc) {
            let mut name = String::new();
            if column.ord_to_str(ordinal, &mut name)? {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

fn integer(column: Option<&NumColumn>, doc: DocId) -> Option<u64> {
    let column = column?;
    let raw = column.column.first(doc)?;
    u64::try_from(column.as_i64(raw)).ok()
}
