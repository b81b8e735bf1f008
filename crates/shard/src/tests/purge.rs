//! Tests that a purge leaves no trace of a tenant, with a power loss at every step.

use super::*;

/// Is in every event of the purged tenant, in each kind of field and in its id.
const MARK: &str = "zq7xkj";

fn gone_event(number: u32) -> String {
    format!(
        r#"{{"tenant":"{MARK}","tag":"{MARK}{number}","message":"{MARK} words","n":{number},"@timestamp":{number}}}"#
    )
}

fn stays_event(number: u32) -> String {
    format!(r#"{{"tenant":"stays","tag":"t{number}","message":"words","n":{number},"@timestamp":{number}}}"#)
}

fn id(prefix: &str, number: u32) -> Option<String> {
    number.is_multiple_of(2).then(|| format!("{prefix}-{number}"))
}

/// Writes events of both tenants: in merged segments, in new ones, deleted, in buffers and the WAL.
fn fill(shard: &Harness) {
    for number in 0..60 {
        shard.index(id(MARK, number).as_deref(), &gone_event(number));
        shard.index(id("stays", number).as_deref(), &stays_event(number));
        if number % 9 == 8 {
            shard.shard.refresh().unwrap();
        }
        if number == 40 {
            shard.shard.merge_tick().unwrap();
            shard.shard.flush().unwrap();
        }
    }
    shard.delete(&format!("{MARK}-0")).unwrap();
    shard.delete("stays-0").unwrap();
    // Replaced; the old version is in another segment.
    shard.index(Some(&format!("{MARK}-2")), &gone_event(2));
}

/// Returns the number of documents of one tenant.
fn of(documents: &Documents, tenant: &str) -> usize {
    let own = format!(r#""tenant":"{tenant}""#);
    documents.values().filter(|source| source.contains(&own)).count()
}

/// Fails if any file or stored document under a folder contains the mark.
fn assert_no_trace(shard: &Harness, disk: &SimDisk) {
    let mut folders = vec![shard.config.dir.clone()];
    while let Some(folder) = folders.pop() {
        for entry in disk.list(&folder).unwrap() {
            let path = folder.join(&entry.name);
            if entry.is_dir {
                folders.push(path);
            } else {
                let bytes = disk.read(&path).unwrap();
                let found = bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes());
                assert!(!found, "{} holds the mark", path.display());
            }
        }
    }
    // The check above does not see compressed data.
    let state = shard.shard.state.lock();
    for segment in &state.segments {
        for doc in 0..segment.open.meta.docs {
            let (source, id, _) = segment.open.stored(doc).unwrap();
            let says = format!("{id:?} {}", String::from_utf8_lossy(&source));
            assert!(!says.contains(MARK), "{says}");
        }
        let reader = &segment.open.reader;
        for (field, _) in firn_segment::schema::fields()
            .schema
            .fields()
            .filter(|(_, entry)| entry.is_indexed())
        {
            let index = reader.inverted_index(field).unwrap();
            let mut terms = index.terms().stream().unwrap();
            while terms.advance() {
                assert!(!String::from_utf8_lossy(terms.key()).contains(MARK));
            }
        }
        for name in ["kw.tag", "kw.tenant"] {
            let column = reader.fast_fields().str(name).unwrap().unwrap();
            for ord in 0..column.num_terms() {
                let mut text = String::new();
                column.ord_to_str(ord as u64, &mut text).unwrap();
                assert!(!text.contains(MARK), "{name}");
            }
        }
    }
}

#[test]
fn nothing_stays_of_a_tenant() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk.clone()), &dir);
    fill(&shard);
    let purged = shard.shard.purge_tenant(MARK, None).unwrap();
    assert_eq!(purged.documents, 59);
    assert!(purged.segments > 2, "{purged:?}");
    assert_no_trace(&shard, &disk);
    let documents = shard.documents();
    assert_eq!((of(&documents, "stays"), documents.len()), (59, 59));
    assert!(shard.shard.get(&format!("{MARK}-4"), true).unwrap().is_none());
    // A second purge has nothing to do, and a restart restores nothing.
    assert_eq!(shard.shard.purge_tenant(MARK, None).unwrap(), Purged::default());
    let shard = shard.reopen();
    assert_eq!(shard.documents(), documents);
    assert_no_trace(&shard, &disk);
    // A tenant of the same name starts anew.
    assert_eq!(shard.index(Some(&format!("{MARK}-4")), &gone_event(4)).version, 1);
}

