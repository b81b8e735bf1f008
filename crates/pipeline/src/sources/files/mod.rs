//! Files that are followed: log files by patterns, through rotation, and gzip files, which are read once.
//!
//! A partition is one file, known by device, inode and the checksum of its first line, so that a renamed file continues and a
//! reused inode does not. An event's offset is where its line starts; a batch covers its lines with their line breaks. In a
//! gzip file offsets are those of the text.
//!
//! A file that becomes shorter starts anew (`copytruncate`): its partition gets the next generation. Files are looked at four
//! times a second, which needs no notification of the file system and works on all of them.

mod tail;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use firn_model::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use self::tail::{FileId, Lines, Stamp, Tail};
use super::{Batch, BatchOutcome, Source, SourceOutput};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a file that no pattern matches any more is read on: a program may still write to a file that was renamed.
const READ_ON: Duration = Duration::from_secs(60);
/// After this much of it a last line without a line break is whole: no program completes it.
const WHOLE_AFTER: Duration = Duration::from_secs(30);
/// Files with an open handle. Those that changed least recently are closed.
const OPEN_MAX: usize = 512;
/// Files that the patterns may match.
const FILES_MAX: usize = 100_000;

/// Source of a definition.
struct Files {
    patterns: Vec<String>,
}

/// Makes a source.
///
/// # Errors
/// [`ErrorKind::IllegalArgument`]: a pattern is invalid.
pub(super) fn open(patterns: &[String]) -> Result<Box<dyn Source>> {
    for pattern in patterns {
        glob::Pattern::new(pattern)
            .map_err(|error| Error::illegal_argument(format!("path [{pattern}] is no valid pattern: {error}")))?;
    }
    Ok(Box::new(Files {
        patterns: patterns.to_vec(),
    }))
}

#[async_trait]
impl Source for Files {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        let mut following = Following {
            output,
            tails: HashMap::new(),
            waiting: Vec::new(),
        };
        while !following.output.is_stopped() {
            let patterns = self.patterns.clone();
            let found = blocking(move || find(&patterns)).await??;
            following.follow(found);
            let has_read = following.read().await?;
            if !has_read {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    () = following.output.stopped() => {}
                }
            }
            following.check_outcomes()?;
        }
        Ok(())
    }
}

/// State of a running source.
struct Following {
    output: SourceOutput,
    tails: HashMap<FileId, Followed>,
    /// Outcomes of batches that were sent.
    waiting: Vec<oneshot::Receiver<Result<BatchOutcome>>>,
}

struct Followed {
    tail: Tail,
    stamp: Stamp,
    /// There may be lines that were not read.
    is_due: bool,
    /// When no pattern matched the file any more.
    gone_since: Option<Instant>,
}

impl Following {
    fn follow(&mut self, found: Vec<(FileId, Stamp, PathBuf)>) {
        let present: HashSet<FileId> = found.iter().map(|(id, ..)| *id).collect();
        for (id, stamp, path) in found {
            let followed = self.tails.entry(id).or_insert_with(|| Followed {
                tail: Tail::new(id, path.clone()),
                stamp,
                is_due: true,
                gone_since: None,
            });
            followed.is_due |= followed.stamp != stamp;
            followed.stamp = stamp;
            followed.gone_since = None;
            followed.tail.moved_to(path);
        }
        self.tails.retain(|id, followed| {
            if present.contains(id) {
                return true;
            }
            followed.is_due = true;
            let since = *followed.gone_since.get_or_insert_with(Instant::now);
            since.elapsed() < READ_ON
        });
    }

