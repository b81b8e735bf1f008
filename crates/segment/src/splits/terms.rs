//! Term dictionaries of a split, whose pages are found with a small index.
//!
//! Tantivy writes terms in blocks of some 2 KB and an index of all blocks: 70 KB for a million documents, which opening
//! a split would have to fetch to find one term. In a split the same terms are in larger blocks, pages of some
//! [`PAGE_BYTES`] before compression, and the index is smaller by the same factor. This is Tantivy's own format, so
//! readers do not notice. A restore writes blocks of the usual size again; the writer of the split proves that this
//! reproduces the original file.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::Result;
use tantivy::directory::footer::Footer;
use tantivy::directory::{CompositeFile, CompositeWrite, FileSlice};
use tantivy::schema::Schema;
use tantivy_sstable::value::{ValueReader, ValueWriter};
use tantivy_sstable::{Dictionary, SSTable};

use super::split_files::owned;

/// Bytes of keys in a page. For a split of a million documents the index then has some tens of KB, which a mount with
/// few splits fetches with the footer, and the lookup of a term fetches two or three pages of the object.
const PAGE_BYTES: usize = 6 << 10;
/// Bytes at the end of a dictionary that tell its kind.
const KIND_BYTES: usize = 4;

/// Converts a file of dictionaries to pages; `None`: the original would not be reproduced, so the file stays as it is.
pub(super) fn page(file: &Bytes, schema: &Schema) -> Result<Option<Bytes>> {
    let Ok(paged) = rewrite(file, schema, Some(PAGE_BYTES)) else {
        return Ok(None);
    };
    let again = unpage(&paged, schema).ok();
    Ok((again.as_ref() == Some(file)).then_some(paged))
}

/// Converts the result of [`page`] back to the original file.
pub(super) fn unpage(file: &Bytes, schema: &Schema) -> Result<Bytes> {
    Ok(rewrite(file, schema, None)?)
}

/// Writes all dictionaries with another block size, or with the usual one.
fn rewrite(file: &Bytes, schema: &Schema, block_bytes: Option<usize>) -> io::Result<Bytes> {
    let (_, body) = Footer::extract_footer(FileSlice::new(Arc::new(owned(file.clone()))))?;
    let body_len = body.num_bytes().get_bytes() as usize;
    let dictionaries = CompositeFile::open(&body)?;
    let mut written = Vec::with_capacity(file.len());
    let mut out = CompositeWrite::wrap(&mut written);
    for (field, _) in schema.fields() {
        let Some(slice) = dictionaries.open_read(field) else {
            continue;
        };
        let (terms, kind) = slice.split_from_end(KIND_BYTES);
        let out = out.for_field(field);
        let mut writer = Dictionary::<TermPlaces>::builder(Vec::new())?;
        if let Some(bytes) = block_bytes {
            writer.set_block_len(bytes);
        }
        let terms = Dictionary::<TermPlaces>::open(terms)?;
        let mut terms = terms.stream()?;
        while terms.advance() {
            writer.insert(terms.key(), terms.value())?;
        }
        io::Write::write_all(out, &writer.finish()?)?;
        io::Write::write_all(out, &kind.read_bytes()?)?;
    }
    out.close()?;
    written.extend_from_slice(&file[body_len..]);
    Ok(written.into())
}

/// Entries of Tantivy's term dictionaries: terms, and the places of their postings.
struct TermPlaces;

impl SSTable for TermPlaces {
    type Value = TermPlace;
    type ValueReader = Places;
    type ValueWriter = Places;
}

#[derive(Debug, Clone, Default)]
struct TermPlace {
    docs: u64,
    postings: Range<u64>,
    positions: Range<u64>,
}

/// The places in a block: their number, where postings and positions of the first term begin, and for each term its
/// document count and the lengths of both.
#[derive(Default)]
struct Places(Vec<TermPlace>);

impl ValueReader for Places {
    type Value = TermPlace;

