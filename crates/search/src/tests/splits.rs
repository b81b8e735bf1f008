//! Tests that splits answer like their segments.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::SearchResponse;
use firn_segment::block_checksums::FileSum;
use firn_segment::commit_point::SegmentMeta;
use firn_segment::deletes::DeleteSet;
use firn_segment::frozen_segment::FrozenSegment;
use firn_segment::segment::{Segment, ShardSnapshot};
use firn_segment::splits::{ReadRange, SplitBytes, WholeSplit, open_split, write_split};
use firn_storage::split::pages::PAGE_BYTES;
use firn_storage::split::{PartKind, SplitRef};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tantivy::directory::Directory;
use tantivy::directory::footer::Footer;
use tokio::runtime::Handle;

use super::support::*;
use crate::ShardSearch;

/// Returns a Tantivy file with the footer that Tantivy opens it by: a text, its length and a magic number.
/// Tantivy's directory strips the footer before callers see the file.
fn with_end(file: &[u8]) -> Bytes {
    let end = Footer {
        version: tantivy::version().clone(),
        crc: 0,
    };
    let text = serde_json::to_vec(&end).unwrap();
    let len = (text.len() as u32).to_le_bytes();
    [file, &text, &len, &1337u32.to_le_bytes()].concat().into()
}

/// Returns a segment as a commit point would have it.
pub(super) fn frozen(segment: &Segment) -> FrozenSegment {
    let index = segment.reader.index();
    let directory = index.directory();
    let mut files: std::collections::BTreeMap<String, Bytes> = directory
        .list_managed_files()
        .into_iter()
        .filter_map(|path| {
            let handle = directory.get_file_handle(&path).ok()?;
            let bytes = handle.read_bytes(0..handle.len()).ok()?;
            Some((path.to_string_lossy().into_owned(), with_end(&bytes)))
        })
        .collect();
    let meta = directory.atomic_read(std::path::Path::new("meta.json")).unwrap();
    files.insert("meta.json".to_owned(), meta.into());
    let sum = |bytes: &Bytes| FileSum {
        len: bytes.len() as u64,
        crc: crc32c::crc32c(bytes),
    };
    let mut deletes = DeleteSet::default();
    for doc in (0..segment.max_doc).filter(|doc| !segment.is_alive(*doc)) {
        deletes.insert(doc);
    }
    if let Some(tenants) = &segment.tenants {
        files.insert(
            firn_segment::tenant_file::TENANTS_FILE.to_owned(),
            firn_segment::tenant_file::encode(tenants).into(),
        );
    }
    FrozenSegment {
        meta: SegmentMeta {
            generation: segment.generation,
            docs: segment.max_doc,
            user_ids: segment.max_doc,
            time_range_ms: segment.time_range_ms,
            without_time: segment.without_time_count,
            seq_no_range: segment.seq_no_range,
            ordered: true,
            is_nanos: false,
            own_tenant: None,
            size_bytes: files.values().map(|bytes| bytes.len() as u64).sum(),
            files: files.iter().map(|(name, bytes)| (name.clone(), sum(bytes))).collect(),
        },
        reader: segment.reader.clone(),
        files,
        tenants: segment.tenants.clone(),
        deletes,
    }
}

/// Returns the split object of a segment, and its deletes.
pub(super) fn split_of(segment: &Segment) -> (SplitRef, Bytes, Option<Bytes>) {
    let frozen = frozen(segment);
    let mut object = Vec::new();
    let split = write_split(&frozen, &mut object, &|| Ok(())).unwrap();
    assert_eq!(split.len, object.len() as u64);
    (split, object.into(), frozen.deletes())
}

