//! Dry-run prefetch: finds out which reads a task would wait for by running it without waiting.
//!
//! A search of a split reads bytes where it needs them, and each read that is not local is a request to a remote store.
//! To send all requests at once, the task first runs with *collecting* enabled in its thread: local reads succeed, all
//! others fail and are recorded. The failed step stops there; [`or_later`] lets the task continue with its next part.
//! The recorded reads are fetched together, and the next dry run gets one step further: terms, then postings and
//! columns, then documents.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};
use firn_query::Cancel;
use firn_scheduler::wait_for_far;
use firn_storage::split::PartKind;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::{ReadRange, SplitBytes};

/// Dependent rounds of requests before a task begins; reads that are missing after that are fetched one by one. A
/// dashboard takes three rounds: terms, postings and columns, and the dictionary lookups of aggregations.
const ROUNDS_MAX: usize = 4;
/// How often a wait for bytes checks for cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(50);

thread_local! {
    /// Requests and bytes that the task of this thread had to wait for.
    static FETCHED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static COLLECTED: RefCell<Option<CollectedReads>> = const { RefCell::new(None) };
    /// See [`noted`].
    static NOTED: Cell<u64> = const { Cell::new(0) };
    /// Cancellation of the waits of this thread.
    static WAITING: RefCell<Option<Cancel>> = const { RefCell::new(None) };
    /// Nothing counts as cached.
    static IS_COLD: Cell<bool> = const { Cell::new(false) };
    static ROWS: RefCell<Rows> = const { RefCell::new(Rows::All) };
}

/// Kind, start and end of the reads of one split.
type Ranges = BTreeSet<(PartKind, u64, u64)>;

/// Recorded reads.
#[derive(Debug, Default)]
pub struct CollectedReads {
    /// By split, in the order of their first read.
    by_split: Vec<(Arc<dyn SplitBytes>, Ranges)>,
}

impl CollectedReads {
    fn add(&mut self, bytes: &Arc<dyn SplitBytes>, kind: PartKind, range: &Range<u64>) {
        let read = (kind, range.start, range.end);
        match self.by_split.iter_mut().rev().find(|(own, _)| Arc::ptr_eq(own, bytes)) {
            Some((_, reads)) => {
                reads.insert(read);
            }
            None => self.by_split.push((Arc::clone(bytes), BTreeSet::from([read]))),
        }
    }

    /// Whether the task has to wait for nothing.
    pub fn is_empty(&self) -> bool {
        self.by_split.is_empty()
    }

    /// Returns the reads by split.
    pub fn into_wanted(self) -> impl Iterator<Item = (Arc<dyn SplitBytes>, Vec<ReadRange>)> {
        let wanted = |(kind, start, end)| (kind, start..end);
        self.by_split
            .into_iter()
            .map(move |(bytes, reads)| (bytes, reads.into_iter().map(wanted).collect()))
    }

    /// Fetches all reads, as many at once as the store permits. A failed read is repeated where its bytes are used, and
    /// fails there.
    fn fetch(self, waiting: &Cancel) -> Result<()> {
        let Some(io) = self.by_split.iter().find_map(|(bytes, _)| bytes.io().cloned()) else {
            return Ok(());
        };
        // Start nothing if the wait is already cancelled.
        waiting.check()?;
        for (bytes, ranges) in &self.by_split {
            let wanted: Vec<ReadRange> = ranges.iter().map(|(kind, start, end)| (*kind, *start..*end)).collect();
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
                        tracing::debug!(%error, "cannot prefetch bytes of a split");
                    }
                    // Running requests end when the set is dropped.
                    waiting.check()?;
                }
                Ok(())
            })
        })
    }
}

/// Panic payload of a reader whose interface has no errors, and of a scorer that must stop.
pub struct ReadFailed(pub Error);

/// Unwinds with the error of a read.
pub fn fail(error: Error) -> ! {
    resume_unwind(Box::new(ReadFailed(error)))
}

/// Runs a task and returns the error of a failed read inside it as its result. Other panics continue.
pub fn catch<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome,
        Err(panic) => match panic.downcast::<ReadFailed>() {
            Ok(failed) => Err(failed.0),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// The rows of the current segment that the dry run is interested in.
#[derive(Debug, Clone, Default)]
pub enum Rows {
    /// All rows.
    #[default]
    All,
    /// These documents.
    Of(Arc<[Range<u32>]>),
}

/// Dry-runs one step of a task for these rows of a segment: the step requests only the parts of a column that hold
/// them.
pub fn on_rows<T>(rows: &Rows, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = ROWS.replace(rows.clone());
    let outcome = catch(step);
    ROWS.set(before);
    outcome
}

/// Returns the rows of the current step.
pub(crate) fn rows() -> Rows {
    ROWS.with_borrow(Rows::clone)
}

/// Adds to the requests and bytes that this thread waited for.
pub fn note_fetched((requests, bytes): (u64, u64)) {
    let (requests_before, bytes_before) = FETCHED.get();
    FETCHED.set((requests_before + requests, bytes_before + bytes));
}

/// Runs a task of a request. Waits of this thread count for the request and end as [`RequestContext::waiting`] says. In
/// a nested call they count only here.
pub fn metered<T>(ctx: &RequestContext, job: impl FnOnce() -> T) -> T {
    /// Restores the previous value, also if a read unwinds.
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

/// Waits for one read, as long as the task of this thread may wait. Its worker runs other jobs meanwhile.
pub fn wait_for_read<T>(io: &Handle, read: impl Future<Output = Result<T>>) -> Result<T> {
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

/// Fails without a request if the task of this thread may no longer wait and the bytes are not local.
pub fn check_far(is_at_hand: impl FnOnce() -> bool) -> Result<()> {
    let waiting = WAITING.with_borrow(Clone::clone);
    match waiting {
        Some(waiting) if waiting.is_over() && !is_at_hand() => waiting.check(),
        _ => Ok(()),
    }
}

/// Whether this thread is in a dry run.
pub fn is_collecting() -> bool {
    COLLECTED.with_borrow(Option::is_some)
}

/// Returns how often this thread found missing bytes so far.
pub fn noted() -> u64 {
    NOTED.get()
}

/// In a dry run, replaces an error with `instead`, so that the task continues with its next part.
pub fn or_later<T, E>(result: Result<T, E>, instead: T) -> Result<T, E> {
    match result {
        Err(_) if is_collecting() => Ok(instead),
        other => other,
    }
}

/// Dry-runs a task and returns the reads that it would wait for. Its result is discarded.
pub fn collect(work: impl FnOnce()) -> CollectedReads {
    COLLECTED.set(Some(CollectedReads::default()));
    // Tantivy panics on some failed reads; the real run returns the error.
    let _ = catch_unwind(AssertUnwindSafe(work));
    COLLECTED.take().unwrap_or_default()
}

/// Repeats dry run and fetch until all bytes are local, or until `waiting` ends.
pub fn bring(waiting: &Cancel, work: impl Fn()) -> Result<()> {
    for _ in 0..ROUNDS_MAX {
        let reads = collect(&work);
        if reads.is_empty() {
            return Ok(());
        }
        reads.fetch(waiting)?;
    }
    Ok(())
}

/// Runs a task as if nothing were cached.
pub fn cold<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the previous value, also if a read unwinds.
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
pub fn is_cold() -> bool {
    IS_COLD.get()
}

/// If this thread is in a dry run and the range is not local, records the read and fails.
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
    Err(Error::new(ErrorKind::Unavailable, "bytes of a split are not local"))
}
