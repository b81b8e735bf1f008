//! Limits for building a query: when to stop, and how large it may become.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::yield_now;
use parking_lot::Mutex;

use super::query::{Expression, Matcher};
use crate::run::memory::{Memory, MemoryLoan};

/// Most clauses of a compiled query on one shard, counted over all fields and all words. A word of a text is one
/// clause; in a phrase, each distinct word is another clause for its postings. A query of `CLAUSES_MAX` parts may
/// read many fields; this many weights take tens of megabytes.
const CLAUSES_MAX: usize = 1 << 16;

/// Terms of a dictionary between two checks for cancellation: a few microseconds of work.
const LOOK_EVERY: u32 = 64;

/// Steps of a [`Pace`] between two checks: about a millisecond, at about 50 ns per step.
const PACE_STEPS: usize = 1 << 14;

/// Time at which a search ends with the results so far.
///
/// If a search waited for a store until its timeout without success, it continues with local data, for at most the
/// same time again: local data must not be missing because a store hangs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<Instant>,
    after_waiting: Option<Instant>,
    /// This is a repeated attempt, without the shards that failed.
    is_again: bool,
}

impl Deadline {
    pub(crate) fn new(ctx: &RequestContext, timeout: Option<Duration>, is_again: bool) -> Self {
        // A time beyond the range of the clock is no deadline.
        let after = |times: u32| ctx.started.checked_add(timeout?.checked_mul(times)?);
        Self {
            at: after(1),
            after_waiting: after(2),
            is_again,
        }
    }

    /// No deadline; the search ends when its client disconnects.
    pub(crate) const NONE: Self = Self {
        at: None,
        after_waiting: None,
        is_again: false,
    };

    pub(crate) fn is_over(&self, ctx: &RequestContext) -> bool {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| Instant::now() >= at);
        is_over(self.at) && is_over(self.instant(ctx))
    }

    /// Returns the time of the deadline, as far as it is known now.
    pub(crate) fn instant(&self, ctx: &RequestContext) -> Option<Instant> {
        match self.is_again || ctx.waiting().is_timed_out() {
            true => self.after_waiting,
            false => self.at,
        }
    }
}

/// Test whether a search must stop, because its client disconnected or its time is over. Clones share the state.
#[derive(Clone)]
pub(crate) struct Stop(Arc<Inner>);

struct Inner {
    ctx: RequestContext,
    deadline: Deadline,
    memory: Memory,
    /// The expressions that were compiled so far. They live as long as the search.
    compiled: Mutex<HashMap<Expression, Arc<Matcher>>>,
}

impl Stop {
    pub(crate) fn new(ctx: &RequestContext, deadline: Deadline, memory: &Memory) -> Self {
        Self(Arc::new(Inner {
            ctx: ctx.clone(),
            deadline,
            memory: memory.clone(),
            compiled: Mutex::default(),
        }))
    }

    /// Fails with [`ErrorKind::Cancelled`], or with [`ErrorKind::Timeout`], which retains the results so far.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.ctx.check()?;
        match self.0.deadline.is_over(&self.0.ctx) {
            true => Err(Error::new(ErrorKind::Timeout, "the search timed out")),
            false => Ok(()),
        }
    }

    /// Returns the compiled form of an expression; compiles it on first use.
    pub(crate) fn compiled(
        &self,
        expression: &Expression,
        compile: impl FnOnce() -> Result<Matcher>,
    ) -> Result<Arc<Matcher>> {
        if let Some(known) = self.0.compiled.lock().get(expression) {
            return Ok(Arc::clone(known));
        }
        // Some expressions take a millisecond or more.
        self.turn()?;
        let compiled = Arc::new(compile()?);
        let mut all = self.0.compiled.lock();
        all.insert(expression.clone(), Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Yields to other work, then checks. Call it without holding a lock.
    pub(crate) fn turn(&self) -> Result<()> {
        yield_now();
        self.check()
    }

    /// Reserves memory of the search.
    pub(crate) fn take(&self, bytes: usize) -> Result<()> {
        self.0.memory.take(bytes)
    }

    /// Reserves memory of the search until the returned value is dropped.
    pub(crate) fn lend(&self, bytes: usize) -> Result<MemoryLoan<'_>> {
        self.0.memory.lend(bytes)
    }

    /// Returns a pace for long work on one document. Use it without holding a lock.
    pub(crate) fn pace(&self) -> Pace<'_> {
        Pace {
            stop: self,
            steps: Cell::new(0),
        }
    }

    /// Returns a pace for work on many documents, each of which may take long.
    pub(crate) fn lasting_pace(&self) -> OwnedPace {
        OwnedPace {
            stop: self.clone(),
            steps: 0,
            held: 0,
        }
    }

    /// Returns a checker for a walk over a dictionary.
    pub(crate) fn walk(&self) -> Walk {
        Walk {
            stop: self.clone(),
            steps: AtomicU32::new(0),
        }
    }
}

