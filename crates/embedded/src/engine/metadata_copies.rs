//! Copies of metadata beside the catalog: the record in each index folder, and the copy of the whole catalog.
//!
//! Both are written in the background: the catalog is authoritative, and a copy that is a second old still serves for a
//! rebuild.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_model::Result;
use firn_model::metadata::{IndexMetadata, Indices, Metadata};
use firn_model::shared_map::Difference;
use firn_scheduler::Flow;
use parking_lot::Mutex;

use crate::background::Lowered;
use crate::data_folder::{CatalogCopy, Evidence, RecordState};
use crate::node::Node;
use crate::node::pools::Pools;

/// Metadata of indices as last written to their folders.
pub(crate) struct IndexRecords {
    written: Mutex<Indices>,
}

impl IndexRecords {
    /// Creates the set from the folders that a start found. An index whose record differs is left out, so that it is
    /// written again.
    pub(crate) fn new(metadata: &Metadata, evidence: &Evidence) -> Self {
        let mut written = Indices::default();
        for index in metadata.indices.values() {
            let mut folders = evidence
                .folders
                .iter()
                .filter(|folder| folder.uuid == index.uuid)
                .peekable();
            let is_written = folders.peek().is_some()
                && folders.all(|folder| {
                    matches!(&folder.record, Ok(Some(record))
                        if record.state == RecordState::Live
                            && record.index == **index
                            && record.cluster_uuid == metadata.cluster_uuid)
                });
            if is_written {
                written.insert(Arc::clone(index));
            }
        }
        Self {
            written: Mutex::new(written),
        }
    }
}

/// See the module.
pub(crate) struct MetadataCopies {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) records: IndexRecords,
    pub(crate) catalog_copy: CatalogCopy,
    /// Copies are queued or being written.
    pub(crate) is_copying: AtomicBool,
}

impl MetadataCopies {
    /// Writes copies that are due, in the background. Called once a second.
    pub(crate) fn copy_metadata_in_background(self: &Arc<Self>) {
        let metadata = Arc::clone(&self.node.state().metadata);
        let has_records_due = !self.records.written.lock().differences(&metadata.indices).is_empty();
        let is_due = has_records_due || self.catalog_copy.is_due(metadata.version, self.node.now_ms());
        if !is_due || self.is_copying.swap(true, Ordering::AcqRel) {
            return;
        }
        let service = Arc::clone(self);
        let queued = self.pools.maintenance.spawn(&Flow::node(), move || {
            let _lowered = Lowered(&service.is_copying);
            if let Err(error) = service.copy_metadata(false) {
                tracing::debug!(%error, "cannot write copies of metadata; retrying in the background");
            }
        });
        if queued.is_err() {
            self.is_copying.store(false, Ordering::Release);
        }
    }

    /// Writes the records of changed indices, and the copy of the catalog if it is due or `now` is set.
    pub(crate) fn copy_metadata(&self, now: bool) -> Result<()> {
        let metadata = Arc::clone(&self.node.state().metadata);
        let records = self.write_index_records(&metadata);
        if now || self.catalog_copy.is_due(metadata.version, self.node.now_ms()) {
            let clock = || self.node.now_ms();
            self.catalog_copy
                .write(&*self.node.config.disk, &self.node.config.path_data, &metadata, &clock)?;
        }
        records
    }

    /// Writes all records; continues after an error, and returns the first.
    fn write_index_records(&self, metadata: &Metadata) -> Result<()> {
        let mut written = self.records.written.lock();
        let mut removed: Vec<String> = Vec::new();
        let mut due: Vec<Arc<IndexMetadata>> = Vec::new();
        for difference in written.differences(&metadata.indices) {
            match difference {
                Difference::Removed(name, _) => removed.push(name.to_owned()),
                Difference::Added(_, index) | Difference::Changed(_, _, index) => due.push(Arc::clone(index)),
            }
        }
        for name in removed {
            written.remove(&name);
        }
        let mut outcome = Ok(());
        for index in due {
            match self.node.factory.update_record(&index, RecordState::Live) {
                // The folder of an index that is being copied from a snapshot (cold tier) is created later.
                Ok(0) if index.settings.is_mounted() && !index.settings.is_frozen() => {}
                Ok(_) => {
                    written.insert(index);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}
