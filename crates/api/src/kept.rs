//! Answers that grow, or are kept for who comes back, under ids that nobody guesses; bounded in number and bytes.
//!
//! Only who asked can name one: for everybody else, and once its time is over, it is not there. What the answers are, and
//! what is said where there is no room, is the matter of those who keep them (`async_search/store.rs`, `discover/store.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_engine::{Cancel, Error, ErrorKind, Scope, Share, Shares};
use firn_model::tenant::TenantId;
use tokio::sync::Notify;

/// Random bytes of an id: nobody guesses one.
const ID_BYTES: usize = 32;
/// Characters of an id after its prefix.
const ID_CHARS: usize = 43;

/// How many there may be, and how large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// All of them.
    pub(crate) count_max: usize,
    /// Those of one tenant; `None`: as many as there may be.
    pub(crate) per_tenant_max: Option<usize>,
    /// Bytes of all that is kept.
    pub(crate) bytes_max: u64,
    /// Bytes of one.
    pub(crate) answer_bytes_max: u64,
}

/// So many are there already.
#[derive(Debug, PartialEq)]
pub(crate) enum Full {
    /// Of the tenant.
    Tenant(u64),
    /// Of all.
    All(u64),
}

/// All of a kind.
pub(crate) struct Answers<T> {
    by_id: Mutex<HashMap<String, Arc<Kept<T>>>>,
    /// What their ids begin with.
    prefix: &'static str,
    pub(crate) bounds: Bounds,
    places: Arc<Shares<Option<TenantId>>>,
    /// What the answers take.
    pub(crate) bytes: Arc<Shares<Option<TenantId>>>,
}

/// One of them.
pub(crate) struct Kept<T> {
    pub(crate) id: String,
    /// Of the request: for others it is not there.
    scope: Arc<Scope>,
    /// Ends its searches.
    pub(crate) cancel: Cancel,
    /// Until when it is kept, ms since epoch UTC; the last moment that there is: until it is removed.
    expires_ms: AtomicI64,
    is_removed: AtomicBool,
    /// It was removed, or is to be kept for another time.
    changed: Notify,
    pub(crate) answer: T,
    _place: Share<Option<TenantId>>,
}

