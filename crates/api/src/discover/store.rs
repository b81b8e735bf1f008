//! The answers that grow or are kept, within bounds of number and bytes.
//!
//! As with asynchronous searches, only who asked can name one: for everybody else it is not there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_engine::{Cancel, Error, ErrorKind, Scope, Share, Shares};
use firn_model::tenant::TenantId;
use tokio::sync::Notify;

use super::board::Board;
use crate::config::DiscoverLimits;

/// What an id begins with.
const PREFIX: &str = "firnd";
/// Random bytes of an id: nobody guesses one.
const ID_BYTES: usize = 32;
/// Characters of an id after its prefix.
const ID_CHARS: usize = 43;

/// All of them.
pub(crate) struct Discovers {
    by_id: Mutex<HashMap<String, Arc<Discover>>>,
    places: Arc<Shares<Option<TenantId>>>,
    bytes: Arc<Shares<Option<TenantId>>>,
    per_tenant_max: usize,
}

/// One of them.
pub(super) struct Discover {
    pub(super) id: String,
    /// Of the request: for others it is not there.
    scope: Arc<Scope>,
    pub(super) board: Arc<Board>,
    /// Ends its searches.
    pub(super) cancel: Cancel,
    /// Until when it is kept once its connection is gone, ms since epoch UTC; `None`: no longer than that.
    pub(super) expires_ms: Option<i64>,
    removed: Notify,
    _place: Share<Option<TenantId>>,
}

/// What a live tail holds.
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

impl Discovers {
    /// None yet.
    pub(crate) fn new(limits: &DiscoverLimits) -> Arc<Self> {
        Arc::new(Self {
            by_id: Mutex::default(),
            places: Shares::new(limits.count_max as u64),
            bytes: Shares::new(limits.bytes_max),
            per_tenant_max: limits.per_tenant_max,
        })
    }

