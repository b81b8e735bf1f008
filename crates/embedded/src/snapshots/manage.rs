//! Management of existing repositories and snapshots: register, list, delete, clone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use firn_engine::snapshot::{
    AnalyzeRepository, CleanupOutcome, CloneSnapshot, PutRepository, Repository as Registered, SnapshotInfo,
    SnapshotStatus,
};
use firn_model::metadata::Command;
use firn_model::repository::{
    RepositoryMetadata, repository_missing, snapshot_missing, validate_repository_name, validate_snapshot_name,
};
use firn_model::settings::flatten;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::object::AnalyzeOptions;
use firn_storage::repository::{Repository, SnapshotEntry, SnapshotManifest, State, Swept};
use serde_json::{Map, Value};

use super::Work;
use super::repository_leases::{Changing, Removal};
use super::select::select;
use super::service::SnapshotService;
use super::status::{info_of, status_of};

/// How often a lookup of snapshots is repeated while other writers delete them.
const FIND_TRIES: usize = 5;

/// Manifests of the committed snapshots that a list of names matches.
type Found = Vec<SnapshotManifest>;

impl SnapshotService {
    /// Validates and registers a repository. Opening the store validates its settings.
    pub(crate) async fn register(&self, request: PutRepository) -> Result<()> {
        validate_repository_name(&request.name)?;
        let mut settings = flatten(&request.settings, false)?;
        settings.retain(|_, value| !value.is_null());
        for value in settings.values_mut() {
            // Elasticsearch stores settings as strings.
            if !value.is_array() && !value.is_string() {
                *value = Value::String(value.to_string());
            }
        }
        let mut metadata = RepositoryMetadata {
            kind: request.kind,
            settings,
            uuid: None,
        };
        let before = self.node.state().metadata.repositories.get(&request.name).cloned();
        let is_same =
            |before: &Arc<RepositoryMetadata>| before.kind == metadata.kind && before.settings == metadata.settings;
        // A repeated registration with the same settings does not conflict with running work.
        let _changing = match before.as_ref().is_some_and(is_same) {
            true => None,
            false => Some(self.repositories.uses.change(&request.name)?),
        };
        let repository = self
            .repositories
            .open_repository(&request.name, Arc::new(metadata.clone()))?
            .repository;
        if request.verify && !repository.is_readonly() {
            self.verify(&repository).await?;
        }
        // If the repository cannot be read yet, only its name identifies it.
        metadata.uuid = match request.verify {
            true => Some(repository.state().await?.uuid.clone()).filter(|uuid| !uuid.is_empty()),
            false => before
                .filter(|before| before.is_same_place(&metadata))
                .and_then(|before| before.uuid.clone()),
        };
        let command = Command::PutRepository {
            name: request.name.clone(),
            repository: metadata,
        };
        // The command waits for the disk.
        tokio::task::block_in_place(|| self.commands.execute(command)).map(|_| ())
    }

    /// Writes a test object to a repository and reads it back.
    pub(crate) async fn verify(&self, repository: &Repository) -> Result<()> {
        let token = self.repositories.fresh_uuid();
        firn_storage::object::verify(repository.name(), &**repository.store(), &token).await
    }

    /// Measures the store of a repository and checks that it keeps the guarantees that firn relies on.
    pub(crate) async fn analyze(&self, request: AnalyzeRepository) -> Result<Map<String, Value>> {
        let (repository, _used) = self.repositories.repository_for(&request.name, Work::Analysis)?;
        repository.check_writable("analyze repository")?;
        let options = AnalyzeOptions {
            blob_count: request.blob_count,
            concurrency: request.concurrency,
            blob_bytes_max: request.blob_bytes_max,
            total_bytes_max: request.total_bytes_max,
            timeout: Duration::from_millis(request.timeout_ms),
            ..AnalyzeOptions::new(self.repositories.fresh_uuid(), request.seed)
        };
        let analysis = firn_storage::object::analyze(&request.name, &**repository.store(), &options).await?;
        Ok(analysis.to_json(&request.name, &options))
    }

