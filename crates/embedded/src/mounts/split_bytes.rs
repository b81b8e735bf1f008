//! Byte source of a split in a repository.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::splits::dry_run::{check_far, is_cold, note_fetched, wait_for_read};
use firn_segment::splits::{ReadRange, SplitBytes};
use firn_storage::object::{ObjectError, ObjectErrorKind};
use firn_storage::regions::{CachedObject, GAP_BYTES_MAX, RegionCache};
use firn_storage::split::{PartKind, pages};
use tokio::runtime::Handle;

use super::local_copies::LocalSplit;

/// Reads a split from its full copy on this node if there is one, otherwise through the shared cache.
pub(super) struct MountedBytes {
    pub(super) object: Arc<CachedObject>,
    pub(super) cache: Arc<RegionCache>,
    pub(super) io: Handle,
    /// The full copy, which may not exist yet.
    pub(super) local: Option<Arc<LocalSplit>>,
    /// Set if the split is missing in its repository.
    pub(super) missed: Arc<Missed>,
}

/// Whether a read did not find an object that a manifest names: another node may have rewritten the snapshot.
pub(super) type Missed = AtomicBool;

impl fmt::Debug for MountedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MountedBytes({})", self.object.key)
    }
}

impl MountedBytes {
    fn failed(&self, error: ObjectError) -> Error {
        if error.kind == ObjectErrorKind::NotFound {
            self.missed.store(true, Ordering::Release);
        }
        failed(error)
    }

    /// Whether the full copy is on this node.
    fn is_here(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.is_whole())
    }

    /// As [`SplitBytes::read`], for async callers that wait for many reads at once.
    pub(super) async fn read_soon(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes> {
        if let Some(bytes) = self.read_copy(&logical) {
            return Ok(bytes);
        }
        let physical = pages::physical(&logical);
        let read = self.cache.read(&self.object, kind, physical.clone());
        let bytes = read.await.map_err(|error| self.failed(error))?;
        Ok(pages::payload(physical.start, &bytes, &logical))
    }

    /// Reads from the copy on this node, if it is complete and valid.
    fn read_copy(&self, logical: &Range<u64>) -> Option<Bytes> {
        self.local.as_ref().and_then(|local| local.read(logical))
    }
}

#[async_trait]
impl SplitBytes for MountedBytes {
    fn read(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes> {
        if let Some(bytes) = self.read_copy(&logical) {
            return Ok(bytes);
        }
        let physical = pages::physical(&logical);
        check_far(|| self.cache.missing(&self.object, &[(kind, physical.clone())]).requests == 0)?;
        let read = self.cache.read(&self.object, kind, physical.clone());
        let read = async { read.await.map_err(|error| self.failed(error)) };
        let bytes = wait_for(&self.io, read)?;
        Ok(pages::payload(physical.start, &bytes, &logical))
    }

    async fn fetch(&self, wanted: &[ReadRange]) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let fetched = self.cache.fetch(&self.object, &physical(wanted)).await;
        fetched.map_err(|error| self.failed(error))
    }

    fn missing(&self, wanted: &[ReadRange]) -> (u64, u64) {
        if self.is_here() {
            return (0, 0);
        }
        if is_cold() {
            return uncached(wanted);
        }
        let cost = self.cache.missing(&self.object, &physical(wanted));
        (cost.requests, cost.bytes)
    }

    fn missing_by_kind(&self, wanted: &[ReadRange]) -> [(u64, u64); PartKind::ALL.len()] {
        if self.is_here() {
            return Default::default();
        }
        if is_cold() {
            return PartKind::ALL.map(|kind| {
                let own: Vec<ReadRange> = wanted.iter().filter(|(other, _)| *other == kind).cloned().collect();
                uncached(&own)
            });
        }
        let costs = self.cache.missing_by_kind(&self.object, &physical(wanted));
        costs.map(|cost| (cost.requests, cost.bytes))
    }

    fn io(&self) -> Option<&Handle> {
        match self.is_here() {
            true => None,
            false => Some(&self.io),
        }
    }
}

/// Converts an error of the store. A missing object that a manifest names is an error of the repository: the client
/// must not get an answer that looks as if there were no documents.
pub(super) fn failed(error: ObjectError) -> Error {
    match error.kind {
        ObjectErrorKind::NotFound => {
            let reason = format!("a split is missing in its repository: {error}");
            Error::new(ErrorKind::Repository, reason).caused_by(error)
        }
        _ => error.into(),
    }
}

/// Returns the requests and bytes if nothing is cached; a small gap between two ranges is fetched with them.
fn uncached(wanted: &[ReadRange]) -> (u64, u64) {
    let mut ranges: Vec<_> = physical(wanted).into_iter().map(|(_, range)| range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut requests, mut bytes) = (0, 0);
    let mut end: Option<u64> = None;
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let from = match end {
            Some(end) if range.start <= end + GAP_BYTES_MAX => end.min(range.end),
            _ => {
                requests += 1;
                range.start
            }
        };
        bytes += range.end - from;
        end = end.max(Some(range.end));
    }
    (requests, bytes)
}

fn physical(wanted: &[ReadRange]) -> Vec<ReadRange> {
    let physical = |(kind, logical): &ReadRange| (*kind, pages::physical(logical));
    wanted.iter().map(physical).collect()
}

/// Returns local bytes at once; if the read has to wait, the worker runs other jobs meanwhile.
fn wait_for(io: &Handle, read: impl Future<Output = Result<Bytes>>) -> Result<Bytes> {
    let mut read = pin!(read);
    let _inside = io.enter();
    if let Poll::Ready(outcome) = read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return outcome;
    }
    let bytes = wait_for_read(io, read)?;
    note_fetched((1, bytes.len() as u64));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_request_where_nothing_is_cached() {
        let wanted = |pages: &[std::ops::Range<u64>]| -> Vec<ReadRange> {
            let bytes =
                |pages: &std::ops::Range<u64>| pages.start * pages::PAYLOAD_BYTES..pages.end * pages::PAYLOAD_BYTES;
            pages.iter().map(|pages| (PartKind::Terms, bytes(pages))).collect()
        };
        let page = pages::PAGE_BYTES;
        assert_eq!(uncached(&[]), (0, 0));
        assert_eq!(uncached(&wanted(&[0..1, 3..4])), (1, 4 * page));
        assert_eq!(uncached(&wanted(&[100..101, 0..2, 1..3])), (2, 4 * page));
        assert_eq!(uncached(&wanted(&[0..10, 2..3])), (1, 10 * page), "one within another");
    }
}
