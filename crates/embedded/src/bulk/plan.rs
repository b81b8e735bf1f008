//! Which index and shard each item goes to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkItemResponse, Operation};
use firn_model::ids::AutoId;
use firn_model::metadata::Command;
use firn_model::names::{WriteTarget, resolve_date_math, resolve_write};
use firn_model::routing::shard_for;
use firn_model::{Error, ErrorKind, Result};

use super::owner::{Located, locate, owner_of};
use super::{Progress, periods, tenant};
use crate::engine::Core;
use crate::engine::state::{IndexState, ShardSlot, State};

/// Elasticsearch's limit for ids.
const ID_BYTES_MAX: usize = 512;

/// Documents in a row that go to the same shard if firn makes their ids: long enough that a
/// shard's batch is worth its lock, short enough that one bulk spreads.
const AUTO_ID_RUN: u64 = 512;

/// Items of one shard, in the order of the body.
pub(super) struct Group {
    pub(super) index: Arc<IndexState>,
    pub(super) slot: Arc<ShardSlot>,
    pub(super) items: Vec<Planned>,
}

/// One item and where it goes.
pub(super) struct Planned {
    /// In the bulk.
    pub(super) position: usize,
    /// Its own, or its alias's; where events are held by tenant, its tenant.
    pub(super) routing: Option<String>,
    /// What the shard knows the document by, if that is not its id.
    pub(super) key: Option<String>,
}

/// Where each name of a bulk leads; missing indices are made on the way.
pub(super) struct Targets {
    by_name: HashMap<String, Result<WriteTarget>>,
    /// By position, where events have an index by their time; else empty.
    by_time: Vec<Option<Result<Arc<str>>>>,
}

/// Spreads documents with made ids over the shards of their index, run by run.
pub(super) struct Rounds {
    first_shard: u64,
    made_count: u64,
}

impl Rounds {
    /// Begins where the bulk before this one did not.
    pub(super) fn new(core: &Core) -> Self {
        Self {
            first_shard: core.next_shard.fetch_add(1, Ordering::Relaxed),
            made_count: 0,
        }
    }

    fn next(&mut self, shard_count: u32) -> u32 {
        let run = self.made_count / AUTO_ID_RUN;
        self.made_count += 1;
        ((self.first_shard + run) % u64::from(shard_count)) as u32
    }
}

impl Targets {
    /// Resolves all names, making what is missing and may be made.
    pub(super) fn new(core: &Core, scope: &Scope, items: &[BulkItem]) -> Self {
        let mut by_name: HashMap<String, Result<WriteTarget>> = HashMap::new();
        // By name: whether some item may make it.
        let mut names: BTreeMap<&str, bool> = BTreeMap::new();
        // Most items name the index of the item before them, and there is nothing new to say.
        let mut last: Option<(&str, bool)> = None;
        for item in items {
            let makes = makes(item);
            if last.is_some_and(|(name, made)| name == item.index && (made || !makes)) {
                continue;
            }
            let made = names.entry(&item.index).or_default();
            *made |= makes;
            last = Some((&item.index, *made));
        }
        for (name, makes) in names {
            by_name.insert(name.to_owned(), resolve_or_make(core, scope, name, makes));
        }
        let by_time = periods::place(core, items, &by_name);
        Self { by_name, by_time }
    }

    fn find<'a>(&'a self, name: &str, state: &'a State) -> Result<(&'a WriteTarget, &'a Arc<IndexState>)> {
        let target = self.by_name.get(name).ok_or_else(|| Error::index_not_found(name))?;
        let target = target.as_ref().map_err(Error::clone)?;
        Ok((target, state.index(&target.index)?))
    }

    /// Whether an item's name led to an index, and one that is missing may be made for it.
    pub(super) fn may_make(&self, item: &BulkItem) -> bool {
        makes(item) && self.by_name.get(&item.index).is_some_and(Result::is_ok)
    }

    /// The index of an item that has one by its time.
    fn by_time(&self, position: usize) -> Option<&Result<Arc<str>>> {
        self.by_time.get(position)?.as_ref()
    }
}

/// Whether an item makes its index if that is missing.
fn makes(item: &BulkItem) -> bool {
    !item.require_alias && !matches!(item.operation, Operation::Delete)
}

