//! Routing of bulk items to indices and shards.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkItemResponse, Operation};
use firn_model::ids::{AutoId, problem_of_length};
use firn_model::metadata::{Command, resolve_write};
use firn_model::names::{WriteTarget, is_read_only_for_tenants, resolve_date_math};
use firn_model::routing::shard_for;
use firn_model::{Error, ErrorKind, Result};

use super::progress::Progress;
use super::service::WriteService;
use super::tenant_resolution::{Located, locate, owner_of};
use super::{periods, tenant_routing};
use crate::node::state::{IndexState, ShardSlot, State};

/// Consecutive documents that go to the same shard if firn generates their ids: long enough that a
/// shard's batch is worth its lock, short enough that one bulk uses several shards.
const AUTO_ID_RUN: u64 = 512;

/// Items of one shard, in the order of the body.
pub(super) struct Group {
    pub(super) index: Arc<IndexState>,
    pub(super) slot: Arc<ShardSlot>,
    pub(super) items: Vec<Planned>,
}

/// Item and its routing.
pub(super) struct Planned {
    /// Position in the bulk.
    pub(super) position: usize,
    /// Routing of the item or of its alias; the tenant, if events are held by tenant.
    pub(super) routing: Option<String>,
    /// Key of the document in the shard, if it differs from the id.
    pub(super) key: Option<String>,
}

/// Write targets of the names in a bulk; missing indices are created.
pub(super) struct Targets {
    by_name: HashMap<String, Result<WriteTarget>>,
    /// By position, for events with an index by time; otherwise empty.
    by_time: Vec<Option<Result<Arc<str>>>>,
}

/// Distributes documents with generated ids over the shards of their index, run by run.
pub(super) struct Rounds {
    first_shard: u64,
    made_count: u64,
}

impl Rounds {
    /// Starts at another shard than the previous bulk.
    pub(super) fn new(writes: &WriteService) -> Self {
        Self {
            first_shard: writes.next_shard.fetch_add(1, Ordering::Relaxed),
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
    /// Resolves all names; creates missing indices that may be created.
    pub(super) fn new(writes: &WriteService, scope: &Scope, items: &[BulkItem]) -> Self {
        let mut by_name: HashMap<String, Result<WriteTarget>> = HashMap::new();
        // By name: whether some item may create the index.
        let mut names: BTreeMap<&str, bool> = BTreeMap::new();
        // Most items name the same index as the previous one.
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
            by_name.insert(name.to_owned(), resolve_or_make(writes, scope, name, makes));
        }
        let by_time = periods::place(writes, items, &by_name);
        Self { by_name, by_time }
    }

    fn find<'a>(&'a self, name: &str, state: &'a State) -> Result<(&'a WriteTarget, &'a Arc<IndexState>)> {
        let target = self.by_name.get(name).ok_or_else(|| Error::index_not_found(name))?;
        let target = target.as_ref().map_err(Error::clone)?;
        Ok((target, state.index(&target.index)?))
    }

    /// Whether an item's name was resolved, and a missing index may be created for it.
    pub(super) fn may_make(&self, item: &BulkItem) -> bool {
        makes(item) && self.by_name.get(&item.index).is_some_and(Result::is_ok)
    }

    /// Returns the index of an item that is routed by time.
    fn by_time(&self, position: usize) -> Option<&Result<Arc<str>>> {
        self.by_time.get(position)?.as_ref()
    }
}

/// Whether an item creates its index if that is missing.
fn makes(item: &BulkItem) -> bool {
    !item.require_alias && !matches!(item.operation, Operation::Delete)
}

fn resolve_or_make(writes: &WriteService, scope: &Scope, name: &str, makes: bool) -> Result<WriteTarget> {
    let now_ms = writes.node.now_ms();
    let check = |target: WriteTarget| match scope.tenant_id() {
        Some(_) if is_read_only_for_tenants(&target.index) => Err(read_only(name)),
        _ => Ok(target),
    };
    let resolve = || resolve_write(name, &writes.node.view(&writes.node.state(), scope), now_ms).and_then(check);
    match resolve() {
        Err(error) if error.kind() == ErrorKind::IndexNotFound && makes => {
            let made = resolve_date_math(name, now_ms)?;
            if !scope.allows_name(&made) {
                return Err(error);
            }
            if scope.tenant_id().is_some() && is_read_only_for_tenants(&made) {
                return Err(read_only(name));
            }
            writes.devices.hot.check(name)?;
            writes.commands.execute(Command::AutoCreate {
                name: made,
                tenant: scope.tenant_id().cloned(),
            })?;
            resolve()
        }
        resolved => resolved,
    }
}

fn read_only(name: &str) -> Error {
    Error::new(ErrorKind::Forbidden, format!("only firn writes to [{name}]"))
}

/// Groups the items at some positions by shard. Items that cannot be planned get an error response.
pub(super) fn plan(
    writes: &WriteService,
    scope: &Scope,
    items: &[BulkItem],
    positions: &[usize],
    targets: &Targets,
    rounds: &mut Rounds,
    progress: &mut Progress,
) -> Vec<Group> {
    let state = writes.node.state();
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
            check(writes, item, target, index)?;
            let place = place_of(scope, item, target, index, rounds)?;
            tenant_routing::check_open(place.1.as_deref(), index, &state.metadata)?;
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

/// Returns the response of an item that never reached a shard.
fn refused(item: &BulkItem, error: Error) -> BulkItemResponse {
    BulkItemResponse {
        index: item.index.clone(),
        id: item.id.clone().unwrap_or_default(),
        result: Err(error),
    }
}

fn check(writes: &WriteService, item: &BulkItem, target: &WriteTarget, index: &IndexState) -> Result<()> {
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
        return Err(crate::node::state::closed_error(&index.name));
    }
    if index.metadata.settings.write_blocked {
        return Err(crate::node::state::write_blocked_error(&index.name));
    }
    writes.devices.check_room(&index.metadata)?;
    check_id(item)
}

/// Returns Elasticsearch's error for a write that requires an alias, whether the name is an index or nothing.
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
        Some(id) => match problem_of_length(id) {
            Some(problem) => Err(Error::illegal_argument(problem)),
            None => Ok(()),
        },
    }
}

fn source_is_whole(item: &BulkItem) -> bool {
    super::progress::source_of(item).is_some()
}

/// Returns an item's shard, routing, and key.
fn place_of(
    scope: &Scope,
    item: &BulkItem,
    target: &WriteTarget,
    index: &IndexState,
    rounds: &mut Rounds,
) -> Result<(u32, Option<String>, Option<String>)> {
    let routing = given_routing(item, target)?;
    // An index by time is resolved outside of the view, which applies to the name of its data stream.
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
        // Without its owner, it is unknown which document an event with such an id replaces.
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

/// Returns the routing of an item or of the alias that it names.
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

/// Returns the error for an id that needs a routing.
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

/// Returns the shard of an id written without routing: an id that firn generated for this index contains
/// the shard.
pub(crate) fn shard_of_id(id: &str, index: &IndexState) -> u32 {
    let shard_count = index.shards.len() as u32;
    match AutoId::decode(id) {
        Some(made) if made.index_tag == index.tag && u32::from(made.shard) < shard_count => u32::from(made.shard),
        _ => shard_for(id, shard_count),
    }
}
