//! Addressing of a request: from an index expression to the shards to search, each in its current state.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use firn_engine::RequestContext;
use firn_model::metadata::{IndexMetadata, resolve};
use firn_model::names::ResolvedIndex;
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::Query;
use firn_query::search::{FieldSpec, IndexTarget, SearchRequest};
use firn_scheduler::wait_for_others;
use firn_search::pruning::shard_conditions;
use firn_search::result_cache::ShardCache;
use firn_search::{FailedShard, NotOpened, ShardSearch, TenantRestriction};
use firn_segment::segment::ShardSnapshot;
use firn_segment::splits::dry_run::metered;

use super::addressed::Addressed;
use super::can_match::{CanMatch, matching_shards};
use super::search_service::SearchService;
use crate::maintenance::{is_search_idle, policy_of, view_of};
use crate::mounts::{Conditions, MountedShard, Opened};
use crate::node::state::{IndexState, Served, ShardSlot, State, for_readers};

/// Maximum number of name resolutions while indices of the expression are being deleted.
const ADDRESS_TRIES: usize = 5;
/// Pause between two resolutions if the state has not changed yet.
const DELETION_PAUSE: Duration = Duration::from_millis(2);

/// Selection of the shards of a request.
pub(super) struct ShardSelection<'a> {
    target: &'a IndexTarget,
    /// Empty: all shards.
    routing: &'a [String],
    /// Empty: all shards.
    only_shards: &'a [u32],
    /// Checked against the limit of each index.
    docvalue_fields: &'a [FieldSpec],
    /// Shards that hold no match of this query are left out. `None`: all shards.
    query: Option<CanMatch<'a>>,
    /// The search request, if there is one.
    request: Option<&'a SearchRequest>,
    /// The shards are held for later requests (scroll, point in time).
    is_held: bool,
}

impl<'a> ShardSelection<'a> {
    /// Selects all shards of a scroll.
    pub(super) fn of(request: &'a SearchRequest) -> Self {
        Self {
            only_shards: &request.only_shards,
            docvalue_fields: &request.shape.docvalue_fields,
            ..Self::routed(&request.target, &request.routing)
        }
    }

    /// Selects the shards of a search, without those that its conditions on time and tenant exclude.
    pub(super) fn narrowed(request: &'a SearchRequest) -> Self {
        Self {
            query: (!shard_conditions::looks_past_query(&request.aggs)).then(|| CanMatch::of(request)),
            request: Some(request),
            is_held: false,
            ..Self::of(request)
        }
    }

    /// Selects the shards of a target that match the routing, for a point in time.
    pub(super) fn routed(target: &'a IndexTarget, routing: &'a [String]) -> Self {
        Self {
            routing,
            is_held: true,
            ..Self::all_of(target)
        }
    }

    /// Selects every shard of a target.
    pub(super) fn all_of(target: &'a IndexTarget) -> Self {
        Self {
            target,
            routing: &[],
            only_shards: &[],
            docvalue_fields: &[],
            query: None,
            request: None,
            is_held: false,
        }
    }
}

/// Failed shards: index, shard number, error.
type Failures = Vec<(String, u32, Error)>;

impl SearchService {
    /// Returns the selected shards in their current state.
    pub(super) fn address(
        &self,
        ctx: &RequestContext,
        wanted: &ShardSelection<'_>,
        now_ms: i64,
    ) -> Result<Vec<Addressed>> {
        self.address_narrowed(ctx, wanted, now_ms)
            .map(|(addressed, _)| addressed)
    }

