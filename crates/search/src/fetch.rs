//! The fetch phase: turns the rows of the final page into hits with ids, sources and fields.

pub(crate) mod explanation;
pub(crate) mod inner_hits;
pub(crate) mod matched_queries;

mod docvalues;
mod source_fields;

pub(super) use self::source_fields::{source_path, walk};

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use firn_engine::RequestContext;
use firn_model::ids::AutoId;
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::Query;
use firn_query::search::{Hit, HitShape};
use firn_query::source::SourceFilter;
use serde_json::Value;
use tantivy::store::StoreReader;
use tantivy::{DocId, SegmentReader};

use super::ShardSearch;
use super::highlight::HighlightPlan;
use crate::compile::limits::Stop;
use crate::fetch::matched_queries::{Matched, NamedQueries};
use crate::run::memory::Memory;
use crate::run::prefetch;
use crate::run::prepared_shard::{PreparedShard, Task};
use crate::run::profile::{Part, Stopwatch};
use crate::run::shared_state::Shared;
use firn_scheduler::parallel::run_indexed;
use firn_scheduler::{Pool, yield_now};
use firn_segment::columns::column::{NumColumn, failed};
use firn_segment::schema;
use firn_segment::segment::Segment;
use firn_segment::segment_cache::{CACHE, CacheKey};
use firn_segment::splits::OpenSplit;
use firn_segment::splits::dry_run::{catch, collect, metered};
pub(crate) use firn_segment::stored_documents::Stored;

/// Decompressed store blocks that are cached while a segment's hits are read. Hits are read in document order, so
/// one would almost suffice.
const STORE_BLOCKS: usize = 4;
/// Approximate bytes of a decompressed block.
const STORE_BLOCK_BYTES: usize = 160 << 10;
/// From this number of distant places on, hits are read on several threads.
const PARALLEL_PLACES: usize = 8;
/// Documents closer than this are mostly in the same store block, which is then decompressed once. Two threads
/// would decompress it twice.
const NEAR_DOCS: DocId = 128;

/// Approximate bytes of a hit without its source.
const HIT_BYTES: usize = 256;
/// Approximate bytes of a string without its characters.
const HEAP_BYTES: usize = 32;

/// Position of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowAddress {
    /// The segment's number in the search.
    pub(super) order: u32,
    pub(super) doc: DocId,
}

