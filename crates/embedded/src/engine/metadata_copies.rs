//! Copies of metadata beside the catalog: the record in each index folder, and the copy of the whole catalog.
//!
//! Both are written in the background: the catalog is authoritative, and a copy that is a second old still serves for a
//! rebuild.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_model::Result;
use firn_model::metadata::{IndexMetadata, Indices, Metadata};
use firn_model::shared_map::Difference;
use firn_scheduler::Flow;
use parking_lot::Mutex;

use super::Core;
use crate::data_folder::{Evidence, RecordState};
use crate::ticker::Lowered;

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

impl Core {
    /// Writes copies that are due, in the background. Called once a second.
    pub(crate) fn copy_metadata_in_background(self: &Arc<Self>) {
        let metadata = Arc::clone(&self.state().metadata);
        let has_records_due = !self
            .index_records
            .written
            .lock()
            .differences(&metadata.indices)
            .is_empty();
        let is_due = has_records_due || self.catalog_copy.is_due(metadata.version, self.now_ms());
        if !is_due || self.copying_metadata.swap(true, Ordering::AcqRel) {
            return;
        }
        let core = Arc::clone(self);
        let queued = self.maintenance_pool.spawn(&Flow::node(), move || {
            let _lowered = Lowered(&core.copying_metadata);
            if let Err(error) = core.copy_metadata(false) {
                tracing::debug!(%error, "cannot write copies of metadata; retrying in the background");
            }
        });
        if queued.is_err() {
            self.copying_metadata.store(false, Ordering::Release);
        }
    }

    /// Writes the records of changed indices, and the copy of the catalog if it is due or `now` is set.
    pub(crate) fn copy_metadata(&self, now: bool) -> Result<()> {
        let metadata = Arc::clone(&self.state().metadata);
        let records = self.write_index_records(&metadata);
        if now || self.catalog_copy.is_due(metadata.version, self.now_ms()) {
            let clock = || self.now_ms();
            self.catalog_copy
                .write(&*self.config.disk, &self.config.path_data, &metadata, &clock)?;
        }
        records
    }

    /// Writes all records; continues after an error, and returns the first.
    fn write_index_records(&self, metadata: &Metadata) -> Result<()> {
        let mut written = self.index_records.written.lock();
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
            match self.factory.update_record(&index, RecordState::Live) {
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
