//! Terms enumeration (`_terms_enum`) over the shards of a target.

use firn_engine::RequestContext;
use firn_engine::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use firn_model::{ErrorKind, Result};
use firn_query::search::SearchShards;
use firn_search::{FoundTerms, can_match};

use super::addressing::ShardSelection;
use super::search_service::SearchService;

impl SearchService {
    /// Enumerates terms, one shard after the other: each takes microseconds, except for case-insensitive requests.
    pub(super) fn terms_enum(&self, ctx: &RequestContext, request: &TermsEnumRequest) -> Result<TermsEnumResponse> {
        let now_ms = self.node.now_ms();
        let addressed = self.address(ctx, &ShardSelection::all_of(&request.target), now_ms)?;
        let mut shards = SearchShards {
            total: addressed.len() as u32,
            ..SearchShards::default()
        };
        let mut found = FoundTerms::new(request, ctx);
        for shard in addressed {
            let outcome = match shard.search {
                Ok(search) => match &request.index_filter {
                    Some(filter) if !can_match(&search, filter, now_ms, ctx)? => Ok(()),
                    _ => found
                        .add(&search)
                        .map_err(|error| (search.snapshot.index.to_string(), error)),
                },
                Err(failed) => Err((failed.index, failed.error)),
            };
            match outcome {
                Ok(()) => shards.successful += 1,
                Err((_, error)) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::NotImplemented) => {
                    return Err(error);
                }
                Err((index, error)) => shards.failures.push((index, shard.slot.number, error)),
            }
            if let Some(failed) = shard.behind {
                shards.failures.push((failed.index, failed.shard, failed.error));
            }
        }
        Ok(TermsEnumResponse {
            complete: shards.failures.is_empty() && !found.timed_out,
            terms: found.into_terms(),
            shards,
        })
    }
}
