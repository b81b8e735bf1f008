//! Cases of scopes: what a tenant, and a caller limited to some names, may see and change.

use serde_json::json;

use super::contexts::{open, read};
use super::subject::{
    Subject, add, create, delete, get, index, json_of, operator, refused, scoped, target, tenant, update,
};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::document::{BulkItem, Effect};
use crate::{ErrorKind, Scope};

/// Creates an index that holds events by tenant, with three of `acme` and two of `bolt`; returns its name.
async fn shared(subject: &Subject) -> Result<String, Failure> {
    let body = json!({
        "settings": {"index.number_of_shards": 2, "index.tenant.field": "tenant"},
        "mappings": {"properties": {"tenant": {"type": "keyword"}, "user": {"type": "keyword"}}},
    });
    let shared = subject.create("shared", body).await?;
    let of = |name: &str, count: usize| {
        let items =
            (0..count).map(|n| create(&shared, &format!("{name}-{n}"), json!({"user": format!("{name}-user")})));
        items.collect::<Vec<BulkItem>>()
    };
    subject.fill_as(&tenant("acme")?, of("acme", 3)).await?;
    subject.fill_as(&tenant("bolt")?, of("bolt", 2)).await?;
    Ok(shared)
}

pub(super) async fn a_tenant_sees_only_its_events(subject: &Subject) -> Verdict {
    let shared = shared(subject).await?;
    let (acme, all) = (tenant("acme")?, || json!({"match_all": {}}));
    let own = ["acme-0", "acme-1", "acme-2"];
    same("by name", subject.ids_as(&acme, &shared, all()).await?, own)?;
    let pattern = subject.name("*");
    same("by pattern", subject.ids_as(&acme, &pattern, all()).await?, own)?;
    let others = json!({"bool": {"should": [{"term": {"tenant": "bolt"}}, {"prefix": {"user": "bolt"}}]}});
    same("by query", subject.ids_as(&acme, &shared, others).await?.len(), 0)?;
    ensure!(
        subject.get_as(&acme, &shared, "bolt-0").await?.is_none(),
        "another tenant's document is readable"
    );
    let found = subject.get_as(&acme, &shared, "acme-0").await?;
    let source = found.ok_or_else(|| Failure::new("an own document is missing"))?.source;
    same("stamped source", &json_of(&source)?["tenant"], &json!("acme"))?;
    same("an operator", subject.ids(&shared, all()).await?.len(), 5)
}

pub(super) async fn equal_ids_of_two_tenants_are_two_documents(subject: &Subject) -> Verdict {
    let shared = shared(subject).await?;
    let tenants = [tenant("acme")?, tenant("bolt")?];
    for (number, ctx) in tenants.iter().enumerate() {
        let written = subject
            .try_write(ctx, create(&shared, "same", json!({"number": number})))
            .await??;
        same("effect", written.effect, Effect::Created)?;
    }
    let again = subject
        .try_write(&tenants[0], create(&shared, "same", json!({})))
        .await?;
    refused("a second create", again, ErrorKind::VersionConflict)?;
    let deleted = subject.try_write(&tenants[0], delete(&shared, "same")).await??;
    same("delete", deleted.effect, Effect::Deleted)?;
    ensure!(
        subject.get_as(&tenants[0], &shared, "same").await?.is_none(),
        "a deleted document is readable"
    );
    let found = subject.get_as(&tenants[1], &shared, "same").await?;
    let source = found
        .ok_or_else(|| Failure::new("another tenant deleted the document"))?
        .source;
    same("the other document", &json_of(&source)?["number"], &json!(1))?;
    let hit = subject
        .ids_as(&tenants[1], &shared, json!({"ids": {"values": ["same"]}}))
        .await?;
    same("ids of hits", hit, ["same"])
}

pub(super) async fn events_are_stamped_and_forged_ones_refused(subject: &Subject) -> Verdict {
    let shared = shared(subject).await?;
    let acme = tenant("acme")?;
    for forged in [
        json!({"tenant": "bolt"}),
        json!({"tenant": ["acme", "bolt"]}),
        json!({"tenant": null}),
    ] {
        let item = index(&shared, "forged", forged.clone());
        let result = subject.try_write(&acme, item).await?;
        refused(&forged.to_string(), result, ErrorKind::Forbidden)?;
    }
    let forged = update(&shared, "acme-0", json!({"tenant": "bolt"}), |_| {});
    let result = subject.try_write(&acme, forged).await?;
    refused("a forged update", result, ErrorKind::Forbidden)?;
    let missing = update(&shared, "bolt-0", json!({"n": 1}), |_| {});
    let result = subject.try_write(&acme, missing).await?;
    refused("an update of another tenant", result, ErrorKind::DocumentMissing)?;
    let deleted = subject.try_write(&acme, delete(&shared, "bolt-0")).await??;
    same("a delete of another tenant", deleted.effect, Effect::NotFound)?;
    subject
        .fill_as(&acme, vec![add(&shared, json!({"tenant": "acme"}))])
        .await?;
    let bolt = subject
        .ids_as(&tenant("bolt")?, &shared, json!({"match_all": {}}))
        .await?;
    same("the other tenant", bolt, ["bolt-0", "bolt-1"])
}

