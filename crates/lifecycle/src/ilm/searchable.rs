//! Steps with snapshots: copying an index into a repository, mounting it from there, and removing it.

use firn_engine::snapshot::{SnapshotInfo, SnapshotState, Verification, VerificationState, VerifySnapshot};
use firn_model::dates::{DateFormat, Zone};
use firn_model::ilm::{Execution, PhaseName, SearchableSnapshot, VERIFY};
use firn_model::metadata::{Command, IlmCommand, IndexMetadata, Metadata};
use firn_model::period::print_instant;
use firn_model::{Error, ErrorKind, Result};
use serde_json::json;

use super::effects::MountedAs;
use super::perform::{Outcome, StepContext};
use super::snapshot_verification;

/// Maximum documents of a split: a segment becomes a split, of which a column is read as a whole.
const SPLIT_DOCS_MAX: u64 = 8_000_000;

/// Returns the number of segments to which a shard is merged before its snapshot. Elasticsearch always merges to one; a
/// larger split would only make searches of uncached data slower.
pub(super) fn splits_of(docs: u64) -> u64 {
    docs.div_ceil(SPLIT_DOCS_MAX).max(1)
}

/// Snapshot that an index is mounted from.
pub(super) struct Store<'a> {
    pub(super) repository: &'a str,
    pub(super) snapshot: &'a str,
    /// Name of the index in the snapshot.
    pub(super) index: &'a str,
    /// Read through the cache, not copied.
    partial: bool,
}

pub(super) fn store_of(index: &IndexMetadata) -> Option<Store<'_>> {
    let text = |name: &str| index.text_setting(name);
    if text("index.store.type") != Some("snapshot") {
        return None;
    }
    let partial = index.settings.typed.get("index.store.snapshot.partial");
    Some(Store {
        repository: text("index.store.snapshot.repository_name")?,
        snapshot: text("index.store.snapshot.snapshot_name")?,
        index: text("index.store.snapshot.index_name")?,
        partial: partial.is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true")),
    })
}

/// Executes the steps that only `searchable_snapshot` has.
pub(super) async fn take(place: &StepContext<'_>, action: &SearchableSnapshot) -> Result<Outcome> {
    let is_partial = place.execution.key.phase == PhaseName::Frozen.as_str();
    if store_of(place.index).is_some_and(|store| store.partial == is_partial) {
        return place.done();
    }
    match place.execution.key.step.as_str() {
        "generate-snapshot-name" => generate_name(place, action),
        ANEW => remove_earlier(place).await,
        "create-snapshot" => create(place).await,
        VERIFY => verify(place, is_partial).await,
        "mount-snapshot" => mount(place, is_partial).await,
        "wait-for-index-color" => compare(place, is_partial).await,
        "swap-aliases" => replace(place, is_partial).await,
        _ => place.done(),
    }
}

/// Step to which an action returns if its result is unusable.
const ANEW: &str = "cleanup-snapshot";

fn generate_name(place: &StepContext<'_>, action: &SearchableSnapshot) -> Result<Outcome> {
    let facts = |repository: &str, snapshot: String, index: &str| Execution {
        snapshot_repository: Some(repository.to_owned()),
        snapshot_name: Some(snapshot),
        snapshot_index: Some(index.to_owned()),
        ..place.execution.clone()
    };
    let index = place.index;
    if let Some(store) = store_of(index) {
        if store.repository != action.repository {
            return Err(Error::illegal_argument(format!(
                "index [{}] is mounted from repository [{}], but policy [{}] requires repository [{}]",
                index.name,
                store.repository,
                place.policy(),
                action.repository
            )));
        }
        // The index is already a mount, of the other kind; nothing has to be copied.
        return Ok(place.done_with(facts(store.repository, store.snapshot.to_owned(), store.index)));
    }
    Ok(place.done_with(facts(&action.repository, fresh_name(place)?, &index.name)))
}

