//! Layout decision: computes a layout and its reasons from facts. Sends no requests and reads no clock.

use std::collections::BTreeMap;

use firn_lifecycle::placement::{Proposal, TenantVolume, propose};
use firn_model::period::Period;
use serde::Serialize;

use super::cost::Cost;

/// Stored bytes of a shard: large enough that a search needs few shards, small enough that a merge or move takes
/// minutes. Elasticsearch recommends 10 to 50 GB.
const SHARD_BYTES_TARGET: f64 = 20e9;
/// Write rate of one shard, about half of what a core was measured to write.
const SHARD_EVENTS_PER_SECOND: f64 = 20_000.0;
/// The busiest second of a day, relative to the mean one.
const BUSIEST_BY_MEAN: f64 = 3.0;
/// Maximum of shards on a node: each has open files and memory. `cluster.max_shards_per_node` of Elasticsearch is the
/// same.
const TOTAL_SHARDS_MAX: f64 = 1000.0;
/// Only whole indices are dropped, so up to one period more than the retention is kept: at most a quarter of it.
const RETENTION_PARTS_MIN: f64 = 4.0;
/// Smaller differences are within the measurement error: the shorter period wins.
const DIFFERENCE_MIN: f64 = 0.05;
const DAY_SECONDS: f64 = 86_400.0;
/// Tenants with fewer events give no useful measurements.
pub(super) const SMALL_EVENTS_MIN: u64 = 300;

/// A tenant's volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Tenant {
    pub(super) tenant: String,
    pub(super) events: u64,
    /// Total time of its searches, ms; 0 without a traffic record.
    #[serde(rename = "asked_ms")]
    pub(super) search_ms: f64,
}

/// Facts about the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Facts {
    /// The largest first; tenants beyond the limit of the list are missing.
    pub(super) tenants: Vec<Tenant>,
    /// Approximate number of all tenants.
    pub(super) tenant_count: u64,
    pub(super) events: u64,
    /// Stored bytes.
    pub(super) bytes: u64,
    /// Days between the first event and the last.
    pub(super) days: f64,
    /// Events of the busiest day.
    pub(super) busiest_day_events: u64,
    /// How long events are kept, if that is configured.
    pub(super) retention_days: Option<f64>,
    /// Usual time range of searches.
    pub(super) question_days: f64,
    /// Measured costs of searches.
    pub(super) costs: Costs,
}

/// Costs by kind of search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Costs {
    pub(super) sample: Cost,
    pub(super) histogram: Cost,
}

/// A period with its expected values, and the reason if it is refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Candidate {
    pub(super) period: &'static str,
    pub(super) shards: u32,
    /// Stored bytes of one shard when its period is over.
    pub(super) shard_bytes: f64,
    /// Shards that a search for one tenant reads.
    pub(super) shards_searched: f64,
    /// Shards at the end of the retention.
    #[serde(rename = "shards_kept")]
    pub(super) total_shards: f64,
    /// Expected time for the middle tenant, from the measured costs.
    pub(super) sample_ms: f64,
    pub(super) histogram_ms: f64,
    pub(super) refused: Option<Refused>,
}

/// The rule that refuses a candidate, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Refused {
    /// It would keep events too long.
    Retention(String),
    /// It would need too many shards.
    Shards(String),
}

/// The recommendation and its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Advice {
    pub(super) period: &'static str,
    pub(super) shards: u32,
    /// By tenant; a tenant that is missing is placed by its hash.
    pub(super) placement: BTreeMap<String, Vec<u32>>,
    pub(super) reasons: Vec<Reason>,
    pub(super) candidates: Vec<Candidate>,
}

/// A rule that influenced the decision, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub(super) rule: &'static str,
    pub(super) because: String,
}

