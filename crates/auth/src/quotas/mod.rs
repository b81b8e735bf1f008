//! Usage meters of tenants, and checks against their quotas.
//!
//! Pure: the quotas, the time and the stored bytes are arguments, so a changed quota applies from the next request on.
//! [`Meters`] has one entry for each tenant that ever sent a request.

mod bucket;
mod rate;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use firn_model::tenant::{Quotas, TenantId};
use firn_model::{Error, ErrorKind};
use parking_lot::Mutex;
use serde_json::json;

use self::bucket::Bucket;
use self::rate::Rate;

/// Retry time after too many searches: one may end at any moment.
const SEARCHES_RETRY: Duration = Duration::from_secs(1);
/// Retry time after too many stored bytes: retention or an operator has to act.
const STORED_RETRY: Duration = Duration::from_secs(60);

/// Quota that a tenant exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// Name of the quota, as in its declaration.
    pub quota: &'static str,
    /// Its value.
    pub limit: u64,
    /// Time until a retry.
    pub retry_after: Duration,
}

impl Exceeded {
    /// Returns the retry time in whole seconds, at least one.
    pub fn retry_after_seconds(&self) -> u64 {
        let seconds = self.retry_after.as_secs() + u64::from(self.retry_after.subsec_nanos() > 0);
        seconds.max(1)
    }

    /// Creates the error of a refused request.
    pub fn error(&self, tenant: &TenantId) -> Error {
        let seconds = self.retry_after_seconds();
        let Self { quota, limit, .. } = self;
        let reason = format!(
            "quota [{quota}] of tenant [{tenant}] is used up: its limit is [{limit}], try again in [{seconds}s]"
        );
        let details = json!({"quota": quota, "limit": limit, "retry_after_seconds": seconds});
        let error = Error::new(ErrorKind::QuotaExceeded, reason);
        match details {
            serde_json::Value::Object(details) => error.with_details(details),
            _ => error,
        }
    }
}

/// Ingest of a tenant, as measured at the edge.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ingest {
    /// Events accepted since the start.
    pub events: u64,
    /// Bytes of these events.
    pub bytes: u64,
    /// Recent events per second.
    pub events_per_second: f64,
    /// Recent bytes per second.
    pub bytes_per_second: f64,
    /// Requests refused because of a quota since the start.
    pub refused: u64,
}

/// Meters of all tenants.
#[derive(Debug, Default)]
pub struct Meters {
    tenants: Mutex<HashMap<TenantId, Meter>>,
}

#[derive(Debug)]
struct Meter {
    events: Bucket,
    bytes: Bucket,
    searches: Arc<AtomicU32>,
    event_rate: Rate,
    byte_rate: Rate,
    events_total: u64,
    bytes_total: u64,
    refused: u64,
}

impl Meter {
    fn new() -> Self {
        Self {
            events: Bucket::new(),
            bytes: Bucket::new(),
            searches: Arc::default(),
            event_rate: Rate::default(),
            byte_rate: Rate::default(),
            events_total: 0,
            bytes_total: 0,
            refused: 0,
        }
    }

    fn check_ingest(&mut self, quotas: &Quotas, stored_bytes: u64, now: Instant) -> Result<(), Exceeded> {
        let exceeded = |quota, limit| {
            move |retry_after| Exceeded {
                quota,
                limit,
                retry_after,
            }
        };
        if let Some(limit) = quotas.stored_bytes.filter(|limit| stored_bytes >= *limit) {
            return Err(exceeded("stored_bytes", limit)(STORED_RETRY));
        }
        if let Some(limit) = quotas.ingest_events_per_second {
            let refused = exceeded("ingest_events_per_second", limit);
            self.events.check(limit, now).map_err(refused)?;
        }
        if let Some(limit) = quotas.ingest_bytes_per_second {
            let refused = exceeded("ingest_bytes_per_second", limit);
            self.bytes.check(limit, now).map_err(refused)?;
        }
        Ok(())
    }
}

