//! Identity of a writer, and the list of its live instances.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Identity of a writer, with its clock and id generator.
#[derive(Clone)]
pub struct Writer {
    /// Identifies the writer, also across restarts: the uuid of the data folder. Only one process at a time has it.
    pub id: String,
    /// Open repositories of this process, of all writers.
    pub instances: Arc<Instances>,
    /// Returns a unique id of 22 characters.
    pub fresh_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// Returns ms since epoch UTC.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// Ids of the repositories that are open in this process. If a repository is registered again, it is opened again,
/// while running requests may still use the old instance: one writer may have several live instances.
#[derive(Debug, Default)]
pub struct Instances(Mutex<BTreeSet<String>>);

/// Id that is live until this value is dropped.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: String,
    all: Arc<Instances>,
}

impl Instance {
    pub(super) fn begin(writer: &Writer) -> Self {
        let id = (writer.fresh_id)();
        writer.instances.0.lock().insert(id.clone());
        Self {
            id,
            all: Arc::clone(&writer.instances),
        }
    }

    /// Returns whether another instance of the same writer is live.
    pub(super) fn has_living_sibling(&self, id: &str) -> bool {
        id != self.id && self.all.0.lock().contains(id)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}