/// Reads hits, in the order of `places`. The caller adds scores and sort values. `None`: the hit could not be read
/// before the timeout (the search then reports it), or its shard failed.
pub(super) fn fetch(
    ready: &Arc<Vec<PreparedShard>>,
    tasks: &Arc<Vec<Task>>,
    places: Vec<RowAddress>,
    shown: &Arc<Shown>,
    pool: &Arc<Pool>,
    shared: &Shared,
) -> Result<Vec<Option<Hit>>> {
    let by_order: HashMap<u32, usize> = tasks
        .iter()
        .enumerate()
        .map(|(number, task)| (task.order, number))
        .collect();
    let count = places.len();
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by_key(|&position| places[position]);
    // Runs of hits of one segment; long runs are cut, so that one segment uses several threads.
    let is_far = |pair: &[usize]| {
        let (before, after) = (places[pair[0]], places[pair[1]]);
        before.order != after.order || after.doc - before.doc > NEAR_DOCS
    };
    let far_count = 1 + positions.windows(2).filter(|pair| is_far(pair)).count();
    let threads = if far_count < PARALLEL_PLACES {
        1
    } else {
        pool.thread_count().max(1)
    };
    let run_max = count.div_ceil(threads).max(1);
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for position in positions {
        match runs.last_mut() {
            Some(run) if run.len() < run_max && places[run[0]].order == places[position].order => run.push(position),
            _ => runs.push(vec![position]),
        }
    }
    let runs = Arc::new(runs);
    prefetch::documents(tasks, &by_order, &places, &shared.ctx)?;
    let work = {
        let (ready, tasks, runs, shown) = (
            Arc::clone(ready),
            Arc::clone(tasks),
            Arc::clone(&runs),
            Arc::clone(shown),
        );
        let (ctx, memory) = (shared.ctx.clone(), shared.memory.clone());
        move |number: usize| -> Result<(Vec<Option<Hit>>, bool)> {
            let run = &runs[number];
            let task = by_order
                .get(&places[run[0]].order)
                .map(|&task| &tasks[task])
                .ok_or_else(|| Error::internal("a hit names a segment that was not searched"))?;
            let shard = &ready[task.shard];
            let mut hits: Vec<Option<Hit>> = run.iter().map(|_| None).collect();
            let Some(shown_of_shard) = &shown.shards[task.shard] else {
                return Ok((hits, true));
            };
            let mut watch = Stopwatch::start(shard.times());
            let docs = run.iter().map(|&position| places[position].doc);
            let read = metered(&ctx, || {
                catch(|| {
                    let open = || HitReader::open(shard, &task.segment, &shown, shown_of_shard);
                    read_in_time(&ctx, &memory, &task.segment, open, docs.zip(&mut hits))
                })
            });
            watch.lap(Part::Fetch);
            match read {
                Err(error) if error.kind() == ErrorKind::Timeout => Ok((hits, true)),
                Err(error) => shard.fail_with(Err(error)).map(|()| (hits, false)),
                Ok(is_late) => Ok((hits, is_late)),
            }
        }
    };
    let outcomes: Vec<Result<(Vec<Option<Hit>>, bool)>> = if threads == 1 {
        (0..runs.len()).map(work).collect()
    } else {
        run_indexed(pool, runs.len(), work)
    };
    let mut hits: Vec<Option<Hit>> = (0..count).map(|_| None).collect();
    for (run, outcome) in runs.iter().zip(outcomes) {
        let (of_run, is_late) = outcome?;
        if is_late {
            shared.timed_out.store(true, Ordering::Relaxed);
        }
        for (&position, hit) in run.iter().zip(of_run) {
            hits[position] = hit;
        }
    }
    Ok(hits)
}

/// Reads hits of one segment into their places, and returns whether some were left out. After the timeout it reads
/// only local data and does not wait for remote data.
fn read_in_time<'a>(
    ctx: &RequestContext,
    memory: &Memory,
    segment: &Segment,
    open: impl Fn() -> Result<HitReader<'a>>,
    wanted: impl Iterator<Item = (DocId, &'a mut Option<Hit>)>,
) -> Result<bool> {
    let is_far = |work: &dyn Fn()| ctx.waiting().is_timed_out() && !collect(work).is_empty();
    let split = segment.derived.split();
    if split.is_some() && is_far(&|| drop(open())) {
        return Ok(true);
    }
    let mut reader = open()?;
    let mut is_late = false;
    for (doc, place) in wanted {
        yield_now();
        if let Some(split) = split
            && is_far(&|| drop(split.note_document(doc)))
        {
            is_late = true;
            continue;
        }
        // Ten thousand small hits fit into memory, ten thousand large ones may not.
        memory.take(HIT_BYTES)?;
        let hit = reader.read(doc)?;
        memory.take(hit.source.as_ref().map_or(0, Bytes::len) + bytes_beside_source(&hit))?;
        *place = Some(hit);
    }
    Ok(is_late)
}

/// Returns approximate bytes of the parts of a hit that the request wants; highlight fragments are counted when
/// they are made.
fn bytes_beside_source(hit: &Hit) -> usize {
    let names = hit.matched_queries.iter().map(|(name, _)| HEAP_BYTES + name.len());
    let fields = hit.fields.iter().map(|(name, value)| name.len() + bytes_of(value));
    names.sum::<usize>() + fields.sum::<usize>()
}

fn bytes_of(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(bytes_of).sum(),
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| HEAP_BYTES + name.len() + bytes_of(value))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inner
}

/// The parts of hits that are shown, resolved against the mappings of the shards.
pub(super) struct Shown {
    shape: HitShape,
    /// In shard order; `None`: not known before the timeout, or the shard failed.
    shards: Vec<Option<ShownShard>>,
    /// The search timed out before everything was highlighted.
    timed_out: AtomicBool,
}