fn resolve_or_make(core: &Core, scope: &Scope, name: &str, makes: bool) -> Result<WriteTarget> {
    let now_ms = core.now_ms();
    let resolve = || resolve_write(name, &core.view(&core.state(), scope), now_ms);
    match resolve() {
        Err(error) if error.kind() == ErrorKind::IndexNotFound && makes => {
            let made = resolve_date_math(name, now_ms)?;
            if !scope.allows_name(&made) {
                return Err(error);
            }
            core.disk_watch.check(name)?;
            core.execute(Command::AutoCreate {
                name: made,
                tenant: scope.tenant_id().cloned(),
            })?;
            resolve()
        }
        resolved => resolved,
    }
}

/// Groups items at some positions by shard. Items that cannot be planned are answered.
pub(super) fn plan(
    core: &Core,
    scope: &Scope,
    items: &[BulkItem],
    positions: &[usize],
    targets: &Targets,
    rounds: &mut Rounds,
    progress: &mut Progress,
) -> Vec<Group> {
    let state = core.state();
    let mut groups: Vec<Group> = Vec::new();
    // For each concrete index the groups of its shards, by number.
    let mut tables: Vec<Vec<Option<usize>>> = Vec::new();
    let mut table_by_index: HashMap<&str, usize> = HashMap::new();
    // Most bulks name one index many times.
    let mut last: Option<(&str, &WriteTarget, &Arc<IndexState>, usize)> = None;
    for &position in positions {
        let item = &items[position];
        let by_time = targets.by_time(position);
        let found = match (last, by_time) {
            (Some((name, target, index, table)), None) if name == item.index && targets.by_time.is_empty() => {
                Ok((target, index, table))
            }
            (Some((name, target, index, table)), Some(Ok(at))) if name == item.index && *at == index.name => {
                Ok((target, index, table))
            }
            _ => targets.find(&item.index, &state).and_then(|(target, index)| {
                let index = match by_time {
                    Some(at) => state.index(at.as_ref().map_err(Error::clone)?)?,
                    None => index,
                };
                let table = *table_by_index.entry(&*index.name).or_insert_with(|| {
                    tables.push(vec![None; index.shards.len()]);
                    tables.len() - 1
                });
                Ok((target, index, table))
            }),
        };
        let found = found.map_err(|error| match error.kind() {
            ErrorKind::IndexNotFound if item.require_alias => no_alias(&item.index),
            _ => error,
        });
        let planned = found.and_then(|(target, index, table)| {
            last = Some((&item.index, target, index, table));
            check(core, item, target, index)?;
            let place = place_of(scope, item, target, index, rounds)?;
            tenant::check_open(place.1.as_deref(), index, &state.metadata)?;
            Ok((index, table, place))
        });
        let (index, table, (number, routing, key)) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                progress.responses[position] = Some(refused(item, error));
                continue;
            }
        };
        let group = *tables[table][number as usize].get_or_insert_with(|| {
            groups.push(Group {
                index: Arc::clone(index),
                slot: Arc::clone(&index.shards[number as usize]),
                items: Vec::new(),
            });
            groups.len() - 1
        });
        groups[group].items.push(Planned { position, routing, key });
    }
    groups
}

/// The answer of an item that never reached a shard.
fn refused(item: &BulkItem, error: Error) -> BulkItemResponse {
    BulkItemResponse {
        index: item.index.clone(),
        id: item.id.clone().unwrap_or_default(),
        result: Err(error),
    }
}

fn check(core: &Core, item: &BulkItem, target: &WriteTarget, index: &IndexState) -> Result<()> {
    let name = &item.index;
    if item.require_alias && !target.through_alias {
        return Err(no_alias(name));
    }
    if item.require_data_stream && !target.through_data_stream {
        return Err(Error::new(
            ErrorKind::IndexNotFound,
            format!(
                "no such index [{name}] and [require_data_stream] request flag is [true] and [{name}] is not a data stream"
            ),
        )
        .with_index(name));
    }
    if target.through_data_stream && !matches!(item.operation, Operation::Create { .. }) {
        return Err(Error::illegal_argument(
            "only write ops with an op_type of create are allowed in data streams",
        ));
    }
    if index.metadata.closed {
        return Err(crate::engine::state::closed_error(&index.name));
    }
    if index.metadata.settings.write_blocked {
        return Err(crate::engine::state::write_blocked_error(&index.name));
    }
    core.check_room(&index.metadata)?;
    check_id(item)
}

