//! What keeps the making of a query within bounds: whether it should stop, and how large it is.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::memory::{Lent, Memory};
use super::query::{Expression, Matcher};
use crate::pool::yield_now;

/// Clauses of a compiled query on one shard, all fields of all words together: a word of a text is one, in a phrase too, where
/// each different one is another for its postings. A query of `CLAUSES_MAX` parts may read many fields; this many weights take
/// some tens of megabytes.
const CLAUSES_MAX: usize = 1 << 16;

/// Terms of a dictionary walked between two looks at whether to stop: some microseconds of work.
const LOOK_EVERY: u32 = 64;

/// Steps of a [`Pace`] between two looks: about a millisecond, at some 50 ns for a step.
const PACE_STEPS: usize = 1 << 14;

/// When a search ends with what it has found.
///
/// A search that has waited for a store in vain until its time was over goes on with what is here, for as long again at
/// most: what lies on this machine is not to be missing because something else hangs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Option<Instant>,
    after_waiting: Option<Instant>,
    /// What was not here failed: it is searched again without that.
    is_again: bool,
}

impl Deadline {
    pub(super) fn new(ctx: &RequestContext, timeout: Option<Duration>, is_again: bool) -> Self {
        // A time past the end of all time is none.
        let after = |times: u32| ctx.started.checked_add(timeout?.checked_mul(times)?);
        Self {
            at: after(1),
            after_waiting: after(2),
            is_again,
        }
    }

    /// Until its client leaves.
    pub(super) const NONE: Self = Self {
        at: None,
        after_waiting: None,
        is_again: false,
    };

    pub(super) fn is_over(&self, ctx: &RequestContext) -> bool {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| Instant::now() >= at);
        is_over(self.at) && is_over(self.instant(ctx))
    }

    /// When it is, as far as is known by now.
    pub(super) fn instant(&self, ctx: &RequestContext) -> Option<Instant> {
        match self.is_again || ctx.waiting().is_timed_out() {
            true => self.after_waiting,
            false => self.at,
        }
    }
}

/// Whether a search should stop: its client went away, or its time is over. Clones share it.
#[derive(Clone)]
pub(super) struct Stop(Arc<Inner>);

struct Inner {
    ctx: RequestContext,
    deadline: Deadline,
    memory: Memory,
    /// The expressions compiled so far. They live as long as the search.
    compiled: Mutex<HashMap<Expression, Arc<Matcher>>>,
}

impl Stop {
    pub(super) fn new(ctx: &RequestContext, deadline: Deadline, memory: &Memory) -> Self {
        Self(Arc::new(Inner {
            ctx: ctx.clone(),
            deadline,
            memory: memory.clone(),
            compiled: Mutex::default(),
        }))
    }

    /// Fails with [`ErrorKind::Cancelled`], or with [`ErrorKind::Timeout`], which leaves what was
    /// found so far.
    pub(super) fn check(&self) -> Result<()> {
        self.0.ctx.check()?;
        match self.0.deadline.is_over(&self.0.ctx) {
            true => Err(Error::new(ErrorKind::Timeout, "the time of the search is over")),
            false => Ok(()),
        }
    }

    /// What an expression was compiled to, or else is now.
    pub(super) fn compiled(
        &self,
        expression: &Expression,
        compile: impl FnOnce() -> Result<Matcher>,
    ) -> Result<Arc<Matcher>> {
        if let Some(known) = self.0.compiled.lock().get(expression) {
            return Ok(Arc::clone(known));
        }
        // Some take a millisecond and more.
        self.turn()?;
        let compiled = Arc::new(compile()?);
        let mut all = self.0.compiled.lock();
        all.insert(expression.clone(), Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Lets others have their turn, and checks; with no lock held.
    pub(super) fn turn(&self) -> Result<()> {
        yield_now();
        self.check()
    }

    /// Takes memory of the search.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        self.0.memory.take(bytes)
    }

    /// The same for as long as what is returned lives.
    pub(super) fn lend(&self, bytes: usize) -> Result<Lent<'_>> {
        self.0.memory.lend(bytes)
    }

    /// For long work on one document, done with no lock held.
    pub(super) fn pace(&self) -> Pace<'_> {
        Pace {
            stop: self,
            steps: Cell::new(0),
        }
    }

    /// For work on many documents, each of which may be long.
    pub(super) fn lasting_pace(&self) -> LastingPace {
        LastingPace {
            stop: self.clone(),
            steps: 0,
            held: 0,
        }
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

/// Long work in pieces of about a millisecond, between which others may have their turn.
pub(super) struct Pace<'a> {
    pub(super) stop: &'a Stop,
    steps: Cell<usize>,
}

impl Pace<'_> {
    /// To be called for so many steps of about 50 ns; checks now and then whether to stop.
    pub(super) fn step(&self, steps: usize) -> Result<()> {
        self.steps.set(paced(self.stop, self.steps.get(), steps)?);
        Ok(())
    }

    /// Checks at once.
    pub(super) fn pause(&self) -> Result<()> {
        self.steps.set(0);
        self.stop.turn()
    }
}

/// How many steps were done since the last look at whether to stop, after so many more.
fn paced(stop: &Stop, done: usize, more: usize) -> Result<usize> {
    let done = done.saturating_add(more);
    if done < PACE_STEPS {
        return Ok(done);
    }
    stop.turn()?;
    Ok(0)
}

/// A [`Pace`] that lives as long as some work does, with the memory that it holds.
pub(super) struct LastingPace {
    stop: Stop,
    steps: usize,
    held: usize,
}

impl LastingPace {
    /// As [`Pace::step`].
    pub(super) fn step(&mut self, steps: usize) -> Result<()> {
        self.steps = paced(&self.stop, self.steps, steps)?;
        Ok(())
    }

    /// Takes memory of the search, which is given back when this is dropped.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.stop.take(bytes)?;
        self.held += bytes;
        Ok(())
    }
}

impl Drop for LastingPace {
    fn drop(&mut self) {
        self.stop.0.memory.give(self.held);
    }
}

/// The bounds of one query on one shard while it is compiled.
pub(super) struct Guard {
    pub(super) stop: Stop,
    clauses: Cell<usize>,
    steps: Cell<usize>,
}

impl Guard {
    pub(super) fn new(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            clauses: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// As [`Pace::step`], for what is compiled.
    pub(super) fn step(&self, steps: usize) -> Result<()> {
        self.steps.set(paced(&self.stop, self.steps.get(), steps)?);
        Ok(())
    }

    /// Counts clauses; fails where there are too many.
    pub(super) fn take_clauses(&self, count: usize) -> Result<()> {
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