    fn value(&self, index: usize) -> &TermPlace {
        &self.0[index]
    }

    fn load(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut rest = data;
        let count = take(&mut rest)?;
        let (mut postings, mut positions) = (take(&mut rest)?, take(&mut rest)?);
        self.0.clear();
        for _ in 0..count {
            let place = TermPlace {
                docs: take(&mut rest)?,
                postings: postings..postings.saturating_add(take(&mut rest)?),
                positions: positions..positions.saturating_add(take(&mut rest)?),
            };
            (postings, positions) = (place.postings.end, place.positions.end);
            self.0.push(place);
        }
        Ok(data.len() - rest.len())
    }
}

impl ValueWriter for Places {
    type Value = TermPlace;

    fn write(&mut self, place: &TermPlace) {
        self.0.push(place.clone());
    }

    fn serialize_block(&self, bytes: &mut Vec<u8>) {
        put(self.0.len() as u64, bytes);
        let Some(first) = self.0.first() else {
            return;
        };
        put(first.postings.start, bytes);
        put(first.positions.start, bytes);
        for place in &self.0 {
            put(place.docs, bytes);
            put(place.postings.end - place.postings.start, bytes);
            put(place.positions.end - place.positions.start, bytes);
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Encodes a number as Tantivy does: seven bits per byte, the low ones first, the highest bit set in the last byte.
fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 & 0x7f);
        number >>= 7;
    }
    bytes.push(number as u8 | 0x80);
}

fn take(bytes: &mut &[u8]) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else {
            break;
        };
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte >= 0x80 {
            return Ok(number);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "a dictionary ends within a number",
    ))
}

#[cfg(test)]
mod tests {
    use tantivy::directory::{Directory, RamDirectory};
    use tantivy::schema::{STRING, TEXT};
    use tantivy::{Index, IndexWriter, SegmentReader, TantivyDocument, Term};

    use super::*;

    #[test]
    fn pages_lead_to_every_term() {
        let mut schema = Schema::builder();
        let (id, text) = (schema.add_text_field("id", STRING), schema.add_text_field("text", TEXT));
        let schema = schema.build();
        let directory = RamDirectory::create();
        let index = Index::create(directory.clone(), schema.clone(), Default::default()).unwrap();
        let mut writer: IndexWriter = index.writer_with_num_threads(1, 20 << 20).unwrap();
        let name = |number: u64| format!("{:x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for number in 0..20_000 {
            let mut document = TantivyDocument::new();
            document.add_text(id, name(number));
            document.add_text(text, "few words");
            writer.add_document(document).unwrap();
        }
        writer.commit().unwrap();
        let segment = index.searchable_segments().unwrap().remove(0);
        let path = segment.relative_path(tantivy::index::SegmentComponent::Terms);
        let file = Bytes::from(directory.atomic_read(&path).unwrap());
        let paged = page(&file, &schema).unwrap().unwrap();
        assert!(paged.len() < file.len(), "{} of {}", paged.len(), file.len());
        assert_eq!(unpage(&paged, &schema).unwrap(), file);
        directory.atomic_write(&path, &paged).unwrap();
        let reader = SegmentReader::open(&segment).unwrap();
        let terms = reader.inverted_index(id).unwrap();
        for number in 0..20_000 {
            let found = terms.get_term_info(&Term::from_field_text(id, &name(number))).unwrap();
            assert_eq!(found.map(|info| info.doc_freq), Some(1), "{number}");
        }
        assert_eq!(terms.get_term_info(&Term::from_field_text(id, "noname")).unwrap(), None);
        let mut stream = terms.terms().range().ge(b"8").lt(b"9").into_stream().unwrap();
        let mut count = 0;
        while stream.advance() {
            assert!(stream.key().starts_with(b"8"));
            count += 1;
        }
        let expect = (0..20_000).filter(|number| name(*number).starts_with('8')).count();
        assert_eq!(count, expect);
    }
}
