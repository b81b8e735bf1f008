//! Tests that a clustering merge changes only the order of documents: the content of every term, column and
//! stored document is compared by sequence number.

use firn_segment::schema::fields;
use tantivy::columnar::{ColumnarReader, DynamicColumn};
use tantivy::index::SegmentComponent;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use super::*;

/// Content of one term or column, by sequence number.
type BySeqNo = BTreeMap<u64, String>;

/// Returns everything searchable in a shard, by the name of a term or column.
fn contents(shard: &Harness) -> BTreeMap<String, BySeqNo> {
    let mut contents: BTreeMap<String, BySeqNo> = BTreeMap::new();
    for segment in &shard.shard.snapshot().segments {
        let reader = &segment.reader;
        let seq_nos = reader.fast_fields().u64("_seq_no").unwrap();
        let seq_no = |doc| seq_nos.first(doc).unwrap();
        let mut add = |name: &str, doc: u32, what: String| {
            if segment.is_alive(doc) {
                let old = contents.entry(name.to_owned()).or_default().insert(seq_no(doc), what);
                assert_eq!(old, None, "{name} of document {} is there twice", seq_no(doc));
            }
        };
        for (field, entry) in fields().schema.fields().filter(|(_, entry)| entry.is_indexed()) {
            let index = reader.inverted_index(field).unwrap();
            let mut terms = index.terms().stream().unwrap();
            while terms.advance() {
                let name = format!("{} {:?}", entry.name(), String::from_utf8_lossy(terms.key()));
                let option = IndexRecordOption::WithFreqsAndPositions;
                let mut postings = index.read_postings_from_terminfo(terms.value(), option).unwrap();
                while postings.doc() != TERMINATED {
                    let mut positions = Vec::new();
                    postings.positions(&mut positions);
                    add(&name, postings.doc(), format!("{} {positions:?}", postings.term_freq()));
                    postings.advance();
                }
            }
        }
        let columns = ColumnarReader::open(reader.open_read(SegmentComponent::FastFields).unwrap()).unwrap();
        for (name, column) in columns.list_columns().unwrap() {
            let column = column.open().unwrap();
            for doc in 0..segment.max_doc {
                add(&name, doc, values(&column, doc));
            }
        }
        let store = reader.get_store_reader(1).unwrap();
        for doc in 0..segment.max_doc {
            add("stored", doc, format!("{:?}", &*store.get_document_bytes(doc).unwrap()));
        }
    }
    // A column without values may exist or not.
    for says in contents.values_mut() {
        says.retain(|_, what| what != "[]");
    }
    contents.retain(|_, says| !says.is_empty());
    contents
}

/// Returns numbers as floats: the type of a column depends on the other values in its segment.
fn values(column: &DynamicColumn, doc: u32) -> String {
    match column {
        DynamicColumn::I64(column) => format!(
            "{:?}",
            column.values_for_doc(doc).map(|value| value as f64).collect::<Vec<_>>()
        ),
        DynamicColumn::U64(column) => format!(
            "{:?}",
            column.values_for_doc(doc).map(|value| value as f64).collect::<Vec<_>>()
        ),
        DynamicColumn::F64(column) => format!("{:?}", column.values_for_doc(doc).collect::<Vec<_>>()),
        DynamicColumn::Str(column) => {
            let text = |ord| {
                let mut text = String::new();
                column.ord_to_str(ord, &mut text).unwrap();
                text
            };
            format!("{:?}", column.term_ords(doc).map(text).collect::<Vec<_>>())
        }
        _ => panic!("a column of an unexpected type"),
    }
}

