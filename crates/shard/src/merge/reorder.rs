//! Writer of segments whose documents are in another order than in their sources.
//!
//! Tantivy merges segments one after the other, or sorted by a field if each of them is already sorted by
//! it. Here the order is arbitrary, so this module writes the parts of a segment, with
//! Tantivy's serializers.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use firn_model::Result;
use firn_segment::commit_point::segment_dir;
use firn_segment::deletes::alive_bits;
use firn_segment::directory::DiskDirectory;
use firn_segment::schema::fields;
use firn_segment::segment::AliveBits;
use firn_storage::disk::Disk;
use tantivy::columnar::{ColumnType, ColumnarReader, MergeRowOrder, RowAddr, ShuffleMergeOrder, merge_columnar};
use tantivy::directory::{Directory, TerminatingWrite};
use tantivy::fieldnorm::FieldNormsSerializer;
use tantivy::index::{Segment, SegmentComponent, SegmentReader};
use tantivy::{Index, IndexMeta, IndexSettings};

use super::Source;
use super::order::{Order, Part};
use super::postings::Terms;
use super::stored;
use crate::buffer::tantivy_error;

/// Temporary file of stored documents.
const SCRATCH_FILE: &str = "scratch";

/// Segment written by a merge, not finished yet.
pub(super) struct Rewritten {
    pub(super) generation: u64,
    pub(super) directory: DiskDirectory,
    pub(super) index: Index,
}

/// Writes the parts of an order as segments; `targets` are their generations.
pub(super) fn write(
    disk: &Arc<dyn Disk>,
    shard_dir: &Path,
    settings: &IndexSettings,
    sources: &[&Source],
    mut order: Order,
    targets: &[u64],
) -> Result<(Vec<Rewritten>, Vec<Vec<u32>>)> {
    let mut outputs = Vec::with_capacity(targets.len());
    for (generation, part) in targets.iter().zip(&order.parts) {
        outputs.push(Output::create(disk, shard_dir, settings, *generation, part)?);
    }
    let readers: Vec<&SegmentReader> = sources.iter().map(|source| &source.open.reader).collect();
    let segments = || outputs.iter().map(|output| (&output.segment, output.places.clone()));
    for (segment, _) in segments() {
        // No field of the schema has norms: firn counts lengths itself for scores.
        let norms = open_write(segment, SegmentComponent::FieldNorms)?;
        FieldNormsSerializer::from_write(norms)?.close()?;
    }
    let terms = Terms {
        readers: &readers,
        places: &order.places,
        outputs: segments().collect(),
    };
    terms.write()?;
    if let Some(first) = targets.first() {
        let scratch = segment_dir(shard_dir, *first).join(SCRATCH_FILE);
        let segments: Vec<_> = segments().collect();
        stored::write(&readers, &order.places, &segments, settings, &**disk, scratch)?;
    }
    // In reverse order, so that each takes its documents off the end.
    for output in outputs.iter().rev() {
        let docs = order.docs.split_off(output.places.start as usize);
        write_columns(&readers, &output.segment, docs)?;
    }
    let mut written = Vec::with_capacity(outputs.len());
    for output in outputs {
        written.push(output.finish(settings)?);
    }
    Ok((written, order.places))
}

struct Output {
    generation: u64,
    directory: DiskDirectory,
    index: Index,
    segment: Segment,
    places: Range<u32>,
}

impl Output {
    fn create(
        disk: &Arc<dyn Disk>,
        shard_dir: &Path,
        settings: &IndexSettings,
        generation: u64,
        part: &Part,
    ) -> Result<Self> {
        let directory = DiskDirectory::create(Arc::clone(disk), segment_dir(shard_dir, generation))?;
        let schema = fields().schema.clone();
        let index = Index::create(directory.clone(), schema, settings.clone()).map_err(tantivy_error)?;
        Ok(Self {
            generation,
            directory,
            segment: index.new_segment(),
            index,
            places: part.places.clone(),
        })
    }

    /// Writes the index meta, which names the segment.
    fn finish(self, settings: &IndexSettings) -> Result<Rewritten> {
        let docs = self.places.len() as u32;
        let mut meta = IndexMeta::with_schema(fields().schema.clone());
        meta.index_settings = settings.clone();
        meta.segments = vec![self.index.new_segment_meta(self.segment.id(), docs)];
        let meta = serde_json::to_vec_pretty(&meta)?;
        self.index.directory().atomic_write(Path::new("meta.json"), &meta)?;
        Ok(Rewritten {
            generation: self.generation,
            directory: self.directory,
            index: self.index,
        })
    }
}

fn open_write(segment: &Segment, component: SegmentComponent) -> Result<tantivy::directory::WritePtr> {
    segment
        .open_write(component)
        .map_err(|error| tantivy_error(error.into()))
}

/// Writes the columns of one segment, whose documents are given in their order.
fn write_columns(readers: &[&SegmentReader], segment: &Segment, docs: Vec<RowAddr>) -> Result<()> {
    let mut columns = Vec::with_capacity(readers.len());
    for reader in readers {
        let file = reader
            .open_read(SegmentComponent::FastFields)
            .map_err(|error| tantivy_error(error.into()))?;
        columns.push(ColumnarReader::open(file)?);
    }
    let columns: Vec<&ColumnarReader> = columns.iter().collect();
    // JSON fields have the columns that exist in the sources.
    let required = ["_seq_no", "_version"].map(|name| (name.to_owned(), ColumnType::U64));
    let used = used(readers, &docs).into_iter();
    let order = ShuffleMergeOrder {
        alive_bitsets: used.map(|bits| bits.map(|bits| bits.bitset().clone())).collect(),
        new_row_id_to_old_row_id: docs,
    };
    let mut file = open_write(segment, SegmentComponent::FastFields)?;
    merge_columnar(&columns, &required, MergeRowOrder::Shuffled(order), &mut file)?;
    file.terminate()?;
    Ok(())
}

/// Returns for each source the set of used documents, `None` if all are: only strings of used documents
/// get into the dictionaries.
fn used(readers: &[&SegmentReader], docs: &[RowAddr]) -> Vec<Option<AliveBits>> {
    let words = |reader: &&SegmentReader| vec![0u64; (reader.max_doc() as usize).div_ceil(64)];
    let mut sets: Vec<Vec<u64>> = readers.iter().map(words).collect();
    for address in docs {
        sets[address.segment_ord as usize][address.row_id as usize / 64] |= 1 << (address.row_id % 64);
    }
    let sets = readers.iter().zip(sets).map(|(reader, words)| {
        let used: u32 = words.iter().map(|word| word.count_ones()).sum();
        (used < reader.max_doc()).then(|| alive_bits(words.into_iter(), reader.max_doc()))
    });
    sets.collect()
}
