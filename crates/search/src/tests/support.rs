//! Test support: segments in memory, and searches over them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firn_engine::RequestContext;
use firn_model::mapping::Mapping;
use firn_model::settings::IndexSettings;
use firn_model::{Error, Result};
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use firn_scheduler::Pool;
use firn_segment::distinct::{Sizes, encode};
use firn_segment::segment::{Segment, ShardSnapshot};
use firn_segment::segment_memo::SegmentMemo;
use firn_segment::tenants::{SegmentTenants, TenantRows};
use firn_segment::{analysis, schema};
use firn_shard::mapper::{CompiledMapping, MappedDocument, Unmapped, map_document};
use serde_json::{Value, json};
use tantivy::directory::{Directory, FileSlice, OwnedBytes, RamDirectory};
use tantivy::fastfield::{AliveBitSet, write_alive_bitset};
use tantivy::{BitSet, Index};

use crate::result_cache::{Account, RequestCache, ShardCache};
use crate::{FailedShard, SearchLimits, ShardSearch, search};

/// 2024-06-15T12:00:00Z.
pub(super) const NOW_MS: i64 = 1_718_452_800_000;

/// Builder of a shard.
pub(super) struct Shard {
    mapping: Arc<Mapping>,
    compiled: Arc<CompiledMapping>,
    index: &'static str,
    number: u32,
    segments: Vec<Arc<Segment>>,
    next_seq_no: u64,
    tenant_field: Option<Arc<str>>,
    cache: Option<ShardCache>,
    /// Sizes of the files of prepared hashes; `None`: segments have no such file.
    prepared: Option<Sizes>,
    /// The file of prepared hashes of the last segment.
    pub(super) distinct_file: Option<Vec<u8>>,
}

impl Shard {
    pub(super) fn new(mapping: &Value) -> Self {
        Self::named("test", 0, mapping)
    }

    pub(super) fn named(index: &'static str, number: u32, mapping: &Value) -> Self {
        let mapping = Arc::new(Mapping::parse(mapping).unwrap());
        let compiled = CompiledMapping::new(Arc::clone(&mapping), &IndexSettings::default()).unwrap();
        Self {
            mapping,
            compiled: Arc::new(compiled),
            index,
            number,
            segments: Vec::new(),
            next_seq_no: 0,
            tenant_field: None,
            cache: None,
            prepared: None,
            distinct_file: None,
        }
    }

    /// Prepares hashes in later segments.
    pub(super) fn prepare(&mut self, sizes: Sizes) -> &mut Self {
        self.prepared = Some(sizes);
        self
    }

    /// Adds a segment of documents with this file of prepared hashes.
    pub(super) fn segment_with(&mut self, documents: &[Value], distinct_file: Vec<u8>) -> &mut Self {
        self.segment(documents, &[]).replace_last(|segment| {
            let file = Arc::new(OwnedBytes::new(distinct_file));
            segment.derived = Arc::new(SegmentMemo::with_distinct(&segment.reader, file).unwrap());
        })
    }

