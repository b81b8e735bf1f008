//! Cases of capabilities other than snapshots.

use std::sync::Arc;
use std::time::Duration;

use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::SearchRequest;
use serde_json::json;

use super::subject::{Subject, add, create, delete, index, index_raw, operator, refused, target, tenant};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::admin::PurgeRequest;
use crate::document::{BulkRequest, Refresh};
use crate::fields::FieldsInUseRequest;
use crate::origin::Origin;
use crate::terms_enum::TermsEnumRequest;
use crate::{Capability, ErrorKind, Progress, RequestContext};

pub(super) async fn capabilities_and_operations_agree(subject: &Subject) -> Verdict {
    let engine = subject.engine();
    let capabilities = engine.capabilities();
    for (capability, is_there) in [
        (Capability::Snapshots, engine.snapshots().is_some()),
        (Capability::SnapshotErasure, engine.snapshot_erasure().is_some()),
        (
            Capability::SnapshotVerification,
            engine.snapshot_verification().is_some(),
        ),
        (Capability::Mounts, engine.mounts().is_some()),
        (Capability::Tiers, engine.tiers().is_some()),
        (Capability::Quarantine, engine.quarantine().is_some()),
    ] {
        same(capability.name(), is_there, capabilities.has(capability))?;
    }
    for capability in [
        Capability::SnapshotErasure,
        Capability::SnapshotVerification,
        Capability::Mounts,
    ] {
        ensure!(
            !capabilities.has(capability) || capabilities.has(Capability::Snapshots),
            "[{capability}] without [{}]",
            Capability::Snapshots
        );
    }
    same("capabilities later", engine.capabilities(), capabilities)
}

pub(super) async fn costs_of_searches_are_estimated(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    subject.fill(vec![index(&logs, "1", json!({"n": 1}))]).await?;
    let request = SearchRequest::new(target(&logs));
    let cost = subject.engine().search_cost(&operator(), request).await?.require()?;
    same("shards", cost.shards, 1)?;
    same("requests for a local index", (cost.requests, cost.bytes), (0, 0))?;
    let limited = RequestContext {
        repository_bytes_max: Some(0),
        ..operator()
    };
    let found = subject.search_as(&limited, &logs, json!({})).await?;
    same("a search within the limit", found.hits.len(), 1)?;
    let missing = SearchRequest::new(target(&subject.name("none")));
    let missing = subject.engine().search_cost(&operator(), missing).await;
    refused("a missing index", missing, ErrorKind::IndexNotFound)
}

pub(super) async fn running_searches_publish_progress(subject: &Subject) -> Verdict {
    let logs = subject
        .create("logs", json!({"settings": {"index.number_of_shards": 2}}))
        .await?;
    // Several segments, because an engine may publish after each.
    for round in 0..3 {
        let items = (0..20).map(|n| index(&logs, &format!("{round}-{n}"), json!({ "n": n })));
        subject.fill(items.collect()).await?;
    }
    let progress = Arc::new(Progress::every(Duration::ZERO));
    let ctx = RequestContext {
        progress: Some(Arc::clone(&progress)),
        ..operator()
    };
    let body = json!({"size": 3, "track_total_hits": true, "aggs": {"most": {"max": {"field": "n"}}}});
    let found = subject.search_as(&ctx, &logs, body).await?;
    same("hits of the final result", found.hits.len(), 3)?;
    let latest = progress.latest().ok_or_else(|| Failure::new("nothing was published"))?;
    ensure!(latest.hits.is_empty(), "a partial result has hits: {latest:?}");
    same("shards", latest.shards.total, found.shards.total)?;
    ensure!(
        latest.shards.successful <= found.shards.successful,
        "a partial result has more shards: {latest:?}"
    );
    Ok(())
}