fn mapping() -> Arc<CompiledMapping> {
    let mapping = Mapping::parse(&json!({"properties": {
        "@timestamp": {"type": "date"},
        "tenant": {"type": "keyword"},
        "level": {"type": "keyword"},
        "terms_only": {"type": "keyword", "doc_values": false},
        "column_only": {"type": "keyword", "index": false},
        "labels": {"type": "flattened"},
        "ip": {"type": "ip"},
        "long": {"type": "long"},
        "unsigned": {"type": "unsigned_long"},
        "double": {"type": "double"},
        "flag": {"type": "boolean"},
        "place": {"type": "geo_point"},
        "message": {"type": "text"},
        "words": {"type": "text", "analyzer": "whitespace"},
        "simple": {"type": "text", "analyzer": "simple"},
        "whole": {"type": "text", "analyzer": "keyword"},
    }}))
    .unwrap();
    let settings = IndexSettings::parse(&json!({})).unwrap();
    Arc::new(CompiledMapping::new(Arc::new(mapping), &settings).unwrap())
}

fn event(rng: &mut fastrand::Rng) -> String {
    let mut event = serde_json::Map::new();
    let mut words = |count: usize| {
        let word = |_| ["alpha", "beta", "gamma", "delta"][rng.usize(0..4)];
        (0..count).map(word).collect::<Vec<_>>()
    };
    let (one, some, text) = (words(1), words(3), words(12).join(" "));
    event.insert(
        "@timestamp".to_owned(),
        json!(1_700_000_000_000_u64 + rng.u64(0..50) * 1000),
    );
    event.insert(
        "tenant".to_owned(),
        json!(["a", "b", "c", "large", "large", "large"][rng.usize(0..6)]),
    );
    for (name, value) in [
        ("level", json!(some)),
        ("terms_only", json!(some)),
        ("column_only", json!(one)),
        ("labels", json!({"k": one, "deep": {"er": some}})),
        ("ip", json!(format!("10.0.0.{}", rng.u8(..)))),
        ("long", json!([rng.i64(-9..9), rng.i64(..)])),
        ("unsigned", json!(rng.u64(..))),
        ("double", json!(rng.f64())),
        ("flag", json!(rng.bool())),
        ("place", json!({"lat": rng.i32(-90..90), "lon": rng.i32(-180..180)})),
        ("message", json!([text, "alpha beta"])),
        ("words", json!(text)),
        ("simple", json!(text)),
        ("whole", json!(text)),
        ("unmapped", json!(text)),
    ] {
        if rng.u8(0..4) > 0 {
            event.insert(name.to_owned(), value);
        }
    }
    if rng.u8(0..20) == 0 {
        event.remove(["@timestamp", "tenant"][rng.usize(0..2)]);
    }
    serde_json::Value::Object(event).to_string()
}

#[test]
fn everything_but_the_order_stays() {
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (disk, dir) = sim();
        let mut harness = Harness::create(Arc::new(disk.clone()), &dir);
        harness.compiled = mapping();
        let harness = Arc::new(harness);
        for number in 0..rng.usize(50..160) {
            let id = rng.bool().then(|| format!("id-{number}"));
            harness.index(id.as_deref(), &event(&mut rng));
            if rng.u8(0..12) == 0 {
                harness.shard.refresh().unwrap();
            }
        }
        for id in harness.documents().into_keys().filter(|_| rng.u8(0..5) == 0) {
            harness.delete(&id).unwrap();
        }
        harness.shard.refresh().unwrap();
        let mut expected = contents(&harness);
        // Some documents are deleted while the merge runs.
        let documents = harness.documents();
        let late: Vec<String> = documents.into_keys().filter(|_| rng.u8(0..9) == 0).collect();
        let gone: Arc<Mutex<Vec<u64>>> = Arc::default();
        let (writer, removed) = (Arc::clone(&harness), Arc::clone(&gone));
        disk.set_hook(Some(Arc::new(move |disk: &SimDisk, step: Step| {
            if step == Step::Append {
                disk.set_hook(None);
                for id in &late {
                    removed.lock().push(writer.shard.get(id, true).unwrap().unwrap().seq_no);
                    writer.delete(id).unwrap();
                }
            }
        })));
        if rng.bool() {
            harness.shard.force_merge(1, false).unwrap();
            assert!(harness.shard.snapshot().segments.len() == 1);
        } else {
            while harness.shard.merge_tick().unwrap() {}
            disk.set_hook(None);
        }
        harness.shard.refresh().unwrap();
        for says in expected.values_mut() {
            says.retain(|seq_no, _| !gone.lock().contains(seq_no));
        }
        expected.retain(|_, says| !says.is_empty());
        let found = contents(&harness);
        for (name, says) in &expected {
            assert_eq!(found.get(name), Some(says), "seed {seed}: {name}");
        }
        assert!(found.keys().eq(expected.keys()), "seed {seed}");
        // Generated ids are found at their new places.
        for id in harness.documents().keys() {
            assert!(harness.shard.get(id, false).unwrap().is_some(), "seed {seed}: {id}");
        }
        harness.shard.verify().unwrap();
    }
}

