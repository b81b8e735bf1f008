//! Faults of a run and their time.

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

/// Maximum disk operations before a fault: a few operations of the engine cause that many.
const STEPS_MAX: u64 = 500;

/// Kind of fault. `after` counts disk operations, or requests of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// The power fails.
    PowerLoss { after: u64, seed: u64 },
    /// The process is killed: its writes are in the page cache and stay.
    Kill { after: u64 },
    /// One operation fails, or all from that one on.
    Error {
        after: u64,
        only: Option<Operation>,
        is_lasting: bool,
    },
    /// The disk has space for `room` bytes.
    Full { room: u64 },
    /// The store refuses one request.
    Store { after: u64 },
    /// One bit of one file flips.
    Flip { after: u64, seed: u64 },
}

impl Fault {
    pub(crate) fn choose(random: &mut fastrand::Rng) -> Self {
        // Early ones more often: an operation of the engine causes few disk operations.
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

/// Returns finished files, and the region cache, which is never synced. A scratch file is a split in transfer:
/// damage there is found when the snapshot is verified.
fn at_rest(disk: &SimDisk) -> Vec<PathBuf> {
    let mut files = disk.files(false);
    files.retain(|path| !path.starts_with(Path::new(DATA).join("scratch")));
    let mut cached = disk.files(true);
    cached.retain(|path| path.starts_with(Path::new(DATA).join("regions")));
    files.extend(cached);
    files
}

/// Image of the disk when the power failed or the process was killed.
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

/// File with the flipped bit.
pub(crate) type Flipped = Arc<Mutex<Option<PathBuf>>>;

/// Results of a fault for the checks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Armed {
    pub(crate) crash: Crash,
    pub(crate) flipped: Flipped,
}

/// Arms the fault on a disk and in a store.
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

/// Ends a process: the disk image is saved, and later actions of the process have no effect.
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

/// Returns the disk after a process without a crash: the same disk, or what a power loss leaves of it.
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

/// Bytes of the disk if it is not full.
pub(crate) const CAPACITY: u64 = 1 << 40;

/// Flips one bit of one file.
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

/// Object store as one process sees it: disconnected at the end of the process, and it may refuse a request.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<MemoryObjects>,
    /// Locked over every request, so that no request of a dead process arrives after its end.
    is_cut: RwLock<bool>,
    /// Requests until one is refused; negative: none is refused.
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
        // `Denied` errors are not retried.
        let refused = |reason: &str| Err(ObjectError::new(ObjectErrorKind::Denied, key, reason));
        if *is_cut {
            return refused("the process has ended");
        }
        if self.left.load(Ordering::Relaxed) >= 0 && self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return refused("planned failure of the store");
        }
        // The in-memory store never waits.
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
