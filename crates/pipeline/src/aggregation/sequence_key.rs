//! Key of a sequence: the steps that its events have reached.
//!
//! Of an ordered sequence the chain with the latest start is known for each step, of another one the latest time of each step: no other
//! one is of use for events that come in the order of their times. The last events are known themselves, for those that come later and
//! are earlier.

use serde::{Deserialize, Serialize};

/// Events of a key that are known themselves.
const RECENT_MAX: usize = 64;
/// Time of what is not there.
const NEVER: i64 = i64::MIN;

/// What is remembered of a key of a sequence.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct SequenceKey {
    /// What the events before `recent` lead to.
    #[serde(rename = "c", default, skip_serializing_if = "Chains::is_empty")]
    settled: Chains,
    /// Last events, in their order.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<StepEvent>,
    /// What all events lead to; `None`: it is to be computed.
    #[serde(skip)]
    current: Option<Chains>,
}

/// Sequence, as its keys are compared with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sequence {
    pub(crate) steps: usize,
    pub(crate) is_ordered: bool,
    /// Longest time from the first event to the last one, ms.
    pub(crate) within: i64,
}

/// Event: its time (ms), and the bits of its steps. Events of the same time are taken in the order of their first steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct StepEvent(i64, u16);

impl StepEvent {
    fn order(self) -> (i64, u32, u16) {
        (self.0, self.1.trailing_zeros(), self.1)
    }
}

/// Times of the chains, one after the other: that of step `i` has `i + 1` times if the sequence is ordered, or else one. Empty: there
/// are none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Chains(Vec<i64>);

impl Chains {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an event; returns the times of the steps if it completes the sequence.
    fn take(&mut self, sequence: &Sequence, event: StepEvent) -> Option<Vec<i64>> {
        let StepEvent(time, mask) = event;
        let earliest = time.saturating_sub(sequence.within);
        let has = |step: usize| mask & (1 << step) != 0;
        if self.0.is_empty() {
            let times = match sequence.is_ordered {
                true => place_of(sequence.steps),
                false => sequence.steps,
            };
            self.0 = vec![NEVER; times];
        }
        let times = &mut self.0;
        if !sequence.is_ordered {
            for (step, known) in times.iter_mut().enumerate() {
                if has(step) {
                    *known = time.max(*known);
                }
            }
            let latest = times.iter().max().copied().unwrap_or(time);
            let is_complete = times
                .iter()
                .all(|known| *known >= latest.saturating_sub(sequence.within));
            let is_complete = is_complete && times.iter().all(|known| *known != NEVER);
            return is_complete.then(|| times.clone());
        }
        // The last step first: each step has an event of its own.
        for step in (0..sequence.steps).rev().filter(|step| has(*step)) {
            let own = place_of(step);
            if step == 0 {
                times[own] = time.max(times[own]);
                continue;
            }
            let before = place_of(step - 1);
            let (start, last) = (times[before], times[before + step - 1]);
            if start == NEVER || start < earliest || last > time || start <= times[own] {
                continue;
            }
            times.copy_within(before..before + step, own);
            times[own + step] = time;
            if step + 1 == sequence.steps {
                return Some(times[own..=own + step].to_vec());
            }
        }
        None
    }

    /// Forgets what no event from `horizon` on can complete.
    fn forget(&mut self, sequence: &Sequence, horizon: i64) {
        let earliest = horizon.saturating_sub(sequence.within);
        let times = &mut self.0;
        if times.is_empty() {
            return;
        }
        for step in 0..sequence.steps {
            let own = match sequence.is_ordered {
                true => place_of(step)..place_of(step + 1),
                false => step..step + 1,
            };
            if times[own.start] < earliest {
                times[own].fill(NEVER);
            }
        }
        if times.iter().all(|time| *time == NEVER) {
            times.clear();
        }
    }
}

/// Place of the first time of the chain of a step of an ordered sequence.
fn place_of(step: usize) -> usize {
    step * (step + 1) / 2
}

impl SequenceKey {
    /// Takes an event; returns the times of the steps if it completes the sequence. The key is to be forgotten then.
    pub(crate) fn add(&mut self, sequence: &Sequence, time: i64, mask: u16) -> Option<Vec<i64>> {
        let event = StepEvent(time, mask);
        let place = self.recent.partition_point(|other| other.order() <= event.order());
        if self.recent.is_empty() {
            // Most keys have one event.
            self.recent.reserve_exact(1);
        }
        self.recent.insert(place, event);
        let steps = self.recent.iter().fold(0, |steps, event| steps | event.1);
        if self.settled.is_empty() && steps.count_ones() < sequence.steps as u32 {
            self.current = None;
            self.bound(sequence);
            return None;
        }
        let current = self.current.as_mut().filter(|_| place + 1 == self.recent.len());
        let complete = match current {
            Some(current) => current.take(sequence, event),
            None => {
                let mut current = self.settled.clone();
                let mut events = self.recent.iter();
                let complete = events.find_map(|event| current.take(sequence, *event));
                self.current = Some(current);
                complete
            }
        };
        self.bound(sequence);
        complete
    }

    fn bound(&mut self, sequence: &Sequence) {
        if self.recent.len() > RECENT_MAX {
            self.settle(sequence, 1);
        }
    }

    /// Leaves the first events to what they lead to.
    fn settle(&mut self, sequence: &Sequence, count: usize) {
        for event in self.recent.drain(..count) {
            self.settled.take(sequence, event);
        }
    }

    /// Forgets what no event from `horizon` on can complete. Returns whether nothing is left.
    pub(crate) fn forget(&mut self, sequence: &Sequence, horizon: i64) -> bool {
        let before = self.recent.partition_point(|event| event.0 < horizon);
        self.settle(sequence, before);
        self.settled.forget(sequence, horizon);
        // What it was computed of is not there any more.
        self.current = None;
        self.settled.is_empty() && self.recent.is_empty()
    }

    /// Returns what is stored of it.
    pub(crate) fn stored(&self) -> Self {
        Self {
            current: None,
            ..self.clone()
        }
    }

    /// Number of entries.
    pub(crate) fn size(&self) -> usize {
        self.settled.0.len() + self.recent.len()
    }
}
