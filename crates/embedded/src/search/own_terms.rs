//! Which terms of a segment are a tenant's: dictionaries hold everybody's.
//!
//! What stands for a bounded number of terms (the first so many, or at most so many) is to count the tenant's alone, or
//! others' would take the places of its own, and tell that they are there.

use std::ops::Range;

use firn_model::Result;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet};

use super::{TenantRestriction, owned};
use crate::segment::Segment;
use crate::splits::reads::or_later;

/// Tells a tenant's terms of one segment.
pub(super) struct OwnTerms<'a> {
    segment: &'a Segment,
    documents: Documents,
}

/// Where the documents are whose terms count.
enum Documents {
    /// All of the segment's.
    All,
    /// It has none.
    Nowhere,
    /// Nobody else's are within these rows.
    Rows(Range<DocId>),
    /// These, all of them within some rows.
    Among(Range<DocId>, Box<SegmentPostings>),
}

impl<'a> OwnTerms<'a> {
    /// Of a tenant, or of everybody.
    pub(super) fn new(segment: &'a Segment, tenant: Option<&TenantRestriction>) -> Result<Self> {
        let documents = match tenant {
            None => Documents::All,
            Some(tenant) => Documents::of(segment, tenant)?,
        };
        Ok(Self { segment, documents })
    }

    /// Whether every term of the segment counts.
    pub(super) fn has_all(&self) -> bool {
        matches!(self.documents, Documents::All)
    }

    /// Whether no term of the segment counts.
    pub(super) fn has_none(&self) -> bool {
        matches!(self.documents, Documents::Nowhere)
    }

    /// Whether a live document of the tenant is among those of a term. Where the tenant is alone that takes one look; where its
    /// documents are among others' no more than walking those of the term, and `step` is called along the way and
    /// may stop it.
    pub(super) fn contain(
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
        // As long as nobody knows, it may be the tenant's: what is looked at then is no more than what is asked for.
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

/// The first document of a list from one on.
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
        // Where tenants are not counted by this field, it still names them.
        Ok(match owned::docs(&segment.reader, tenant)? {
            Some(docs) => Self::Among(0..segment.max_doc, Box::new(docs)),
            None => Self::Nowhere,
        })
    }
}
