//! Mapping of documents whose fields may not be in the index mapping yet.

use std::sync::Arc;

use bytes::Bytes;
use firn_model::mapping::Mapping;
use firn_model::metadata::EmbeddedCommand;
use firn_model::{ErrorKind, Result};
use firn_shard::mapper::{MappedDocument, Unmapped, map_document};

use super::commands::CommandService;

/// Passes over a document before fields that are still unmapped are flattened: the second pass sees the fields
/// that the first one found, the third those of a concurrent writer that gave them another type.
pub(crate) const MAPPING_PASSES: usize = 3;

/// Returns what a pass does with unmapped fields.
pub(crate) fn unmapped_in(pass: usize) -> Unmapped {
    if pass + 1 < MAPPING_PASSES {
        Unmapped::Report
    } else {
        Unmapped::Flatten
    }
}

impl CommandService {
    /// Maps one document; adds its new fields to the index first.
    pub(crate) fn map_adding_fields(&self, index: &str, source: &Bytes, id: Option<&str>) -> Result<MappedDocument> {
        let mut pass = 0;
        loop {
            let state = self.node.state();
            let mapped = map_document(state.index(index)?.compiled()?, source, id, unmapped_in(pass))?;
            match mapped.new_fields {
                Some(fields) if pass + 1 < MAPPING_PASSES => self.add_fields(index, fields)?,
                _ => return Ok(mapped.document),
            }
            pass += 1;
        }
    }

    /// Adds fields found in documents; durable and published when this returns.
    pub(crate) fn add_fields(&self, index: &str, fields: Mapping) -> Result<()> {
        self.execute(EmbeddedCommand::AddDynamicFields {
            name: index.to_owned(),
            mapping: Arc::new(fields),
        })?;
        Ok(())
    }

    /// Maps a document from the WAL. It was acknowledged, so it is stored even if the current mapping refuses it
    /// (`dynamic: strict` set later): then `_source` is stored and no field is indexed.
    pub(crate) fn map_for_replay(&self, index: &str, source: &Bytes) -> Result<MappedDocument> {
        match self.map_adding_fields(index, source, None) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DocumentParsing | ErrorKind::StrictDynamicMapping
                ) =>
            {
                tracing::warn!(index, %error, "an acknowledged event no longer fits the mapping; its fields are not indexed");
                Ok(MappedDocument::source_only(source.clone()))
            }
            mapped => mapped,
        }
    }
}
