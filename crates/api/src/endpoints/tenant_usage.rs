//! `GET /_firn/tenants/{id}/usage`, and the same for all tenants in `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use firn_auth::Ingest;
use firn_engine::{Error, ErrorKind, TenantUsage};
use firn_model::tenant::TenantId;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::accounts::UsageByName;
use crate::state::disclosure;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Maximum tenants with separate series in `/metrics`: every label costs storage in the monitoring system. The other
/// tenants share one series.
const LABELLED_MAX: usize = 100;
/// Label of the other tenants; no tenant's name starts with `_`.
const OTHERS: &str = "_other";

/// `GET /_firn/tenants/{id}/usage`.
pub(crate) async fn usage(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = TenantId::parse(call.capture("id"))?;
    if !disclosure::shows_usage(&call.ctx.scope, &id) || !edge.knows_tenant(&id) {
        // A tenant gets the same answer whether or not another tenant exists.
        return Err(Error::new(ErrorKind::ResourceNotFound, format!("tenant [{id}] is not declared")).into());
    }
    let now = call.ctx.started;
    let used = edge.usage(now).await?.require()?;
    Ok(Reply::ok(&print(&edge, &id, &used, now)))
}

/// Returns the usage of a tenant as JSON. The caller passes in the usage of all tenants, so a list of tenants computes
/// it once.
pub(crate) fn print(edge: &Edge, id: &TenantId, used: &UsageByName, now: Instant) -> Value {
    let none = TenantUsage::none(id.as_str());
    let used = used.get(id.as_str()).unwrap_or(&none);
    let ingest = edge.accounts.meters.ingest(id, now);
    json!({
        "tenant": id.as_str(),
        "events": used.events,
        "stored_bytes": {
            "hot": used.by_tier.hot,
            "warm": used.by_tier.warm,
            "cold": used.by_tier.cold,
            "frozen": used.by_tier.frozen,
            "total": used.by_tier.total(),
        },
        "ingest": {
            "events_per_second": round(ingest.events_per_second),
            "bytes_per_second": round(ingest.bytes_per_second),
            "events_total": ingest.events,
            "bytes_total": ingest.bytes,
        },
        "search_cpu_ms": used.search_cpu.as_millis() as u64,
        "write_cpu_ms": used.write_cpu.as_millis() as u64,
        "cache_bytes": used.cache_bytes,
        "requests_refused_by_quota": ingest.refused,
    })
}

