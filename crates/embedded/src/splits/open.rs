//! From an object to a segment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::blocks::{Block, BlockPlace, Samples};
use firn_storage::split::{Footer, PartKind, SplitRef};
use parking_lot::Mutex;
use tantivy::schema::Field;
use tantivy::{DocId, Index, SegmentReader};

use super::about::About;
use super::directory::{SplitDirectory, SplitFiles};
use super::{SplitBytes, SplitDocument, lengths, names};
use crate::analysis;
use crate::derived::{Derived, Zones};
use crate::lengths::PathLengths;
use crate::segment::Segment;
use crate::shard::{DeleteSet, TENANTS_FILE, decode_tenants};

/// What of a split is read otherwise than of a segment on disk.
#[derive(Debug)]
pub(crate) struct OpenSplit {
    files: Arc<SplitFiles>,
    about: About,
    samples: Samples,
    zones: Option<Arc<Zones>>,
    /// The block that was unpacked last: hits are read in the order of documents.
    block: Mutex<Option<(BlockPlace, Block)>>,
}

/// Opens a split, reading its footer. `deletes` are those of [`crate::shard::FrozenSegment::deletes`]. Blocks the
/// calling thread while bytes are fetched.
pub fn open_split(split: &SplitRef, bytes: Arc<dyn SplitBytes>, deletes: Option<&[u8]>) -> Result<Segment> {
    let logical = split.footer_logical();
    let footer = Footer::decode(logical.start, &bytes.read(PartKind::Footer, logical)?)?;
    let damaged = |what: &str| damaged(split, what);
    let about: About = serde_json::from_value(footer.about.clone()).map_err(|error| damaged(&error.to_string()))?;
    let docs = about.segment.docs;
    let inline = |name: &str| footer.inline.get(name);
    let samples = inline(names::STORE_SAMPLES).ok_or_else(|| damaged("it has no index of documents"))?;
    let samples = Samples::decode(samples)?;
    let zones = match inline(names::TIME_ZONES) {
        Some(bytes) => Some(Zones::decode(bytes, docs).ok_or_else(|| damaged("its zones do not fit"))?),
        None => None,
    };
    let tenants = match inline(TENANTS_FILE) {
        Some(bytes) => Some(decode_tenants(bytes, docs).ok_or_else(|| damaged("it holds no counts of tenants"))?),
        None => None,
    };
    let deletes = match deletes {
        Some(bytes) => DeleteSet::from_bytes(bytes, docs).ok_or_else(|| damaged("its deletes do not fit"))?,
        None => DeleteSet::default(),
    };
    let files = Arc::new(SplitFiles::new(footer, bytes)?);
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
        derived: Arc::new(Derived::of_split(
            &reader,
            OpenSplit {
                files,
                about,
                samples,
                zones: zones.map(Arc::new),
                block: Mutex::new(None),
            },
        )),
        reader,
    })
}

fn open_reader(files: &Arc<SplitFiles>, split: &SplitRef) -> Result<SegmentReader> {
    let directory = SplitDirectory {
        files: Arc::clone(files),
    };
    // Tantivy panics over some kinds of damage.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut index = Index::open(directory)?;
        index.set_tokenizers(analysis::tokenizers());
        let segments = index.searchable_segments()?;
        segments.first().map(SegmentReader::open).transpose()
    }));
    match opened {
        Ok(Ok(Some(reader))) => Ok(reader),
        Ok(Ok(None)) => Err(damaged(split, "it holds no segment")),
        Ok(Err(error)) => match crate::search::failed(error) {
            error if error.kind() == ErrorKind::Internal => Err(damaged(split, error.reason())),
            error => Err(error),
        },
        Err(_) => Err(damaged(split, "its files cannot be read")),
    }
}

pub(super) fn damaged(split: &SplitRef, what: &str) -> Error {
    Error::new(
        ErrorKind::Repository,
        format!("split [{}] is damaged: {what}", split.id),
    )
}

impl OpenSplit {
    /// Zones of `@timestamp`, if each document has one.
    pub(crate) fn zones(&self) -> Option<&Arc<Zones>> {
        self.zones.as_ref()
    }

    /// Documents with a value in the column of strings of a path.
    pub(crate) fn docs_in_column(&self, path: &str) -> u64 {
        self.about.column_docs.get(path).copied().unwrap_or_default()
    }

    /// The lengths of a path, if it has any text.
    pub(crate) fn lengths(&self, field: Field, start: &[u8]) -> Result<Option<PathLengths>> {
        let name = crate::schema::fields().schema.get_field_name(field);
        let is_wanted =
            |about: &&super::about::PathLengthsAbout| about.field == name && about.start.as_bytes() == start;
        let found = self.about.lengths.iter().find(is_wanted);
        found
            .map(|about| lengths::read(&self.files, about, self.about.segment.docs))
            .transpose()
    }

    /// A stored document.
    pub(crate) fn document(&self, doc: DocId) -> Result<SplitDocument> {
        let record = self.record(doc)?;
        SplitDocument::decode(&record).ok_or_else(|| {
            Error::new(
                ErrorKind::Repository,
                format!("document {doc} of a split cannot be read"),
            )
        })
    }

    /// Notes what reading a document waits for ([`super::reads`]).
    pub(crate) fn note_document(&self, doc: DocId) -> Result<()> {
        if let (Some((index, _)), Some((store, _))) = (
            self.files.footer.part(names::STORE_INDEX),
            self.files.footer.part(names::STORE),
        ) {
            let piece = self.files.read(index, &self.samples.piece(doc))?;
            self.files.note(store, &self.samples.block(doc, &piece)?.bytes)?;
        }
        Ok(())
    }

    fn record(&self, doc: DocId) -> Result<Bytes> {
        if let Some((place, block)) = &*self.block.lock()
            && place.records.contains(&doc)
        {
            return block.record(doc - place.records.start);
        }
        let part = |name: &str| {
            let found = self.files.footer.part(name);
            found.ok_or_else(|| Error::new(ErrorKind::Repository, "a split holds no documents"))
        };
        let piece = self.files.read(part(names::STORE_INDEX)?.0, &self.samples.piece(doc))?;
        let place = self.samples.block(doc, &piece)?;
        let block = Block::unpack(&self.files.read(part(names::STORE)?.0, &place.bytes)?)?;
        let record = block.record(doc - place.records.start)?;
        *self.block.lock() = Some((place, block));
        Ok(record)
    }
}
