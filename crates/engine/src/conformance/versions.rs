//! Cases of document versions, and of reads by id.

use firn_query::source::SourceFilter;
use serde_json::json;

use super::subject::{Subject, create, delete, get, index, operator, refused, update};
use super::verdict::{Verdict, ensure, same};
use crate::ErrorKind;
use crate::document::{BulkItem, BulkRequest, Effect, Expectation};

pub(super) async fn a_document_is_created_changed_and_deleted(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let mut last = None;
    for (item, effect, version) in [
        (index(&logs, "a", json!({"n": 1})), Effect::Created, 1),
        (index(&logs, "a", json!({"n": 2})), Effect::Updated, 2),
        (delete(&logs, "a"), Effect::Deleted, 3),
    ] {
        let written = subject.write(item).await?;
        same(
            "effect and version",
            (written.effect, written.version),
            (effect, version),
        )?;
        ensure!(last < Some(written.seq_no), "sequence numbers do not grow: {written:?}");
        last = Some(written.seq_no);
    }
    ensure!(
        subject.get(&logs, "a").await?.is_none(),
        "a deleted document is readable"
    );
    let again = subject.write(delete(&logs, "a")).await?;
    same("second delete", again.effect, Effect::NotFound)?;
    same("documents", subject.count(&logs).await?, 0)
}

pub(super) async fn a_create_refuses_an_existing_id(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject.write(create(&logs, "a", json!({"n": 1}))).await?;
    let again = create(&logs, "a", json!({"n": 2}));
    subject.refuses_item(again, ErrorKind::VersionConflict).await?;
    same("source", subject.source(&logs, "a").await?, json!({"n": 1}))
}

pub(super) async fn sequence_numbers_guard_writes(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let first = subject.write(index(&logs, "a", json!({"n": 1}))).await?;
    let expecting = |seq_no, primary_term| BulkItem {
        expect: Expectation::SeqNo { seq_no, primary_term },
        ..index(&logs, "a", json!({"n": 2}))
    };
    for stale in [
        expecting(first.seq_no + 1, first.primary_term),
        expecting(first.seq_no, first.primary_term + 1),
    ] {
        subject.refuses_item(stale, ErrorKind::VersionConflict).await?;
    }
    let second = subject.write(expecting(first.seq_no, first.primary_term)).await?;
    let stale = expecting(first.seq_no, first.primary_term);
    subject.refuses_item(stale, ErrorKind::VersionConflict).await?;
    let found = subject.get(&logs, "a").await?;
    let found = found.map(|found| (found.seq_no, found.primary_term, found.version));
    same("stored", found, Some((second.seq_no, second.primary_term, 2)))
}

pub(super) async fn external_versions_only_grow(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let expecting = |expect| BulkItem {
        expect,
        ..index(&logs, "a", json!({}))
    };
    let external = |version| expecting(Expectation::External(version));
    same("first", subject.write(external(10)).await?.version, 10)?;
    for version in [9, 10] {
        subject
            .refuses_item(external(version), ErrorKind::VersionConflict)
            .await?;
    }
    same("higher", subject.write(external(12)).await?.version, 12)?;
    let equal = expecting(Expectation::ExternalGte(12));
    same("equal", subject.write(equal).await?.version, 12)
}

pub(super) async fn updates_merge_insert_or_do_nothing(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject.write(index(&logs, "a", json!({"o": {"x": 1}, "n": 1}))).await?;
    let same_doc = || json!({"o": {"x": 1}});
    let noop = subject.write(update(&logs, "a", same_doc(), |_| {})).await?;
    same("noop", (noop.effect, noop.version), (Effect::Noop, 1))?;
    let forced = update(&logs, "a", same_doc(), |update| update.detect_noop = false);
    same("forced", subject.write(forced).await?.effect, Effect::Updated)?;
    let merge = update(&logs, "a", json!({"o": {"y": 2}}), |update| {
        update.source = Some(SourceFilter::All);
    });
    let merged = json!({"o": {"x": 1, "y": 2}, "n": 1});
    same("new source", subject.write(merge).await?.get, Some(merged.clone()))?;
    same("stored source", subject.source(&logs, "a").await?, merged)?;
    let missing = update(&logs, "b", json!({"n": 1}), |_| {});
    subject.refuses_item(missing, ErrorKind::DocumentMissing).await?;
    let upsert = update(&logs, "b", json!({"n": 1}), |update| {
        update.upsert = Some(json!({"first": true}));
    });
    same("upsert", subject.write(upsert).await?.effect, Effect::Created)?;
    same("upserted", subject.source(&logs, "b").await?, json!({"first": true}))?;
    let upsert = update(&logs, "c", json!({"n": 1}), |update| update.doc_as_upsert = true);
    subject.write(upsert).await?;
    same("doc as upsert", subject.source(&logs, "c").await?, json!({"n": 1}))
}

pub(super) async fn reads_by_id_are_real_time(subject: &Subject) -> Verdict {
    let logs = subject
        .create("logs", json!({"settings": {"index.refresh_interval": "-1"}}))
        .await?;
    let request = BulkRequest {
        items: vec![index(&logs, "a", json!({"n": 1}))],
        ..BulkRequest::default()
    };
    for response in subject.engine().bulk(&operator(), request).await?.items {
        response.result?;
    }
    same("real time", subject.source(&logs, "a").await?, json!({"n": 1}))?;
    let mut searchable = get(&logs, "a");
    searchable.realtime = false;
    let found = subject.try_get(&operator(), searchable).await??;
    ensure!(found.is_none(), "an unrefreshed document is searchable: {found:?}");
    let requests = vec![get(&logs, "b"), get(&logs, "a"), get(&subject.name("none"), "a")];
    let results = subject.engine().get(&operator(), requests).await?;
    let found: Vec<String> = results
        .into_iter()
        .map(|result| match result {
            Ok(result) => format!("{} {}", result.id, result.found.is_some()),
            Err(error) => format!("{:?}", error.kind()),
        })
        .collect();
    same("several reads", found, ["b false", "a true", "IndexNotFound"])
}

pub(super) async fn a_read_of_another_version_conflicts(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject.write(index(&logs, "a", json!({}))).await?;
    let mut request = get(&logs, "a");
    request.version = Some(1);
    let found = subject.try_get(&operator(), request.clone()).await??;
    ensure!(found.is_some(), "the document is missing");
    request.version = Some(2);
    let result = subject.try_get(&operator(), request).await?;
    refused("another version", result, ErrorKind::VersionConflict)
}
