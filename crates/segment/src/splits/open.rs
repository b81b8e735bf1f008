//! Opening of a split as a segment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::block_index::{BlockPlace, Group, Places};
use firn_storage::split::blocks::Block;
use firn_storage::split::{Footer, PartKind, SplitRef};
use parking_lot::Mutex;
use serde_json::Value;
use tantivy::index::SegmentId;
use tantivy::schema::Field;
use tantivy::{DocId, Index, SegmentReader};

use super::directory::{SplitDirectory, SplitFiles};
use super::split_info::About;
use super::{SplitBytes, SplitDocument, StoredRuns, lengths, names};
use crate::analysis;
use crate::deletes::DeleteSet;
use crate::field_lengths::PathLengths;
use crate::segment::Segment;
use crate::segment_memo::{SegmentMemo, Zones};
use crate::tenant_file::{TENANTS_FILE, decode as decode_tenants};

/// The part of an open segment that is read differently in a split than on disk.
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

/// Opens a split and reads its footer. `deletes` has the format of [`crate::frozen_segment::FrozenSegment::deletes`]. Blocks the
/// calling thread while bytes are fetched.
pub fn open_split(split: &SplitRef, bytes: Arc<dyn SplitBytes>, deletes: Option<&[u8]>) -> Result<Segment> {
    let logical = split.footer_logical();
    let footer = Footer::decode(logical.start, &bytes.read(PartKind::Footer, logical)?)?;
    let damaged = |what: &str| damaged(split, what);
    let about: About = serde_json::from_value(footer.about.clone()).map_err(|error| damaged(&error.to_string()))?;
    let docs = about.segment.docs;
    let inline = |name: &str| footer.inline.get(name);
    let places = places(&footer)?;
    let zones = match inline(names::TIME_ZONES) {
        Some(bytes) => Some(Zones::decode(bytes, docs).ok_or_else(|| damaged("its zones are invalid"))?),
        None => None,
    };
    let tenants = match inline(TENANTS_FILE) {
        Some(bytes) => Some(decode_tenants(bytes, docs).ok_or_else(|| damaged("its counts of tenants are invalid"))?),
        None => None,
    };
    let deletes = match deletes {
        Some(bytes) => DeleteSet::from_bytes(bytes, docs).ok_or_else(|| damaged("its deletes do not fit"))?,
        None => DeleteSet::default(),
    };
    let files = Arc::new(SplitFiles::new(footer, bytes, docs)?);
    if files.hours.as_ref().is_some_and(|hours| hours.rows() != docs) {
        return Err(damaged("its hours are invalid"));
    }
    let reader = open_reader(&files, split)?;
    if reader.max_doc() != docs {
        return Err(damaged(&format!(
            "it holds {} documents instead of {docs}",
            reader.max_doc()
        )));
    }
    let meta = &about.segment;
    Ok(Segment {
        generation: meta.generation,
        alive: deletes.to_alive(docs).map(Arc::new),
        max_doc: docs,
        deleted_count: deletes.count(),
        time_range_ms: meta.time_range_ms,
        without_time_count: meta.without_time,
        seq_no_range: meta.seq_no_range,
        size_bytes: split.len,
        committed: true,
        tenants: tenants.map(Arc::new),
        derived: Arc::new(SegmentMemo::of_split(
            &reader,
            OpenSplit {
                made_from: split.segment.clone(),
                files,
                about,
                places,
                zones: zones.map(Arc::new),
                block: Mutex::new(None),
                group: Mutex::new(None),
                largest_document: OnceLock::new(),
            },
        )),
        reader,
    })
}

/// Opens the reader with a random segment id. Caches are keyed by segment id, and data of the original segment on disk,
/// or of the same split in another repository, must not be used for this one.
fn open_reader(files: &Arc<SplitFiles>, split: &SplitRef) -> Result<SegmentReader> {
    let directory = SplitDirectory {
        files: Arc::clone(files),
        meta: meta_of(files, SegmentId::generate_random()).ok_or_else(|| damaged(split, "it has no segment id"))?,
    };
    // Tantivy panics on some kinds of damage.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut index = Index::open(directory)?;
        index.set_tokenizers(analysis::tokenizers());
        let segments = index.searchable_segments()?;
        segments.first().map(SegmentReader::open).transpose()
    }));
    match opened {
        Ok(Ok(Some(reader))) => Ok(reader),
        Ok(Ok(None)) => Err(damaged(split, "it holds no segment")),
        Ok(Err(error)) => match crate::columns::column::failed(error) {
            error if error.kind() == ErrorKind::Internal => Err(damaged(split, error.reason())),
            error => Err(error),
        },
        Err(_) => Err(damaged(split, "its files cannot be read")),
    }
}

/// Returns the `meta.json` of the split with another id for its only segment.
fn meta_of(files: &SplitFiles, id: SegmentId) -> Option<Vec<u8>> {
    let stored = files.footer.inline.get(names::META)?;
    let mut meta: Value = serde_json::from_slice(stored).ok()?;
    let segment = meta.pointer_mut("/segments/0/segment_id")?;
    *segment = id.uuid_string().into();
    serde_json::to_vec(&meta).ok()
}

/// Decodes the places of documents from a footer of any format version.
pub(super) fn places(footer: &Footer) -> Result<Places> {
    let lacking = || Error::new(ErrorKind::Repository, "a split has no index of documents");
    let (_, index) = footer.part(names::STORE_INDEX).ok_or_else(lacking)?;
    let inline = |name: &str| footer.inline.get(name);
    match (inline(names::STORE_GROUPS), inline(names::STORE_SAMPLES)) {
        (Some(groups), _) => Places::decode(groups, index.len),
        (None, Some(samples)) => Places::decode_samples(samples),
        (None, None) => Err(lacking()),
    }
}

pub(super) fn damaged(split: &SplitRef, what: &str) -> Error {
    Error::new(
        ErrorKind::Repository,
        format!("split [{}] is damaged: {what}", split.id),
    )
}

impl OpenSplit {
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
        let is_wanted =
            |about: &&super::split_info::PathLengthsAbout| about.field == name && about.start.as_bytes() == start;
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
