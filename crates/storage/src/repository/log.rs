//! Log of commits: the list of snapshots and its changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use firn_model::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Repository, body};
use crate::object::{ObjectErrorKind, PutMode};

const FOLDER: &str = "log/";
/// Every commit with a multiple of this number contains the whole state, so that an open of a repository reads at most
/// this many commits, one request each. A state of 10,000 snapshots takes 2 MB.
const STATE_EVERY: u64 = 32;
/// Maximum attempts of a commit. Each lost attempt means that another writer has made progress.
pub(super) const ATTEMPTS_MAX: usize = 1000;

/// Commit of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// From 1, without gaps.
    pub number: u64,
    /// Unique per attempt: distinguishes a writer's own commit from another writer's.
    pub id: String,
    /// Id of the writer.
    pub writer: String,
    /// Id of the writer's instance, unique per open of the repository.
    #[serde(default)]
    pub instance: String,
    /// Time by the writer's clock, ms since epoch UTC.
    pub time_ms: i64,
    /// Changes of this commit.
    pub changes: Vec<Change>,
    /// State after this commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
}

/// Change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// First change of all: the repository's uuid.
    Created(String),
    /// Adds a snapshot.
    Add(SnapshotEntry),
    /// Removes a snapshot by name.
    Remove(String),
    /// Condemns objects: no writer may name them before the sweep ends.
    SweepBegins {
        /// Id of the sweep.
        sweep: String,
        /// Keys of the objects.
        keys: Vec<String>,
    },
    /// Ends a sweep: the objects are removed.
    SweepEnds(String),
}

/// Snapshot in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Name of the snapshot.
    pub name: String,
    /// 22 characters.
    pub uuid: String,
    /// Start time, ms since epoch UTC.
    pub start_ms: i64,
    /// SHA-256 of the manifest, in hex.
    pub manifest: String,
}

/// Result of all commits up to one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// Number of the last commit; 0: none.
    pub number: u64,
    /// UUID of the repository.
    pub uuid: String,
    /// By name.
    pub snapshots: BTreeMap<String, SnapshotEntry>,
    /// Open sweeps by id.
    pub sweeps: BTreeMap<String, OpenSweep>,
}

/// Sweep that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSweep {
    /// Id of the writer.
    pub writer: String,
    /// Id of the writer's instance.
    #[serde(default)]
    pub instance: String,
    /// Condemned keys, sorted.
    pub keys: Vec<String>,
    /// Number of the commit that began it; 0: the firn that wrote it did not store the number.
    #[serde(default)]
    pub begun: u64,
}

impl State {
    /// Applies a commit.
    fn apply(&mut self, commit: &Commit) {
        for change in &commit.changes {
            match change {
                Change::Created(uuid) => self.uuid.clone_from(uuid),
                Change::Add(entry) => {
                    self.snapshots.insert(entry.name.clone(), entry.clone());
                }
                Change::Remove(name) => {
                    self.snapshots.remove(name);
                }
                Change::SweepBegins { sweep, keys } => {
                    let mut keys = keys.clone();
                    keys.sort_unstable();
                    let open = OpenSweep {
                        writer: commit.writer.clone(),
                        instance: commit.instance.clone(),
                        keys,
                        begun: commit.number,
                    };
                    self.sweeps.insert(sweep.clone(), open);
                }
                Change::SweepEnds(sweep) => {
                    self.sweeps.remove(sweep);
                }
            }
        }
        self.number = commit.number;
    }
}

pub(super) fn key(number: u64) -> String {
    format!("{FOLDER}{number:010}.json")
}

fn number_of(key: &str) -> Option<u64> {
    key.strip_prefix(FOLDER)?.strip_suffix(".json")?.parse().ok()
}

/// Returns the key of the object that confirms the write of a commit.
fn done_key(number: u64) -> String {
    format!("{FOLDER}{number:010}.done")
}

/// Returns the commit number in an object name. The number proves that the commit was written, even if it is lost.
fn written_number_of(key: &str) -> Option<u64> {
    let done = || key.strip_prefix(FOLDER)?.strip_suffix(".done")?.parse().ok();
    number_of(key).or_else(done)
}

impl Repository {
    /// Returns the current state. Concurrent calls share one read of the log: a read that began after a call is recent
    /// enough for it.
    pub async fn state(&self) -> Result<Arc<State>> {
        let ticket = self.state_calls.fetch_add(1, Ordering::AcqRel);
        let mut known = self.known.lock().await;
        if ticket < self.answered_calls.load(Ordering::Acquire)
            && let Some(known) = &*known
        {
            return Ok(Arc::clone(known));
        }
        let answers = self.state_calls.load(Ordering::Acquire);
        let state = self.read_on(&mut known).await?;
        self.answered_calls.store(answers, Ordering::Release);
        Ok(state)
    }

    async fn read_on(&self, known: &mut Option<Arc<State>>) -> Result<Arc<State>> {
        let (mut state, written) = match known {
            Some(state) => (State::clone(state), 0),
            None => self.first_state().await?,
        };
        let before = state.number;
        while let Some(commit) = self.read_commit(state.number + 1).await? {
            state.apply(&commit);
        }
        if state.number < written {
            let lost = key(state.number + 1);
            return Err(self.error(format!(
                "object [{lost}] is missing: {written} commits were written, so snapshots may be unknown without it; put it \
                 back from a copy of the repository"
            )));
        }
        match known {
            Some(known) if before == state.number => Ok(Arc::clone(known)),
            _ => Ok(Arc::clone(known.insert(Arc::new(state)))),
        }
    }

