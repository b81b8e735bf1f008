//! Stored deletions of tenants.
//!
//! The change that closes a tenant also creates the record ([`Control::begin_deletion`]); from then on callers of the
//! tenant are refused. The retention controller does the rest in idempotent steps, through [`DeletionRecords`].

use std::sync::Arc;

use firn_lifecycle::{Deletion, DeletionRecords};
use firn_model::tenant::{TenantId, TenantSettings};
use firn_model::{Error, ErrorKind, Result};

use crate::control::Control;
use crate::state::State;

/// Maximum number of stored statements: the oldest is removed to make space. Each is some kilobytes of the control
/// file.
const STATEMENTS_MAX: usize = 500;

impl Control {
    /// Closes a tenant and records its deletion. `last`: the deletion that was known when the caller searched for
    /// events of the tenant; `has_events`: whether the search found any. While a deletion runs, the call does nothing.
    ///
    /// A tenant that is neither declared nor has events does not exist: [`ErrorKind::ResourceNotFound`], also if it was
    /// deleted before. So the statement of the earlier deletion remains until there is something to delete again.
    pub fn begin_deletion(&self, id: &TenantId, last: Option<&Deletion>, has_events: bool) -> Result<()> {
        self.change(|state, now_ms| {
            let present = state.deletions.get(id);
            if present.is_some_and(|deletion| !deletion.is_done()) {
                return Ok(());
            }
            if !state.tenants.contains_key(id) {
                // Another deletion ran in the meantime: it removed the events that the search found.
                let is_another = present.map(|one| one.requested_ms) != last.map(|one| one.requested_ms);
                if present.is_some() && is_another {
                    return Ok(());
                }
                if !has_events {
                    return Err(Error::new(
                        ErrorKind::ResourceNotFound,
                        format!("tenant [{id}] is not declared and has no events"),
                    ));
                }
            }
            let users = state.users.values().filter(|user| user.tenant().as_ref() == Some(id));
            let keys = state.api_keys.values().filter(|key| key.tenant() == Some(id));
            let deletion = Deletion {
                requested_ms: now_ms,
                users: users.count() as u64,
                api_keys: keys.count() as u64,
                ..Deletion::default()
            };
            if state.tenants.contains_key(id) {
                state.close_tenant(id, now_ms)?;
            }
            state.deletions.insert(id.clone(), Arc::new(deletion));
            state.forget_old_statements();
            Ok(())
        })?;
        // The saved objects are already inaccessible. If this fails, the end of the deletion removes them.
        if let Err(error) = self.forget_saved_objects(id) {
            tracing::warn!(tenant = %id, %error, "cannot remove the saved objects of a tenant that is being deleted");
        }
        Ok(())
    }

    /// Returns the deletion of a tenant, running or finished; [`ErrorKind::ResourceNotFound`] if there was none.
    pub fn deletion(&self, id: &TenantId) -> Result<Arc<Deletion>> {
        let deletion = self.state().deletions.get(id).cloned();
        deletion.ok_or_else(|| {
            Error::new(
                ErrorKind::ResourceNotFound,
                format!("tenant [{id}] has no deletion, running or finished"),
            )
        })
    }
}

impl DeletionRecords for Control {
    fn settings_of_tenants(&self) -> Vec<(TenantId, TenantSettings)> {
        let tenants = self.tenants();
        let open = tenants.iter().filter(|record| record.deleting_since_ms.is_none());
        open.filter_map(|record| Some((record.id.clone(), self.tenant_settings(&record.id)?)))
            .collect()
    }

    fn deletion(&self, id: &TenantId) -> Result<Arc<Deletion>> {
        Self::deletion(self, id)
    }

    fn deletions_under_way(&self) -> Vec<TenantId> {
        let state = self.state();
        let mut waiting: Vec<(i64, &TenantId)> = state
            .deletions
            .iter()
            .filter(|(_, deletion)| !deletion.is_done())
            .map(|(id, deletion)| (deletion.requested_ms, id))
            .collect();
        waiting.sort();
        waiting.into_iter().map(|(_, id)| id.clone()).collect()
    }

