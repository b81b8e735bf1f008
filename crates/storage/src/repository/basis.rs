//! What a writer relies on while it writes a snapshot, and what of that was condemned meanwhile.
//!
//! Objects that a snapshot names are never in a sweep that is open or yet to come as long as the snapshot is there.
//! Everything else that a writer counts on, be it there already or written by itself, may be removed by a sweep that
//! was open when it began to count on it, even if the sweep ends before the commit, and by one that began later.

use std::collections::HashSet;
use std::sync::Arc;

use firn_model::Result;

use super::Repository;
use super::log::{Change, State, key};

/// See the module.
#[derive(Debug, Clone)]
pub struct Basis {
    state: Arc<State>,
    /// Sweeps that began up to this commit are of no concern but for those that are open in `state`.
    checked: u64,
}

/// What a writer counts on in vain.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Condemned {
    /// Keys.
    pub keys: HashSet<String>,
    /// The last commit that was looked at.
    pub(super) checked: u64,
}

impl Basis {
    /// Relies on what is there by now.
    pub fn of(state: Arc<State>) -> Self {
        let checked = state.number;
        Self { state, checked }
    }

    /// After what was condemned up to a commit is written again, upon a state in which no sweep is in the way of it.
    pub(super) fn again(state: Arc<State>, checked: u64) -> Self {
        Self { state, checked }
    }

    /// What the log said then: whatever its snapshots name may be named.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// What sweeps that were open from the start condemn of what is needed.
    pub(super) fn condemned(&self, is_needed: impl Fn(&String) -> bool) -> Condemned {
        let open = self.state.sweeps.values().flat_map(|sweep| &sweep.keys);
        Condemned {
            keys: open.filter(|key| is_needed(key)).cloned().collect(),
            checked: self.checked,
        }
    }
}

impl Repository {
    /// Adds what sweeps condemn that began since, up to a state.
    pub(super) async fn read_condemned(
        &self,
        condemned: &mut Condemned,
        state: &State,
        is_needed: impl Fn(&String) -> bool,
    ) -> Result<()> {
        for number in condemned.checked + 1..=state.number {
            let Some(commit) = self.read_commit(number).await? else {
                // It was there when the state was read. What it condemned is not known, so nothing may be relied on.
                return Err(self.error(format!("object [{}] of the log is gone", key(number))));
            };
            for change in commit.changes {
                if let Change::SweepBegins { keys, .. } = change {
                    condemned.keys.extend(keys.into_iter().filter(|key| is_needed(key)));
                }
            }
            condemned.checked = number;
        }
        Ok(())
    }
}
