//! Effects of lifecycles on indices: an interface small enough that a test can stop it before or after each call.

use std::sync::Arc;

use async_trait::async_trait;
use firn_engine::admin::ForceMergeRequest;
use firn_engine::mounts::{MountSnapshot, Storage};
use firn_engine::snapshot::{CreateSnapshot, SnapshotInfo, Verification, VerifySnapshot};
use firn_engine::{BackgroundTask, Engine, RequestContext};
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::names::IndicesOptions;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Value, json};

use super::snapshot_verification::begun;

/// Effects of a lifecycle. When a call returns, its effect has happened or not; otherwise the process has ended. Each
/// call can be repeated without harm.
#[async_trait]
pub trait Effects: Send + Sync {
    /// Returns the metadata.
    async fn metadata(&self) -> Result<Arc<Metadata>>;

    /// Executes a command.
    async fn execute(&self, command: Command) -> Result<Outcome>;

    /// Merges an index down to `segments` segments per shard.
    async fn force_merge(&self, index: &str, segments: u64) -> Result<()>;

    /// Returns the size of an index.
    async fn size(&self, index: &str) -> Result<IndexSize>;

    /// Returns the number of events that a search finds in an index; fails if a shard does not answer.
    async fn count(&self, index: &str) -> Result<u64>;

    /// Returns a snapshot, if it exists.
    async fn snapshot(&self, repository: &str, name: &str) -> Result<Option<SnapshotInfo>>;

    /// Creates a snapshot of an index and waits until it is complete.
    async fn create_snapshot(&self, repository: &str, name: &str, index: &str) -> Result<SnapshotInfo>;

    /// Deletes a snapshot; a missing one is not an error.
    async fn delete_snapshot(&self, repository: &str, name: &str) -> Result<()>;

    /// Returns the progress of the verification of a snapshot, which reads it back from its store; starts it if it is
    /// not running. `Whole` means that the snapshot was read in its current state.
    async fn verify(&self, request: &VerifySnapshot) -> Result<Verification>;

    /// Ends a verification; one that is not running is not an error.
    async fn end_verification(&self, request: &VerifySnapshot) -> Result<()>;

    /// Creates an index from one in a snapshot; it is searchable when this returns. It has no lifecycle settings from
    /// the snapshot, so no policy manages it yet.
    async fn mount(&self, mount: MountedAs) -> Result<()>;
}

/// Parameters of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedAs {
    /// Its repository.
    pub repository: String,
    /// Name of the snapshot.
    pub snapshot: String,
    /// Name of the index in the snapshot.
    pub index: String,
    /// The name of the new index.
    pub name: String,
    /// Read through the cache instead of copied.
    pub partial: bool,
}

/// Size of an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexSize {
    /// Documents of the shard with the most documents.
    pub shard_docs_max: u64,
    /// Segments of the shard with the most segments.
    pub shard_segments_max: u64,
    /// Shards that are not on their preferred tier yet; `None`: the engine cannot tell.
    pub shards_to_move: Option<u64>,
    /// Why one of them cannot move now; `None`: each is moving, or queued.
    pub move_waits_for: Option<String>,
}

