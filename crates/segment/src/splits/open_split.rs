//! Part of an open segment that is read differently in a split than on disk.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::block_index::{BlockPlace, Group, Places};
use firn_storage::split::blocks::Block;
use parking_lot::Mutex;
use tantivy::DocId;
use tantivy::schema::Field;

use super::split_files::SplitFiles;
use super::split_info::{About, PathLengthsAbout};
use super::{SplitDocument, StoredRuns, lengths, names};
use crate::path_lengths::PathLengths;
use crate::zones::Zones;

/// See the module.
#[derive(Debug)]
pub struct OpenSplit {
    /// Id of the segment that the split was made from.
    made_from: String,
    pub(super) files: Arc<SplitFiles>,
    pub(super) about: About,
    pub(super) places: Places,
    zones: Option<Arc<Zones>>,
    /// The last decompressed block: hits are read in document order.
    block: Mutex<Option<(BlockPlace, Block)>>,
    /// The last group of block places that was read.
    group: Mutex<Option<Group>>,
    /// See [`OpenSplit::document_bytes_max`].
    pub(super) largest_document: OnceLock<u64>,
}

impl OpenSplit {
    /// Creates the part of a segment that was made from the segment with id `made_from`.
    pub(super) fn new(
        made_from: String,
        files: Arc<SplitFiles>,
        about: About,
        places: Places,
        zones: Option<Arc<Zones>>,
    ) -> Self {
        Self {
            made_from,
            files,
            about,
            places,
            zones,
            block: Mutex::new(None),
            group: Mutex::new(None),
            largest_document: OnceLock::new(),
        }
    }

    /// Returns the id of the segment that the split was made from. The open segment has another id.
    pub fn made_from(&self) -> &str {
        &self.made_from
    }

    /// Returns the zones of `@timestamp`, if each document has a value.
    pub fn zones(&self) -> Option<&Arc<Zones>> {
        self.zones.as_ref()
    }

    /// Returns the values of `@timestamp` rounded down to the hour, if each document has one value and an hour has
    /// `unit` units.
    pub(crate) fn hours(&self, unit: u64) -> Option<StoredRuns> {
        StoredRuns::hours(&self.files, unit)
    }

    /// Whether the split has statistics of whole columns.
    pub fn has_totals(&self) -> bool {
        self.files.totals.is_some()
    }

    /// Returns the number of documents with a value in the string column of a path.
    pub fn docs_in_column(&self, path: &str) -> u64 {
        self.about.column_docs.get(path).copied().unwrap_or_default()
    }

    /// Returns the text lengths of a path, if it has any text.
    pub(crate) fn lengths(&self, field: Field, start: &[u8]) -> Result<Option<PathLengths>> {
        let name = crate::schema::fields().schema.get_field_name(field);
        let is_wanted = |about: &&PathLengthsAbout| about.field == name && about.start.as_bytes() == start;
        let found = self.about.lengths.iter().find(is_wanted);
        found
            .map(|about| lengths::read(&self.files, about, self.about.segment.docs))
            .transpose()
    }

    /// Returns the bytes of all stored documents.
    pub fn document_bytes(&self) -> u64 {
        let part = self.files.footer.part(names::STORE);
        part.map_or(0, |(_, part)| part.len)
    }

    /// Returns a stored document.
    pub fn document(&self, doc: DocId) -> Result<SplitDocument> {
        let record = self.record(doc)?;
        SplitDocument::decode(&record).ok_or_else(|| {
            Error::new(
                ErrorKind::Repository,
                format!("document {doc} of a split cannot be read"),
            )
        })
    }

    /// Records what reading a document waits for ([`crate::splits::dry_run`]).
    pub fn note_document(&self, doc: DocId) -> Result<()> {
        let place = self.place(doc)?;
        self.files.note(self.part(names::STORE)?, &place.bytes)
    }

    /// Returns the place of the block that holds a document.
    fn place(&self, doc: DocId) -> Result<BlockPlace> {
        let known = self.group.lock().as_ref().and_then(|group| group.block(doc));
        if let Some(place) = known {
            return Ok(place);
        }
        let piece = self
            .files
            .read(self.part(names::STORE_INDEX)?, &self.places.piece(doc))?;
        let group = self.places.group(doc, &piece)?;
        let place = group.block(doc).ok_or_else(no_documents)?;
        *self.group.lock() = Some(group);
        Ok(place)
    }

    fn part(&self, name: &str) -> Result<usize> {
        let found = self.files.footer.part(name);
        found.map(|(part, _)| part).ok_or_else(no_documents)
    }

    fn record(&self, doc: DocId) -> Result<Bytes> {
        if let Some((place, block)) = &*self.block.lock()
            && place.records.contains(&doc)
        {
            return block.record(doc - place.records.start);
        }
        let place = self.place(doc)?;
        let block = Block::unpack(&self.files.read(self.part(names::STORE)?, &place.bytes)?)?;
        let record = block.record(doc - place.records.start)?;
        *self.block.lock() = Some((place, block));
        Ok(record)
    }
}

fn no_documents() -> Error {
    Error::new(ErrorKind::Repository, "a split lacks documents")
}