    /// Returns the selected shards in their current state, and how many of them [`ShardSelection::query`] left out. If the
    /// query leaves out every shard, one shard stays, so that the shape of the answer is known. If an index was deleted
    /// during the resolution, the names are resolved again: another index may have the name now.
    pub(super) fn address_narrowed(
        &self,
        ctx: &RequestContext,
        wanted: &ShardSelection<'_>,
        now_ms: i64,
    ) -> Result<(Vec<Addressed>, u32)> {
        for _ in 1..ADDRESS_TRIES {
            let state = self.node.state();
            let found = self.address_in(ctx, wanted, &state, now_ms)?;
            if !found.0.iter().any(Addressed::was_deleted) {
                return Ok(found);
            }
            ctx.check()?;
            if Arc::ptr_eq(&state, &self.node.state()) {
                // The state without the index is about to be published.
                wait_for_others(|| thread::sleep(DELETION_PAUSE));
            }
        }
        self.address_in(ctx, wanted, &self.node.state(), now_ms)
    }

    fn address_in(
        &self,
        ctx: &RequestContext,
        wanted: &ShardSelection<'_>,
        state: &Arc<State>,
        now_ms: i64,
    ) -> Result<(Vec<Addressed>, u32)> {
        let (places, mut skipped) = self.places_in(ctx, wanted, state, now_ms)?;
        if let Some(progress) = &ctx.progress {
            progress.expect((places.len() + skipped.len()) as u32);
        }
        for place in &places {
            self.gates.wait_for_recovery(ctx, place.slot())?;
        }
        let mut addressed = self.open_places(ctx, places, wanted, now_ms, &mut skipped)?;
        if addressed.is_empty()
            && let Some(place) = skipped.pop()
        {
            self.gates.wait_for_recovery(ctx, place.slot())?;
            addressed.push(self.open_place(place, now_ms, None));
        }
        self.narrow_mappings(ctx, &mut addressed, wanted.request, now_ms)?;
        Ok((addressed, skipped.len() as u32))
    }

    /// Returns the number of shards of a search and those that do not serve, without opening any shard.
    pub(super) fn count_shards(
        &self,
        ctx: &RequestContext,
        request: &SearchRequest,
        now_ms: i64,
    ) -> Result<(u32, Failures)> {
        let state = self.node.state();
        let (places, _) = self.places_in(ctx, &ShardSelection::of(request), &state, now_ms)?;
        let mut failures = Failures::new();
        for place in &places {
            if let Err(error) = place.index.shards[place.number as usize].served() {
                let name = place.index.name.to_string();
                failures.push((name.clone(), place.number, error.with_index(name)));
            }
        }
        Ok((places.len() as u32, failures))
    }

