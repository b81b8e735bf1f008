//! File modes: only the user of the process can read the files in firn's data folders.
//!
//! The data folders contain the events of all tenants, password hashes and sessions. Folders get mode 0700 and files
//! 0600, whichever umask the process was started with. Folders of older builds are restricted at the start.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::Mode;

/// Mode bits that folders and files of firn must not have.
const PRIVATE: u32 = 0o077;

/// The umask that the process was started with.
static STARTED_WITH: OnceLock<u32> = OnceLock::new();

/// Restricts new files to the user of the process. Must be called before other threads exist.
pub(crate) fn keep_private() {
    let former = rustix::process::umask(Mode::from_raw_mode(PRIVATE as rustix::fs::RawMode));
    // At a second call the umask would be the one set here.
    STARTED_WITH.get_or_init(|| former.as_raw_mode() as u32);
}

/// Returns the umask that the process was started with, for files that other users may read: those of repositories, and
/// the ready file.
pub(crate) fn started_with() -> Option<u32> {
    STARTED_WITH.get().copied()
}

/// Makes a file readable for other users as far as the umask at the start permits.
pub(crate) fn share(path: &Path) -> io::Result<()> {
    match started_with() {
        Some(umask) => fs::set_permissions(path, fs::Permissions::from_mode(0o666 & !umask)),
        None => Ok(()),
    }
}

/// Result of [`tighten`] for one folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tightened {
    /// Files and folders that other users could access.
    pub(crate) changed: u64,
    /// Files and folders whose mode cannot be changed: they belong to another user, or the file system has no modes.
    pub(crate) refused: u64,
}

/// Creates a data folder if it is missing, and removes the access of other users to it and to all its contents. Does
/// not change links; counts entries that cannot be changed. Skips the contents of a folder that is private already,
/// because other users cannot reach them.
pub(crate) fn tighten(folder: &Path) -> io::Result<Tightened> {
    fs::create_dir_all(folder)?;
    let mut done = Tightened::default();
    if fs::metadata(folder)?.permissions().mode() & PRIVATE != 0 {
        tighten_entries(folder, &mut done);
        // Last: after a crash before this line the next start repeats the whole walk.
        tighten_one(folder, &fs::metadata(folder)?, &mut done);
    }
    Ok(done)
}

fn tighten_entries(folder: &Path, done: &mut Tightened) {
    // A folder that cannot be listed belongs to another user; an entry that disappears meanwhile needs no change.
    let Ok(entries) = fs::read_dir(folder) else {
        done.refused += 1;
        return;
    };
    for entry in entries.flatten() {
        // Metadata of the link itself.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            tighten_entries(&entry.path(), done);
        }
        if metadata.is_dir() || metadata.is_file() {
            tighten_one(&entry.path(), &metadata, done);
        }
    }
}

fn tighten_one(path: &Path, metadata: &fs::Metadata, done: &mut Tightened) {
    let mode = metadata.permissions().mode();
    if mode & PRIVATE == 0 {
        return;
    }
    let own = fs::Permissions::from_mode(mode & 0o7700);
    // Some file systems accept a mode without storing it.
    let is_private = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & PRIVATE == 0);
    match fs::set_permissions(path, own) {
        Ok(()) if is_private() => done.changed += 1,
        _ => done.refused += 1,
    }
}

/// Restricts the data folders and logs the changes.
pub(crate) fn tighten_all<'a>(folders: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    use anyhow::Context as _;
    for folder in folders {
        let done = tighten(folder).with_context(|| format!("cannot prepare the data folder [{}]", folder.display()))?;
        if done.changed > 0 {
            tracing::warn!(
                folder = %folder.display(),
                files = done.changed,
                "other users could read the data folder: removed their access (mode 0700, files 0600)"
            );
        }
        if done.refused > 0 {
            tracing::warn!(
                folder = %folder.display(),
                files = done.refused,
                "other users may read the data folder: its mode cannot be changed, it belongs to another user, or its \
                 file system has no modes"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    }

    #[test]
    fn folders_of_older_builds_are_tightened_once() {
        let parent = tempfile::tempdir().expect("a folder");
        let (data, outside) = (parent.path().join("data"), parent.path().join("outside"));
        fs::create_dir_all(data.join("indices/a")).expect("folders");
        let file = data.join("indices/a/segment");
        for path in [&file, &outside] {
            fs::write(path, "x").expect("a file");
            set(path, 0o644);
        }
        std::os::unix::fs::symlink(&outside, data.join("link")).expect("a link");
        for path in [&data, &data.join("indices"), &data.join("indices/a")] {
            set(path, 0o755);
        }
        let expect = Tightened { changed: 4, refused: 0 };
        assert_eq!(tighten(&data).expect("done"), expect);
        assert_eq!(
            (mode(&data), mode(&data.join("indices/a")), mode(&file)),
            (0o700, 0o700, 0o600)
        );
        assert_eq!(mode(&outside), 0o644, "links are not followed");
        assert_eq!(tighten(&data).expect("done"), Tightened::default());
        // The rights of the owner do not change.
        set(&data, 0o750);
        set(&file, 0o444);
        assert_eq!(tighten(&data).expect("done").changed, 2);
        assert_eq!(mode(&file), 0o400);
    }
}
