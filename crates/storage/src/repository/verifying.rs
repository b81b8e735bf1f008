//! Verification of repository objects by reading them back.
//!
//! A store confirms that it accepted an object; only a read proves that it returns the same bytes. Pages carry
//! checksums that the writer computed in memory, before the transfer; a file of deletes is named by its SHA-256. The
//! caller passes the store to read from, which must never be a cache, or the result proves nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use futures_util::stream::{self, StreamExt};
use sha2::{Digest, Sha256};

use super::Repository;
use super::body::READS_MAX;
use super::manifest::IndexManifest;
use crate::object::{ObjectErrorKind, ObjectInfo, Objects};
use crate::split::pages;

/// Bytes per request, in whole pages: few enough that a throttled read shows progress, many enough that a terabyte
/// costs a quarter of a million requests.
const PIECE_BYTES: u64 = 1024 * pages::PAGE_BYTES;
/// Pieces of one object in flight: one is transferred while another is checked. This bounds the memory.
const PIECES_MAX: usize = 2;

/// Object that an index names, with the proof of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedObject {
    /// Key of the object.
    pub key: String,
    /// Length in bytes.
    pub len: u64,
    proof: Proof,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    /// The object consists of pages with this salt.
    Pages(u64),
    /// The bytes have this SHA-256.
    Content(String),
}

/// Result of reading an object back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadBack {
    /// Every byte is correct. Metadata of the object before the read.
    Sound(ObjectInfo),
    /// The object is missing or damaged.
    Damaged(String),
}

/// Reports newly verified bytes; returns an error to stop the verification.
pub type GoOn<'a> = &'a (dyn Fn(u64) -> Result<()> + Sync);

impl IndexManifest {
    /// Returns every object that it names once, by key.
    pub fn objects(&self) -> BTreeMap<String, NamedObject> {
        let pages = |key: String, len, salt| NamedObject {
            key,
            len,
            proof: Proof::Pages(salt),
        };
        let segments = self.segments().map(|(_, segment)| segment);
        let splits = segments.clone().map(|segment| &segment.split);
        let splits = splits.map(|split| pages(split.key(), split.len, split.salt));
        let deletes = segments.filter_map(|segment| segment.deletes.as_ref());
        let deletes = deletes.map(|deletes| NamedObject {
            key: deletes.key(),
            len: deletes.len,
            proof: Proof::Content(deletes.id.clone()),
        });
        let tables = self
            .filters
            .iter()
            .map(|table| pages(table.key(), table.len, table.salt));
        let all = splits.chain(deletes).chain(tables);
        all.map(|object| (object.key.clone(), object)).collect()
    }
}

impl Repository {
    /// Reads an object from `store`, which is this repository's store at any rate limit, and checks every byte. Retries
    /// after damage in transit; persistent damage is in the store. Fails if the store does not answer, or with the
    /// error of `go_on`.
    pub async fn read_back(&self, store: &dyn Objects, object: &NamedObject, go_on: GoOn<'_>) -> Result<ReadBack> {
        let info = match store.info(&object.key).await {
            Ok(info) => info,
            Err(error) if error.kind == ObjectErrorKind::NotFound => return Ok(missing()),
            Err(error) => return Err(self.failed("look up an object", error)),
        };
        if info.len != object.len {
            let why = format!("it has {} bytes instead of {}", info.len, object.len);
            return Ok(ReadBack::Damaged(why));
        }
        let damage = match &object.proof {
            Proof::Pages(salt) => self.check_pages(store, object, *salt, go_on).await?,
            Proof::Content(id) => self.check_content(store, object, id, go_on).await?,
        };
        Ok(damage.map_or(ReadBack::Sound(info), ReadBack::Damaged))
    }

