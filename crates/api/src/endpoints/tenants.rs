//! `_firn/tenants`: what operators declare about tenants.
//!
//! ```text
//! PUT /_firn/tenants/acme
//! {"display_name": "Acme Corp", "retention": "30d",
//!  "quotas": {"ingest_events_per_second": 5000, "ingest_bytes_per_second": "10mb", "stored_bytes": "200gb",
//!             "concurrent_searches": 8, "search_cpu_share": 100}}
//! ```
//!
//! Settings that are absent are inherited from the tenant `_default`, which is none, only what all inherit.

use std::sync::Arc;

use firn_auth::{Control, TenantRecord};
use firn_engine::{Capability, Engine, Error, ErrorKind};
use firn_model::dates::{parse_duration_ms, print_exact_duration_ms};
use firn_model::metadata::Command;
use firn_model::settings::parse_bytes;
use firn_model::tenant::{Quotas, TenantId, TenantSettings};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::security::change;
use crate::endpoints::tenant_usage;
use crate::state::config::Security;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

/// Name of the settings that all tenants inherit. No tenant can have it.
const DEFAULTS: &str = "_default";

/// `GET /_firn/tenants`: lists all by name; with `usage=true` also the usage of each, which reads all shards once.
pub(crate) async fn list(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = control(&edge)?;
    let now = call.ctx.started;
    let used = match call.params.bool("usage", false)? {
        true => Some(edge.usage(now).await?.require()?),
        false => None,
    };
    let mut tenants = Vec::new();
    for tenant in control.tenants() {
        let mut printed = print(control, &tenant);
        if let Some(used) = &used {
            printed["usage"] = tenant_usage::print(&edge, &tenant.id, used, now);
        }
        tenants.push(printed);
    }
    Ok(Reply::ok(&json!({"tenants": tenants})))
}

/// `GET /_firn/tenants/{id}`: also for admins of the tenant.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = control(&edge)?;
    let name = call.capture("id");
    if name == DEFAULTS && call.identity.tenant().is_none() {
        let mut answer = json!({"id": DEFAULTS});
        print_settings(&mut answer, &control.tenant_defaults());
        return Ok(Reply::ok(&answer));
    }
    let id = TenantId::parse(name)?;
    call.identity.check_tenant(&id)?;
    let tenant = control
        .tenant(&id)
        .ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, format!("no tenant [{id}] is declared")))?;
    Ok(Reply::ok(&print(control, &tenant)))
}

/// `PUT /_firn/tenants/{id}`: declares a tenant, or replaces its declaration.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let settings = parse(call.object()?)?;
    check_enforceable(&*edge.engine, &settings.quotas)?;
    let name = call.capture("id");
    if name == DEFAULTS {
        let changed = Arc::clone(&control);
        change(move || changed.put_tenant_defaults(settings)).await?;
        set_cache_quotas(&control, &*edge.engine);
        return Ok(Reply::acknowledged());
    }
    let id = TenantId::parse(name)?;
    let reopen = Command::SetTenantClosed {
        tenant: id.as_str().to_owned(),
        closed: false,
    };
    let changed = Arc::clone(&control);
    let declared = id.clone();
    let created = change(move || changed.put_tenant(&declared, settings)).await?;
    set_cache_quotas(&control, &*edge.engine);
    // A tenant of this name may have been deleted before; from now on its events are accepted again.
    edge.engine.execute(&call.ctx, reopen).await?;
    if created {
        edge.forget_tenant(&id).await;
    }
    Ok(Reply::ok(&json!({"acknowledged": true, "created": created})))
}

/// Sets the tenants' quotas of the shared cache in the engine: at the start, and when operators change them.
///
/// An engine without [`Capability::Mounts`] gets none: a declaration with such a quota is refused, and one from before
/// the engine was replaced is logged.
pub fn set_cache_quotas(control: &Control, engine: &dyn Engine) {
    for tenant in control.tenants() {
        let settings = control.tenant_settings(&tenant.id);
        let bytes = settings.and_then(|settings| settings.quotas.shared_cache_bytes);
        match engine.mounts() {
            Some(mounts) => mounts.set_shared_cache_quota(&tenant.id, bytes),
            None if bytes.is_some() => {
                let error = Capability::Mounts.missing();
                tracing::warn!(tenant = %tenant.id, %error, "the quota of the shared cache is not enforced");
            }
            None => {}
        }
    }
}

/// Refuses quotas that the engine cannot enforce.
fn check_enforceable(engine: &dyn Engine, quotas: &Quotas) -> Result<(), Error> {
    let capabilities = engine.capabilities();
    let needed = [
        (quotas.stored_bytes.is_some(), Capability::TenantUsage),
        (quotas.shared_cache_bytes.is_some(), Capability::Mounts),
        (quotas.search_repository_bytes.is_some(), Capability::SearchCost),
    ];
    let mut needed = needed.into_iter().filter(|(is_set, _)| *is_set);
    needed.try_for_each(|(_, capability)| capabilities.require(capability))
}

/// Returns the store of tenants, which may exist also while security is off.
pub(crate) fn control(edge: &Edge) -> Result<&Arc<Control>, ApiError> {
    match &edge.config.security {
        Security::On(control) | Security::Off(Some(control)) => Ok(control),
        Security::Off(None) => Err(Error::not_implemented("declaring tenants without a data folder").into()),
    }
}