/// Elasticsearch's words for a write that must go through an alias, whether an index has its name or nothing.
fn no_alias(name: &str) -> Error {
    Error::new(
        ErrorKind::IndexNotFound,
        format!("no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias"),
    )
    .with_index(name)
}

fn check_id(item: &BulkItem) -> Result<()> {
    match &item.id {
        None if source_is_whole(item) => Ok(()),
        None => Err(Error::illegal_argument("an id is required for updates and deletes")),
        Some(id) if id.is_empty() => Err(Error::illegal_argument("if _id is specified it must not be empty")),
        Some(id) if id.len() > ID_BYTES_MAX => Err(Error::illegal_argument(format!(
            "id [{id}] is too long, must be no longer than {ID_BYTES_MAX} bytes but was: {}",
            id.len()
        ))),
        Some(_) => Ok(()),
    }
}

fn source_is_whole(item: &BulkItem) -> bool {
    super::source_of(item).is_some()
}

/// An item's shard, routing, and key.
fn place_of(
    scope: &Scope,
    item: &BulkItem,
    target: &WriteTarget,
    index: &IndexState,
    rounds: &mut Rounds,
) -> Result<(u32, Option<String>, Option<String>)> {
    let routing = given_routing(item, target)?;
    // An index of a data stream by time is found past the view, which holds for its name.
    if scope
        .tenant_id()
        .is_some_and(|tenant| !index.metadata.settings.is_for(tenant))
    {
        return Err(Error::index_not_found(&item.index));
    }
    let Some(field) = &index.metadata.settings.tenant_field else {
        check_required(item, routing, index)?;
        return Ok((shard_of(item, routing, index, rounds), routing.map(str::to_owned), None));
    };
    let owner = owner_of(scope, item, routing, index, field)?;
    let located = match (&item.id, owner.as_deref()) {
        // Only its owner says which document an event with such an id replaces.
        (Some(id), None) if source_is_whole(item) => return Err(routing_missing(index, id)),
        (Some(id), owner) => locate(index, owner, id)?,
        (None, Some(owner)) => Located {
            shard: index.metadata.shard_of_routed(owner, |count| rounds.next(count)),
            key: None,
        },
        (None, None) => Located {
            shard: rounds.next(index.shards.len() as u32),
            key: None,
        },
    };
    Ok((located.shard, owner, located.key))
}

/// The routing of an item or of the alias that it names.
fn given_routing<'a>(item: &'a BulkItem, target: &'a WriteTarget) -> Result<Option<&'a str>> {
    match (&item.routing, &target.routing) {
        (Some(given), Some(alias)) if given != alias => Err(Error::illegal_argument(format!(
            "Alias [{}] has index routing associated with it [{alias}], and was provided with routing value [{given}], \
             rejecting operation",
            item.index
        ))),
        (Some(routing), _) | (None, Some(routing)) => Ok(Some(routing)),
        (None, None) => Ok(None),
    }
}

fn check_required(item: &BulkItem, routing: Option<&str>, index: &IndexState) -> Result<()> {
    match routing {
        None if index.metadata.mapping.routing_required => {
            Err(routing_missing(index, item.id.as_deref().unwrap_or("null")))
        }
        _ => Ok(()),
    }
}

/// The refusal of an id that says nothing without a routing.
pub(super) fn routing_missing(index: &IndexState, id: &str) -> Error {
    Error::new(
        ErrorKind::RoutingMissing,
        format!("routing is required for [{}]/[{id}]", index.name),
    )
    .with_index(&*index.name)
}

fn shard_of(item: &BulkItem, routing: Option<&str>, index: &IndexState, rounds: &mut Rounds) -> u32 {
    match (routing, &item.id) {
        (Some(routing), Some(id)) => index.metadata.shard_of_routed_id(routing, id, index.tag),
        (Some(routing), None) => index.metadata.shard_of_routed(routing, |count| rounds.next(count)),
        (None, Some(id)) => shard_of_id(id, index),
        (None, None) => rounds.next(index.shards.len() as u32),
    }
}

/// The shard that holds an id written without routing: an id that firn made for this index says
/// so itself.
pub(crate) fn shard_of_id(id: &str, index: &IndexState) -> u32 {
    let shard_count = index.shards.len() as u32;
    match AutoId::decode(id) {
        Some(made) if made.index_tag == index.tag && u32::from(made.shard) < shard_count => u32::from(made.shard),
        _ => shard_for(id, shard_count),
    }
}
