//! What goes wrong in a run, and when.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use firn_storage::object::{MemoryObjects, ObjectError, ObjectErrorKind, ObjectInfo, PutMode, Requests, Want};
use firn_storage::sim::{Failure, Operation, SimDisk};
use parking_lot::{Mutex, RwLock};

use crate::node::DATA;

/// Disk operations before a fault: a few operations of the engine make so many.
const STEPS_MAX: u64 = 500;

/// What goes wrong. `after` counts disk operations, or requests of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The power fails.
    PowerLoss { after: u64, seed: u64 },
    /// The process is killed: what was written is there.
    Kill { after: u64 },
    /// One operation fails, or all from there on.
    Error {
        after: u64,
        only: Option<Operation>,
        is_lasting: bool,
    },
    /// The disk has room for so many bytes.
    Full { room: u64 },
    /// The store refuses one request.
    Store { after: u64 },
    /// One bit of one file turns.
    Flip { after: u64, seed: u64 },
}

impl Fault {
    pub(crate) fn choose(random: &mut fastrand::Rng) -> Self {
        // Early ones more often: an operation of the engine makes few of the disk.
        let steps = random.u64(1..=STEPS_MAX);
        let after = random.u64(0..steps);
        match random.u8(0..20) {
            0 => Self::None,
            1..=8 => Self::PowerLoss {
                after,
                seed: random.u64(..),
            },
            9 | 10 => Self::Kill { after },
            11..=14 => Self::Error {
                after,
                only: match random.u8(0..4) {
                    0 => Some(Operation::SyncFile),
                    1 => Some(Operation::Write),
                    _ => None,
                },
                is_lasting: random.bool(),
            },
            15 | 16 => Self::Full {
                room: random.u64(0..400_000),
            },
            17 => Self::Store {
                after: random.u64(0..40),
            },
            _ => Self::Flip {
                after,
                seed: random.u64(..),
            },
        }
    }
}

/// Files that lie there finished, and the region cache, of which nothing is ever synced. A scratch file is a split on its way:
/// what damages it there is found when the snapshot is read back.
fn at_rest(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = disk.files(false);
    files.retain(|path| !path.starts_with(Path::new(DATA).join("scratch")));
    let mut cached = disk.files(true);
    cached.retain(|path| path.starts_with(Path::new(DATA).join("regions")));
    files.extend(cached);
    files
}

/// A disk as it was left when power failed or the process was killed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crash(Arc<Mutex<Option<SimDisk>>>);

impl Crash {
    pub(crate) fn has_come(&self) -> bool {
        self.0.lock().is_some()
    }

    pub(crate) fn take(&self) -> Option<SimDisk> {
        self.0.lock().take()
    }
}

/// The file in which a bit turned.
pub(crate) type Flipped = Arc<Mutex<Option<PathBuf>>>;

/// What a fault leaves to be looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Armed {
    pub(crate) crash: Crash,
    pub(crate) flipped: Flipped,
}

/// Lets the fault come on a disk and in a store.
pub(crate) fn arm(fault: Fault, disk: &SimDisk, store: &Arc<Store>) -> Armed {
    let armed = Armed::default();
    let steps = Arc::new(AtomicU64::new(0));
    match fault {
        Fault::None => {}
        Fault::PowerLoss { after, seed } => {
            let (crash, store) = (armed.crash.clone(), Arc::clone(store));
            disk.set_hook(Some(Arc::new(move |disk, _| {
                if steps.fetch_add(1, Ordering::Relaxed) == after {
                    fall(&crash, disk, &store, |disk| disk.crash(seed));
                }
            })));
        }
        Fault::Kill { after } => {
            let (crash, store) = (armed.crash.clone(), Arc::clone(store));
            disk.set_hook(Some(Arc::new(move |disk, _| {
                if steps.fetch_add(1, Ordering::Relaxed) == after {
                    fall(&crash, disk, &store, SimDisk::kill);
                }
            })));
        }
        Fault::Error {
            after,
            only,
            is_lasting,
        } => disk.fail(Failure {
            after,
            only,
            kind: ErrorKind::Other,
            lasting: is_lasting,
        }),
        Fault::Full { room } => disk.set_capacity(disk.used_bytes() + room),
        Fault::Store { after } => store.fail_after(after),
        Fault::Flip { after, seed } => {
            let flipped = Arc::clone(&armed.flipped);
            disk.set_hook(Some(Arc::new(move |disk, _| {
                if steps.fetch_add(1, Ordering::Relaxed) == after {
                    flip(disk, seed, &flipped);
                }
            })));
        }
    }
    armed
}

