//! Commit points: durable list of the segments of a shard. Format: `docs/formats/shard.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_model::{Error, ErrorKind, Result};
use firn_storage::checked_file;
use firn_storage::disk::Disk;
use serde::{Deserialize, Serialize};

use super::deletes::DeleteSet;
use crate::block_checksums::FileSum;
use crate::catalog_version::NotedVersion;

/// First word of a commit point.
const MAGIC: &str = "firn-shard";
/// The only version of the format so far.
const VERSION: u32 = 1;

/// Content of a commit point.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitPoint {
    /// Increases with every commit point; also in the file name.
    pub number: u64,
    /// UUID of the index.
    pub index_uuid: String,
    /// Number of the shard in the index.
    pub shard: u32,
    /// The cluster of the shard, and the catalog version at that time; absent in commit points of earlier
    /// builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<NotedVersion>,
    /// All operations with a lower sequence number are in the segments.
    pub next_seq_no: u64,
    /// Lower generations are used as folder names already.
    pub next_generation: u64,
    /// Generation of the WAL where replay starts.
    pub wal_generation: u64,
    /// The segments of the shard.
    pub segments: Vec<CommittedSegment>,
    /// What the segments hold of sources that can be read again, by source and partition; absent in commit points of
    /// earlier builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_marks: BTreeMap<String, SourceMark>,
}

/// How far a partition of a source is applied to a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceMark {
    /// Number of the attempt. A mark of an earlier attempt says nothing about a later one, whose events may go to other
    /// shards.
    pub epoch: u64,
    /// First offset of the last bulk.
    pub first_offset: u64,
    /// Every event that the attempt sends to this shard is applied or rejected up to this offset.
    pub last_offset: u64,
    /// Offsets of the last bulk that the index rejected for good. Without the reasons, which may quote the event of a tenant
    /// that is erased later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<u64>,
}

impl SourceMark {
    /// Adds what a later batch applied.
    pub fn advance(&mut self, later: Self) {
        let is_same_attempt = self.epoch == later.epoch;
        if is_same_attempt && self.first_offset == later.first_offset {
            self.last_offset = self.last_offset.max(later.last_offset);
            self.rejected.extend(later.rejected);
        } else {
            *self = Self {
                last_offset: match is_same_attempt {
                    true => self.last_offset.max(later.last_offset),
                    false => later.last_offset,
                },
                ..later
            };
        }
    }
}

/// A segment in a commit point.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommittedSegment {
    /// Its immutable properties.
    #[serde(flatten)]
    pub meta: SegmentMeta,
    /// `None`: no document is deleted.
    pub deletes: Option<DeletesFile>,
}

/// Immutable properties of a segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentMeta {
    /// Generation; the name of its folder.
    pub generation: u64,
    /// Number of documents, including deleted ones.
    pub docs: u32,
    /// Number of documents with a user-given id.
    pub user_ids: u32,
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC; `None`: no document has one.
    pub time_range_ms: Option<(i64, i64)>,
    /// Number of documents without an `@timestamp`.
    pub without_time: u32,
    /// Inclusive bounds of sequence numbers.
    pub seq_no_range: (u64, u64),
    /// Whether documents are in the order of their sequence numbers.
    pub ordered: bool,
    /// Whether `@timestamp` has nanosecond resolution.
    #[serde(default)]
    pub is_nanos: bool,
    /// The only tenant of the segment; it is merged only with segments of the same tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_tenant: Option<String>,
    /// Size of its files, bytes.
    pub size_bytes: u64,
    /// Its files, by name, with length and checksum.
    pub files: BTreeMap<String, FileSum>,
}

/// File with the deletes of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletesFile {
    /// File name in `segments/`.
    pub name: String,
    /// Number of deleted documents.
    pub count: u32,
    pub(crate) sum: FileSum,
}