/// Returns the same shard with its segments as splits.
pub(super) fn as_splits(shard: &ShardSearch) -> ShardSearch {
    let reopen = |segment: &Arc<Segment>| {
        let (split, object, deletes) = split_of(segment);
        let bytes = Arc::new(WholeSplit::new(object, split.salt));
        Arc::new(open_split(&split, bytes, deletes.as_deref()).unwrap())
    };
    let snapshot = &shard.snapshot;
    ShardSearch {
        snapshot: Arc::new(ShardSnapshot {
            segments: snapshot.segments.iter().map(reopen).collect(),
            index: Arc::clone(&snapshot.index),
            tenant_field: snapshot.tenant_field.clone(),
            ..**snapshot
        }),
        cache: None,
        ..shard.clone()
    }
}

/// Returns the part of an answer that a client sees.
pub(super) fn seen(response: &SearchResponse) -> String {
    let aggregations = response.aggregations.as_ref().map(|found| format!("{found:?}"));
    format!("{:?} {:?} {aggregations:?}", response.total, response.hits)
}

/// Returns requests that read every part of a segment.
fn questions() -> Vec<Value> {
    vec![
        json!({"query": {"match_all": {}}, "sort": [{"@timestamp": "desc"}], "version": true, "seq_no_primary_term": true}),
        json!({"query": {"term": {"host.name": "web-1"}}}),
        json!({"query": {"match": {"message": "brown fox"}}}),
        json!({"query": {"match_phrase": {"message": "brown fox"}}, "highlight": {"fields": {"message": {}}}}),
        json!({"query": {"prefix": {"message": "qu"}}}),
        json!({"query": {"wildcard": {"host.name": "*-1"}}}),
        json!({"query": {"ids": {"values": ["a", "c"]}}}),
        json!({"query": {"exists": {"field": "terms_only"}}}),
        json!({"query": {"range": {"@timestamp": {"gte": "2024-06-15T10:30:00Z"}}}}),
        json!({"query": {"range": {"size": {"gte": 0, "lt": 11}}}, "sort": ["size"]}),
        json!({"query": {"term": {"host.ip": "10.0.0.0/8"}}, "docvalue_fields": ["status"], "fields": ["host.*"]}),
        json!({"size": 0, "aggs": {
            "by_day": {"date_histogram": {"field": "@timestamp", "calendar_interval": "day"}},
            "names": {"terms": {"field": "host.name"}, "aggs": {"sizes": {"stats": {"field": "size"}}}},
            "addresses": {"cardinality": {"field": "host.ip"}}
        }}),
    ]
}

#[test]
fn splits_answer_like_their_segments() {
    let shard = shard();
    let splits = as_splits(&shard.ready());
    for question in questions() {
        let expect = run(vec![shard.ready()], &question).unwrap();
        let found = run(vec![splits.clone()], &question).unwrap();
        assert_eq!(seen(&found), seen(&expect), "{question}");
    }
}

pub(super) fn events(count: usize) -> Vec<Value> {
    let event = |number: usize| {
        json!({
            "id": format!("id-{number}"),
            "@timestamp": 1_700_000_000_000u64 + number as u64 * 1000,
            "tenant": format!("t{}", number % 3),
            "message": format!("request {} took {} ms", number, number % 97),
            "status": 200 + number % 5,
        })
    };
    (0..count).map(event).collect()
}

fn tenant_shard(count: usize) -> Shard {
    let mut mapping = mapping();
    mapping["properties"]["tenant"] = json!({"type": "keyword"});
    let mut shard = Shard::new(&mapping);
    shard.by_tenant().clustered_segment(&events(count), &[5, 77]);
    shard
}

#[test]
fn clustered_splits_answer_like_their_segments() {
    let shard = tenant_shard(10_000);
    let splits = as_splits(&shard.ready());
    let tenants = splits.snapshot.segments[0].tenants.as_ref().unwrap();
    assert!(tenants.clustered && tenants.rows.len() == 3);
    let of_tenant = |filter: Value| json!({"bool": {"filter": [{"term": {"tenant": "t1"}}, filter]}});
    for question in [
        json!({"query": of_tenant(json!({"match_all": {}})), "sort": [{"@timestamp": "desc"}], "size": 20}),
        json!({"query": of_tenant(json!({"range": {"@timestamp": {"gte": 1_700_002_000_000u64, "lt": 1_700_005_000_000u64}}})),
               "size": 0, "track_total_hits": true, "aggs": {"h": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}}}}),
        json!({"query": {"match": {"message": "9999"}}}),
    ] {
        let expect = run(vec![shard.ready()], &question).unwrap();
        let found = run(vec![splits.clone()], &question).unwrap();
        assert_eq!(seen(&found), seen(&expect), "{question}");
    }
}

