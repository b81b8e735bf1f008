//! Control file: the whole [`State`] in one file that each change replaces.
//!
//! One header line, then JSON ([format](../../../docs/formats/control.md)). The checksum in the header detects a disk
//! that lost bytes; after a power loss the file is either the old one or the new one, complete.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::{Error, Result};
use firn_storage::{Disk, checked_file};

use crate::state::{State, Stored};

const NAME: &str = "control";
const MAGIC: &str = "firn-control";
const VERSION: u32 = 1;

/// Marker file beside the folder, written once a control file exists, so that a lost folder is not taken for a new one.
const EXISTS: &str = "control.exists";
const EXISTS_TEXT: &[u8] =
    b"This data folder has a record of users, API keys and tenants: control/control. Without it firn does not start.\n";

/// Control file in its folder.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// The marker [`EXISTS`]; `None`: the folder has no parent.
    marker: Option<PathBuf>,
}

impl Store {
    /// Creates the folder if it is missing, and reads the file if it exists. A damaged file is an error: without its
    /// users, the server would accept the first caller.
    pub(crate) fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<(Self, Option<State>)> {
        disk.create_dir_all(folder)?;
        if let Some(parent) = folder.parent() {
            disk.sync_dir(parent)?;
        }
        let store = Self::at(disk, folder);
        let state = store.read()?;
        if state.is_some() {
            store.mark();
        }
        Ok((store, state))
    }

    /// Returns the file of a folder, which need not exist.
    pub(crate) fn at(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self {
            path: folder.join(NAME),
            marker: folder.parent().map(|parent| parent.join(EXISTS)),
            disk,
        }
    }

    /// Allows a start with a lost control file: as if there had never been one.
    pub(crate) fn accept_loss(&self) -> Result<()> {
        if let Some(marker) = &self.marker
            && !self.disk.exists(&self.path)?
            && self.disk.exists(marker)?
        {
            self.disk.remove_file(marker)?;
        }
        Ok(())
    }

    /// Writes the marker if it is missing. A full disk must not fail the change that was made: the next change tries
    /// again.
    fn mark(&self) {
        let Some(marker) = &self.marker else { return };
        let is_marked = self.disk.exists(marker).unwrap_or(false);
        if !is_marked && let Err(error) = self.disk.write_atomic(marker, EXISTS_TEXT) {
            tracing::warn!(%error, path = %marker.display(), "cannot write the marker of the control file");
        }
    }

    fn is_marked(&self) -> Result<bool> {
        match &self.marker {
            Some(marker) => Ok(self.disk.exists(marker)?),
            None => Ok(false),
        }
    }

    /// Reads the file; `None` if there never was one. Fails if there was one and it is missing.
    pub(crate) fn read(&self) -> Result<Option<State>> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match self.is_marked()? {
                    false => Ok(None),
                    true => Err(Error::internal(format!(
                        "refusing to start: the record of users, API keys and tenants [{}] is missing, and [{EXISTS}] \
                         says that there was one; without it the server would be open to everyone. Put back a copy of it, or \
                         start once with --start-without-users to begin with no users",
                        self.path.display()
                    ))),
                };
            }
            Err(error) => return Err(error.into()),
        };
        let state = parse(&bytes).map_err(|reason| {
            Error::internal(format!(
                "refusing to start: the record of users, API keys and tenants in [{}] is damaged: {reason}; put back a \
                 copy of it, or move it away and start once with --start-without-users",
                self.path.display()
            ))
        })?;
        Ok(Some(state))
    }

    /// Replaces the file; durable when it returns.
    pub(crate) fn write(&self, state: &State) -> Result<()> {
        self.disk.write_atomic(&self.path, &print(state)?)?;
        self.mark();
        Ok(())
    }
}

fn print(state: &State) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(&Stored::of(state)).map_err(|error| Error::internal(error.to_string()))?;
    Ok(checked_file::print(MAGIC, VERSION, &body))
}

fn parse(bytes: &[u8]) -> Result<State, String> {
    let stored: Stored =
        serde_json::from_slice(checked_file::parse(MAGIC, VERSION, bytes)?).map_err(|error| error.to_string())?;
    stored.open().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use firn_model::tenant::{TenantId, TenantSettings};
    use firn_storage::sim::SimDisk;

    use super::*;
    use crate::tenants::TenantRecord;

    fn with_tenants(names: &[&str]) -> State {
        let mut state = State::default();
        for name in names {
            let id = TenantId::parse(name).unwrap();
            let record = TenantRecord {
                id: id.clone(),
                settings: TenantSettings::default(),
                created_ms: 1,
                deleting_since_ms: None,
            };
            state.tenants.insert(id, Arc::new(record));
        }
        state
    }

    #[test]
    fn reads_what_it_wrote() {
        let disk = Arc::new(SimDisk::new());
        let (store, none) = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, Path::new("/data/control")).unwrap();
        assert!(none.is_none());
        store.write(&with_tenants(&["a", "b"])).unwrap();
        let (_, state) = Store::open(disk, Path::new("/data/control")).unwrap();
        assert_eq!(state.unwrap().tenants.len(), 2);
    }

    #[test]
    fn a_lost_file_is_not_taken_for_one_that_never_was() {
        let (disk, folder) = (SimDisk::new(), Path::new("/data/control"));
        let open = || Store::open(Arc::new(disk.clone()), folder);
        let (store, _) = open().unwrap();
        assert!(open().unwrap().1.is_none(), "nothing was written");
        store.write(&with_tenants(&["a"])).unwrap();
        disk.remove_file(&folder.join(NAME)).unwrap();
        let reason = open().unwrap_err().reason().to_owned();
        assert!(reason.contains("[/data/control/control] is missing"), "{reason}");
        disk.remove_dir_all(folder).unwrap();
        assert!(open().is_err(), "nor a folder");
        store.accept_loss().unwrap();
        assert!(open().unwrap().1.is_none());
    }

    #[test]
    fn a_record_that_is_there_is_never_given_up() {
        let (disk, folder) = (SimDisk::new(), Path::new("/data/control"));
        let (store, _) = Store::open(Arc::new(disk.clone()), folder).unwrap();
        store.write(&with_tenants(&["a"])).unwrap();
        store.accept_loss().unwrap();
        assert!(store.is_marked().unwrap());
        // A control file of an earlier build gets its marker when it is opened.
        disk.remove_file(Path::new("/data/control.exists")).unwrap();
        assert!(Store::open(Arc::new(disk.clone()), folder).unwrap().1.is_some());
        assert!(store.is_marked().unwrap());
    }

    #[test]
    fn any_changed_byte_is_found() {
        let good = print(&with_tenants(&["a"])).unwrap();
        parse(&good).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x04;
            assert!(parse(&bad).is_err(), "byte {at}");
        }
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn a_damaged_file_is_named() {
        let disk = Arc::new(SimDisk::new());
        disk.create_dir_all(Path::new("/data/control")).unwrap();
        disk.write_atomic(Path::new("/data/control/control"), b"firn-control 1 00000000 2\n{}")
            .unwrap();
        let error = Store::open(disk, Path::new("/data/control")).unwrap_err();
        let reason = error.reason();
        assert!(
            reason.contains("[/data/control/control] is damaged: its checksum is ["),
            "{reason}"
        );
        assert!(
            reason.ends_with("or move it away and start once with --start-without-users"),
            "{reason}"
        );
    }
}
