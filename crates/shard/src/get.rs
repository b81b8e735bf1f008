//! Reads by id.

use firn_engine::document::StoredDocument;
use firn_model::Result;

use super::Shard;
use super::id_filter;
use super::live_segments::made_seq_no;
use super::versions::DocAddress;

impl Shard {
    pub(super) fn get_realtime(&self, id: &str) -> Result<Option<StoredDocument>> {
        loop {
            let (open, doc) = {
                let state = self.state.lock();
                state.check_running()?;
                let Some(found) = state.find(&self.config, id)? else {
                    return Ok(None);
                };
                match found.place {
                    DocAddress::Segment(index) => (Some(state.segments[index].open.clone()), found.doc),
                    DocAddress::Buffer(index) => {
                        let entry = state.buffers[index].ids.get(id).filter(|entry| entry.doc == found.doc);
                        if let Some(retained) = entry.and_then(|entry| entry.retained.as_ref()) {
                            return Ok(Some(StoredDocument {
                                source: retained.source.clone(),
                                version: found.version,
                                seq_no: found.seq_no,
                                primary_term: 1,
                                routing: retained.routing.as_deref().map(str::to_owned),
                                ignored: retained.ignored.clone(),
                            }));
                        }
                        (None, found.doc)
                    }
                }
            };
            match open {
                Some(open) => return open.read(doc).map(Some),
                // Its source is in a buffer that cannot be read: the buffer becomes a segment first.
                None => self.write_out_all()?,
            }
        }
    }

    pub(super) fn get_searchable(&self, id: &str) -> Result<Option<StoredDocument>> {
        let published = self.published.load_full();
        let hash = id_filter::hash(id);
        let made = made_seq_no(&self.config, id);
        for segment in &published.snapshot.segments {
            let generation = segment.generation;
            let Some(open) = published.open.iter().find(|open| open.meta.generation == generation) else {
                continue;
            };
            let is_alive = |doc| segment.is_alive(doc);
            let mut found = open.find_id(id, hash, &is_alive)?;
            if let (None, Some(seq_no)) = (found, made) {
                found = open.find_made(seq_no, &is_alive)?;
            }
            if let Some(doc) = found {
                return open.read(doc).map(Some);
            }
        }
        Ok(None)
    }
}