/// Lists a background task, by its action and its description.
pub type ListWork = Arc<dyn Fn(&'static str, String) -> BackgroundTask + Send + Sync>;

/// Action of the task that verifies a snapshot. Elasticsearch has no equivalent.
const VERIFY_ACTION: &str = "cluster:admin/snapshot/read_back";

/// [`Effects`] on an engine.
pub struct EngineEffects {
    engine: Arc<dyn Engine>,
    list: Option<ListWork>,
}

impl EngineEffects {
    /// Creates the effects on an engine. `list` alone lists the background tasks.
    pub fn new(engine: Arc<dyn Engine>, list: Option<ListWork>) -> Self {
        Self { engine, list }
    }

    fn target(index: &str) -> IndexTarget {
        IndexTarget {
            expression: vec![index.to_owned()],
            options: IndicesOptions::default(),
        }
    }
}

#[async_trait]
impl Effects for EngineEffects {
    async fn metadata(&self) -> Result<Arc<Metadata>> {
        self.engine.metadata(&RequestContext::new()).await
    }

    async fn execute(&self, command: Command) -> Result<Outcome> {
        self.engine.execute(&RequestContext::new(), command).await
    }

    async fn force_merge(&self, index: &str, segments: u64) -> Result<()> {
        let request = ForceMergeRequest {
            target: Self::target(index),
            max_num_segments: Some(usize::try_from(segments).unwrap_or(usize::MAX)),
            only_expunge_deletes: false,
            flush: true,
        };
        let outcome = self.engine.force_merge(&RequestContext::new(), request).await?;
        match outcome.failures.into_iter().next() {
            Some((_, _, error)) => Err(error),
            None => Ok(()),
        }
    }

    async fn size(&self, index: &str) -> Result<IndexSize> {
        let stats = self.engine.stats(&RequestContext::new(), Self::target(index)).await?;
        let mut size = IndexSize::default();
        for shard in stats.iter().flat_map(|index| &index.shards) {
            size.shard_docs_max = size.shard_docs_max.max(shard.doc_count);
            size.shard_segments_max = size.shard_segments_max.max(shard.segments.len() as u64);
        }
        if let Some(tiers) = self.engine.tiers() {
            let moves = tiers.moves(&RequestContext::new(), Self::target(index)).await?;
            size.shards_to_move = Some(moves.len() as u64);
            size.move_waits_for = moves.into_iter().find_map(|one| one.waits_for);
        }
        Ok(size)
    }

    async fn count(&self, index: &str) -> Result<u64> {
        let ctx = RequestContext::new();
        self.engine.refresh(&ctx, Self::target(index)).await?;
        let body = json!({"size": 0, "track_total_hits": true});
        let mut request = SearchRequest::parse(Self::target(index), Some(&body))?;
        request.allow_partial_results = false;
        let response = self.engine.search(&ctx, request).await?;
        let total = response.total.map(|total| total.value);
        total.ok_or_else(|| Error::internal(format!("a count of index [{index}] has no total")))
    }

    async fn snapshot(&self, repository: &str, name: &str) -> Result<Option<SnapshotInfo>> {
        let names = vec![name.to_owned()];
        let found = self
            .engine
            .require_snapshots()?
            .list_snapshots(&RequestContext::new(), repository, &names, false)
            .await;
        match found {
            Ok(found) => Ok(found.into_iter().next()),
            Err(error) if error.kind() == ErrorKind::SnapshotMissing => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create_snapshot(&self, repository: &str, name: &str, index: &str) -> Result<SnapshotInfo> {
        let request = CreateSnapshot {
            repository: repository.to_owned(),
            name: name.to_owned(),
            target: Self::target(index),
            include_global_state: false,
            partial: false,
            metadata: None,
            wait: true,
        };
        self.engine
            .require_snapshots()?
            .create_snapshot(&RequestContext::new(), request)
            .await
    }

    async fn delete_snapshot(&self, repository: &str, name: &str) -> Result<()> {
        let names = vec![name.to_owned()];
        match self
            .engine
            .require_snapshots()?
            .delete_snapshot(&RequestContext::new(), repository, &names)
            .await
        {
            Err(error) if error.kind() == ErrorKind::SnapshotMissing => Ok(()),
            outcome => outcome,
        }
    }

    async fn verify(&self, request: &VerifySnapshot) -> Result<Verification> {
        let ctx = RequestContext::new();
        let verification = self.engine.require_snapshot_verification()?;
        if let Some(known) = verification.verification(&ctx, request).await? {
            return Ok(known);
        }
        let VerifySnapshot {
            repository,
            snapshot,
            index,
        } = request;
        let list = |list: &ListWork| list(VERIFY_ACTION, format!("[{repository}:{snapshot}] index [{index}]"));
        let ctx = RequestContext {
            lasting: self.list.as_ref().map(list),
            ..ctx
        };
        verification.begin_verification(&ctx, request.clone()).await?;
        Ok(begun())
    }

    async fn end_verification(&self, request: &VerifySnapshot) -> Result<()> {
        match self.engine.snapshot_verification() {
            Some(verification) => verification.end_verification(&RequestContext::new(), request).await,
            // None was started.
            None => Ok(()),
        }
    }

    async fn mount(&self, mount: MountedAs) -> Result<()> {
        let request = MountSnapshot {
            repository: mount.repository,
            snapshot: mount.snapshot,
            index: mount.index,
            renamed_index: Some(mount.name),
            storage: match mount.partial {
                true => Storage::SharedCache,
                false => Storage::FullCopy,
            },
            index_settings: Value::Null,
            ignore_index_settings: vec!["index.lifecycle.*".to_owned()],
        };
        self.engine
            .require_mounts()?
            .mount_snapshot(&RequestContext::new(), request)
            .await?;
        Ok(())
    }
}
