//! Upper bounds for the bytes that reading documents of a split fetches, computed without reads.

use std::ops::Range;
use std::sync::Arc;

use firn_storage::split::block_index::Group;
use firn_storage::split::{PartKind, pages};
use tantivy::DocId;

use super::open_split::OpenSplit;
use super::{SplitBytes, names};

/// Bytes assumed for a block whose place only a read would show, which happens only in splits with very many blocks. A
/// block is closed at 64 KB before compression, and the document that closes it may be as large again.
const UNKNOWN_BLOCK_BYTES: u64 = 128 << 10;

impl OpenSplit {
    /// Returns the requests and bytes that reading all documents of these runs would fetch now. Reading some of them
    /// fetches no more.
    pub fn missing_documents(&self, runs: &[Range<DocId>]) -> (u64, u64) {
        let (store, index) = (
            self.files.footer.part(names::STORE),
            self.files.footer.part(names::STORE_INDEX),
        );
        let (Some((_, store)), Some((_, index))) = (store, index) else {
            return (0, 0);
        };
        let mut wanted = Vec::new();
        for run in runs.iter().filter(|run| !run.is_empty()) {
            let (first, last) = (self.held_group(run.start), self.held_group(run.end - 1));
            if first.is_none() || last.is_none() {
                wanted.push((PartKind::Store, index.start..index.start + index.len));
            }
            let around = self.places.around(run).unwrap_or(0..store.len);
            let start = first.and_then(|group| group.block(run.start));
            let end = last.and_then(|group| group.block(run.end - 1));
            let start = start.map_or(around.start, |block| block.bytes.start);
            let end = end.map_or(around.end, |block| block.bytes.end).min(store.len);
            wanted.push((PartKind::Store, store.start + start..store.start + end.max(start)));
        }
        self.files.bytes.missing(&wanted)
    }

    /// Returns the maximum of bytes that reading one document fetches.
    pub fn document_bytes_max(&self) -> u64 {
        *self.largest_document.get_or_init(|| {
            let (mut doc, mut largest, mut piece_bytes) = (0, 0, 0);
            while doc < self.about.segment.docs {
                let Some(group) = self.held_group(doc) else {
                    let piece = self.places.piece(doc);
                    (largest, piece_bytes) = (UNKNOWN_BLOCK_BYTES, pages_of(piece.end - piece.start));
                    break;
                };
                largest = largest.max(group.largest_block());
                doc = group.records().end.max(doc + 1);
            }
            pages_of(largest) + piece_bytes
        })
    }

    /// Returns the bytes that all postings and positions would fetch now.
    pub fn missing_postings(&self) -> u64 {
        let parts = [names::POSTINGS, names::POSITIONS]
            .into_iter()
            .filter_map(|name| self.files.footer.part(name));
        let wanted: Vec<_> = parts
            .map(|(_, part)| (part.kind, part.start..part.start + part.len))
            .collect();
        self.files.bytes.missing(&wanted).1
    }

    /// Returns the bytes of all parts of a kind, in pages.
    pub fn kind_bytes(&self, kind: PartKind) -> u64 {
        let parts = self.files.footer.parts.iter().filter(|part| part.kind == kind);
        parts.map(|part| pages_of(part.len)).sum()
    }

    /// Whether the split is remote: it has no full copy on this node, so its bytes come from the object store or the
    /// cache.
    pub fn is_far(&self) -> bool {
        self.files.bytes.io().is_some()
    }

    /// Whether the split reads from this source.
    pub fn reads(&self, bytes: &Arc<dyn SplitBytes>) -> bool {
        Arc::ptr_eq(&self.files.bytes, bytes)
    }

    /// Returns the group of blocks that holds a document, if the open split has their places in memory.
    fn held_group(&self, doc: DocId) -> Option<Group> {
        let (index, _) = self.files.footer.part(names::STORE_INDEX)?;
        let piece = self.files.footer.hot(index, &self.places.piece(doc))?;
        self.places.group(doc, &piece).ok()
    }
}

/// Returns the bytes of the pages that `len` bytes touch at most, wherever they begin.
fn pages_of(len: u64) -> u64 {
    (len.div_ceil(pages::PAYLOAD_BYTES) + 1) * pages::PAGE_BYTES
}