    /// Returns the selected shards, and those that [`ShardSelection::query`] leaves out.
    fn places_in<'a>(
        &self,
        ctx: &RequestContext,
        wanted: &ShardSelection<'_>,
        state: &'a Arc<State>,
        now_ms: i64,
    ) -> Result<(Vec<SearchableShard<'a>>, Vec<SearchableShard<'a>>)> {
        let view = self.node.view(state, &ctx.scope);
        let target = wanted.target;
        check_routing(ctx, wanted.routing)?;
        let mut places = Vec::new();
        let mut skipped = Vec::new();
        let resolved = resolve(&target.expression, target.options, &view, now_ms)?;
        for target in &resolved {
            let index = state.index(&target.name)?;
            let tenant = match restriction(ctx, index) {
                Some(tenant) => tenant,
                None => continue,
            };
            check_docvalue_fields(wanted.docvalue_fields, index)?;
            let filters = target.filters.iter().map(Query::parse).collect::<Result<Vec<_>>>()?;
            let matching = wanted
                .query
                .and_then(|matches| matching_shards(ctx, index, matches.query, now_ms));
            for number in shard_numbers(target, wanted.routing, tenant.as_ref(), &index.metadata) {
                if !wanted.only_shards.is_empty() && !wanted.only_shards.contains(&number) {
                    continue;
                }
                let place = SearchableShard {
                    index,
                    number,
                    filters: filters.clone(),
                    tenant: tenant.clone(),
                    left_out: NotOpened::default(),
                };
                match &matching {
                    Some(numbers) if !numbers.contains(&number) => skipped.push(place),
                    _ => places.push(place),
                }
            }
        }
        Ok((places, skipped))
    }

    /// Opens shards. Mounted shards are opened all at once, as each may have to wait for an object store; those that
    /// hold no match are added to `skipped`.
    fn open_places<'a>(
        &self,
        ctx: &RequestContext,
        places: Vec<SearchableShard<'a>>,
        wanted: &ShardSelection<'_>,
        now_ms: i64,
        skipped: &mut Vec<SearchableShard<'a>>,
    ) -> Result<Vec<Addressed>> {
        let matches = wanted.query;
        let mut mounted = Vec::new();
        // All shards of one index have the same conditions; the next index mostly has the same too.
        let mut last: Option<(&IndexState, Arc<Conditions>)> = None;
        for place in &places {
            let Some(shard) = place.index.shards[place.number as usize].mounted() else {
                continue;
            };
            let conditions = match last.take() {
                Some((index, known)) if std::ptr::eq(index, &**place.index) => known,
                before => {
                    let own = self.conditions(ctx, place.index, &place.filters, matches, now_ms);
                    match before {
                        Some((_, known)) if *known == own => known,
                        _ => Arc::new(own),
                    }
                }
            };
            mounted.push((shard, Arc::clone(&conditions)));
            last = Some((place.index, conditions));
        }
        let mut opened = match mounted.is_empty() {
            true => Vec::new(),
            false => self.open_in_time(ctx, &mounted, wanted.is_held)?,
        }
        .into_iter();
        let mut of_mounted = mounted.iter().peekable();
        let mut addressed = Vec::with_capacity(places.len());
        for mut place in places {
            let slot = &place.index.shards[place.number as usize];
            let is_next = |(shard, _): &&(Arc<MountedShard>, _)| {
                slot.number == shard.number && place.index.metadata.uuid == *shard.uuid
            };
            let outcome = match of_mounted.next_if(is_next) {
                Some(_) => opened.next(),
                None => None,
            };
            match outcome {
                Some(Ok(Opened {
                    snapshot: None,
                    not_opened,
                    ..
                // For a tenant, a shard that a value pruned is not counted as skipped: neither the counts nor the
                // errors of a search may show which values other tenants have.
                })) if matches.is_some() && (ctx.scope.tenant_id().is_none() || not_opened.by_value == 0) => {
                    place.left_out = not_opened;
                    skipped.push(place);
                }
                outcome => addressed.push(self.open_place(place, now_ms, outcome)),
            }
        }
        Ok(addressed)
    }

    /// Opens mounted shards. Splits that have not arrived when the time of the search is over are left out, and the
    /// answer is marked as timed out. Shards held for later pages must be complete or fail: those pages have a time
    /// limit of their own.
    fn open_in_time(
        &self,
        ctx: &RequestContext,
        mounted: &[(Arc<MountedShard>, Arc<Conditions>)],
        is_held: bool,
    ) -> Result<Vec<Result<Opened>>> {
        let opened = metered(ctx, || self.mounts.open_mounted(mounted, ctx.waiting()))?;
        let whole = |opened: Result<Opened>| match opened {
            Ok(opened) if opened.is_late && is_held => {
                let reason = "the search timed out before the shard was opened";
                Err(Error::new(ErrorKind::Timeout, reason))
            }
            opened => opened,
        };
        Ok(opened.into_iter().map(whole).collect())
    }

    /// Makes one shard searchable. `opened` is the result of opening it, if it is mounted.
    fn open_place(&self, place: SearchableShard<'_>, now_ms: i64, opened: Option<Result<Opened>>) -> Addressed {
        let SearchableShard {
            index,
            number,
            filters,
            tenant,
            left_out,
        } = place;
        let opened = opened.or_else(|| {
            let nothing = Opened {
                not_opened: left_out,
                ..Opened::default()
            };
            (left_out != NotOpened::default()).then_some(Ok(nothing))
        });
        let slot = &index.shards[number as usize];
        let is_part = match &opened {
            Some(Ok(opened)) => opened.not_opened.by_time + opened.not_opened.by_value > 0,
            Some(Err(_)) => false,
            None => slot.mounted().is_some(),
        };
        let (search, behind) = match self.searchable(index, slot, &filters, tenant, now_ms, opened) {
            Ok(shard) => (Ok(shard.search), shard.behind),
            Err(failed) => (Err(failed), None),
        };
        Addressed {
            slot: Arc::clone(slot),
            uuid: index.metadata.uuid.clone(),
            search,
            behind,
            is_part,
        }
    }

    fn searchable(
        &self,
        index: &IndexState,
        slot: &ShardSlot,
        filters: &[Query],
        tenant: Option<TenantRestriction>,
        now_ms: i64,
        opened: Option<Result<Opened>>,
    ) -> Result<Searchable, FailedShard> {
        let failed = |error: Error| FailedShard {
            index: index.name.to_string(),
            shard: slot.number,
            error,
        };
        let shard = match slot.served().map_err(failed)? {
            Served::Written(shard) => shard,
            Served::Mounted(shard) => {
                slot.searched_ms.store(now_ms, Ordering::Relaxed);
                let opened = opened.transpose().map_err(failed)?.unwrap_or_default();
                let snapshot = opened.snapshot.unwrap_or_else(|| shard.snapshot(Vec::new()));
                let search = self.shard_search(index, slot, snapshot, filters, tenant);
                return Ok(Searchable {
                    search: ShardSearch {
                        not_opened: opened.not_opened,
                        ..search
                    },
                    behind: None,
                });
            }
        };
        // The periodic refresh skips an index without searches, so its first search refreshes it (search idle of
        // Elasticsearch). Searches that arrive meanwhile wait for that refresh.
        let idle = is_search_idle(&view_of(slot, &shard), &policy_of(&self.node.config, index), now_ms);
        let mut behind = None;
        if idle && index.metadata.settings.refresh_interval_ms.is_some() && shard.needs_refresh() {
            behind = slot.refresh(now_ms).err();
        }
        // Set only now: an earlier value would make concurrent searches skip the wait.
        slot.searched_ms.store(now_ms, Ordering::Relaxed);
        // A shard that stopped no longer refreshes: writes since its last refresh are acknowledged, but missing from
        // the answer.
        if behind.is_none() && shard.needs_refresh() {
            behind = shard.failure();
        }
        let is_closed = behind
            .as_ref()
            .is_some_and(|error| error.kind() == ErrorKind::IndexClosed);
        if is_closed && slot.was_moved(&shard) {
            return self.searchable(index, slot, filters, tenant, now_ms, None);
        }
        Ok(Searchable {
            search: self.shard_search(index, slot, shard.snapshot(), filters, tenant),
            behind: behind.map(|error| failed(for_readers(error.with_index(&*index.name)))),
        })
    }

    pub(super) fn shard_search(
        &self,
        index: &IndexState,
        slot: &ShardSlot,
        snapshot: Arc<ShardSnapshot>,
        filters: &[Query],
        tenant: Option<TenantRestriction>,
    ) -> ShardSearch {
        let settings = &index.metadata.settings;
        ShardSearch {
            snapshot,
            mapping: Arc::clone(&index.metadata.mapping),
            filters: filters.to_vec(),
            tenant_field: settings.tenant_field.as_deref().map(Arc::from),
            tenant,
            max_result_window: settings.max_result_window,
            max_inner_result_window: settings.max_inner_result_window,
            max_analyzed_offset: settings.max_analyzed_offset,
            default_fields: settings.query_default_fields.clone(),
            cache: Some(ShardCache::new(&self.request_cache, &slot.cache_account)),
            caches_by_default: settings.request_cache,
            first_segment: None,
            not_opened: NotOpened::default(),
        }
    }
}

