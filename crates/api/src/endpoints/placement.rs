//! `_firn/placement`: which shards of future indices hold which tenants.

mod horizon;

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, TenantUsage};
use firn_lifecycle::placement::{Balance, Proposal, TenantVolume, propose};
use firn_model::metadata::{Command, Metadata};
use firn_model::placement::Placement;
use firn_model::routing::shard_for;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Default number of tenants that a proposal lists, the heaviest first.
const TENANTS_SHOWN: usize = 100;

/// `GET /_firn/placement`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    match &edge.metadata(&call).await?.placement {
        Some(placement) => Ok(Reply::ok(&placement.print())),
        None => Err(Error::new(
            ErrorKind::ResourceNotFound,
            "there is no placement table: the hash of a tenant selects its shard",
        )
        .into()),
    }
}

/// `PUT /_firn/placement`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let placement = Placement::parse(&call.required_json()?)?;
    store(&edge, &call, Some(placement)).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_firn/placement`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    store(&edge, &call, None).await?;
    Ok(Reply::acknowledged())
}

/// `POST /_firn/placement/_propose`: computes a placement table and changes nothing.
pub(crate) async fn propose_placement(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut request = PlacementRequest::read(call.object()?)?;
    request.refuse_rest()?;
    let measured = Measured::of(&edge, &call, &request).await?;
    let proposal = measured.propose();
    Ok(Reply::ok(&measured.print(&proposal, request.size)))
}

/// `POST /_firn/placement/_apply`: stores the current proposal, or the table in the body.
pub(crate) async fn apply(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.object()?;
    if body.contains_key("tenants") {
        let placement = Placement::parse(&Value::Object(body))?;
        let answer = applied(&placement);
        store(&edge, &call, Some(placement)).await?;
        return Ok(Reply::ok(&answer));
    }
    let mut request = PlacementRequest::read(body)?;
    request.refuse_rest()?;
    let proposal = Measured::of(&edge, &call, &request).await?.propose();
    let answer = applied(&proposal.placement);
    store(&edge, &call, Some(proposal.placement)).await?;
    Ok(Reply::ok(&answer))
}

fn applied(placement: &Placement) -> Value {
    json!({
        "acknowledged": true,
        "placement": placement.print(),
        "takes_effect": "in indices that are created from now on; nothing is indexed again",
    })
}

async fn store(edge: &Edge, call: &Call, placement: Option<Placement>) -> Result<(), ApiError> {
    edge.engine
        .execute(&call.ctx, Command::PutPlacement { placement })
        .await?;
    Ok(())
}

/// Options of a body.
struct PlacementRequest {
    number_of_shards: Option<u32>,
    size: usize,
    /// Only events of the last so many ms count; `None`: all.
    horizon_ms: Option<u64>,
    rest: Map<String, Value>,
}

impl PlacementRequest {
    fn read(mut body: Map<String, Value>) -> Result<Self, Error> {
        let horizon_ms = match body.remove("horizon") {
            None | Some(Value::Null) => None,
            Some(value) => Some(horizon::parse(&value)?),
        };
        let mut number = |name: &str, min: u64, max: u64| match body.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|number| (min..=max).contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(Error::illegal_argument(format!(
                    "[{name}] must be a number from {min} to {max}, not [{value}]"
                ))),
            },
        };
        Ok(Self {
            number_of_shards: number("number_of_shards", 2, 1024)?.map(|number| number as u32),
            size: number("size", 0, 10_000)?.map_or(TENANTS_SHOWN, |size| size as usize),
            horizon_ms,
            rest: body,
        })
    }

    fn refuse_rest(&mut self) -> Result<(), Error> {
        match self.rest.keys().next() {
            Some(unknown) => Err(Error::parsing(format!("[placement] unknown field [{unknown}]"))),
            None => Ok(()),
        }
    }
}

/// Volumes of the tenants, and the placement of the next index without a new table.
struct Measured {
    number_of_shards: u32,
    volumes: Vec<TenantVolume>,
    present: Option<Arc<Placement>>,
}

impl Measured {
    async fn of(edge: &Edge, call: &Call, request: &PlacementRequest) -> Result<Self, ApiError> {
        let metadata = edge.metadata(call).await?;
        let number_of_shards = match request.number_of_shards {
            Some(number) => number,
            None => usual_shards(&metadata)?,
        };
        let usage = edge.engine.tenant_usage(&call.ctx).await?.require()?;
        let mut volumes: Vec<TenantVolume> = usage
            .iter()
            .filter(|usage| usage.events > 0 || usage.stored_bytes > 0)
            .map(volume_of)
            .collect();
        if let Some(horizon_ms) = request.horizon_ms {
            let recent = horizon::events_since(edge, call, &metadata, horizon_ms).await?;
            horizon::narrow(&mut volumes, &recent);
        }
        Ok(Self {
            number_of_shards,
            volumes,
            present: metadata.placement.clone(),
        })
    }

    fn propose(&self) -> Proposal {
        propose(&self.volumes, self.number_of_shards, self.present.as_deref())
    }

    fn print(&self, proposal: &Proposal, size: usize) -> Value {
        let moved: Vec<Value> = proposal
            .moves
            .iter()
            .map(|step| {
                let mut tenant = print_volume(&step.volume);
                tenant["share_percent"] = percent(step.share);
                tenant["from"] = json!(step.from);
                tenant["to"] = json!(step.to);
                tenant["reason"] = json!(step.reason);
                tenant
            })
            .collect();
        let mut stay: Vec<&TenantVolume> = self
            .volumes
            .iter()
            .filter(|volume| !proposal.moves.iter().any(|step| step.volume.tenant == volume.tenant))
            .collect();
        stay.sort_by(|left, right| {
            right
                .bytes
                .cmp(&left.bytes)
                .then_with(|| left.tenant.cmp(&right.tenant))
        });
        let stays: Vec<Value> = stay
            .iter()
            .take(size)
            .map(|volume| {
                let mut tenant = print_volume(volume);
                let placed = proposal.placement.shards_of(&volume.tenant).map(<[u32]>::to_vec);
                tenant["shards"] =
                    json!(placed.unwrap_or_else(|| vec![shard_for(&volume.tenant, self.number_of_shards)]));
                tenant
            })
            .collect();
        json!({
            "number_of_shards": self.number_of_shards,
            "placement": proposal.placement.print(),
            "weighed_by": proposal.weighed_by,
            "moves": moved,
            "before": print_balance(&proposal.before),
            "after": print_balance(&proposal.after),
            "tenants_that_stay": {"count": stay.len(), "largest": stays},
        })
    }
}

/// Returns the number of shards of the newest index that stores events by tenant on more than one shard.
fn usual_shards(metadata: &Metadata) -> Result<u32, Error> {
    metadata
        .indices
        .values()
        .filter(|index| index.settings.tenant_field.is_some() && index.settings.number_of_shards > 1)
        .max_by(|left, right| (left.created_ms, &left.name).cmp(&(right.created_ms, &right.name)))
        .map(|index| index.settings.number_of_shards)
        .ok_or_else(|| {
            Error::illegal_argument(
                "no index holds events by tenant ([index.tenant.field]) on more than one shard: say for how many the \
                 placement is meant with [number_of_shards]",
            )
        })
}

fn volume_of(usage: &TenantUsage) -> TenantVolume {
    TenantVolume {
        tenant: usage.tenant.to_string(),
        documents: usage.events,
        bytes: usage.stored_bytes,
        search_cost: usage.search_cpu.as_micros() as u64,
    }
}

fn print_volume(volume: &TenantVolume) -> Value {
    json!({
        "tenant": volume.tenant,
        "documents": volume.documents,
        "bytes": volume.bytes,
        "search_cpu_ms": volume.search_cost / 1000,
    })
}

fn print_balance(balance: &Balance) -> Value {
    let shards: Vec<Value> = (0u32..)
        .zip(&balance.shards)
        .map(|(number, shard)| {
            json!({
                "shard": number,
                "share_percent": percent(shard.share),
                "bytes": shard.bytes as u64,
                "search_cpu_ms": (shard.search_cost / 1000.0) as u64,
                "tenants": shard.tenants,
            })
        })
        .collect();
    json!({
        "max_over_mean": rounded(balance.max_over_mean),
        "bytes_max_over_mean": rounded(balance.bytes_max_over_mean),
        "search_max_over_mean": rounded(balance.search_max_over_mean),
        "shards": shards,
    })
}

fn percent(share: f64) -> Value {
    rounded(share * 100.0)
}

/// Rounds to three decimal places.
fn rounded(number: f64) -> Value {
    json!((number * 1000.0).round() / 1000.0)
}
