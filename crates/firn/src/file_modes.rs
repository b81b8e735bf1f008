//! Modes of files: what firn makes in its data folders is for its own user alone.
//!
//! The data folders hold everybody's events, hashes of passwords and sessions. They get mode 0700 and files in them 0600, whatever the umask
//! of the process was. Folders of older builds are tightened at the start.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::Mode;

/// The mode bits that neither folders nor files of firn's own have.
const PRIVATE: u32 = 0o077;

/// The umask that the process was started with.
static STARTED_WITH: OnceLock<u32> = OnceLock::new();

/// From now on new files are for the user of the process alone. To be called before there are other threads.
pub(crate) fn keep_private() {
    let former = rustix::process::umask(Mode::from_raw_mode(PRIVATE as rustix::fs::RawMode));
    // Once more it would be firn's own.
    STARTED_WITH.get_or_init(|| former.as_raw_mode() as u32);
}

/// The umask that the process was started with, for files that are meant for others: those of repositories, and the one
/// that says that the server answers.
pub(crate) fn started_with() -> Option<u32> {
    STARTED_WITH.get().copied()
}

/// Lets others read a file as far as the umask at the start does.
pub(crate) fn share(path: &Path) -> io::Result<()> {
    match started_with() {
        Some(umask) => fs::set_permissions(path, fs::Permissions::from_mode(0o666 & !umask)),
        None => Ok(()),
    }
}

/// What [`tighten`] did in one folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tightened {
    /// Files and folders that others could read.
    pub(crate) changed: u64,
    /// Those whose mode cannot be changed: they belong to another user, or the file system has no modes.
    pub(crate) refused: u64,
}

/// Makes a data folder, if it is missing, and takes everybody else's rights to it and all that lies in it away. Links are left as they
/// are, and what cannot be changed is counted. A folder that has been private before is not looked through: nobody reaches what
/// lies in it.
pub(crate) fn tighten(folder: &Path) -> io::Result<Tightened> {
    fs::create_dir_all(folder)?;
    let mut done = Tightened::default();
    if fs::metadata(folder)?.permissions().mode() & PRIVATE != 0 {
        tighten_entries(folder, &mut done);
        // Last: a process that ends before it begins anew at the next start.
        tighten_one(folder, &fs::metadata(folder)?, &mut done);
    }
    Ok(done)
}

fn tighten_entries(folder: &Path, done: &mut Tightened) {
    // What cannot be listed is other users', and what goes away meanwhile needs nothing.
    let Ok(entries) = fs::read_dir(folder) else {
        done.refused += 1;
        return;
    };
    for entry in entries.flatten() {
        // Of a link the link.
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
    // Some file systems take a mode and keep their own.
    let is_private = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & PRIVATE == 0);
    match fs::set_permissions(path, own) {
        Ok(()) if is_private() => done.changed += 1,
        _ => done.refused += 1,
    }
}

/// Tightens the data folders, and says in the log what it did.
pub(crate) fn tighten_all<'a>(folders: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    use anyhow::Context as _;
    for folder in folders {
        let done = tighten(folder).with_context(|| format!("cannot make the data folder [{}]", folder.display()))?;
        if done.changed > 0 {
            tracing::warn!(
                folder = %folder.display(),
                files = done.changed,
                "others could read the data folder: took their rights away (mode 0700, files 0600)"
            );
        }
        if done.refused > 0 {
            tracing::warn!(
                folder = %folder.display(),
                files = done.refused,
                "others may be able to read the data folder, and its mode cannot be changed: it belongs to another user, or its \
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
        // Rights of the owner stay what they are.
        set(&data, 0o750);
        set(&file, 0o444);
        assert_eq!(tighten(&data).expect("done").changed, 2);
        assert_eq!(mode(&file), 0o400);
    }
}
