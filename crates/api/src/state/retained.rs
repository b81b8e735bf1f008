//! Registry of retained results: answers that grow or wait for the client under unguessable ids, bounded in number and
//! bytes.
//!
//! Only the caller that created an entry can use its id. For other callers, and after the entry expires, the id does
//! not exist. The users of the registry define the answers and the errors of a full registry (`async_search_store.rs`,
//! `discover_store.rs`).
//!
//! The registry counts running and ended entries apart. If too many entries run, it refuses another one. If too many
//! ended entries are retained, it evicts the oldest: results that one client did not fetch never cause the refusal of
//! another request.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_engine::{Error, ErrorKind, FairPermit, FairSemaphore, Scope};
use firn_model::tenant::TenantId;
use firn_query::Cancel;
use tokio::sync::Notify;

/// Random bytes of an id, so that an id cannot be guessed.
const ID_BYTES: usize = 32;
/// Characters of an id after its prefix.
const ID_CHARS: usize = 43;

/// Limits on the number and size of the entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Maximum number of running entries, and of ended entries.
    pub(crate) count_max: usize,
    /// The same maximum for one tenant; `None`: only `count_max` applies.
    pub(crate) per_tenant_max: Option<usize>,
    /// Maximum bytes of all entries.
    pub(crate) bytes_max: u64,
    /// Maximum bytes of one entry.
    pub(crate) answer_bytes_max: u64,
}

/// Refusal: the given number of entries run already.
#[derive(Debug, PartialEq)]
pub(crate) enum Full {
    /// Running entries of the tenant.
    Tenant(u64),
    /// Running entries of all tenants.
    All(u64),
}

/// All entries of one kind.
pub(crate) struct Answers<T> {
    by_id: Mutex<HashMap<String, Arc<RetainedResult<T>>>>,
    /// Prefix of their ids.
    prefix: &'static str,
    pub(crate) bounds: Bounds,
    /// Slots of the running entries.
    places: Arc<FairSemaphore<Option<TenantId>>>,
    /// Number of entries that have ended so far.
    ends: AtomicU64,
    /// Bytes of the entries.
    pub(crate) bytes: Arc<FairSemaphore<Option<TenantId>>>,
}

/// One entry.
pub(crate) struct RetainedResult<T> {
    pub(crate) id: String,
    /// Scope of the request that created the entry; other scopes do not see it.
    scope: Arc<Scope>,
    /// Cancels its searches.
    pub(crate) cancel: Cancel,
    /// Expiry, ms since epoch UTC; `i64::MAX`: the entry stays until it is removed.
    expires_ms: AtomicI64,
    is_removed: AtomicBool,
    /// Signals that the entry was removed or that its expiry changed.
    changed: Arc<Notify>,
    pub(crate) answer: T,
    /// Slot of the entry while it runs.
    place: Mutex<Option<FairPermit<Option<TenantId>>>>,
    ended: OnceLock<Ended>,
}

/// Inputs of the eviction order.
#[derive(Debug, Clone, Copy)]
struct Ended {
    /// Position in the order of ends: an entry that ended earlier has a lower number.
    number: u64,
    /// Bytes of the entry.
    bytes: u64,
}

