//! Operations of a run on snapshots, mounts and restores.

use firn_engine::mounts::{MountSnapshot, SearchableSnapshots as _, Storage};
use firn_engine::snapshot::{
    CreateSnapshot, PutRepository, RestoreSnapshot, SnapshotInfo, SnapshotState, Snapshots as _,
};
use firn_engine::{ErrorKind, Result};
use serde_json::{Value, json};

use crate::model::{Index, Kind, Presence, Snapshot};
use crate::node::{Node, ctx, target};
use crate::run::Run;

/// Maximum snapshots of a run at the same time.
const SNAPSHOTS_MAX: usize = 4;

pub(crate) fn register(node: &Node) -> Result<()> {
    let request = PutRepository {
        name: "r".to_owned(),
        kind: "memory".to_owned(),
        settings: json!({}),
        verify: false,
    };
    node.run(node.engine.put_repository(&ctx(), request))
}

/// Whether a snapshot is complete.
pub(crate) fn is_whole(info: &SnapshotInfo) -> bool {
    info.state == SnapshotState::Success && info.failures.is_empty() && info.successful_shards == info.total_shards
}

pub(crate) fn request(name: &str, indices: &[String]) -> CreateSnapshot {
    let mut target = target("");
    target.expression = indices.to_vec();
    CreateSnapshot {
        repository: "r".to_owned(),
        name: name.to_owned(),
        target,
        include_global_state: false,
        partial: false,
        metadata: None,
        wait: true,
    }
}

impl Run<'_> {
    /// Takes a snapshot of some indices with local files.
    pub(crate) fn take_snapshot(&mut self) {
        if self.model.snapshots.len() >= SNAPSHOTS_MAX {
            return;
        }
        let mut names = self.model.names(|index| !matches!(index.kind, Kind::Mounted(_)));
        self.random.shuffle(&mut names);
        names.truncate(self.random.usize(1..3));
        if !names.is_empty() {
            let name = format!("snapshot-{}", self.fresh());
            self.snapshot(&name, &names);
        }
    }

    /// Takes a snapshot; returns whether it exists and is complete.
    pub(crate) fn snapshot(&mut self, name: &str, indices: &[String]) -> bool {
        let outcome = self
            .node()
            .run(self.node().engine.create_snapshot(&ctx(), request(name, indices)));
        let is_done = !self.is_down() && outcome.as_ref().is_ok_and(is_whole);
        self.note(
            &format!("snapshot {name} of {indices:?}"),
            &outcome.as_ref().map(|info| (info.state, info.failures.len())),
        );
        let snapshot = Snapshot {
            indices: indices
                .iter()
                .filter_map(|index| {
                    let there = self.model.indices.get(index)?;
                    Some((index.clone(), (there.docs.clone(), there.is_shared)))
                })
                .collect(),
            presence: match is_done {
                true => Presence::Certain,
                false => Presence::Doubtful,
            },
        };
        self.model.snapshots.insert(name.to_owned(), snapshot);
        is_done
    }

    pub(crate) fn delete_snapshot(&mut self) {
        let mounted = |name: &str| {
            let kind = Kind::Mounted(name.to_owned());
            self.model.indices.values().any(|index| index.kind == kind)
        };
        let mut names = self.model.snapshot_names();
        names.retain(|name| !mounted(name) && !self.is_of_a_policy(name));
        let Some(name) = self.random.choice(names) else { return };
        self.remove_snapshot(&name);
    }

    /// Removes a snapshot; returns whether it is gone.
    pub(crate) fn remove_snapshot(&mut self, name: &str) -> bool {
        let names = vec![name.to_owned()];
        let outcome = self.node().run(self.node().engine.delete_snapshot(&ctx(), "r", &names));
        let is_done = match &outcome {
            Ok(()) => !self.is_down(),
            Err(error) => error.kind() == ErrorKind::SnapshotMissing,
        };
        self.note(&format!("remove {name}"), &outcome);
        self.model.drop_snapshot(name, is_done);
        is_done
    }

    fn pick_of_snapshot(&mut self) -> Option<(String, String)> {
        let snapshot = self.random.choice(self.model.snapshot_names())?;
        let index = self.random.choice(
            self.model.snapshots[&snapshot]
                .indices
                .keys()
                .cloned()
                .collect::<Vec<_>>(),
        )?;
        Some((snapshot, index))
    }

    pub(crate) fn mount_some(&mut self) {
        if let Some((snapshot, index)) = self.pick_of_snapshot() {
            let name = format!("mounted-{}", self.fresh());
            let storage = match self.random.bool() {
                true => Storage::FullCopy,
                false => Storage::SharedCache,
            };
            self.mount(&snapshot, &index, &name, storage);
        }
    }

    /// Mounts an index; returns whether it exists.
    pub(crate) fn mount(&mut self, snapshot: &str, index: &str, name: &str, storage: Storage) -> bool {
        let mount = MountSnapshot {
            repository: "r".to_owned(),
            snapshot: snapshot.to_owned(),
            index: index.to_owned(),
            renamed_index: Some(name.to_owned()),
            storage,
            index_settings: Value::Null,
            ignore_index_settings: Vec::new(),
        };
        let outcome = self.node().run(self.node().engine.mount_snapshot(&ctx(), mount));
        let presence = self.presence_of(&outcome);
        self.note(
            &format!("mount {snapshot}/{index} as {name} ({})", storage.name()),
            &outcome.map(|mounted| mounted.successful_shards),
        );
        let (docs, is_shared) = self.model.snapshots[snapshot].indices[index].clone();
        let mounted = Index {
            docs,
            presence,
            kind: Kind::Mounted(snapshot.to_owned()),
            is_shared,
        };
        self.model.indices.insert(name.to_owned(), mounted);
        presence == Presence::Certain
    }

    pub(crate) fn restore(&mut self) {
        let Some((snapshot, index)) = self.pick_of_snapshot() else {
            return;
        };
        let name = format!("restored-{}", self.fresh());
        let request = RestoreSnapshot {
            repository: "r".to_owned(),
            snapshot: snapshot.clone(),
            indices: vec![index.clone()],
            ignore_unavailable: false,
            include_global_state: false,
            include_aliases: true,
            partial: false,
            rename: Some(("(.+)".to_owned(), name.clone())),
            index_settings: Value::Null,
            ignore_index_settings: Vec::new(),
            wait: true,
        };
        let outcome = self.node().run(self.node().engine.restore_snapshot(&ctx(), request));
        let presence = match &outcome {
            Ok(restored) if restored.done && restored.successful_shards == restored.total_shards && !self.is_down() => {
                Presence::Certain
            }
            _ => Presence::Doubtful,
        };
        self.note(&format!("restore {snapshot}/{index} as {name}"), &outcome);
        let (docs, is_shared) = self.model.snapshots[&snapshot].indices[&index].clone();
        let restored = Index {
            docs,
            presence,
            kind: Kind::Sealed,
            is_shared,
        };
        self.model.indices.insert(name, restored);
    }
}