    /// One more, for who asks in `scope`. `random` fills its id with what nobody can guess.
    pub(super) fn open(
        &self,
        scope: Arc<Scope>,
        cancel: Cancel,
        expires_ms: Option<i64>,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
    ) -> Result<Arc<Discover>, Error> {
        let tenant = scope.tenant_id().cloned();
        let mut bytes = [0; ID_BYTES];
        random(&mut bytes);
        let mut by_id = self.lock();
        let own = by_id
            .values()
            .filter(|other| other.scope.tenant_id() == tenant.as_ref())
            .count();
        if tenant.is_some() && own >= self.per_tenant_max {
            return Err(Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution of a discover: [{own}] of the tenant are running or kept already. This limit can \
                     be set by changing the [discover.max_per_tenant] setting."
                ),
            ));
        }
        let place = self.places.take(tenant.clone(), 1).map_err(|held| {
            Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution of a discover: [{held}] are running or kept already. This limit can be set by \
                     changing the [discover.max_open] setting."
                ),
            )
        })?;
        let discover = Arc::new(Discover {
            id: format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)),
            scope,
            board: Board::new(self.bytes.open(tenant)),
            cancel,
            expires_ms,
            removed: Notify::new(),
            _place: place,
        });
        by_id.insert(discover.id.clone(), Arc::clone(&discover));
        Ok(discover)
    }

    /// A place among them for as long as it is held.
    pub(super) fn place(self: &Arc<Self>, discover: Arc<Discover>) -> Place {
        Place {
            discovers: Arc::clone(self),
            discover,
        }
    }

    /// The one of an id, if it is there for `scope`.
    pub(super) fn find(&self, scope: &Scope, id: &str, now_ms: i64) -> Result<Arc<Discover>, Error> {
        let is_id = id.strip_prefix(PREFIX).is_some_and(|rest| {
            rest.len() == ID_CHARS
                && rest
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        });
        if !is_id {
            let shown: String = id.chars().take(2 * ID_CHARS).collect();
            return Err(Error::illegal_argument(format!("invalid id: [{shown}]")));
        }
        let found = self.lock().get(id).cloned();
        found
            .filter(|discover| scope.may_use(&discover.scope))
            .filter(|discover| discover.expires_ms.is_none_or(|expires_ms| now_ms < expires_ms))
            .ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, id))
    }

    /// Ends one and lets it go.
    pub(super) fn remove(&self, discover: &Discover) {
        self.lock().remove(&discover.id);
        discover.cancel.cancel();
        discover.removed.notify_one();
    }

    /// Ends and removes all of a tenant.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let own: Vec<_> = (self.lock().values())
            .filter(|discover| discover.scope.tenant_id() == Some(tenant))
            .cloned()
            .collect();
        for discover in own {
            self.remove(&discover);
        }
    }

    /// Removes one when its time is over.
    pub(super) async fn expire(self: Arc<Self>, discover: Arc<Discover>, keep_alive: Duration) {
        tokio::select! {
            () = tokio::time::sleep(keep_alive) => self.remove(&discover),
            () = discover.removed.notified() => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Discover>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovers(count_max: usize, per_tenant_max: usize) -> Arc<Discovers> {
        Discovers::new(&DiscoverLimits {
            count_max,
            per_tenant_max,
            ..DiscoverLimits::default()
        })
    }

    fn open(discovers: &Discovers, scope: Scope, expires_ms: Option<i64>) -> Result<Arc<Discover>, Error> {
        let byte = discovers.lock().len() as u8;
        discovers.open(Arc::new(scope), Cancel::default(), expires_ms, &|bytes| {
            bytes.fill(byte)
        })
    }

    fn tenant(name: &str) -> Scope {
        Scope::tenant(TenantId::parse(name).unwrap())
    }

    #[test]
    fn only_who_asked_finds_one() {
        let discovers = discovers(10, 10);
        let own = open(&discovers, tenant("a").of("one user"), Some(1000)).unwrap();
        let finds = |scope: Scope, now_ms| discovers.find(&scope, &own.id, now_ms).is_ok();
        assert!(finds(tenant("a").of("one user"), 999) && finds(Scope::operator(), 0));
        assert!(!finds(tenant("a").of("one user"), 1000), "its time is over");
        assert!(!finds(tenant("a").of("another user"), 0) && !finds(tenant("b").of("one user"), 0));
        let error = discovers.find(&tenant("a"), "nonsense", 0).err().unwrap();
        assert_eq!(error.reason(), "invalid id: [nonsense]");
        discovers.remove(&own);
        assert!(own.cancel.is_cancelled() && !finds(Scope::operator(), 0));
    }

    #[test]
    fn a_tenant_has_few_and_all_together_not_many_more() {
        let discovers = discovers(3, 2);
        let own = [tenant("a"), tenant("a")].map(|scope| open(&discovers, scope, None).unwrap());
        let error = open(&discovers, tenant("a"), None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.reason().contains("discover.max_per_tenant"), "{error}");
        let operators = open(&discovers, Scope::operator(), None).unwrap();
        let error = open(&discovers, Scope::operator(), None).err().unwrap();
        assert!(error.reason().contains("discover.max_open"), "{error}");
        for discover in own.iter().chain([&operators]) {
            discovers.remove(discover);
        }
        drop((own, operators));
        open(&discovers, tenant("a"), None).unwrap();
    }

    #[test]
    fn a_tenant_that_is_deleted_leaves_none() {
        let discovers = discovers(5, 5);
        let own = [tenant("a").of("one user"), tenant("a"), tenant("b")].map(|scope| {
            let discover = open(&discovers, scope, Some(1000)).unwrap();
            (discover.id.clone(), discover)
        });
        discovers.forget(&TenantId::parse("a").unwrap());
        let left = own.iter().map(|(id, discover)| {
            let is_there = discovers.find(&Scope::operator(), id, 0).is_ok();
            assert_ne!(is_there, discover.cancel.is_cancelled());
            is_there
        });
        assert_eq!(left.collect::<Vec<_>>(), [false, false, true]);
    }

    #[tokio::test]
    async fn one_goes_when_its_time_is_over() {
        let discovers = discovers(3, 2);
        let discover = open(&discovers, tenant("a"), Some(60_000)).unwrap();
        Arc::clone(&discovers)
            .expire(Arc::clone(&discover), Duration::from_millis(1))
            .await;
        assert!(discover.cancel.is_cancelled());
        assert!(discovers.find(&tenant("a"), &discover.id, 0).is_err());
    }
}
