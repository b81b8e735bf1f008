//! Manifests of snapshots and of their indices.

use std::collections::BTreeMap;

use bytes::Bytes;
use firn_model::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Repository, body};
use crate::filters::FilterTableRef;
use crate::object::PutMode;
use crate::split::SplitRef;

/// Manifest of a snapshot. Its indices are separate objects, which snapshots share if nothing changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    /// Name of the snapshot.
    pub name: String,
    /// 22 characters.
    pub uuid: String,
    /// Version of the firn that created it.
    pub firn: String,
    /// Start time, ms since epoch UTC.
    pub start_ms: i64,
    /// End time, ms since epoch UTC.
    pub end_ms: i64,
    /// Whether it contains all requested shards.
    pub outcome: SnapshotOutcome,
    /// By name.
    pub indices: BTreeMap<String, IndexEntry>,
    /// Data streams as stored in the catalog, by name.
    pub data_streams: BTreeMap<String, Value>,
    /// Templates and settings of the cluster; `None`: not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<Value>,
    /// User metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Missing shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingShard>,
    /// Statistics of the creation, by index, in the order of shards.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shards: BTreeMap<String, Vec<ShardRecord>>,
}

/// Statistics of the snapshot creation of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Number of the shard.
    pub shard: u32,
    /// Start time, ms since epoch UTC.
    pub start_ms: i64,
    /// Duration in ms.
    pub time_ms: u64,
    /// Segments that no earlier snapshot contains.
    pub new_segments: u64,
    /// Bytes on disk of those segments.
    pub new_bytes: u64,
    /// All segments of the shard.
    pub all_segments: u64,
    /// Bytes on disk of all segments.
    pub all_bytes: u64,
}

/// Outcome of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotOutcome {
    /// It contains all requested shards.
    Success,
    /// Shards are missing.
    Partial,
}

/// Index in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// UUID of the source index.
    pub uuid: String,
    /// SHA-256 of the index manifest, in hex.
    pub manifest: String,
    /// Number of shards.
    pub shards: u32,
    /// Documents, including deleted ones.
    pub docs: u64,
    /// Bytes of all splits.
    pub size_bytes: u64,
    /// Splits of the shard with the most splits.
    pub segments_per_shard_max: u32,
}

/// Shard that is missing from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingShard {
    /// Name of the index.
    pub index: String,
    /// Number of the shard.
    pub shard: u32,
    /// Reason of the failure.
    pub reason: String,
}

/// Manifest of an index in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexManifest {
    /// `firn_model::metadata::IndexMetadata` as stored in the catalog: name, settings, mapping, aliases.
    pub index: Value,
    /// All shards, by number.
    pub shards: Vec<ShardManifest>,
    /// Filter tables that cover its splits, and possibly other splits. A split in no table uses its own filters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterTableRef>,
}

/// Shard of an index in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardManifest {
    /// Number of the shard.
    pub shard: u32,
    /// All sequence numbers below are assigned.
    pub next_seq_no: u64,
    /// Segments with disjoint documents. Empty if `missing`.
    pub segments: Vec<SnapshotSegment>,
    /// Whether the snapshot lacks the shard.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// Segment of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotSegment {
    /// Split of the segment.
    pub split: SplitRef,
    /// `None`: no document is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletes: Option<DeletesRef>,
}

/// Reference to the deletes of a segment: an object of 64-bit words, little-endian. Bit `d % 64` of word `d / 64` is
/// set if document `d` is deleted. The object's name is its checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletesRef {
    /// SHA-256 of its bytes, in hex.
    pub id: String,
    /// Length in bytes.
    pub len: u64,
    /// Number of deleted documents.
    pub count: u32,
}

impl DeletesRef {
    /// Returns the key of its object.
    pub fn key(&self) -> String {
        format!("deletes/{}/{}.del", self.id.get(..2).unwrap_or_default(), self.id)
    }
}

impl super::SnapshotEntry {
    /// Returns the key of its manifest.
    pub fn key(&self) -> String {
        snapshot_key(&self.manifest)
    }
}

impl IndexEntry {
    /// Returns the key of its manifest.
    pub fn key(&self) -> String {
        index_key(&self.manifest)
    }
}

impl IndexManifest {
    /// Returns every segment with the number of its shard.
    pub fn segments(&self) -> impl Iterator<Item = (u32, &SnapshotSegment)> + Clone {
        self.shards
            .iter()
            .flat_map(|shard| shard.segments.iter().map(move |segment| (shard.shard, segment)))
    }
}

pub(super) fn snapshot_key(id: &str) -> String {
    format!("snapshots/{id}.json")
}

pub(super) fn index_key(id: &str) -> String {
    format!("indices/{id}.json")
}

/// Returns the SHA-256 in hex.
pub(super) fn content_id(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Repository {
    /// Writes the manifest of a snapshot and returns its id. It is invisible until a commit names it.
    pub async fn put_snapshot(&self, manifest: &SnapshotManifest) -> Result<String> {
        let bytes = body::encode("snapshot", manifest)?;
        self.put_content(bytes, snapshot_key).await
    }

    /// Writes the manifest of an index and returns the entry for its snapshot.
    pub async fn put_index(&self, uuid: &str, manifest: &IndexManifest) -> Result<IndexEntry> {
        let bytes = body::encode("index", manifest)?;
        let segments = || manifest.segments().map(|(_, segment)| &segment.split);
        let entry = IndexEntry {
            uuid: uuid.to_owned(),
            manifest: self.put_content(bytes, index_key).await?,
            shards: manifest.shards.len() as u32,
            docs: segments().map(|split| u64::from(split.docs)).sum(),
            size_bytes: segments().map(|split| split.len).sum(),
            segments_per_shard_max: manifest
                .shards
                .iter()
                .map(|shard| shard.segments.len())
                .max()
                .unwrap_or(0) as u32,
        };
        Ok(entry)
    }

    /// Writes the deletes of a segment.
    pub async fn put_deletes(&self, words: Vec<u8>, count: u32) -> Result<DeletesRef> {
        let deletes = DeletesRef {
            id: content_id(&words),
            len: words.len() as u64,
            count,
        };
        self.put(&deletes.key(), words.into()).await?;
        Ok(deletes)
    }

    /// Reads the deletes of a segment, in the format of [`DeletesRef`].
    pub async fn deletes(&self, deletes: &DeletesRef) -> Result<Bytes> {
        let key = deletes.key();
        let check = |bytes: &Bytes| match content_id(bytes) == deletes.id {
            true => Ok(bytes.clone()),
            false => Err("its checksum does not match".to_owned()),
        };
        self.read_checked(&key, deletes.len, check)
            .await
            .map_err(|error| self.failed("read deletes", error))?
            .map_err(|why| self.error(format!("object [{key}] is damaged: {why}")))
    }

    async fn put_content(&self, bytes: Bytes, key: impl Fn(&str) -> String) -> Result<String> {
        let id = content_id(&bytes);
        self.put(&key(&id), bytes).await?;
        Ok(id)
    }

    /// Writes a content-addressed object; an existing one has the same content.
    pub(super) async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.store
            .write(key, bytes, PutMode::Overwrite)
            .await
            .map_err(|error| self.failed("write", error))?;
        Ok(())
    }
}
