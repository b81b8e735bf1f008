//! Who writes to a repository, and what of that is alive.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Who writes, and what comes from outside.
#[derive(Clone)]
pub struct Writer {
    /// Tells writers apart, also across restarts: the uuid of the data folder. One process at a time has it.
    pub id: String,
    /// The open repositories of this process, whoever they write as.
    pub instances: Arc<Instances>,
    /// 22 characters that nobody else draws.
    pub fresh_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// ms since epoch UTC.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// The ids of repositories that are open in this process. A repository that is registered anew is opened anew while
/// somebody may still work with the one before: of one writer there may be several instances, all of them alive.
#[derive(Debug, Default)]
pub struct Instances(Mutex<BTreeSet<String>>);

/// An id that is alive until this is dropped.
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

    /// Whether another instance of the same writer works on.
    pub(super) fn has_living_sibling(&self, id: &str) -> bool {
        id != self.id && self.all.0.lock().contains(id)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}
