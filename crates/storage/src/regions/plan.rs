//! Request planning: converts wanted ranges to pages, and groups pages into requests.

use std::ops::{AddAssign, Range};

use crate::split::PartKind;
use crate::split::pages::PAGE_BYTES;

/// Maximum gap between wanted pages that are fetched together. 32 KB take half a millisecond, a request takes thirty,
/// and stores charge for requests, not for bytes.
const GAP_PAGES_MAX: u64 = (32 << 10) / PAGE_BYTES;

/// The same in bytes: the maximum that is fetched along with a range to reach a neighbouring one.
pub const GAP_BYTES_MAX: u64 = GAP_PAGES_MAX * PAGE_BYTES;

/// Maximum length of a request: one connection transfers 50 to 100 MB/s, several together use the whole network.
pub(super) const REQUEST_PAGES_MAX: u64 = (8 << 20) / PAGE_BYTES;

/// Cost of reads from a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Ranged reads.
    pub requests: u64,
    /// Bytes of these reads.
    pub bytes: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

/// Consecutive pages of one kind. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) kind: PartKind,
    pub(super) pages: Range<u64>,
}

/// One ranged read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) pages: Range<u64>,
    /// Wanted pages among them, in order; never empty. Pages in gaps are not wanted.
    pub(super) runs: Vec<Run>,
}

impl Request {
    /// Returns the kind of a page; a page in a gap counts as the kind of the run before it.
    pub(super) fn kind(&self, page: u64) -> PartKind {
        let after = self.runs.partition_point(|run| run.pages.start <= page);
        self.runs[after.saturating_sub(1)].kind
    }

    /// Returns the byte range in the object.
    pub(super) fn bytes(&self) -> Range<u64> {
        self.pages.start * PAGE_BYTES..self.pages.end * PAGE_BYTES
    }
}

/// Returns the whole pages of physical ranges within an object of `len` bytes, sorted and without overlaps. Overlapping
/// pages get the kind of the range that starts first.
pub(super) fn runs(wanted: &[(PartKind, Range<u64>)], len: u64) -> Vec<Run> {
    let mut sorted: Vec<Run> = wanted
        .iter()
        .filter_map(|(kind, range)| {
            let pages = range.start / PAGE_BYTES..range.end.min(len).div_ceil(PAGE_BYTES);
            (!range.is_empty() && !pages.is_empty()).then_some(Run { kind: *kind, pages })
        })
        .collect();
    sorted.sort_by_key(|run| run.pages.start);
    let mut runs: Vec<Run> = Vec::with_capacity(sorted.len());
    for mut run in sorted {
        if let Some(last) = runs.last_mut() {
            run.pages.start = run.pages.start.max(last.pages.end);
            if last.kind == run.kind && last.pages.end == run.pages.start {
                last.pages.end = last.pages.end.max(run.pages.end);
                continue;
            }
        }
        if !run.pages.is_empty() {
            runs.push(run);
        }
    }
    runs
}

