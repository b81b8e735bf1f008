//! Open repositories, and the work that runs in them.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::snapshot::RunningSnapshot;
use firn_model::repository::{RepositoryMetadata, snapshot_missing};
use firn_model::{Error, Result};
use firn_storage::object::{Guarded, ObjectStores, Objects};
use firn_storage::repository::{Instances, Repository, SnapshotEntry, State, Writer};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::failed_snapshots::FailedList;
use super::repository_leases::{Reading, RepositoryLeases, Use, Work};
use super::restores::Restores;
use super::rewrite_memo::Rewritten;
use super::running_snapshots::{Running, RunningList};
use super::verifications::Verifications;
use crate::node::Node;
use crate::node::index_ids::fresh_uuid;

/// A registered repository that was opened.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(super) from: Arc<RepositoryMetadata>,
    pub(super) repository: Arc<Repository>,
    pub(super) store: Guarded,
}

/// All open repositories, and the work that runs in them.
pub(crate) struct Repositories {
    node: Arc<Node>,
    pub(super) stores: Arc<ObjectStores>,
    /// Runtime whose threads wait for object stores; `None`: no store can be reached.
    pub(super) io: Option<Handle>,
    /// By repository name.
    pub(super) open: Mutex<HashMap<String, Opened>>,
    pub(super) running: Arc<RunningList>,
    pub(super) failed: FailedList,
    pub(super) verifications: Verifications,
    pub(crate) restores: Restores,
    pub(crate) uses: Arc<RepositoryLeases>,
    /// Splits that were rewritten for the deletion of a tenant.
    pub(super) rewritten: Mutex<Rewritten>,
    /// Repositories in use, also after they were unregistered or registered again.
    pub(super) instances: Arc<Instances>,
    pub(super) random: Arc<Mutex<fastrand::Rng>>,
}

impl Repositories {
    /// Creates the list without open repositories.
    pub(crate) fn new(node: Arc<Node>, seed: u64) -> Self {
        Self {
            stores: Arc::clone(&node.config.object_stores),
            io: node.config.io.clone(),
            node,
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

    pub(super) fn fresh_uuid(&self) -> String {
        fresh_uuid(&mut self.random.lock())
    }

    /// Whether a split whose manifest does not list its tenants may hold events of a tenant.
    pub(crate) fn is_unknown(&self, tenant: &str, split: &str) -> bool {
        self.rewritten.lock().is_unknown(tenant, split)
    }

    /// Returns the running snapshots of all repositories.
    pub(super) fn running_now(&self) -> Vec<RunningSnapshot> {
        let running = self.running.0.lock();
        let one = |running: &Arc<Running>| RunningSnapshot {
            repository: running.repository.clone(),
            snapshot: running.name.clone(),
            start_ms: running.start_ms,
        };
        running.iter().map(one).collect()
    }

    pub(super) fn running_in(&self, repository: &str) -> Vec<Arc<Running>> {
        let running = self.running.0.lock();
        let own = running.iter().filter(|running| running.repository == repository);
        own.cloned().collect()
    }

    /// Returns the runtime whose threads wait for object stores.
    pub(crate) fn io(&self) -> Result<&Handle> {
        let io = self.io.as_ref();
        io.ok_or_else(|| Error::not_implemented("a snapshot repository without threads for object stores"))
    }

    /// Returns a registered repository, open. Its registration cannot change until the returned `Use` is dropped.
    pub(crate) fn repository_for(&self, name: &str, work: Work) -> Result<(Arc<Repository>, Use)> {
        let used = self.uses.begin(name, work)?;
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
        let reading = self.uses.read(&place, id, work)?;
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

    pub(super) fn opened(&self, name: &str) -> Result<Opened> {
        let from = Arc::clone(self.node.state().metadata.repository(name)?);
        // The lock is held until the repository is open, so that it is opened once. Opening sends no request to the
        // store.
        let mut open = self.open.lock();
        if let Some(opened) = open.get(name)
            && opened.from == from
        {
            return Ok(opened.clone());
        }
        let opened = self.open_repository(name, from)?;
        open.insert(name.to_owned(), opened.clone());
        Ok(opened)
    }

    pub(super) fn open_repository(&self, name: &str, from: Arc<RepositoryMetadata>) -> Result<Opened> {
        let store = self.stores.open(name, &from.kind, &from.settings)?;
        let random = Arc::clone(&self.random);
        let writer = Writer {
            // Two registrations of one location are two writers.
            id: format!("{}/{name}", self.node.state().metadata.cluster_uuid),
            instances: Arc::clone(&self.instances),
            fresh_id: Arc::new(move || fresh_uuid(&mut random.lock())),
            now_ms: Arc::clone(&self.node.config.now_ms),
        };
        let repository = Repository::new(name, Arc::new(store.clone()), from.is_readonly(), writer);
        Ok(Opened {
            from,
            repository,
            store,
        })
    }
}
