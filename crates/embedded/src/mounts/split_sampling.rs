//! Sampling of splits: opens some of very many if only an estimate over all of them is needed.
//!
//! To estimate what a search would fetch, splits have to be opened, and each closed split costs a request for its
//! footer. While a thread samples, a limited number is opened; the others are counted with the cost of their footers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use firn_model::{Error, ErrorKind};

/// Closed remote splits that are opened for an estimate. Their mean is close to that of all, and they arrive in one or
/// two rounds.
pub(crate) const SPLITS_MAX: usize = 64;

/// The splits that a sample left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SampledOut {
    /// Splits that were not opened.
    pub(crate) splits: u64,
    /// Requests and bytes for the footers of all closed splits.
    pub(crate) footers: (u64, u64),
}

thread_local! {
    /// Open splits are sampled like closed ones.
    static IS_ALIKE: Cell<bool> = const { Cell::new(false) };
    static SAMPLE: RefCell<Option<SampledOut>> = const { RefCell::new(None) };
}

/// Runs a task that opens only a sample of the closed splits.
pub(crate) fn sampled<T>(work: impl FnOnce() -> T) -> (T, SampledOut) {
    SAMPLE.set(Some(SampledOut::default()));
    let outcome = work();
    (outcome, SAMPLE.take().unwrap_or_default())
}

/// As [`sampled`] where the result must not reveal which splits other tenants opened: open splits are sampled too, and
/// count as closed.
pub(crate) fn sampled_alike<T>(work: impl FnOnce() -> T) -> (T, SampledOut) {
    IS_ALIKE.set(true);
    let outcome = sampled(work);
    IS_ALIKE.set(false);
    outcome
}

/// Whether this thread is within [`sampled_alike`].
pub(super) fn is_alike() -> bool {
    IS_ALIKE.get()
}

/// Removes the splits beyond the sample from those to be opened, at regular distances, and records this in `outcomes`.
/// Does nothing if this thread does not sample. `cost` returns the cost of a footer; `None`: the split is never
/// fetched, because a full copy is on this node. Such splits do not represent remote ones and are not part of the
/// sample.
pub(super) fn leave_out<K: Clone + Eq + std::hash::Hash + Ord, C, T>(
    closed: HashMap<K, C>,
    cost: impl Fn(&C) -> Option<(u64, u64)>,
    outcomes: &mut HashMap<K, firn_model::Result<T>>,
) -> HashMap<K, C> {
    let Some(mut left_out) = SAMPLE.with_borrow(|sample| *sample) else {
        return closed;
    };
    let mut chosen = HashMap::new();
    let mut far = Vec::new();
    for (key, split) in closed {
        match cost(&split) {
            Some(footer) => far.push((key, split, footer)),
            None => drop(chosen.insert(key, split)),
        }
    }
    far.sort_by(|left, right| left.0.cmp(&right.0));
    let step = far.len().div_ceil(SPLITS_MAX).max(1);
    for (place, (key, split, (requests, bytes))) in far.into_iter().enumerate() {
        left_out.footers.0 += requests;
        left_out.footers.1 += bytes;
        if place.is_multiple_of(step) {
            chosen.insert(key, split);
            continue;
        }
        left_out.splits += 1;
        let reason = "the split is not part of a sample";
        outcomes.insert(key, Err(Error::new(ErrorKind::Unavailable, reason)));
    }
    SAMPLE.set(Some(left_out));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(far: u32, here: u32) -> (usize, HashMap<u32, firn_model::Result<()>>) {
        let closed: HashMap<u32, bool> = (0..far + here).map(|key| (key, key < far)).collect();
        let mut outcomes = HashMap::new();
        let chosen = leave_out(closed, |is_far| is_far.then_some((1, 10)), &mut outcomes);
        assert_eq!(chosen.values().filter(|is_far| !**is_far).count(), here as usize);
        (chosen.len() - here as usize, outcomes)
    }

    #[test]
    fn only_who_samples_leaves_anything_out() {
        assert_eq!(choose(1000, 0).0, 1000);
        let ((chosen, outcomes), left_out) = sampled(|| choose(1000, 0));
        assert!((32..=SPLITS_MAX).contains(&chosen), "{chosen}");
        assert_eq!(outcomes.len() + chosen, 1000);
        assert_eq!(
            (left_out.splits, left_out.footers),
            (1000 - chosen as u64, (1000, 10_000))
        );
        let ((few, _), left_out) = sampled(|| choose(5, 0));
        assert_eq!((few, left_out.splits, left_out.footers), (5, 0, (5, 50)));
        assert_eq!(choose(1000, 0).0, 1000, "it ends with the work");
    }

    #[test]
    fn what_is_here_is_no_part_of_a_sample() {
        let ((chosen, outcomes), left_out) = sampled(|| choose(0, 1000));
        assert_eq!((chosen, outcomes.len(), left_out), (0, 0, SampledOut::default()));
        for far in [5, 100] {
            let mixed = sampled(|| choose(far, 1000));
            let alone = sampled(|| choose(far, 0));
            assert_eq!((mixed.0.0, mixed.1), (alone.0.0, alone.1));
        }
    }
}
