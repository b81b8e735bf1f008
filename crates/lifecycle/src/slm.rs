//! Snapshot lifecycle management: creates the snapshots of policies when they are due, and removes expired ones.
//!
//! The start and the end of a snapshot are recorded, so that a snapshot that a crash interrupted counts as failed; the
//! repository shows nothing of it.

use std::sync::Arc;

use firn_engine::snapshot::{CreateSnapshot, SnapshotInfo, SnapshotState};
use firn_engine::{Engine, RequestContext};
use firn_model::ilm::OperationMode;
use firn_model::metadata::{Command, Metadata, SlmCommand};
use firn_model::names::{IndicesOptions, resolve_date_math};
use firn_model::slm::{Candidate, Invocation, POLICY, Schedule, StoredSnapshotPolicy};
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::IndexTarget;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::Clock;

const RETENTION_SCHEDULE: &str = "slm.retention_schedule";
const RETENTION_SCHEDULE_DEFAULT: &str = "0 30 1 * * ?";

/// Dependencies of [`Slm`].
#[derive(Clone)]
pub struct SlmParts {
    /// Engine that creates the snapshots.
    pub engine: Arc<dyn Engine>,
    /// The wall clock.
    pub now_ms: Clock,
    /// Source of randomness for the names of snapshots.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Work that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlmWork {
    /// Create the snapshot of a policy.
    Snapshot(String),
    /// Remove expired snapshots.
    Retention,
}

/// Executes snapshot lifecycle policies. May be called concurrently.
pub struct Slm {
    parts: SlmParts,
    /// Time of the last check for due work, ms since epoch UTC. As in Elasticsearch, work that was due while no process
    /// ran is skipped.
    looked_ms: Mutex<i64>,
}

impl Slm {
    /// Creates it for an engine.
    pub fn new(parts: SlmParts) -> Self {
        let looked_ms = Mutex::new((parts.now_ms)());
        Self { parts, looked_ms }
    }