/// Writes events of a tenant at the given times.
fn write(shard: &Harness, tenant: &str, times: impl IntoIterator<Item = u64>) {
    for time in times {
        shard.index(
            None,
            &format!(r#"{{"tenant":"{tenant}","@timestamp":{time},"message":"of {tenant}"}}"#),
        );
    }
}

/// Returns each segment's tenant, if it has only one, and the tenants and times of its documents.
fn layout(shard: &Harness) -> Vec<(Option<String>, Vec<String>)> {
    let state = shard.shard.state.lock();
    let segments = state.segments.iter().map(|segment| {
        let docs = (0..segment.open.meta.docs).map(|doc| {
            let source: serde_json::Value = serde_json::from_slice(&segment.open.stored(doc).unwrap().0).unwrap();
            format!("{} {}", source["tenant"].as_str().unwrap_or("-"), source["@timestamp"])
        });
        (segment.open.meta.own_tenant.clone(), docs.collect())
    });
    segments.collect()
}

#[test]
fn documents_are_ordered_by_tenant_and_time() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    write(&shard, "b", [3, 1]);
    write(&shard, "a", [2, 5, 5]);
    shard.index(None, r#"{"@timestamp":9}"#);
    shard.shard.refresh().unwrap();
    shard.index(None, r#"{"tenant":"b"}"#);
    write(&shard, "b", [2]);
    shard.shard.force_merge(1, false).unwrap();
    let expected = ["a 5", "a 5", "a 2", "b 3", "b 2", "b 1", "b null", "- 9"];
    assert_eq!(layout(&shard), [(None, expected.map(str::to_owned).to_vec())]);
    let snapshot = shard.shard.snapshot();
    assert!(
        snapshot.segments[0]
            .tenants
            .as_ref()
            .is_some_and(|tenants| tenants.clustered)
    );
    // Of equal times the earlier write comes first.
    let seq_nos = snapshot.segments[0].reader.fast_fields().u64("_seq_no").unwrap();
    assert!(seq_nos.first(0) < seq_nos.first(1));
    // A second merge has no benefit.
    let generation = snapshot.segments[0].generation;
    shard.shard.force_merge(1, false).unwrap();
    assert_eq!(shard.shard.snapshot().segments[0].generation, generation);
}

#[test]
fn a_force_merge_orders_a_single_segment() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    write(&shard, "b", [1, 2]);
    write(&shard, "a", [3]);
    shard.shard.force_merge(1, false).unwrap();
    assert_eq!(layout(&shard)[0].1, ["a 3", "b 2", "b 1"]);
}

#[test]
fn small_merges_keep_the_order_of_writing() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    for time in [1, 2, 3] {
        write(&shard, "b", [time]);
        write(&shard, "a", [time]);
        shard.shard.refresh().unwrap();
    }
    assert!(shard.shard.merge_tick().unwrap());
    assert_eq!(layout(&shard)[0].1, ["b 1", "a 1", "b 2", "a 2", "b 3", "a 3"]);
}