impl<T> Answers<T> {
    /// Creates an empty registry.
    pub(crate) fn bounded(prefix: &'static str, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            by_id: Mutex::default(),
            prefix,
            bounds,
            places: FairSemaphore::new(bounds.count_max as u64),
            ends: AtomicU64::new(0),
            bytes: FairSemaphore::new(bounds.bytes_max),
        })
    }

    /// Adds an entry for a caller in `scope`. `random` fills the id with unguessable bytes. `expires_ms` is the expiry;
    /// `None`: the entry stays until it is removed.
    pub(crate) fn add(
        &self,
        scope: Arc<Scope>,
        cancel: Cancel,
        expires_ms: Option<i64>,
        random: &(dyn Fn(&mut [u8]) + Send + Sync),
        answer: T,
    ) -> Result<Arc<RetainedResult<T>>, Full> {
        let tenant = scope.tenant_id().cloned();
        let mut bytes = [0; ID_BYTES];
        random(&mut bytes);
        let mut by_id = self.lock();
        if let (Some(tenant), Some(max)) = (&tenant, self.bounds.per_tenant_max) {
            let own = by_id
                .values()
                .filter(|other| other.ended.get().is_none() && other.scope.tenant_id() == Some(tenant))
                .count();
            if own >= max {
                return Err(Full::Tenant(own as u64));
            }
        }
        let place = self.places.take(tenant, 1).map_err(Full::All)?;
        let entry = Arc::new(RetainedResult {
            id: format!("{}{}", self.prefix, URL_SAFE_NO_PAD.encode(bytes)),
            scope,
            cancel,
            expires_ms: AtomicI64::new(expires_ms.unwrap_or(i64::MAX)),
            is_removed: AtomicBool::new(false),
            changed: Arc::default(),
            answer,
            place: Mutex::new(Some(place)),
            ended: OnceLock::new(),
        });
        by_id.insert(entry.id.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    /// Marks an entry as ended, with its size, and frees its slot. If too many ended entries are retained, evicts the
    /// oldest of its tenant, or the oldest of the tenant with most entries.
    pub(crate) fn end(&self, entry: &RetainedResult<T>, bytes: u64) {
        let number = self.ends.fetch_add(1, Ordering::Relaxed);
        if entry.ended.set(Ended { number, bytes }).is_err() {
            return;
        }
        drop(entry.place.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut gone = Vec::new();
        let mut by_id = self.lock();
        // Other entries may have ended at the same time.
        while let Some(oldest) = self.too_many(&by_id, entry.scope.tenant_id()) {
            by_id.remove(&oldest.id);
            gone.push(oldest);
        }
        drop(by_id);
        for oldest in gone {
            oldest.let_go();
        }
    }

    /// Returns the next entry to evict if too many ended entries are retained, of this tenant or of all.
    fn too_many(
        &self,
        by_id: &HashMap<String, Arc<RetainedResult<T>>>,
        tenant: Option<&TenantId>,
    ) -> Option<Arc<RetainedResult<T>>> {
        let all = by_id.values().filter(|entry| entry.ended.get().is_some());
        let own = all.clone().filter(|entry| entry.scope.tenant_id() == tenant);
        let per_tenant_max = tenant.and(self.bounds.per_tenant_max);
        if per_tenant_max.is_some_and(|max| own.clone().count() > max) {
            own.min_by_key(|entry| entry.end_number()).cloned()
        } else if all.count() > self.bounds.count_max {
            oldest_of_most(by_id, |_| 1)
        } else {
            None
        }
    }

    /// Evicts one ended entry to make space for `bytes`: the oldest of the tenant whose ended entries take most bytes.
    /// Returns whether it evicted one; it evicts none if all ended entries together would not free enough.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        let oldest = {
            let by_id = self.lock();
            let ended: u64 = by_id.values().filter_map(|entry| Some(entry.ended.get()?.bytes)).sum();
            let needed = self.bytes.held().saturating_sub(ended).saturating_add(bytes);
            match needed <= self.bounds.bytes_max {
                true => oldest_of_most(&by_id, |ended| ended.bytes),
                false => None,
            }
        };
        if let Some(oldest) = &oldest {
            self.remove(oldest);
        }
        oldest.is_some()
    }

    /// Returns the entry with this id if `scope` may use it.
    pub(crate) fn find(&self, scope: &Scope, id: &str, now_ms: i64) -> Result<Arc<RetainedResult<T>>, Error> {
        self.find_where(id, now_ms, |asker| scope.may_use(asker))
    }

    /// Returns the entry with this id if `is_reached` accepts the scope of its creator.
    pub(crate) fn find_where(
        &self,
        id: &str,
        now_ms: i64,
        is_reached: impl Fn(&Scope) -> bool,
    ) -> Result<Arc<RetainedResult<T>>, Error> {
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
            .filter(|entry| is_reached(&entry.scope) && entry.time_left(now_ms).is_some())
            .ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, id))
    }

    /// Cancels and removes an entry.
    pub(crate) fn remove(&self, entry: &RetainedResult<T>) {
        self.lock().remove(&entry.id);
        entry.let_go();
    }

    /// Cancels and removes all entries of a tenant.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let own: Vec<_> = (self.lock().values())
            .filter(|entry| entry.scope.tenant_id() == Some(tenant))
            .cloned()
            .collect();
        for entry in own {
            self.remove(&entry);
        }
    }

    /// Removes an entry when it expires by the clock `now_ms`. Call this at most once per entry. The future holds only
    /// a weak reference, so a removed entry frees its bytes at once.
    pub(crate) async fn expire(
        self: Arc<Self>,
        entry: Arc<RetainedResult<T>>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) {
        let changed = Arc::clone(&entry.changed);
        let held = Arc::downgrade(&entry);
        drop(entry);
        while let Some(left) = self.time_left(&held, now_ms()) {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = changed.notified() => {}
            }
        }
    }

    /// Returns the time until the entry expires; `None`: the entry is removed. Removes an expired entry.
    fn time_left(&self, held: &Weak<RetainedResult<T>>, now_ms: i64) -> Option<Duration> {
        let entry = held.upgrade()?;
        if entry.is_removed.load(Ordering::Relaxed) {
            return None;
        }
        let left = entry.time_left(now_ms);
        if left.is_none() {
            self.remove(&entry);
        }
        left
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<RetainedResult<T>>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> RetainedResult<T> {
    /// Tenant of the entry; `None`: it belongs to an operator.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        self.scope.tenant_id().cloned()
    }

    /// Expiry, ms since epoch UTC.
    pub(crate) fn expires_ms(&self) -> i64 {
        self.expires_ms.load(Ordering::Relaxed)
    }

    /// Moves the expiry to `keep_alive` after now.
    pub(crate) fn keep_until(&self, now_ms: i64, keep_alive: Duration) {
        self.expires_ms.store(after(now_ms, keep_alive), Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Cancels an entry that was taken out of the registry.
    fn let_go(&self) {
        self.cancel.cancel();
        self.is_removed.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Order of its end, lower for earlier ends; the highest number while it runs.
    fn end_number(&self) -> u64 {
        self.ended.get().map_or(u64::MAX, |ended| ended.number)
    }

    /// Returns the time until the expiry; `None`: it has passed.
    fn time_left(&self, now_ms: i64) -> Option<Duration> {
        let left_ms = u64::try_from(self.expires_ms().saturating_sub(now_ms)).ok()?;
        (left_ms > 0).then(|| Duration::from_millis(left_ms))
    }
}

/// Returns the oldest ended entry of the tenant whose ended entries weigh most; entries of weight 0 do not count.
fn oldest_of_most<T>(
    by_id: &HashMap<String, Arc<RetainedResult<T>>>,
    weight: impl Fn(&Ended) -> u64,
) -> Option<Arc<RetainedResult<T>>> {
    let mut tenants: BTreeMap<Option<&TenantId>, (u64, &Arc<RetainedResult<T>>)> = BTreeMap::new();
    for entry in by_id.values() {
        let weight = entry.ended.get().map_or(0, &weight);
        if weight == 0 {
            continue;
        }
        let (all, oldest) = tenants.entry(entry.scope.tenant_id()).or_insert((0, entry));
        *all += weight;
        if entry.end_number() < oldest.end_number() {
            *oldest = entry;
        }
    }
    let most = tenants
        .into_values()
        .max_by_key(|(all, oldest)| (*all, Reverse(oldest.end_number())));
    most.map(|(_, oldest)| Arc::clone(oldest))
}

/// Returns `now_ms` plus `keep_alive`, ms since epoch UTC.
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

    fn add(answers: &Answers<()>, scope: Scope, expires_ms: Option<i64>) -> Result<Arc<RetainedResult<()>>, Full> {
        let byte = answers.lock().len() as u8;
        let random = |bytes: &mut [u8]| bytes.fill(byte);
        answers.add(Arc::new(scope), Cancel::default(), expires_ms, &random, ())
    }

    fn tenant(name: &str) -> Scope {
        Scope::tenant(TenantId::parse(name).unwrap())
    }

    #[test]
    fn only_the_creator_finds_an_entry() {
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
        for entry in own.iter().chain([&operators]) {
            answers.remove(entry);
        }
        drop((own, operators));
        add(&answers, tenant("a"), None).unwrap();
    }

    #[test]
    fn one_tenant_does_not_take_the_places_of_another() {
        let answers = answers(2, None);
        let _own = [tenant("a"), tenant("a")].map(|scope| add(&answers, scope, None).unwrap());
        assert!(matches!(add(&answers, tenant("a"), None), Err(Full::All(_))));
        add(&answers, tenant("b"), None).expect("another tenant still has room");
    }

    #[test]
    fn those_that_have_ended_take_no_place_and_the_oldest_of_a_tenant_goes() {
        let answers = answers(3, Some(2));
        let run = |name: &str, number: u8| {
            let random = |bytes: &mut [u8]| bytes.fill(number);
            let scope = Arc::new(tenant(name));
            answers.add(scope, Cancel::default(), None, &random, ()).unwrap()
        };
        let ended = |name: &str, number: u8| {
            let entry = run(name, number);
            answers.end(&entry, 0);
            entry.id.clone()
        };
        let is_there = |id: &String| answers.find(&Scope::operator(), id, 0).is_ok();
        let running = [run("a", 100), run("b", 101)];
        let ids: Vec<String> = (0..10).map(|number| ended("a", number)).collect();
        assert_eq!(
            ids.iter().filter(|id| is_there(id)).collect::<Vec<_>>(),
            [&ids[8], &ids[9]]
        );
        // Limit of all tenants: the tenant with most entries loses its oldest.
        let others = [ended("b", 20), ended("c", 21)];
        assert!(others.iter().all(is_there));
        assert!(!is_there(&ids[8]) && is_there(&ids[9]));
        // If all tenants have equally many entries, the oldest of all goes.
        let last = ended("d", 22);
        assert!(!is_there(&ids[9]) && others.iter().chain([&last]).all(is_there));
        assert!(
            running
                .iter()
                .all(|entry| is_there(&entry.id) && !entry.cancel.is_cancelled())
        );
        let _second = run("a", 102);
        assert!(add(&answers, tenant("a"), None).is_err(), "two run");
    }

    #[test]
    fn as_many_are_left_of_those_that_end_at_the_same_time() {
        let answers = answers(10, Some(2));
        let run = |number: u8| {
            let random = |bytes: &mut [u8]| bytes.fill(number);
            let (scope, cancel) = (Arc::new(tenant("a")), Cancel::default());
            answers.add(scope, cancel, None, &random, ()).unwrap()
        };
        // All entries are marked as ended before the last one counts the retained entries.
        let ended = |number: u64| {
            let entry = run(number as u8);
            entry.ended.set(Ended { number, bytes: 0 }).unwrap();
            entry
        };
        let mut entries = vec![ended(0), ended(1), ended(2)];
        answers.ends.store(3, Ordering::Relaxed);
        entries.push(run(3));
        answers.end(&entries[3], 0);
        let is_over = entries.iter().map(|entry| entry.cancel.is_cancelled());
        assert_eq!(is_over.collect::<Vec<_>>(), [true, true, false, false]);
    }

    #[test]
    fn the_tenant_with_most_bytes_makes_room_if_that_helps() {
        let answers = answers(100, None);
        let shares = Mutex::new(Vec::new());
        let ended = |name: &str, number: u8, bytes| {
            let random = |bytes: &mut [u8]| bytes.fill(number);
            let scope = Arc::new(tenant(name));
            let entry = answers.add(scope, Cancel::default(), None, &random, ()).unwrap();
            let share = answers.bytes.take(entry.tenant(), bytes).unwrap();
            shares.lock().unwrap().push((entry.id.clone(), share));
            answers.end(&entry, bytes);
            entry.id.clone()
        };
        let ids = [
            ended("a", 1, 100),
            ended("b", 2, 0),
            ended("b", 3, 400),
            ended("b", 4, 400),
        ];
        let there = || {
            let is_there = |id: &String| answers.find(&Scope::operator(), id, 0).is_ok();
            shares.lock().unwrap().retain(|(id, _)| is_there(id));
            ids.each_ref().map(is_there)
        };
        assert!(!answers.make_room(1001), "that much there never is");
        assert_eq!(there(), [true; 4]);
        assert!(answers.make_room(200));
        assert_eq!(there(), [true, true, false, true], "what takes nothing frees nothing");
        assert!(answers.make_room(900) && there()[0] && answers.make_room(950));
        assert_eq!(there(), [false, true, false, false]);
        assert!(!answers.make_room(1));
    }

    #[test]
    fn a_tenant_that_is_deleted_leaves_none() {
        let answers = answers(5, None);
        let own = [tenant("a").of("one user"), tenant("a"), tenant("b")]
            .map(|scope| add(&answers, scope, Some(1000)).unwrap());
        answers.forget(&TenantId::parse("a").unwrap());
        let left = own.iter().map(|entry| {
            let is_there = answers.find(&Scope::operator(), &entry.id, 0).is_ok();
            assert_ne!(is_there, entry.cancel.is_cancelled());
            is_there
        });
        assert_eq!(left.collect::<Vec<_>>(), [false, false, true]);
    }

    #[tokio::test]
    async fn one_goes_when_its_time_is_over() {
        let answers = answers(3, None);
        let now_ms = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now_ms);
        let entry = add(&answers, tenant("a"), Some(2)).unwrap();
        // By this clock the entry expires only after its expiry is changed.
        let expiring = Arc::clone(&answers).expire(Arc::clone(&entry), Arc::new(move || clock.load(Ordering::Relaxed)));
        let expiring = tokio::spawn(expiring);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!entry.cancel.is_cancelled());
        now_ms.store(10, Ordering::Relaxed);
        entry.keep_until(5, Duration::from_millis(1));
        expiring.await.unwrap();
        assert!(entry.cancel.is_cancelled());
        assert!(answers.find(&tenant("a"), &entry.id, 0).is_err());
    }

    #[tokio::test]
    async fn the_expiry_of_a_removed_entry_ends_at_once() {
        let answers = answers(3, None);
        let entry = add(&answers, tenant("a"), None).unwrap();
        let expiring = tokio::spawn(Arc::clone(&answers).expire(Arc::clone(&entry), Arc::new(|| 0)));
        tokio::task::yield_now().await;
        answers.remove(&entry);
        expiring.await.unwrap();
    }
}