    /// Reads some lines of each file that has new ones; false if none had.
    async fn read(&mut self) -> Result<bool> {
        let mut has_read = false;
        let due = self.tails.iter().filter(|(_, followed)| followed.is_due);
        let mut due: Vec<FileId> = due.map(|(id, _)| *id).collect();
        due.sort_unstable();
        for id in due {
            if self.output.is_stopped() {
                return Ok(false);
            }
            let Some(followed) = self.tails.remove(&id) else {
                continue;
            };
            let (mut followed, mut lines) = blocking(move || read_on(followed)).await?;
            if followed.tail.needs_position() {
                self.position(&mut followed.tail).await?;
                (followed, lines) = blocking(move || read_on(followed)).await?;
            }
            let partition = followed.tail.partition();
            followed.is_due = !matches!(lines, Ok(None));
            self.tails.insert(id, followed);
            match lines {
                Ok(Some(lines)) => {
                    has_read = true;
                    self.send(&partition, lines).await?;
                }
                Ok(None) => {}
                Err(error) => {
                    let errors = self.output.counters().counter("read_errors");
                    errors.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(partition, %error, "cannot read a file now");
                }
            }
        }
        self.close_some();
        Ok(has_read)
    }

    /// Finds where a file has to be read on: the last generation of its partition, or a new one if the file is shorter than
    /// what was read of that.
    async fn position(&self, tail: &mut Tail) -> Result<()> {
        let mut known = None;
        for generation in 0.. {
            let resume = self.output.resume_offset(&tail.partition_of(generation)).await?;
            match resume {
                Some(offset) => known = Some((generation, offset)),
                None => break,
            }
        }
        tail.set_position(known);
        Ok(())
    }

    async fn send(&mut self, partition: &str, lines: Lines) -> Result<()> {
        let received_ns = self.output.now_ns();
        let (done, outcome) = oneshot::channel();
        let batch = Batch {
            partition: Some(partition.into()),
            first_offset: lines.first_offset,
            last_offset: lines.last_offset,
            events: lines.into_events(received_ns),
            retries: true,
            done: Some(done),
        };
        self.output.send(batch).await?;
        self.waiting.push(outcome);
        Ok(())
    }

    /// Fails if a batch was not stored: the source starts again from the positions.
    fn check_outcomes(&mut self) -> Result<()> {
        let mut failure = None;
        self.waiting.retain_mut(|outcome| match outcome.try_recv() {
            Ok(Ok(_)) => false,
            Ok(Err(error)) => {
                failure.get_or_insert(error);
                false
            }
            Err(oneshot::error::TryRecvError::Empty) => true,
            Err(oneshot::error::TryRecvError::Closed) => {
                failure.get_or_insert_with(|| Error::new(ErrorKind::Unavailable, "the pipeline gave a batch up"));
                false
            }
        });
        failure.map_or(Ok(()), Err)
    }

    fn close_some(&mut self) {
        let mut open: Vec<(Instant, FileId)> = self
            .tails
            .iter()
            .filter_map(|(id, followed)| Some((followed.tail.opened_at()?, *id)))
            .collect();
        if open.len() <= OPEN_MAX {
            return;
        }
        open.sort_unstable();
        for (_, id) in &open[..open.len() - OPEN_MAX] {
            if let Some(followed) = self.tails.get_mut(id) {
                followed.tail.close();
            }
        }
    }
}

fn read_on(mut followed: Followed) -> (Followed, std::io::Result<Option<Lines>>) {
    let is_gone = followed.gone_since.is_some_and(|since| since.elapsed() > WHOLE_AFTER);
    followed.tail.look(is_gone);
    let lines = followed.tail.read(is_gone);
    (followed, lines)
}

/// Returns the regular files that match, each once.
fn find(patterns: &[String]) -> Result<Vec<(FileId, Stamp, PathBuf)>> {
    let mut found = HashMap::new();
    for pattern in patterns {
        let paths = glob::glob(pattern)
            .map_err(|error| Error::illegal_argument(format!("path [{pattern}] is no valid pattern: {error}")))?;
        // A folder that cannot be read has no files that can.
        for path in paths.flatten() {
            if found.len() >= FILES_MAX {
                return Err(Error::illegal_argument(format!(
                    "the paths match more than [{FILES_MAX}] files"
                )));
            }
            if let Some((id, stamp)) = FileId::of(Path::new(&path)) {
                found.entry(id).or_insert((stamp, path));
            }
        }
    }
    Ok(found.into_iter().map(|(id, (stamp, path))| (id, stamp, path)).collect())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::internal("the reading of a file failed because of a bug, see the log"))
}
