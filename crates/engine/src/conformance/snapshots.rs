//! Cases of snapshots, and of what builds on them.

use serde_json::{Value, json};

use super::subject::{Subject, create, delete, index, operator, refused, target, tenant};
use super::verdict::{Failure, Verdict, ensure, same};
use crate::ErrorKind;
use crate::mounts::{MountSnapshot, Storage};
use crate::snapshot::{
    CreateSnapshot, RestoreSnapshot, SnapshotInfo, SnapshotState, Snapshots, VerificationState, VerifySnapshot,
};

/// Polls of a verification before the case fails. Each poll is a call of the engine.
const POLLS_MAX: usize = 100_000;

/// Registers the repository; returns its name.
async fn register(subject: &Subject) -> Result<String, Failure> {
    let request = subject.repository()?;
    let name = request.name.clone();
    snapshots(subject)?.put_repository(&operator(), request).await?;
    Ok(name)
}

fn snapshots(subject: &Subject) -> Result<&dyn Snapshots, Failure> {
    Ok(subject.engine().require_snapshots()?)
}

/// Creates a snapshot of one index and waits for it.
async fn take(subject: &Subject, repository: &str, name: &str, index: &str) -> Result<SnapshotInfo, Failure> {
    let request = CreateSnapshot {
        repository: repository.to_owned(),
        name: name.to_owned(),
        target: target(index),
        include_global_state: false,
        partial: false,
        metadata: None,
        wait: true,
    };
    let info = snapshots(subject)?.create_snapshot(&operator(), request).await?;
    same("state", info.state, SnapshotState::Success)?;
    Ok(info)
}

/// Creates an index with three documents; returns its name.
async fn filled(subject: &Subject) -> Result<String, Failure> {
    let body = json!({"mappings": {"properties": {"n": {"type": "long"}, "text": {"type": "text"}}}});
    let logs = subject.create("logs", body).await?;
    let items = (0..3).map(|n| index(&logs, &n.to_string(), json!({"n": n, "text": format!("word {n}")})));
    subject.fill(items.collect()).await?;
    Ok(logs)
}

async fn names(subject: &Subject, repository: &str, pattern: &str) -> Result<Vec<String>, Failure> {
    let found = snapshots(subject)?
        .list_snapshots(&operator(), repository, &vec![pattern.to_owned()], false)
        .await?;
    Ok(found.into_iter().map(|info| info.name).collect())
}

pub(super) async fn repositories_are_registered_and_listed(subject: &Subject) -> Verdict {
    let name = register(subject).await?;
    let snapshots = snapshots(subject)?;
    let found = snapshots.repositories(&operator(), std::slice::from_ref(&name)).await?;
    let expect = subject.repository()?.kind;
    let found: Vec<(&str, &str)> = found.iter().map(|one| (one.name.as_str(), one.kind.as_str())).collect();
    same("repositories", found, [(name.as_str(), expect.as_str())])?;
    snapshots.verify_repository(&operator(), &name).await?;
    let forbidden = snapshots.repositories(&tenant("acme")?, &[]).await;
    refused("a request of a tenant", forbidden, ErrorKind::Forbidden)?;
    snapshots
        .delete_repository(&operator(), std::slice::from_ref(&name))
        .await?;
    let gone = snapshots.repositories(&operator(), &[name]).await;
    refused("an unregistered repository", gone, ErrorKind::RepositoryMissing)
}

pub(super) async fn a_snapshot_is_listed_and_deleted(subject: &Subject) -> Verdict {
    let (logs, repository) = (filled(subject).await?, register(subject).await?);
    let info = take(subject, &repository, "first", &logs).await?;
    same("indices", &info.indices, &vec![logs.clone()])?;
    take(subject, &repository, "second", &logs).await?;
    let mut all = names(subject, &repository, "*").await?;
    all.sort();
    same("snapshots", all, ["first", "second"])?;
    let snapshots = snapshots(subject)?;
    let status = snapshots
        .snapshot_status(&operator(), Some(&repository), &vec!["first".to_owned()], false)
        .await?;
    let states: Vec<SnapshotState> = status.iter().map(|one| one.state).collect();
    same("status", states, [SnapshotState::Success])?;
    snapshots
        .delete_snapshot(&operator(), &repository, &vec!["first".to_owned()])
        .await?;
    same("after a deletion", names(subject, &repository, "*").await?, ["second"])?;
    let missing = snapshots
        .list_snapshots(&operator(), &repository, &vec!["first".to_owned()], false)
        .await;
    refused("a deleted snapshot", missing, ErrorKind::SnapshotMissing)
}

pub(super) async fn a_restored_index_is_as_it_was(subject: &Subject) -> Verdict {
    let (logs, repository) = (filled(subject).await?, register(subject).await?);
    take(subject, &repository, "first", &logs).await?;
    subject
        .fill(vec![
            delete(&logs, "0"),
            index(&logs, "1", json!({"n": 100})),
            index(&logs, "9", json!({"n": 9})),
        ])
        .await?;
    let restore = |rename: Option<(String, String)>| RestoreSnapshot {
        repository: repository.clone(),
        snapshot: "first".to_owned(),
        indices: vec![logs.clone()],
        ignore_unavailable: false,
        include_global_state: false,
        include_aliases: true,
        partial: false,
        rename,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
        wait: true,
    };
    let snapshots = snapshots(subject)?;
    let taken = snapshots.restore_snapshot(&operator(), restore(None)).await;
    refused("a restore over an open index", taken, ErrorKind::SnapshotRestore)?;
    let rename = Some(("(.+)".to_owned(), "$1-back".to_owned()));
    let restored = snapshots.restore_snapshot(&operator(), restore(rename)).await?;
    let back = format!("{logs}-back");
    same("indices", &restored.indices, &vec![back.clone()])?;
    same(
        "documents",
        subject.ids(&back, json!({"match_all": {}})).await?,
        ["0", "1", "2"],
    )?;
    same("a document", &subject.source(&back, "1").await?["n"], &json!(1))?;
    subject.fill(vec![index(&back, "3", json!({"n": 3}))]).await?;
    same("after a write", subject.count(&back).await?, 4)?;
    same(
        "the index itself",
        subject.ids(&logs, json!({"match_all": {}})).await?,
        ["1", "2", "9"],
    )
}