    fn note_deletion(&self, id: &TenantId, deletion: Deletion) -> Result<()> {
        if deletion.is_done() {
            self.forget_saved_objects(id)?;
        }
        self.change(|state, _| {
            if deletion.is_done() {
                state.forget_tenant(id);
            }
            state.deletions.insert(id.clone(), Arc::new(deletion));
            Ok(())
        })
    }
}

impl State {
    fn forget_old_statements(&mut self) {
        while self.deletions.len() > STATEMENTS_MAX {
            let done = self
                .deletions
                .iter()
                .filter_map(|(id, deletion)| Some((deletion.finished_ms?, id)));
            let Some((_, oldest)) = done.min() else { return };
            let oldest = oldest.clone();
            self.deletions.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicI64, Ordering};

    use firn_model::tenant::TenantSettings;
    use firn_storage::sim::SimDisk;

    use super::*;
    use crate::control::Parts;
    use crate::sessions::SessionLimits;
    use crate::sign_in_throttle::SignInThrottleLimits;

    fn control() -> Control {
        let now_ms = AtomicI64::new(1000);
        let parts = Parts {
            disk: Arc::new(SimDisk::new()),
            folder: PathBuf::from("/control"),
            now_ms: Arc::new(move || now_ms.fetch_add(1, Ordering::Relaxed)),
            stopwatch: Arc::new(std::time::Duration::default),
            random: Arc::new(|bytes| bytes.fill(1)),
            slowdown: SignInThrottleLimits::default(),
            sessions: SessionLimits::default(),
        };
        Control::open(parts).unwrap()
    }

    #[test]
    fn a_statement_stays_until_there_is_something_to_delete_again() {
        let control = control();
        let id = TenantId::parse("acme").unwrap();
        let finish = || {
            let mut done = Deletion::clone(&control.deletion(&id).unwrap());
            done.finish(done.requested_ms + 1);
            control.note_deletion(&id, done).unwrap();
            control.deletion(&id).unwrap()
        };
        let is_missing = |last: Option<&Deletion>| {
            let error = control.begin_deletion(&id, last, false).unwrap_err();
            error.kind() == ErrorKind::ResourceNotFound
        };
        assert!(is_missing(None));
        control.put_tenant(&id, TenantSettings::default()).unwrap();
        control.begin_deletion(&id, None, false).unwrap();
        let running = control.deletion(&id).unwrap();
        control.begin_deletion(&id, Some(&running), false).unwrap();
        assert_eq!(control.deletion(&id).unwrap(), running);
        let first = finish();
        // A caller that searched before it started may have seen events; they are gone.
        control.begin_deletion(&id, None, true).unwrap();
        assert!(is_missing(Some(&first)));
        assert_eq!(control.deletion(&id).unwrap(), first);
        // New events since then, for example from a restored snapshot.
        control.begin_deletion(&id, Some(&first), true).unwrap();
        let second = finish();
        assert!(second.requested_ms > first.requested_ms);
        control.put_tenant(&id, TenantSettings::default()).unwrap();
        control.begin_deletion(&id, Some(&second), false).unwrap();
        assert!(!control.deletion(&id).unwrap().is_done());
    }

    #[test]
    fn old_statements_go_and_deletions_under_way_stay() {
        let mut state = State::default();
        for number in 0..STATEMENTS_MAX as i64 + 20 {
            let deletion = Deletion {
                requested_ms: number,
                finished_ms: (number >= 10).then_some(number),
                ..Deletion::default()
            };
            let id = TenantId::parse(&format!("t{number}")).unwrap();
            state.deletions.insert(id, Arc::new(deletion));
        }
        state.forget_old_statements();
        assert_eq!(state.deletions.len(), STATEMENTS_MAX);
        let has = |number: i64| {
            state
                .deletions
                .contains_key(&TenantId::parse(&format!("t{number}")).unwrap())
        };
        assert!((0..10).all(has), "those are not done");
        assert!(!(10..30).any(has) && has(30), "the oldest went first");
    }
}
