//! What a snapshot holds.

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

/// A snapshot. Its indices are objects of their own, which snapshots share where nothing changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    /// Its name.
    pub name: String,
    /// 22 characters.
    pub uuid: String,
    /// The version of the firn that made it.
    pub firn: String,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// When all of it was there.
    pub end_ms: i64,
    /// Whether it holds all that was asked for.
    pub outcome: SnapshotOutcome,
    /// By name.
    pub indices: BTreeMap<String, IndexEntry>,
    /// Data streams as the catalog keeps them, by name.
    pub data_streams: BTreeMap<String, Value>,
    /// Templates and settings of the cluster; `None`: not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<Value>,
    /// What the user wrote beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Shards that it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingShard>,
    /// What making it took, by index and number of the shard.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shards: BTreeMap<String, Vec<ShardRecord>>,
}

/// What making a snapshot of a shard took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Its number.
    pub shard: u32,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// How long it took.
    pub time_ms: u64,
    /// Segments that no snapshot before had.
    pub new_segments: u64,
    /// Their bytes on disk.
    pub new_bytes: u64,
    /// All its segments.
    pub all_segments: u64,
    /// Their bytes on disk.
    pub all_bytes: u64,
}

/// How a snapshot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotOutcome {
    /// It holds all.
    Success,
    /// It lacks shards.
    Partial,
}

/// An index in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// Of the index that the snapshot was made of.
    pub uuid: String,
    /// The SHA-256 of its manifest, in hex.
    pub manifest: String,
    /// Shards.
    pub shards: u32,
    /// Documents, the deleted ones included.
    pub docs: u64,
    /// Bytes of all splits.
    pub size_bytes: u64,
    /// Splits of the shard that has most.
    pub segments_per_shard_max: u32,
}

/// A shard that a snapshot lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingShard {
    /// Its index.
    pub index: String,
    /// Its number.
    pub shard: u32,
    /// Why.
    pub reason: String,
}

/// What a snapshot says of an index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexManifest {
    /// `firn_model::metadata::IndexMetadata` as the catalog keeps it: name, settings, mapping, aliases.
    pub index: Value,
    /// By number, all of them.
    pub shards: Vec<ShardManifest>,
    /// Tables with the filters of its splits, and maybe of others; of a split that none has its own filters tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterTableRef>,
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardManifest {
    /// Its number.
    pub shard: u32,
    /// All sequence numbers below were given.
    pub next_seq_no: u64,
    /// Its segments, none of which shares a document with another. Empty where `missing`.
    pub segments: Vec<SnapshotSegment>,
    /// The snapshot lacks it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// A segment of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotSegment {
    /// Its split.
    pub split: SplitRef,
    /// `None`: every document is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletes: Option<DeletesRef>,
}

/// Which documents of a segment are deleted: an object of 64-bit words, little-endian, bit `d % 64` of
/// word `d / 64` for document `d`. Its name is its checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletesRef {
    /// The SHA-256 of its bytes, in hex.
    pub id: String,
    /// Bytes.
    pub len: u64,
    /// Documents.
    pub count: u32,
}

impl DeletesRef {
    /// The key of its object.
    pub fn key(&self) -> String {
        format!("deletes/{}/{}.del", self.id.get(..2).unwrap_or_default(), self.id)
    }
}

impl super::SnapshotEntry {
    /// The key of its manifest's object.
    pub fn key(&self) -> String {
        snapshot_key(&self.manifest)
    }
}

impl IndexEntry {
    /// The key of the manifest's object.
    pub fn key(&self) -> String {
        index_key(&self.manifest)
    }
}

impl IndexManifest {
    /// Every segment with the number of its shard.
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

/// SHA-256 in hex.
pub(super) fn content_id(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Repository {
    /// Writes the manifest of a snapshot; nobody sees it before a commit names it. Returns its id.
    pub async fn put_snapshot(&self, manifest: &SnapshotManifest) -> Result<String> {
        let bytes = body::encode("snapshot", manifest)?;
        self.put_content(bytes, snapshot_key).await
    }

    /// Writes the manifest of an index and returns how a snapshot names it.
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

    /// Writes which documents are deleted.
    pub async fn put_deletes(&self, words: Vec<u8>, count: u32) -> Result<DeletesRef> {
        let deletes = DeletesRef {
            id: content_id(&words),
            len: words.len() as u64,
            count,
        };
        self.put(&deletes.key(), words.into()).await?;
        Ok(deletes)
    }

    /// Reads which documents are deleted: words as [`DeletesRef`] says.
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

    /// Content-addressed, so what is there already is the same.
    pub(super) async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.store
            .write(key, bytes, PutMode::Overwrite)
            .await
            .map_err(|error| self.failed("write", error))?;
        Ok(())
    }
}
