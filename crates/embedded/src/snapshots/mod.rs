//! Open repositories and the snapshots that run in them.
//!
//! `firn_storage::repository` defines the objects of a repository and how they are committed. This module turns
//! segments into splits for an upload, and splits into shards for a restore. What surprises: nothing here survives a
//! restart. A snapshot that was not committed never existed, and the next snapshot removes its uploaded objects.

mod create;
mod existing_objects;
mod failed_snapshots;
mod filter_tables;
mod manage;
mod remount;
mod repair;
mod repository_leases;
mod restore;
mod restores;
mod rewrite;
mod rewrite_memo;
mod running_snapshots;
mod select;
mod status;
mod tenant;
mod upload;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::snapshot::RunningSnapshot;
use firn_model::repository::{RepositoryMetadata, snapshot_missing};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::object::{Guarded, ObjectStores, Objects};
use firn_storage::repository::{Instances, Repository, SnapshotEntry, State, Writer};
use parking_lot::Mutex;
use tokio::runtime::Handle;

pub(crate) use self::create::scratch_dir;
use self::failed_snapshots::FailedList;
pub(crate) use self::remount::check_holds_events;
use self::repository_leases::RepositoryLeases;
pub(crate) use self::repository_leases::{Reading, Use, Work};
use self::restores::Restores;
pub(crate) use self::restores::with_restored;
use self::rewrite_memo::Rewritten;
use self::running_snapshots::{Running, RunningList};
use self::verify::Verifications;
use crate::engine::Core;
use crate::engine::index_ids::fresh_uuid;

/// Returns an error if a long task should stop.
type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// A registered repository that was opened.
#[derive(Clone)]
struct Opened {
    from: Arc<RepositoryMetadata>,
    repository: Arc<Repository>,
    store: Guarded,
}

/// All open repositories, and the work that runs in them.
pub(crate) struct Repositories {
    stores: Arc<ObjectStores>,
    /// Runtime whose threads wait for object stores; `None`: no store can be reached.
    io: Option<Handle>,
    /// By repository name.
    open: Mutex<HashMap<String, Opened>>,
    running: Arc<RunningList>,
    failed: FailedList,
    verifications: Verifications,
    pub(crate) restores: Restores,
    pub(crate) uses: Arc<RepositoryLeases>,
    /// Splits that were rewritten for the deletion of a tenant.
    rewritten: Mutex<Rewritten>,
    /// Repositories in use, also after they were unregistered or registered again.
    instances: Arc<Instances>,
    random: Arc<Mutex<fastrand::Rng>>,
}

impl Repositories {
    /// Creates the list without open repositories.
    pub(crate) fn new(stores: Arc<ObjectStores>, io: Option<Handle>, seed: u64) -> Self {
        Self {
            stores,
            io,
            open: Mutex::default(),
            running: Arc::default(),
            failed: FailedList::default(),
            verifications: Verifications::default(),
            restores: Restores::default(),
            uses: Arc::default(),
            rewritten: Mutex::default(),
            instances: Arc::default(),
            random: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
        }
    }

    /// Cancels running snapshots and verifications: the process ends.
    pub(crate) fn stop(&self) {
        self.running.0.lock().iter().for_each(|running| running.cancel.cancel());
        self.verifications.stop();
    }

    fn fresh_uuid(&self) -> String {
        fresh_uuid(&mut self.random.lock())
    }

    /// Whether a split whose manifest does not list its tenants may hold events of a tenant.
    pub(crate) fn is_unknown(&self, tenant: &str, split: &str) -> bool {
        self.rewritten.lock().is_unknown(tenant, split)
    }

    /// Returns the running snapshots of all repositories.
    fn running_now(&self) -> Vec<RunningSnapshot> {
        let running = self.running.0.lock();
        let one = |running: &Arc<Running>| RunningSnapshot {
            repository: running.repository.clone(),
            snapshot: running.name.clone(),
            start_ms: running.start_ms,
        };
        running.iter().map(one).collect()
    }

    fn running_in(&self, repository: &str) -> Vec<Arc<Running>> {
        let running = self.running.0.lock();
        let own = running.iter().filter(|running| running.repository == repository);
        own.cloned().collect()
    }
}

impl Core {
    /// Returns the runtime whose threads wait for object stores.
    pub(crate) fn io(&self) -> Result<&Handle> {
        let io = self.repositories.io.as_ref();
        io.ok_or_else(|| Error::not_implemented("a snapshot repository without threads for object stores"))
    }

    /// Returns a registered repository, open. Its registration cannot change until the returned `Use` is dropped.
    pub(crate) fn repository_for(&self, name: &str, work: Work) -> Result<(Arc<Repository>, Use)> {
        let used = self.repositories.uses.begin(name, work)?;
        Ok((self.repository(name)?, used))
    }

    /// Returns a snapshot of a repository. This node does not remove it until the returned `Reading` is dropped.
    pub(crate) fn read_snapshot(
        &self,
        repository: &Repository,
        state: &State,
        name: &str,
        work: Work,
    ) -> Result<(SnapshotEntry, Reading)> {
        let entry = state.snapshots.get(name);
        let entry = entry.ok_or_else(|| snapshot_missing(repository.name(), name))?;
        let id = (state.uuid.clone(), entry.uuid.clone());
        let place = format!("{}:{name}", repository.name());
        let reading = self.repositories.uses.read(&place, id, work)?;
        Ok((entry.clone(), reading))
    }

    /// Returns a registered repository, open.
    pub(crate) fn repository(&self, name: &str) -> Result<Arc<Repository>> {
        Ok(self.opened(name)?.repository)
    }

    /// Returns the store of a repository, limited to the restore rate.
    pub(crate) fn restore_store(&self, name: &str) -> Result<Arc<dyn Objects>> {
        Ok(Arc::new(self.opened(name)?.store.for_restore()))
    }

    fn opened(&self, name: &str) -> Result<Opened> {
        let from = Arc::clone(self.state().metadata.repository(name)?);
        // The lock is held until the repository is open, so that it is opened once. Opening sends no request to the
        // store.
        let mut open = self.repositories.open.lock();
        if let Some(opened) = open.get(name)
            && opened.from == from
        {
            return Ok(opened.clone());
        }
        let opened = self.open_repository(name, from)?;
        open.insert(name.to_owned(), opened.clone());
        Ok(opened)
    }

    fn open_repository(&self, name: &str, from: Arc<RepositoryMetadata>) -> Result<Opened> {
        let store = self.repositories.stores.open(name, &from.kind, &from.settings)?;
        let random = Arc::clone(&self.repositories.random);
        let writer = Writer {
            // Two registrations of one location are two writers.
            id: format!("{}/{name}", self.state().metadata.cluster_uuid),
            instances: Arc::clone(&self.repositories.instances),
            fresh_id: Arc::new(move || fresh_uuid(&mut random.lock())),
            now_ms: Arc::clone(&self.config.now_ms),
        };
        let repository = Repository::new(name, Arc::new(store.clone()), from.is_readonly(), writer);
        Ok(Opened {
            from,
            repository,
            store,
        })
    }
}

fn aborted(running: &Running) -> Error {
    Error::new(
        ErrorKind::Cancelled,
        format!("[{}:{}] aborted", running.repository, running.name),
    )
}

/// Fails unless the caller is an operator: snapshots hold events of all tenants.
pub(crate) fn check_operator(ctx: &RequestContext) -> Result<()> {
    match ctx.scope.is_unlimited() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Forbidden,
            format!("action [{}] is for operators", ctx.action),
        )),
    }
}
