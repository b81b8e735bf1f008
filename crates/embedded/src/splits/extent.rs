//! What reading documents of a split fetches at most, told without reading anything.

use std::ops::Range;
use std::sync::Arc;

use firn_storage::split::block_index::Group;
use firn_storage::split::{PartKind, pages};
use tantivy::DocId;

use super::open::OpenSplit;
use super::{SplitBytes, names};

/// What a block takes whose place only a read would tell, which is so in splits of very many blocks alone: blocks are closed at
/// 64 KB before they are packed, and the document that closes them may be as large again.
const UNKNOWN_BLOCK_BYTES: u64 = 128 << 10;

impl OpenSplit {
    /// Requests and bytes that reading all documents of these runs would fetch now: reading some of them fetches no more.
    pub(crate) fn missing_documents(&self, runs: &[Range<DocId>]) -> (u64, u64) {
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

    /// Bytes that reading a single document fetches at most.
    pub(crate) fn document_bytes_max(&self) -> u64 {
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

    /// Bytes that all its lists of documents, and of places in texts, would fetch now.
    pub(crate) fn missing_postings(&self) -> u64 {
        let parts = [names::POSTINGS, names::POSITIONS]
            .into_iter()
            .filter_map(|name| self.files.footer.part(name));
        let wanted: Vec<_> = parts
            .map(|(_, part)| (part.kind, part.start..part.start + part.len))
            .collect();
        self.files.bytes.missing(&wanted).1
    }

    /// Bytes of all that it has of a kind, in pages.
    pub(crate) fn kind_bytes(&self, kind: PartKind) -> u64 {
        let parts = self.files.footer.parts.iter().filter(|part| part.kind == kind);
        parts.map(|part| pages_of(part.len)).sum()
    }

    /// Whether its bytes have to be fetched, or have been: there is no whole copy here.
    pub(crate) fn is_far(&self) -> bool {
        self.files.bytes.io().is_some()
    }

    /// Whether its bytes are these.
    pub(crate) fn reads(&self, bytes: &Arc<dyn SplitBytes>) -> bool {
        Arc::ptr_eq(&self.files.bytes, bytes)
    }

    /// The blocks around a document's, if the open split holds their places.
    fn held_group(&self, doc: DocId) -> Option<Group> {
        let (index, _) = self.files.footer.part(names::STORE_INDEX)?;
        let piece = self.files.footer.hot(index, &self.places.piece(doc))?;
        self.places.group(doc, &piece).ok()
    }
}

/// Bytes of the pages that so many bytes lie in, wherever they begin.
fn pages_of(len: u64) -> u64 {
    (len.div_ceil(pages::PAYLOAD_BYTES) + 1) * pages::PAGE_BYTES
}