struct ShownShard {
    fields: source_fields::Fields,
    highlight: Option<HighlightPlan>,
    named: Option<NamedQueries>,
}

impl Shown {
    /// `query` is highlighted, in the shards of `with_hits`. Hits list the named queries in it and in `post_filter`
    /// that they match.
    pub(super) fn new(
        shape: &HitShape,
        ready: &[PreparedShard],
        with_hits: &HashSet<usize>,
        query: &Query,
        post_filter: Option<&Query>,
        now_ms: i64,
    ) -> Result<Self> {
        let queries: Vec<&Query> = std::iter::once(query).chain(post_filter).collect();
        let scores = shape.named_query_scores;
        let spent = Arc::default();
        let timed_out = AtomicBool::new(false);
        let one = |number: usize, shard: &PreparedShard| -> Result<ShownShard> {
            let highlight = shape.highlight.as_ref().filter(|_| with_hits.contains(&number));
            let plan = |highlight| HighlightPlan::compile(&shard.search, highlight, query, now_ms, &shard.stop, &spent);
            Ok(ShownShard {
                named: NamedQueries::compile(&shard.search, &queries, scores, now_ms, &shard.stop)?,
                highlight: match highlight.map(plan) {
                    Some(plan) => in_time(plan, &timed_out)?.filter(|plan| !plan.is_empty()),
                    None => None,
                },
                fields: source_fields::Fields::new(&shard.search.mapping, &shape.fields)?.and(
                    source_fields::Fields::stored(&shard.search.mapping, &shape.stored_fields)?,
                ),
            })
        };
        Ok(Self {
            shape: shape.clone(),
            shards: ready
                .iter()
                .enumerate()
                .map(|(number, shard)| match one(number, shard) {
                    Err(error) if error.kind() == ErrorKind::Timeout => Ok(None),
                    Err(error) => shard.fail_with(Err(error)).map(|()| None),
                    Ok(shown) => Ok(Some(shown)),
                })
                .collect::<Result<_>>()?,
            timed_out,
        })
    }

    /// Returns whether hits lack highlights because of the timeout.
    pub(super) fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }
}

/// Returns a result within the timeout; `None`, and sets `timed_out`, after it.
fn in_time<T>(done: Result<T>, timed_out: &AtomicBool) -> Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::Timeout => {
            timed_out.store(true, Ordering::Relaxed);
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// The storage of a segment's documents.
enum Documents<'a> {
    /// The hits show nothing that is stored.
    Unwanted,
    Store(Arc<StoreReader>),
    /// The split stores everything that a hit shows.
    Split(&'a OpenSplit),
}

/// The requested parts of a document.
struct Document {
    stored: Option<Stored>,
    seq_no: u64,
    version: u64,
    ignored: Vec<String>,
}

/// Reader of the hits of one segment.
struct HitReader<'a> {
    search: &'a ShardSearch,
    segment: &'a Segment,
    shape: &'a HitShape,
    shown: &'a ShownShard,
    stop: &'a Stop,
    timed_out: &'a AtomicBool,
    documents: Documents<'a>,
    seq_no: Option<NumColumn>,
    version: Option<NumColumn>,
    ignored: Option<firn_segment::columns::strings::StrColumn>,
    docvalues: docvalues::DocValues,
    matched: Option<Matched<'a>>,
}

/// Returns the store reader of a segment from the cache, with its last decompressed blocks: a caller who reads the
/// newest events of a tenant usually does so again.
fn store_of(reader: &SegmentReader) -> Result<Arc<StoreReader>> {
    let key = CacheKey {
        segment: reader.segment_id(),
        name: "store".into(),
    };
    if let Some(store) = CACHE.get::<StoreReader>(&key) {
        return Ok(store);
    }
    let store = Arc::new(reader.get_store_reader(STORE_BLOCKS)?);
    CACHE.put(key, Arc::clone(&store), STORE_BLOCKS * STORE_BLOCK_BYTES);
    Ok(store)
}

