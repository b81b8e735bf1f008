//! Test bed: the cache over a store and a file in memory, both with fault injection.

#![allow(clippy::single_range_in_vec_init, reason = "one request is a list of one range")]

mod crashes;
mod eviction;
mod failures;
mod flights;
mod reading;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::*;
use crate::disk::RandomFile;
use crate::object::{LocalFile, ObjectError, ObjectErrorKind, ObjectInfo, Objects, PutMode};
use crate::sim::SimDisk;
use crate::split::PartKind::{self, Columns, Postings, Terms};
use crate::split::pages::PageWriter;

const PAGE: u64 = PAGE_BYTES;

/// Faulty answer of a store.
#[derive(Debug, Clone)]
enum Fault {
    /// One bit is wrong.
    Flip,
    /// Half of the bytes.
    Short,
    /// An error of this kind.
    Error(ObjectErrorKind),
}

/// Store with one object that records its requests.
#[derive(Debug)]
pub(crate) struct Store {
    object: Bytes,
    requests: Mutex<Vec<Range<u64>>>,
    faults: Mutex<VecDeque<Fault>>,
    /// Each request takes a permit and does not return it.
    gate: Semaphore,
}

impl Store {
    fn requests(&self) -> Vec<Range<u64>> {
        self.requests.lock().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.lock().len()
    }

    /// Sets faults for the next answers; later ones are correct.
    fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.faults.lock() = faults.into_iter().collect();
    }

    /// Blocks further requests until they are released.
    fn hold(&self) {
        self.gate.forget_permits(usize::MAX >> 3);
    }

    fn let_go(&self, count: usize) {
        self.gate.add_permits(count);
    }
}

#[async_trait]
impl Objects for Store {
    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        self.requests.lock().push(range.clone());
        self.gate.acquire().await.expect("the gate is never closed").forget();
        let mut bytes = self.object[range.start as usize..range.end as usize].to_vec();
        match self.faults.lock().pop_front() {
            None => {}
            Some(Fault::Flip) => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
            }
            Some(Fault::Short) => bytes.truncate(bytes.len() / 2),
            Some(Fault::Error(kind)) => return Err(ObjectError::new(kind, key, "injected by the test")),
        }
        Ok(bytes.into())
    }

    async fn read_all(&self, _: &str, _: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        unreachable!("the cache reads ranges")
    }

    async fn read_end(&self, _: &str, _: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        unreachable!("the cache reads ranges")
    }

    async fn info(&self, _: &str) -> Result<ObjectInfo, ObjectError> {
        unreachable!("the cache reads ranges")
    }

    async fn write(&self, _: &str, _: Bytes, _: PutMode) -> Result<Option<String>, ObjectError> {
        unreachable!("the cache reads ranges")
    }

    async fn upload_reporting(
        &self,
        _: &str,
        _: &LocalFile,
        _: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError> {
        unreachable!("the cache reads ranges")
    }

    async fn list(&self, _: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        unreachable!("the cache reads ranges")
    }

    async fn delete(&self, _: &str) -> Result<(), ObjectError> {
        unreachable!("the cache reads ranges")
    }
}

/// Creates an object of this many pages whose bytes depend on its number.
fn object(number: u8, pages: u64) -> (Arc<CachedObject>, Arc<Store>) {
    let mut random = fastrand::Rng::with_seed(number.into());
    let salt = random.u64(..);
    salted(number, pages, salt, random)
}

/// Like [`object`], with a given salt.
fn salted(number: u8, pages: u64, salt: u64, mut random: fastrand::Rng) -> (Arc<CachedObject>, Arc<Store>) {
    let mut writer = PageWriter::new(Vec::new(), salt);
    for _ in 0..pages * crate::split::pages::PAYLOAD_BYTES / 4 {
        writer.write_all(&random.u32(..).to_le_bytes()).unwrap();
    }
    let (bytes, len) = writer.finish().unwrap();
    assert_eq!(len, pages * PAGE);
    object_of(number, bytes, salt)
}

/// Creates an object of these bytes.
pub(crate) fn object_of(number: u8, bytes: Vec<u8>, salt: u64) -> (Arc<CachedObject>, Arc<Store>) {
    let len = bytes.len() as u64;
    let store = Arc::new(Store {
        object: bytes.into(),
        requests: Mutex::default(),
        faults: Mutex::default(),
        gate: Semaphore::new(1 << 40),
    });
    let object = CachedObject {
        id: ObjectId([number; 32]),
        key: format!("splits/{number}"),
        len,
        salt,
        store: store.clone(),
        owner: None,
    };
    (Arc::new(object), store)
}

/// Sparse file in memory. Clones share it.
#[derive(Debug, Clone)]
struct MemoryFile(Arc<Mutex<Memory>>);

#[derive(Debug, Clone)]
struct Memory {
    pages: std::collections::BTreeMap<u64, Vec<u8>>,
    is_sparse: bool,
    /// Capacity in pages.
    room: usize,
    can_read: bool,
    /// Runs before the next read, once.
    before_read: Option<Event>,
}

