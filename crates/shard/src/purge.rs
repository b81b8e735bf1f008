//! Purge: removal of all bytes of a tenant's documents.
//!
//! Deleting only marks a document; its terms stay in dictionaries, its source in the store and in the
//! WAL. A purge marks the documents, rewrites every segment that contains some (also long-deleted
//! ones), and ends with a flush, which names only the new segments, removes the old
//! ones and trims the WAL. If a crash comes before that flush, the reopened shard has the old state, or the
//! marks that an earlier flush made durable; in both cases the next purge does the
//! rest.

use std::sync::Arc;

use firn_model::Result;
use firn_segment::columns::paths::{column_name, term as path_term};
use firn_segment::commit_point::{segment_dir, segments_dir};
use firn_segment::schema::fields;
use tantivy::schema::IndexRecordOption;

use super::Shard;
use super::buffer::tantivy_error;
use super::live_segments::OpenSegment;
use super::merge::Purpose;

const NANOS_PER_MS: i64 = 1_000_000;

/// Result of a purge of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Number of removed documents that were alive.
    pub documents: u64,
    /// Segments that contained such documents, alive or deleted, and were rewritten or dropped.
    pub segments: u32,
}

impl Shard {
    pub(super) fn purge_now(&self, tenant: &str, before_ms: Option<i64>) -> Result<Purged> {
        let Some(tenant_field) = self.config.tenant_field.as_deref() else {
            return Ok(Purged::default());
        };
        self.check_writable()?;
        // No merge moves documents between segments meanwhile.
        let _merging = self.merge_lock.lock();
        self.write_out_all()?;
        let segments: Vec<Arc<OpenSegment>> = {
            let state = self.state.lock();
            state.check_running()?;
            state.segments.iter().map(|segment| Arc::clone(&segment.open)).collect()
        };
        let mut found = Vec::new();
        for open in segments {
            let docs = documents_of(&open, tenant_field, tenant, before_ms)?;
            if !docs.is_empty() {
                found.push((open.meta.generation, docs));
            }
        }
        // With `before_ms`, expired events may still be in the WAL after their segments are gone; the
        // next flush trims them. Of an erased tenant nothing may stay.
        if found.is_empty() && before_ms.is_some() {
            return Ok(Purged::default());
        }
        let mut purged = Purged {
            documents: 0,
            segments: found.len() as u32,
        };
        {
            let mut state = self.state.lock();
            state.check_running()?;
            for (generation, docs) in &found {
                let segment = state
                    .segments
                    .iter_mut()
                    .find(|segment| segment.generation() == *generation);
                if let Some(segment) = segment {
                    let marked = docs.iter().filter(|doc| segment.deletes.insert(**doc)).count();
                    purged.documents += marked as u64;
                }
            }
            state.flags.set_dirty(true);
            state.flags.need_commit();
        }
        for (generation, _) in &found {
            self.merge(&[*generation], Purpose::Upkeep)?;
        }
        self.flush_now()?;
        self.refresh_now()?;
        self.finish_purge(found.iter().map(|(generation, _)| *generation))?;
        Ok(purged)
    }

    /// Removes old files and makes the removal durable. A flush only warns of files that it cannot remove; here that is
    /// an error.
    fn finish_purge(&self, generations: impl Iterator<Item = u64>) -> Result<()> {
        let point = self.commit_lock.lock();
        let disk = &*self.config.disk;
        self.check_not_stopped()?;
        self.wal().trim(point.wal_generation)?;
        for generation in generations {
            let dir = segment_dir(&self.config.dir, generation);
            if disk.exists(&dir)? {
                disk.remove_dir_all(&dir)?;
            }
        }
        disk.sync_dir(&segments_dir(&self.config.dir))?;
        disk.sync_dir(&self.config.dir.join("wal"))?;
        disk.sync_dir(&self.config.dir)?;
        Ok(())
    }
}

/// Returns the documents of a segment that name a tenant, alive or deleted, ascending. With `before_ms` only
/// those whose times are all before it.
pub(super) fn documents_of(
    open: &OpenSegment,
    tenant_field: &str,
    tenant: &str,
    before_ms: Option<i64>,
) -> Result<Vec<u32>> {
    let mut docs = Vec::new();
    for field in [fields().kw, fields().kw_terms] {
        let index = open.reader.inverted_index(field).map_err(tantivy_error)?;
        let term = path_term(field, tenant_field, tenant);
        if let Some(mut block) = index.read_block_postings(&term, IndexRecordOption::Basic)? {
            while !block.docs().is_empty() {
                docs.extend_from_slice(block.docs());
                block.advance();
            }
        }
    }
    let columns = open.reader.fast_fields();
    // A tenant field without indexed terms; such a field works too.
    if let Some(column) = columns.str(&column_name("kwc", tenant_field)).map_err(tantivy_error)?
        && let Some(own) = column.dictionary().term_ord(tenant)?
    {
        docs.extend((0..open.meta.docs).filter(|doc| column.term_ords(*doc).any(|ord| ord == own)));
    }
    docs.sort_unstable();
    docs.dedup();
    if let Some(before_ms) = before_ms {
        let times = columns.column_opt::<i64>("num.@timestamp").map_err(tantivy_error)?;
        let unit = if open.meta.is_nanos { NANOS_PER_MS } else { 1 };
        docs.retain(|doc| {
            let newest = times.as_ref().and_then(|times| times.values_for_doc(*doc).max());
            newest.is_some_and(|newest| newest.div_euclid(unit) < before_ms)
        });
    }
    Ok(docs)
}
