//! Search contexts (scrolls and points in time): snapshots of shards that are held between requests.
//!
//! A snapshot keeps the files of its segments open, so that they can be read after merges and deletions
//! have removed them from the folder. That costs disk and address space, so their number is limited
//! ([`ContextLimits`]), and unused contexts expire. They do not outlive the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_engine::Scope;
use firn_engine::context::{CloseContexts, ClosedContext, ContextKind, PointInTimeInfo};
use firn_model::dates::print_duration_ms;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::SearchRequest;
use firn_search::{After, FailedShard, ShardSearch};
use parking_lot::Mutex;

use super::addressed::Addressed;
use crate::config::ContextLimits;
use crate::node::index_ids::fresh_uuid;
use crate::node::state::{ContextCounters, ShardSlot, add_us};

/// The open contexts.
pub(crate) struct Contexts {
    open: Mutex<Open>,
}

struct Open {
    by_id: HashMap<String, Arc<Context>>,
    limits: ContextLimits,
    random: fastrand::Rng,
    /// Number of contexts opened so far.
    count: u64,
}

/// One open context.
pub(super) struct Context {
    pub(super) id: String,
    kind: ContextKind,
    /// Scope of the request that opened it: other scopes cannot see the context.
    scope: Arc<Scope>,
    /// Later contexts have larger numbers.
    number: u64,
    pub(super) created_ms: i64,
    shards: Mutex<Vec<HeldShard>>,
    life: Mutex<Life>,
    /// `Some` for a scroll. Locked while a page is read.
    pub(super) scroll: Option<Mutex<Scroll>>,
}

/// Lifetime of a context.
struct Life {
    keep_alive_ms: u64,
    used_ms: i64,
    /// Number of requests that read from it now; it does not expire while there are any.
    users: usize,
}

/// Position of a scroll.
pub(super) struct Scroll {
    /// Request for every page after the first.
    pub(super) request: Arc<SearchRequest>,
    /// Clock of the first page, for date math.
    pub(super) now_ms: i64,
    /// Sort values of the last hit of the last page.
    pub(super) after: Option<After>,
    /// Total hits of the first page.
    pub(super) total: Option<firn_query::search::TotalHits>,
    /// Maximum score of the first page.
    pub(super) max_score: Option<f32>,
}

/// Shard at the time when the context was opened.
pub(super) struct HeldShard {
    slot: Arc<ShardSlot>,
    uuid: String,
    search: Result<ShardSearch, FailedShard>,
    behind: Option<FailedShard>,
    kind: ContextKind,
    opened: Instant,
}

impl HeldShard {
    fn new(shard: Addressed, kind: ContextKind) -> Self {
        counters(&shard.slot, kind).current.fetch_add(1, Ordering::Relaxed);
        Self {
            slot: shard.slot,
            uuid: shard.uuid,
            search: shard.search,
            behind: shard.behind,
            kind,
            opened: Instant::now(),
        }
    }
}

impl Drop for HeldShard {
    fn drop(&mut self) {
        let counters = counters(&self.slot, self.kind);
        counters.current.fetch_sub(1, Ordering::Relaxed);
        counters.total.fetch_add(1, Ordering::Relaxed);
        add_us(&counters.open_us, self.opened);
    }
}

fn counters(slot: &ShardSlot, kind: ContextKind) -> &ContextCounters {
    match kind {
        ContextKind::Scroll => &slot.counters.scrolls,
        ContextKind::PointInTime => &slot.counters.points_in_time,
    }
}

/// Shards that a search of a context reads.
#[derive(Default)]
pub(super) struct Held {
    pub(super) slots: Vec<Arc<ShardSlot>>,
    pub(super) shards: Vec<Result<ShardSearch, FailedShard>>,
    pub(super) behind: Vec<FailedShard>,
}

/// Guard of a context in use: the context does not expire before the guard is dropped, and its keep-alive counts from
/// then.
pub(super) struct InUse<'a> {
    pub(super) context: Arc<Context>,
    now_ms: &'a dyn Fn() -> i64,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut life = self.context.life.lock();
        life.users -= 1;
        life.used_ms = (self.now_ms)();
    }
}