/// Returns the tenants to measure, with a word for their size: of the tenants with enough events the largest, the
/// middle and the smallest, each once. The largest is always included; without any tenant the result is empty.
pub(super) fn sizes(tenants: &[Tenant]) -> Vec<(&'static str, &Tenant)> {
    let large_enough = large_enough(tenants);
    let names: &[(&'static str, usize)] = match large_enough.len() {
        0 => &[],
        1 => &[("large", 0)],
        2 => &[("large", 0), ("small", 1)],
        count => &[("large", 0), ("middle", count / 2), ("small", count - 1)],
    };
    names
        .iter()
        .map(|(size, position)| (*size, &large_enough[*position]))
        .collect()
}

/// Returns the tenants with enough events, the largest first; only the largest of all if none has enough.
fn large_enough(tenants: &[Tenant]) -> &[Tenant] {
    let count = tenants
        .iter()
        .take_while(|tenant| tenant.events >= SMALL_EVENTS_MIN)
        .count();
    match count {
        0 => &tenants[..tenants.len().min(1)],
        count => &tenants[..count],
    }
}

/// Computes the recommendation. `None`: there is no tenant.
pub(super) fn advise(facts: &Facts) -> Option<Advice> {
    let large_enough = large_enough(&facts.tenants);
    let middle = large_enough.get(large_enough.len() / 2)?;
    let candidates: Vec<Candidate> = Period::ALL
        .into_iter()
        .map(|period| candidate(facts, middle, period))
        .collect();
    let time = |candidate: &Candidate| candidate.sample_ms + candidate.histogram_ms;
    let mut chosen: Option<&Candidate> = None;
    // The shortest first: a longer one has to be clearly better.
    for candidate in candidates.iter().filter(|candidate| candidate.refused.is_none()) {
        if chosen.is_none_or(|chosen| time(candidate) < time(chosen) * (1.0 - DIFFERENCE_MIN)) {
            chosen = Some(candidate);
        }
    }
    // If every period needs more shards than a node should have, the one with the fewest shards is chosen.
    let keeps = |candidate: &&Candidate| !matches!(candidate.refused, Some(Refused::Retention(_)));
    let by_shards = |a: &&Candidate, b: &&Candidate| a.total_shards.total_cmp(&b.total_shards);
    let chosen = chosen.or_else(|| candidates.iter().filter(keeps).min_by(by_shards))?;
    // With one shard there is nothing to place.
    let proposal = (chosen.shards > 1).then(|| propose(&loads(facts), chosen.shards, None));
    let mut reasons = vec![
        period_reason(facts, &candidates, chosen),
        shards_reason(facts, chosen),
        Reason {
            rule: "shards searched",
            because: format!(
                "a tenant's events of a period are in one shard, so a search over {:.0} days reads {:.1} shards",
                facts.question_days, chosen.shards_searched
            ),
        },
    ];
    if facts.retention_days.is_none() {
        reasons.push(Reason {
            rule: "retention",
            because: "the retention is unknown (set --retention-days); the recommendation assumes one year".to_owned(),
        });
    }
    reasons.push(placement_reason(facts, proposal.as_ref()));
    Some(Advice {
        period: chosen.period,
        shards: chosen.shards,
        placement: proposal.map(|proposal| proposal.placement.tenants).unwrap_or_default(),
        reasons,
        candidates,
    })
}

fn candidate(facts: &Facts, middle: &Tenant, period: Period) -> Candidate {
    let days = period_days(period);
    let retention_days = facts.retention_days.unwrap_or(365.0);
    let bytes = facts.bytes as f64 / facts.days.max(1.0) * days;
    let by_bytes = (bytes / SHARD_BYTES_TARGET).ceil();
    let shards = by_bytes.max(shards_to_write(facts)).max(1.0);
    // A window begins somewhere within a period, and so overlaps one more than fits into it.
    let shards_searched = facts.question_days / days + 1.0;
    let events = middle.events as f64 / facts.days.max(1.0) * facts.question_days;
    let total_shards = shards * (retention_days / days + 1.0);
    let refused = if retention_days < days * RETENTION_PARTS_MIN && period != Period::Day {
        Some(Refused::Retention(format!(
            "the deletion of whole indices would keep up to {:.0} % more than {retention_days:.0} days",
            days / retention_days * 100.0
        )))
    } else if total_shards > TOTAL_SHARDS_MAX {
        Some(Refused::Shards(format!(
            "{total_shards:.0} shards are more than the maximum of {TOTAL_SHARDS_MAX:.0} on a node"
        )))
    } else {
        None
    };
    Candidate {
        period: period.name(),
        shards: shards as u32,
        shard_bytes: bytes / shards,
        shards_searched,
        total_shards,
        sample_ms: facts.costs.sample.of(shards_searched, events),
        histogram_ms: facts.costs.histogram.of(shards_searched, events),
        refused,
    }
}

/// Returns the shards that the write rate of the busiest second needs.
fn shards_to_write(facts: &Facts) -> f64 {
    let busiest = facts.busiest_day_events as f64 / DAY_SECONDS * BUSIEST_BY_MEAN;
    (busiest / SHARD_EVENTS_PER_SECOND).ceil()
}

fn period_days(period: Period) -> f64 {
    match period {
        Period::Day => 1.0,
        Period::Week => 7.0,
        Period::TwoWeeks => 14.0,
        Period::Month => 365.25 / 12.0,
    }
}

/// Returns the load of each tenant. Its stored bytes are estimated from its events.
fn loads(facts: &Facts) -> Vec<TenantVolume> {
    let event_bytes = facts.bytes as f64 / (facts.events as f64).max(1.0);
    let load = |tenant: &Tenant| TenantVolume {
        tenant: tenant.tenant.clone(),
        documents: tenant.events,
        bytes: (tenant.events as f64 * event_bytes) as u64,
        search_cost: (tenant.search_ms * 1000.0) as u64,
    };
    facts.tenants.iter().map(load).collect()
}

fn period_reason(facts: &Facts, candidates: &[Candidate], chosen: &Candidate) -> Reason {
    let mut because = format!(
        "with a {} per index, a search over {:.0} days of the middle tenant should take {:.2} ms (sample) and {:.2} ms \
         (histogram)",
        chosen.period.replace('_', " "),
        facts.question_days,
        chosen.sample_ms,
        chosen.histogram_ms
    );
    for other in candidates.iter().filter(|other| other.period != chosen.period) {
        because.push_str(&match &other.refused {
            Some(Refused::Retention(reason) | Refused::Shards(reason)) => format!("; {}: {reason}", other.period),
            None => format!(
                "; {}: {:.2} and {:.2} ms",
                other.period, other.sample_ms, other.histogram_ms
            ),
        });
    }
    Reason {
        rule: "period",
        because,
    }
}

fn shards_reason(facts: &Facts, chosen: &Candidate) -> Reason {
    let to_write = shards_to_write(facts);
    let because = match f64::from(chosen.shards) {
        shards if shards > 1.0 && to_write >= shards => format!(
            "the busiest day has {} events; a shard writes {SHARD_EVENTS_PER_SECOND:.0} per second",
            facts.busiest_day_events
        ),
        _ => format!(
            "a shard grows to {} MB in its period; one of up to {:.0} GB merges in minutes",
            crate::ingest::grouped((chosen.shard_bytes / 1e6).ceil() as u64),
            SHARD_BYTES_TARGET / 1e9
        ),
    };
    Reason {
        rule: "shard count",
        because,
    }
}

fn placement_reason(facts: &Facts, proposal: Option<&Proposal>) -> Reason {
    let because = match proposal {
        None => "one shard holds every tenant of a period: there is nothing to place".to_owned(),
        Some(proposal) => format!(
            "{} of {} tenants are placed, the others use their hash: the fullest shard gets {:.0} % of the mean \
             instead of {:.0} %",
            proposal.placement.tenants.len(),
            facts.tenant_count,
            proposal.after.max_over_mean * 100.0,
            proposal.before.max_over_mean * 100.0
        ),
    };
    Reason {
        rule: "placement",
        because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(shard_ms: f64) -> Cost {
        Cost {
            base_ms: 0.2,
            shard_ms,
            event_ms: 0.0,
        }
    }

    /// 20 tenants, each with 9 % less than the one before.
    fn facts(events_per_day: f64, event_bytes: f64, retention_days: f64, shard_ms: f64) -> Facts {
        let days = 21.0;
        let events = events_per_day * days;
        let tenant = |number: i32| Tenant {
            tenant: format!("tenant-{number:02}"),
            events: (events * 0.1 * 0.91_f64.powi(number)) as u64,
            search_ms: 0.0,
        };
        Facts {
            tenants: (0..20).map(tenant).collect(),
            tenant_count: 20,
            events: events as u64,
            bytes: (events * event_bytes) as u64,
            days,
            busiest_day_events: events_per_day as u64,
            retention_days: Some(retention_days),
            question_days: 21.0,
            costs: Costs {
                sample: cost(shard_ms),
                histogram: cost(shard_ms),
            },
        }
    }

    #[track_caller]
    fn check(facts: &Facts, period: &str, shards: u32) -> Advice {
        let advice = advise(facts).unwrap();
        assert_eq!((advice.period, advice.shards), (period, shards), "{advice:#?}");
        advice
    }

    #[test]
    fn longer_periods_win_as_far_as_retention_allows() {
        check(&facts(1e5, 300.0, 365.0, 0.1), "month", 1);
        check(&facts(1e5, 300.0, 90.0, 0.1), "two_weeks", 1);
        check(&facts(1e5, 300.0, 30.0, 0.1), "week", 1);
        check(&facts(1e5, 300.0, 7.0, 0.1), "day", 1);
    }

    #[test]
    fn where_shards_cost_nothing_the_shortest_period_is_enough() {
        check(&facts(1e5, 300.0, 365.0, 0.0), "day", 1);
    }

    #[test]
    fn shards_grow_with_bytes_and_with_the_rate() {
        // 30 GB a day: 210 in a week.
        let advice = check(&facts(1e8, 300.0, 30.0, 0.1), "week", 11);
        assert!(
            advice
                .candidates
                .iter()
                .all(|candidate| candidate.shard_bytes <= SHARD_BYTES_TARGET)
        );
        // Small events, but 35,000 per second in the busiest second.
        check(&facts(1e9, 1.0, 30.0, 0.1), "week", 2);
    }

    #[test]
    fn too_many_shards_are_refused() {
        let advice = check(&facts(1e7, 300.0, 3650.0, 0.0), "two_weeks", 3);
        let refused = |number: usize| matches!(advice.candidates[number].refused, Some(Refused::Shards(_)));
        assert_eq!([0, 1, 2, 3].map(refused), [true, true, false, false]);
        // A hundred terabytes are too many in any period.
        let advice = check(&facts(1e8, 300.0, 3650.0, 0.0), "two_weeks", 21);
        assert!(advice.candidates.iter().all(|candidate| candidate.refused.is_some()));
    }

    #[test]
    fn large_tenants_are_placed_and_questions_weigh() {
        let mut facts = facts(1e8, 300.0, 30.0, 0.1);
        let quiet = advise(&facts).unwrap();
        assert!(!quiet.placement.is_empty());
        assert_eq!(quiet.reasons.last().unwrap().rule, "placement");
        // A tenant with most of the search time is heavy even with few events, and is not spread if it has few.
        facts.tenants[19].search_ms = 1e6;
        let busy = advise(&facts).unwrap();
        assert_ne!(busy.placement, quiet.placement);
        assert!(busy.placement.get("tenant-19").is_none_or(|shards| shards.len() == 1));
    }

    #[test]
    fn tenants_with_few_events_are_not_measured() {
        let check = |events: &[u64], expect: &[(&str, u64)], middle: u64| {
            let mut facts = facts(1e5, 300.0, 365.0, 0.1);
            facts.costs.sample = Cost {
                base_ms: 0.0,
                shard_ms: 0.0,
                event_ms: 1.0,
            };
            let tenant = |events: &u64| Tenant {
                tenant: format!("of-{events}"),
                events: *events,
                search_ms: 0.0,
            };
            facts.tenants = events.iter().map(tenant).collect();
            let found: Vec<(&str, u64)> = sizes(&facts.tenants)
                .into_iter()
                .map(|(size, tenant)| (size, tenant.events))
                .collect();
            assert_eq!(found, expect);
            // All days are searched, so the search reads as many events as the middle tenant has.
            let expected_ms = advise(&facts).unwrap().candidates[0].sample_ms;
            assert_eq!(expected_ms.round() as u64, middle);
        };
        check(
            &[71_514, 45_004, 100, 1, 1],
            &[("large", 71_514), ("small", 45_004)],
            45_004,
        );
        check(
            &[900, 800, 700, 600, 5],
            &[("large", 900), ("middle", 700), ("small", 600)],
            700,
        );
        check(
            &[900, 800, 700],
            &[("large", 900), ("middle", 800), ("small", 700)],
            800,
        );
        check(&[900, 1], &[("large", 900)], 900);
        check(&[7, 1], &[("large", 7)], 7);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn nothing_is_advised_about_nothing() {
        let mut facts = facts(1e5, 300.0, 365.0, 0.1);
        facts.tenants.clear();
        assert_eq!(advise(&facts), None);
    }
}