pub(super) async fn a_tenant_is_removed_from_a_snapshot(subject: &Subject) -> Verdict {
    let body = json!({
        "settings": {"index.tenant.field": "tenant"}, "mappings": {"properties": {"tenant": {"type": "keyword"}}},
    });
    let logs = subject.create("logs", body).await?;
    let (one, other) = (subject.name("acme"), subject.name("bolt"));
    for (name, count) in [(&one, 3), (&other, 2)] {
        let items = (0..count).map(|n| create(&logs, &n.to_string(), json!({ "n": n })));
        subject.fill_as(&tenant(name)?, items.collect()).await?;
    }
    let repository = register(subject).await?;
    take(subject, &repository, "first", &logs).await?;
    let erasure = subject.engine().require_snapshot_erasure()?;
    let id = firn_model::tenant::TenantId::parse(&one)?;
    let found = erasure.snapshots_of_tenant(&operator(), &id).await?;
    ensure!(found.unread.is_empty(), "{found:?}");
    let holding: Vec<(&str, u64)> = found
        .holding
        .iter()
        .map(|held| (held.snapshot.as_str(), held.documents))
        .collect();
    same("snapshots with the tenant", holding, [("first", 3)])?;
    let done = erasure
        .remove_tenant_from_snapshot(&operator(), &id, &repository, "first")
        .await?;
    same("removed documents", done.documents, 3)?;
    let found = erasure.snapshots_of_tenant(&operator(), &id).await?;
    ensure!(found.holding.is_empty() && found.unread.is_empty(), "{found:?}");
    let other = firn_model::tenant::TenantId::parse(&other)?;
    let found = erasure.snapshots_of_tenant(&operator(), &other).await?;
    same("snapshots with the other tenant", found.holding.len(), 1)?;
    erasure.remove_leftovers(&operator(), &repository).await?;
    Ok(())
}

pub(super) async fn a_snapshot_is_read_back(subject: &Subject) -> Verdict {
    let (logs, repository) = (filled(subject).await?, register(subject).await?);
    take(subject, &repository, "first", &logs).await?;
    let request = VerifySnapshot {
        repository,
        snapshot: "first".to_owned(),
        index: logs,
    };
    let verification = subject.engine().require_snapshot_verification()?;
    let before = verification.verification(&operator(), &request).await?;
    ensure!(before.is_none(), "it has begun already: {before:?}");
    verification.begin_verification(&operator(), request.clone()).await?;
    for _ in 0..POLLS_MAX {
        let now = verification.verification(&operator(), &request).await?;
        let now = now.ok_or_else(|| Failure::new("the verification is forgotten"))?;
        if now.state == VerificationState::Running {
            continue;
        }
        same("state", &now.state, &VerificationState::Whole)?;
        ensure!(
            now.bytes_verified == now.bytes_total && now.bytes_total > 0,
            "not everything was read: {now:?}"
        );
        verification.end_verification(&operator(), &request).await?;
        let after = verification.verification(&operator(), &request).await?;
        ensure!(after.is_none(), "it has not ended: {after:?}");
        return Ok(());
    }
    Err(Failure::new("the verification does not end"))
}

pub(super) async fn a_mounted_index_is_searched(subject: &Subject) -> Verdict {
    let (logs, repository) = (filled(subject).await?, register(subject).await?);
    take(subject, &repository, "first", &logs).await?;
    let mounts = subject.engine().require_mounts()?;
    let mounted = subject.name("mounted");
    let request = MountSnapshot {
        repository: repository.clone(),
        snapshot: "first".to_owned(),
        index: logs,
        renamed_index: Some(mounted.clone()),
        storage: Storage::SharedCache,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
    };
    let done = mounts.mount_snapshot(&operator(), request).await?;
    same("mounted index", (&done.index, done.successful_shards), (&mounted, 1))?;
    same(
        "documents",
        subject.ids(&mounted, json!({"range": {"n": {"gte": 1}}})).await?,
        ["1", "2"],
    )?;
    same(
        "a text",
        subject.ids(&mounted, json!({"match": {"text": "word"}})).await?.len(),
        3,
    )?;
    same("a document", &subject.source(&mounted, "1").await?["n"], &json!(1))?;
    let write = index(&mounted, "9", json!({}));
    subject.refuses_item(write, ErrorKind::IndexBlocked).await?;
    let shards = mounts.mounted_shards(&operator(), target(&mounted)).await?;
    same("mounted shards", shards.len(), 1)?;
    let used = snapshots(subject)?
        .delete_snapshot(&operator(), &repository, &vec!["first".to_owned()])
        .await;
    refused("a deletion of its snapshot", used, ErrorKind::Conflict)
}
