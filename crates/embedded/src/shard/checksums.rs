//! The checksums of a segment's blocks: read when the segment is opened, made anew where they are damaged.

use std::path::Path;

use firn_model::Result;

use super::commit::{SegmentMeta, damaged};
use super::config::ShardConfig;
use crate::block_checksums::{CHECKSUMS_FILE, Checksums, FileChecksums, FileSum, decode, encode};

/// The checksums of a segment's files; `None`: it is older than they are, and the scrub will make them.
///
/// The file only repeats what the segment's files say, so damage to it loses nothing: all files are read against their
/// checksums in the commit point, and it is written anew.
pub(super) fn read(config: &ShardConfig, dir: &Path, meta: &SegmentMeta) -> Result<Option<Checksums>> {
    let path = dir.join(CHECKSUMS_FILE);
    let known = meta.files.get(CHECKSUMS_FILE);
    let bytes = match config.disk.read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let is_there = bytes.is_some();
    let bytes = bytes.filter(|bytes| known.is_none_or(|sum| *sum == FileSum::of(bytes)));
    let checksums = bytes.and_then(|bytes| decode(&bytes));
    let checksums = checksums.filter(|checksums| covers(checksums, meta));
    if checksums.is_some() || (known.is_none() && !is_there) {
        return Ok(checksums);
    }
    tracing::warn!(path = %path.display(), "a file of checksums is damaged: it is made anew");
    let mut made = Checksums::new();
    for (name, sum) in files(meta) {
        let path = dir.join(name);
        let checksums = FileChecksums::of(&config.disk.map(&path)?);
        if checksums.whole != *sum {
            return Err(damaged(&path, "its checksum does not match"));
        }
        made.insert(name.clone(), checksums);
    }
    if let Err(error) = write(config, dir, &made) {
        // The next start does it again.
        tracing::warn!(path = %path.display(), %error, "cannot write a file of checksums");
    }
    Ok(Some(made))
}

/// Writes the file of checksums of a segment that is there already, durably.
pub(super) fn write(config: &ShardConfig, dir: &Path, checksums: &Checksums) -> Result<()> {
    config
        .disk
        .write_atomic(&dir.join(CHECKSUMS_FILE), &encode(checksums))?;
    Ok(())
}

/// The files that have checksums of their blocks.
pub(super) fn files(meta: &SegmentMeta) -> impl Iterator<Item = (&String, &FileSum)> {
    meta.files.iter().filter(|(name, _)| *name != CHECKSUMS_FILE)
}

/// Whether they are those of these files.
fn covers(checksums: &Checksums, meta: &SegmentMeta) -> bool {
    let mut files = files(meta);
    files.all(|(name, sum)| checksums.get(name).is_some_and(|file| file.whole == *sum))
}
