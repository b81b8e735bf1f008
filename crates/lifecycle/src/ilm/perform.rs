//! Execution of one step of one index. Every step first checks whether it is already done.

use firn_engine::Capability;
use firn_model::ilm::{Action, Execution, Phase, ROLLOVER_ALIAS, StepKey};
use firn_model::metadata::{
    AliasMetadata, Command, IlmCommand, IndexMetadata, Metadata, RolloverFacts, RolloverOutcome,
};
use firn_model::tier::TIER_PREFERENCE;
use firn_model::{Error, Result};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::snapshot_verification::Verifying;
use super::{IlmParts, searchable};

/// Result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The step is done; the execution holds the facts for the next steps.
    Done(Box<Execution>),
    /// The step waits, for this reason; it is checked again later.
    Waiting(Option<Value>),
    /// The result of an earlier step is unusable. After this error the action continues from that step at the next
    /// check, so that a permanent problem costs one attempt per check.
    Back {
        /// The earlier step.
        step: &'static str,
        /// The error.
        error: Error,
    },
    /// The action continues from an earlier step, without an error.
    Again(&'static str),
    /// The index no longer exists.
    Gone,
}

/// Context of a step.
pub(super) struct StepContext<'a> {
    pub(super) parts: &'a IlmParts,
    pub(super) verifying: &'a Verifying,
    pub(super) index: &'a IndexMetadata,
    pub(super) execution: &'a Execution,
    pub(super) action: &'a Action,
    pub(super) next: &'a StepKey,
}

/// Executes the current step of an index.
pub(super) async fn perform(
    parts: &IlmParts,
    verifying: &Verifying,
    index: &IndexMetadata,
    execution: &Execution,
    phase: &Phase,
    next: &StepKey,
) -> Result<Outcome> {
    // Elasticsearch adds this action to phases that do not name it.
    let migrate = Action::Migrate(true);
    let action = match phase.action(&execution.key.action) {
        Some(action) => action,
        None if execution.key.action == migrate.kind() => &migrate,
        None => {
            return Err(Error::internal(format!(
                "a phase without action [{}]",
                execution.key.action
            )));
        }
    };
    let place = StepContext {
        parts,
        verifying,
        index,
        execution,
        action,
        next,
    };
    place.take().await
}