fn parse(object: Map<String, Value>) -> Result<TenantSettings, ApiError> {
    let mut fields = Fields::new("tenant", object);
    let mut settings = TenantSettings {
        display_name: fields.string("display_name")?,
        retention_ms: fields
            .string("retention")?
            .map(|text| parse_duration_ms(&text))
            .transpose()?,
        quotas: Quotas::default(),
    };
    if settings.retention_ms == Some(0) {
        return Err(Error::illegal_argument("[retention] must be longer than [0]: it would remove every event").into());
    }
    if let Some(quotas) = fields.object("quotas")? {
        settings.quotas = parse_quotas(quotas)?;
    }
    fields.finish()?;
    Ok(settings)
}

fn parse_quotas(object: Map<String, Value>) -> Result<Quotas, ApiError> {
    let mut fields = Fields::new("quotas", object);
    let quotas = Quotas {
        ingest_events_per_second: fields.number("ingest_events_per_second")?,
        ingest_bytes_per_second: bytes(&mut fields, "ingest_bytes_per_second")?,
        stored_bytes: bytes(&mut fields, "stored_bytes")?,
        concurrent_searches: small(&mut fields, "concurrent_searches", 0)?,
        search_cpu_share: small(&mut fields, "search_cpu_share", 1)?,
        search_repository_bytes: bytes(&mut fields, "search_repository_bytes")?,
        shared_cache_bytes: bytes(&mut fields, "shared_cache_bytes")?,
    };
    fields.finish()?;
    Ok(quotas)
}

/// Takes a number of bytes, or a size with its unit.
fn bytes(fields: &mut Fields, name: &str) -> Result<Option<u64>, ApiError> {
    Ok(match fields.take(name) {
        None => None,
        Some(Value::String(text)) => Some(parse_bytes(&text)?),
        Some(value) => Some(value.as_u64().ok_or_else(|| {
            Error::illegal_argument(format!(
                "[{name}] must be a number of bytes or a size like [10mb], not [{value}]"
            ))
        })?),
    })
}

/// Upper bound for numbers of searches or shares; larger ones make no sense on one machine.
const SMALL_MAX: u64 = 100_000;

fn small(fields: &mut Fields, name: &str, min: u64) -> Result<Option<u32>, ApiError> {
    let Some(number) = fields.number(name)? else {
        return Ok(None);
    };
    match u32::try_from(number) {
        Ok(small) if (min..=SMALL_MAX).contains(&number) => Ok(Some(small)),
        _ => Err(Error::illegal_argument(format!(
            "[{name}] must be between [{min}] and [{SMALL_MAX}], not [{number}]"
        ))
        .into()),
    }
}

/// Prints a tenant as declared, and under `effective` with inherited settings.
fn print(control: &Control, tenant: &TenantRecord) -> Value {
    let mut answer = json!({"id": tenant.id.as_str(), "created": tenant.created_ms});
    if let Some(since) = tenant.deleting_since_ms {
        answer["deleting_since"] = since.into();
    }
    print_settings(&mut answer, &tenant.settings);
    let mut effective = json!({});
    if let Some(settings) = control.tenant_settings(&tenant.id) {
        print_settings(&mut effective, &settings);
    }
    answer["effective"] = effective;
    answer
}

fn print_settings(answer: &mut Value, settings: &TenantSettings) {
    let quotas = &settings.quotas;
    let limits = [
        ("ingest_events_per_second", quotas.ingest_events_per_second),
        ("ingest_bytes_per_second", quotas.ingest_bytes_per_second),
        ("stored_bytes", quotas.stored_bytes),
        ("concurrent_searches", quotas.concurrent_searches.map(u64::from)),
        ("search_cpu_share", quotas.search_cpu_share.map(u64::from)),
        ("search_repository_bytes", quotas.search_repository_bytes),
        ("shared_cache_bytes", quotas.shared_cache_bytes),
    ];
    let limits: Map<String, Value> = limits
        .into_iter()
        .filter_map(|(name, limit)| Some((name.to_owned(), limit?.into())))
        .collect();
    if let Some(name) = &settings.display_name {
        answer["display_name"] = name.as_str().into();
    }
    if let Some(ms) = settings.retention_ms {
        answer["retention"] = print_exact_duration_ms(ms).into();
    }
    answer["quotas"] = limits.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Value) -> Result<Value, ApiError> {
        let Value::Object(object) = body else {
            panic!("an object")
        };
        let mut answer = json!({});
        print_settings(&mut answer, &parse(object)?);
        Ok(answer)
    }

    #[test]
    fn settings_are_printed_as_they_are_read() {
        let body = json!({
            "display_name": "Acme", "retention": "30d",
            "quotas": {"ingest_events_per_second": 5000, "stored_bytes": 1024, "search_cpu_share": 50},
        });
        assert_eq!(check(body.clone()).unwrap(), body);
        assert_eq!(check(json!({"retention": null})).unwrap(), json!({"quotas": {}}));
        let sized = check(json!({"quotas": {"ingest_bytes_per_second": "10mb"}})).unwrap();
        assert_eq!(sized["quotas"]["ingest_bytes_per_second"], 10 << 20);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for body in [
            json!({"retention": "0"}),
            json!({"retention": 5}),
            json!({"quota": {}}),
            json!({"quotas": {"events": 1}}),
            json!({"quotas": {"search_cpu_share": 0}}),
            json!({"quotas": {"stored_bytes": "ten"}}),
            json!({"quotas": {"concurrent_searches": -1}}),
        ] {
            assert!(check(body.clone()).is_err(), "{body}");
        }
    }
}