/// The end of a process: what its disk leaves is kept, and nothing that it still does counts.
fn fall(crash: &Crash, disk: &SimDisk, store: &Store, left: impl FnOnce(&SimDisk) -> SimDisk) {
    let mut image = crash.0.lock();
    if image.is_some() {
        return;
    }
    store.cut();
    disk.fail(Failure {
        after: 0,
        only: None,
        kind: ErrorKind::Other,
        lasting: true,
    });
    let left = left(disk);
    left.heal();
    *image = Some(left);
}

/// What is left of a process that goes on: the same disk, or what a power loss makes of it.
pub(crate) fn end(armed: &Armed, disk: &SimDisk, store: &Store, power_loss: Option<u64>) -> SimDisk {
    disk.set_hook(None);
    fall(&armed.crash, disk, store, |disk| match power_loss {
        Some(seed) => disk.crash(seed),
        None => disk.kill(),
    });
    let left = armed.crash.take().unwrap_or_else(|| disk.kill());
    left.heal();
    left.set_capacity(CAPACITY);
    left
}

/// Bytes of the disk when it is not full.
pub(crate) const CAPACITY: u64 = 1 << 40;

/// Turns one bit of one file.
fn flip(disk: &SimDisk, seed: u64, flipped: &Flipped) {
    let mut random = fastrand::Rng::with_seed(seed);
    let Some(path) = random.choice(at_rest(disk)) else {
        return;
    };
    let turned = disk.damage(&path, |bytes| {
        if !bytes.is_empty() {
            let place = random.usize(0..bytes.len());
            bytes[place] ^= 1 << random.u8(0..8);
        }
    });
    if turned.is_ok() {
        *flipped.lock() = Some(path);
    }
}

/// The object store as one process sees it: cut off at the process's end, and it may refuse a request.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<MemoryObjects>,
    /// Held over every request, so that none of a dead process comes after its end.
    is_cut: RwLock<bool>,
    /// Requests until one is refused; negative: none is.
    left: AtomicI64,
}

impl Store {
    pub(crate) fn new(objects: &Arc<MemoryObjects>) -> Arc<Self> {
        Arc::new(Self {
            objects: Arc::clone(objects),
            is_cut: RwLock::new(false),
            left: AtomicI64::new(-1),
        })
    }

    fn cut(&self) {
        *self.is_cut.write() = true;
    }

    fn fail_after(&self, requests: u64) {
        self.left.store(requests as i64, Ordering::Relaxed);
    }

    pub(crate) fn heal(&self) {
        self.left.store(-1, Ordering::Relaxed);
    }

    fn ask<T>(&self, key: &str, request: impl Future<Output = Result<T, ObjectError>>) -> Result<T, ObjectError> {
        let is_cut = self.is_cut.read();
        // Not to be tried again.
        let refused = |reason: &str| Err(ObjectError::new(ObjectErrorKind::Denied, key, reason));
        if *is_cut {
            return refused("the process has ended");
        }
        if self.left.load(Ordering::Relaxed) >= 0 && self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return refused("planned failure of the store");
        }
        // The store in memory never waits.
        futures_util::FutureExt::now_or_never(request).unwrap_or_else(|| refused("the store waits"))
    }
}

#[async_trait]
impl Requests for Store {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.ask(key, self.objects.get(key, want))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        self.ask(key, self.objects.head(key))
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        self.ask(key, self.objects.put(key, bytes, mode))
    }

    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        self.ask(key, self.objects.begin_parts(key))
    }

    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError> {
        self.ask(key, self.objects.put_part(key, upload, number, part_len, bytes))
    }

    async fn complete_parts(&self, key: &str, upload: &str, parts: Vec<String>) -> Result<(), ObjectError> {
        self.ask(key, self.objects.complete_parts(key, upload, parts))
    }

    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError> {
        self.ask(key, self.objects.abort_parts(key, upload))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.ask(prefix, self.objects.list(prefix))
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.ask(key, self.objects.delete(key))
    }
}