pub(super) async fn fields_with_values_are_listed(subject: &Subject) -> Verdict {
    let properties = json!({
        "used": {"type": "keyword"}, "unused": {"type": "keyword"}, "at": {"type": "date"}, "text": {"type": "text"},
    });
    let body = json!({"mappings": {"properties": properties}});
    let (old, new) = (
        subject.create("old", body.clone()).await?,
        subject.create("new", body).await?,
    );
    let at = |name: &str, year: u32| {
        let source = json!({"used": "x", "at": format!("{year}-01-01"), "text": "some words"});
        index(name, "1", source)
    };
    subject.fill(vec![at(&old, 2020), at(&new, 2026)]).await?;
    let ask = |filter: Option<Query>| FieldsInUseRequest {
        target: target(&subject.name("*")),
        index_filter: filter,
    };
    let engine = subject.engine();
    let found = engine.fields_in_use(&operator(), ask(None)).await?.require()?;
    same("indices", found.len(), 2)?;
    for index in &found {
        let fields: Vec<&str> = index.fields.iter().map(String::as_str).collect();
        same("fields", fields, ["at", "text", "used"])?;
    }
    let filter = Query::parse(&json!({"range": {"at": {"gte": "2025-01-01"}}}))?;
    let found = engine.fields_in_use(&operator(), ask(Some(filter))).await?.require()?;
    ensure!(
        found.iter().any(|index| index.index == new),
        "an index with matches is missing: {found:?}"
    );
    Ok(())
}

pub(super) async fn terms_are_enumerated_by_prefix(subject: &Subject) -> Verdict {
    let body = json!({"mappings": {"properties": {"k": {"type": "keyword"}}}});
    let logs = subject.create("logs", body).await?;
    let values = ["apple", "Apricot", "banana", "apple", "avocado", "ap"];
    let items = (0..)
        .zip(values)
        .map(|(n, value)| index(&logs, &n.to_string(), json!({ "k": value })));
    subject.fill(items.collect::<Vec<_>>()).await?;
    let cases: [(serde_json::Value, &[&str]); 3] = [
        (json!({"field": "k", "string": "ap"}), &["ap", "apple"]),
        (
            json!({"field": "k", "string": "ap", "case_insensitive": true}),
            &["Apricot", "ap", "apple"],
        ),
        (
            json!({"field": "k", "size": 2, "search_after": "ap"}),
            &["apple", "avocado"],
        ),
    ];
    for (body, expect) in cases {
        let request = TermsEnumRequest::parse(target(&logs), &body)?;
        let found = subject.engine().terms_enum(&operator(), request).await?;
        same(&body.to_string(), found.terms.as_slice(), expect)?;
        ensure!(found.complete, "{body}: incomplete");
    }
    Ok(())
}