/// Checker for a walk over the terms of a dictionary.
pub(crate) struct Walk {
    stop: Stop,
    steps: AtomicU32,
}

impl Walk {
    /// Counts a term; reads the clock every few terms.
    pub(crate) fn step(&self) -> Result<()> {
        if self.steps.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
            return self.stop.check();
        }
        Ok(())
    }
}

/// Divider of long work into pieces of about a millisecond; other work may run between them.
pub(crate) struct Pace<'a> {
    pub(crate) stop: &'a Stop,
    steps: Cell<usize>,
}

impl Pace<'_> {
    /// Counts `steps` steps of about 50 ns; sometimes yields and checks.
    pub(crate) fn step(&self, steps: usize) -> Result<()> {
        self.steps.set(paced(self.stop, self.steps.get(), steps)?);
        Ok(())
    }

    /// Yields and checks at once.
    pub(crate) fn pause(&self) -> Result<()> {
        self.steps.set(0);
        self.stop.turn()
    }
}

/// Returns the number of steps since the last check, after `more` further steps.
fn paced(stop: &Stop, done: usize, more: usize) -> Result<usize> {
    let done = done.saturating_add(more);
    if done < PACE_STEPS {
        return Ok(done);
    }
    stop.turn()?;
    Ok(0)
}

/// A [`Pace`] that lives as long as the work itself, with the memory that the work holds.
pub(crate) struct OwnedPace {
    stop: Stop,
    steps: usize,
    held: usize,
}

impl OwnedPace {
    /// Works like [`Pace::step`].
    pub(crate) fn step(&mut self, steps: usize) -> Result<()> {
        self.steps = paced(&self.stop, self.steps, steps)?;
        Ok(())
    }

    /// Reserves memory of the search, which is released when this value is dropped.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.stop.take(bytes)?;
        self.held += bytes;
        Ok(())
    }
}

impl Drop for OwnedPace {
    fn drop(&mut self) {
        self.stop.0.memory.give(self.held);
    }
}

/// Limits of one query on one shard during compilation.
pub(crate) struct Guard {
    pub(crate) stop: Stop,
    clauses: Cell<usize>,
    steps: Cell<usize>,
}

impl Guard {
    pub(crate) fn new(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            clauses: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// Works like [`Pace::step`], for compilation.
    pub(crate) fn step(&self, steps: usize) -> Result<()> {
        self.steps.set(paced(&self.stop, self.steps.get(), steps)?);
        Ok(())
    }

    /// Counts clauses; fails if there are too many.
    pub(crate) fn take_clauses(&self, count: usize) -> Result<()> {
        let clauses = self.clauses.get().saturating_add(count);
        if clauses > CLAUSES_MAX {
            return Err(Error::illegal_argument(format!(
                "Query contains too many nested clauses; maxClauseCount is set to {CLAUSES_MAX}, and each word of a text is a clause"
            )));
        }
        self.clauses.set(clauses);
        Ok(())
    }
}
