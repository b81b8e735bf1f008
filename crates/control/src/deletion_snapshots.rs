//! What the deletion of a tenant does to snapshots, as its statement says.

use firn_engine::snapshot::RewrittenSnapshot;
use serde::{Deserialize, Serialize};

use crate::deletion::Deletion;

/// Snapshots that a statement names: it is part of the control file, and whoever has more deletes them by a pattern.
pub(crate) const SNAPSHOTS_NAMED_MAX: usize = 1000;

/// A snapshot that holds events of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLeft {
    /// Where it lies.
    pub repository: String,
    /// Its name.
    pub snapshot: String,
    /// Its indices that hold such events.
    pub indices: Vec<String>,
    /// How many, as far as it says.
    pub documents: u64,
    /// Whether this node may not change it.
    pub is_readonly: bool,
}

/// What removing the tenant's events did to snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SnapshotsRewritten {
    /// Snapshots that held such events.
    pub snapshots: u64,
    /// Splits of theirs that were replaced by others without them; one that snapshots share counts for each.
    pub splits_rewritten: u64,
    /// Splits that held nothing else, counted alike.
    pub splits_dropped: u64,
    /// Documents of the tenant in them, deleted ones included, counted alike.
    pub documents: u64,
    /// Bytes of splits that were written.
    pub written_bytes: u64,
    /// Bytes of objects that went because no snapshot named them any more.
    pub removed_bytes: u64,
    /// The first of them.
    pub named: Vec<SnapshotRewritten>,
}

/// A snapshot that holds no events of the tenant any more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SnapshotRewritten {
    /// Where it lies.
    pub repository: String,
    /// Its name.
    pub snapshot: String,
    /// Its indices that held some.
    pub indices: Vec<String>,
    /// As of [`SnapshotsRewritten`], and so are the others.
    pub splits_rewritten: u64,
    /// See above.
    pub splits_dropped: u64,
    /// See above.
    pub documents: u64,
}

impl SnapshotsRewritten {
    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.snapshots == 0
    }
}

impl Deletion {
    /// Notes that objects of a repository may be left behind from now on; false: that is noted already.
    pub(crate) fn note_unswept(&mut self, repository: &str) -> bool {
        let is_new = !self.unswept.iter().any(|name| name == repository);
        if is_new {
            self.unswept.push(repository.to_owned());
        }
        is_new
    }

    /// Notes that a snapshot holds nothing of the tenant any more.
    pub(crate) fn note_rewritten(&mut self, repository: &str, snapshot: &str, done: RewrittenSnapshot) {
        self.snapshots
            .retain(|left| (left.repository.as_str(), left.snapshot.as_str()) != (repository, snapshot));
        if done.indices.is_empty() {
            return;
        }
        let all = &mut self.snapshots_rewritten;
        all.snapshots += 1;
        all.splits_rewritten += done.splits_rewritten;
        all.splits_dropped += done.splits_dropped;
        all.documents += done.documents;
        all.written_bytes += done.written_bytes;
        all.removed_bytes += done.removed_bytes;
        if all.named.len() < SNAPSHOTS_NAMED_MAX {
            all.named.push(SnapshotRewritten {
                repository: repository.to_owned(),
                snapshot: snapshot.to_owned(),
                indices: done.indices,
                splits_rewritten: done.splits_rewritten,
                splits_dropped: done.splits_dropped,
                documents: done.documents,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_adds_up_what_was_rewritten() {
        let mut deletion = Deletion::default();
        for snapshot in ["a", "b", "c"] {
            deletion.snapshots.push(SnapshotLeft {
                repository: "r".to_owned(),
                snapshot: snapshot.to_owned(),
                indices: vec!["logs".to_owned()],
                documents: 7,
                is_readonly: false,
            });
        }
        assert!(deletion.note_unswept("r") && !deletion.note_unswept("r"));
        let done = |documents| RewrittenSnapshot {
            indices: vec!["logs".to_owned()],
            splits_rewritten: 2,
            splits_dropped: 1,
            documents,
            written_bytes: 10,
            removed_bytes: 20,
        };
        deletion.note_rewritten("r", "a", done(7));
        deletion.note_rewritten("r", "b", done(5));
        // Somebody else was faster.
        deletion.note_rewritten("r", "c", RewrittenSnapshot::default());
        assert_eq!(deletion.snapshots, []);
        let all = &deletion.snapshots_rewritten;
        assert_eq!((all.snapshots, all.splits_rewritten, all.splits_dropped), (2, 4, 2));
        assert_eq!((all.documents, all.written_bytes, all.removed_bytes), (12, 20, 40));
        assert_eq!(all.named.len(), 2);
        let text = serde_json::to_string(&deletion).unwrap();
        assert_eq!(serde_json::from_str::<Deletion>(&text).unwrap(), deletion);
    }
}