impl Contexts {
    /// Creates an empty set. Ids are drawn from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            open: Mutex::new(Open {
                by_id: HashMap::new(),
                limits: ContextLimits::default(),
                random: fastrand::Rng::with_seed(seed),
                count: 0,
            }),
        }
    }

    /// Sets the limits for contexts that are opened from now on.
    pub(super) fn set_limits(&self, limits: ContextLimits) {
        self.open.lock().limits = limits;
    }

    /// Returns the keep-alive of a request, or the default; fails if it is too long.
    pub(super) fn keep_alive_ms(&self, requested: Option<Duration>) -> Result<u64> {
        let limits = self.open.lock().limits;
        let Some(requested) = requested else {
            return Ok(limits.keep_alive_default_ms.min(limits.keep_alive_max_ms));
        };
        let requested_ms = u64::try_from(requested.as_millis()).unwrap_or(u64::MAX);
        if requested_ms > limits.keep_alive_max_ms {
            return Err(Error::illegal_argument(format!(
                "Keep alive for request ({}) is too large. It must be less than ({}). This limit can be set by \
                 changing the [search.max_keep_alive] cluster level setting.",
                print_duration_ms(requested_ms, 1),
                print_duration_ms(limits.keep_alive_max_ms, 1)
            )));
        }
        Ok(requested_ms)
    }

    /// Opens a context over shards; a scroll if `scroll` is `Some`.
    pub(super) fn open(
        &self,
        scope: &Arc<Scope>,
        shards: Vec<Addressed>,
        keep_alive_ms: u64,
        now_ms: i64,
        scroll: Option<Scroll>,
    ) -> Result<Arc<Context>> {
        let kind = match scroll {
            Some(_) => ContextKind::Scroll,
            None => ContextKind::PointInTime,
        };
        let mut open = self.open.lock();
        open.check_room(kind, scope)?;
        open.count += 1;
        let id = new_id(kind, &mut open.random);
        let mut shards: Vec<HeldShard> = shards.into_iter().map(|shard| HeldShard::new(shard, kind)).collect();
        number_segments(&mut shards);
        let context = Arc::new(Context {
            id: id.clone(),
            kind,
            scope: Arc::clone(scope),
            number: open.count,
            created_ms: now_ms,
            shards: Mutex::new(shards),
            life: Mutex::new(Life {
                keep_alive_ms,
                used_ms: now_ms,
                users: 0,
            }),
            scroll: scroll.map(Mutex::new),
        });
        open.by_id.insert(id, Arc::clone(&context));
        Ok(context)
    }

    /// Finds a context to read from; `keep_alive_ms` is its new keep-alive.
    pub(super) fn use_context<'a>(
        &'a self,
        scope: &Scope,
        kind: ContextKind,
        id: &str,
        keep_alive_ms: Option<u64>,
        now_ms: &'a dyn Fn() -> i64,
    ) -> Result<InUse<'a>> {
        check_id(kind, id)?;
        let open = self.open.lock();
        let context = open.find(scope, id).map(Arc::clone).ok_or_else(|| missing(id))?;
        let mut life = context.life.lock();
        if life.is_over(now_ms()) {
            return Err(missing(id));
        }
        life.users += 1;
        life.keep_alive_ms = keep_alive_ms.unwrap_or(life.keep_alive_ms);
        drop(life);
        Ok(InUse { context, now_ms })
    }

    /// Closes contexts; returns one entry for each named id, or for each context that was open.
    pub(super) fn close(&self, scope: &Scope, kind: ContextKind, which: &CloseContexts) -> Result<Vec<ClosedContext>> {
        if let CloseContexts::Ids(ids) = which {
            ids.iter().try_for_each(|id| check_id(kind, id))?;
        }
        let closed: Vec<(String, Option<Arc<Context>>)> = {
            let mut open = self.open.lock();
            let ids = match which {
                CloseContexts::Ids(ids) => ids.clone(),
                CloseContexts::All => open.ids(scope, kind),
            };
            ids.into_iter()
                .map(|id| {
                    let is_there = open.find(scope, &id).is_some();
                    let context = is_there.then(|| open.by_id.remove(&id)).flatten();
                    (id, context)
                })
                .collect()
        };
        // The contexts are dropped outside of the lock: that may close many files.
        Ok(closed
            .into_iter()
            .map(|(id, context)| ClosedContext {
                id,
                shard_count: context.map_or(0, |context| context.shards.lock().len() as u32),
            })
            .collect())
    }

    /// Closes contexts that have been unused for longer than their keep-alive.
    pub(crate) fn expire(&self, now_ms: i64) {
        let over: Vec<Arc<Context>> = {
            let mut open = self.open.lock();
            let is_over = |context: &Context| context.life.lock().is_over(now_ms);
            let over: Vec<_> = open
                .by_id
                .values()
                .filter(|context| is_over(context))
                .cloned()
                .collect();
            for context in &over {
                open.by_id.remove(&context.id);
            }
            over
        };
        if !over.is_empty() {
            tracing::debug!(count = over.len(), "search contexts expired");
        }
    }

    /// Drops the shards of an index that was deleted or closed: later requests find its part of a context missing, and
    /// its files are released. Searches that read from it now finish.
    pub(super) fn forget_index(&self, uuid: &str) {
        let mut open = self.open.lock();
        open.by_id.retain(|id, context| {
            let mut shards = context.shards.lock();
            for shard in shards.iter_mut().filter(|shard| shard.uuid == uuid) {
                if let Ok(search) = &shard.search {
                    shard.search = Err(FailedShard {
                        index: search.snapshot.index.to_string(),
                        shard: search.snapshot.shard,
                        error: missing(id),
                    });
                    shard.behind = None;
                }
            }
            shards.is_empty() || shards.iter().any(|shard| shard.search.is_ok())
        });
    }

    /// Drops the contexts of a tenant that is deleted, or whose name a new tenant gets. Searches that read
    /// from them now finish.
    pub(super) fn forget_tenant(&self, tenant: &str) {
        let is_own = |context: &Arc<Context>| context.scope.tenant_id().is_some_and(|own| own.as_str() == tenant);
        let gone: Vec<Arc<Context>> = {
            let mut open = self.open.lock();
            open.by_id
                .extract_if(|_, context| is_own(context))
                .map(|(_, context)| context)
                .collect()
        };
        // The contexts are dropped outside of the lock.
        drop(gone);
    }

    /// Returns the uuids of the indices whose shards a context holds.
    pub(super) fn indices_of(&self, kind: ContextKind, id: &str) -> Vec<String> {
        let open = self.open.lock();
        let Some(context) = open.by_id.get(id).filter(|context| context.kind == kind) else {
            return Vec::new();
        };
        let mut uuids: Vec<String> = context.shards.lock().iter().map(|shard| shard.uuid.clone()).collect();
        uuids.dedup();
        uuids
    }

    /// Drops all contexts.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut self.open.lock().by_id);
        drop(all);
    }

    /// Returns the open points in time, oldest first.
    pub(super) fn points_in_time(&self, scope: &Scope) -> Vec<PointInTimeInfo> {
        let open = self.open.lock();
        let mut found: Vec<&Arc<Context>> = open.within(scope, ContextKind::PointInTime).collect();
        found.sort_by_key(|context| context.number);
        found
            .into_iter()
            .map(|context| PointInTimeInfo {
                id: context.id.clone(),
                created_ms: context.created_ms,
                keep_alive: Duration::from_millis(context.life.lock().keep_alive_ms),
            })
            .collect()
    }

    /// Returns the bytes of segments of a shard that contexts hold but the shard itself no longer has.
    pub(super) fn held_bytes(&self, slot: &Arc<ShardSlot>, generations_live: &[u64]) -> u64 {
        let mut held: HashMap<u64, u64> = HashMap::new();
        for context in self.open.lock().by_id.values() {
            let shards = context.shards.lock();
            let of_slot = shards.iter().filter(|shard| Arc::ptr_eq(&shard.slot, slot));
            for search in of_slot.filter_map(|shard| shard.search.as_ref().ok()) {
                for segment in &search.snapshot.segments {
                    if !generations_live.contains(&segment.generation) {
                        held.insert(segment.generation, segment.size_bytes);
                    }
                }
            }
        }
        held.values().sum()
    }
}

