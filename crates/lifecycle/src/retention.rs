//! Retention rules: whole backing indices of data streams with a lifecycle, and events of tenants with a retention.
//! Pure; [`crate::RetentionController`] executes the result.

use std::collections::{BTreeMap, BTreeSet};

use firn_model::metadata::{DataStream, Metadata};
use firn_model::tenant::TenantId;
use indexmap::IndexMap;
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;
/// Purging rewrites segments, and removing an event a day later is good enough.
const PURGE_EVERY_MS: i64 = DAY_MS;

/// Action that a data stream's lifecycle requires.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Due {
    /// Drop these backing indices: all their events are too old.
    Drop {
        /// The data stream.
        stream: String,
        /// Oldest first; never the write index.
        indices: Vec<String>,
        /// Events before this time are too old, ms since epoch UTC.
        before_ms: i64,
    },
    /// Roll over the data stream if the conditions are met.
    RollOver {
        /// The data stream.
        stream: String,
        /// Conditions as in `_rollover`; empty: roll over in any case.
        conditions: IndexMap<String, Value>,
    },
}

/// Returns the actions that the lifecycles of all data streams require now.
pub(crate) fn due(metadata: &Metadata, now_ms: i64) -> Vec<Due> {
    let mut due = Vec::new();
    for stream in metadata.data_streams.values() {
        let Some(lifecycle) = stream.lifecycle.as_ref().filter(|lifecycle| lifecycle.enabled) else {
            continue;
        };
        // As in Elasticsearch, the policy of an index takes precedence over the lifecycle.
        let has_policy = |name: &String| {
            let index = metadata.indices.get(name);
            index.is_some_and(|index| index.lifecycle_policy().is_some())
        };
        if metadata.period_of(stream).is_none() && !stream.indices.last().is_some_and(has_policy) {
            due.push(Due::RollOver {
                stream: stream.name.clone(),
                conditions: rollover_conditions(lifecycle.data_retention_ms),
            });
        }
        let Some(retention_ms) = lifecycle.data_retention_ms else {
            continue;
        };
        let before_ms = now_ms.saturating_sub_unsigned(retention_ms);
        let newest = stream.indices.last();
        let mut indices: Vec<String> = Vec::new();
        for (place, name) in stream.indices.iter().enumerate() {
            if has_policy(name) || end_ms(metadata, stream, place).is_none_or(|end_ms| end_ms > before_ms) {
                continue;
            }
            if newest == Some(name) {
                // The whole stream is too old. The last index stays until there is a current one.
                due.push(Due::RollOver {
                    stream: stream.name.clone(),
                    conditions: IndexMap::new(),
                });
            } else if metadata.write_index(stream, now_ms) != Some(name) {
                indices.push(name.clone());
            }
        }
        if !indices.is_empty() {
            due.push(Due::Drop {
                stream: stream.name.clone(),
                indices,
                before_ms,
            });
        }
    }
    due
}

/// Returns the time until which a backing index accepted events: the end of its period, or the creation of the next
/// index. `None`: it still accepts events.
fn end_ms(metadata: &Metadata, stream: &DataStream, place: usize) -> Option<i64> {
    let index = metadata.indices.get(&stream.indices[place])?;
    if let Some(range) = &index.settings.time_range_ms {
        return Some(range.end);
    }
    let next = metadata.indices.get(stream.indices.get(place + 1)?)?;
    Some(next.created_ms)
}

