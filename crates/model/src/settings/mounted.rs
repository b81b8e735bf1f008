//! Settings of mounted indices (`index.store.snapshot.*`).

use serde_json::Value;

use super::{IndexSettings, Reader, SettingsMap};
use crate::tier::TIER_PREFERENCE;
use crate::{Error, Result};

const STORE_TYPE: &str = "index.store.type";
const REPOSITORY: &str = "index.store.snapshot.repository_name";
const REPOSITORY_UUID: &str = "index.store.snapshot.repository_uuid";
const SNAPSHOT: &str = "index.store.snapshot.snapshot_name";
const SNAPSHOT_UUID: &str = "index.store.snapshot.snapshot_uuid";
const INDEX: &str = "index.store.snapshot.index_name";
const INDEX_UUID: &str = "index.store.snapshot.index_uuid";
const PARTIAL: &str = "index.store.snapshot.partial";

/// Source of a mounted index: an index in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotStore {
    /// Name of the repository on this node.
    pub repository: String,
    /// Uuid stored in the repository; empty: the repository has none.
    pub repository_uuid: String,
    /// Name of the snapshot.
    pub snapshot: String,
    /// Uuid of the snapshot: a later snapshot may get the same name.
    pub snapshot_uuid: String,
    /// Name of the index in the snapshot.
    pub index: String,
    /// Uuid of the index in the snapshot.
    pub index_uuid: String,
    /// Read through the shared cache (frozen); `false`: copied to this node (cold).
    pub partial: bool,
}

impl SnapshotStore {
    /// Reads the source from the settings of an index; `None`: it is not mounted.
    pub(super) fn read(read: &Reader<'_>) -> Result<Option<Self>> {
        if read.text(STORE_TYPE) != "snapshot" {
            return Ok(None);
        }
        Ok(Some(Self {
            repository: read.text(REPOSITORY),
            repository_uuid: read.text(REPOSITORY_UUID),
            snapshot: read.text(SNAPSHOT),
            snapshot_uuid: read.text(SNAPSHOT_UUID),
            index: read.text(INDEX),
            index_uuid: read.text(INDEX_UUID),
            partial: read.text(PARTIAL) == "true",
        }))
    }

    /// Prints the source as flat settings.
    fn print(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            (STORE_TYPE, "snapshot"),
            (REPOSITORY, &self.repository),
            (REPOSITORY_UUID, &self.repository_uuid),
            (SNAPSHOT, &self.snapshot),
            (SNAPSHOT_UUID, &self.snapshot_uuid),
            (INDEX, &self.index),
            (INDEX_UUID, &self.index_uuid),
            (PARTIAL, if self.partial { "true" } else { "false" }),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
    }
}

impl IndexSettings {
    /// Returns the settings of a mounted index: those in the snapshot, which were accepted before, overridden by the
    /// `changes` of the mount request, which are checked; `null` removes a setting.
    pub fn mounted(in_snapshot: &SettingsMap, changes: &SettingsMap, store: &SnapshotStore) -> Result<Self> {
        let mut typed = in_snapshot.clone();
        // These settings describe the source index, or the mount that the source index itself was.
        typed.retain(|name, _| {
            !name.starts_with("index.store.") && name != "index.uuid" && name != "index.blocks.write"
        });
        let tiers = match store.partial {
            true => "data_frozen",
            false => "data_cold,data_warm,data_hot",
        };
        typed.insert(TIER_PREFERENCE.to_owned(), tiers.into());
        for (name, value) in changes {
            if ["index.number_of_shards", "index.period", "index.tenant.field"].contains(&name.as_str()) {
                return Err(Error::illegal_argument(format!(
                    "cannot modify setting [{name}] on restore"
                )));
            }
            match value.is_null() {
                true => {
                    typed.remove(name);
                }
                false => {
                    super::definitions::check(name, value)?;
                    typed.insert(name.clone(), value.clone());
                }
            }
        }
        // There is one local copy; the repository is the other.
        typed
            .entry("index.number_of_replicas".to_owned())
            .or_insert_with(|| "0".into());
        typed.insert("index.blocks.write".to_owned(), "true".into());
        for (name, value) in store.print() {
            typed.insert(name.to_owned(), Value::from(value));
        }
        Self::from_checked(typed)
    }

    /// Returns the same settings for an index that reads `store`.
    pub fn mounted_from(&self, store: &SnapshotStore) -> Result<Self> {
        let mut typed = self.typed.clone();
        for (name, value) in store.print() {
            typed.insert(name.to_owned(), Value::from(value));
        }
        Self::from_checked(typed)
    }

    /// Returns whether the index reads a snapshot through the shared cache.
    pub fn is_frozen(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|store| store.partial)
    }

    /// Returns whether the index is mounted from a snapshot, fully copied or not.
    pub fn is_mounted(&self) -> bool {
        self.snapshot.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::flatten;

    fn store() -> SnapshotStore {
        SnapshotStore {
            repository: "objects".to_owned(),
            repository_uuid: String::new(),
            snapshot: "nightly".to_owned(),
            snapshot_uuid: "s-uuid".to_owned(),
            index: "logs".to_owned(),
            index_uuid: "i-uuid".to_owned(),
            partial: true,
        }
    }

    fn flat(settings: serde_json::Value) -> SettingsMap {
        flatten(&settings, true).unwrap()
    }

    #[test]
    fn a_mounted_index_is_recognized_by_its_settings() {
        let before = flat(json!({"number_of_shards": 3, "blocks.write": false, "store.type": "fs", "period": "week"}));
        let settings = IndexSettings::mounted(&before, &flat(json!({"number_of_replicas": 2})), &store()).unwrap();
        assert_eq!(settings.snapshot.as_deref(), Some(&store()));
        assert!(settings.is_frozen() && settings.is_mounted() && settings.write_blocked);
        assert_eq!((settings.number_of_shards, settings.number_of_replicas), (3, 2));
        // As the catalog returns them, and as a mount of a snapshot of the mount reads them.
        assert_eq!(IndexSettings::from_checked(settings.typed.clone()).unwrap(), settings);
        let cold = SnapshotStore {
            partial: false,
            ..store()
        };
        let again = IndexSettings::mounted(&settings.typed, &SettingsMap::new(), &cold).unwrap();
        assert!(!again.is_frozen() && again.is_mounted());
        assert_eq!(again.number_of_replicas, 2);
    }

    #[test]
    fn it_accepts_no_writes_even_without_a_block() {
        let settings = IndexSettings::mounted(&SettingsMap::new(), &SettingsMap::new(), &store()).unwrap();
        let changes = flat(json!({"blocks.write": null}));
        let open = settings.update(&changes, false, false, "logs", "uuid").unwrap();
        assert!(open.write_blocked);
    }

    #[test]
    fn users_set_nothing_of_it() {
        for settings in [
            json!({"store.type": "snapshot"}),
            json!({"store.snapshot.snapshot_name": "s"}),
        ] {
            assert!(IndexSettings::parse(&settings).is_err(), "{settings}");
        }
        for changes in [
            json!({"number_of_shards": 2}),
            json!({"store.snapshot.partial": "false"}),
            json!({"nonsense": 1}),
        ] {
            let refused = IndexSettings::mounted(&SettingsMap::new(), &flat(changes), &store());
            assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::IllegalArgument);
        }
    }
}
