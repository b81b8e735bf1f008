//! Table of the work that uses repositories and snapshots now, so that neither is removed while it is in use.
//!
//! Longer uses, such as a mounted index, are in the metadata. A removal of a snapshot registers here first and then
//! reads the metadata. A mount registers here first, and stays registered until the metadata contains it. So one of the
//! two always sees the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// Kind of work with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Snapshot,
    Clone,
    Deletion,
    Rewriting,
    Cleanup,
    Restore,
    Mount,
    Analysis,
}

impl Work {
    /// Returns the reason why a repository cannot be modified, in the words of Elasticsearch.
    fn under_way(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot is in progress",
            Self::Clone => "snapshot clone is in progress",
            Self::Deletion => "snapshot deletion is in progress",
            Self::Rewriting => "removal of a tenant's events from a snapshot is in progress",
            Self::Cleanup => "repository clean up is in progress",
            Self::Restore => "snapshot restore is in progress",
            Self::Mount => "snapshot mount is in progress",
            Self::Analysis => "repository analysis is in progress",
        }
    }

    /// Returns the reason why a snapshot cannot be read.
    fn changes_snapshot(self) -> &'static str {
        match self {
            Self::Rewriting => "while events of a deleted tenant are removed from it",
            _ => "while it is being deleted",
        }
    }

    /// Returns the verb for an action that a reader of the snapshot prevents.
    fn verb(self) -> &'static str {
        match self {
            Self::Rewriting => "remove events of a deleted tenant from",
            _ => "delete",
        }
    }

    /// Returns the reason why a snapshot cannot be deleted.
    fn needs_snapshot(self) -> &'static str {
        match self {
            Self::Restore => "during a restore in progress",
            Self::Clone => "while it is being cloned",
            Self::Mount => "while an index is being mounted from it",
            _ => "while it is used",
        }
    }
}

/// The uuids of the repository and the snapshot, which do not depend on the name of the repository on this node.
type SnapshotId = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RepositoryLeases(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    next: u64,
    /// Works by repository name, one entry for each.
    works: Vec<(u64, String, Work)>,
    /// Repositories that are being registered again or unregistered.
    changing: BTreeSet<String>,
    /// Snapshots that are being read.
    reads: Vec<(u64, SnapshotId, Work)>,
    /// Snapshots that are being removed or rewritten.
    removals: BTreeMap<SnapshotId, Work>,
}

impl Tables {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Work with a repository, until this is dropped.
#[derive(Debug)]
pub(crate) struct Use(Arc<RepositoryLeases>, u64);

/// Registration or removal of a repository, until this is dropped.
#[derive(Debug)]
pub(super) struct Changing(Arc<RepositoryLeases>, String);

/// A read of a snapshot, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reading(Arc<RepositoryLeases>, u64);

/// Removal or rewriting of snapshots, until this is dropped.
#[derive(Debug)]
pub(super) struct Removal(Arc<RepositoryLeases>, Vec<SnapshotId>);

impl RepositoryLeases {
    /// Begins work with a repository. Fails with [`ErrorKind::Conflict`] while its registration changes.
    pub(crate) fn begin(self: &Arc<Self>, repository: &str, work: Work) -> Result<Use> {
        let mut tables = self.0.lock();
        if tables.changing.contains(repository) {
            return Err(being_changed(repository));
        }
        let number = tables.number();
        tables.works.push((number, repository.to_owned(), work));
        Ok(Use(Arc::clone(self), number))
    }