    /// Records snapshots as failed that the end of an earlier process interrupted. Call it once, before anything else.
    pub async fn note_interrupted(&self) -> Result<()> {
        let metadata = self.metadata().await?;
        for (id, stored) in &metadata.slm.by_id {
            if let Some((snapshot, start_ms)) = &stored.running {
                let invocation = Invocation {
                    snapshot: snapshot.clone(),
                    start_ms: *start_ms,
                    end_ms: (self.parts.now_ms)(),
                    details: Some("the process ended while the snapshot was made".to_owned()),
                };
                self.execute(SlmCommand::End {
                    id: id.clone(),
                    invocation,
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Returns the work that has come due since the last call.
    pub async fn due(&self) -> Result<Vec<SlmWork>> {
        let metadata = self.metadata().await?;
        let now_ms = (self.parts.now_ms)();
        let since_ms = std::mem::replace(&mut *self.looked_ms.lock(), now_ms);
        Ok(due(&metadata, since_ms, now_ms))
    }

    /// Executes the work; errors are recorded with the policy, or logged.
    pub async fn work(&self, work: SlmWork) {
        let outcome = match &work {
            SlmWork::Snapshot(id) => self.take_snapshot(id).await,
            SlmWork::Retention => self.apply_retention().await,
        };
        if let Err(error) = outcome {
            tracing::warn!(?work, %error, "a snapshot lifecycle task failed");
        }
    }

    /// Starts a policy's snapshot, and returns its name; [`Slm::finish`] creates it.
    pub async fn begin(&self, id: &str) -> Result<String> {
        let metadata = self.metadata().await?;
        let stored = find(&metadata, id)?;
        let now_ms = (self.parts.now_ms)();
        let name = resolve_date_math(&stored.policy.name, now_ms)?;
        let snapshot = format!("{name}-{:016x}", (self.parts.random)());
        self.execute(SlmCommand::Begin {
            id: id.to_owned(),
            snapshot: snapshot.clone(),
        })
        .await?;
        Ok(snapshot)
    }

    /// Creates the started snapshot, and records the result.
    pub async fn finish(&self, id: &str, snapshot: &str) -> Result<()> {
        let metadata = self.metadata().await?;
        let start_ms = (self.parts.now_ms)();
        let request = request_of(find(&metadata, id)?, id, snapshot);
        let made = match self.parts.engine.require_snapshots() {
            Ok(snapshots) => snapshots.create_snapshot(&RequestContext::new(), request).await,
            Err(error) => Err(error),
        };
        let details = match &made {
            Ok(info) => failure_of(info),
            Err(error) => Some(error.to_string()),
        };
        match &details {
            None => tracing::info!(policy = id, snapshot, "created a snapshot of a policy"),
            Some(why) => tracing::warn!(
                policy = id,
                snapshot,
                error = why,
                "cannot create a snapshot of a policy"
            ),
        }
        let invocation = Invocation {
            snapshot: snapshot.to_owned(),
            start_ms,
            end_ms: (self.parts.now_ms)(),
            details,
        };
        self.execute(SlmCommand::End {
            id: id.to_owned(),
            invocation,
        })
        .await
    }

    async fn take_snapshot(&self, id: &str) -> Result<()> {
        let snapshot = match self.begin(id).await {
            // The previous snapshot takes longer than the interval of the schedule.
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
            begun => begun?,
        };
        self.finish(id, &snapshot).await
    }

    /// Removes the expired snapshots of all policies.
    pub async fn apply_retention(&self) -> Result<()> {
        let metadata = self.metadata().await?;
        let started_ms = (self.parts.now_ms)();
        let ctx = RequestContext::new();
        let mut removed = Vec::new();
        for (id, stored) in &metadata.slm.by_id {
            let Some(retention) = &stored.policy.retention else {
                continue;
            };
            let repository = &stored.policy.repository;
            let all = self
                .parts
                .engine
                .require_snapshots()?
                .list_snapshots(&ctx, repository, &vec!["*".to_owned()], true)
                .await;
            let all = match all {
                Ok(all) => all,
                Err(error) => {
                    tracing::warn!(policy = id, %error, "cannot find expired snapshots");
                    removed.push((id.clone(), 0, 1));
                    continue;
                }
            };
            let own: Vec<Candidate<'_>> = all.iter().filter_map(|info| candidate(id, info)).collect();
            let (mut deleted, mut failed) = (0, 0);
            for name in retention.expired(&own, started_ms) {
                match self
                    .parts
                    .engine
                    .require_snapshots()?
                    .delete_snapshot(&ctx, repository, &vec![name.to_owned()])
                    .await
                {
                    Ok(()) => deleted += 1,
                    Err(error) => {
                        failed += 1;
                        tracing::warn!(policy = id, snapshot = name, %error, "cannot remove an expired snapshot");
                    }
                }
            }
            if deleted + failed > 0 {
                removed.push((id.clone(), deleted, failed));
            }
        }
        let took_ms = u64::try_from((self.parts.now_ms)() - started_ms).unwrap_or(0);
        self.execute(SlmCommand::NoteRetention { removed, took_ms }).await
    }

    async fn metadata(&self) -> Result<Arc<Metadata>> {
        self.parts.engine.metadata(&RequestContext::new()).await
    }

    async fn execute(&self, command: SlmCommand) -> Result<()> {
        self.parts
            .engine
            .execute(&RequestContext::new(), Command::Slm(command))
            .await?;
        Ok(())
    }
}

fn find<'a>(metadata: &'a Metadata, id: &str) -> Result<&'a StoredSnapshotPolicy> {
    let stored = metadata.slm.by_id.get(id);
    stored.map(Arc::as_ref).ok_or_else(|| {
        let reason = format!("snapshot lifecycle policy or policies [{id}] not found");
        Error::new(ErrorKind::ResourceNotFound, reason)
    })
}

/// Returns the work that came due after `since_ms` until `now_ms`, each once.
fn due(metadata: &Metadata, since_ms: i64, now_ms: i64) -> Vec<SlmWork> {
    if metadata.slm.mode != OperationMode::Running || metadata.slm.by_id.is_empty() {
        return Vec::new();
    }
    let is_due = |schedule: &Schedule, origin_ms: i64| {
        let next_ms = schedule.next_after(since_ms.max(origin_ms), origin_ms);
        next_ms.is_some_and(|next_ms| next_ms <= now_ms)
    };
    let mut due: Vec<SlmWork> = metadata
        .slm
        .by_id
        .iter()
        .filter(|(_, stored)| is_due(&stored.policy.schedule, stored.modified_ms))
        .map(|(id, _)| SlmWork::Snapshot(id.clone()))
        .collect();
    let set = metadata.cluster_setting(RETENTION_SCHEDULE).and_then(Value::as_str);
    // An invalid schedule disables retention, as an empty one does.
    if let Ok(schedule) = Schedule::parse(set.unwrap_or(RETENTION_SCHEDULE_DEFAULT))
        && is_due(&schedule, since_ms)
    {
        due.push(SlmWork::Retention);
    }
    due
}

fn request_of(stored: &StoredSnapshotPolicy, id: &str, snapshot: &str) -> CreateSnapshot {
    let config = stored.policy.config.clone().unwrap_or_default();
    let has_config = stored.policy.config.is_some();
    let mut metadata: Map<String, Value> = config.metadata;
    metadata.insert(POLICY.to_owned(), json!(id));
    CreateSnapshot {
        repository: stored.policy.repository.clone(),
        name: snapshot.to_owned(),
        target: IndexTarget {
            expression: config.indices,
            options: IndicesOptions {
                ignore_unavailable: config.ignore_unavailable,
                expand_closed: true,
                expand_hidden: true,
                ..IndicesOptions::default()
            },
        },
        include_global_state: config.include_global_state || !has_config,
        partial: config.partial,
        metadata: Some(metadata),
        wait: true,
    }
}

/// Returns why a snapshot does not count as successful. As in Elasticsearch, a snapshot that lacks a shard does not,
/// even if the policy allows `partial` ones: it is stored, but the operator must be informed.
fn failure_of(info: &SnapshotInfo) -> Option<String> {
    let (total, failed) = (
        info.total_shards,
        info.total_shards.saturating_sub(info.successful_shards),
    );
    let why = match info.state {
        _ if failed > 0 => {
            format!("failed to create snapshot successfully, {failed} out of {total} total shards failed")
        }
        SnapshotState::Success => return None,
        state => match info.failures.first() {
            Some(failure) => failure.reason.clone(),
            None => format!("the snapshot ended as [{}]", state.name()),
        },
    };
    let reason = format!("[{}:{}] {why}", info.repository, info.name);
    Some(json!({"type": "snapshot_exception", "reason": reason}).to_string())
}

fn candidate<'a>(id: &str, info: &'a SnapshotInfo) -> Option<Candidate<'a>> {
    let policy = info.metadata.as_ref()?.get(POLICY)?.as_str()?;
    (policy == id && info.state != SnapshotState::InProgress).then_some(Candidate {
        name: &info.name,
        start_ms: info.start_ms,
        is_whole: info.state == SnapshotState::Success,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use firn_model::repository::RepositoryMetadata;

    use super::*;

    const NOON_MS: i64 = 1_767_268_800_000;
    const HOUR_MS: i64 = 3_600_000;

    fn world(schedule: &str) -> Metadata {
        let commands = [
            Command::PutRepository {
                name: "objects".to_owned(),
                repository: RepositoryMetadata::default(),
            },
            Command::Slm(SlmCommand::PutPolicy {
                id: "p".to_owned(),
                policy: json!({"schedule": schedule, "name": "s", "repository": "objects"}),
            }),
        ];
        let mut metadata = Arc::new(Metadata::default());
        for command in commands {
            metadata = metadata.apply(&command, NOON_MS, &mut String::new).unwrap().0;
        }
        Metadata::clone(&metadata)
    }

    #[test]
    fn what_came_due_is_done_once() {
        let metadata = world("0 0 * * * ?");
        let snapshot = vec![SlmWork::Snapshot("p".to_owned())];
        assert_eq!(due(&metadata, NOON_MS, NOON_MS + HOUR_MS - 1), []);
        assert_eq!(due(&metadata, NOON_MS, NOON_MS + HOUR_MS), snapshot);
        assert_eq!(
            due(&metadata, NOON_MS, NOON_MS + 5 * HOUR_MS),
            snapshot,
            "missed ones are not made up for"
        );
        assert_eq!(due(&metadata, NOON_MS + HOUR_MS, NOON_MS + HOUR_MS + 1), []);
    }

    #[test]
    fn retention_has_a_schedule_of_its_own() {
        let mut metadata = world("0 0 0 1 1 ? 2199");
        let half_past_one = NOON_MS + 13 * HOUR_MS + HOUR_MS / 2;
        assert_eq!(due(&metadata, NOON_MS, half_past_one - 1), []);
        assert_eq!(due(&metadata, NOON_MS, half_past_one), [SlmWork::Retention]);
        metadata
            .cluster_settings
            .insert(RETENTION_SCHEDULE.to_owned(), json!("0 0 13 * * ?"));
        assert_eq!(due(&metadata, NOON_MS, NOON_MS + HOUR_MS), [SlmWork::Retention]);
        Arc::make_mut(&mut metadata.slm).mode = OperationMode::Stopped;
        assert_eq!(due(&metadata, NOON_MS, NOON_MS + 20 * HOUR_MS), []);
    }

    #[test]
    fn a_snapshot_names_its_policy_and_takes_all_by_default() {
        let metadata = world("30m");
        let request = request_of(&metadata.slm.by_id["p"], "p", "s-1");
        assert!(request.include_global_state && request.target.expression.is_empty() && request.wait);
        assert_eq!(request.metadata.unwrap()[POLICY], "p");
        let mut info = SnapshotInfo {
            name: "s-1".to_owned(),
            uuid: String::new(),
            repository: "objects".to_owned(),
            indices: Vec::new(),
            data_streams: Vec::new(),
            include_global_state: true,
            metadata: None,
            state: SnapshotState::Success,
            start_ms: 5,
            end_ms: None,
            total_shards: 0,
            successful_shards: 0,
            failures: Vec::new(),
            index_details: BTreeMap::new(),
        };
        assert_eq!(candidate("p", &info), None, "not created by a policy");
        info.metadata = json!({"policy": "p"}).as_object().cloned();
        assert!(candidate("p", &info).is_some_and(|candidate| candidate.is_whole));
        assert_eq!(candidate("q", &info), None);
        assert_eq!(failure_of(&info), None);
        info.state = SnapshotState::Failed;
        let reason = |info: &SnapshotInfo| {
            let details: Value = serde_json::from_str(&failure_of(info).unwrap()).unwrap();
            assert_eq!(details["type"], "snapshot_exception");
            details["reason"].as_str().unwrap().to_owned()
        };
        assert_eq!(reason(&info), "[objects:s-1] the snapshot ended as [FAILED]");
        (info.state, info.total_shards, info.successful_shards) = (SnapshotState::Partial, 3, 2);
        assert_eq!(
            reason(&info),
            "[objects:s-1] failed to create snapshot successfully, 1 out of 3 total shards failed"
        );
    }
}