/// Shard that may be searched.
struct SearchableShard<'a> {
    index: &'a Arc<IndexState>,
    number: u32,
    filters: Vec<Query>,
    tenant: Option<TenantRestriction>,
    /// If the shard was left out: why its segments were.
    left_out: NotOpened,
}

impl SearchableShard<'_> {
    fn slot(&self) -> &ShardSlot {
        &self.index.shards[self.number as usize]
    }
}

/// Refuses a tenant's routing to other shards than its own. Such a routing would show which tenants share a shard.
fn check_routing(ctx: &RequestContext, routing: &[String]) -> Result<()> {
    let Some(tenant) = ctx.scope.tenant_id() else {
        return Ok(());
    };
    match routing.iter().find(|routing| *routing != tenant.as_str()) {
        Some(other) => Err(foreign_routing(other, tenant.as_str())),
        None => Ok(()),
    }
}

/// Returns the error for a routing that differs from the tenant of the document.
pub(crate) fn foreign_routing(routing: &str, tenant: &str) -> Error {
    Error::illegal_argument(format!(
        "routing [{routing}] is refused: the documents are routed by their tenant [{tenant}]"
    ))
}

/// Returns the documents of an index that a request may see: `Some(None)` all, `None` none.
pub(super) fn restriction(ctx: &RequestContext, index: &IndexState) -> Option<Option<TenantRestriction>> {
    let Some(tenant) = ctx.scope.tenant_id() else {
        return Some(None);
    };
    let field = index.metadata.settings.tenant_field.as_deref()?;
    Some(Some(TenantRestriction {
        field: field.into(),
        tenant: tenant.clone(),
    }))
}