pub(super) async fn aggregations_count_only_the_tenants_events(subject: &Subject) -> Verdict {
    let shared = shared(subject).await?;
    let aggs = json!({
        "users": {"terms": {"field": "user"}},
        "with_empty": {"terms": {"field": "user", "min_doc_count": 0}},
        "all": {"global": {}, "aggs": {"users": {"terms": {"field": "user"}}}},
        "tenants": {"cardinality": {"field": "tenant"}},
    });
    let found = subject.aggregations_as(&tenant("acme")?, &shared, aggs).await?;
    ensure!(
        !found.to_string().contains("bolt"),
        "another tenant's values are shown: {found}"
    );
    let users = &found["users"]["buckets"];
    same("buckets", users, &json!([{"key": "acme-user", "doc_count": 3}]))?;
    same("a global aggregation", &found["all"]["doc_count"], &json!(3))?;
    same("tenants", &found["tenants"]["value"], &json!(1))
}

pub(super) async fn contexts_of_another_tenant_do_not_exist(subject: &Subject) -> Verdict {
    let shared = shared(subject).await?;
    let (acme, bolt) = (tenant("acme")?, tenant("bolt")?);
    let id = open(subject, &acme, &shared).await?;
    let own = read(subject, &acme, &id, json!({})).await?;
    same("own events", own.hits.len(), 3)?;
    let other = read(subject, &bolt, &id, json!({})).await;
    refused("a search of it", other.map(drop), ErrorKind::SearchContextMissing)
}

pub(super) async fn indices_without_tenants_do_not_exist_for_a_tenant(subject: &Subject) -> Verdict {
    let shared = shared(subject).await?;
    let plain = subject.create("plain", json!({})).await?;
    subject.fill(vec![index(&plain, "secret", json!({"n": 1}))]).await?;
    let acme = tenant("acme")?;
    for name in [plain.as_str(), &subject.name("none")] {
        let searched = subject.try_search(&acme, target(name), &json!({})).await;
        refused(name, searched.map(drop), ErrorKind::Forbidden)?;
        let found = subject.try_get(&acme, get(name, "secret")).await?;
        refused(name, found, ErrorKind::Forbidden)?;
    }
    let engine = subject.engine();
    let metadata = engine.metadata(&acme).await?;
    ensure!(!metadata.indices.contains_key(&plain), "the metadata shows the index");
    ensure!(
        metadata.indices.contains_key(&shared),
        "the metadata lacks the shared index"
    );
    let stats = engine.stats(&acme, target(&subject.name("*"))).await?;
    let names: Vec<&str> = stats.iter().map(|index| index.index.as_str()).collect();
    same("statistics", names, [shared.as_str()])
}

pub(super) async fn a_scope_of_names_hides_other_indices(subject: &Subject) -> Verdict {
    let (open, hidden) = (
        subject.create("open", json!({})).await?,
        subject.create("hidden", json!({})).await?,
    );
    for name in [&open, &hidden] {
        subject.fill(vec![index(name, "1", json!({}))]).await?;
    }
    let limited = scoped(Scope::operator().within(vec![open.clone()]));
    let all = || json!({"match_all": {}});
    same("allowed", subject.ids_as(&limited, &open, all()).await?, ["1"])?;
    same(
        "by pattern",
        subject.ids_as(&limited, &subject.name("*"), all()).await?,
        ["1"],
    )?;
    let searched = subject.try_search(&limited, target(&hidden), &json!({})).await;
    refused("a hidden index", searched.map(drop), ErrorKind::Forbidden)?;
    let written = subject.try_write(&limited, index(&hidden, "2", json!({}))).await?;
    refused("a write", written, ErrorKind::Forbidden)?;
    same(
        "an operator",
        subject.ids(&format!("{open},{hidden}"), all()).await?.len(),
        2,
    )?;
    let metadata = subject.engine().metadata(&operator()).await?;
    ensure!(metadata.indices.contains_key(&hidden), "an operator misses an index");
    Ok(())
}