    /// Returns the last complete state that a listing shows, from which the newest is reached by reading on, and a
    /// lower bound of the number of written commits.
    async fn first_state(&self) -> Result<(State, u64)> {
        let (whole, written) = match self.store.list(FOLDER).await {
            Ok(listed) => {
                let written = listed.iter().filter_map(|object| written_number_of(&object.key)).max();
                let written = written.unwrap_or(0);
                (written - written % STATE_EVERY, written)
            }
            Err(error) if error.kind == ObjectErrorKind::Unsupported => (self.last_whole().await?, 0),
            Err(error) => return Err(self.failed("list the log", error)),
        };
        if whole == 0 {
            return Ok((State::default(), written));
        }
        let state = match self.read_commit(whole).await? {
            None => return Err(self.error(format!("object [{}] is missing", key(whole)))),
            Some(commit) => commit.state,
        };
        let state =
            state.ok_or_else(|| self.error(format!("object [{}] is damaged: it lacks the state", key(whole))))?;
        Ok((state, written))
    }

    /// Finds the number of the last commit with a state without a listing, because the log has no gaps.
    async fn last_whole(&self) -> Result<u64> {
        let (mut found, mut step) = (0, 1);
        while self.has_commit((found + step) * STATE_EVERY).await? {
            found += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if self.has_commit((found + step) * STATE_EVERY).await? {
                found += step;
            }
        }
        Ok(found * STATE_EVERY)
    }

    async fn has_commit(&self, number: u64) -> Result<bool> {
        match self.store.info(&key(number)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed("look up a commit", error)),
        }
    }

    /// Reads a commit; `None`: it does not exist yet.
    pub(super) async fn read_commit(&self, number: u64) -> Result<Option<Commit>> {
        let key = key(number);
        let decode = |bytes: &Bytes| {
            let commit: Commit = body::decode("commit", bytes)?;
            match commit.number == number {
                true => Ok(commit),
                false => Err(format!("it is commit {}", commit.number)),
            }
        };
        match self.read_checked(&key, body::LEN_MAX, decode).await {
            Ok(Ok(commit)) => Ok(Some(commit)),
            Ok(Err(why)) => Err(self.error(format!("object [{key}] is damaged: {why}"))),
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read the log", error)),
        }
    }

    /// Commits changes to a state and returns the new state. `None`: another writer was faster, so the decision was not
    /// based on the newest state.
    pub(super) async fn try_commit(&self, state: &State, mut changes: Vec<Change>) -> Result<Option<Arc<State>>> {
        if state.number == 0 && !matches!(changes.first(), Some(Change::Created(_))) {
            changes.insert(0, Change::Created((self.writer.fresh_id)()));
        }
        let mut commit = Commit {
            number: state.number + 1,
            id: (self.writer.fresh_id)(),
            writer: self.writer.id.clone(),
            instance: self.instance.id.clone(),
            time_ms: (self.writer.now_ms)(),
            changes,
            state: None,
        };
        let mut after = state.clone();
        after.apply(&commit);
        if commit.number.is_multiple_of(STATE_EVERY) {
            commit.state = Some(after.clone());
        }
        let bytes = body::encode("commit", &commit)?;
        match self.store.write(&key(commit.number), bytes, PutMode::Create).await {
            Ok(_) => {}
            Err(error) if error.kind == ObjectErrorKind::Exists => {
                // Written by an earlier attempt whose answer was lost, or by another writer.
                let there = self.read_commit(commit.number).await?;
                if there.is_none_or(|there| there.id != commit.id) {
                    return Ok(None);
                }
            }
            Err(error) if error.kind == ObjectErrorKind::Unsupported => {
                return Err(self
                    .error(
                        "cannot be written: its store has no conditional writes, so two writers would lose snapshots",
                    )
                    .caused_by(Error::from(error)));
            }
            Err(error) => return Err(self.failed("commit", error)),
        }
        // Makes the loss of the last commit detectable: no later commit would reveal it.
        let done = self
            .store
            .write(&done_key(commit.number), "1\n".into(), PutMode::Overwrite)
            .await;
        if let Err(error) = done {
            tracing::warn!(repository = self.name(), commit = commit.number, %error, "cannot write the confirmation of a commit");
        }
        let after = Arc::new(after);
        let mut known = self.known.lock().await;
        if known.as_ref().is_none_or(|known| known.number < after.number) {
            *known = Some(Arc::clone(&after));
        }
        Ok(Some(after))
    }

    /// Creates the repository if it is new, and returns its uuid.
    pub async fn create(&self) -> Result<String> {
        for _ in 0..ATTEMPTS_MAX {
            let state = self.state().await?;
            if state.number > 0 {
                return Ok(state.uuid.clone());
            }
            self.try_commit(&state, vec![Change::Created((self.writer.fresh_id)())])
                .await?;
        }
        Err(self.always_late())
    }

    /// Returns the error of a commit that lost [`ATTEMPTS_MAX`] times.
    pub(super) fn always_late(&self) -> Error {
        self.error("cannot commit: other writers are always faster")
    }
}