#[test]
fn newer_events_stay() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk), &dir);
    fill(&shard);
    shard.index(None, &format!(r#"{{"tenant":"{MARK}"}}"#));
    shard.index(None, &format!(r#"{{"tenant":"{MARK}","@timestamp":[1,99]}}"#));
    assert_eq!(shard.shard.purge_tenant(MARK, Some(50)).unwrap().documents, 49);
    let documents = shard.documents();
    assert_eq!((of(&documents, MARK), of(&documents, "stays")), (12, 59));
    assert_eq!(shard.shard.purge_tenant(MARK, Some(50)).unwrap(), Purged::default());
    assert_eq!(shard.shard.purge_tenant("noname", Some(50)).unwrap(), Purged::default());
}

#[test]
fn a_purge_may_be_cut_anywhere() {
    let (disk, dir) = sim();
    let shard = Harness::create(Arc::new(disk.clone()), &dir);
    fill(&shard);
    shard.shard.wal().sync_blocking(shard.shard.wal().end()).unwrap();
    shard.shard.refresh().unwrap();
    let before = shard.documents();
    let after: Documents = before
        .clone()
        .into_iter()
        .filter(|(_, source)| !source.contains(MARK))
        .collect();
    let cuts: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let seen = Arc::clone(&cuts);
    disk.set_hook(Some(Arc::new(move |disk: &SimDisk, step: Step| {
        if matches!(step, Step::SyncFile | Step::SyncDir | Step::Rename | Step::Remove) {
            let mut cuts = seen.lock();
            let seed = cuts.len() as u64;
            cuts.push(disk.crash(seed));
        }
    })));
    shard.shard.purge_tenant(MARK, None).unwrap();
    disk.set_hook(None);
    let mut cuts = std::mem::take(&mut *cuts.lock());
    assert!(cuts.len() > 20, "only {} cuts", cuts.len());
    let promised = disk.crash(7);
    let shard = Harness::open(Arc::new(promised.clone()), &dir).unwrap();
    assert_eq!(shard.documents(), after, "an answered purge must be durable");
    assert_no_trace(&shard, &promised);
    for (number, cut) in cuts.drain(..).enumerate() {
        let shard = Harness::open(Arc::new(cut.clone()), &dir).unwrap();
        let found = shard.documents();
        assert!(
            found == before || found == after,
            "cut {number}: {} documents",
            found.len()
        );
        shard.shard.purge_tenant(MARK, None).unwrap();
        assert_eq!(shard.documents(), after, "cut {number}");
        assert_no_trace(&shard, &cut);
    }
}

#[test]
fn writes_go_on_while_a_tenant_is_purged() {
    let (disk, dir) = sim();
    let shard = Arc::new(Harness::create(Arc::new(disk.clone()), &dir));
    fill(&shard);
    let writer = Arc::clone(&shard);
    // Once the merges of the purge write: events written now did not exist when the purge began.
    disk.set_hook(Some(Arc::new(move |disk: &SimDisk, step: Step| {
        if step == Step::Append {
            disk.set_hook(None);
            writer
                .shard
                .apply(vec![
                    writer.index_op(Some("late"), &gone_event(1)),
                    writer.index_op(Some("stays-4"), &stays_event(4)),
                    delete_op("stays-6"),
                ])
                .unwrap();
        }
    })));
    shard.shard.purge_tenant(MARK, None).unwrap();
    shard.shard.refresh().unwrap();
    let documents = shard.documents();
    assert_eq!(
        (of(&documents, "stays"), documents.contains_key("stays-6")),
        (58, false)
    );
    assert!(of(&documents, MARK) <= 1);
    shard.shard.purge_tenant(MARK, None).unwrap();
    assert_eq!(of(&shard.documents(), MARK), 0);
    assert_no_trace(&shard, &disk);
}
