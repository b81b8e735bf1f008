//! Repositories that are open, and the snapshots that are being made in them.
//!
//! What lies in a repository and how it is committed is the business of `firn_storage::repository`; here segments
//! become splits on their way there, and shards of splits on their way back. What surprises: nothing here is
//! remembered across a restart. A snapshot that was not committed has never been, and what it had uploaded is
//! removed by the next one.

mod create;
mod failed;
mod known;
mod manage;
mod remount;
mod repair;
mod restore;
mod restores;
mod rewrite;
mod rewritten;
mod running;
mod select;
mod status;
mod tables;
mod tenant;
mod uploading;
mod uses;
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
use self::failed::FailedList;
pub(crate) use self::remount::check_holds_events;
use self::restores::Restores;
pub(crate) use self::restores::with_restored;
use self::rewritten::Rewritten;
use self::running::{Running, RunningList};
use self::uses::Uses;
pub(crate) use self::uses::{Reading, Use, Work};
use self::verify::Verifications;
use crate::engine::Core;
use crate::engine::ids::fresh_uuid;

/// Fails once work that takes long should stop.
type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// A registered repository that was used.
#[derive(Clone)]
struct Opened {
    from: Arc<RepositoryMetadata>,
    repository: Arc<Repository>,
    store: Guarded,
}

/// See the module.
pub(crate) struct Repositories {
    stores: Arc<ObjectStores>,
    /// The threads that wait for stores; `None`: nothing there can be reached.
    io: Option<Handle>,
    /// By name.
    open: Mutex<HashMap<String, Opened>>,
    running: Arc<RunningList>,
    failed: FailedList,
    verifications: Verifications,
    pub(crate) restores: Restores,
    pub(crate) uses: Arc<Uses>,
    /// What was made of splits for the deletion of a tenant.
    rewritten: Mutex<Rewritten>,
    /// Repositories that somebody still works with, whatever became of their registration.
    instances: Arc<Instances>,
    random: Arc<Mutex<fastrand::Rng>>,
}

impl Repositories {
    /// None is open.
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

    /// Stops what is being made: the process ends.
    pub(crate) fn stop(&self) {
        self.running.0.lock().iter().for_each(|running| running.cancel.cancel());
        self.verifications.stop();
    }

    fn fresh_uuid(&self) -> String {
        fresh_uuid(&mut self.random.lock())
    }

    /// Whether a split that says nothing of its tenants may hold events of one.
    pub(crate) fn is_unknown(&self, tenant: &str, split: &str) -> bool {
        self.rewritten.lock().is_unknown(tenant, split)
    }

    /// Those that are being made, wherever.
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
    /// The threads that wait for object stores.
    pub(crate) fn io(&self) -> Result<&Handle> {
        let io = self.repositories.io.as_ref();
        io.ok_or_else(|| Error::not_implemented("a snapshot repository without threads for object stores"))
    }

    /// A registered repository, open, which stays as it is registered until the use ends.
    pub(crate) fn repository_for(&self, name: &str, work: Work) -> Result<(Arc<Repository>, Use)> {
        let used = self.repositories.uses.begin(name, work)?;
        Ok((self.repository(name)?, used))
    }

    /// A snapshot of a repository, which nobody removes here until the reading ends.
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

    /// A registered repository, open.
    pub(crate) fn repository(&self, name: &str) -> Result<Arc<Repository>> {
        Ok(self.opened(name)?.repository)
    }

    /// What lies in a repository, read at the pace of restores.
    pub(crate) fn restore_store(&self, name: &str) -> Result<Arc<dyn Objects>> {
        Ok(Arc::new(self.opened(name)?.store.for_restore()))
    }

    fn opened(&self, name: &str) -> Result<Opened> {
        let from = Arc::clone(self.state().metadata.repository(name)?);
        // Held until it is open, so that nobody opens it twice: opening asks no store.
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
            // Two registrations of one place are two writers.
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

/// Snapshots hold events of everybody.
pub(crate) fn check_operator(ctx: &RequestContext) -> Result<()> {
    match ctx.scope.is_unlimited() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Forbidden,
            format!("action [{}] is for operators", ctx.action),
        )),
    }
}