    /// Returns the defect of an object of pages, if there is one.
    async fn check_pages(
        &self,
        store: &dyn Objects,
        object: &NamedObject,
        salt: u64,
        go_on: GoOn<'_>,
    ) -> Result<Option<String>> {
        let mut pieces = stream::iter(pieces_of(object.len))
            .map(|piece| async move {
                let len = piece.end - piece.start;
                let damage = self.check_piece(store, object, salt, piece).await;
                damage.map(|damage| (damage, len))
            })
            .buffered(PIECES_MAX);
        while let Some(piece) = pieces.next().await {
            match piece? {
                (None, len) => go_on(len)?,
                (damage, _) => return Ok(damage),
            }
        }
        Ok(None)
    }

    async fn check_piece(
        &self,
        store: &dyn Objects,
        object: &NamedObject,
        salt: u64,
        piece: Range<u64>,
    ) -> Result<Option<String>> {
        let mut reads = 1;
        loop {
            let bytes = match self.read_piece(store, object, piece.clone()).await? {
                Ok(bytes) => bytes,
                Err(damage) => return Ok(Some(damage)),
            };
            let start = piece.start;
            let checked = on_other_threads(move || pages::verify(salt, start, &bytes)).await?;
            match checked {
                Ok(()) => return Ok(None),
                Err(_) if reads < READS_MAX => reads += 1,
                Err(damage) => return Ok(Some(damage.to_string())),
            }
        }
    }

    /// Returns the defect of an object that is named by its content, if there is one.
    async fn check_content(
        &self,
        store: &dyn Objects,
        object: &NamedObject,
        id: &str,
        go_on: GoOn<'_>,
    ) -> Result<Option<String>> {
        for _ in 0..READS_MAX {
            let mut hasher = Sha256::new();
            for piece in pieces_of(object.len) {
                let bytes = match self.read_piece(store, object, piece).await? {
                    Ok(bytes) => bytes,
                    Err(damage) => return Ok(Some(damage)),
                };
                hasher = on_other_threads(move || hasher.chain_update(&bytes)).await?;
                go_on(0)?;
            }
            let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            if digest == id {
                go_on(object.len)?;
                return Ok(None);
            }
        }
        Ok(Some("its content does not match its name".to_owned()))
    }

    /// Reads a piece, or returns why the store does not have it.
    async fn read_piece(
        &self,
        store: &dyn Objects,
        object: &NamedObject,
        piece: Range<u64>,
    ) -> Result<Result<Bytes, String>> {
        let len = piece.end - piece.start;
        match store.read(&object.key, piece).await {
            Ok(bytes) if bytes.len() as u64 == len => Ok(Ok(bytes)),
            Ok(bytes) => Ok(Err(format!("the store sent {} bytes instead of {len}", bytes.len()))),
            Err(error) => match error.kind {
                ObjectErrorKind::NotFound => Ok(Err(MISSING.to_owned())),
                // Retries are exhausted: the store returns the same answer each time.
                ObjectErrorKind::Corrupt => Ok(Err(error.reason)),
                _ => Err(self.failed("read an object back", error)),
            },
        }
    }
}

const MISSING: &str = "it is missing";

fn missing() -> ReadBack {
    ReadBack::Damaged(MISSING.to_owned())
}

fn pieces_of(len: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = (0..len).step_by(PIECE_BYTES as usize);
    starts.map(move |start| start..len.min(start + PIECE_BYTES))
}

