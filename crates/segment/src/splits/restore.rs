//! Conversion of a split back to the folder of a segment on disk.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use firn_model::{Error, Result};
use firn_storage::disk::Disk;
use firn_storage::split::block_index::Group;
use firn_storage::split::blocks::Block;
use firn_storage::split::{Footer, PartKind, SplitRef};
use tantivy::directory::{Directory, TerminatingWrite};
use tantivy::index::SegmentComponent;
use tantivy::store::StoreWriter;
use tantivy::{Index, TantivyDocument};

use super::columns;
use super::open::{damaged, places};
use super::split_files::SplitFiles;
use super::split_info::About;
use super::write::COPIED;
use super::{SplitBytes, SplitDocument, names, terms};
use crate::block_checksums::CHECKSUMS_FILE;
use crate::columns::column::failed;
use crate::commit_point::SegmentMeta;
use crate::directory::DiskDirectory;
use crate::distinct;
use crate::schema::fields;
use crate::tenant_file::TENANTS_FILE;

/// Bytes of one read.
const READ_BYTES: u64 = 4 << 20;
/// Documents whose entries of the document index are read at once: some thousands of blocks.
const LOOK_DOCS: u32 = 256;

/// Writes the files of a segment into a new folder and returns their description. The files are not synced. `stop` is
/// called regularly; its error ends the restore.
pub fn restore_segment(
    split: &SplitRef,
    bytes: Arc<dyn SplitBytes>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    stop: &dyn Fn() -> Result<()>,
) -> Result<SegmentMeta> {
    let logical = split.footer_logical();
    let footer = Footer::decode(logical.start, &bytes.read(PartKind::Footer, logical)?)?;
    let about: About =
        serde_json::from_value(footer.about.clone()).map_err(|error| damaged(split, &error.to_string()))?;
    let files = SplitFiles::new(footer, bytes, about.segment.docs)?;
    let directory = DiskDirectory::create(disk, dir)?;
    for (name, _) in COPIED {
        if let Some((part, found)) = files.footer.part(name) {
            let path = format!("{}.{name}", split.segment);
            let mut out = directory
                .open_write(path.as_ref())
                .map_err(|error| failed(error.into()))?;
            match name == names::TERMS && about.paged_terms {
                true => {
                    let paged = files.read(part, &(0..found.len))?;
                    out.write_all(&terms::unpage(&paged, &fields().schema)?)?;
                }
                false => copy(&files, part, found.len, &mut out, stop)?,
            }
            out.terminate()?;
        }
    }
    if let Some((part, _)) = files.footer.part(names::COLUMN_RUNS) {
        let path = format!("{}.{}", split.segment, names::COLUMNS);
        let mut out = directory
            .open_write(path.as_ref())
            .map_err(|error| failed(error.into()))?;
        columns::copy_to(&files, part, &mut out, stop)?;
        out.terminate()?;
    }
    if let Some(meta) = files.footer.inline.get(names::META) {
        directory.atomic_write(names::META.as_ref(), meta)?;
    }
    write_documents(split, &files, about.segment.docs, &directory, stop)?;
    if let Some(tenants) = files.footer.inline.get(TENANTS_FILE) {
        directory.write_small(TENANTS_FILE, tenants)?;
    }
    if let Some((part, found)) = files.footer.part(names::ID_FILTER) {
        directory.write_small(names::ID_FILTER, &files.read(part, &(0..found.len))?)?;
    }
    let index = Index::open(directory.clone()).map_err(failed)?;
    let segment = index.searchable_segment_ids().map_err(failed)?.first().copied();
    let segment = segment.ok_or_else(|| damaged(split, "it lacks a segment"))?;
    distinct::write(&directory, segment, about.segment.docs)?;
    let mut meta = about.segment;
    let written = directory.finish()?;
    let store = format!("{}.{}", split.segment, names::STORE);
    // The store and its checksums are written again; all other files must equal those of the segment.
    let is_made_anew = |name: &str| name == store || name == CHECKSUMS_FILE;
    for (name, sum) in meta.files.iter().filter(|(name, _)| !is_made_anew(name)) {
        if written.get(name) != Some(sum) {
            return Err(damaged(
                split,
                &format!("its file [{name}] differs from the file of the segment"),
            ));
        }
    }
    meta.size_bytes = written.values().map(|sum| sum.len).sum();
    meta.files = written;
    Ok(meta)
}

fn copy(files: &SplitFiles, part: usize, len: u64, out: &mut dyn Write, stop: &dyn Fn() -> Result<()>) -> Result<()> {
    let mut start = 0;
    while start < len {
        stop()?;
        let end = (start + READ_BYTES).min(len);
        out.write_all(&files.read(part, &(start..end))?)?;
        start = end;
    }
    Ok(())
}

fn write_documents(
    split: &SplitRef,
    files: &SplitFiles,
    docs: u32,
    directory: &DiskDirectory,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let lost = || damaged(split, "it lacks documents");
    let places = places(&files.footer)?;
    let mut group: Option<Group> = None;
    let (index_part, _) = files.footer.part(names::STORE_INDEX).ok_or_else(lost)?;
    let (store_part, _) = files.footer.part(names::STORE).ok_or_else(lost)?;
    let index = Index::open(directory.clone()).map_err(failed)?;
    let segments = index.searchable_segments().map_err(failed)?;
    let segment = segments.first().ok_or_else(lost)?;
    let out = segment
        .open_write(SegmentComponent::Store)
        .map_err(|error| failed(error.into()))?;
    let settings = index.settings();
    let mut store = StoreWriter::new(out, settings.docstore_compression, settings.docstore_blocksize, false)?;
    let mut next = 0;
    while next < docs {
        if next.is_multiple_of(LOOK_DOCS) {
            stop()?;
        }
        let known = group.as_ref().and_then(|group| group.block(next));
        let place = match known {
            Some(place) => place,
            None => {
                let piece = files.read(index_part, &places.piece(next))?;
                let own = group.insert(places.group(next, &piece)?);
                own.block(next).ok_or_else(lost)?
            }
        };
        let block = Block::unpack(&files.read(store_part, &place.bytes)?)?;
        if place.records.start != next || block.count() != place.records.end - next {
            return Err(lost());
        }
        for number in 0..block.count() {
            let document = SplitDocument::decode(&block.record(number)?).ok_or_else(lost)?;
            store.store(&stored(document), &fields().schema)?;
        }
        next = place.records.end;
    }
    store.close().map_err(Error::from)
}

/// Converts a document to Tantivy's type.
fn stored(document: SplitDocument) -> TantivyDocument {
    let fields = fields();
    let mut stored = TantivyDocument::new();
    for (field, text) in [(fields.stored_id, document.id), (fields.routing, document.routing)] {
        if let Some(text) = text {
            stored.add_text(field, text);
        }
    }
    stored.add_bytes(fields.source, &document.source);
    stored
}