impl InUse<'_> {
    /// Returns the shards to read; fails if none is available any more.
    pub(super) fn held(&self) -> Result<Held> {
        let shards = self.context.shards.lock();
        if !shards.is_empty() && shards.iter().all(|shard| shard.search.is_err()) {
            return Err(missing(&self.context.id));
        }
        let mut held = Held::default();
        for shard in shards.iter() {
            held.slots.push(Arc::clone(&shard.slot));
            held.shards.push(shard.search.clone());
            held.behind.extend(shard.behind.clone());
        }
        Ok(held)
    }
}

impl Open {
    fn of_kind(&self, kind: ContextKind) -> impl Iterator<Item = &Arc<Context>> {
        self.by_id.values().filter(move |context| context.kind == kind)
    }

    /// Returns the contexts that a scope may use.
    fn within<'a>(&'a self, scope: &'a Scope, kind: ContextKind) -> impl Iterator<Item = &'a Arc<Context>> {
        self.of_kind(kind).filter(|context| scope.may_use(&context.scope))
    }

    fn find(&self, scope: &Scope, id: &str) -> Option<&Arc<Context>> {
        self.by_id.get(id).filter(|context| scope.may_use(&context.scope))
    }

    fn ids(&self, scope: &Scope, kind: ContextKind) -> Vec<String> {
        self.within(scope, kind).map(|context| context.id.clone()).collect()
    }

