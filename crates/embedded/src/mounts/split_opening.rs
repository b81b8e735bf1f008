//! Opening of mounted shards for a search, with all needed requests at once.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_query::Cancel;
use firn_scheduler::{wait_for_far, yield_now};
use firn_search::NotOpened;
use firn_segment::segment::{Segment, ShardSnapshot};
use firn_segment::splits::dry_run::{cold, note_fetched};
use firn_segment::splits::{SplitBytes, open_split};
use firn_storage::repository::SnapshotSegment;
use firn_storage::split::PartKind;
use futures_util::{StreamExt, stream};
use tokio::runtime::Handle;

use super::split_pruning::SplitPruning;
use super::{Conditions, MountService, MountedShard, OpenSplits, SplitKey, key_of, split_sampling};

/// Concurrent requests of one search for manifests and footers. The requests of the whole node have a separate limit,
/// in the object store layer.
pub(super) const REQUESTS_MAX: usize = 128;
/// How often a wait for object stores checks for cancellation.
const CANCEL_EVERY: Duration = Duration::from_millis(100);

/// The open part of a mounted shard for a search.
#[derive(Default)]
pub(crate) struct Opened {
    /// `None`: the shard holds no match.
    pub(crate) snapshot: Option<Arc<ShardSnapshot>>,
    /// Segments that are not in the snapshot.
    pub(crate) not_opened: NotOpened,
    /// Some segments that may hold a match are missing in the snapshot, because they did not arrive before the timeout
    /// of the search.
    pub(crate) is_late: bool,
}

/// A segment that has to be opened.
struct Closed {
    key: SplitKey,
    segment: Arc<SnapshotSegment>,
    bytes: Arc<dyn SplitBytes>,
    deletes: Option<Result<Bytes>>,
}

