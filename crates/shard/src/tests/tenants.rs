//! Tests of the tenant statistics of segments, against a count from the sources.

use std::collections::BTreeSet;

use firn_segment::tenants::{SegmentTenants, TenantRows};
use serde_json::Value;

use super::*;

/// Counts the documents of a segment from their sources.
pub(super) fn count(open: &OpenSegment) -> SegmentTenants {
    let mut rows: BTreeMap<String, TenantRows> = BTreeMap::new();
    let mut tenants = SegmentTenants {
        clustered: true,
        ..SegmentTenants::default()
    };
    let mut last = None;
    for doc in 0..open.meta.docs {
        let source: Value = serde_json::from_slice(&open.stored(doc).unwrap().0).unwrap();
        let named = values(&source["tenant"]);
        let names: BTreeSet<&str> = named.iter().filter_map(Value::as_str).collect();
        let times: Vec<i64> = values(&source["@timestamp"]).iter().filter_map(Value::as_i64).collect();
        let range = times.iter().min().copied().zip(times.iter().max().copied());
        for name in &names {
            let own = rows.entry((*name).to_owned()).or_insert_with(|| TenantRows {
                tenant: (*name).into(),
                docs: 0,
                time_range_ms: None,
                rows: doc..doc,
            });
            own.docs += 1;
            own.rows.end = doc + 1;
            own.time_range_ms = match (own.time_range_ms, range) {
                (Some(old), Some(new)) => Some((old.0.min(new.0), old.1.max(new.1))),
                (old, new) => old.or(new),
            };
        }
        tenants.without_tenant += u32::from(names.is_empty());
        // No tenant sorts after every tenant, and no time before every time when both are reversed.
        let place = (
            names.is_empty(),
            names.first().map(|name| (*name).to_owned()),
            std::cmp::Reverse(times.first().copied()),
        );
        tenants.clustered &= names.len() < 2 && times.len() < 2 && last.is_none_or(|last| last <= place);
        last = Some(place);
    }
    tenants.rows = rows.into_values().collect();
    tenants
}

fn values(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    }
}

fn statistics(shard: &Harness) -> Vec<SegmentTenants> {
    let snapshot = shard.shard.snapshot();
    let tenants = snapshot
        .segments
        .iter()
        .map(|segment| segment.tenants.as_deref().cloned());
    tenants.map(|tenants| tenants.unwrap()).collect()
}

fn rows(tenant: &str, docs: u32, time_range_ms: Option<(i64, i64)>, rows: std::ops::Range<u32>) -> TenantRows {
    TenantRows {
        tenant: tenant.into(),
        docs,
        time_range_ms,
        rows,
    }
}

#[test]
fn each_segment_knows_its_tenants() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    for source in [
        r#"{"tenant":"b","@timestamp":30}"#,
        r#"{"tenant":"a","@timestamp":10}"#,
        r#"{"@timestamp":20}"#,
        r#"{"tenant":"b","@timestamp":5}"#,
        r#"{"tenant":"b"}"#,
    ] {
        shard.index(None, source);
    }
    shard.shard.refresh().unwrap();
    let expected = SegmentTenants {
        rows: vec![rows("a", 1, Some((10, 10)), 1..2), rows("b", 3, Some((5, 30)), 0..5)],
        without_tenant: 1,
        clustered: false,
    };
    assert_eq!(statistics(&shard), std::slice::from_ref(&expected));
    // Deleted documents count until a merge removes them.
    shard.delete(&shard.made_id(1)).unwrap();
    let shard = shard.reopen();
    shard.shard.refresh().unwrap();
    assert_eq!(statistics(&shard), [expected]);
}

#[test]
fn documents_of_two_tenants_count_for_both() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    shard.index(None, r#"{"tenant":["b","a","b"],"@timestamp":[7,3]}"#);
    shard.index(None, r#"{"tenant":"c"}"#);
    shard.shard.refresh().unwrap();
    let expected = SegmentTenants {
        rows: vec![
            rows("a", 1, Some((3, 7)), 0..1),
            rows("b", 1, Some((3, 7)), 0..1),
            rows("c", 1, None, 1..2),
        ],
        without_tenant: 0,
        clustered: false,
    };
    assert_eq!(statistics(&shard), [expected]);
}

#[test]
fn nanoseconds_are_returned_in_milliseconds() {
    let (disk, dir) = sim();
    let mut shard = Harness::create(Arc::new(disk), &dir);
    let mapping = json!({"properties": {"@timestamp": {"type": "date_nanos"}, "tenant": {"type": "keyword"}}});
    let settings = IndexSettings::parse(&json!({})).unwrap();
    shard.compiled = Arc::new(CompiledMapping::new(Arc::new(Mapping::parse(&mapping).unwrap()), &settings).unwrap());
    for (tenant, day) in [("a", 1), ("b", 2), ("a", 3)] {
        shard.index(
            Some(&day.to_string()),
            &format!(r#"{{"tenant":"{tenant}","@timestamp":"2024-01-0{day}T00:00:00.000999999Z"}}"#),
        );
        shard.shard.refresh().unwrap();
    }
    let day = |number: i64| 1_704_067_200_000 + (number - 1) * 86_400_000;
    let merged = |shard: &Harness| {
        shard.shard.force_merge(1, false).unwrap();
        let found = statistics(shard).remove(0);
        let times = found
            .rows
            .iter()
            .map(|rows| (rows.tenant.to_string(), rows.time_range_ms));
        times.collect::<Vec<_>>()
    };
    let own = |tenant: &str, low, high| (tenant.to_owned(), Some((day(low), day(high))));
    assert_eq!(merged(&shard), [own("a", 1, 3), own("b", 2, 2)]);
    // The bounds of the whole segment are wider than those of its live documents.
    shard.delete("3").unwrap();
    assert_eq!(merged(&shard), [own("a", 1, 1), own("b", 2, 2)]);
}

#[test]
fn remaining_documents_without_times_are_counted() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    shard.index(Some("timed"), r#"{"tenant":"a","@timestamp":7}"#);
    shard.index(None, r#"{"tenant":"a"}"#);
    shard.shard.refresh().unwrap();
    shard.delete("timed").unwrap();
    shard.shard.force_merge(1, false).unwrap();
    assert_eq!(statistics(&shard)[0].rows, [rows("a", 1, None, 0..1)]);
}

#[test]
fn without_the_field_or_its_column_nothing_is_known() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    shard.index(None, r#"{"n":1}"#);
    shard.shard.refresh().unwrap();
    assert!(shard.shard.snapshot().segments[0].tenants.is_none());
}

#[test]
fn damaged_statistics_are_found_when_the_shard_opens() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk.clone()), &dir);
    shard.index(None, r#"{"tenant":"a"}"#);
    shard.shard.flush().unwrap();
    let generation = shard
        .shard
        .snapshot()
        .segments
        .first()
        .map(|segment| segment.generation);
    drop(shard);
    let folder = firn_segment::commit_point::segment_dir(&dir, generation.unwrap_or(1));
    disk.damage(&folder.join("tenants.bin"), |bytes| bytes[1] ^= 1).unwrap();
    let Err(error) = Harness::open(Arc::new(disk), &dir) else {
        panic!("it opened")
    };
    assert_eq!(error.kind(), ErrorKind::ShardDamaged);
    assert!(error.to_string().contains("tenants.bin"), "{error}");
}