/// Permit of a running search; dropping it ends the search.
#[derive(Debug)]
pub struct SearchPermit(Arc<AtomicU32>);

impl Drop for SearchPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Meters {
    /// Admits a write with its number of events and bytes, or refuses all of it. `stored_bytes`: bytes that the tenant
    /// has stored already.
    pub fn admit_ingest(
        &self,
        tenant: &TenantId,
        quotas: &Quotas,
        stored_bytes: u64,
        (events, bytes): (u64, u64),
        now: Instant,
    ) -> Result<(), Exceeded> {
        let mut tenants = self.tenants.lock();
        let meter = tenants.entry(tenant.clone()).or_insert_with(Meter::new);
        if let Err(exceeded) = meter.check_ingest(quotas, stored_bytes, now) {
            meter.refused += 1;
            return Err(exceeded);
        }
        // The rates are counted without a limit too: a limit that is set later applies to recent use.
        if quotas.ingest_events_per_second.is_some() {
            meter.events.take(events);
        }
        if quotas.ingest_bytes_per_second.is_some() {
            meter.bytes.take(bytes);
        }
        meter.events_total += events;
        meter.bytes_total += bytes;
        meter.event_rate.add(events, now);
        meter.byte_rate.add(bytes, now);
        Ok(())
    }

    /// Refuses a write of a tenant that has used its quotas up, before anything is done for it. It is counted by
    /// [`Meters::admit_ingest`] once its events are known.
    pub fn check_ingest(
        &self,
        tenant: &TenantId,
        quotas: &Quotas,
        stored_bytes: u64,
        now: Instant,
    ) -> Result<(), Exceeded> {
        let mut tenants = self.tenants.lock();
        let meter = tenants.entry(tenant.clone()).or_insert_with(Meter::new);
        let checked = meter.check_ingest(quotas, stored_bytes, now);
        meter.refused += u64::from(checked.is_err());
        checked
    }

    /// Admits a search, or refuses it.
    pub fn admit_search(&self, tenant: &TenantId, quotas: &Quotas) -> Result<SearchPermit, Exceeded> {
        let mut tenants = self.tenants.lock();
        let meter = tenants.entry(tenant.clone()).or_insert_with(Meter::new);
        let running = meter.searches.load(Ordering::Relaxed);
        if let Some(limit) = quotas.concurrent_searches.filter(|limit| running >= *limit) {
            meter.refused += 1;
            return Err(Exceeded {
                quota: "concurrent_searches",
                limit: limit.into(),
                retry_after: SEARCHES_RETRY,
            });
        }
        // It is incremented only here, under the lock.
        meter.searches.fetch_add(1, Ordering::Relaxed);
        Ok(SearchPermit(Arc::clone(&meter.searches)))
    }

    /// Returns the ingest of a tenant.
    pub fn ingest(&self, tenant: &TenantId, now: Instant) -> Ingest {
        let tenants = self.tenants.lock();
        tenants
            .get(tenant)
            .map_or_else(Ingest::default, |meter| meter.ingest(now))
    }

    /// Resets the meters of a tenant. Its running searches are no longer counted.
    pub fn forget(&self, tenant: &TenantId) {
        self.tenants.lock().remove(tenant);
    }

    /// Returns the ingest of all tenants that have sent anything.
    pub fn all_ingest(&self, now: Instant) -> Vec<(TenantId, Ingest)> {
        let tenants = self.tenants.lock();
        let each = tenants
            .iter()
            .map(|(tenant, meter)| (tenant.clone(), meter.ingest(now)));
        each.collect()
    }
}

