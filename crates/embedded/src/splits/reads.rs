//! What a piece of work would have to wait for, found out by trying it.
//!
//! Searching a split reads it where it needs something, and each read that is not at hand is a
//! request to a store far away. To make them all at once, the work is tried first with *collecting* turned
//! on in its thread: reads at hand go through, the others fail and are written down. What fails is tried no
//! further, so work that can go on with its next part does so by [`or_later`]. What was written down is
//! fetched together, and the next try comes a step further: terms, then postings and columns, then documents.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Cancel, RequestContext};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::PartKind;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::{SplitBytes, Wanted};
use crate::pool::wait_for_far;

/// Dependent rounds of requests before a piece of work begins; what is missing then is read one by one. A
/// dashboard takes three: terms, postings and columns, and what aggregations look up.
const ROUNDS_MAX: usize = 4;
/// How often a wait for bytes looks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

thread_local! {
    /// Requests and bytes that the work of this thread had to wait for.
    static FETCHED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static COLLECTED: RefCell<Option<Reads>> = const { RefCell::new(None) };
    /// See [`noted`].
    static NOTED: Cell<u64> = const { Cell::new(0) };
    /// What ends the waiting of this thread's work.
    static WAITING: RefCell<Option<Cancel>> = const { RefCell::new(None) };
    /// Nothing counts as cached.
    static IS_COLD: Cell<bool> = const { Cell::new(false) };
    static ROWS: RefCell<Rows> = const { RefCell::new(Rows::All) };
}

/// Kind, start and end of reads of one split.
type Ranges = BTreeSet<(PartKind, u64, u64)>;

/// Reads that were written down.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// By split, in the order in which they came up.
    by_split: Vec<(Arc<dyn SplitBytes>, Ranges)>,
}

impl Reads {
    fn add(&mut self, bytes: &Arc<dyn SplitBytes>, kind: PartKind, range: &Range<u64>) {
        let read = (kind, range.start, range.end);
        match self.by_split.iter_mut().rev().find(|(own, _)| Arc::ptr_eq(own, bytes)) {
            Some((_, reads)) => {
                reads.insert(read);
            }
            None => self.by_split.push((Arc::clone(bytes), BTreeSet::from([read]))),
        }
    }

    /// Whether nothing has to be waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_split.is_empty()
    }

    /// The reads by split.
    pub(crate) fn into_wanted(self) -> impl Iterator<Item = (Arc<dyn SplitBytes>, Vec<Wanted>)> {
        let wanted = |(kind, start, end)| (kind, start..end);
        self.by_split
            .into_iter()
            .map(move |(bytes, reads)| (bytes, reads.into_iter().map(wanted).collect()))
    }

    /// Fetches all of them, as many at once as the store takes. What fails is read again by whoever needs
    /// it, and fails there.
    fn fetch(self, waiting: &Cancel) -> Result<()> {
        let Some(io) = self.by_split.iter().find_map(|(bytes, _)| bytes.io().cloned()) else {
            return Ok(());
        };
        // Nothing is begun that nobody waits for.
        waiting.check()?;
        for (bytes, ranges) in &self.by_split {
            let wanted: Vec<Wanted> = ranges.iter().map(|(kind, start, end)| (*kind, *start..*end)).collect();
            note_fetched(bytes.missing(&wanted));
        }
        wait_for_far(waiting, || {
            io.block_on(async {
                let mut fetches = JoinSet::new();
                for (bytes, wanted) in self.into_wanted() {
                    fetches.spawn(async move { bytes.fetch(&wanted).await });
                }
                while !fetches.is_empty() {
                    if let Ok(Some(Ok(Err(error)))) = tokio::time::timeout(LOOK_EVERY, fetches.join_next()).await {
                        tracing::debug!(%error, "bytes of a split could not be fetched ahead");
                    }
                    // Those that are under way end with the set.
                    waiting.check()?;
                }
                Ok(())
            })
        })
    }
}

/// What a reader that nobody expects to fail unwinds with, and a scorer that is to stop.
pub(crate) struct ReadFailed(pub(crate) Error);

/// Unwinds with why a read failed.
pub(crate) fn fail(error: Error) -> ! {
    resume_unwind(Box::new(ReadFailed(error)))
}

