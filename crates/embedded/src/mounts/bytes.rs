//! The bytes of a split that lies in a repository.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use firn_model::Result;
use firn_storage::object::ObjectError;
use firn_storage::regions::{CachedObject, RegionCache};
use firn_storage::split::{PartKind, pages};
use tokio::runtime::Handle;

use super::local::LocalSplit;
use crate::pool::wait_for_others;
use crate::splits::{SplitBytes, Wanted};

/// Reads a split from the copy on this node if there is one, else through the shared cache.
pub(super) struct MountedBytes {
    pub(super) object: Arc<CachedObject>,
    pub(super) cache: Arc<RegionCache>,
    pub(super) io: Handle,
    /// Where its whole copy is, or will be.
    pub(super) local: Option<Arc<LocalSplit>>,
}

impl fmt::Debug for MountedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MountedBytes({})", self.object.key)
    }
}

impl MountedBytes {
    fn whole(&self) -> Option<Arc<crate::splits::WholeSplit>> {
        self.local.as_ref()?.whole()
    }
}

#[async_trait]
impl SplitBytes for MountedBytes {
    fn read(&self, kind: PartKind, logical: Range<u64>) -> Result<Bytes> {
        if let Some(local) = &self.local
            && let Some(whole) = local.whole()
        {
            match whole.read(kind, logical.clone()) {
                Ok(bytes) => return Ok(bytes),
                // The repository has what was there; the copy is made again.
                Err(error) => local.is_damaged(&error),
            }
        }
        let physical = pages::physical(&logical);
        let read = self.cache.read(&self.object, kind, physical.clone());
        let bytes = wait_for(&self.io, read)?;
        Ok(pages::payload(physical.start, &bytes, &logical))
    }

    async fn fetch(&self, wanted: &[Wanted]) -> Result<()> {
        if self.whole().is_some() {
            return Ok(());
        }
        self.cache.fetch(&self.object, &physical(wanted)).await?;
        Ok(())
    }

    fn missing(&self, wanted: &[Wanted]) -> (u64, u64) {
        if self.whole().is_some() {
            return (0, 0);
        }
        let cost = self.cache.missing(&self.object, &physical(wanted));
        (cost.requests, cost.bytes)
    }

    fn io(&self) -> Option<&Handle> {
        match self.whole() {
            Some(_) => None,
            None => Some(&self.io),
        }
    }
}

fn physical(wanted: &[Wanted]) -> Vec<Wanted> {
    let physical = |(kind, logical): &Wanted| (*kind, pages::physical(logical));
    wanted.iter().map(physical).collect()
}

/// What is at hand comes at once; for the rest others may run meanwhile.
fn wait_for(io: &Handle, read: impl Future<Output = Result<Bytes, ObjectError>>) -> Result<Bytes> {
    let mut read = pin!(read);
    let _inside = io.enter();
    if let Poll::Ready(outcome) = read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return Ok(outcome?);
    }
    Ok(wait_for_others(|| io.block_on(read))?)
}
