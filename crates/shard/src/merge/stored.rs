//! Stored documents of a reordering merge.
//!
//! Documents are stored in compressed blocks, so reading them one by one in another order would
//! decompress a block for each. Instead every source is read once from start to end, each
//! document is appended to the piece of the new order that it belongs to, and then the pieces are
//! written in sequence. Pieces stay in memory up to a limit; the rest goes to one temporary file in
//! the folder of the first segment, which is removed at the end (or with the folder).

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use firn_model::{Error, Result};
use firn_storage::disk::{AppendFile, Disk};
use tantivy::IndexSettings;
use tantivy::index::{Segment, SegmentComponent, SegmentReader};
use tantivy::store::StoreWriter;

use super::order::GONE;
use crate::buffer::tantivy_error;

/// Documents of a piece: their places need little memory, and ten million documents make some three
/// hundred pieces, each with a chunk that is being filled.
const PIECE_DOCS: u32 = 1 << 15;
/// Size of a chunk: large enough for sequential disk access.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum memory of all pieces, bytes; merges up to some fifty thousand events need no file.
const MEMORY_BYTES_MAX: usize = 32 << 20;

/// Writes the documents. `outputs` are the segments to write and their ranges of places, ascending.
pub(super) fn write(
    readers: &[&SegmentReader],
    places: &[Vec<u32>],
    outputs: &[(&Segment, Range<u32>)],
    settings: &IndexSettings,
    disk: &dyn Disk,
    scratch: PathBuf,
) -> Result<()> {
    let mut aside = SpilledDocs::new(outputs, disk, scratch);
    for (reader, places) in readers.iter().zip(places) {
        // A cache of one decompressed block is enough: documents are read in storage order.
        let store = reader.get_store_reader(1)?;
        for (doc, place) in places.iter().enumerate().filter(|(_, place)| **place != GONE) {
            let document = store.get_document_bytes(doc as u32).map_err(tantivy_error)?;
            aside.put(*place, &document)?;
        }
    }
    let mut pieces = aside.finish()?;
    for (segment, places) in outputs {
        let file = segment
            .open_write(SegmentComponent::Store)
            .map_err(|error| tantivy_error(error.into()))?;
        let mut store = StoreWriter::new(
            file,
            settings.docstore_compression,
            settings.docstore_blocksize,
            settings.docstore_compress_dedicated_thread,
        )?;
        while let Some(piece) = pieces.next_within(places) {
            for document in pieces.documents(&piece)? {
                store.store_bytes(document)?;
            }
        }
        store.close()?;
    }
    pieces.remove()
}

/// Consecutive places of one output, and the documents collected for them.
struct Piece {
    places: Range<u32>,
    /// Documents, each after its place and length (u32 each, little-endian).
    filling: Vec<u8>,
    full: Vec<Chunk>,
}

enum Chunk {
    Memory(Vec<u8>),
    /// Byte range in the file.
    File(Range<usize>),
}

struct SpilledDocs<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    file: Option<Box<dyn AppendFile>>,
    pieces: Vec<Piece>,
    /// Size of full chunks in memory.
    memory_bytes: usize,
}

impl<'a> SpilledDocs<'a> {
    fn new(outputs: &[(&Segment, Range<u32>)], disk: &'a dyn Disk, path: PathBuf) -> Self {
        let starts = outputs.iter().flat_map(|(_, places)| {
            let pieces = places.clone().step_by(PIECE_DOCS as usize);
            pieces.map(|start| start..start.saturating_add(PIECE_DOCS).min(places.end))
        });
        let pieces = starts.map(|places| Piece {
            places,
            filling: Vec::new(),
            full: Vec::new(),
        });
        Self {
            disk,
            path,
            file: None,
            pieces: pieces.collect(),
            memory_bytes: 0,
        }
    }

    fn put(&mut self, place: u32, document: &[u8]) -> Result<()> {
        let number = self.pieces.partition_point(|piece| piece.places.end <= place);
        let piece = &mut self.pieces[number];
        piece.filling.extend_from_slice(&place.to_le_bytes());
        piece.filling.extend_from_slice(&(document.len() as u32).to_le_bytes());
        piece.filling.extend_from_slice(document);
        if piece.filling.len() < CHUNK_BYTES {
            return Ok(());
        }
        if self.memory_bytes + piece.filling.len() <= MEMORY_BYTES_MAX {
            self.memory_bytes += piece.filling.len();
            piece.full.push(Chunk::Memory(std::mem::take(&mut piece.filling)));
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.disk.create_append(&self.path)?),
        };
        let start = file.len() as usize;
        file.append(&piece.filling)?;
        piece.full.push(Chunk::File(start..start + piece.filling.len()));
        piece.filling.clear();
        Ok(())
    }

    fn finish(self) -> Result<Pieces<'a>> {
        let mapped = match &self.file {
            Some(_) => self.disk.map(&self.path)?,
            None => Bytes::new(),
        };
        Ok(Pieces {
            disk: self.disk,
            path: self.file.is_some().then_some(self.path),
            mapped,
            pieces: self.pieces.into_iter(),
        })
    }
}

/// Collected documents, read piece by piece.
struct Pieces<'a> {
    disk: &'a dyn Disk,
    /// The temporary file, if there is one.
    path: Option<PathBuf>,
    mapped: Bytes,
    pieces: std::vec::IntoIter<Piece>,
}

impl Pieces<'_> {
    /// Returns the next piece, if it belongs to these places.
    fn next_within(&mut self, places: &Range<u32>) -> Option<Piece> {
        match self.pieces.as_slice().first() {
            Some(piece) if piece.places.start < places.end => self.pieces.next(),
            _ => None,
        }
    }

    /// Returns the documents of a piece in their new order.
    fn documents<'b>(&'b self, piece: &'b Piece) -> Result<Vec<&'b [u8]>> {
        let mut documents: Vec<Option<&[u8]>> = vec![None; piece.places.len()];
        let full = piece.full.iter().map(|chunk| match chunk {
            Chunk::Memory(bytes) => Some(&bytes[..]),
            Chunk::File(range) => self.mapped.get(range.clone()),
        });
        for chunk in full.chain([Some(&piece.filling[..])]) {
            let mut rest = chunk.ok_or_else(lost)?;
            while let Some((place, after)) = rest.split_first_chunk() {
                let (len, after) = after.split_first_chunk().ok_or_else(lost)?;
                let (document, after) = after
                    .split_at_checked(u32::from_le_bytes(*len) as usize)
                    .ok_or_else(lost)?;
                let place = u32::from_le_bytes(*place).wrapping_sub(piece.places.start);
                *documents.get_mut(place as usize).ok_or_else(lost)? = Some(document);
                rest = after;
            }
        }
        documents
            .into_iter()
            .map(|document| document.ok_or_else(lost))
            .collect()
    }

    fn remove(self) -> Result<()> {
        drop(self.mapped);
        match self.path {
            Some(path) => Ok(self.disk.remove_file(&path)?),
            None => Ok(()),
        }
    }
}

fn lost() -> Error {
    Error::internal("a merge lost a stored document")
}