fn round(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// Metrics of one tenant.
#[derive(Clone)]
struct TenantLine {
    tenant: String,
    used: TenantUsage,
    ingest: Ingest,
}

impl TenantLine {
    fn add(&mut self, other: &Self) {
        self.used.events += other.used.events;
        self.used.stored_bytes += other.used.stored_bytes;
        self.used.by_tier += other.used.by_tier;
        self.used.cache_bytes += other.used.cache_bytes;
        self.used.search_cpu += other.used.search_cpu;
        self.used.write_cpu += other.used.write_cpu;
        self.ingest.events += other.ingest.events;
        self.ingest.bytes += other.ingest.bytes;
        self.ingest.refused += other.ingest.refused;
    }
}

/// Appends the series of the tenants to `/metrics`.
pub(crate) async fn write_metrics(edge: &Edge, call: &Call, text: &mut String) -> Result<(), ApiError> {
    let now = call.ctx.started;
    let used = edge.usage(now).await?.known();
    let is_measured = used.is_some();
    let used = used.unwrap_or_default();
    let mut ingest: std::collections::BTreeMap<TenantId, Ingest> =
        edge.accounts.meters.all_ingest(now).into_iter().collect();
    let mut lines: Vec<TenantLine> = used
        .values()
        .map(|used| TenantLine {
            tenant: used.tenant.to_string(),
            ingest: TenantId::parse(&used.tenant)
                .ok()
                .and_then(|id| ingest.remove(&id))
                .unwrap_or_default(),
            used: used.clone(),
        })
        .collect();
    lines.extend(ingest.into_iter().map(|(id, ingest)| TenantLine {
        tenant: id.to_string(),
        used: TenantUsage::none(id.as_str()),
        ingest,
    }));
    let lines = bounded(lines);
    if is_measured {
        write_lines(&lines, USAGE_FAMILIES, text);
    }
    write_lines(&lines, INGEST_FAMILIES, text);
    Ok(())
}

/// Returns the tenants with most events, and the sum of all others.
fn bounded(mut lines: Vec<TenantLine>) -> Vec<TenantLine> {
    lines.sort_by(|left, right| (right.used.events, &left.tenant).cmp(&(left.used.events, &right.tenant)));
    let rest = lines.split_off(lines.len().min(LABELLED_MAX));
    if let Some((first, more)) = rest.split_first() {
        let mut others = TenantLine {
            tenant: OTHERS.to_owned(),
            ..first.clone()
        };
        for line in more {
            others.add(line);
        }
        lines.push(others);
    }
    lines
}

/// Family of series: name, kind, help, value.
type Family = (&'static str, &'static str, &'static str, fn(&TenantLine) -> f64);

/// Usage as the engine measures it.
const USAGE_FAMILIES: &[Family] = &[
    (
        "firn_tenant_events",
        "gauge",
        "Searchable live events of the tenants with most events, and of all others together.",
        |line| line.used.events as f64,
    ),
    (
        "firn_tenant_stored_bytes",
        "gauge",
        "Bytes on local disks, attributed by share of documents.",
        |line| line.used.by_tier.local() as f64,
    ),
    (
        "firn_tenant_frozen_bytes",
        "gauge",
        "Bytes in snapshot repositories of indices mounted as shared_cache, by share of documents.",
        |line| line.used.by_tier.frozen as f64,
    ),
    ("firn_tenant_cache_bytes", "gauge", "Bytes in caches.", |line| {
        line.used.cache_bytes as f64
    }),
    (
        "firn_tenant_search_cpu_seconds_total",
        "counter",
        "CPU time of searches.",
        |line| line.used.search_cpu.as_secs_f64(),
    ),
    (
        "firn_tenant_write_cpu_seconds_total",
        "counter",
        "CPU time of writes.",
        |line| line.used.write_cpu.as_secs_f64(),
    ),
];

/// What this process counted.
const INGEST_FAMILIES: &[Family] = &[
    (
        "firn_tenant_ingested_events_total",
        "counter",
        "Events ingested.",
        |line| line.ingest.events as f64,
    ),
    (
        "firn_tenant_ingested_bytes_total",
        "counter",
        "Bytes of requests with events.",
        |line| line.ingest.bytes as f64,
    ),
    (
        "firn_tenant_quota_refusals_total",
        "counter",
        "Requests refused because a quota was exceeded.",
        |line| line.ingest.refused as f64,
    ),
];

fn write_lines(lines: &[TenantLine], families: &[Family], text: &mut String) {
    if lines.is_empty() {
        return;
    }
    for (name, kind, help, value) in families {
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for line in lines {
            let _ = writeln!(text, "{name}{{tenant=\"{}\"}} {}", escaped(&line.tenant), value(line));
        }
    }
}

/// Escapes a label value: events may contain values that are no valid tenant names.
fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_series_is_bounded() {
        let lines: Vec<TenantLine> = (0..250)
            .map(|number| TenantLine {
                tenant: format!("t{number}"),
                used: TenantUsage {
                    events: number,
                    ..TenantUsage::none("t")
                },
                ingest: Ingest::default(),
            })
            .collect();
        let mut text = String::new();
        write_lines(&bounded(lines), USAGE_FAMILIES, &mut text);
        let events: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("firn_tenant_events{"))
            .collect();
        assert_eq!(events.len(), LABELLED_MAX + 1);
        assert_eq!(events[0], r#"firn_tenant_events{tenant="t249"} 249"#);
        let rest: u64 = (0..150).sum();
        assert_eq!(
            events[LABELLED_MAX],
            format!(r#"firn_tenant_events{{tenant="_other"}} {rest}"#)
        );
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
