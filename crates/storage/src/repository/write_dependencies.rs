//! Objects that a snapshot writer relies on, and those of them that sweeps condemned in the meantime.
//!
//! While a snapshot exists, no open or future sweep contains the objects that it names. Any other object that a writer
//! relies on, whether it existed before or the writer created it, may be removed by two kinds of sweeps: a sweep that
//! was open when the writer began to rely on the object, even if that sweep ends before the commit, and a sweep that
//! began later.

use std::collections::HashSet;
use std::sync::Arc;

use firn_model::Result;

use super::Repository;
use super::log::{Change, State, key};

/// State of the log on which a writer relies; see the module.
#[derive(Debug, Clone)]
pub struct WriteDependencies {
    state: Arc<State>,
    /// Of the sweeps that began up to this commit, only those that are open in `state` matter.
    checked: u64,
}

/// Condemned objects among those that a writer needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Condemned {
    /// Keys of the objects.
    pub keys: HashSet<String>,
    /// Last commit that was checked.
    pub(super) checked: u64,
}

impl WriteDependencies {
    /// Creates a basis that relies on everything in a state.
    pub fn of(state: Arc<State>) -> Self {
        let checked = state.number;
        Self { state, checked }
    }

    /// Creates a basis for a retry: all objects that were condemned up to commit `checked` are written again, and no
    /// open sweep in `state` condemns them.
    pub(super) fn again(state: Arc<State>, checked: u64) -> Self {
        Self { state, checked }
    }

    /// Returns the state: the writer may name every object that its snapshots name.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Returns the needed objects that sweeps condemn which were open at the start.
    pub(super) fn condemned(&self, is_needed: impl Fn(&String) -> bool) -> Condemned {
        let open = self.state.sweeps.values().flat_map(|sweep| &sweep.keys);
        Condemned {
            keys: open.filter(|key| is_needed(key)).cloned().collect(),
            checked: self.checked,
        }
    }
}

impl Repository {
    /// Adds the needed objects condemned by sweeps that began since, up to a state.
    pub(super) async fn read_condemned(
        &self,
        condemned: &mut Condemned,
        state: &State,
        is_needed: impl Fn(&String) -> bool,
    ) -> Result<()> {
        for number in condemned.checked + 1..=state.number {
            let Some(commit) = self.read_commit(number).await? else {
                // The commit existed when the state was read. Its condemned objects are unknown, so the writer cannot
                // rely on any.
                return Err(self.error(format!("object [{}] of the log is missing", key(number))));
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
