//! Fields with values, per index.

use std::collections::BTreeMap;

use firn_engine::RequestContext;
use firn_engine::fields::{FieldsInUse, FieldsInUseRequest};
use firn_model::Result;
use firn_search::{can_match, has_values};

use super::addressing::ShardSelection;
use super::search_service::SearchService;

impl SearchService {
    /// Returns the indices that may hold a match of the filter, with the fields that have values. Shards that fail are
    /// left out, as in a search, unless all fail.
    pub(super) fn fields_in_use(&self, ctx: &RequestContext, request: &FieldsInUseRequest) -> Result<Vec<FieldsInUse>> {
        let now_ms = self.node.now_ms();
        let mut found: BTreeMap<String, FieldsInUse> = BTreeMap::new();
        let (mut served, mut unserved) = (0, None);
        for shard in self.address(ctx, &ShardSelection::all_of(&request.target), now_ms)? {
            ctx.check()?;
            let search = match shard.search {
                Ok(search) => search,
                Err(failed) => {
                    unserved = Some(failed.error);
                    continue;
                }
            };
            served += 1;
            if let Some(filter) = &request.index_filter
                && !can_match(&search, filter, now_ms, ctx)?
            {
                continue;
            }
            let index = search.snapshot.index.to_string();
            let own = found.entry(index.clone()).or_insert_with(|| FieldsInUse {
                index,
                fields: Default::default(),
            });
            for (path, _) in search.mapping.leaves() {
                if !own.fields.contains(&path) && has_values(&search, &path)? {
                    own.fields.insert(path);
                }
            }
        }
        match unserved {
            Some(error) if served == 0 => Err(error),
            _ => Ok(found.into_values().collect()),
        }
    }
}