/// Fails if documents are missing and the request does not allow partial results.
pub(super) fn check_behind(addressed: &[Addressed], allow_partial: bool) -> Result<()> {
    let first = addressed.iter().find_map(|shard| shard.behind.as_ref());
    match first {
        Some(failed) if !allow_partial => Err(failed.error.clone()),
        _ => Ok(()),
    }
}

pub(super) type Parts = (
    Vec<Arc<ShardSlot>>,
    Vec<Result<ShardSearch, FailedShard>>,
    Vec<FailedShard>,
);

/// Splits addressed shards into slots, searchable or failed shards, and those with missing documents.
pub(super) fn split(addressed: Vec<Addressed>) -> Parts {
    let mut parts = Parts::default();
    for shard in addressed {
        parts.0.push(shard.slot);
        parts.1.push(shard.search);
        parts.2.extend(shard.behind);
    }
    parts
}

fn check_docvalue_fields(fields: &[FieldSpec], index: &IndexState) -> Result<()> {
    let (count, max) = (fields.len() as u64, index.metadata.settings.max_docvalue_fields);
    if count > max {
        return Err(Error::illegal_argument(format!(
            "Trying to retrieve too many docvalue_fields. Must be less than or equal to: [{max}] but was [{count}]. \
             This limit can be set by changing the [index.max_docvalue_fields_search] index level setting."
        ))
        .with_index(&*index.name));
    }
    Ok(())
}

/// Shard ready to be searched.
struct Searchable {
    search: ShardSearch,
    /// Why acknowledged documents are missing from it.
    behind: Option<FailedShard>,
}