#[test]
fn writers_make_no_large_segments() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    for time in [1, 2, 3] {
        write(&shard, "a", [time, time + 10]);
        shard.shard.refresh().unwrap();
    }
    // Three segments of two documents each: one merge of two of them reaches the target, then none is small any more.
    assert!(!shard.shard.merge_small(3).unwrap());
    assert!(shard.shard.merge_small(4).unwrap());
    assert_eq!(shard.shard.segment_count(), 2);
    assert!(!shard.shard.merge_small(4).unwrap());
    write(&shard, "a", [4]);
    shard.shard.refresh().unwrap();
    assert!(shard.shard.merge_tick().unwrap());
    assert_eq!(shard.shard.segment_count(), 1);
}

#[test]
fn large_tenants_get_separate_segments_and_keep_them() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    let round = |shard: &Harness| {
        for time in 0..3 {
            write(shard, "large", (0..10).map(|number| time * 10 + number));
            write(shard, "small", [time]);
            shard.shard.refresh().unwrap();
        }
        while shard.shard.merge_tick().unwrap() {}
    };
    let tenants = |shard: &Harness| {
        layout(shard)
            .into_iter()
            .map(|(tenant, docs)| (tenant, docs.len()))
            .collect::<Vec<_>>()
    };
    let own = |docs| (Some("large".to_owned()), docs);
    round(&shard);
    assert_eq!(tenants(&shard), [(None, 3), own(30)]);
    // Later writes do not mix them: three segments of a kind become one.
    round(&shard);
    round(&shard);
    shard.shard.flush().unwrap();
    let mut found = tenants(&shard.reopen());
    found.sort();
    assert_eq!(found, [(None, 9), own(90)]);
}

#[test]
fn stored_documents_may_go_to_a_temporary_file() {
    let (disk, dir) = sim();
    let mut shard = Harness::create(Arc::new(disk.clone()), &dir);
    shard.compiled = mapping();
    // More than merges hold in memory, in several blocks of the store.
    let filler = "x".repeat(2 << 20);
    for number in 0..18 {
        let tenant = ["a", "b", "c"][number % 3];
        shard.index(
            Some(&number.to_string()),
            &format!(r#"{{"tenant":"{tenant}","@timestamp":{number},"filler":"{number} {filler}"}}"#),
        );
    }
    shard.shard.refresh().unwrap();
    let before = shard.documents();
    let was_there: Arc<Mutex<bool>> = Arc::default();
    let (seen, segments) = (Arc::clone(&was_there), dir.join("segments"));
    disk.set_hook(Some(Arc::new(move |disk: &SimDisk, step: Step| {
        if step == Step::Remove {
            for folder in disk.list(&segments).unwrap() {
                let files = disk.list(&segments.join(folder.name)).unwrap();
                *seen.lock() |= files.iter().any(|file| file.name == "scratch");
            }
        }
    })));
    shard.shard.force_merge(1, false).unwrap();
    disk.set_hook(None);
    assert_eq!(shard.documents(), before);
    let generation = shard.shard.snapshot().segments[0].generation;
    let folder = firn_segment::commit_point::segment_dir(&dir, generation);
    assert!(disk.list(&folder).unwrap().iter().all(|entry| entry.name != "scratch"));
    assert!(*was_there.lock(), "no file was needed");
}

#[test]
fn many_documents_are_counted_and_found() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..30 {
        let event = |_| {
            let tenant = ["a", "b", "c", "d", "e"][rng.usize(0..5).min(rng.usize(0..5))];
            let source = format!(
                r#"{{"tenant":"{tenant}","@timestamp":{},"message":"of {tenant}"}}"#,
                rng.u32(0..99)
            );
            shard.index_op(None, &source)
        };
        shard.shard.apply((0..50).map(event).collect()).unwrap();
    }
    shard.shard.force_merge(1, false).unwrap();
    let documents = shard.documents();
    assert_eq!(documents.len(), 1500);
    for (id, source) in documents.iter().step_by(7) {
        assert_eq!(shard.shard.get(id, false).unwrap().unwrap().source, source.as_bytes());
    }
    assert!(shard.shard.get(&shard.made_id(1500), false).unwrap().is_none());
    let found = contents(&shard);
    let message = &found["text \"message\\0sof\""];
    assert_eq!(message.len(), 1500);
}