#[test]
fn the_same_segment_makes_the_same_object() {
    let shard = tenant_shard(500);
    let segment = &shard.ready().snapshot.segments[0];
    let (first, second) = (split_of(segment), split_of(segment));
    assert_eq!(first, second);
    assert_eq!(
        first.0.key(),
        format!("splits/{}/{}.split", &first.0.id[..2], first.0.id)
    );
    let tenant = first.0.tenant("t1").unwrap();
    assert_eq!((tenant.docs, first.0.tenant("t9")), (167, None));
}

/// Otherwise a cache could take pages of one object for those of the other.
#[test]
fn a_segment_rebuilt_under_its_id_has_another_salt() {
    let shard = tenant_shard(100);
    let mut frozen = frozen(&shard.ready().snapshot.segments[0]);
    let write = |frozen: &FrozenSegment| write_split(frozen, &mut Vec::new(), &|| Ok(())).unwrap();
    let before = write(&frozen);
    frozen.meta.generation += 1;
    let after = write(&frozen);
    assert_eq!(before.segment, after.segment);
    assert_ne!(before.salt, after.salt);
}

#[test]
fn writing_a_split_can_be_stopped() {
    let shard = tenant_shard(2000);
    let frozen = frozen(&shard.ready().snapshot.segments[0]);
    let stop = || Err(Error::new(ErrorKind::Cancelled, "stopped"));
    let error = write_split(&frozen, &mut Vec::new(), &stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_damaged_segment_becomes_no_split() {
    let shard = tenant_shard(10);
    let mut frozen = frozen(&shard.ready().snapshot.segments[0]);
    let name = frozen
        .files
        .keys()
        .find(|name| name.ends_with(".fast"))
        .unwrap()
        .clone();
    let mut bytes = frozen.files[&name].to_vec();
    bytes[3] ^= 1;
    frozen.files.insert(name, bytes.into());
    let error = write_split(&frozen, &mut Vec::new(), &|| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShardDamaged);
}

/// Counts reads, and fails after a given number of further reads.
#[derive(Debug)]
struct Watched {
    whole: WholeSplit,
    reads: Mutex<Vec<ReadRange>>,
    left: AtomicU64,
}

impl Watched {
    fn new(object: Bytes, salt: u64) -> Arc<Self> {
        Arc::new(Self {
            whole: WholeSplit::new(object, salt),
            reads: Mutex::default(),
            left: AtomicU64::new(u64::MAX),
        })
    }

    fn take_reads(&self) -> Vec<ReadRange> {
        std::mem::take(&mut *self.reads.lock())
    }
}

#[async_trait]
impl SplitBytes for Watched {
    fn read(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes> {
        let spend = |left: u64| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
            .is_err()
        {
            return Err(Error::new(ErrorKind::Unavailable, "the store is out of reach"));
        }
        self.reads.lock().push((kind, logical.clone()));
        self.whole.read(kind, logical)
    }

    async fn fetch(&self, _: &[ReadRange]) -> Result<()> {
        Ok(())
    }

    fn missing(&self, _: &[ReadRange]) -> (u64, u64) {
        (0, 0)
    }

    fn io(&self) -> Option<&Handle> {
        None
    }
}

fn watched(shard: &Shard) -> (ShardSearch, Arc<Watched>) {
    let ready = shard.ready();
    let written = split_of(&ready.snapshot.segments[0]);
    opened(ready, &written)
}

/// Opens a shard whose only segment was written as a split.
fn opened(
    ready: ShardSearch,
    (split, object, deletes): &(SplitRef, Bytes, Option<Bytes>),
) -> (ShardSearch, Arc<Watched>) {
    let bytes = Watched::new(object.clone(), split.salt);
    let segment = open_split(split, Arc::clone(&bytes) as Arc<dyn SplitBytes>, deletes.as_deref()).unwrap();
    let snapshot = ShardSnapshot {
        segments: vec![Arc::new(segment)],
        index: Arc::clone(&ready.snapshot.index),
        tenant_field: None,
        ..*ready.snapshot
    };
    let search = ShardSearch {
        snapshot: Arc::new(snapshot),
        ..ready
    };
    (search, bytes)
}

#[test]
fn opening_reads_the_footer_alone_and_a_needle_little_more() {
    let shard = tenant_shard(5000);
    let (splits, bytes) = watched(&shard);
    let opened = bytes.take_reads();
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].0, PartKind::Footer);
    let found = run(vec![splits], &json!({"query": {"ids": {"values": ["id-4321"]}}})).unwrap();
    assert_eq!(ids(&found), "id-4321");
    let read = |(kind, range): &ReadRange| (*kind, range.start);
    let reads: BTreeSet<(PartKind, u64)> = bytes.take_reads().iter().map(read).collect();
    let kinds: Vec<PartKind> = reads.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [PartKind::Terms, PartKind::Postings, PartKind::Store]);
}