    /// Returns the registered repositories that match the names.
    pub(crate) fn registered(&self, names: &[String]) -> Result<Vec<Registered>> {
        let state = self.node.state();
        let existing = &state.metadata.repositories;
        let (found, missing) = select(names, existing.keys().map(String::as_str));
        if let Some(missing) = missing.first() {
            return Err(repository_missing(missing));
        }
        let found = found.into_iter().filter_map(|name| {
            let metadata = existing.get(name)?;
            Some(Registered {
                name: name.to_owned(),
                kind: metadata.kind.clone(),
                uuid: metadata.uuid.clone(),
                settings: metadata.settings.clone(),
            })
        });
        Ok(found.collect())
    }

    /// Unregisters repositories. Their objects stay.
    pub(crate) fn unregister(&self, names: &[String]) -> Result<()> {
        let found = self.registered(names)?;
        if found.is_empty() && !names.iter().any(|name| name == "*" || name == "_all") {
            return Err(repository_missing(&names.join(",")));
        }
        let names: Vec<String> = found.into_iter().map(|repository| repository.name).collect();
        let uses = &self.repositories.uses;
        let _changing: Vec<Changing> = names.iter().map(|name| uses.change(name)).collect::<Result<_>>()?;
        self.commands
            .execute(Command::DeleteRepositories { names: names.clone() })?;
        let mut open = self.repositories.open.lock();
        names.iter().for_each(|name| {
            open.remove(name);
            self.repositories.failed.forget(name, |_| true);
        });
        Ok(())
    }