    /// Adds a segment of documents, of which those at `deleted` are deleted. Ids are the field `id` of a document,
    /// if it has one.
    pub(super) fn segment(&mut self, documents: &[Value], deleted: &[usize]) -> &mut Self {
        let first_seq_no = self.next_seq_no;
        let directory = RamDirectory::default();
        let mut writer = Index::builder()
            .schema(schema::fields().schema.clone())
            .tokenizers(analysis::tokenizers())
            .single_segment_index_writer::<MappedDocument>(directory.clone(), 15_000_000)
            .unwrap();
        let mut range: Option<(i64, i64)> = None;
        let mut without_time = 0;
        for document in documents {
            let source = Bytes::from(serde_json::to_vec(document).unwrap());
            let mut mapped = map_document(&self.compiled, &source, None, Unmapped::Flatten)
                .unwrap()
                .document;
            mapped.place(document["id"].as_str(), None, self.next_seq_no, 1);
            self.next_seq_no += 1;
            match mapped.time_range_ms() {
                Some((min, max)) => {
                    range = Some(range.map_or((min, max), |range| (range.0.min(min), range.1.max(max))));
                }
                None => without_time += 1,
            }
            writer.add_document(mapped).unwrap();
        }
        let index = writer.finalize().unwrap();
        let reader = index.reader().unwrap().searcher().segment_reader(0).clone();
        let alive = alive_without(documents.len() as u32, deleted);
        let columns = format!("{}.fast", reader.segment_id().uuid_string());
        let columns = FileSlice::new(directory.get_file_handle(Path::new(&columns)).unwrap());
        self.distinct_file = self
            .prepared
            .and_then(|sizes| encode(columns, reader.max_doc(), sizes).unwrap());
        let derived = Arc::new(match self.distinct_file.clone() {
            Some(file) => SegmentMemo::with_distinct(&reader, Arc::new(OwnedBytes::new(file))).unwrap(),
            None => SegmentMemo::new(&reader),
        });
        self.segments.push(Arc::new(Segment {
            generation: self.segments.len() as u64,
            reader,
            alive,
            max_doc: documents.len() as u32,
            deleted_count: deleted.len() as u32,
            time_range_ms: range,
            without_time_count: without_time,
            seq_no_range: (first_seq_no, self.next_seq_no.saturating_sub(1)),
            size_bytes: 0,
            committed: true,
            tenants: None,
            derived,
        }));
        self
    }

    /// Enables the cache for partial results; returns its statistics.
    pub(super) fn keep_answers(&mut self, limit_bytes: usize) -> Arc<Account> {
        let account = Arc::default();
        self.cache = Some(ShardCache::new(&RequestCache::new(limit_bytes), &account));
        account
    }

    /// Uses `tenant` as the tenant field from now on.
    pub(super) fn by_tenant(&mut self) -> &mut Self {
        self.tenant_field = Some("tenant".into());
        self
    }

    /// Adds a segment of documents in the order of a merge by tenant.
    pub(super) fn clustered_segment(&mut self, documents: &[Value], deleted: &[usize]) -> &mut Self {
        let mut order: Vec<usize> = (0..documents.len()).collect();
        order.sort_by_key(|&position| {
            let document = &documents[position];
            let tenant = document["tenant"].as_str();
            let newest = document["@timestamp"].as_i64();
            (tenant.is_none(), tenant, std::cmp::Reverse(newest))
        });
        let sorted: Vec<Value> = order.iter().map(|&position| documents[position].clone()).collect();
        let gone: Vec<usize> = (0..order.len())
            .filter(|place| deleted.contains(&order[*place]))
            .collect();
        self.segment(&sorted, &gone);
        self.know_tenants(&sorted, true)
    }

    /// Adds a segment of documents in arrival order, which stores its tenants.
    pub(super) fn counted_segment(&mut self, documents: &[Value], deleted: &[usize]) -> &mut Self {
        self.segment(documents, deleted);
        self.know_tenants(documents, false)
    }

    fn know_tenants(&mut self, documents: &[Value], clustered: bool) -> &mut Self {
        let mut rows: BTreeMap<&str, TenantRows> = BTreeMap::new();
        for (row, document) in (0u32..).zip(documents) {
            let Some(name) = document["tenant"].as_str() else {
                continue;
            };
            let own = rows.entry(name).or_insert_with(|| TenantRows {
                tenant: name.into(),
                docs: 0,
                time_range_ms: None,
                rows: row..row,
            });
            own.docs += 1;
            own.rows.end = row + 1;
            if let Some(ms) = document["@timestamp"].as_i64() {
                let range = own.time_range_ms.unwrap_or((ms, ms));
                own.time_range_ms = Some((range.0.min(ms), range.1.max(ms)));
            }
        }
        let known: u32 = rows.values().map(|rows| rows.docs).sum();
        self.replace_last(|segment| {
            segment.tenants = Some(Arc::new(SegmentTenants {
                rows: rows.into_values().collect(),
                without_tenant: documents.len() as u32 - known,
                clustered,
            }));
        })
    }