/// Returns an unused name for a snapshot.
fn fresh_name(place: &StepContext<'_>) -> Result<String> {
    let day = DateFormat::new("uuuu.MM.dd")?.print_ms((place.parts.now_ms)(), &Zone::utc());
    let chance = (place.parts.random)();
    Ok(format!("{day}-{}-{}-{chance:016x}", place.index.name, place.policy()).to_lowercase())
}

/// Returns repository, snapshot, and the index's name in it, as an earlier step chose them.
fn chosen<'a>(place: &'a StepContext<'_>) -> Result<(&'a str, &'a str, &'a str)> {
    let execution = place.execution;
    match (
        &execution.snapshot_repository,
        &execution.snapshot_name,
        &execution.snapshot_index,
    ) {
        (Some(repository), Some(snapshot), Some(index)) => Ok((repository, snapshot, index)),
        _ => Err(Error::internal(format!(
            "snapshot name was not generated for policy [{}] and index [{}]",
            place.policy(),
            place.index.name
        ))),
    }
}

/// Removes the snapshot of an earlier attempt, complete or not: the index may have changed since. The next attempt uses
/// another name.
async fn remove_earlier(place: &StepContext<'_>) -> Result<Outcome> {
    let (repository, name, _) = chosen(place)?;
    // A mounted index reads its snapshot, which must stay.
    if store_of(place.index).is_some() {
        return place.done();
    }
    let effects = &place.parts.effects;
    match effects.snapshot(repository, name).await {
        Ok(None) => return place.done(),
        // Its creator waits for it.
        Ok(Some(left)) if left.state == SnapshotState::InProgress => return place.done(),
        Ok(Some(_)) => {}
        // Its manifest is damaged or missing, so its content cannot be read.
        Err(error) if error.kind() == ErrorKind::Repository => {}
        Err(error) => return Err(error),
    }
    let metadata = effects.metadata().await?;
    let is_mounted = metadata
        .indices
        .values()
        .any(|index| store_of(index).is_some_and(|store| (store.repository, store.snapshot) == (repository, name)));
    // If a user has mounted the snapshot, it stays and belongs to that user.
    if !is_mounted {
        effects.delete_snapshot(repository, name).await?;
    }
    Ok(place.done_with(Execution {
        snapshot_name: Some(fresh_name(place)?),
        ..place.execution.clone()
    }))
}

async fn create(place: &StepContext<'_>) -> Result<Outcome> {
    let (repository, name, index) = chosen(place)?;
    let effects = &place.parts.effects;
    let found = match effects.snapshot(repository, name).await {
        Err(error) if error.kind() == ErrorKind::Repository && store_of(place.index).is_none() => {
            return Ok(Outcome::Back { step: ANEW, error });
        }
        found => found?,
    };
    let there = match found {
        Some(there) if there.state == SnapshotState::InProgress => {
            return Ok(Outcome::Waiting(Some(json!({
                "message": format!("snapshot [{name}] for index [{index}] is still in progress"),
            }))));
        }
        Some(there) if is_whole(&there, index) => return place.done(),
        Some(_) => {
            effects.delete_snapshot(repository, name).await?;
            effects.create_snapshot(repository, name, index).await?
        }
        None => effects.create_snapshot(repository, name, index).await?,
    };
    if is_whole(&there, index) {
        return place.done();
    }
    let why = there
        .failures
        .first()
        .map_or("it is incomplete", |failure| failure.reason.as_str());
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("failed to create snapshot [{name}] of index [{index}] in repository [{repository}]: {why}"),
    ))
}

/// Returns whether a snapshot holds every shard of an index.
fn is_whole(snapshot: &SnapshotInfo, index: &str) -> bool {
    snapshot.state == SnapshotState::Success
        && snapshot.failures.is_empty()
        && snapshot.successful_shards == snapshot.total_shards
        && snapshot.indices.iter().any(|name| name == index)
}

