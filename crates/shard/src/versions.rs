//! Version checks: finding a document by id, and deciding whether a write may replace it.

use firn_engine::document::Expectation;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::splits::dry_run::catch;

use super::config::ShardConfig;
use super::id_filter;
use super::live_segments::made_seq_no;
use super::state::State;

/// Live document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) place: DocAddress,
    pub(super) doc: u32,
    pub(super) seq_no: u64,
    pub(super) version: u64,
}

/// Index into the state's buffers or segments.
#[derive(Debug, Clone, Copy)]
pub(super) enum DocAddress {
    Buffer(usize),
    Segment(usize),
}

/// Deleted document, remembered for version checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tombstone {
    pub(super) version: u64,
    pub(super) seq_no: u64,
}

impl State {
    /// Returns the live document with this id, buffered or not. At most one is alive.
    pub(super) fn find(&self, config: &ShardConfig, id: &str) -> Result<Option<Found>> {
        // Damage must not unwind through a batch that is partly placed.
        catch(|| self.find_in_all(config, id))
    }

    fn find_in_all(&self, config: &ShardConfig, id: &str) -> Result<Option<Found>> {
        for (index, buffer) in self.buffers.iter().enumerate() {
            if let Some(entry) = buffer.ids.get(id)
                && !buffer.deletes.contains(entry.doc)
            {
                return Ok(Some(Found {
                    place: DocAddress::Buffer(index),
                    doc: entry.doc,
                    seq_no: entry.seq_no,
                    version: entry.version,
                }));
            }
        }
        if let Some(seq_no) = made_seq_no(config, id)
            && let Some(found) = self.find_made(seq_no)?
        {
            return Ok(Some(found));
        }
        let hash = id_filter::hash(id);
        for (index, segment) in self.segments.iter().enumerate().rev() {
            let is_alive = |doc| !segment.deletes.contains(doc);
            if let Some(doc) = segment.open.find_id(id, hash, &is_alive)? {
                return Ok(Some(self.in_segment(index, doc)));
            }
        }
        Ok(None)
    }

    fn find_made(&self, seq_no: u64) -> Result<Option<Found>> {
        for (index, buffer) in self.buffers.iter().enumerate() {
            if let Some(doc) = buffer.find_made(seq_no)
                && !buffer.deletes.contains(doc)
            {
                return Ok(Some(Found {
                    place: DocAddress::Buffer(index),
                    doc,
                    seq_no,
                    version: 1,
                }));
            }
        }
        for (index, segment) in self.segments.iter().enumerate() {
            let is_alive = |doc| !segment.deletes.contains(doc);
            if let Some(doc) = segment.open.find_made(seq_no, &is_alive)? {
                return Ok(Some(self.in_segment(index, doc)));
            }
        }
        Ok(None)
    }

    fn in_segment(&self, index: usize, doc: u32) -> Found {
        let open = &self.segments[index].open;
        Found {
            place: DocAddress::Segment(index),
            doc,
            seq_no: open.seq_no(doc),
            version: open.version(doc),
        }
    }

    /// Deletes a document that [`Self::find`] found.
    pub(super) fn delete(&mut self, found: Found) {
        let deletes = match found.place {
            DocAddress::Buffer(index) => &mut self.buffers[index].deletes,
            DocAddress::Segment(index) => &mut self.segments[index].deletes,
        };
        deletes.insert(found.doc);
    }
}

/// Checks a write against the stored document and returns the new version.
/// Follows Elasticsearch's optimistic concurrency control and external versioning.
pub(super) fn check(
    config: &ShardConfig,
    id: &str,
    expect: Expectation,
    found: Option<Found>,
    tombstone: Option<Tombstone>,
) -> Result<u64> {
    let current = found
        .map(|found| (found.version, found.seq_no))
        .or(tombstone.map(|tombstone| (tombstone.version, tombstone.seq_no)));
    let conflict = |reason: String| {
        let reason = format!("[{}]: version conflict, {reason}", config.shown_id(id));
        Err(Error::new(ErrorKind::VersionConflict, reason).with_index(&*config.index))
    };
    match expect {
        Expectation::Any => Ok(current.map_or(1, |(version, _)| version + 1)),
        Expectation::SeqNo { seq_no, primary_term } => match found {
            Some(found) if found.seq_no == seq_no && primary_term == 1 => Ok(found.version + 1),
            Some(found) => conflict(format!(
                "required seqNo [{seq_no}], primary term [{primary_term}]. current document has seqNo [{}] and \
                 primary term [1]",
                found.seq_no
            )),
            None => conflict(format!(
                "required seqNo [{seq_no}], primary term [{primary_term}]. but no document was found"
            )),
        },
        Expectation::External(given) => match current {
            Some((version, _)) if version >= given => conflict(format!(
                "current version [{version}] is higher or equal to the one provided [{given}]"
            )),
            _ => Ok(given),
        },
        Expectation::ExternalGte(given) => match current {
            Some((version, _)) if version > given => conflict(format!(
                "current version [{version}] is higher than the one provided [{given}]"
            )),
            _ => Ok(given),
        },
    }
}