    /// Lists snapshots in the order of their start, including running and failed ones.
    pub(crate) async fn list_snapshots(
        &self,
        repository: &str,
        names: &[String],
        ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotInfo>> {
        let opened = self.repositories.repository(repository)?;
        let running = self.repositories.running_in(repository);
        let mut infos: Vec<SnapshotInfo> = Vec::new();
        if names == ["_current"] {
            infos.extend(running.iter().map(|running| running.info()));
            return Ok(infos);
        }
        let mut also: Vec<SnapshotInfo> = running.iter().map(|running| running.info()).collect();
        let failed = self.repositories.failed.of(repository).into_iter();
        also.extend(failed.map(|failed| failed.info));
        let (found, among) = self
            .find(&opened, names, also.iter().map(|info| &*info.name), ignore_unavailable)
            .await?;
        infos.extend(found.iter().map(|manifest| info_of(repository, manifest)));
        infos.extend(also.into_iter().filter(|info| among.contains(&info.name)));
        infos.sort_by(|one, other| (one.start_ms, &one.name).cmp(&(other.start_ms, &other.name)));
        Ok(infos)
    }

    /// Returns the progress of snapshots.
    pub(crate) async fn snapshot_statuses(
        &self,
        repository: Option<&str>,
        names: &[String],
        ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotStatus>> {
        let now_ms = self.node.now_ms();
        let Some(repository) = repository else {
            let running = self.repositories.running.0.lock();
            return Ok(running.iter().map(|running| running.status(now_ms)).collect());
        };
        let opened = self.repositories.repository(repository)?;
        let running = self.repositories.running_in(repository);
        if names.is_empty() || names == ["_current"] {
            return Ok(running.iter().map(|running| running.status(now_ms)).collect());
        }
        let mut also: Vec<SnapshotStatus> = running.iter().map(|running| running.status(now_ms)).collect();
        let failed = self.repositories.failed.of(repository).into_iter();
        also.extend(failed.map(|failed| failed.status));
        let (found, among) = self
            .find(
                &opened,
                names,
                also.iter().map(|status| &*status.name),
                ignore_unavailable,
            )
            .await?;
        let mut statuses: Vec<SnapshotStatus> = found.iter().map(|manifest| status_of(repository, manifest)).collect();
        statuses.extend(also.into_iter().filter(|status| among.contains(&status.name)));
        Ok(statuses)
    }

    /// Finds snapshots by name: returns the manifests of the committed ones, and the names in `also` that match. If a
    /// snapshot is deleted during the read, maybe by another cluster, its name is looked up again.
    async fn find<'a>(
        &self,
        repository: &Repository,
        names: &[String],
        also: impl Iterator<Item = &'a str>,
        ignore_unavailable: bool,
    ) -> Result<(Found, HashSet<String>)> {
        let also: Vec<&str> = also.collect();
        let mut state = repository.state().await?;
        for _ in 1..FIND_TRIES {
            let (found, unread) = self
                .find_in(&state, repository, names, &also, ignore_unavailable)
                .await?;
            if unread.is_empty() {
                return Ok(found);
            }
            let now = repository.state().await?;
            let is_gone = |entry: &SnapshotEntry| now.snapshots.get(&entry.name) != Some(entry);
            if let Some((_, error)) = unread.into_iter().find(|(entry, _)| !is_gone(entry)) {
                return Err(error);
            }
            state = now;
        }
        let (found, mut unread) = self
            .find_in(&state, repository, names, &also, ignore_unavailable)
            .await?;
        match unread.pop() {
            Some((_, error)) => Err(error),
            None => Ok(found),
        }
    }

    /// Finds snapshots in one state of the repository. Returns also the snapshots that cannot be read.
    async fn find_in(
        &self,
        state: &State,
        repository: &Repository,
        names: &[String],
        also: &[&str],
        ignore_unavailable: bool,
    ) -> Result<((Found, HashSet<String>), Vec<(SnapshotEntry, Error)>)> {
        // A snapshot that was just committed may still be in the list of running ones, and a failed one may have
        // succeeded since.
        let is_unfinished = |name: &&str| !state.snapshots.contains_key(*name);
        let unfinished: Vec<&str> = also.iter().copied().filter(is_unfinished).collect();
        let existing: Vec<&str> = state
            .snapshots
            .keys()
            .map(String::as_str)
            .chain(unfinished.iter().copied())
            .collect();
        let (found, missing) = select(names, existing.iter().copied());
        if let Some(missing) = missing.first().filter(|_| !ignore_unavailable) {
            return Err(snapshot_missing(repository.name(), missing));
        }
        let entries: Vec<SnapshotEntry> = found
            .iter()
            .filter_map(|name| state.snapshots.get(*name).cloned())
            .collect();
        let among: HashSet<String> = found
            .iter()
            .filter(|name| unfinished.contains(name))
            .map(|name| (*name).to_owned())
            .collect();
        let (mut manifests, mut unread) = (Vec::new(), Vec::new());
        for (entry, manifest) in repository.manifests(entries).await {
            match manifest {
                Ok(manifest) => manifests.push(manifest),
                Err(_) if ignore_unavailable => {}
                Err(error) => unread.push((entry, error)),
            }
        }
        Ok(((manifests, among), unread))
    }

    /// Deletes snapshots. Running ones are cancelled first.
    pub(crate) async fn remove_snapshots(&self, repository: &str, names: &[String]) -> Result<()> {
        let (opened, _used) = self.repositories.repository_for(repository, Work::Deletion)?;
        opened.check_writable("delete snapshots")?;
        let running = self.repositories.running_in(repository);
        let state = opened.state().await?;
        let failed = self.repositories.failed.of(repository);
        let running_names = running.iter().map(|running| running.name.as_str());
        let failed_names = failed.iter().map(|failed| failed.info.name.as_str());
        let existing: Vec<&str> = state
            .snapshots
            .keys()
            .map(String::as_str)
            .chain(running_names)
            .chain(failed_names)
            .collect();
        let (found, missing) = select(names, existing.iter().copied());
        if let Some(missing) = missing.first() {
            return Err(snapshot_missing(repository, missing));
        }
        let found: HashSet<String> = found.into_iter().map(str::to_owned).collect();
        // If the deletion is refused, no running snapshot is cancelled.
        drop(self.begin_removal(repository, &state, &found)?);
        for running in running.iter().filter(|running| found.contains(&running.name)) {
            running.cancel.cancel();
            running.wait().await;
        }
        self.repositories.failed.forget(repository, |name| found.contains(name));
        // A snapshot that was cancelled too late exists now.
        let state = opened.state().await?;
        let _removal = self.begin_removal(repository, &state, &found)?;
        let mut names: Vec<String> = found.into_iter().collect();
        names.retain(|name| state.snapshots.contains_key(name));
        if names.is_empty() {
            return Ok(());
        }
        opened.remove_snapshots(&names).await.map(|_| ())
    }

    /// Reserves the existing snapshots among `names` for removal. Fails if one is being read or is mounted, under any
    /// registered name of its repository.
    fn begin_removal(&self, repository: &str, state: &State, names: &HashSet<String>) -> Result<Removal> {
        let entries: HashMap<&str, &SnapshotEntry> = names
            .iter()
            .filter_map(|name| state.snapshots.get(name))
            .map(|entry| (entry.uuid.as_str(), entry))
            .collect();
        let ids = entries.values().map(|entry| {
            let id = (state.uuid.clone(), entry.uuid.clone());
            (format!("{repository}:{}", entry.name), id)
        });
        // Before the check of mounts, so that a mount that starts from now on is refused.
        let removal = self.repositories.uses.take(ids.collect(), Work::Deletion)?;
        for index in self.node.state().metadata.indices.values() {
            let Some(store) = &index.settings.snapshot else {
                continue;
            };
            let is_here = match store.repository_uuid.as_str() {
                "" => store.repository == repository,
                uuid => uuid == state.uuid,
            };
            if let Some(entry) = entries.get(store.snapshot_uuid.as_str()).filter(|_| is_here) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "[{repository}:{}] cannot delete a snapshot that is in use: index [{}] is mounted from it",
                        entry.name, index.name
                    ),
                ));
            }
        }
        Ok(removal)
    }

    /// Removes objects that no snapshot needs.
    pub(crate) async fn clean_up(&self, repository: &str) -> Result<CleanupOutcome> {
        let (repository, _used) = self.repositories.repository_for(repository, Work::Cleanup)?;
        let Swept { objects, bytes } = repository.cleanup().await?;
        Ok(CleanupOutcome {
            deleted_objects: objects,
            deleted_bytes: bytes,
        })
    }

    /// Runs the cleanup, and then clears the shared region cache, which may hold removed objects. Returns the number of
    /// objects that the cleanup skipped because they are newer than a running write; if there are any, the cache stays.
    pub(crate) async fn remove_leftovers(&self, repository: &str) -> Result<u64> {
        let (repository, _used) = self.repositories.repository_for(repository, Work::Cleanup)?;
        let (_, young) = repository.cleanup_and_count().await?;
        // The process that left the objects may have read them through the cache.
        if let (0, Ok(regions)) = (young, self.mounts.regions()) {
            let regions = Arc::clone(regions);
            // The cache writes its journal.
            tokio::task::block_in_place(|| regions.clear(None));
        }
        Ok(young)
    }

    /// Clones some indices of a snapshot into a new snapshot.
    pub(crate) async fn clone_one(&self, request: CloneSnapshot) -> Result<()> {
        let (repository, _used) = self.repositories.repository_for(&request.repository, Work::Clone)?;
        repository.check_writable("clone snapshot")?;
        validate_snapshot_name(&request.repository, &request.target)?;
        let state = repository.state().await?;
        let _reading = self
            .repositories
            .read_snapshot(&repository, &state, &request.source, Work::Clone)?;
        let (uuid, start_ms) = (self.repositories.fresh_uuid(), self.node.now_ms());
        repository
            .clone_snapshot(&request.source, |source| {
                let mut clone = clone_of(source, &request)?;
                clone.uuid.clone_from(&uuid);
                (clone.start_ms, clone.end_ms) = (start_ms, self.node.now_ms());
                Ok(clone)
            })
            .await
    }
}

/// Returns the manifest of a clone with the chosen indices of its source.
fn clone_of(source: SnapshotManifest, request: &CloneSnapshot) -> Result<SnapshotManifest> {
    let (names, missing) = select(&request.indices, source.indices.keys().map(String::as_str));
    if let Some(missing) = missing.first() {
        return Err(Error::index_not_found(*missing));
    }
    if names.is_empty() {
        return Err(Error::new(
            ErrorKind::IndexNotFound,
            format!("no such index [{}]", request.indices.join(",")),
        ));
    }
    let names: HashSet<String> = names.into_iter().map(str::to_owned).collect();
    let mut clone = source;
    clone.name.clone_from(&request.target);
    clone.indices.retain(|name, _| names.contains(name));
    clone.shards.retain(|name, _| names.contains(name));
    clone.missing.retain(|missing| names.contains(&missing.index));
    // Only indices are cloned, as in Elasticsearch.
    clone.data_streams = BTreeMap::new();
    clone.global = None;
    Ok(clone)
}
