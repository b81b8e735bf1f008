//! Copies of folders, for tests that damage or reopen them.

use std::fs;
use std::path::Path;

/// Copies a folder with everything below it, and returns the bytes of all files. Panics if that fails.
pub fn copy_folder(from: &Path, to: &Path) -> u64 {
    copy(from, to).unwrap_or_else(|error| panic!("copying {} to {}: {error}", from.display(), to.display()))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<u64> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    let mut bytes = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        bytes += match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target)?,
        };
    }
    Ok(bytes)
}