/// Returns the shard numbers that routing selects, in order: the routing of the request, that of the alias, or the
/// intersection of both; for a tenant's request, only shards of that tenant.
fn shard_numbers(
    target: &ResolvedIndex,
    routing: &[String],
    tenant: Option<&TenantRestriction>,
    index: &IndexMetadata,
) -> Vec<u32> {
    let of_values = |values: &mut dyn Iterator<Item = &str>| {
        let mut numbers: Vec<u32> = values.flat_map(|value| index.shards_of_routing(value)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let routed = match (routing.is_empty(), target.routing.is_empty()) {
        (true, true) => None,
        (false, true) => Some(of_values(&mut routing.iter().map(String::as_str))),
        (true, false) => Some(of_values(&mut target.routing.iter().map(String::as_str))),
        (false, false) => {
            let both = routing.iter().filter(|value| target.routing.contains(value));
            Some(of_values(&mut both.map(String::as_str)))
        }
    };
    let own = tenant.map(|tenant| index.shards_of_routing(tenant.tenant.as_str()));
    match (routed, own) {
        (None, None) => (0..index.settings.number_of_shards).collect(),
        (Some(numbers), None) | (None, Some(numbers)) => numbers,
        (Some(numbers), Some(own)) => numbers.into_iter().filter(|number| own.contains(number)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use firn_model::metadata::{Command, Metadata};
    use firn_model::placement::Placement;
    use firn_model::routing::shard_for;
    use firn_model::tenant::TenantId;
    use serde_json::json;

    use super::*;

    /// An index of 8 shards where the tenant `big` has two dedicated shards.
    fn index() -> Arc<IndexMetadata> {
        let table = json!({"number_of_shards": 8, "tenants": {"big": [2, 5]}});
        let commands = [
            Command::PutPlacement {
                placement: Some(Placement::parse(&table).unwrap()),
            },
            Command::CreateIndex {
                name: "logs".to_owned(),
                settings: json!({"index.number_of_shards": 8, "index.tenant.field": "tenant"}),
                mappings: None,
                aliases: None,
            },
        ];
        let metadata = commands
            .iter()
            .fold(Arc::new(Metadata::default()), |metadata, command| {
                metadata.apply(command, 0, &mut || "uuid".to_owned()).unwrap().0
            });
        Arc::clone(&metadata.indices["logs"])
    }

    #[test]
    fn routing_picks_shards() {
        let index = index();
        let target = |routing: &[&str]| ResolvedIndex {
            name: "logs".to_owned(),
            filters: Vec::new(),
            routing: routing.iter().map(|text| (*text).to_owned()).collect(),
        };
        let numbers = |alias: &[&str], request: &[&str]| {
            let request: Vec<_> = request.iter().map(|text| (*text).to_owned()).collect();
            shard_numbers(&target(alias), &request, None, &index)
        };
        assert_eq!(numbers(&[], &[]), (0..8).collect::<Vec<_>>());
        assert_eq!(numbers(&[], &["a"]), vec![shard_for("a", 8)]);
        assert_eq!(numbers(&["a"], &[]), vec![shard_for("a", 8)]);
        assert_eq!(numbers(&["a", "b"], &["b"]), vec![shard_for("b", 8)]);
        assert_eq!(numbers(&["a"], &["b"]), Vec::<u32>::new());
        assert_eq!(numbers(&[], &["big"]), vec![2, 5]);
    }

    #[test]
    fn a_tenant_reads_its_own_shards() {
        let index = index();
        let target = ResolvedIndex {
            name: "logs".to_owned(),
            filters: Vec::new(),
            routing: Vec::new(),
        };
        let numbers = |tenant: &str, routing: &[&str]| {
            let restriction = TenantRestriction {
                field: "tenant".into(),
                tenant: TenantId::parse(tenant).unwrap(),
            };
            let routing: Vec<_> = routing.iter().map(|text| (*text).to_owned()).collect();
            shard_numbers(&target, &routing, Some(&restriction), &index)
        };
        assert_eq!(numbers("a", &[]), vec![shard_for("a", 8)]);
        assert_eq!(numbers("big", &[]), vec![2, 5]);
        assert_eq!(numbers("big", &["big"]), vec![2, 5]);
        let foreign = (0..)
            .map(|n| n.to_string())
            .find(|other| shard_for(other, 8) == 0)
            .unwrap();
        assert_eq!(numbers("big", &[&foreign]), Vec::<u32>::new());
    }
}
