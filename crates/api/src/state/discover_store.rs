//! Store of running and retained Discover answers, bounded in number and bytes.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Scope};
use firn_query::Cancel;

use super::partial_results::ResultBoard;
use crate::state::config::DiscoverLimits;
use crate::state::retained::{Answers, Bounds, Full, RetainedResult};

/// Prefix of an id.
const PREFIX: &str = "firnd";

/// Store of all answers. The bytes of each board count against its limit.
pub(crate) type Discovers = Answers<Arc<ResultBoard>>;

/// One answer.
pub(crate) type Discover = RetainedResult<Arc<ResultBoard>>;

/// Slot of a live tail or an export.
pub(crate) struct ReaderSlot {
    discovers: Arc<Discovers>,
    discover: Arc<Discover>,
}

impl ReaderSlot {
    /// Returns whether it was ended by a delete request.
    pub(crate) fn is_over(&self) -> bool {
        self.discover.cancel.is_cancelled()
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.discovers.remove(&self.discover);
    }
}

impl Answers<Arc<ResultBoard>> {
    /// Creates an empty store.
    pub(crate) fn new(limits: &DiscoverLimits) -> Arc<Self> {
        let bounds = Bounds {
            count_max: limits.count_max,
            per_tenant_max: Some(limits.per_tenant_max),
            bytes_max: limits.bytes_max,
            answer_bytes_max: limits.bytes_max,
        };
        Self::bounded(PREFIX, bounds)
    }

    /// Adds an answer for a caller in `scope`. `expires_ms`: end of the retention after the connection is gone; `None`:
    /// it ends with the connection.
    pub(crate) fn open(
        self: &Arc<Self>,
        scope: Arc<Scope>,
        cancel: Cancel,
        expires_ms: Option<i64>,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
    ) -> Result<Arc<Discover>, Error> {
        let discovers = Arc::downgrade(self);
        let board = ResultBoard::new(self.bytes.open(scope.tenant_id().cloned()), move |bytes| {
            discovers.upgrade().is_some_and(|discovers| discovers.make_room(bytes))
        });
        self.add(scope, cancel, expires_ms, random, board).map_err(|full| {
            let reason = match full {
                Full::Tenant(own) => format!(
                    "rejected execution of a discover: [{own}] requests of the tenant are already running. This limit \
                     can be set by changing the [discover.max_per_tenant] setting."
                ),
                Full::All(held) => format!(
                    "rejected execution of a discover: [{held}] requests are already running. This limit can be set \
                     by changing the [discover.max_open] setting."
                ),
            };
            Error::new(ErrorKind::Rejected, reason)
        })
    }

    /// Wraps an answer in a slot that frees it when dropped.
    pub(crate) fn place(self: &Arc<Self>, discover: Arc<Discover>) -> ReaderSlot {
        ReaderSlot {
            discovers: Arc::clone(self),
            discover,
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_model::tenant::TenantId;

    use super::*;

    #[test]
    fn a_refusal_names_the_setting_of_the_limit() {
        let limits = DiscoverLimits {
            count_max: 2,
            per_tenant_max: 1,
            ..DiscoverLimits::default()
        };
        let discovers = Discovers::new(&limits);
        let open =
            |scope: Scope, byte| discovers.open(Arc::new(scope), Cancel::default(), None, &|bytes| bytes.fill(byte));
        let tenant = || Scope::tenant(TenantId::parse("a").unwrap());
        let own = open(tenant(), 1).unwrap();
        let error = open(tenant(), 2).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.reason().contains("discover.max_per_tenant"), "{error}");
        let _operators = open(Scope::operator(), 3).unwrap();
        let error = open(Scope::operator(), 4).err().unwrap();
        assert!(error.reason().contains("discover.max_open"), "{error}");
        // Dropping a slot frees it.
        let place = discovers.place(own);
        assert!(!place.is_over());
        drop(place);
        open(tenant(), 5).unwrap();
    }
}