#[derive(Clone)]
struct Event(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Event")
    }
}

impl MemoryFile {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Memory {
            pages: Default::default(),
            is_sparse: true,
            room: usize::MAX,
            can_read: true,
            before_read: None,
        })))
    }

    /// Returns the number of allocated pages.
    fn taken(&self) -> u64 {
        self.0.lock().pages.len() as u64
    }

    /// Returns a copy for another process, modified by `change`.
    fn copy(&self, change: impl FnOnce(&mut Memory)) -> Self {
        let mut memory = self.0.lock().clone();
        change(&mut memory);
        Self(Arc::new(Mutex::new(memory)))
    }
}

impl RandomFile for MemoryFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        assert!(offset.is_multiple_of(PAGE) && (bytes.len() as u64).is_multiple_of(PAGE));
        let before = self.0.lock().before_read.take();
        if let Some(Event(before)) = before {
            before();
        }
        let memory = self.0.lock();
        if !memory.can_read {
            return Err(io::Error::other("injected by the test"));
        }
        let end = memory.pages.keys().next_back().map_or(0, |last| last + 1);
        for (page, to) in (offset / PAGE..end).zip(bytes.chunks_mut(PAGE as usize)) {
            to.fill(0);
            if let Some(from) = memory.pages.get(&page) {
                to.copy_from_slice(from);
            }
        }
        Ok(bytes.len().min(((end * PAGE).saturating_sub(offset)) as usize))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut memory = self.0.lock();
        for (page, from) in (offset / PAGE..).zip(bytes.chunks(PAGE as usize)) {
            if !memory.pages.contains_key(&page) && memory.pages.len() >= memory.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            memory.pages.insert(page, from.to_vec());
        }
        Ok(())
    }

    fn release(&self, range: Range<u64>) -> io::Result<()> {
        let mut memory = self.0.lock();
        if memory.is_sparse {
            memory.pages.retain(|page, _| !range.contains(&(page * PAGE)));
        }
        Ok(())
    }

    fn is_sparse(&self) -> bool {
        self.0.lock().is_sparse
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().pages.retain(|page, _| page * PAGE < len);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().pages.keys().next_back().map_or(0, |last| last + 1) * PAGE)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        Ok(self.taken() * PAGE)
    }
}

/// Cache of this many pages, with its disk and file.
pub(crate) struct Bed {
    disk: SimDisk,
    file: MemoryFile,
    pub(crate) cache: RegionCache,
}

impl Bed {
    pub(crate) fn new(pages: u64) -> Self {
        Self::on(SimDisk::new(), MemoryFile::new(), pages)
    }

    fn on(disk: SimDisk, file: MemoryFile, pages: u64) -> Self {
        let options = RegionCacheOptions {
            size_bytes: pages * PAGE,
            ..RegionCacheOptions::default()
        };
        let cache = RegionCache::with_file(Arc::new(disk.clone()), Path::new("/"), Arc::new(file.clone()), options);
        Self {
            disk,
            file,
            cache: cache.unwrap(),
        }
    }

    /// Reads pages and checks their content.
    fn read(&self, from: &(Arc<CachedObject>, Arc<Store>), kind: PartKind, pages: Range<u64>) {
        let bytes = block_on(self.cache.read(&from.0, kind, pages.start * PAGE..pages.end * PAGE)).unwrap();
        assert_eq!(bytes, truth(&from.1, &pages), "{pages:?} of {}", from.0.key);
    }

    fn fetch(&self, from: &(Arc<CachedObject>, Arc<Store>), wanted: &[(PartKind, Range<u64>)]) {
        block_on(self.cache.fetch(&from.0, &in_bytes(wanted))).unwrap();
    }

    /// Returns whether a page is cached.
    fn has(&self, from: &(Arc<CachedObject>, Arc<Store>), page: u64) -> bool {
        self.cache.missing(&from.0, &[(Terms, page * PAGE..(page + 1) * PAGE)]) == Cost::default()
    }

    /// Checks that the file takes what the cache counts, and at most its limit.
    fn check(&self) {
        self.cache.check();
        let stats = self.cache.stats();
        assert!(stats.used_bytes <= stats.size_bytes, "{stats:?}");
        if self.file.is_sparse() {
            assert_eq!(stats.used_bytes, self.file.taken() * PAGE);
            assert_eq!(stats.total().cached_bytes, stats.used_bytes);
        }
    }
}

fn in_bytes(wanted: &[(PartKind, Range<u64>)]) -> Vec<(PartKind, Range<u64>)> {
    let bytes = |pages: &Range<u64>| pages.start * PAGE..pages.end * PAGE;
    wanted.iter().map(|(kind, pages)| (*kind, bytes(pages))).collect()
}

fn truth(store: &Store, pages: &Range<u64>) -> Bytes {
    store
        .object
        .slice((pages.start * PAGE) as usize..(pages.end * PAGE) as usize)
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}