    /// Fails if the limit of all contexts or of the tenant is reached.
    fn check_room(&self, kind: ContextKind, scope: &Scope) -> Result<()> {
        let max = match kind {
            ContextKind::Scroll => self.limits.scrolls_max,
            ContextKind::PointInTime => self.limits.points_in_time_max,
        };
        check_room(kind, self.of_kind(kind).count(), max)?;
        let Some(tenant) = scope.tenant_id() else {
            return Ok(());
        };
        let own = self
            .of_kind(kind)
            .filter(|context| context.scope.tenant_id() == Some(tenant));
        check_room(kind, own.count(), max.div_ceil(TENANT_SHARE))
    }
}

/// One tenant may have at most 1/4 of all contexts, so that other tenants can open theirs.
const TENANT_SHARE: usize = 4;

fn check_room(kind: ContextKind, count: usize, max: usize) -> Result<()> {
    match kind {
        ContextKind::Scroll if count >= max => Err(Error::new(
            ErrorKind::TooManyScrollContexts,
            format!(
                "Trying to create too many scroll contexts. Must be less than or equal to: [{}]. This limit can be \
                     set by changing the [search.max_open_scroll_context] setting.",
                max
            ),
        )),
        ContextKind::PointInTime if count >= max => Err(Error::new(
            ErrorKind::Rejected,
            format!(
                "Trying to create too many Point In Time contexts. Must be less than or equal to: [{}]. This limit \
                     can be set by changing the [search.max_open_pit_context] setting.",
                max
            ),
        )),
        _ => Ok(()),
    }
}

impl Life {
    fn is_over(&self, now_ms: i64) -> bool {
        let keep_alive_ms = i64::try_from(self.keep_alive_ms).unwrap_or(i64::MAX);
        self.users == 0 && now_ms.saturating_sub(self.used_ms) > keep_alive_ms
    }
}

/// Numbers segments of all shards. The numbers stay the same when a shard fails later: ties are broken by them on every
/// page.
fn number_segments(shards: &mut [HeldShard]) {
    let mut next = 0;
    for search in shards.iter_mut().filter_map(|shard| shard.search.as_mut().ok()) {
        search.first_segment = Some(next);
        next += search.snapshot.segments.len() as u32;
    }
}

/// Returns a new id: a prefix for the kind, then 256 random bits, so that an id cannot be guessed.
fn new_id(kind: ContextKind, random: &mut fastrand::Rng) -> String {
    format!("{}{}{}", prefix(kind), fresh_uuid(random), fresh_uuid(random))
}

fn prefix(kind: ContextKind) -> &'static str {
    match kind {
        ContextKind::Scroll => "firns",
        ContextKind::PointInTime => "firnp",
    }
}

/// Number of characters after the prefix.
const ID_CHARS: usize = 44;

/// Fails if a text cannot be an id of this kind: a mistake of the client.
fn check_id(kind: ContextKind, id: &str) -> Result<()> {
    let is_id = id.strip_prefix(prefix(kind)).is_some_and(|rest| {
        rest.len() == ID_CHARS
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    });
    if is_id {
        return Ok(());
    }
    Err(Error::illegal_argument(match kind {
        ContextKind::Scroll => "Cannot parse scroll id".to_owned(),
        ContextKind::PointInTime => format!("invalid point in time id [{}]", shortened(id)),
    }))
}

/// Shortens an id for an error: a client may send an id of any length.
fn shortened(id: &str) -> String {
    id.chars().take(2 * ID_CHARS).collect()
}