#[test]
fn a_store_out_of_reach_is_named() {
    let (splits, bytes) = watched(&tenant_shard(5000));
    bytes.left.store(0, Ordering::Relaxed);
    for question in [
        json!({"query": {"ids": {"values": ["id-1"]}}}),
        json!({"sort": ["status"]}),
    ] {
        let error = run(vec![splits.clone()], &question).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{question}");
    }
}

#[test]
fn a_store_out_of_reach_is_named_at_every_step_of_a_search() {
    /// Enough events that dictionaries are not in the footer.
    const EVENTS: usize = 20_000;
    let event = |number: usize| {
        let name = format!("web-{:05}-{:x}", number * 7 % EVENTS, number * number);
        json!({
            "id": format!("id-{number}"), "@timestamp": 1_700_000_000_000u64 + number as u64 * 1000, "status": number * 31 % 997,
            "message": format!("{name} took {number} ms"),
            "host": {"name": name, "ip": format!("10.{}.{}.{}", number % 7, number / 256, number % 256)},
        })
    };
    let mut shard = Shard::new(&mapping());
    shard.segment(&(0..EVENTS).map(event).collect::<Vec<_>>(), &[]);
    let written = split_of(&shard.ready().snapshot.segments[0]);
    let composite =
        json!({"composite": {"sources": [{"s": {"terms": {"field": "host.name"}}}], "after": {"s": "web-01"}}});
    let mut failed = 0;
    for question in [
        json!({"query": {"term": {"host.name": "web-00007-1"}}, "size": 1}),
        json!({"query": {"match_phrase": {"message": "77 ms"}}, "size": 1}),
        json!({"query": {"prefix": {"host.name": "web-0123"}}, "size": 0}),
        json!({"query": {"range": {"host.name": {"gte": "web-01234", "lt": "web-01236"}}}, "size": 0}),
        json!({"query": {"range": {"status": {"gte": 990}}}, "sort": ["status"], "size": 1}),
        json!({"sort": [{"host.name": "asc"}], "search_after": ["web-01"], "size": 1}),
        json!({"size": 0, "aggs": {"c": composite}}),
        json!({"size": 0, "aggs": {"r": {"ip_range": {"field": "host.ip", "ranges": [{"from": "10.1.0.0", "to": "10.2.7.0"}]}}}}),
        json!({"size": 0, "aggs": {"t": {"terms": {"field": "host.name", "size": 3}}}}),
        json!({"size": 0, "query": {"range": {"status": {"lt": 9}}}, "aggs": {"t": {"terms": {"field": "host.name", "include": "web-01.*"}}}}),
    ] {
        for reads in 0.. {
            let (splits, bytes) = opened(shard.ready(), &written);
            bytes.left.store(reads, Ordering::Relaxed);
            let errors: Vec<Error> = match run(vec![splits], &question) {
                Ok(found) => found.shards.failures.into_iter().map(|(_, _, error)| error).collect(),
                Err(error) => vec![error],
            };
            if errors.is_empty() {
                break;
            }
            failed += 1;
            let kinds: Vec<ErrorKind> = errors.iter().map(Error::kind).collect();
            assert_eq!(
                kinds,
                [ErrorKind::Unavailable],
                "{question} after {reads} reads: {errors:?}"
            );
        }
    }
    assert!(failed > 40, "{failed}");
}