    fn replace_last(&mut self, change: impl FnOnce(&mut Segment)) -> &mut Self {
        let last = self.segments.pop().unwrap();
        let mut copy = copy_of(&last);
        change(&mut copy);
        self.segments.push(Arc::new(copy));
        self
    }

    /// Deletes documents of a segment, by row.
    pub(super) fn delete(&mut self, segment: usize, rows: &[u32]) {
        let old = &self.segments[segment];
        let gone: Vec<usize> = (0..old.max_doc)
            .filter(|row| !old.is_alive(*row) || rows.contains(row))
            .map(|row| row as usize)
            .collect();
        let mut copy = copy_of(old);
        copy.alive = alive_without(old.max_doc, &gone);
        copy.deleted_count = gone.len() as u32;
        self.segments[segment] = Arc::new(copy);
    }

    /// Returns its segments without derived information.
    pub(super) fn plain(&self) -> ShardSearch {
        let strip = |segment: &Arc<Segment>| {
            let mut copy = copy_of(segment);
            copy.tenants = None;
            Arc::new(copy)
        };
        let mut ready = self.ready();
        ready.snapshot = Arc::new(ShardSnapshot {
            segments: self.segments.iter().map(strip).collect(),
            ..snapshot_parts(&ready.snapshot)
        });
        ready.tenant_field = None;
        ready.cache = None;
        ready
    }

    pub(super) fn ready(&self) -> ShardSearch {
        ShardSearch {
            snapshot: Arc::new(ShardSnapshot {
                index: self.index.into(),
                index_tag: 7,
                shard: self.number,
                tenant_field: None,
                segments: self.segments.clone(),
            }),
            mapping: Arc::clone(&self.mapping),
            filters: Vec::new(),
            tenant_field: self.tenant_field.clone(),
            tenant: None,
            max_result_window: 10_000,
            max_inner_result_window: 100,
            max_analyzed_offset: 1_000_000,
            default_fields: vec!["*".to_owned()],
            cache: self.cache.clone(),
            caches_by_default: true,
            first_segment: None,
            not_opened: Default::default(),
        }
    }
}

fn alive_without(max_doc: u32, deleted: &[usize]) -> Option<Arc<AliveBitSet>> {
    if deleted.is_empty() {
        return None;
    }
    let mut bits = BitSet::with_max_value_and_full(max_doc);
    for &doc in deleted {
        bits.remove(doc as u32);
    }
    let mut bytes = Vec::new();
    write_alive_bitset(&bits, &mut bytes).unwrap();
    Some(Arc::new(AliveBitSet::open(OwnedBytes::new(bytes))))
}

fn copy_of(segment: &Segment) -> Segment {
    Segment {
        reader: segment.reader.clone(),
        alive: segment.alive.clone(),
        tenants: segment.tenants.clone(),
        derived: Arc::clone(&segment.derived),
        ..*segment
    }
}

fn snapshot_parts(snapshot: &ShardSnapshot) -> ShardSnapshot {
    ShardSnapshot {
        index: Arc::clone(&snapshot.index),
        tenant_field: snapshot.tenant_field.clone(),
        segments: Vec::new(),
        ..*snapshot
    }
}

pub(super) const LIMITS: SearchLimits = SearchLimits {
    buckets_max: 65_536,
    memory_bytes_max: 64 << 20,
    node_memory: None,
};

/// Searches with two threads.
pub(super) fn run(shards: Vec<ShardSearch>, body: &Value) -> Result<SearchResponse> {
    run_all(shards.into_iter().map(Ok).collect(), body)
}

pub(super) fn run_all(shards: Vec<Result<ShardSearch, FailedShard>>, body: &Value) -> Result<SearchResponse> {
    run_request(shards, SearchRequest::parse(IndexTarget::default(), Some(body))?)
}

pub(super) fn run_request(
    shards: Vec<Result<ShardSearch, FailedShard>>,
    request: SearchRequest,
) -> Result<SearchResponse> {
    run_on(2, shards, request)
}

/// Searches with this many threads.
pub(super) fn run_on(
    threads: usize,
    shards: Vec<Result<ShardSearch, FailedShard>>,
    request: SearchRequest,
) -> Result<SearchResponse> {
    let pool = Arc::new(Pool::new("test", threads, 100));
    search(shards, Arc::new(request), &pool, &RequestContext::new(), NOW_MS, LIMITS)
}

