//! Terms of a reordering merge: read once, term by term, and written in the new document order.

use std::ops::Range;

use firn_model::Result;
use firn_segment::schema::fields;
use tantivy::index::{InvertedIndexReader, Segment, SegmentReader};
use tantivy::postings::{FieldSerializer, InvertedIndexSerializer, Postings, TermInfo};
use tantivy::schema::{Field, FieldType, IndexRecordOption, Type};
use tantivy::termdict::TermMerger;
use tantivy::{DocSet, TERMINATED};

use super::order::GONE;
use crate::buffer::tantivy_error;

/// A posting list with at least one in this many documents is sorted by setting bits: that is linear,
/// and the bits of ten million documents fit into the processor's cache.
const DENSE: usize = 64;

/// Sources and targets of terms.
pub(super) struct Terms<'a> {
    pub(super) readers: &'a [&'a SegmentReader],
    /// By source and old document: the new place.
    pub(super) places: &'a [Vec<u32>],
    /// Segments to write and their ranges of places, ascending.
    pub(super) outputs: Vec<(&'a Segment, Range<u32>)>,
}

impl Terms<'_> {
    /// Writes the terms of all fields. Memory: that of the largest posting list.
    pub(super) fn write(&self) -> Result<()> {
        let mut serializers = Vec::with_capacity(self.outputs.len());
        for (segment, _) in &self.outputs {
            serializers.push(InvertedIndexSerializer::open(segment).map_err(tantivy_error)?);
        }
        let mut list = List::new(self.outputs.last().map_or(0, |(_, places)| places.end));
        for (field, entry) in fields().schema.fields() {
            let Some(option) = entry.field_type().get_index_record_option() else {
                continue;
            };
            let is_json = matches!(entry.field_type(), FieldType::JsonObject(_));
            self.write_field(field, option, is_json, &mut serializers, &mut list)?;
        }
        for serializer in serializers {
            serializer.close()?;
        }
        Ok(())
    }

    fn write_field(
        &self,
        field: Field,
        option: IndexRecordOption,
        is_json: bool,
        serializers: &mut [InvertedIndexSerializer],
        list: &mut List,
    ) -> Result<()> {
        let mut indexes = Vec::with_capacity(self.readers.len());
        for reader in self.readers {
            indexes.push(reader.inverted_index(field).map_err(tantivy_error)?);
        }
        let tokens: u64 = indexes.iter().map(|index| index.total_num_tokens()).sum();
        let mut outputs = Vec::with_capacity(serializers.len());
        for (serializer, (_, places)) in serializers.iter_mut().zip(&self.outputs) {
            // An estimate, as in Tantivy's merges; firn computes the counts for scores separately.
            let share = places.len() as f64 / self.docs_of_sources().max(1) as f64;
            let tokens = (tokens as f64 * share) as u64;
            outputs.push((serializer.new_field(field, tokens, None)?, places.clone()));
        }
        let mut streams = Vec::with_capacity(indexes.len());
        for index in &indexes {
            streams.push(index.terms().stream()?);
        }
        let mut terms = TermMerger::new(streams);
        while terms.advance() {
            let with_freqs = option.has_freq() && (!is_json || is_text(terms.key()));
            list.clear();
            for (source, info) in terms.current_segment_ords_and_term_infos() {
                match with_freqs {
                    true => list.add_with_positions(&indexes[source], &info, option, &self.places[source])?,
                    false => list.add(&indexes[source], &info, &self.places[source])?,
                }
            }
            list.sort();
            for (output, places) in &mut outputs {
                list.write(terms.key(), with_freqs, output, places)?;
            }
        }
        for (output, _) in outputs {
            output.close()?;
        }
        Ok(())
    }

    fn docs_of_sources(&self) -> u64 {
        self.readers.iter().map(|reader| u64::from(reader.max_doc())).sum()
    }
}

/// Whether the term of a JSON field is of a text: for other types Tantivy stores no frequencies. The
/// type code follows the zero byte that ends the path.
fn is_text(term: &[u8]) -> bool {
    let end = memchr::memchr(0, term);
    end.is_some_and(|end| term.get(end + 1) == Some(&Type::Str.to_code()))
}

/// Document in the posting list of the current term, by its place.
struct Entry {
    place: u32,
    freq: u32,
    /// Range of its positions; empty for fields without positions.
    positions: Range<usize>,
}

/// Posting list of one term. Its memory is reused for the next one.
struct List {
    /// Used for fields without frequencies.
    places: Vec<u32>,
    /// Used for fields with frequencies.
    entries: Vec<Entry>,
    /// Positions of each document, delta-encoded.
    positions: Vec<u32>,
    /// One bit for each place; all zero between lists.
    marks: Vec<u64>,
}

impl List {
    fn new(total: u32) -> Self {
        Self {
            places: Vec::new(),
            entries: Vec::new(),
            positions: Vec::new(),
            marks: vec![0; (total as usize).div_ceil(64)],
        }
    }

    fn clear(&mut self) {
        self.places.clear();
        self.entries.clear();
        self.positions.clear();
    }

    fn add(&mut self, index: &InvertedIndexReader, info: &TermInfo, places: &[u32]) -> Result<()> {
        let mut block = index.read_block_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        while !block.docs().is_empty() {
            let own = block.docs().iter().map(|doc| places[*doc as usize]);
            self.places.extend(own.filter(|place| *place != GONE));
            block.advance();
        }
        Ok(())
    }

    fn add_with_positions(
        &mut self,
        index: &InvertedIndexReader,
        info: &TermInfo,
        option: IndexRecordOption,
        places: &[u32],
    ) -> Result<()> {
        let mut postings = index.read_postings_from_terminfo(info, option)?;
        while postings.doc() != TERMINATED {
            let place = places[postings.doc() as usize];
            if place != GONE {
                let start = self.positions.len();
                if option.has_positions() {
                    postings.append_positions_with_offset(0, &mut self.positions);
                    let mut last = 0;
                    for position in &mut self.positions[start..] {
                        (*position, last) = (*position - last, *position);
                    }
                }
                self.entries.push(Entry {
                    place,
                    freq: postings.term_freq(),
                    positions: start..self.positions.len(),
                });
            }
            postings.advance();
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.place);
        if self.places.len() < self.marks.len() * 64 / DENSE {
            self.places.sort_unstable();
            return;
        }
        for place in self.places.drain(..) {
            self.marks[place as usize / 64] |= 1 << (place % 64);
        }
        for (index, word) in self.marks.iter_mut().enumerate() {
            let mut rest = std::mem::take(word);
            while rest != 0 {
                self.places.push(index as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }

    /// Writes the part of the list within a range of places, if there is any.
    fn write(
        &self,
        term: &[u8],
        with_freqs: bool,
        output: &mut FieldSerializer<'_>,
        within: &Range<u32>,
    ) -> Result<()> {
        if with_freqs {
            let position = |place| self.entries.partition_point(|entry| entry.place < place);
            let entries = &self.entries[position(within.start)..position(within.end)];
            if !entries.is_empty() {
                output.new_term(term, entries.len() as u32, true)?;
                for entry in entries {
                    let positions = &self.positions[entry.positions.clone()];
                    output.write_doc(entry.place - within.start, entry.freq, positions);
                }
                output.close_term()?;
            }
        } else {
            let position = |place| self.places.partition_point(|own| *own < place);
            let places = &self.places[position(within.start)..position(within.end)];
            if !places.is_empty() {
                output.new_term(term, places.len() as u32, false)?;
                for place in places {
                    output.write_doc(place - within.start, 0, &[]);
                }
                output.close_term()?;
            }
        }
        Ok(())
    }
}