/// Runs some work, of which a read that failed inside is the outcome. Other panics go on.
pub(crate) fn catch<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome,
        Err(panic) => match panic.downcast::<ReadFailed>() {
            Ok(failed) => Err(failed.0),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// Which rows of the segment at hand are of interest to the work that is tried.
#[derive(Debug, Clone, Default)]
pub(crate) enum Rows {
    /// All that it has.
    #[default]
    All,
    /// These documents.
    Of(Arc<[Range<u32>]>),
}

/// Tries a step of some work on these rows of a segment: what it opens there is wanted as far as they reach.
pub(crate) fn on_rows<T>(rows: &Rows, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = ROWS.replace(rows.clone());
    let outcome = catch(step);
    ROWS.set(before);
    outcome
}

/// The rows that the step at hand is about.
pub(crate) fn rows() -> Rows {
    ROWS.with_borrow(Rows::clone)
}

/// Counts what this thread has to wait for.
pub(crate) fn note_fetched((requests, bytes): (u64, u64)) {
    let (requests_before, bytes_before) = FETCHED.get();
    FETCHED.set((requests_before + requests, bytes_before + bytes));
}

/// Does some work of a request. What this thread has to wait for meanwhile is counted as part of the request's, and is not
/// waited for any longer than [`RequestContext::waiting`] says. Within another call it is counted here alone.
pub(crate) fn metered<T>(ctx: &RequestContext, job: impl FnOnce() -> T) -> T {
    /// Puts back what was, also where a read unwinds.
    struct Before(Option<Cancel>);
    impl Drop for Before {
        fn drop(&mut self) {
            WAITING.set(self.0.take());
        }
    }
    let before = FETCHED.take();
    let waiting = Before(WAITING.replace(Some(ctx.waiting().clone())));
    let outcome = job();
    drop(waiting);
    let (requests, bytes) = FETCHED.replace(before);
    if requests > 0 {
        ctx.work.add_fetched(requests, bytes);
    }
    outcome
}

/// Waits for one read, as long as the work of this thread may. Others run meanwhile.
pub(crate) fn wait_for_read<T>(io: &Handle, read: impl Future<Output = Result<T>>) -> Result<T> {
    let waiting = WAITING.with_borrow(Clone::clone).unwrap_or_default();
    wait_for_far(&waiting, || {
        io.block_on(async {
            let mut read = pin!(read);
            loop {
                if let Ok(outcome) = tokio::time::timeout(LOOK_EVERY, read.as_mut()).await {
                    return outcome;
                }
                waiting.check()?;
            }
        })
    })
}

/// Fails where the work of this thread waits no longer and what it reads is not at hand: then no request is begun.
pub(crate) fn check_far(is_at_hand: impl FnOnce() -> bool) -> Result<()> {
    let waiting = WAITING.with_borrow(Clone::clone);
    match waiting {
        Some(waiting) if waiting.is_over() && !is_at_hand() => waiting.check(),
        _ => Ok(()),
    }
}

/// Whether this thread only finds out what it would have to wait for.
pub(crate) fn is_collecting() -> bool {
    COLLECTED.with_borrow(Option::is_some)
}

/// How often this thread found so far that something is not at hand.
pub(crate) fn noted() -> u64 {
    NOTED.get()
}

/// Of a try, what failed counts as this, so that the work goes on with its next part.
pub(crate) fn or_later<T, E>(result: Result<T, E>, instead: T) -> Result<T, E> {
    match result {
        Err(_) if is_collecting() => Ok(instead),
        other => other,
    }
}

/// Tries some work and says what it would have to wait for. Its outcome does not count.
pub(crate) fn collect(work: impl FnOnce()) -> Reads {
    COLLECTED.set(Some(Reads::default()));
    // Tantivy panics over some reads that fail; the work itself will say what is wrong.
    let _ = catch_unwind(AssertUnwindSafe(work));
    COLLECTED.take().unwrap_or_default()
}

/// Tries some work until it finds everything at hand, as long as `waiting` says.
pub(crate) fn bring(waiting: &Cancel, work: impl Fn()) -> Result<()> {
    for _ in 0..ROUNDS_MAX {
        let reads = collect(&work);
        if reads.is_empty() {
            return Ok(());
        }
        reads.fetch(waiting)?;
    }
    Ok(())
}

/// Tries some work as if nothing were cached.
pub(crate) fn cold<T>(work: impl FnOnce() -> T) -> T {
    /// Puts back what was, also where a read unwinds.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_COLD.set(self.0);
        }
    }
    let _before = Before(IS_COLD.replace(true));
    work()
}

/// Whether nothing counts as cached for this thread.
pub(crate) fn is_cold() -> bool {
    IS_COLD.get()
}

/// Fails if a range is not at hand and this thread is collecting, which writes it down.
pub(super) fn note(bytes: &Arc<dyn SplitBytes>, kind: PartKind, range: &Range<u64>) -> Result<()> {
    if !is_collecting() || bytes.io().is_none() || bytes.missing(&[(kind, range.clone())]).0 == 0 {
        return Ok(());
    }
    COLLECTED.with_borrow_mut(|collected| {
        if let Some(reads) = collected {
            reads.add(bytes, kind, range);
        }
    });
    NOTED.set(NOTED.get() + 1);
    Err(Error::new(ErrorKind::Unavailable, "bytes of a split are not here yet"))
}