/// Returns the error for a context that does not exist or has expired.
fn missing(id: &str) -> Error {
    Error::new(
        ErrorKind::SearchContextMissing,
        format!("No search context found for id [{id}]"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(contexts: &Contexts, keep_alive_ms: u64) -> Result<Arc<Context>> {
        contexts.open(&Arc::default(), Vec::new(), keep_alive_ms, 0, None)
    }

    #[test]
    fn unused_contexts_expire_and_used_ones_do_not() {
        let contexts = Contexts::new(7);
        let context = open(&contexts, 1000).unwrap();
        let used = contexts
            .use_context(&Scope::operator(), ContextKind::PointInTime, &context.id, None, &|| 900)
            .unwrap();
        contexts.expire(50_000);
        assert_eq!(contexts.points_in_time(&Scope::operator()).len(), 1, "in use");
        drop(used);
        contexts.expire(1900);
        assert_eq!(
            contexts.points_in_time(&Scope::operator()).len(),
            1,
            "counts from its last use"
        );
        contexts.expire(1901);
        assert!(contexts.points_in_time(&Scope::operator()).is_empty());
        let error = contexts
            .use_context(&Scope::operator(), ContextKind::PointInTime, &context.id, None, &|| {
                1901
            })
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::SearchContextMissing);
    }

    #[test]
    fn contexts_are_limited_and_closing_frees_a_place() {
        let contexts = Contexts::new(7);
        contexts.set_limits(ContextLimits {
            points_in_time_max: 2,
            ..ContextLimits::default()
        });
        let first = open(&contexts, 1000).unwrap();
        open(&contexts, 1000).unwrap();
        assert_eq!(open(&contexts, 1000).err().unwrap().kind(), ErrorKind::Rejected);
        let ids = CloseContexts::Ids(vec![first.id.clone()]);
        contexts
            .close(&Scope::operator(), ContextKind::PointInTime, &ids)
            .unwrap();
        open(&contexts, 1000).unwrap();
        assert_eq!(
            contexts
                .close(&Scope::operator(), ContextKind::PointInTime, &CloseContexts::All)
                .unwrap()
                .len(),
            2
        );
        assert!(contexts.points_in_time(&Scope::operator()).is_empty());
    }

    #[test]
    fn a_context_is_not_visible_to_another_tenant() {
        let contexts = Contexts::new(7);
        let scope = |name: &str| Scope::tenant(firn_model::tenant::TenantId::parse(name).unwrap());
        let (own, other) = (Arc::new(scope("a")), scope("b"));
        let context = contexts.open(&own, Vec::new(), 1000, 0, None).unwrap();
        let kind = ContextKind::PointInTime;
        let found = |scope: &Scope| contexts.use_context(scope, kind, &context.id, None, &|| 0).is_ok();
        assert!(found(&own) && found(&Scope::operator()) && !found(&other));
        assert!(
            !found(&scope("a").of("API key id [x]")),
            "another credential of the tenant"
        );
        assert!(contexts.points_in_time(&other).is_empty());
        assert!(contexts.close(&other, kind, &CloseContexts::All).unwrap().is_empty());
        let ids = CloseContexts::Ids(vec![context.id.clone()]);
        assert_eq!(contexts.close(&other, kind, &ids).unwrap()[0].shard_count, 0);
        assert!(found(&own), "still there");
        assert_eq!(contexts.close(&own, kind, &CloseContexts::All).unwrap().len(), 1);
    }

    #[test]
    fn contexts_of_a_deleted_tenant_are_closed() {
        let contexts = Contexts::new(7);
        let scope = |name: &str| Arc::new(Scope::tenant(firn_model::tenant::TenantId::parse(name).unwrap()));
        for scope in [
            scope("a"),
            Arc::new(Scope::clone(&scope("a")).of("API key id [x]")),
            scope("ab"),
            Arc::new(Scope::operator()),
        ] {
            contexts.open(&scope, Vec::new(), 1000, 0, None).unwrap();
        }
        contexts.forget_tenant("a");
        assert!(contexts.points_in_time(&scope("a")).is_empty());
        assert_eq!(contexts.points_in_time(&Scope::operator()).len(), 2);
    }

    #[test]
    fn one_tenant_cannot_use_all_contexts() {
        let contexts = Contexts::new(7);
        contexts.set_limits(ContextLimits {
            points_in_time_max: 8,
            ..ContextLimits::default()
        });
        let scope = |name: &str| Arc::new(Scope::tenant(firn_model::tenant::TenantId::parse(name).unwrap()));
        let open = |name: &str| contexts.open(&scope(name), Vec::new(), 1000, 0, None).map(|_| ());
        open("a").unwrap();
        open("a").unwrap();
        assert_eq!(open("a").unwrap_err().kind(), ErrorKind::Rejected);
        open("b").unwrap();
    }

    #[test]
    fn ids_of_another_kind_and_invalid_ids_are_refused() {
        let contexts = Contexts::new(7);
        let context = open(&contexts, 1000).unwrap();
        for id in ["", "abc", "firns", &context.id] {
            assert!(check_id(ContextKind::Scroll, id).is_err(), "{id}");
        }
        assert!(check_id(ContextKind::PointInTime, &context.id).is_ok());
        let error = contexts
            .keep_alive_ms(Some(Duration::from_secs(25 * 3600)))
            .unwrap_err();
        assert!(
            error.reason().starts_with("Keep alive for request (1d) is too large."),
            "{error}"
        );
    }
}
