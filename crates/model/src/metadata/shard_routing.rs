//! Shards of a routing value in one index, by the index's placement table or by hash.

use super::IndexMetadata;
use crate::ids::AutoId;
use crate::routing::shard_for;

impl IndexMetadata {
    /// Returns every shard that may hold documents of a routing value, ascending. In an index that holds events by
    /// tenant the value is a tenant.
    pub fn shards_of_routing(&self, routing: &str) -> Vec<u32> {
        match self.placed(routing) {
            Some(shards) => shards.to_vec(),
            None => vec![shard_for(routing, self.settings.number_of_shards)],
        }
    }

    /// Returns the shard of a document with this routing value and this id. The client gave the id, or firn generated
    /// it for this index (whose ids have the tag `tag`).
    pub fn shard_of_routed_id(&self, routing: &str, id: &str, tag: u32) -> u32 {
        match self.placed(routing) {
            None => shard_for(routing, self.settings.number_of_shards),
            Some([one]) => *one,
            Some(several) => match AutoId::decode(id) {
                Some(made) if made.index_tag == tag && several.contains(&u32::from(made.shard)) => {
                    u32::from(made.shard)
                }
                _ => several[shard_for(id, several.len() as u32) as usize],
            },
        }
    }

    /// Returns the shard of a new document with this routing value and without an id; `pick` chooses one of the given
    /// number of shards.
    pub fn shard_of_routed(&self, routing: &str, pick: impl FnOnce(u32) -> u32) -> u32 {
        match self.placed(routing) {
            None => shard_for(routing, self.settings.number_of_shards),
            Some([one]) => *one,
            Some(several) => several[pick(several.len() as u32) as usize % several.len()],
        }
    }

    fn placed(&self, tenant: &str) -> Option<&[u32]> {
        self.placement.as_ref()?.shards_of(tenant)
    }
}
