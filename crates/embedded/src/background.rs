//! Work in the background: whose queue it waits in, the priority of its thread, and which failures are expected.

use std::sync::atomic::{AtomicBool, Ordering};

use firn_model::ErrorKind;
use firn_scheduler::Flow;

use crate::node::state::IndexState;

/// Returns the flow of an index's maintenance.
pub(crate) fn upkeep_flow(index: &IndexState) -> Flow {
    Flow::of_index(&index.name, index.metadata.settings.tenant_owner.as_deref())
}

/// Clears a flag when the work ends, also by a panic.
pub(crate) struct Lowered<'a>(pub(crate) &'a AtomicBool);

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Whether the shard was deleted or closed, or the node is stopping: not worth a report.
pub(crate) fn is_gone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::IndexNotFound | ErrorKind::IndexClosed | ErrorKind::Rejected
    )
}

/// Lowers the priority of this thread, once, so that the scheduler prefers writes and searches: no request waits for
/// merges, and few wait for refreshes. On Linux priorities are those of threads; elsewhere it would be the whole
/// process.
pub(crate) fn yield_to_others(nice: i32) {
    #[cfg(target_os = "linux")]
    {
        thread_local!(static DONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        if !DONE.replace(true) {
            let _ = rustix::process::setpriority_process(None, nice);
        }
    }
}
