//! Opening of a split as a segment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::block_index::Places;
use firn_storage::split::{Footer, PartKind, SplitRef};
use serde_json::Value;
use tantivy::index::SegmentId;
use tantivy::{Index, SegmentReader};

use super::directory::SplitDirectory;
use super::open_split::OpenSplit;
use super::split_files::SplitFiles;
use super::split_info::About;
use super::{SplitBytes, names};
use crate::analysis;
use crate::columns::column::failed;
use crate::deletes::DeleteSet;
use crate::segment::Segment;
use crate::segment_memo::SegmentMemo;
use crate::tenant_file::{TENANTS_FILE, decode as decode_tenants};
use crate::zones::Zones;

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
            OpenSplit::new(split.segment.clone(), files, about, places, zones.map(Arc::new)),
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
        Ok(Err(error)) => match failed(error) {
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