impl Meter {
    fn ingest(&self, now: Instant) -> Ingest {
        Ingest {
            events: self.events_total,
            bytes: self.bytes_total,
            events_per_second: self.event_rate.per_second(now),
            bytes_per_second: self.byte_rate.per_second(now),
            refused: self.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[test]
    fn a_tenant_that_is_forgotten_begins_anew() {
        let (meters, now) = (Meters::default(), Instant::now());
        let quotas = Quotas {
            concurrent_searches: Some(1),
            ..Quotas::default()
        };
        for name in ["a", "b"] {
            meters.admit_ingest(&tenant(name), &quotas, 0, (3, 30), now).unwrap();
        }
        let running = meters.admit_search(&tenant("a"), &quotas).unwrap();
        meters.forget(&tenant("a"));
        assert_eq!(meters.ingest(&tenant("a"), now), Ingest::default());
        assert_eq!(meters.ingest(&tenant("b"), now).events, 3);
        let anew = meters.admit_search(&tenant("a"), &quotas).unwrap();
        drop(running);
        assert!(
            meters.admit_search(&tenant("a"), &quotas).is_err(),
            "another one's has ended"
        );
        drop(anew);
    }

    #[test]
    fn each_quota_is_named_with_its_value() {
        let (meters, now, a) = (Meters::default(), Instant::now(), tenant("a"));
        let check = |quotas: Quotas, stored, name: &str| {
            let meters = Meters::default();
            meters.admit_ingest(&a, &quotas, stored, (50, 5000), now).ok();
            let refused = meters.admit_ingest(&a, &quotas, stored, (1, 1), now).unwrap_err();
            let error = refused.error(&a);
            assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
            assert!(error.reason().starts_with(name), "{error}");
            assert_eq!(meters.ingest(&tenant("b"), now), Ingest::default());
            refused.retry_after_seconds()
        };
        let none = Quotas::default();
        let by_events = Quotas {
            ingest_events_per_second: Some(10),
            ..none
        };
        // 50 events, of which 20 are the burst: the debt is 30.
        assert_eq!(
            check(
                by_events,
                0,
                "quota [ingest_events_per_second] of tenant [a] is used up: its limit is [10]"
            ),
            4
        );
        let by_bytes = Quotas {
            ingest_bytes_per_second: Some(1000),
            ..none
        };
        assert_eq!(
            check(
                by_bytes,
                0,
                "quota [ingest_bytes_per_second] of tenant [a] is used up: its limit is [1000]"
            ),
            4
        );
        let by_store = Quotas {
            stored_bytes: Some(70),
            ..none
        };
        assert_eq!(
            check(
                by_store,
                70,
                "quota [stored_bytes] of tenant [a] is used up: its limit is [70]"
            ),
            60
        );
        for _ in 0..1000 {
            meters
                .admit_ingest(&a, &none, 1 << 40, (1 << 30, 1 << 40), now)
                .unwrap();
        }
        assert_eq!(meters.ingest(&a, now).events, 1000 << 30);
    }

    #[test]
    fn searches_are_counted_while_they_run() {
        let (meters, a) = (Meters::default(), tenant("a"));
        let two = Quotas {
            concurrent_searches: Some(2),
            ..Quotas::default()
        };
        let first = meters.admit_search(&a, &two).unwrap();
        let _second = meters.admit_search(&a, &two).unwrap();
        let refused = meters.admit_search(&a, &two).unwrap_err();
        assert_eq!(
            (refused.quota, refused.limit, refused.retry_after_seconds()),
            ("concurrent_searches", 2, 1)
        );
        let _other = meters.admit_search(&tenant("b"), &two).unwrap();
        // A raised quota applies at once, and so does a quota below the number of running searches.
        let third = meters
            .admit_search(
                &a,
                &Quotas {
                    concurrent_searches: Some(3),
                    ..two
                },
            )
            .unwrap();
        drop((first, third));
        assert!(
            meters
                .admit_search(
                    &a,
                    &Quotas {
                        concurrent_searches: Some(1),
                        ..two
                    }
                )
                .is_err()
        );
        meters.admit_search(&a, &two).unwrap();
    }
}
