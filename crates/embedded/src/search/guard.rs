//! What keeps the making of a query within bounds: whether it should stop, and how large it is.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};

use super::memory::Memory;

/// Clauses of a compiled query on one shard, all fields of all words together. A query of
/// `CLAUSES_MAX` parts may read many fields; this many weights take some tens of megabytes.
const CLAUSES_MAX: usize = 1 << 16;

/// Terms of a dictionary walked between two looks at whether to stop: some microseconds of work.
const LOOK_EVERY: u32 = 64;

/// Whether a search should stop: its client went away, or its time is over. Clones share it.
#[derive(Clone)]
pub(super) struct Stop(Arc<Inner>);

struct Inner {
    ctx: RequestContext,
    deadline: Option<Instant>,
    memory: Memory,
}

impl Stop {
    pub(super) fn new(ctx: &RequestContext, deadline: Option<Instant>, memory: &Memory) -> Self {
        Self(Arc::new(Inner {
            ctx: ctx.clone(),
            deadline,
            memory: memory.clone(),
        }))
    }

    /// Fails with [`ErrorKind::Cancelled`], or with [`ErrorKind::Timeout`], which leaves what was
    /// found so far.
    pub(super) fn check(&self) -> Result<()> {
        self.0.ctx.check()?;
        match self.0.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::new(ErrorKind::Timeout, "the time of the search is over"))
            }
            _ => Ok(()),
        }
    }

    /// Takes memory of the search.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        self.0.memory.take(bytes)
    }

    /// Checks now and then while a dictionary is walked.
    pub(super) fn walk(&self) -> Walk {
        Walk {
            stop: self.clone(),
            steps: AtomicU32::new(0),
        }
    }
}

/// A walk over the terms of a dictionary.
pub(super) struct Walk {
    stop: Stop,
    steps: AtomicU32,
}

impl Walk {
    /// To be called for every term; looks at the clock for some.
    pub(super) fn step(&self) -> Result<()> {
        if self.steps.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
            return self.stop.check();
        }
        Ok(())
    }
}

/// The bounds of one query on one shard while it is compiled.
pub(super) struct Guard {
    pub(super) stop: Stop,
    clauses: Cell<usize>,
}

impl Guard {
    pub(super) fn new(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            clauses: Cell::new(0),
        }
    }

    /// Counts clauses; fails where there are too many.
    pub(super) fn take_clauses(&self, count: usize) -> Result<()> {
        let clauses = self.clauses.get().saturating_add(count);
        if clauses > CLAUSES_MAX {
            return Err(Error::illegal_argument(format!(
                "Query contains too many nested clauses; maxClauseCount is set to {CLAUSES_MAX}"
            )));
        }
        self.clauses.set(clauses);
        Ok(())
    }
}