/// Returns the rollover conditions of a data stream without periods: Elasticsearch's
/// `cluster.lifecycle.default.rollover`, whose age depends on the retention.
fn rollover_conditions(retention_ms: Option<u64>) -> IndexMap<String, Value> {
    let days = |days: u64| days * DAY_MS as u64;
    let max_age = match retention_ms {
        Some(retention) if retention <= days(1) => "1h",
        Some(retention) if retention <= days(14) => "1d",
        Some(retention) if retention <= days(90) => "7d",
        _ => "30d",
    };
    [
        ("max_age", json!(max_age)),
        ("max_primary_shard_size", json!("50gb")),
        ("max_primary_shard_docs", json!(200_000_000)),
        ("min_docs", json!(1)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Last purge of each tenant's events.
#[derive(Debug, Default)]
pub(crate) struct TenantRetention {
    purged: BTreeMap<TenantId, Purged>,
}

#[derive(Debug)]
struct Purged {
    at_ms: i64,
    /// Indices that were closed at the purge, by name.
    closed: BTreeSet<String>,
}

impl TenantRetention {
    /// Returns the tenants to purge, with the time before which their events are too old. A tenant is due once a day,
    /// after a start, and if an index that was closed at its last purge `is_open` now. If the clock goes back, a tenant
    /// waits no longer than that.
    pub(crate) fn due(
        &mut self,
        tenants: &[(TenantId, u64)],
        is_open: &dyn Fn(&str) -> bool,
        now_ms: i64,
    ) -> Vec<(TenantId, i64)> {
        self.purged
            .retain(|tenant, _| tenants.iter().any(|(other, _)| other == tenant));
        let waits = |last: &Purged| {
            let day_ms = last.at_ms..last.at_ms.saturating_add(PURGE_EVERY_MS);
            day_ms.contains(&now_ms) && !last.closed.iter().any(|name| is_open(name))
        };
        tenants
            .iter()
            .filter(|(tenant, _)| !self.purged.get(tenant).is_some_and(waits))
            .map(|(tenant, retention_ms)| (tenant.clone(), now_ms.saturating_sub_unsigned(*retention_ms)))
            .collect()
    }

    /// Records that a tenant's old events are removed, except from closed indices.
    pub(crate) fn note_purged(&mut self, tenant: &TenantId, closed: BTreeSet<String>, now_ms: i64) {
        let purged = Purged { at_ms: now_ms, closed };
        self.purged.insert(tenant.clone(), purged);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firn_model::lifecycle::Lifecycle;
    use firn_model::metadata::{Command, RolloverFacts};

    use super::*;

    /// 2026-01-01, a Thursday.
    const NOW_MS: i64 = 1_767_225_600_000;

    struct World {
        metadata: Arc<Metadata>,
        now_ms: i64,
    }

    impl World {
        fn new(template: Value) -> Self {
            let mut world = Self {
                metadata: Arc::default(),
                now_ms: NOW_MS,
            };
            let body = json!({"index_patterns": ["logs*"], "data_stream": {}, "template": template});
            world.run(Command::PutIndexTemplate {
                name: "logs".to_owned(),
                body,
                create: false,
            });
            world.run(Command::CreateDataStream {
                name: "logs".to_owned(),
            });
            world
        }

        fn run(&mut self, command: Command) {
            let applied = self.metadata.apply(&command, self.now_ms, &mut || "uuid".to_owned());
            self.metadata = applied.unwrap().0;
        }

        fn roll_over(&mut self) {
            self.run(Command::Rollover {
                target: "logs".to_owned(),
                new_index: None,
                conditions: IndexMap::new(),
                body: json!({}),
                dry_run: false,
                facts: RolloverFacts::default(),
            });
        }

        fn keep(&mut self, retention: &str) {
            let lifecycle = Lifecycle::parse(&json!({"data_retention": retention})).unwrap();
            self.run(Command::PutDataStreamLifecycle {
                names: vec!["logs".to_owned()],
                lifecycle: Some(lifecycle),
            });
        }

        /// Returns the dropped indices, and whether the stream rolls over unconditionally.
        fn due(&self) -> (Vec<String>, bool) {
            let mut dropped = Vec::new();
            let mut rolls = false;
            for due in due(&self.metadata, self.now_ms) {
                match due {
                    Due::Drop { indices, .. } => dropped.extend(indices),
                    Due::RollOver { conditions, .. } => rolls |= conditions.is_empty(),
                }
            }
            (dropped, rolls)
        }
    }

    #[test]
    fn a_period_goes_when_all_of_it_is_too_old() {
        let mut world = World::new(json!({"settings": {"index.period": "week"}}));
        let weeks_ago = |weeks: i64| NOW_MS - weeks * 7 * DAY_MS;
        world.run(Command::CreateBackingIndices {
            stream: "logs".to_owned(),
            times_ms: (1..=4).map(weeks_ago).collect(),
        });
        assert_eq!(world.due(), (vec![], false), "no lifecycle, nothing goes");
        world.keep("10d");
        let (dropped, _) = world.due();
        // The week before last ended eleven days ago, the last week four days ago.
        assert_eq!(
            dropped,
            [
                ".ds-logs-2025.12.01-000002",
                ".ds-logs-2025.12.08-000003",
                ".ds-logs-2025.12.15-000004"
            ]
        );
        world.keep("11d");
        assert_eq!(
            world.due().0.len(),
            2,
            "the last instant of the week is not older than 11 days"
        );
        world.keep("3600d");
        assert_eq!(world.due(), (vec![], false));
    }

    #[test]
    fn the_write_index_stays_until_there_is_another() {
        let mut world = World::new(json!({"settings": {"index.period": "day"}}));
        world.keep("1h");
        assert_eq!(world.due(), (vec![], false));
        world.now_ms += 10 * DAY_MS;
        assert_eq!(world.due(), (vec![], true));
        world.roll_over();
        assert_eq!(world.due(), (vec![".ds-logs-2026.01.01-000001".to_owned()], false));
    }

    #[test]
    fn without_periods_an_index_ages_from_its_rollover() {
        let mut world = World::new(json!({"lifecycle": {"data_retention": "5d"}}));
        world.now_ms += 4 * DAY_MS;
        world.roll_over();
        world.now_ms += 4 * DAY_MS;
        assert_eq!(world.due(), (vec![], false), "it took events four days ago");
        world.now_ms += DAY_MS;
        assert_eq!(world.due().0, [".ds-logs-2026.01.01-000001"]);
        let rolls = due(&world.metadata, world.now_ms);
        assert!(
            matches!(&rolls[0], Due::RollOver { conditions, .. } if conditions["max_age"] == json!("1d")),
            "{rolls:?}"
        );
    }

    #[test]
    fn a_lifecycle_that_is_off_does_nothing() {
        let mut world = World::new(json!({"lifecycle": {"data_retention": "1d", "enabled": false}}));
        world.roll_over();
        world.now_ms += 100 * DAY_MS;
        assert_eq!(due(&world.metadata, world.now_ms), []);
    }

    #[test]
    fn tenants_come_once_a_day() {
        let tenant = |name| TenantId::parse(name).unwrap();
        let all = [(tenant("a"), 1000), (tenant("b"), 5)];
        let mut retention = TenantRetention::default();
        let none_open = |_: &str| false;
        assert_eq!(
            retention.due(&all, &none_open, NOW_MS),
            [(tenant("a"), NOW_MS - 1000), (tenant("b"), NOW_MS - 5)]
        );
        retention.note_purged(&tenant("a"), BTreeSet::from(["x".to_owned(), "y".to_owned()]), NOW_MS);
        assert_eq!(retention.due(&all, &none_open, NOW_MS + 1).len(), 1);
        assert_eq!(retention.due(&all, &none_open, NOW_MS + DAY_MS).len(), 2);
        // A closed index was opened; other indices do not matter.
        assert_eq!(retention.due(&all, &|name| name == "z", NOW_MS + 1).len(), 1);
        assert_eq!(retention.due(&all, &|name| name == "y", NOW_MS + 1).len(), 2);
        // The clock went back to before the last purge.
        assert_eq!(retention.due(&all, &none_open, NOW_MS - 1).len(), 2);
        // A tenant without a retention is removed from the record.
        retention.due(&all[1..], &none_open, NOW_MS + 1);
        assert_eq!(retention.due(&all, &none_open, NOW_MS + 2).len(), 2);
    }
}