/// Verifies the index in the store. Only a complete copy is mounted and replaces the index.
async fn verify(place: &StepContext<'_>, is_partial: bool) -> Result<Outcome> {
    let request = verification_of(place)?;
    let now = match verified(place, &request).await {
        Err(error) if error.kind() == ErrorKind::SnapshotMissing && store_of(place.index).is_none() => {
            return Ok(Outcome::Back { step: ANEW, error });
        }
        now => now?,
    };
    match &now.state {
        VerificationState::Whole => place.done(),
        VerificationState::Running => {
            let said = place.execution.step_info.as_ref();
            Ok(Outcome::Waiting(Some(snapshot_verification::progress(
                &request, &now, said,
            ))))
        }
        VerificationState::Damaged(objects) => {
            // It may have been mounted by an earlier step, or by a firn that did not verify.
            let name = mounted_name(&request.index, is_partial);
            let metadata = place.parts.effects.metadata().await?;
            if let Mounted::Ours = mounted(place, &metadata, &name)? {
                let names = vec![name];
                place.parts.effects.execute(Command::DeleteIndices { names }).await?;
            }
            let error = snapshot_verification::damaged(&request, objects, store_of(place.index).is_some());
            Ok(Outcome::Back { step: ANEW, error })
        }
    }
}

fn verification_of(place: &StepContext<'_>) -> Result<VerifySnapshot> {
    let (repository, snapshot, index) = chosen(place)?;
    Ok(VerifySnapshot {
        repository: repository.to_owned(),
        snapshot: snapshot.to_owned(),
        index: index.to_owned(),
    })
}

async fn verified(place: &StepContext<'_>, request: &VerifySnapshot) -> Result<Verification> {
    place.verifying.note(&place.index.uuid, request);
    place.parts.effects.verify(request).await
}

/// Returns the name in Elasticsearch's format.
fn mounted_name(index: &str, is_partial: bool) -> String {
    format!("{}-{index}", if is_partial { "partial" } else { "restored" })
}

async fn mount(place: &StepContext<'_>, is_partial: bool) -> Result<Outcome> {
    let (repository, snapshot, index) = chosen(place)?;
    let name = mounted_name(index, is_partial);
    let metadata = place.parts.effects.metadata().await?;
    match mounted(place, &metadata, &name)? {
        Mounted::Ours => return place.done(),
        Mounted::Foreign(uuid) => {
            let reason = format!("index [{name}/{uuid}] already exists");
            return Err(Error::new(ErrorKind::ResourceAlreadyExists, reason).with_index(name));
        }
        Mounted::Missing => {}
    }
    let mount = MountedAs {
        repository: repository.to_owned(),
        snapshot: snapshot.to_owned(),
        index: index.to_owned(),
        name,
        partial: is_partial,
    };
    match place.parts.effects.mount(mount).await {
        Ok(()) => place.done(),
        // The snapshot was deleted; the local index can be copied to a new one.
        Err(error) if error.kind() == ErrorKind::SnapshotMissing && store_of(place.index).is_none() => {
            Ok(Outcome::Back { step: ANEW, error })
        }
        Err(error) => Err(error),
    }
}

/// State of the mounted index's name.
enum Mounted {
    /// The index that an earlier step mounted.
    Ours,
    /// Another index, with this uuid.
    Foreign(String),
    Missing,
}

fn mounted(place: &StepContext<'_>, metadata: &Metadata, name: &str) -> Result<Mounted> {
    let chosen = chosen(place)?;
    Ok(match metadata.indices.get(name) {
        None => Mounted::Missing,
        Some(there) => match store_of(there) {
            Some(store) if (store.repository, store.snapshot, store.index) == chosen => Mounted::Ours,
            _ => Mounted::Foreign(there.uuid.clone()),
        },
    })
}

/// Returns to an earlier step if the mounted index is missing or was replaced by another. `None`: it exists.
async fn missing(place: &StepContext<'_>, name: &str) -> Result<Option<Outcome>> {
    let metadata = place.parts.effects.metadata().await?;
    let why = match mounted(place, &metadata, name)? {
        Mounted::Ours => return Ok(None),
        Mounted::Foreign(_) => "has been replaced by another index",
        Mounted::Missing => "no longer exists",
    };
    let error = Error::new(
        ErrorKind::Conflict,
        format!(
            "index [{name}] {why}; it was mounted to replace [{}], which is now moved again",
            place.index.name
        ),
    );
    Ok(Some(Outcome::Back { step: ANEW, error }))
}