impl CommitPoint {
    /// Writes the commit point durably, beside the previous one.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let body = serde_json::to_vec_pretty(self)?;
        let mut bytes = format!("{MAGIC} {VERSION} {:08x} {}\n", crc32c::crc32c(&body), body.len()).into_bytes();
        bytes.extend_from_slice(&body);
        disk.write_atomic(&dir.join(file_name(self.number)), &bytes)?;
        Ok(())
    }

    /// Reads the newest commit point of a folder; `None`: there is none.
    pub fn read_newest(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>> {
        match numbers(disk, dir)?.last() {
            Some(number) => Self::read(disk, &dir.join(file_name(*number))).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the catalog version in the newest commit point of a folder; `None`: it has none, or cannot be read.
    pub fn read_catalog(disk: &dyn Disk, dir: &Path) -> Option<NotedVersion> {
        #[derive(Deserialize)]
        struct OfCatalog {
            catalog: Option<NotedVersion>,
        }
        let number = *numbers(disk, dir).ok()?.last()?;
        let bytes = disk.read(&dir.join(file_name(number))).ok()?;
        let body = checked_file::parse(MAGIC, VERSION, &bytes).ok()?;
        serde_json::from_slice::<OfCatalog>(body).ok()?.catalog
    }

    fn read(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let bytes = disk.read(path)?;
        let damaged = |what: &str| damaged(path, what);
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or_else(|| damaged("its first line is not terminated"))?;
        let header = std::str::from_utf8(&bytes[..end]).map_err(|_| damaged("its first line is not UTF-8"))?;
        let body = &bytes[end + 1..];
        let parts: Vec<&str> = header.split(' ').collect();
        let [magic, version, crc, length] = parts[..] else {
            return Err(damaged("its first line is not that of a commit point"));
        };
        if magic != MAGIC {
            return Err(damaged("its first line is not that of a commit point"));
        }
        if version != VERSION.to_string() {
            return Err(damaged(&format!(
                "it has format version {version}, this firn reads {VERSION}"
            )));
        }
        let whole = length.parse() == Ok(body.len());
        let intact = u32::from_str_radix(crc, 16) == Ok(crc32c::crc32c(body));
        if !whole || !intact {
            return Err(damaged("its checksum does not match"));
        }
        serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))
    }
}

/// Returns the numbers of the commit points in a folder, ascending.
pub fn numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = match disk.list(dir) {
        Ok(entries) => entries.iter().filter_map(|entry| parse_name(&entry.name)).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns `commit-N.json`.
pub fn file_name(number: u64) -> String {
    format!("commit-{number}.json")
}

fn parse_name(name: &str) -> Option<u64> {
    name.strip_prefix("commit-")?.strip_suffix(".json")?.parse().ok()
}

/// Returns the folder of segments.
pub fn segments_dir(dir: &Path) -> PathBuf {
    dir.join("segments")
}

/// Returns the folder of one segment.
pub fn segment_dir(dir: &Path, generation: u64) -> PathBuf {
    segments_dir(dir).join(format!("_{generation}"))
}

/// Writes deletes durably.
pub fn write_deletes(
    disk: &dyn Disk,
    dir: &Path,
    generation: u64,
    number: u64,
    deletes: &DeleteSet,
) -> Result<DeletesFile> {
    let name = format!("_{generation}.del-{number}");
    let bytes = deletes.to_bytes();
    disk.write_atomic(&segments_dir(dir).join(&name), &bytes)?;
    Ok(DeletesFile {
        name,
        count: deletes.count(),
        sum: FileSum::of(&bytes),
    })
}

/// Reads and verifies deletes.
pub fn read_deletes(disk: &dyn Disk, dir: &Path, file: &DeletesFile, docs: u32) -> Result<DeleteSet> {
    let path = segments_dir(dir).join(&file.name);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(damaged(&path, "it is missing")),
        Err(error) => return Err(error.into()),
    };
    if FileSum::of(&bytes) != file.sum {
        return Err(damaged(&path, "its checksum does not match"));
    }
    DeleteSet::from_bytes(&bytes, docs)
        .filter(|deletes| deletes.count() == file.count)
        .ok_or_else(|| damaged(&path, "it does not fit its segment"))
}

/// Returns the error for a damaged file of a shard.
pub fn damaged(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::ShardDamaged,
        format!("file [{}] of the shard is damaged: {what}", path.display()),
    )
}