/// Returns the ids of hits, in order.
pub(super) fn ids(response: &SearchResponse) -> String {
    let ids: Vec<&str> = response.hits.iter().map(|hit| hit.id.as_str()).collect();
    ids.join(" ")
}

/// Returns a mapping with a field of every type.
pub(super) fn mapping() -> Value {
    json!({
        "properties": {
            "@timestamp": {"type": "date"},
            "id": {"type": "keyword"},
            "message": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
            "words": {"type": "text", "analyzer": "whitespace"},
            "host": {"properties": {"name": {"type": "keyword"}, "ip": {"type": "ip"}}},
            "lower": {"type": "keyword", "normalizer": "lowercase"},
            "status": {"type": "integer"},
            "size": {"type": "long"},
            "big": {"type": "unsigned_long"},
            "ratio": {"type": "double"},
            "small": {"type": "float"},
            "price": {"type": "scaled_float", "scaling_factor": 100},
            "ok": {"type": "boolean"},
            "nanos": {"type": "date_nanos"},
            "env": {"type": "constant_keyword", "value": "prod"},
            "labels": {"type": "flattened"},
            "place": {"type": "geo_point"},
            "hidden": {"type": "keyword", "index": false},
            "terms_only": {"type": "keyword", "doc_values": false},
            "nickname": {"type": "alias", "path": "host.name"}
        }
    })
}

/// Returns the documents of most cases, by id.
pub(super) fn documents() -> Vec<Value> {
    vec![
        json!({
            "id": "a", "@timestamp": "2024-06-15T10:00:00Z", "message": "The quick brown fox", "words": "Quick-Fox jumps",
            "host": {"name": "web-1", "ip": "10.0.0.1"}, "lower": "ÄBC", "status": 200, "size": 10, "big": 18446744073709551615u64,
            "ratio": 0.5, "small": 0.1, "price": 9.99, "ok": true, "nanos": "2024-06-15T10:00:00.000000001Z",
            "labels": {"team": "red", "tier": {"name": "gold"}}, "place": {"lat": 1.5, "lon": 2.5},
            "hidden": "x", "terms_only": "t1"
        }),
        json!({
            "id": "b", "@timestamp": "2024-06-15T11:00:00Z", "message": "lazy dogs and a fox, the brown one",
            "host": {"name": "web-2", "ip": "10.0.1.7"}, "status": 404, "size": -5, "big": 1, "ratio": -1.25, "small": 2.5,
            "price": 10, "ok": false, "labels": {"team": "blue"}, "hidden": "y"
        }),
        json!({
            "id": "c", "@timestamp": "2024-06-14T23:30:00Z", "message": "fox",
            "host": {"name": ["db-1", "db-2"], "ip": "2001:db8::1"}, "status": [500, 503], "size": 9007199254740993i64,
            "ratio": 3, "ok": "true"
        }),
        json!({"id": "d", "message": "no time at all", "host": {"name": "WEB-1"}, "status": "n/a", "size": 0}),
        json!({
            "id": "e", "@timestamp": "2024-05-31T00:00:00Z", "host": {"ip": ["192.168.0.1", "10.0.0.1"]}, "status": "201",
            "size": 10.7, "labels": {"team": ["red", "blue"]}, "terms_only": "t2"
        }),
    ]
}

/// Returns the documents in two segments, with a deleted copy of the first one.
pub(super) fn shard() -> Shard {
    let mut shard = Shard::new(&mapping());
    let documents = documents();
    let mut first = documents[..2].to_vec();
    let mut ghost = documents[0].clone();
    ghost["id"] = json!("ghost");
    first.insert(1, ghost);
    shard.segment(&first, &[1]).segment(&documents[2..], &[]);
    shard
}

/// Returns the error of a search.
pub(super) fn failure(body: &Value) -> Error {
    match run(vec![shard().ready()], body) {
        Err(error) => error,
        Ok(_) => panic!("no error for {body}"),
    }
}