impl<'a> HitReader<'a> {
    fn open(
        ready: &'a PreparedShard,
        segment: &'a Segment,
        shown: &'a Shown,
        of_shard: &'a ShownShard,
    ) -> Result<Self> {
        let reader = &segment.reader;
        let (search, shape, timed_out) = (&ready.search, &shown.shape, &shown.timed_out);
        let shown = of_shard;
        let needs_store = !shape.no_stored_fields || !shown.fields.is_empty() || shown.highlight.is_some();
        let documents = match segment.derived.split() {
            _ if !needs_store => Documents::Unwanted,
            Some(split) => Documents::Split(split),
            None => Documents::Store(store_of(reader)?),
        };
        let by_columns = !matches!(documents, Documents::Split(_));
        Ok(Self {
            seq_no: match by_columns {
                true => NumColumn::open_named(reader, "_seq_no")?,
                false => None,
            },
            version: match by_columns && shape.version {
                true => NumColumn::open_named(reader, "_version")?,
                false => None,
            },
            ignored: match by_columns {
                true => firn_segment::columns::column::open_strings(reader, schema::Class::Keyword, schema::IGNORED)?,
                false => None,
            },
            documents,
            docvalues: docvalues::DocValues::open(search, segment, &shape.docvalue_fields)?,
            matched: match &shown.named {
                Some(named) => Some(named.open(reader)?),
                None => None,
            },
            search,
            segment,
            shape,
            shown,
            stop: &ready.stop,
            timed_out,
        })
    }

    /// Reads a hit. Call it in ascending order of documents.
    fn read(&mut self, doc: DocId) -> Result<Hit> {
        let shape = self.shape;
        let snapshot = &self.search.snapshot;
        let Document {
            stored,
            seq_no,
            version,
            ignored,
        } = self.document(doc)?;
        let mut hit = Hit::new(snapshot.index.to_string());
        if let Some(stored) = &stored
            && (self.shown.highlight.is_some() || !self.shown.fields.is_empty())
        {
            let source: Value = serde_json::from_slice(&stored.source)?;
            self.shown.fields.read(&source, &mut hit.fields);
            if let Some(highlight) = &self.shown.highlight {
                let fragments = highlight.read(&source, self.stop);
                hit.highlight = in_time(fragments, self.timed_out)?.unwrap_or_default();
            }
        }
        self.docvalues.read(doc, &mut hit.fields)?;
        hit.version = shape.version.then_some(version);
        hit.seq_no = shape.seq_no_primary_term.then_some((seq_no, 1));
        hit.ignored = ignored;
        if let Some(matched) = &mut self.matched {
            hit.matched_queries = matched.read(doc);
        }
        if let Some(stored) = stored.filter(|_| !shape.no_stored_fields) {
            hit.id = stored.id.map(|key| snapshot.id_of(key)).unwrap_or_else(|| {
                AutoId {
                    index_tag: snapshot.index_tag,
                    shard: snapshot.shard as u16,
                    seq_no,
                }
                .encode()
            });
            hit.routing = stored.routing;
            hit.source = match shape.source {
                SourceFilter::None => None,
                SourceFilter::All => Some(stored.source),
                SourceFilter::Paths { .. } => shape.source.apply(&stored.source)?,
            };
        }
        Ok(hit)
    }

    fn document(&self, doc: DocId) -> Result<Document> {
        let stored = match &self.documents {
            Documents::Unwanted => None,
            Documents::Store(store) => {
                let document = store.get_document_bytes(doc).map_err(failed)?;
                let stored = Stored::read(&document).ok_or_else(|| {
                    Error::internal(format!(
                        "document {doc} of segment _{} cannot be read from its store",
                        self.segment.generation
                    ))
                })?;
                Some(stored)
            }
            Documents::Split(split) => {
                let document = split.document(doc)?;
                return Ok(Document {
                    seq_no: document.seq_no,
                    version: document.version,
                    ignored: document.ignored,
                    stored: Some(Stored {
                        id: document.id,
                        routing: document.routing,
                        source: document.source,
                    }),
                });
            }
        };
        Ok(Document {
            stored,
            seq_no: integer(self.seq_no.as_ref(), doc).unwrap_or_default(),
            version: integer(self.version.as_ref(), doc).unwrap_or(1),
            ignored: self.ignored(doc)?,
        })
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