/// Computes checksums off the threads that wait for stores.
async fn on_other_threads<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|_| Error::new(ErrorKind::Cancelled, "the process is ending"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::object::{Guard, Guarded, Limit, MemoryObjects, PutMode, RetryPolicy};
    use crate::repository::Writer;
    use crate::split::pages::PageWriter;

    const SALT: u64 = 7;
    const KEY: &str = "splits/ab/ab.split";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    }

    fn repository() -> (Arc<Repository>, Guarded) {
        let guard = Guard::new(Limit::new(4), RetryPolicy::new(0, 7));
        let store = Guarded::new(Arc::new(MemoryObjects::new()), guard);
        let writer = Writer {
            id: "w".to_owned(),
            instances: Arc::default(),
            fresh_id: Arc::new(|| "id".to_owned()),
            now_ms: Arc::new(|| 0),
        };
        (Repository::new("r", Arc::new(store.clone()), false, writer), store)
    }

    /// Returns pages of more than two pieces.
    fn pages_of_some_pieces() -> Vec<u8> {
        let mut writer = PageWriter::new(Vec::new(), SALT);
        let payload: Vec<u8> = (0..2 * PIECE_BYTES + 10_000).map(|place| (place % 251) as u8).collect();
        std::io::Write::write_all(&mut writer, &payload).unwrap();
        writer.finish().unwrap().0
    }

    fn split(len: usize) -> NamedObject {
        NamedObject {
            key: KEY.to_owned(),
            len: len as u64,
            proof: Proof::Pages(SALT),
        }
    }

    fn read_back(bytes: Option<Vec<u8>>, object: &NamedObject) -> (Result<ReadBack>, u64) {
        let (repository, store) = repository();
        let verified = AtomicU64::new(0);
        let go_on = |more| {
            verified.fetch_add(more, Ordering::Relaxed);
            Ok(())
        };
        let read = block_on(async {
            if let Some(bytes) = bytes {
                store.write(&object.key, bytes.into(), PutMode::Create).await.unwrap();
            }
            repository.read_back(&store, object, &go_on).await
        });
        (read, verified.into_inner())
    }

    #[track_caller]
    fn check_damage(bytes: Option<Vec<u8>>, object: &NamedObject, why: &str) {
        match read_back(bytes, object).0.unwrap() {
            ReadBack::Damaged(found) => assert_eq!(found, why),
            ReadBack::Sound(info) => panic!("no damage found: {info:?}, expected: {why}"),
        }
    }

    #[test]
    fn a_whole_object_is_read_to_its_end() {
        let bytes = pages_of_some_pieces();
        let object = split(bytes.len());
        let (read, verified) = read_back(Some(bytes), &object);
        assert!(matches!(read.unwrap(), ReadBack::Sound(info) if info.len == object.len));
        assert_eq!(verified, object.len);
    }

    #[test]
    fn a_flipped_bit_in_any_piece_is_found() {
        let bytes = pages_of_some_pieces();
        let object = split(bytes.len());
        for place in [0, PIECE_BYTES as usize + 5, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1;
            let offset = place / 4096 * 4096;
            let why = format!("the checksum of the page at offset {offset} does not match");
            check_damage(Some(flipped), &object, &why);
        }
    }

    #[test]
    fn what_is_gone_cut_or_another_is_damage() {
        let bytes = pages_of_some_pieces();
        let object = split(bytes.len());
        check_damage(None, &object, "it is missing");
        let mut longer = bytes.clone();
        longer.push(0);
        let why = format!("it has {} bytes instead of {}", longer.len(), object.len);
        check_damage(Some(longer), &object, &why);
        let why = format!("it has 4096 bytes instead of {}", object.len);
        check_damage(Some(bytes[..4096].to_vec()), &object, &why);
        let other = NamedObject {
            proof: Proof::Pages(SALT + 1),
            ..object
        };
        check_damage(
            Some(bytes),
            &other,
            "the checksum of the page at offset 0 does not match",
        );
    }

    #[test]
    fn a_file_of_deletes_is_held_against_its_name() {
        let words = vec![5; 1000];
        let object = NamedObject {
            key: "deletes/ab/ab.del".to_owned(),
            len: 1000,
            proof: Proof::Content(super::super::manifest::content_id(&words)),
        };
        assert!(matches!(
            read_back(Some(words.clone()), &object),
            (Ok(ReadBack::Sound(_)), 1000)
        ));
        let mut flipped = words;
        flipped[999] ^= 128;
        check_damage(Some(flipped), &object, "its content does not match its name");
    }

    #[test]
    fn it_ends_as_soon_as_it_should() {
        let bytes = pages_of_some_pieces();
        let object = split(bytes.len());
        let (repository, store) = repository();
        let stop = |_| Err(Error::new(ErrorKind::Cancelled, "enough"));
        let read = block_on(async {
            store.write(KEY, bytes.into(), PutMode::Create).await.unwrap();
            repository.read_back(&store, &object, &stop).await
        });
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
