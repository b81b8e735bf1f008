//! Memory budgets of one search and of all searches together (circuit breakers).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use firn_model::{Error, ErrorKind, Result};
use firn_query::{Cancel, Watch};
use firn_scheduler::yield_now;

/// The memory that all searches of a node may take together (`indices.breaker.total.limit`): a hundred searches,
/// each within its budget, must not take a hundred budgets.
#[derive(Debug)]
pub struct NodeMemory {
    used: AtomicU64,
    limit: u64,
    tripped: AtomicU64,
    tripped_by_one: AtomicU64,
}

impl NodeMemory {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicU64::new(0),
            limit,
            tripped: AtomicU64::new(0),
            tripped_by_one: AtomicU64::new(0),
        })
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the numbers of searches that failed at the node's limit and at the limit of one request.
    pub fn tripped(&self) -> (u64, u64) {
        (
            self.tripped.load(Ordering::Relaxed),
            self.tripped_by_one.load(Ordering::Relaxed),
        )
    }

    fn take(&self, bytes: u64) -> Result<()> {
        take(&self.used, bytes, self.limit).map_err(|wanted| {
            self.tripped.fetch_add(1, Ordering::Relaxed);
            too_large("parent", wanted, self.limit)
        })
    }

    fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Counter of one search's bytes against its limit and the node's; clones share it. It counts approximately what
/// grows with the data: buckets, candidates, sources. All of it is released when the search ends.
///
/// All long work has one of these, so it also says when to stop.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    used: AtomicU64,
    limit: u64,
    node: Option<Arc<NodeMemory>>,
    cancel: Cancel,
    /// The same flag, with the deadline of the search.
    in_time: Cancel,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(node) = &self.node {
            node.give(*self.used.get_mut());
        }
    }
}

/// Bytes that are released on drop.
pub(crate) struct MemoryLoan<'a> {
    memory: &'a Memory,
    bytes: usize,
}

impl Drop for MemoryLoan<'_> {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

impl Memory {
    /// Creates a budget of `limit` bytes for a search that `cancel` ends.
    pub fn new(limit: u64, node: Option<Arc<NodeMemory>>, cancel: Cancel) -> Self {
        Self::until(limit, node, cancel, None)
    }

    /// Creates a budget for a search that also ends at `deadline`.
    pub(crate) fn until(limit: u64, node: Option<Arc<NodeMemory>>, cancel: Cancel, deadline: Option<Instant>) -> Self {
        Self(Arc::new(Inner {
            used: AtomicU64::new(0),
            limit,
            node,
            in_time: cancel.until(deadline),
            cancel,
        }))
    }

    /// Yields to other work during long work on documents; call it without a lock that other threads need. Fails
    /// with [`ErrorKind::Cancelled`], or with [`ErrorKind::Timeout`], which retains the results so far.
    pub(crate) fn pause(&self) -> Result<()> {
        yield_now();
        self.0.in_time.check()
    }

    /// Returns whether [`Memory::pause`] has failed with a timeout.
    pub(crate) fn ended_late(&self) -> bool {
        self.0.in_time.is_timed_out()
    }

    /// Reserves `bytes`. Fails with [`ErrorKind::CircuitBreaking`] if a limit would be exceeded, and with
    /// [`ErrorKind::Cancelled`] if the search is cancelled.
    pub fn take(&self, bytes: usize) -> Result<()> {
        self.0.cancel.check()?;
        let (own, bytes) = (&self.0, bytes as u64);
        take(&own.used, bytes, own.limit).map_err(|wanted| {
            if let Some(node) = &own.node {
                node.tripped_by_one.fetch_add(1, Ordering::Relaxed);
            }
            too_large("request", wanted, own.limit)
        })?;
        match &own.node {
            Some(node) => node.take(bytes).inspect_err(|_| {
                own.used.fetch_sub(bytes, Ordering::Relaxed);
            }),
            None => Ok(()),
        }
    }

    /// Reserves `bytes` until the returned value is dropped.
    pub(crate) fn lend(&self, bytes: usize) -> Result<MemoryLoan<'_>> {
        self.take(bytes)?;
        Ok(MemoryLoan { memory: self, bytes })
    }

    /// Reserves as much again as is in use, for a copy of the results so far; `None`: the limits do not allow it,
    /// which is no failure of the search.
    pub(crate) fn lend_copy(&self) -> Option<MemoryLoan<'_>> {
        let own = &self.0;
        let bytes = own.used.load(Ordering::Relaxed);
        take(&own.used, bytes, own.limit).ok()?;
        if let Some(node) = &own.node
            && take(&node.used, bytes, node.limit).is_err()
        {
            own.used.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(MemoryLoan {
            memory: self,
            bytes: bytes as usize,
        })
    }

    /// Releases `bytes`.
    pub(crate) fn give(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes as u64, Ordering::Relaxed);
        if let Some(node) = &self.0.node {
            node.give(bytes as u64);
        }
    }

    /// Returns a cancellation check for loops over the results.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(&self.0.cancel)
    }
}

/// Adds to a counter; if the limit would be exceeded, returns the sum as an error.
fn take(used: &AtomicU64, bytes: u64, limit: u64) -> Result<(), u64> {
    let wanted = used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if wanted <= limit {
        return Ok(());
    }
    used.fetch_sub(bytes, Ordering::Relaxed);
    Err(wanted)
}

fn too_large(breaker: &str, wanted: u64, limit: u64) -> Error {
    Error::new(
        ErrorKind::CircuitBreaking,
        format!(
            "[{breaker}] Data too large, data for [<search>] would be [{wanted}/{}], which is larger than the limit of \
             [{limit}/{}]",
            readable(wanted),
            readable(limit)
        ),
    )
}

/// Formats bytes like Elasticsearch (`1.5mb`).
fn readable(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)];
    for (name, size) in UNITS {
        if bytes >= size {
            let tenths = (u128::from(bytes) * 10 / u128::from(size)) as u64;
            return match tenths % 10 {
                0 => format!("{}{name}", tenths / 10),
                fraction => format!("{}.{fraction}{name}", tenths / 10),
            };
        }
    }
    format!("{bytes}b")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_search_and_all_together_are_bounded() {
        let node = NodeMemory::new(150);
        let search = || Memory::new(100, Some(Arc::clone(&node)), Cancel::default());
        let (first, second) = (search(), search());
        first.take(90).unwrap();
        let error = first.take(20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CircuitBreaking);
        assert!(error.reason().starts_with("[request] Data too large"), "{error}");
        assert!(
            error
                .reason()
                .contains("[110/110b], which is larger than the limit of [100/100b]"),
            "{error}"
        );
        second.take(60).unwrap();
        assert!(
            second
                .take(20)
                .unwrap_err()
                .reason()
                .starts_with("[parent] Data too large")
        );
        assert_eq!(
            (node.used(), node.tripped()),
            (150, (1, 1)),
            "rejected bytes are not counted"
        );
        first.give(50);
        second.take(20).unwrap();
        drop(first);
        drop(second);
        assert_eq!(node.used(), 0, "all memory is released");
    }

    #[test]
    fn a_cancelled_search_takes_no_memory() {
        let cancel = Cancel::default();
        let memory = Memory::new(100, None, cancel.clone());
        memory.take(1).unwrap();
        cancel.cancel();
        assert_eq!(memory.take(1).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
