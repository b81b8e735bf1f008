//! The pass over an event.

use std::sync::Arc;

use bytes::Bytes;
use firn_model::Result;
use firn_model::mapping::Mapping;

use super::{CompiledMapping, MappedDocument};

/// An event as the mapper sees it.
pub struct Mapped {
    /// What to index.
    pub document: MappedDocument,
    /// Fields that the mapping lacks, as a mapping that only adds them. Merge it into the index's
    /// mapping and map the event again; the document of this pass does not hold them.
    pub new_fields: Option<Mapping>,
}

/// What to do with fields that the mapping lacks where `dynamic` is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmapped {
    /// Report them in [`Mapped::new_fields`]. Once the mapping is at its `total_fields` limit this
    /// means the same as `Flatten`.
    Report,
    /// Index their leaves as keywords under their own paths, without adding them to the mapping:
    /// for the pass after one whose fields did not all fit under the limit.
    Flatten,
}

/// Maps one event. `id` is only for messages.
///
/// Fails with [`firn_model::ErrorKind::DocumentParsing`] if it is not one JSON object, is too deep
/// or too large, repeats a key, or holds what its mapping refuses; and with
/// [`firn_model::ErrorKind::StrictDynamicMapping`].
pub fn map_document(
    _compiled: &Arc<CompiledMapping>,
    _source: &Bytes,
    _id: Option<&str>,
    _unmapped: Unmapped,
) -> Result<Mapped> {
    todo!()
}
