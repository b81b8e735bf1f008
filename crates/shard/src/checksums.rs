//! Block checksums of a segment: read when the segment is opened, rebuilt if damaged.

use std::path::Path;

use firn_model::Result;
use firn_segment::block_checksums::{CHECKSUMS_FILE, Checksums, FileChecksums, FileSum, decode, encode};
use firn_segment::commit_point::{SegmentMeta, damaged};

use super::config::ShardConfig;

/// Returns the checksums of a segment's files; `None`: the segment is from an older version, and the scrub adds them.
///
/// The file is derived from the segment's files, so damage to it loses nothing: all files are verified against their
/// checksums in the commit point, and it is written again.
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
    tracing::warn!(path = %path.display(), "a file of checksums is damaged: it is rebuilt");
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
        // The next start tries again.
        tracing::warn!(path = %path.display(), %error, "cannot write a file of checksums");
    }
    Ok(Some(made))
}

/// Writes the file of checksums of an existing segment durably.
pub(super) fn write(config: &ShardConfig, dir: &Path, checksums: &Checksums) -> Result<()> {
    config
        .disk
        .write_atomic(&dir.join(CHECKSUMS_FILE), &encode(checksums))?;
    Ok(())
}

/// Returns the files that have block checksums.
pub(super) fn files(meta: &SegmentMeta) -> impl Iterator<Item = (&String, &FileSum)> {
    meta.files.iter().filter(|(name, _)| *name != CHECKSUMS_FILE)
}

/// Whether the checksums are those of the segment's files.
fn covers(checksums: &Checksums, meta: &SegmentMeta) -> bool {
    let mut files = files(meta);
    files.all(|(name, sum)| checksums.get(name).is_some_and(|file| file.whole == *sum))
}