/// Both splits have columns of the same segment.
#[test]
fn open_columns_of_a_split_serve_no_other_split() {
    let shard = tenant_shard(9000);
    let ((splits, bytes), (others, other_bytes)) = (watched(&shard), watched(&shard));
    let one = json!({"query": {"ids": {"values": ["id-1"]}}, "sort": ["status"]});
    run(vec![splits], &one).unwrap();
    bytes.left.store(0, Ordering::Relaxed);
    let all = json!({"size": 0, "aggs": {"s": {"sum": {"field": "status"}}, "t": {"terms": {"field": "tenant"}}},
                     "query": {"range": {"status": {"gte": 1}}}});
    let found = run(vec![others], &all).unwrap();
    assert!(
        other_bytes
            .take_reads()
            .iter()
            .any(|(kind, _)| *kind == PartKind::Columns)
    );
    assert_eq!(seen(&found), seen(&run(vec![shard.ready()], &all).unwrap()));
}

#[test]
fn a_flipped_bit_never_reaches_an_answer() {
    let shard = tenant_shard(3000);
    let ready = shard.ready();
    let (split, object, _) = split_of(&ready.snapshot.segments[0]);
    let question = json!({"size": 50, "sort": ["status"], "query": {"match": {"message": "took"}},
                          "aggs": {"s": {"terms": {"field": "tenant"}}}});
    let mut refused = 0;
    for page in 0..object.len() / PAGE_BYTES as usize {
        let mut damaged = object.to_vec();
        damaged[page * PAGE_BYTES as usize + page % PAGE_BYTES as usize] ^= 1 << (page % 8);
        let bytes = Arc::new(WholeSplit::new(damaged.into(), split.salt));
        let answer = open_split(&split, bytes, None).and_then(|segment| {
            let snapshot = ShardSnapshot {
                segments: vec![Arc::new(segment)],
                index: Arc::clone(&ready.snapshot.index),
                tenant_field: None,
                ..*ready.snapshot
            };
            let search = ShardSearch {
                snapshot: Arc::new(snapshot),
                ..ready.clone()
            };
            run(vec![search], &question)
        });
        match answer {
            Ok(found) => assert_eq!(found.total.unwrap().value, 3000),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Repository, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 5, "{refused}");
}

#[test]
fn a_split_of_another_version_or_that_is_cut_is_refused() {
    let shard = tenant_shard(100);
    let (split, object, _) = split_of(&shard.ready().snapshot.segments[0]);
    let cut = Arc::new(WholeSplit::new(
        object.slice(..object.len() - PAGE_BYTES as usize),
        split.salt,
    ));
    let error = open_split(&split, cut, None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Repository);
    let deletes = [0u8, 0, 0, 0, 0, 0, 0, 0x80].repeat(9);
    let whole = Arc::new(WholeSplit::new(object, split.salt));
    let error = open_split(&split, whole, Some(&deletes)).err().unwrap();
    assert!(error.reason().contains("deletes do not fit"), "{error}");
}
