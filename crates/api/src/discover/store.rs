//! The answers that grow or are kept, within bounds of number and bytes.

use std::sync::Arc;

use firn_engine::{Cancel, Error, ErrorKind, Scope};

use super::board::Board;
use crate::config::DiscoverLimits;
use crate::kept::{Answers, Bounds, Full, Kept};

/// What an id begins with.
const PREFIX: &str = "firnd";

/// All of them. Each has room for its board among those of all.
pub(crate) type Discovers = Answers<Arc<Board>>;

/// One of them.
pub(super) type Discover = Kept<Arc<Board>>;

/// What a live tail or an export holds.
pub(super) struct Place {
    discovers: Arc<Discovers>,
    discover: Arc<Discover>,
}

impl Place {
    /// Whether it was ended by name.
    pub(super) fn is_over(&self) -> bool {
        self.discover.cancel.is_cancelled()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.discovers.remove(&self.discover);
    }
}

impl Answers<Arc<Board>> {
    /// None yet.
    pub(crate) fn new(limits: &DiscoverLimits) -> Arc<Self> {
        let bounds = Bounds {
            count_max: limits.count_max,
            per_tenant_max: Some(limits.per_tenant_max),
            bytes_max: limits.bytes_max,
            answer_bytes_max: limits.bytes_max,
        };
        Self::bounded(PREFIX, bounds)
    }

    /// One more, for who asks in `scope`; `expires_ms`: until when it is kept once its connection is gone, `None`: no longer
    /// than that.
    pub(super) fn open(
        self: &Arc<Self>,
        scope: Arc<Scope>,
        cancel: Cancel,
        expires_ms: Option<i64>,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
    ) -> Result<Arc<Discover>, Error> {
        let discovers = Arc::downgrade(self);
        let board = Board::new(self.bytes.open(scope.tenant_id().cloned()), move |bytes| {
            discovers.upgrade().is_some_and(|discovers| discovers.make_room(bytes))
        });
        self.add(scope, cancel, expires_ms, random, board).map_err(|full| {
            let reason = match full {
                Full::Tenant(own) => format!(
                    "rejected execution of a discover: [{own}] of the tenant are running already. This limit can be set by \
                     changing the [discover.max_per_tenant] setting."
                ),
                Full::All(held) => format!(
                    "rejected execution of a discover: [{held}] are running already. This limit can be set by changing \
                     the [discover.max_open] setting."
                ),
            };
            Error::new(ErrorKind::Rejected, reason)
        })
    }

    /// A place among them for as long as it is held.
    pub(super) fn place(self: &Arc<Self>, discover: Arc<Discover>) -> Place {
        Place {
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
    fn who_finds_no_room_is_told_which_setting_makes_some() {
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
        // What holds a place gives it back.
        let place = discovers.place(own);
        assert!(!place.is_over());
        drop(place);
        open(tenant(), 5).unwrap();
    }
}
