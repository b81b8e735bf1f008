//! What a search of splits would fetch, by trying it; nothing is fetched, and nothing is searched.

use firn_engine::search::SearchRequest;
use firn_storage::split::PartKind;

use crate::splits::reads::Reads;

/// What a search would fetch of some splits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchReads {
    /// Splits that have to be looked at.
    pub splits: u64,
    /// Requests and bytes by kind, in the order of [`PartKind::ALL`]; neighbours are one request.
    pub kinds: [(u64, u64); PartKind::ALL.len()],
    /// Requests that wait for others, one after the other.
    pub rounds: u64,
}

/// A list of documents is short, or the term is not worth a needle: two pages.
const POSTINGS_BYTES: u64 = 8 << 10;
/// A piece of the index of documents and a block, in pages.
const DOCUMENT_BYTES: u64 = 24 << 10;
/// Hits beyond so many share their blocks with others.
const DOCUMENTS_MAX: u64 = 100;

impl SearchReads {
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.kinds.iter().map(|(requests, _)| requests).sum()
    }

    /// Bytes of all kinds.
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Adds requests of a kind.
    pub(crate) fn add(&mut self, kind: PartKind, (requests, bytes): (u64, u64)) {
        let sum = &mut self.kinds[kind as usize];
        sum.0 += requests;
        sum.1 += bytes;
    }

    /// From the reads that a search begins with, and a guess of the postings that are known only after some of them.
    pub(super) fn of(first: Reads, splits: u64) -> Self {
        let mut found = Self {
            splits,
            ..Self::default()
        };
        for (bytes, wanted) in first.into_wanted() {
            for (kind, missing) in PartKind::ALL.into_iter().zip(bytes.missing_by_kind(&wanted)) {
                found.add(kind, missing);
            }
            // The postings of its terms come next.
            if wanted.iter().any(|(kind, _)| *kind == PartKind::Terms) {
                found.add(PartKind::Postings, (1, POSTINGS_BYTES));
                found.rounds = 1;
            }
        }
        found.rounds += u64::from(found.requests() > 0);
        found
    }

    /// Adds a guess of the documents that are shown: which ones is known only when everything was searched.
    pub(crate) fn add_documents(&mut self, request: &SearchRequest) {
        if self.splits == 0 || request.size == 0 || request.shape.no_stored_fields {
            return;
        }
        let documents = (request.from as u64).saturating_add(request.size as u64);
        let requests = 2 * documents.min(self.splits);
        self.add(
            PartKind::Store,
            (requests, documents.min(DOCUMENTS_MAX) * DOCUMENT_BYTES),
        );
        self.rounds += 2;
    }
}
