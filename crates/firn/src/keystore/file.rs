//! File of a keystore: its path and permissions.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::format::{self, Entries, Fresh, Header};
use crate::settings::SettingsError;

/// The name of the file.
const NAME: &str = "firn.keystore";
/// Dozens of secrets have some KB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file of a keystore, which may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeystoreFile {
    path: PathBuf,
}

impl KeystoreFile {
    /// Finds the keystore: beside the configuration file if there is one, else in the data folder. If it exists in one
    /// of the two places, that one is used. Two keystores are refused, because the wrong one might be used.
    pub(crate) fn find(config: Option<&Path>, data: &Path) -> Result<Self, SettingsError> {
        let in_data = data.join(NAME);
        let beside_config = config.map(|config| config.with_file_name(NAME));
        let path = match beside_config {
            Some(path) if path != in_data && path.exists() && in_data.exists() => {
                return Err(SettingsError(format!(
                    "there are two keystores, {} and {}: remove one",
                    path.display(),
                    in_data.display()
                )));
            }
            Some(path) if path.exists() || !in_data.exists() => path,
            _ => in_data,
        };
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes; `None` if there is no keystore. Refuses a file that other users may read or change.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, SettingsError> {
        let fail =
            |reason: String| SettingsError(format!("cannot read the keystore {}: {reason}", self.path.display()));
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error.to_string())),
        };
        if metadata.mode() & 0o077 != 0 {
            return Err(fail(format!(
                "other users than its owner may read or change it (mode {:03o}); run `chmod 600` on it",
                metadata.mode() & 0o777
            )));
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(fail(format!(
                "it has {} bytes, more than the {FILE_BYTES_MAX} allowed",
                metadata.len()
            )));
        }
        let bytes = fs::read(&self.path).map_err(|error| fail(error.to_string()))?;
        Header::read(&bytes).map_err(|error| fail(error.to_string()))?;
        Ok(Some(bytes))
    }

    /// Decrypts the secrets in bytes that [`Self::read`] returned.
    pub(crate) fn open(&self, bytes: &[u8], password: &str) -> Result<Entries, SettingsError> {
        format::open(bytes, password)
            .map_err(|error| SettingsError(format!("cannot open the keystore {}: {error}", self.path.display())))
    }

    /// Replaces the file as a whole; only its owner may read it from its first byte on.
    pub(crate) fn write(&self, entries: &Entries, password: &str) -> anyhow::Result<()> {
        let mut fresh = Fresh {
            salt: [0; 16],
            nonce: [0; 12],
        };
        getrandom::fill(&mut fresh.salt)
            .and_then(|()| getrandom::fill(&mut fresh.nonce))
            .context("the operating system provides no random bytes")?;
        let bytes = format::seal(entries, password, fresh);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            anyhow::bail!(
                "the keystore would have {} bytes, more than the {FILE_BYTES_MAX} allowed",
                bytes.len()
            );
        }
        self.replace(&bytes)
            .with_context(|| format!("cannot write the keystore {}", self.path.display()))
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder)?;
        let beside = folder.join(format!("{NAME}.tmp"));
        // Left by a crash; created again, because it may have other permissions.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        fs::File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_looked_for_in_two_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, data) = (folder.path().join("etc/firn.yml"), folder.path().join("data"));
        let find = |config: Option<&Path>| KeystoreFile::find(config, &data).map(|file| file.path);
        let (beside, inside) = (folder.path().join("etc/firn.keystore"), data.join("firn.keystore"));
        assert_eq!(find(None).expect("a place"), inside);
        assert_eq!(find(Some(&config)).expect("a place"), beside);
        KeystoreFile { path: inside.clone() }.replace(b"x").expect("a file");
        assert_eq!(find(Some(&config)).expect("a place"), inside);
        KeystoreFile { path: beside }.replace(b"x").expect("a file");
        let error = find(Some(&config)).expect_err("an error").0;
        assert!(error.contains("there are two keystores"), "{error}");
        assert_eq!(find(None).expect("a place"), inside);
    }

    #[test]
    fn only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = KeystoreFile::find(None, folder.path()).expect("a place");
        assert_eq!(file.read().map_err(|error| error.0), Ok(None));
        std::fs::write(folder.path().join("firn.keystore.tmp"), "left over").expect("a file");
        file.write(&Entries::new(), "").expect("a keystore");
        let mode = |mode: Option<u32>| {
            if let Some(mode) = mode {
                fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("permissions");
            }
            fs::metadata(file.path()).expect("a file").mode() & 0o777
        };
        assert_eq!(mode(None), 0o600);
        let bytes = file.read().map_err(|error| error.0).expect("readable").expect("there");
        assert!(file.open(&bytes, "").is_ok_and(|entries| entries.is_empty()));
        for open in [0o640, 0o604, 0o620, 0o601] {
            mode(Some(open));
            let error = file.read().expect_err("an error").0;
            assert!(error.contains(&format!("(mode {open:03o})")), "{error}");
        }
        mode(Some(0o400));
        assert!(file.read().is_ok());
    }
}