pub(super) async fn values_that_do_not_fit_are_stored(subject: &Subject) -> Verdict {
    let body = json!({"mappings": {"properties": {"n": {"type": "long"}}}});
    let logs = subject.create("logs", body).await?;
    subject
        .fill(vec![
            index(&logs, "1", json!({"n": 1})),
            index_raw(&logs, "2", r#"{"n": "two"}"#),
        ])
        .await?;
    same("source", subject.source(&logs, "2").await?, json!({"n": "two"}))?;
    let found = subject.get(&logs, "2").await?;
    let ignored = found.map(|found| found.ignored).unwrap_or_default();
    same("ignored fields of a read", ignored, ["n"])?;
    let hits = subject
        .search(&logs, json!({"query": {"ids": {"values": ["2"]}}}))
        .await?
        .hits;
    let ignored = hits.first().map(|hit| hit.ignored.clone()).unwrap_or_default();
    same("ignored fields of a hit", ignored, ["n"])?;
    same(
        "a search of numbers",
        subject.ids(&logs, json!({"range": {"n": {"gte": 0}}})).await?,
        ["1"],
    )
}

/// Settings of an index that holds events by tenant.
fn by_tenant() -> serde_json::Value {
    json!({
        "settings": {"index.tenant.field": "tenant"},
        "mappings": {"properties": {"tenant": {"type": "keyword"}}},
    })
}

pub(super) async fn a_purge_removes_a_tenant(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", by_tenant()).await?;
    for (name, count) in [("acme", 3), ("bolt", 2)] {
        let items = (0..count).map(|n| create(&logs, &format!("{name}-{n}"), json!({ "n": n })));
        subject.fill_as(&tenant(name)?, items.collect()).await?;
    }
    let purge = || -> Result<PurgeRequest, Failure> {
        Ok(PurgeRequest {
            index: Some(logs.clone()),
            ..PurgeRequest::all_of(TenantId::parse("acme")?)
        })
    };
    let engine = subject.engine();
    let forbidden = engine.purge_tenant(&tenant("bolt")?, purge()?).await;
    refused("a purge by a tenant", forbidden, ErrorKind::Forbidden)?;
    let outcome = engine.purge_tenant(&operator(), purge()?).await?;
    ensure!(outcome.is_complete(), "{outcome:?}");
    same("removed documents", outcome.documents, 3)?;
    let refreshed = engine.refresh(&operator(), target(&logs)).await?;
    ensure!(refreshed.failures.is_empty(), "{refreshed:?}");
    let left = subject.ids(&logs, json!({"match_all": {}})).await?;
    same("remaining documents", left, ["bolt-0", "bolt-1"])?;
    same(
        "a second purge",
        engine.purge_tenant(&operator(), purge()?).await?.documents,
        0,
    )
}

pub(super) async fn unused_indices_of_a_tenant_are_removed(subject: &Subject) -> Verdict {
    subject
        .execute(Command::PutIndexTemplate {
            name: subject.name("template"),
            body: json!({
                "index_patterns": [subject.name("auto-*")], "priority": 500,
                "template": {"settings": {"index.tenant.field": "tenant"}},
            }),
            create: false,
        })
        .await?;
    let (empty, used) = (subject.name("auto-empty"), subject.name("auto-used"));
    let acme = tenant("acme")?;
    subject
        .fill_as(&acme, vec![index(&empty, "1", json!({})), index(&used, "1", json!({}))])
        .await?;
    subject.fill_as(&acme, vec![delete(&empty, "1")]).await?;
    let engine = subject.engine();
    let id = TenantId::parse("acme")?;
    let forbidden = engine.drop_unused_of(&tenant("bolt")?, id.clone()).await;
    refused("a request of a tenant", forbidden, ErrorKind::Forbidden)?;
    let gone = engine.drop_unused_of(&operator(), id).await?.require()?;
    ensure!(gone.contains(&empty), "the empty index stays: {gone:?}");
    let metadata = subject.metadata().await?;
    ensure!(
        !metadata.indices.contains_key(&empty),
        "the empty index is in the metadata"
    );
    ensure!(metadata.indices.contains_key(&used), "a used index was removed");
    Ok(())
}

pub(super) async fn usage_is_measured_by_tenant(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", by_tenant()).await?;
    let (one, other) = (subject.name("acme"), subject.name("bolt"));
    for (name, count) in [(&one, 3), (&other, 2)] {
        let items = (0..count).map(|n| create(&logs, &n.to_string(), json!({ "n": n })));
        subject.fill_as(&tenant(name)?, items.collect()).await?;
    }
    let engine = subject.engine();
    let events = |usage: &[crate::TenantUsage], name: &str| {
        let found = usage.iter().find(|usage| &*usage.tenant == name);
        found.map(|usage| usage.events)
    };
    let all = engine.tenant_usage(&operator()).await?.require()?;
    same("first tenant", events(&all, &one), Some(3))?;
    same("second tenant", events(&all, &other), Some(2))?;
    let own = engine.tenant_usage(&tenant(&one)?).await?.require()?;
    same("of a tenant itself", (own.len(), events(&own, &one)), (1, Some(3)))
}

pub(super) async fn a_checkpoint_covers_what_is_written(subject: &Subject) -> Verdict {
    let settings = json!({"settings": {"index.number_of_shards": 2, "index.refresh_interval": "-1"}});
    let logs = subject.create("logs", settings).await?;
    let engine = subject.engine();
    let read = async || -> Result<Vec<crate::admin::ShardCheckpoint>, Failure> {
        Ok(engine.checkpoints(&operator(), target(&logs)).await?.require()?)
    };
    let numbers = |found: &[crate::admin::ShardCheckpoint]| {
        found
            .iter()
            .map(|one| (one.index.clone(), one.shard, one.seq_no))
            .collect::<Vec<_>>()
    };
    let before = [(logs.clone(), 0, None), (logs.clone(), 1, None)];
    same("before the first write", numbers(&read().await?), before)?;
    let mut highest = [None; 2];
    for round in 0..3_u64 {
        let items = (0..20).map(|n| create(&logs, &format!("{round}-{n}"), json!({ "n": n })));
        let responses = subject.bulk(items.collect()).await?;
        for response in responses {
            response.result?;
        }
        let found = read().await?;
        same("documents", subject.count(&logs).await?, (round + 1) * 20)?;
        for (checkpoint, highest) in found.iter().zip(&mut highest) {
            let body = json!({"size": 0, "aggs": {"highest": {"max": {"field": "_seq_no"}}}});
            let mut request = SearchRequest::parse(target(&logs), Some(&body))?;
            request.only_shards = vec![checkpoint.shard];
            let response = engine.search(&operator(), request).await?;
            let aggregations = response.aggregations.unwrap_or_default();
            let of_search = aggregations["highest"]["value"].as_f64().map(|number| number as u64);
            same("sequence number", checkpoint.seq_no, of_search)?;
            ensure!(checkpoint.seq_no >= *highest, "{checkpoint:?} after {highest:?}");
            *highest = checkpoint.seq_no;
        }
    }
    let forbidden = engine.checkpoints(&tenant("acme")?, target(&logs)).await;
    refused("a request of a tenant", forbidden, ErrorKind::Forbidden)
}

pub(super) async fn recoveries_are_listed(subject: &Subject) -> Verdict {
    let logs = subject
        .create("logs", json!({"settings": {"index.number_of_shards": 2}}))
        .await?;
    let engine = subject.engine();
    let found = engine.recoveries(&operator(), target(&logs)).await?.require()?;
    let found: Vec<(&str, u32)> = found.iter().map(|one| (one.index.as_str(), one.shard)).collect();
    same("shards", found, [(logs.as_str(), 0), (logs.as_str(), 1)])?;
    let forbidden = engine.recoveries(&tenant("acme")?, target(&logs)).await;
    refused("a request of a tenant", forbidden, ErrorKind::Forbidden)
}

pub(super) async fn devices_are_listed(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let tiers = subject.engine().require_tiers()?;
    let devices = tiers.devices(&operator()).await?;
    let hot = devices.first().ok_or_else(|| Failure::new("no device"))?;
    ensure!(
        hot.total_bytes > 0 && hot.total_bytes >= hot.available_bytes && !hot.path.is_empty(),
        "{hot:?}"
    );
    ensure!(
        devices.iter().map(|device| device.shards).sum::<u64>() > 0,
        "no shards: {devices:?}"
    );
    let moves = tiers.moves(&operator(), target(&logs)).await?;
    ensure!(moves.is_empty(), "a new index has to move: {moves:?}");
    Ok(())
}

pub(super) async fn the_quarantine_of_a_healthy_node_is_empty(subject: &Subject) -> Verdict {
    let quarantine = subject.engine().require_quarantine()?;
    let folders = quarantine.quarantined_folders(&operator()).await?;
    same(
        "folders",
        quarantine.quarantined_count(&operator()),
        folders.len() as u64,
    )?;
    let unknown = quarantine.adopt_quarantined(&operator(), "no-such-folder", None).await;
    refused("an unknown folder", unknown, ErrorKind::ResourceNotFound)?;
    let unknown = quarantine.remove_quarantined(&operator(), "no-such-folder").await;
    refused("an unknown folder", unknown, ErrorKind::ResourceNotFound)?;
    let forbidden = quarantine.quarantined_folders(&tenant("acme")?).await;
    refused("a request of a tenant", forbidden, ErrorKind::Forbidden)
}

pub(super) async fn a_bulk_with_an_origin_is_stored_once(subject: &Subject) -> Verdict {
    let logs = subject.create("logs", json!({})).await?;
    let source = subject.name("source");
    let send = async |first: u64, last: u64| {
        let request = BulkRequest {
            items: (first..=last).map(|n| add(&logs, json!({ "n": n }))).collect(),
            refresh: Refresh::Now,
            timeout: None,
            origin: Some(Origin {
                source: source.as_str().into(),
                partition: "0".into(),
                first_offset: first,
                last_offset: last,
                offsets: (first..=last).collect(),
                dead_letters: 0,
                filtered: 0,
                more_follows: false,
                note: None,
            }),
        };
        for item in subject.engine().bulk(&operator(), request).await?.items {
            item.result?;
        }
        Ok::<(), Failure>(())
    };
    for (first, last) in [(0, 4), (0, 4), (3, 7)] {
        send(first, last).await?;
    }
    same("documents", subject.count(&logs).await?, 8)?;
    let positions = subject
        .engine()
        .source_positions(&operator(), &source)
        .await?
        .require()?;
    let found: Vec<_> = positions
        .iter()
        .map(|at| (at.partition.as_str(), at.resume_offset))
        .collect();
    same("positions", found, vec![("0", 8)])?;
    for partition in ["0", "1"] {
        let engine = subject.engine();
        let position = engine.source_position(&operator(), &source, partition).await?;
        let listed = positions.iter().find(|at| at.partition == partition).cloned();
        same("position", position.require()?, listed)?;
    }
    let of_tenant = subject
        .engine()
        .source_positions(&operator(), &subject.name("other"))
        .await?
        .require()?;
    ensure!(of_tenant.is_empty(), "a source that was never read has positions");
    Ok(())
}
