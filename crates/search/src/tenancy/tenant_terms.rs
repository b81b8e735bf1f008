//! Test whether a term of a segment occurs in a tenant's documents: dictionaries hold the terms of all tenants.
//!
//! A bounded list of terms (the first n, or at most n) must count only the tenant's terms. Otherwise terms of other
//! tenants would take their places, and would reveal that they exist.

use std::ops::Range;

use firn_model::Result;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::or_later;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet};

use super::tenant_docs;
use crate::TenantRestriction;

/// Test for a tenant's terms in one segment.
pub(crate) struct OwnTerms<'a> {
    segment: &'a Segment,
    documents: Documents,
}

/// The documents whose terms count.
enum Documents {
    /// All documents of the segment.
    All,
    /// No document of the segment.
    Nowhere,
    /// The documents in these rows, which all belong to the tenant.
    Rows(Range<DocId>),
    /// These documents, all of them within some rows.
    Among(Range<DocId>, Box<SegmentPostings>),
}

impl<'a> OwnTerms<'a> {
    /// Creates the test for a tenant, or for all tenants.
    pub(crate) fn new(segment: &'a Segment, tenant: Option<&TenantRestriction>) -> Result<Self> {
        let documents = match tenant {
            None => Documents::All,
            Some(tenant) => Documents::of(segment, tenant)?,
        };
        Ok(Self { segment, documents })
    }

    /// Returns whether every term of the segment counts.
    pub(crate) fn has_all(&self) -> bool {
        matches!(self.documents, Documents::All)
    }

    /// Returns whether no term of the segment counts.
    pub(crate) fn has_none(&self) -> bool {
        matches!(self.documents, Documents::Nowhere)
    }

    /// Returns whether a live document of the tenant has a term. If the tenant's rows are contiguous, this takes
    /// one seek. If its documents are mixed with those of other tenants, it walks at most the documents of the
    /// term; `step` is called on the way and may stop it.
    pub(crate) fn contain(
        &self,
        index: &InvertedIndexReader,
        term: &TermInfo,
        step: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let (rows, mut own) = match &self.documents {
            Documents::All => return Ok(true),
            Documents::Nowhere => return Ok(false),
            Documents::Rows(rows) => (rows, None),
            Documents::Among(rows, own) => (rows, Some(own.as_ref().clone())),
        };
        let postings = index.read_postings_from_terminfo(term, IndexRecordOption::Basic);
        // During a dry-run prefetch, an unknown term counts as the tenant's: the prefetch reads no more than the
        // search may read.
        let Some(mut with_term) = or_later(postings.map(Some), None)? else {
            return Ok(true);
        };
        let mut from = rows.start;
        loop {
            step()?;
            let doc = reach(&mut with_term, from);
            if doc >= rows.end {
                return Ok(false);
            }
            let own_doc = own.as_mut().map_or(doc, |own| reach(own, doc));
            if own_doc == doc && self.segment.is_alive(doc) {
                return Ok(true);
            }
            from = own_doc.max(doc + 1);
            if from >= rows.end {
                return Ok(false);
            }
        }
    }
}

/// Returns the first document of a list at or after `from`.
fn reach(docs: &mut SegmentPostings, from: DocId) -> DocId {
    match docs.doc() < from {
        true => docs.seek(from),
        false => docs.doc(),
    }
}

impl Documents {
    fn of(segment: &Segment, tenant: &TenantRestriction) -> Result<Self> {
        let counted = segment.tenants.as_ref();
        if let Some((tenants, part)) = counted.and_then(|all| Some((all, all.get(tenant.tenant.as_str())?))) {
            if tenants.rows.len() == 1 && tenants.without_tenant == 0 {
                return Ok(Self::All);
            }
            if part.is_exclusive() {
                return Ok(Self::Rows(part.rows.clone()));
            }
        }
        // If the segment does not count documents by this field, the field's terms still identify them.
        Ok(match tenant_docs::docs(&segment.reader, tenant)? {
            Some(docs) => Self::Among(0..segment.max_doc, Box::new(docs)),
            None => Self::Nowhere,
        })
    }
}
