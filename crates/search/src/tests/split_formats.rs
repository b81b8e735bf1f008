//! Tests that this build reads splits of all earlier formats.
//!
//! Each format that was ever written has files in `fixtures/`.
//! `FIRN_WRITE_FIXTURES=1 cargo test -p firn-embedded --lib split_formats` writes the files of a new format, once, and
//! never again: existing snapshots keep their format.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use firn_segment::segment::ShardSnapshot;
use firn_segment::splits::{WholeSplit, open_split};
use firn_storage::split::{SplitRef, VERSION};
use serde_json::{Value, json};

use super::splits::{events, split_of};
use super::support::*;
use crate::ShardSearch;

/// Returns the path of a fixture; `format` is a version with its additions.
fn fixture(format: impl Display, ending: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tests/fixtures");
    folder.join(format!("split-{format}.{ending}"))
}

fn read(format: impl Display, ending: &str) -> Bytes {
    let path = fixture(&format, ending);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("format {format} has no fixture: {}: {error}", path.display()))
        .into()
}

/// Writes the documents of most cases and sixty events; the fourth document is deleted.
fn write(version: u32) {
    let mut shard = Shard::new(&mapping());
    let documents = [documents(), events(60)].concat();
    shard.by_tenant().counted_segment(&documents, &[3]);
    let (split, object, deletes) = split_of(&shard.ready().snapshot.segments[0]);
    let write = |ending: &str, bytes: &[u8]| std::fs::write(fixture(version, ending), bytes).unwrap();
    write("json", &serde_json::to_vec_pretty(&split).unwrap());
    write("split", &object);
    write("deletes", &deletes.unwrap());
}

/// Returns the version in the last page of an object.
fn version_of(object: &[u8]) -> u32 {
    // After it are eight bytes of magic and the page's checksum.
    let at = object.len() - 16;
    u32::from_le_bytes(object[at..at + 4].try_into().unwrap())
}

fn check(version: u32) {
    let split: SplitRef = serde_json::from_slice(&read(version, "json")).unwrap();
    let object = read(version, "split");
    assert_eq!(version_of(&object), version);
    let bytes = Arc::new(WholeSplit::new(object, split.salt));
    let segment = open_split(&split, bytes, Some(&read(version, "deletes"))).unwrap();
    assert_eq!((segment.max_doc, segment.deleted_count, split.docs), (65, 1, 65));
    let tenant = split.tenant("t1").unwrap();
    assert_eq!(
        (tenant.docs, tenant.time_range_ms),
        (20, Some((1_700_000_001_000, 1_700_000_058_000)))
    );
    let ready = shard().ready();
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
    let ask = |body: Value| run(vec![search.clone()], &body).unwrap();
    let count = |query: Value| ask(json!({"query": query})).total.unwrap().value;
    assert_eq!(count(json!({"match_all": {}})), 64);
    assert_eq!(count(json!({"match": {"message": "took"}})), 60);
    assert_eq!(ids(&ask(json!({"query": {"term": {"host.name": "db-1"}}}))), "c");
    let phrase = json!({"query": {"match_phrase": {"message": "request 17"}}});
    assert_eq!(ids(&ask(phrase)), "id-17");
    let with_size = json!({"query": {"exists": {"field": "size"}}, "sort": ["size", "id"]});
    assert_eq!(ids(&ask(with_size)), "b a e c");
    let newest = json!({"sort": [{"@timestamp": "desc"}], "size": 2});
    assert_eq!(ids(&ask(newest)), "b a");
    let counted = ask(json!({"size": 0, "aggs": {
        "m": {"max": {"field": "status"}},
        "names": {"terms": {"field": "host.name", "order": {"_key": "asc"}}}
    }}));
    let counted = counted.aggregations.unwrap();
    assert_eq!(counted["m"]["value"], json!(503.0));
    let names: Vec<_> = counted["names"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| &name["key"])
        .collect();
    assert_eq!(names, ["db-1", "db-2", "web-1", "web-2"]);
    let source = ask(json!({"query": {"ids": {"values": ["c"]}}}))
        .hits
        .remove(0)
        .source
        .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&source).unwrap(), documents()[2]);
}

/// Version 3 with totals, and with enough events to have some.
const WITH_TOTALS: &str = "3-totals";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "an order from the command line to write fixtures"
)]
fn totals_are_still_read() {
    if std::env::var_os("FIRN_WRITE_FIXTURES").is_some() && !fixture(WITH_TOTALS, "split").exists() {
        let mut shard = Shard::new(&mapping());
        shard.segment(&events(400), &[]);
        let (split, object, _) = split_of(&shard.ready().snapshot.segments[0]);
        std::fs::write(fixture(WITH_TOTALS, "json"), serde_json::to_vec_pretty(&split).unwrap()).unwrap();
        std::fs::write(fixture(WITH_TOTALS, "split"), &object).unwrap();
    }
    let split: SplitRef = serde_json::from_slice(&read(WITH_TOTALS, "json")).unwrap();
    let object = read(WITH_TOTALS, "split");
    assert_eq!(version_of(&object), 3);
    let segment = open_split(&split, Arc::new(WholeSplit::new(object, split.salt)), None).unwrap();
    let ready = shard().ready();
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
    let body = json!({"size": 0, "profile": true, "aggs": {
        "codes": {"terms": {"field": "status"}, "aggs": {"last": {"max": {"field": "@timestamp"}}}},
        "sum": {"sum": {"field": "status"}}
    }});
    let found = run(vec![search], &body).unwrap();
    assert_eq!(found.profile.unwrap().shards[0].segments.from_statistics, 1);
    let answer = found.aggregations.unwrap();
    let codes = answer["codes"]["buckets"].as_array().unwrap();
    let codes: Vec<_> = codes
        .iter()
        .map(|code| (&code["key"], &code["doc_count"], &code["last"]["value"]))
        .collect();
    let expect: Vec<_> = (0..5)
        .map(|code| {
            (
                json!(200 + code),
                json!(80),
                json!(1_700_000_395_000.0 + f64::from(code) * 1000.0),
            )
        })
        .collect();
    assert_eq!(
        codes,
        expect
            .iter()
            .map(|(key, docs, last)| (key, docs, last))
            .collect::<Vec<_>>()
    );
    assert_eq!(answer["sum"]["value"], json!(80_800.0));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "an order from the command line to write fixtures"
)]
fn every_format_is_still_read() {
    if std::env::var_os("FIRN_WRITE_FIXTURES").is_some() && !fixture(VERSION, "split").exists() {
        write(VERSION);
    }
    for version in 1..=VERSION {
        check(version);
    }
}