/// Searches both: the mounted index must find every event before it replaces the local index. Otherwise it is deleted,
/// and a new snapshot is created of the current index.
async fn compare(place: &StepContext<'_>, is_partial: bool) -> Result<Outcome> {
    let (_, _, index) = chosen(place)?;
    let name = mounted_name(index, is_partial);
    if let Some(back) = missing(place, &name).await? {
        return Ok(back);
    }
    let effects = &place.parts.effects;
    let (before, after) = (effects.count(&place.index.name).await?, effects.count(&name).await?);
    if before == after {
        return place.done();
    }
    let error = Error::internal(format!(
        "index [{}] has [{before}] events, but [{name}], mounted from its snapshot, has [{after}]: it stays where it is",
        place.index.name
    ));
    let names = vec![name];
    effects.execute(Command::DeleteIndices { names }).await?;
    Ok(Outcome::Back { step: ANEW, error })
}

async fn replace(place: &StepContext<'_>, is_partial: bool) -> Result<Outcome> {
    let (repository, snapshot, index) = chosen(place)?;
    let new = mounted_name(index, is_partial);
    if let Some(back) = missing(place, &new).await? {
        return Ok(back);
    }
    // The verification is missing after a restart or a mount by an older firn, or if the snapshot was rewritten since.
    let request = verification_of(place)?;
    if verified(place, &request).await?.state != VerificationState::Whole {
        return Ok(Outcome::Again(VERIFY));
    }
    let command = IlmCommand::Replace {
        old: place.index.name.clone(),
        new: new.clone(),
        to: Box::new(place.execution.clone().at(place.next.clone(), (place.parts.now_ms)())),
    };
    place.parts.effects.execute(Command::Ilm(command)).await?;
    tracing::info!(
        index = place.index.name,
        mounted = new,
        repository,
        snapshot,
        "a lifecycle moved an index to its snapshot"
    );
    Ok(Outcome::Gone)
}

/// Returns the snapshot that a lifecycle created of the index, if no other index is mounted from it.
pub(super) fn orphan_of(place: &StepContext<'_>, metadata: &Metadata) -> Option<(String, String)> {
    let store = store_of(place.index)?;
    let execution = place.execution;
    let is_own = execution.snapshot_repository.as_deref() == Some(store.repository)
        && execution.snapshot_name.as_deref() == Some(store.snapshot);
    let is_shared = metadata.indices.values().any(|other| {
        let other_store = store_of(other).map(|store| (store.repository, store.snapshot));
        other.name != place.index.name && other_store == Some((store.repository, store.snapshot))
    });
    (is_own && !is_shared).then(|| (store.repository.to_owned(), store.snapshot.to_owned()))
}

/// Waits until a snapshot policy has created a snapshot with the index since the phase began.
pub(super) async fn wait_for(place: &StepContext<'_>, policy: &str) -> Result<Outcome> {
    let effects = &place.parts.effects;
    let metadata = effects.metadata().await?;
    let Some(stored) = metadata.slm.by_id.get(policy) else {
        return Err(Error::illegal_argument(format!(
            "configured policy '{policy}' not found"
        )));
    };
    let since_ms = place.execution.phase_ms;
    let waiting = |message: String| Ok(Outcome::Waiting(Some(json!({"message": message}))));
    let last = stored.last_success.as_ref().filter(|last| last.start_ms >= since_ms);
    let Some(last) = last else {
        let since = print_instant(since_ms);
        return waiting(format!("waiting for policy '{policy}' to be executed since {since}"));
    };
    let snapshot = effects.snapshot(&stored.policy.repository, &last.snapshot).await?;
    if snapshot.is_some_and(|snapshot| is_whole(&snapshot, &place.index.name)) {
        return place.done();
    }
    waiting(format!(
        "the last successful snapshot of policy '{policy}' does not contain index [{}]",
        place.index.name
    ))
}