impl MountService {
    /// Loads the manifests of mounted shards that do not have one yet; returns one result per shard. After the timeout
    /// of the search, shards without a manifest get a timeout error.
    pub(crate) fn learn_manifests(&self, shards: &[&Arc<MountedShard>], cancel: &Cancel) -> Result<Vec<Result<()>>> {
        let unknown = |shard: &&&Arc<MountedShard>| shard.known().is_none();
        if !shards.iter().any(|shard| unknown(&shard)) {
            return Ok(shards.iter().map(|_| Ok(())).collect());
        }
        let learn = |shard: Arc<MountedShard>| async move {
            if shard.known().is_none() {
                let repository = || self.repositories.repository(&shard.store.repository);
                shard.learn(self.manifests.get(&shard.store, repository).await?);
            }
            Ok(())
        };
        let all = stream::iter(shards.iter().map(|shard| learn(Arc::clone(shard))))
            .buffered(REQUESTS_MAX)
            .collect::<Vec<Result<()>>>();
        match wait_for(self.repositories.io()?, cancel, all) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let known = |shard: &&Arc<MountedShard>| shard.known().map(drop).ok_or_else(|| error.clone());
                Ok(shards.iter().map(known).collect())
            }
            learned => learned,
        }
    }

    /// Opens the segments of mounted shards that can hold a match; returns one result per shard. Blocks while footers
    /// are fetched; the worker runs other jobs meanwhile. After the timeout of the search only local segments are
    /// opened, the others are missing in [`Opened::snapshot`], and [`Opened::is_late`] is set.
    pub(crate) fn open_mounted(
        &self,
        wanted: &[(Arc<MountedShard>, Arc<Conditions>)],
        cancel: &Cancel,
    ) -> Result<Vec<Result<Opened>>> {
        let shards: Vec<&Arc<MountedShard>> = wanted.iter().map(|(shard, _)| shard).collect();
        let learned = self.learn_manifests(&shards, cancel)?;
        let mut left = SplitPruning::of(wanted.iter().map(|(shard, conditions)| (shard, conditions)));
        match self.ask_filters(&mut left, cancel) {
            // After a timeout the filters exclude nothing.
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            outcome => outcome?,
        }
        let now_ms = self.node.now_ms();
        let mut segments: HashMap<SplitKey, Result<Arc<Segment>>> = HashMap::new();
        let mut closed: HashMap<SplitKey, Closed> = HashMap::new();
        for (shard_index, shard) in shards.iter().enumerate() {
            for (place, segment) in remaining_segments(shard, shard_index, &left) {
                let key = key_of(shard, segment);
                if segments.contains_key(&key) || closed.contains_key(&key) {
                    continue;
                }
                match self.open.get(&key, now_ms).filter(|_| !split_sampling::is_alike()) {
                    Some(open) => {
                        segments.insert(key, Ok(open));
                    }
                    None => match self.bytes_of(shard, place, segment) {
                        Ok(bytes) => {
                            let own = Closed {
                                key: key.clone(),
                                segment: Arc::clone(segment),
                                bytes,
                                deletes: None,
                            };
                            closed.insert(key, own);
                        }
                        Err(error) => {
                            segments.insert(key, Err(error));
                        }
                    },
                }
            }
        }
        let footer = |closed: &Closed| {
            closed.bytes.io()?;
            let footer = (PartKind::Footer, closed.segment.split.footer_logical());
            Some(match split_sampling::is_alike() {
                true => cold(|| closed.bytes.missing(&[footer])),
                false => closed.bytes.missing(&[footer]),
            })
        };
        let mut closed = split_sampling::leave_out(closed, footer, &mut segments);
        closed.retain(|key, _| match self.open.get(key, now_ms) {
            Some(open) => {
                segments.insert(key.clone(), Ok(open));
                false
            }
            None => true,
        });
        let closed = self.fetch_footers(wanted, closed, &mut segments, cancel)?;
        for closed in closed {
            yield_now();
            match cancel.check() {
                Err(error) if error.kind() != ErrorKind::Timeout => return Err(error),
                _ => {}
            }
            let key = closed.key.clone();
            segments.insert(key, self.open_closed(closed, now_ms));
        }
        let outcomes = shards.iter().enumerate().zip(learned);
        Ok(outcomes
            .map(|((shard_index, shard), learned)| match learned {
                Err(error) if error.kind() == ErrorKind::Timeout => Ok(Opened {
                    snapshot: Some(shard.snapshot(Vec::new())),
                    is_late: true,
                    ..Opened::default()
                }),
                learned => learned.and_then(|()| opened(shard, shard_index, &left, &segments)),
            })
            .collect())
    }

    /// Fetches the footers and deletes of splits concurrently. Those that do not arrive in time get an error in
    /// `segments`.
    fn fetch_footers(
        &self,
        wanted: &[(Arc<MountedShard>, Arc<Conditions>)],
        closed: HashMap<SplitKey, Closed>,
        segments: &mut HashMap<SplitKey, Result<Arc<Segment>>>,
        cancel: &Cancel,
    ) -> Result<Vec<Closed>> {
        if closed.is_empty() {
            return Ok(Vec::new());
        }
        let repositories: HashMap<Arc<str>, _> = wanted
            .iter()
            .map(|(shard, _)| Arc::<str>::from(shard.store.repository.as_str()))
            .map(|name| {
                let repository = self.repositories.repository(&name);
                (name, repository)
            })
            .collect();
        for closed in closed.values() {
            let footer = (PartKind::Footer, closed.segment.split.footer_logical());
            note_fetched(closed.bytes.missing(&[footer]));
        }
        let fetch = |mut closed: Closed| {
            let repository = repositories.get(&closed.key.repository).cloned();
            async move {
                let footer = (PartKind::Footer, closed.segment.split.footer_logical());
                // An error here occurs again, and is reported, when the bytes are read.
                let _ = closed.bytes.fetch(&[footer]).await;
                if let (Some(deletes), Some(repository)) = (&closed.segment.deletes, repository) {
                    closed.deletes = Some(match repository {
                        Ok(repository) => repository.deletes(deletes).await,
                        Err(error) => Err(error),
                    });
                }
                closed
            }
        };
        let keys: Vec<SplitKey> = closed.keys().cloned().collect();
        let mut fetched = Vec::with_capacity(closed.len());
        let mut fetching = stream::iter(closed.into_values().map(fetch)).buffer_unordered(REQUESTS_MAX);
        let all = async {
            while let Some(closed) = fetching.next().await {
                fetched.push(closed);
            }
        };
        match wait_for(self.repositories.io()?, cancel, all) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let came: HashSet<SplitKey> = fetched.iter().map(|closed| closed.key.clone()).collect();
                let late = keys.into_iter().filter(|key| !came.contains(key));
                segments.extend(late.map(|key| (key, Err(error.clone()))));
            }
            waited => waited?,
        }
        Ok(fetched)
    }

    fn open_closed(&self, closed: Closed, now_ms: i64) -> Result<Arc<Segment>> {
        let bytes = OpenSplits::bytes_of(&closed.segment);
        if !self.open.has_room(bytes) {
            return Err(Error::new(
                ErrorKind::CircuitBreaking,
                format!(
                    "[open_splits] Data too large: running searches use as many open splits of mounted indices as \
                     the limit of [{}b] for open splits permits",
                    self.node.config.open_splits_bytes_max
                ),
            ));
        }
        let deletes = closed.deletes.transpose().inspect_err(|error| {
            if error.kind() == ErrorKind::Repository {
                self.missed.store(true, Ordering::Release);
            }
        })?;
        let segment = open_split(&closed.segment.split, closed.bytes, deletes.as_deref())?;
        Ok(self.open.put(closed.key, Arc::new(segment), bytes, now_ms))
    }
}