impl<T> Answers<T> {
    /// None yet.
    pub(crate) fn bounded(prefix: &'static str, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            by_id: Mutex::default(),
            prefix,
            bounds,
            places: Shares::new(bounds.count_max as u64),
            bytes: Shares::new(bounds.bytes_max),
        })
    }

    /// One more, for who asks in `scope`. `random` fills its id with what nobody can guess; `expires_ms`: until when it is kept,
    /// `None` until it is removed.
    pub(crate) fn add(
        &self,
        scope: Arc<Scope>,
        cancel: Cancel,
        expires_ms: Option<i64>,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
        answer: T,
    ) -> Result<Arc<Kept<T>>, Full> {
        let tenant = scope.tenant_id().cloned();
        let mut bytes = [0; ID_BYTES];
        random(&mut bytes);
        let mut by_id = self.lock();
        if let (Some(tenant), Some(max)) = (&tenant, self.bounds.per_tenant_max) {
            let own = by_id
                .values()
                .filter(|other| other.scope.tenant_id() == Some(tenant))
                .count();
            if own >= max {
                return Err(Full::Tenant(own as u64));
            }
        }
        let place = self.places.take(tenant, 1).map_err(Full::All)?;
        let kept = Arc::new(Kept {
            id: format!("{}{}", self.prefix, URL_SAFE_NO_PAD.encode(bytes)),
            scope,
            cancel,
            expires_ms: AtomicI64::new(expires_ms.unwrap_or(i64::MAX)),
            is_removed: AtomicBool::new(false),
            changed: Notify::new(),
            answer,
            _place: place,
        });
        by_id.insert(kept.id.clone(), Arc::clone(&kept));
        Ok(kept)
    }

    /// The one of an id, if it is there for `scope`.
    pub(crate) fn find(&self, scope: &Scope, id: &str, now_ms: i64) -> Result<Arc<Kept<T>>, Error> {
        let is_id = id.strip_prefix(self.prefix).is_some_and(|rest| {
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
            .filter(|kept| scope.may_use(&kept.scope) && kept.time_left(now_ms).is_some())
            .ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, id))
    }

    /// Ends one and lets it go.
    pub(crate) fn remove(&self, kept: &Kept<T>) {
        self.lock().remove(&kept.id);
        kept.cancel.cancel();
        kept.is_removed.store(true, Ordering::Relaxed);
        kept.changed.notify_one();
    }

    /// Ends and removes all of a tenant.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let own: Vec<_> = (self.lock().values())
            .filter(|kept| kept.scope.tenant_id() == Some(tenant))
            .cloned()
            .collect();
        for kept in own {
            self.remove(&kept);
        }
    }

    /// Removes one when its time is over, by the clock `now_ms`. Of each there may be one call.
    pub(crate) async fn expire(self: Arc<Self>, kept: Arc<Kept<T>>, now_ms: Arc<dyn Fn() -> i64 + Send + Sync>) {
        while let Some(left) = kept.time_left(now_ms()) {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = kept.changed.notified() => {}
            }
            if kept.is_removed.load(Ordering::Relaxed) {
                return;
            }
        }
        self.remove(&kept);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Kept<T>>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kept<T> {
    /// Whose it is; `None`: an operator's.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        self.scope.tenant_id().cloned()
    }

    /// When it ends, ms since epoch UTC.
    pub(crate) fn expires_ms(&self) -> i64 {
        self.expires_ms.load(Ordering::Relaxed)
    }

    /// It ends so long after now.
    pub(crate) fn keep_until(&self, now_ms: i64, keep_alive: Duration) {
        self.expires_ms.store(after(now_ms, keep_alive), Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// `None`: its time is over.
    fn time_left(&self, now_ms: i64) -> Option<Duration> {
        let left_ms = u64::try_from(self.expires_ms().saturating_sub(now_ms)).ok()?;
        (left_ms > 0).then(|| Duration::from_millis(left_ms))
    }
}

/// So long after now, ms since epoch UTC.
pub(crate) fn after(now_ms: i64, keep_alive: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(keep_alive.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(count_max: usize, per_tenant_max: Option<usize>) -> Arc<Answers<()>> {
        let bounds = Bounds {
            count_max,
            per_tenant_max,
            bytes_max: 1000,
            answer_bytes_max: 1000,
        };
        Answers::bounded("test", bounds)
    }

    fn add(answers: &Answers<()>, scope: Scope, expires_ms: Option<i64>) -> Result<Arc<Kept<()>>, Full> {
        let byte = answers.lock().len() as u8;
        let random = |bytes: &mut [u8]| bytes.fill(byte);
        answers.add(Arc::new(scope), Cancel::default(), expires_ms, &random, ())
    }

    fn tenant(name: &str) -> Scope {
        Scope::tenant(TenantId::parse(name).unwrap())
    }

    #[test]
    fn only_who_asked_finds_one() {
        let answers = answers(10, None);
        let own = add(&answers, tenant("a").of("one user"), Some(1000)).unwrap();
        assert!(own.id.starts_with("test"));
        let finds = |scope: Scope, now_ms| answers.find(&scope, &own.id, now_ms).is_ok();
        assert!(finds(tenant("a").of("one user"), 999) && finds(Scope::operator(), 0));
        assert!(!finds(tenant("a").of("one user"), 1000), "its time is over");
        assert!(!finds(tenant("a").of("another user"), 0) && !finds(tenant("b").of("one user"), 0));
        let error = answers.find(&tenant("b"), &own.id, 0).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::ResourceNotFound);
        let error = answers.find(&tenant("a"), "nonsense", 0).err().unwrap();
        assert_eq!(error.reason(), "invalid id: [nonsense]");
        own.keep_until(1000, Duration::from_secs(1));
        assert!(finds(Scope::operator(), 1999) && !finds(Scope::operator(), 2000));
        answers.remove(&own);
        assert!(own.cancel.is_cancelled() && !finds(Scope::operator(), 0));
        let until_removed = add(&answers, tenant("a"), None).unwrap();
        assert!(answers.find(&tenant("a"), &until_removed.id, i64::MAX - 1).is_ok());
    }

    #[test]
    fn a_tenant_has_few_and_all_together_not_many_more() {
        let answers = answers(3, Some(2));
        let own = [tenant("a"), tenant("a")].map(|scope| add(&answers, scope, None).unwrap());
        assert_eq!(add(&answers, tenant("a"), None).err(), Some(Full::Tenant(2)));
        let operators = add(&answers, Scope::operator(), None).unwrap();
        assert!(matches!(add(&answers, Scope::operator(), None), Err(Full::All(_))));
        for kept in own.iter().chain([&operators]) {
            answers.remove(kept);
        }
        drop((own, operators));
        add(&answers, tenant("a"), None).unwrap();
    }

    #[test]
    fn one_tenant_does_not_take_the_places_of_another() {
        let answers = answers(2, None);
        let _own = [tenant("a"), tenant("a")].map(|scope| add(&answers, scope, None).unwrap());
        assert!(matches!(add(&answers, tenant("a"), None), Err(Full::All(_))));
        add(&answers, tenant("b"), None).expect("somebody else still has room");
    }

    #[test]
    fn a_tenant_that_is_deleted_leaves_none() {
        let answers = answers(5, None);
        let own = [tenant("a").of("one user"), tenant("a"), tenant("b")]
            .map(|scope| add(&answers, scope, Some(1000)).unwrap());
        answers.forget(&TenantId::parse("a").unwrap());
        let left = own.iter().map(|kept| {
            let is_there = answers.find(&Scope::operator(), &kept.id, 0).is_ok();
            assert_ne!(is_there, kept.cancel.is_cancelled());
            is_there
        });
        assert_eq!(left.collect::<Vec<_>>(), [false, false, true]);
    }

    #[tokio::test]
    async fn one_goes_when_its_time_is_over() {
        let answers = answers(3, None);
        let now_ms = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now_ms);
        let kept = add(&answers, tenant("a"), Some(2)).unwrap();
        // By the clock it never is, until it is to be kept for another time.
        let expiring = Arc::clone(&answers).expire(Arc::clone(&kept), Arc::new(move || clock.load(Ordering::Relaxed)));
        let expiring = tokio::spawn(expiring);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!kept.cancel.is_cancelled());
        now_ms.store(10, Ordering::Relaxed);
        kept.keep_until(5, Duration::from_millis(1));
        expiring.await.unwrap();
        assert!(kept.cancel.is_cancelled());
        assert!(answers.find(&tenant("a"), &kept.id, 0).is_err());
    }

    #[tokio::test]
    async fn nobody_waits_for_the_end_of_one_that_was_removed() {
        let answers = answers(3, None);
        let kept = add(&answers, tenant("a"), None).unwrap();
        let expiring = tokio::spawn(Arc::clone(&answers).expire(Arc::clone(&kept), Arc::new(|| 0)));
        tokio::task::yield_now().await;
        answers.remove(&kept);
        expiring.await.unwrap();
    }
}