impl StepContext<'_> {
    async fn take(&self) -> Result<Outcome> {
        match (self.action, self.execution.key.step.as_str()) {
            (Action::SetPriority(priority), _) => self.set("index.priority", json!(priority)).await,
            (Action::Rollover(conditions), "check-rollover-ready") => self.check_rollover(conditions).await,
            (Action::Rollover(_), "attempt-rollover") => self.roll_over().await,
            (Action::Rollover(_), "update-rollover-lifecycle-date") => Ok(self.count_from_rollover()),
            (Action::Rollover(_), "set-indexing-complete") => {
                self.set(firn_model::ilm::INDEXING_COMPLETE, json!("true")).await
            }
            (_, "check-not-write-index") => self.check_not_written().await,
            (_, "readonly") if self.is_mounted() => self.done(),
            (_, "readonly") => self.set("index.blocks.write", json!("true")).await,
            (_, "forcemerge") => self.force_merge().await,
            (_, "segment-count") => self.check_segments().await,
            (Action::Shrink(_), "shrink") => {
                let index = &self.index.name;
                tracing::info!(
                    index,
                    "a lifecycle requests fewer shards, which has no benefit in firn: the shards are unchanged"
                );
                self.done()
            }
            (Action::Allocate(allocate), "allocate") => self.set_all(allocate.settings().into_iter().collect()).await,
            (Action::Allocate(_), "check-allocation") => self.check_places("allocate").await,
            (Action::Migrate(_), "migrate") => self.prefer_tier().await,
            (Action::Migrate(_), "check-migration") => self.check_places("migrate").await,
            (Action::Delete(_), "delete") => self.delete().await,
            (Action::SearchableSnapshot(snapshot), _) => searchable::take(self, snapshot).await,
            (Action::WaitForSnapshot(policy), _) => searchable::wait_for(self, policy).await,
            // A shard has one copy, which is active. Indices without local files have no place to move to. A snapshot
            // is deleted with its index, in one step.
            _ => self.done(),
        }
    }

    pub(super) fn done(&self) -> Result<Outcome> {
        Ok(self.done_with(self.execution.clone()))
    }

    pub(super) fn done_with(&self, facts: Execution) -> Outcome {
        Outcome::Done(Box::new(facts))
    }

    pub(super) fn is_mounted(&self) -> bool {
        searchable::store_of(self.index).is_some()
    }

    async fn set(&self, name: &str, value: Value) -> Result<Outcome> {
        self.set_all(std::iter::once((name.to_owned(), value)).collect()).await
    }

    async fn set_all(&self, settings: serde_json::Map<String, Value>) -> Result<Outcome> {
        if !settings.is_empty() {
            let command = Command::PutSettings {
                names: vec![self.index.name.clone()],
                settings: Value::Object(settings),
                preserve_existing: false,
            };
            self.parts.effects.execute(command).await?;
        }
        self.done()
    }

    /// Returns what is rolled over: the data stream, or the alias in the settings. `None`: already rolled over.
    fn rollover_target(&self, metadata: &Metadata, now_ms: i64) -> Result<Option<String>> {
        let index = self.index;
        if let Some(stream) = &index.data_stream {
            let is_written = metadata
                .data_streams
                .get(stream)
                .is_some_and(|stream| metadata.write_index(stream, now_ms) == Some(index.name.as_str()));
            return Ok(is_written.then(|| stream.clone()));
        }
        if index.rolled_over_ms.is_some() || index.is_indexing_complete() {
            return Ok(None);
        }
        let Some(alias) = index.text_setting(ROLLOVER_ALIAS) else {
            return Err(Error::illegal_argument(format!(
                "setting [{ROLLOVER_ALIAS}] for index [{}] is empty or not defined",
                index.name
            )));
        };
        match index
            .aliases
            .get(alias)
            .map(|alias: &AliasMetadata| alias.is_write_index)
        {
            None => Err(Error::illegal_argument(format!(
                "{ROLLOVER_ALIAS} [{alias}] does not point to index [{}]",
                index.name
            ))),
            Some(Some(false)) => Err(Error::illegal_argument(format!(
                "index [{}] is not the write index for alias [{alias}]",
                index.name
            ))),
            Some(_) => Ok(Some(alias.to_owned())),
        }
    }

    async fn roll(
        &self,
        target: String,
        conditions: IndexMap<String, Value>,
        dry_run: bool,
    ) -> Result<RolloverOutcome> {
        let command = Command::Rollover {
            target,
            new_index: None,
            conditions,
            body: Value::Null,
            dry_run,
            facts: RolloverFacts::default(),
        };
        let outcome = self.parts.effects.execute(command).await?;
        outcome
            .rollover
            .ok_or_else(|| Error::internal("the engine did not return the result of a rollover"))
    }

    async fn check_rollover(&self, conditions: &IndexMap<String, Value>) -> Result<Outcome> {
        let metadata = self.parts.effects.metadata().await?;
        let Some(target) = self.rollover_target(&metadata, (self.parts.now_ms)())? else {
            return self.done();
        };
        let mut conditions = conditions.clone();
        let says_how_many = ["min_docs", "min_primary_shard_docs"];
        if only_with_documents(&metadata) && !says_how_many.iter().any(|name| conditions.contains_key(*name)) {
            conditions.insert("min_docs".to_owned(), json!(1));
        }
        match self.roll(target, conditions, true).await?.is_due {
            true => self.done(),
            false => Ok(Outcome::Waiting(None)),
        }
    }

    async fn roll_over(&self) -> Result<Outcome> {
        let metadata = self.parts.effects.metadata().await?;
        if let Some(target) = self.rollover_target(&metadata, (self.parts.now_ms)())? {
            let done = self.roll(target, IndexMap::new(), false).await?;
            tracing::info!(
                index = self.index.name,
                new = done.new_index,
                "rolled over by its lifecycle"
            );
        }
        self.done()
    }

    /// Starts the index's age at the time when another index took over.
    fn count_from_rollover(&self) -> Outcome {
        let ended_ms = self.index.settings.time_range_ms.as_ref().map(|range| range.end);
        let now_ms = (self.parts.now_ms)();
        self.done_with(Execution {
            lifecycle_ms: self.index.rolled_over_ms.or(ended_ms).unwrap_or(now_ms),
            ..self.execution.clone()
        })
    }

    async fn check_not_written(&self) -> Result<Outcome> {
        let metadata = self.parts.effects.metadata().await?;
        match self.written_stream(&metadata) {
            None => self.done(),
            Some(stream) => Ok(Outcome::Waiting(Some(json!({
                "message": format!(
                    "index [{}] is the write index for data stream [{stream}], pausing ILM execution of lifecycle \
                     [{}] until this index is no longer the write index for the data stream via manual or automated \
                     rollover",
                    self.index.name, self.policy(),
                ),
            })))),
        }
    }

    /// Returns the data stream whose writes the index receives.
    fn written_stream<'m>(&self, metadata: &'m Metadata) -> Option<&'m str> {
        let stream = metadata.data_streams.get(self.index.data_stream.as_ref()?)?;
        let name = self.index.name.as_str();
        let is_newest = stream.indices.last().is_some_and(|newest| newest == name);
        let is_written = is_newest || metadata.write_index(stream, (self.parts.now_ms)()) == Some(name);
        is_written.then_some(stream.name.as_str())
    }

    pub(super) fn policy(&self) -> &str {
        self.index.lifecycle_policy().unwrap_or_default()
    }

    /// Returns the segments per shard for the merge; `None`: no merge.
    async fn segments_wanted(&self) -> Result<Option<u64>> {
        if self.is_mounted() {
            return Ok(None);
        }
        match self.action {
            Action::ForceMerge(merge) => Ok(Some(merge.max_num_segments)),
            _ => {
                let size = self.parts.effects.size(&self.index.name).await?;
                Ok(Some(searchable::splits_of(size.shard_docs_max)))
            }
        }
    }

    async fn force_merge(&self) -> Result<Outcome> {
        if let Some(segments) = self.segments_wanted().await? {
            self.parts.effects.force_merge(&self.index.name, segments).await?;
        }
        self.done()
    }

    async fn check_segments(&self) -> Result<Outcome> {
        let Some(wanted) = self.segments_wanted().await? else {
            return self.done();
        };
        let has = self.parts.effects.size(&self.index.name).await?.shard_segments_max;
        if has <= wanted {
            return self.done();
        }
        Ok(Outcome::Waiting(Some(json!({
            "message": format!("a shard has [{has}] segments and should have at most [{wanted}]"),
        }))))
    }

    /// Prefers the data path of the phase's tier, or the next hotter one that exists.
    async fn prefer_tier(&self) -> Result<Outcome> {
        let tiers = match self.execution.key.phase.as_str() {
            "warm" => "data_warm,data_hot",
            _ => "data_cold,data_warm,data_hot",
        };
        self.set(TIER_PREFERENCE, json!(tiers)).await
    }

    /// Checks whether every shard is on the tier in its settings.
    async fn check_places(&self, action: &str) -> Result<Outcome> {
        if self.is_mounted() {
            // Its local copies are created again on the new tier, and searches continue meanwhile.
            return self.done();
        }
        let size = self.parts.effects.size(&self.index.name).await?;
        let left = size.shards_to_move.ok_or_else(|| Capability::Tiers.missing())?;
        if left == 0 {
            return self.done();
        }
        let preference = self.index.text_setting(TIER_PREFERENCE).unwrap_or_default();
        let preference = preference.replace(',', ", ");
        let why = size.move_waits_for;
        let mut info = json!({
            "message": format!(
                "[{}] lifecycle action [{action}] waiting for [{left}] shards to be moved to the tier or data path that \
                 its settings name (tier migration preference configuration is [{preference}]){}",
                self.index.name,
                why.as_ref().map_or_else(String::new, |why| format!(": {why}"))
            ),
            "shards_left_to_allocate": left,
            "all_shards_active": true,
            "number_of_replicas": self.index.settings.number_of_replicas,
        });
        if let Some(why) = why {
            info["reason"] = why.into();
        }
        Ok(Outcome::Waiting(Some(info)))
    }

    async fn delete(&self) -> Result<Outcome> {
        let metadata = self.parts.effects.metadata().await?;
        let name = &self.index.name;
        if let Some(stream) = self.written_stream(&metadata)
            && metadata.data_streams[stream].indices.len() > 1
        {
            return Err(Error::illegal_argument(format!(
                "index [{name}] is the write index for data stream [{stream}]. stopping execution of lifecycle [{}] as a \
                 data stream's write index cannot be deleted. manually rolling over the index will resume the execution \
                 of the policy as the index will not be the data stream's write index anymore",
                self.policy()
            )));
        }
        let snapshot = match self.action {
            Action::Delete(true) => searchable::orphan_of(self, &metadata),
            _ => None,
        };
        let command = Command::Ilm(IlmCommand::Delete {
            index: name.clone(),
            snapshot,
        });
        self.parts.effects.execute(command).await?;
        tracing::info!(index = name, policy = self.policy(), "deleted by its lifecycle");
        Ok(Outcome::Gone)
    }
}

/// Reads `indices.lifecycle.rollover.only_if_has_documents`: an empty index need not be replaced.
fn only_with_documents(metadata: &Metadata) -> bool {
    let value = metadata.cluster_setting("indices.lifecycle.rollover.only_if_has_documents");
    !value.is_some_and(|value| value.as_bool() == Some(false) || value.as_str() == Some("false"))
}