    /// Begins to change a registration. Fails with [`ErrorKind::Conflict`] while the repository is in use.
    pub(super) fn change(self: &Arc<Self>, repository: &str) -> Result<Changing> {
        let mut tables = self.0.lock();
        if let Some((_, _, work)) = tables.works.iter().find(|(_, name, _)| name == repository) {
            let why = work.under_way();
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("[{repository}] trying to modify or unregister repository that is currently used ({why})"),
            ));
        }
        match tables.changing.insert(repository.to_owned()) {
            true => Ok(Changing(Arc::clone(self), repository.to_owned())),
            false => Err(being_changed(repository)),
        }
    }

    /// Begins to read a snapshot. Fails with [`ErrorKind::SnapshotInProgress`] while it is removed.
    pub(crate) fn read(self: &Arc<Self>, name: &str, id: SnapshotId, work: Work) -> Result<Reading> {
        let mut tables = self.0.lock();
        if let Some(work) = tables.removals.get(&id) {
            return Err(Error::new(
                ErrorKind::SnapshotInProgress,
                format!("[{name}] cannot be used {}", work.changes_snapshot()),
            ));
        }
        let number = tables.number();
        tables.reads.push((number, id, work));
        Ok(Reading(Arc::clone(self), number))
    }

    /// Begins to remove or rewrite snapshots, all or none, each given with its name for errors. Fails with
    /// [`ErrorKind::SnapshotInProgress`] while one is read, removed or rewritten.
    pub(super) fn take(self: &Arc<Self>, snapshots: Vec<(String, SnapshotId)>, work: Work) -> Result<Removal> {
        let mut tables = self.0.lock();
        for (name, id) in &snapshots {
            let read = tables.reads.iter().find(|(_, read, _)| read == id);
            let why = match (read, tables.removals.get(id)) {
                (Some((_, _, work)), _) => work.needs_snapshot(),
                (None, Some(Work::Rewriting)) => Work::Rewriting.changes_snapshot(),
                (None, Some(_)) => "that is being deleted already",
                (None, None) => continue,
            };
            return Err(Error::new(
                ErrorKind::SnapshotInProgress,
                format!("[{name}] cannot {} snapshot {why}", work.verb()),
            ));
        }
        let ids: Vec<SnapshotId> = snapshots.into_iter().map(|(_, id)| id).collect();
        tables.removals.extend(ids.iter().map(|id| (id.clone(), work)));
        Ok(Removal(Arc::clone(self), ids))
    }
}

fn being_changed(repository: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("[{repository}] the repository is being registered again or unregistered"),
    )
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.0.lock().works.retain(|(number, _, _)| *number != self.1);
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.0.lock().changing.remove(&self.1);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.0.lock().reads.retain(|(number, _, _)| *number != self.1);
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        let mut tables = self.0.0.lock();
        self.1.iter().for_each(|id| {
            tables.removals.remove(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(snapshot: &str) -> SnapshotId {
        ("repository".to_owned(), snapshot.to_owned())
    }

    #[test]
    fn a_repository_in_use_cannot_be_changed() {
        let uses = Arc::new(RepositoryLeases::default());
        let works = [
            uses.begin("r", Work::Restore).unwrap(),
            uses.begin("r", Work::Mount).unwrap(),
        ];
        drop(uses.change("other").unwrap());
        for work in works {
            let refused = uses.change("r").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict);
            assert!(
                refused.reason().contains("that is currently used (snapshot "),
                "{refused}"
            );
            drop(work);
        }
        let changing = uses.change("r").unwrap();
        assert_eq!(uses.begin("r", Work::Snapshot).unwrap_err().kind(), ErrorKind::Conflict);
        assert!(uses.change("r").is_err());
        drop(changing);
        uses.begin("r", Work::Snapshot).unwrap();
    }

    #[test]
    fn a_snapshot_is_read_or_removed() {
        let uses = Arc::new(RepositoryLeases::default());
        let both = || vec![("r:a".to_owned(), id("a")), ("r:b".to_owned(), id("b"))];
        let reading = uses.read("r:b", id("b"), Work::Mount).unwrap();
        let refused = uses.take(both(), Work::Deletion).unwrap_err();
        assert_eq!(
            refused.reason(),
            "[r:b] cannot delete snapshot while an index is being mounted from it"
        );
        assert_eq!(refused.kind(), ErrorKind::SnapshotInProgress);
        // The refused removal holds none of them.
        drop(uses.read("r:a", id("a"), Work::Clone).unwrap());
        drop(reading);
        let removal = uses.take(both(), Work::Deletion).unwrap();
        assert!(uses.read("r:b", id("b"), Work::Mount).is_err() && uses.take(both(), Work::Deletion).is_err());
        drop(removal);
        let rewriting = uses.take(both(), Work::Rewriting).unwrap();
        let refused = uses.read("r:b", id("b"), Work::Mount).unwrap_err();
        assert_eq!(
            refused.reason(),
            "[r:b] cannot be used while events of a deleted tenant are removed from it"
        );
        let refused = uses.take(both(), Work::Deletion).unwrap_err();
        assert_eq!(
            refused.reason(),
            "[r:a] cannot delete snapshot while events of a deleted tenant are removed from it"
        );
        drop(rewriting);
        uses.read("r:b", id("b"), Work::Mount).unwrap();
    }
}