/// Groups sorted runs into requests. Does not read across a gap for which `is_free` is false.
pub(super) fn requests(missing: Vec<Run>, is_free: impl Fn(&Range<u64>) -> bool) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    for mut run in missing {
        loop {
            let joins = requests.last().is_some_and(|last| {
                let gap = last.pages.end..run.pages.start;
                gap.end - gap.start <= GAP_PAGES_MAX
                    && run.pages.start - last.pages.start < REQUEST_PAGES_MAX
                    && (gap.is_empty() || is_free(&gap))
            });
            let start = match requests.last() {
                Some(last) if joins => last.pages.start,
                _ => run.pages.start,
            };
            let cut = run.pages.end.min(start + REQUEST_PAGES_MAX);
            let now = Run {
                kind: run.kind,
                pages: run.pages.start..cut,
            };
            match requests.last_mut() {
                Some(last) if joins => {
                    last.pages.end = cut;
                    last.runs.push(now);
                }
                _ => requests.push(Request {
                    pages: now.pages.clone(),
                    runs: vec![now],
                }),
            }
            run.pages.start = cut;
            if run.pages.is_empty() {
                break;
            }
        }
    }
    requests
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one request is a list of one range")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use PartKind::{Columns, Terms};

    fn run(kind: PartKind, pages: Range<u64>) -> Run {
        Run { kind, pages }
    }

    #[test]
    fn ranges_become_whole_pages_within_the_object() {
        let check = |wanted: &[(PartKind, Range<u64>)], expect: &[Run]| assert_eq!(runs(wanted, 40_960), expect);
        check(&[], &[]);
        check(&[(Terms, 5..5)], &[]);
        check(&[(Terms, 0..1)], &[run(Terms, 0..1)]);
        check(&[(Terms, 4095..4097)], &[run(Terms, 0..2)]);
        check(&[(Terms, 40_000..90_000)], &[run(Terms, 9..10)]);
        check(&[(Terms, 40_960..90_000)], &[]);
        check(
            &[(Terms, 8192..12_288), (Columns, 0..1)],
            &[run(Columns, 0..1), run(Terms, 2..3)],
        );
        check(&[(Terms, 0..4096), (Terms, 4096..8192)], &[run(Terms, 0..2)]);
        check(
            &[(Terms, 0..8192), (Columns, 4096..12_288)],
            &[run(Terms, 0..2), run(Columns, 2..3)],
        );
        check(&[(Terms, 0..20_480), (Columns, 4096..8192)], &[run(Terms, 0..5)]);
    }

    #[test]
    fn neighbours_are_fetched_as_one() {
        let pages = |missing: &[Run]| -> Vec<Range<u64>> {
            requests(missing.to_vec(), |_| true)
                .into_iter()
                .map(|request| request.pages)
                .collect()
        };
        assert_eq!(pages(&[run(Terms, 0..1), run(Columns, 1..2)]), [0..2]);
        assert_eq!(pages(&[run(Terms, 0..1), run(Columns, 9..10)]), [0..10]);
        assert_eq!(pages(&[run(Terms, 0..1), run(Columns, 10..11)]), [0..1, 10..11]);
        let busy = requests(vec![run(Terms, 0..1), run(Terms, 3..4)], |_| false);
        assert_eq!(busy.len(), 2);
    }

    #[test]
    fn what_lies_between_counts_as_what_is_before_it() {
        let joined = requests(vec![run(Terms, 2..3), run(Columns, 6..7)], |_| true);
        assert_eq!(joined.len(), 1);
        assert_eq!(
            (2..7).map(|page| joined[0].kind(page)).collect::<Vec<_>>(),
            [Terms, Terms, Terms, Terms, Columns]
        );
        assert_eq!(joined[0].bytes(), 8192..28_672);
    }

    #[test]
    fn long_ranges_are_split() {
        let split = requests(vec![run(Columns, 5..5 + 2 * REQUEST_PAGES_MAX + 1)], |_| true);
        let pages: Vec<_> = split.iter().map(|request| request.pages.clone()).collect();
        let middle = 5 + REQUEST_PAGES_MAX;
        assert_eq!(
            pages,
            [
                5..middle,
                middle..middle + REQUEST_PAGES_MAX,
                5 + 2 * REQUEST_PAGES_MAX..6 + 2 * REQUEST_PAGES_MAX
            ]
        );
    }

    proptest! {
        /// Each wanted page is fetched exactly once, requests respect their length, and pages farther than a gap are
        /// not fetched.
        #[test]
        fn requests_cover_what_is_wanted(wanted in prop::collection::vec((0u64..9000, 1u64..3000), 0..12)) {
            let wanted: Vec<_> = wanted.into_iter().map(|(start, len)| (Terms, start * PAGE_BYTES..(start + len) * PAGE_BYTES)).collect();
            let planned = requests(runs(&wanted, u64::MAX), |_| true);
            let is_wanted = |page: u64| wanted.iter().any(|(_, range)| range.contains(&(page * PAGE_BYTES)));
            for page in 0..12_000 {
                let times = planned.iter().filter(|request| request.pages.contains(&page)).count();
                prop_assert!(times <= 1);
                prop_assert!(times == 1 || !is_wanted(page));
            }
            for request in &planned {
                prop_assert!(request.pages.end - request.pages.start <= REQUEST_PAGES_MAX);
                prop_assert!(is_wanted(request.pages.start) && is_wanted(request.pages.end - 1));
                let gap = request.runs.windows(2).map(|pair| pair[1].pages.start - pair[0].pages.end).max();
                prop_assert!(gap.unwrap_or(0) <= GAP_PAGES_MAX);
            }
        }
    }
}