/// Returns the segments of the shard at a place of the search that may hold a match, with their places.
fn remaining_segments<'a>(
    shard: &'a MountedShard,
    shard_index: usize,
    left: &'a SplitPruning,
) -> impl Iterator<Item = (usize, &'a Arc<SnapshotSegment>)> {
    let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
    let places = left
        .of_shard(shard_index, shard.number)
        .map_or(&[][..], |left| &left.places);
    places.iter().map(|place| (*place, &segments[*place]))
}

fn opened(
    shard: &MountedShard,
    shard_index: usize,
    left: &SplitPruning,
    segments: &HashMap<SplitKey, Result<Arc<Segment>>>,
) -> Result<Opened> {
    let Some(all) = shard.segments().filter(|segments| !segments.missing) else {
        return Err(Error::new(
            ErrorKind::ShardDamaged,
            format!(
                "shard [{}][{}] is not in snapshot [{}:{}]",
                shard.index, shard.number, shard.store.repository, shard.store.snapshot
            ),
        ));
    };
    let mut own = Vec::new();
    let mut is_late = false;
    for (_, segment) in remaining_segments(shard, shard_index, left) {
        match segments.get(&key_of(shard, segment)) {
            Some(Ok(open)) => own.push(Arc::clone(open)),
            Some(Err(error)) if error.kind() == ErrorKind::Timeout => is_late = true,
            Some(Err(error)) => return Err(error.clone()),
            None => return Err(Error::internal("a split was not opened")),
        }
    }
    Ok(Opened {
        is_late,
        snapshot: match own.is_empty() && !is_late && !all.segments.is_empty() {
            true => None,
            false => Some(shard.snapshot(own)),
        },
        not_opened: left
            .of_shard(shard_index, shard.number)
            .map(|left| left.pruned)
            .unwrap_or_default(),
    })
}

/// Waits for object stores; the worker runs other jobs meanwhile. Fails if the request is cancelled.
pub(super) fn wait_for<T>(io: &Handle, cancel: &Cancel, work: impl Future<Output = T>) -> Result<T> {
    wait_for_far(cancel, || {
        io.block_on(async {
            let mut work = std::pin::pin!(work);
            loop {
                if let Ok(done) = tokio::time::timeout(CANCEL_EVERY, work.as_mut()).await {
                    return Ok(done);
                }
                cancel.check()?;
            }
        })
    })
}
