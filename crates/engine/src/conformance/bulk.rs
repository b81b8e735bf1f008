//! Cases of bulk requests.

use serde_json::json;

use super::subject::{Subject, add, create, delete, get, index, index_raw, operator, refused, update};
use super::verdict::{Verdict, ensure, same};
use crate::ErrorKind;
use crate::document::{BulkItem, BulkRequest, Effect, Refresh};

pub(super) async fn a_bulk_answers_every_item_in_order(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let responses = subject
        .bulk(vec![
            create(&logs, "a", json!({"n": 1})),
            create(&logs, "a", json!({"n": 2})),
            update(&logs, "a", json!({"m": 3}), |_| {}),
            index(&logs, "b", json!({"n": 5})),
            delete(&logs, "b"),
            update(&logs, "b", json!({"n": 6}), |_| {}),
            index(&logs, "a", json!({"n": 7})),
        ])
        .await?;
    let outcomes: Vec<String> = responses
        .iter()
        .map(|response| match &response.result {
            Ok(written) => format!("{} {:?}", response.id, written.effect),
            Err(error) => format!("{} {:?}", response.id, error.kind()),
        })
        .collect();
    let expect = [
        "a Created",
        "a VersionConflict",
        "a Updated",
        "b Created",
        "b Deleted",
        "b DocumentMissing",
        "a Updated",
    ];
    same("outcomes", outcomes, expect)?;
    ensure!(
        responses.iter().all(|response| response.index == logs),
        "the responses name other indices: {responses:?}"
    );
    same(
        "the last write wins",
        subject.source(&logs, "a").await?,
        json!({"n": 7}),
    )?;
    same("documents", subject.count(&logs).await?, 1)
}

pub(super) async fn a_generated_id_is_returned_and_readable(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let items = (0..10).map(|n| add(&logs, json!({ "n": n }))).collect();
    let mut ids = Vec::new();
    for (n, response) in subject.bulk(items).await?.into_iter().enumerate() {
        response.result?;
        same("source", subject.source(&logs, &response.id).await?, json!({ "n": n }))?;
        ids.push(response.id);
    }
    ids.sort();
    ids.dedup();
    same("distinct ids", ids.len(), 10)
}

pub(super) async fn a_broken_document_fails_alone(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let responses = subject
        .bulk(vec![
            index_raw(&logs, "a", r#"{"a": "#),
            index(&logs, "b", json!({"n": 1})),
        ])
        .await?;
    let mut results = responses.into_iter().map(|response| response.result);
    let broken = results.next().transpose();
    refused("a broken document", broken, ErrorKind::DocumentParsing)?;
    results.next().transpose()?;
    same("documents", subject.ids(&logs, json!({"match_all": {}})).await?, ["b"])
}

pub(super) async fn a_source_is_stored_byte_for_byte(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let source = r#"{ "b":1.50,  "a" : [ 1, 2 ],"text":"\u00e9" }"#;
    subject.write(index_raw(&logs, "a", source)).await?;
    let found = subject.get(&logs, "a").await?;
    same(
        "source of a read",
        found.map(|found| found.source),
        Some(source.as_bytes().into()),
    )?;
    let hits = subject.search(&logs, json!({})).await?.hits;
    same(
        "source of a hit",
        hits.into_iter().next().and_then(|hit| hit.source),
        Some(source.as_bytes().into()),
    )
}

pub(super) async fn a_write_creates_a_missing_index(subject: &Subject) -> Verdict {
    let logs = subject.name("logs");
    let written = subject.write(index(&logs, "a", json!({"n": 1}))).await?;
    same("effect", written.effect, Effect::Created)?;
    ensure!(
        subject.metadata().await?.indices.contains_key(&logs),
        "the index is not in the metadata"
    );
    Ok(())
}

pub(super) async fn a_required_alias_refuses_an_index(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let item = BulkItem {
        require_alias: true,
        ..index(&logs, "a", json!({}))
    };
    subject.refuses_item(item, ErrorKind::IndexNotFound).await?;
    same("documents", subject.count(&logs).await?, 0)
}

pub(super) async fn a_delete_creates_no_index(subject: &Subject) -> Verdict {
    let logs = subject.name("logs");
    subject
        .refuses_item(delete(&logs, "a"), ErrorKind::IndexNotFound)
        .await?;
    ensure!(
        !subject.metadata().await?.indices.contains_key(&logs),
        "the delete created the index"
    );
    Ok(())
}

pub(super) async fn a_missing_required_routing_is_refused(subject: &Subject) -> Verdict {
    let body = json!({
        "settings": {"index.number_of_shards": 3},
        "mappings": {"_routing": {"required": true}},
    });
    let logs = subject.create("logs", body).await?;
    let unrouted = index(&logs, "a", json!({}));
    subject.refuses_item(unrouted, ErrorKind::RoutingMissing).await?;
    subject
        .write(BulkItem {
            routing: Some("r".to_owned()),
            ..index(&logs, "a", json!({"n": 1}))
        })
        .await?;
    let unrouted = subject.try_get(&operator(), get(&logs, "a")).await?;
    refused("a read", unrouted, ErrorKind::RoutingMissing)?;
    let mut routed = get(&logs, "a");
    routed.routing = Some("r".to_owned());
    let found = subject.try_get(&operator(), routed).await??;
    same("routing", found.and_then(|found| found.routing), Some("r".to_owned()))
}

pub(super) async fn a_refresh_makes_writes_searchable(subject: &Subject) -> Verdict {
    let logs = subject
        .create("logs", json!({"settings": {"index.refresh_interval": "-1"}}))
        .await?;
    let write = |id: &str, refresh| BulkRequest {
        items: vec![index(&logs, id, json!({}))],
        refresh,
        timeout: None,
        origin: None,
    };
    let engine = subject.engine();
    engine.bulk(&operator(), write("a", Refresh::No)).await?;
    same("before a refresh", subject.count(&logs).await?, 0)?;
    let outcome = engine.refresh(&operator(), super::subject::target(&logs)).await?;
    ensure!(outcome.failures.is_empty(), "{outcome:?}");
    same("after a refresh", subject.count(&logs).await?, 1)?;
    engine.bulk(&operator(), write("b", Refresh::Now)).await?;
    same("after a write with refresh", subject.count(&logs).await?, 2)
}
