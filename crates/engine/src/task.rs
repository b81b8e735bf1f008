//! What every call carries, and how it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::{Error, ErrorKind, Progress, Result, Scope, Work};

/// A flag that the edge raises when the client goes away. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    raised: Arc<AtomicBool>,
    /// See [`Cancel::pausing`].
    pause: Option<fn()>,
}

impl Cancel {
    /// The same flag for work that lets others have their turn: loops under a [`Watch`] call `pause`
    /// now and then, so they must not be run with a lock held.
    #[must_use]
    pub fn pausing(&self, pause: fn()) -> Self {
        Self {
            raised: Arc::clone(&self.raised),
            pause: Some(pause),
        }
    }

    /// Asks the work to stop. It does so within some milliseconds.
    pub fn cancel(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Fails with [`ErrorKind::Cancelled`] once the work should stop. Cheap enough for every
    /// thousandth round of the tightest loop.
    pub fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::new(
                ErrorKind::Cancelled,
                "task cancelled because the client went away",
            )),
            false => Ok(()),
        }
    }
}

/// Looks at a [`Cancel`] once in a while, for loops whose rounds take less than a microsecond.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    cancel: Cancel,
    rounds: u32,
}

impl Watch {
    /// Rounds between two looks: some 100 µs at most, and no cost that could be measured.
    const EVERY: u32 = 1024;
    /// Rounds between two pauses, for rounds that take more.
    const PAUSE_EVERY: u32 = 64;

    /// Looks at `cancel`.
    pub fn new(cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            rounds: 0,
        }
    }

    /// To be called in each round; fails with [`ErrorKind::Cancelled`] once the work should stop.
    pub fn tick(&mut self) -> Result<()> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(Self::PAUSE_EVERY)
            && let Some(pause) = self.cancel.pause
        {
            pause();
        }
        match self.rounds.is_multiple_of(Self::EVERY) {
            true => self.cancel.check(),
            false => Ok(()),
        }
    }
}

/// Travels with every engine call.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Raised when the client goes away or the task is cancelled.
    pub cancel: Cancel,
    /// When the request came in; `took` counts from here.
    pub started: Instant,
    /// `X-Opaque-Id` of the client, for logs and `_tasks`.
    pub opaque_id: Option<String>,
    /// What the client does, as Elasticsearch names it (`indices:data/read/search`). Empty: nothing
    /// that a client asked for.
    pub action: &'static str,
    /// What the request may touch.
    pub scope: Arc<Scope>,
    /// What it costs, counted by the engine.
    pub work: Arc<Work>,
    /// Where a search leaves what it has found before it ends; `None`: nobody asks.
    pub progress: Option<Arc<Progress>>,
}

impl RequestContext {
    /// A context for a request that starts now, of an operator.
    pub fn new() -> Self {
        Self {
            cancel: Cancel::default(),
            started: Instant::now(),
            opaque_id: None,
            action: "",
            scope: Arc::default(),
            work: Arc::default(),
            progress: None,
        }
    }

    /// What a client is told instead of `error`: where not all is within reach, a name that is not
    /// there and one that is out of reach are refused in the same words.
    pub fn tell(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::IndexNotFound if !self.scope.is_unlimited() => {
                self.scope.refusal(self.action, error.index().unwrap_or_default())
            }
            _ => error,
        }
    }

    /// Fails with [`ErrorKind::Cancelled`] once the work should stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

impl Default for RequestContext {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_watches_ends_soon() {
        let cancel = Cancel::default();
        let mut watch = Watch::new(&cancel);
        assert!((0..10_000).all(|_| watch.tick().is_ok()));
        cancel.cancel();
        let rounds = (0..10_000).take_while(|_| watch.tick().is_ok()).count();
        assert!(rounds < 1024, "{rounds}");
    }
}
