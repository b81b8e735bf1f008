//! The control file: everything of [`State`] in one file that each change replaces.
//!
//! One line of head, then JSON ([format](../../../docs/formats/control.md)). The head's checksum is for
//! a disk that lost bytes; a power loss leaves the old file or the new one, whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::{Error, Result};
use firn_storage::Disk;

use crate::state::{State, Stored};

const NAME: &str = "control";
const MAGIC: &str = "firn-control";
const VERSION: u32 = 1;

/// The file in its folder.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Store {
    /// Makes the folder if there is none and reads the file if there is one. A damaged file is an
    /// error: without it, nobody would be known, and whoever came first would be let in.
    pub(crate) fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<(Self, Option<State>)> {
        disk.create_dir_all(folder)?;
        if let Some(parent) = folder.parent() {
            disk.sync_dir(parent)?;
        }
        let store = Self::at(disk, folder);
        let state = store.read()?;
        Ok((store, state))
    }

    /// The file of a folder, which need not be there.
    pub(crate) fn at(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self {
            path: folder.join(NAME),
            disk,
        }
    }

    /// What the file says; `None` if there is none.
    pub(crate) fn read(&self) -> Result<Option<State>> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let state = parse(&bytes).map_err(|reason| {
            Error::internal(format!(
                "refusing to start: the record of users, API keys and tenants in [{}] is damaged: {reason}; put back a \
                 copy of it, or move it away to begin with none",
                self.path.display()
            ))
        })?;
        Ok(Some(state))
    }

    /// Replaces the file; durable when it returns.
    pub(crate) fn write(&self, state: &State) -> Result<()> {
        self.disk.write_atomic(&self.path, &print(state)?)?;
        Ok(())
    }
}

fn print(state: &State) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(&Stored::of(state)).map_err(|error| Error::internal(error.to_string()))?;
    Ok(with_head(MAGIC, VERSION, &body))
}

fn parse(bytes: &[u8]) -> Result<State, String> {
    let stored: Stored = serde_json::from_slice(body_of(MAGIC, VERSION, bytes)?).map_err(|error| error.to_string())?;
    stored.open().map_err(|error| error.to_string())
}

/// A body after the line that says what it is, and by which its damage is found.
pub(crate) fn with_head(magic: &str, version: u32, body: &[u8]) -> Vec<u8> {
    let head = format!("{magic} {version} {:08x} {}\n", crc32c::crc32c(body), body.len());
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    bytes
}

/// What follows the head, or what is wrong with it.
pub(crate) fn body_of<'a>(expected_magic: &str, expected_version: u32, bytes: &'a [u8]) -> Result<&'a [u8], String> {
    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no head")?;
    let head = std::str::from_utf8(&bytes[..line]).map_err(|_| "its head is no text")?;
    let body = &bytes[line + 1..];
    let [magic, version, checksum, length] = head.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("its head is [{head}]"));
    };
    if magic != expected_magic {
        return Err(format!("it begins with [{magic}]"));
    }
    if version != expected_version.to_string() {
        return Err(format!(
            "it has version [{version}] and this firn reads [{expected_version}]"
        ));
    }
    if length != body.len().to_string() {
        return Err(format!(
            "its head promises [{length}] bytes and [{}] follow",
            body.len()
        ));
    }
    let found = format!("{:08x}", crc32c::crc32c(body));
    if found != checksum {
        return Err(format!("its checksum is [{found}] and its head says [{checksum}]"));
    }
    Ok(body)
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
        assert!(reason.ends_with("or move it away to begin with none"), "{reason}");
    }
}
