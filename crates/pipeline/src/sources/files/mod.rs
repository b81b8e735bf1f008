//! Files that are followed: log files by patterns, through rotation, and gzip files, which are read once.
//!
//! A partition is one content of a file, known by device, inode, the checksum of its first line and a generation, so that a renamed file
//! continues and a reused inode does not. An event's offset is where its line starts; a batch covers its lines with their line
//! breaks. In a gzip file offsets are those of the text.
//!
//! With each position the checksum of the bytes before it is stored ([`mark`]). A file that no longer has these bytes was written
//! anew, in place or by a rename: it is read from its start as the next generation. Only a file that is written anew with the very
//! bytes that it had there cannot be distinguished from one that grows. Files are looked at four times a second, which needs no notification of
//! the file system and works on all of them.

mod failures;
mod mark;
mod paths;
mod read_order;
mod tail;
#[cfg(test)]
mod tests;
mod unpacked;
mod vanished;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use firn_model::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use self::failures::Failures;
use self::paths::{Found, PathPattern, find};
use self::read_order::{DueFile, read_order};
use self::tail::{FileId, Lines, Reading, Stamp, Tail};
use self::vanished::{Present, Vanished, parts_of};
use super::{Batch, BatchOutcome, Resume, Source, SourceOutput};
use crate::definition::FileDefinition;

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a file that no pattern matches any more is read on: a program may still write to a file that was renamed.
const READ_ON: Duration = Duration::from_secs(60);
/// After this much of it a last line without a line break is whole: no program completes it.
const WHOLE_AFTER: Duration = Duration::from_secs(30);
/// Pause before a file that could not be read is tried again, unless it changes.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Errors of the decoder of gzip files.
const DAMAGE: [io::ErrorKind; 3] = [
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::InvalidData,
];
/// How often the lag is shown while the pipeline is full.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Files with an open handle. Those that changed least recently are closed.
const OPEN_MAX: usize = 512;
/// Files that are read before some are closed.
const OPENED_AT_ONCE: usize = 64;
/// Least time that a pass spends on the files that were not read to their ends yet.
const QUEUE_FOR_MIN: Duration = Duration::from_millis(250);

/// Source of a definition.
struct Files {
    patterns: Arc<[PathPattern]>,
    partial_line_after: Duration,
    forget_after: Duration,
}

/// Makes a source.
///
/// # Errors
/// [`ErrorKind::IllegalArgument`]: a pattern or a duration is invalid.
pub(super) fn open(definition: &FileDefinition) -> Result<Box<dyn Source>> {
    let patterns = definition.paths.iter().map(|text| PathPattern::parse(text));
    Ok(Box::new(Files {
        patterns: patterns.collect::<Result<_>>()?,
        partial_line_after: definition.partial_line_after()?,
        forget_after: definition.forget_positions_after()?,
    }))
}

#[async_trait]
impl Source for Files {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        let mut following = Following::new(output, self.partial_line_after, self.forget_after).await?;
        while !following.output.is_stopped() {
            let patterns = Arc::clone(&self.patterns);
            let looked = Instant::now();
            let found = blocking(move || find(&patterns)).await??;
            // A look at many files takes long: then as much time is for reading them.
            let queue_for = QUEUE_FOR_MIN.max(looked.elapsed());
            let mut present = following.follow(found);
            following.show_state();
            let has_read = following.read(queue_for).await?;
            following.show_state();
            following.forget_vanished(&mut present).await;
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
    partial_line_after: Duration,
    tails: HashMap<FileId, Followed>,
    /// Names of the partitions of each file that were known when the source started.
    known_at_start: HashMap<FileId, Vec<(String, Resume)>>,
    vanished: Vanished,
    failures: Failures,
    /// Folders that could not be read in the last look.
    unlisted: HashSet<PathBuf>,
    /// Outcomes of batches that were sent.
    waiting: Vec<oneshot::Receiver<Result<BatchOutcome>>>,
}

struct Followed {
    tail: Tail,
    stamp: Stamp,
    /// Length of the file when it was last looked at.
    length: u64,
    /// Since when there may be lines that were not read; `None`: there are none.
    due_since: Option<Instant>,
    /// It was read to its end.
    is_current: bool,
    /// It is looked at once more: a change within the resolution of the file system's clock leaves the stamp as it was. After an error,
    /// it is tried again.
    again_at: Option<Instant>,
    /// Where it could not be read.
    failed_at: Option<PathBuf>,
    /// When no pattern matched the file any more.
    gone_since: Option<Instant>,
}

impl Followed {
    /// Returns whether it is time to look at it once more.
    fn take_again(&mut self, now: Instant) -> bool {
        self.again_at.take_if(|at| now >= *at).is_some()
    }
}

impl Following {
    async fn new(output: SourceOutput, partial_line_after: Duration, forget_after: Duration) -> Result<Self> {
        let mut known_at_start: HashMap<FileId, Vec<(String, Resume)>> = HashMap::new();
        for position in output.positions().all().await? {
            if let Some((id, _)) = parts_of(&position.partition) {
                let resume = Resume {
                    offset: position.resume_offset,
                    note: position.note,
                };
                known_at_start.entry(id).or_default().push((position.partition, resume));
            }
        }
        Ok(Self {
            output,
            partial_line_after,
            tails: HashMap::new(),
            known_at_start,
            vanished: Vanished::new(forget_after),
            failures: Failures::default(),
            unlisted: HashSet::new(),
            waiting: Vec::new(),
        })
    }

    /// Follows what was found, and returns what is known of the files.
    fn follow(&mut self, found: Found) -> Present {
        let now = Instant::now();
        let present = Present {
            is_complete: found.errors.is_empty(),
            devices: found
                .devices
                .iter()
                .copied()
                .chain(found.files.keys().map(|id| id.device))
                .collect(),
            ..Present::default()
        };
        self.note_unlisted(found.errors);
        self.tails.retain(|id, followed| {
            if found.files.contains_key(id) {
                return true;
            }
            // Without its handle it cannot be read.
            if followed.tail.opened_at().is_some() {
                followed.due_since.get_or_insert(now);
            }
            let since = *followed.gone_since.get_or_insert(now);
            let is_followed = since.elapsed() < READ_ON;
            if !is_followed && let Some(path) = &followed.failed_at {
                self.failures.works(path);
            }
            is_followed
        });
        for (id, (stamp, path)) in found.files {
            let followed = self.tails.entry(id).or_insert_with(|| Followed {
                tail: Tail::new(id, path.clone()),
                stamp,
                length: stamp.length,
                due_since: Some(now),
                is_current: false,
                again_at: Some(now + LOOK_EVERY),
                failed_at: None,
                gone_since: None,
            });
            if followed.stamp != stamp {
                followed.due_since.get_or_insert(now);
                followed.again_at = Some(now + LOOK_EVERY);
            }
            if followed.take_again(now) || followed.tail.is_partial_due(self.partial_line_after) {
                followed.due_since.get_or_insert(now);
            }
            followed.stamp = stamp;
            followed.length = stamp.length;
            followed.gone_since = None;
            followed.tail.moved_to(path);
        }
        present
    }

    /// Reads some lines of each file that has new ones; of those that were not read to their ends yet, only as many as `queue_for`
    /// allows. False if there is nothing more to read now.
    async fn read(&mut self, queue_for: Duration) -> Result<bool> {
        let due = self.tails.iter().filter_map(|(id, followed)| {
            Some(DueFile {
                id: *id,
                is_current: followed.is_current,
                since: followed.due_since?,
                stamp: followed.stamp,
            })
        });
        let (current, queue) = read_order(due);
        let (mut has_read, mut number) = (false, 0);
        let mut queue_started: Option<Instant> = None;
        let (current, queue) = (
            current.into_iter().map(|id| (id, true)),
            queue.into_iter().map(|id| (id, false)),
        );
        for (id, is_current) in current.chain(queue) {
            if self.output.is_stopped() {
                return Ok(false);
            }
            // At least one of the queue is read in each pass.
            if !is_current && queue_started.get_or_insert_with(Instant::now).elapsed() > queue_for {
                has_read = true;
                break;
            }
            number += 1;
            if number % OPENED_AT_ONCE == 0 {
                self.close_some();
                self.show_state();
            }
            has_read |= self.read_file(id).await?;
        }
        self.close_some();
        Ok(has_read)
    }

    /// Reads some lines of a file; false if it had none.
    async fn read_file(&mut self, id: FileId) -> Result<bool> {
        let Some(mut followed) = self.tails.remove(&id) else {
            return Ok(false);
        };
        // This is the second look.
        followed.take_again(Instant::now());
        let after = match followed.gone_since {
            Some(_) => self.partial_line_after.min(WHOLE_AFTER),
            None => self.partial_line_after,
        };
        let (mut followed, mut reading) = blocking(move || read_on(followed, after)).await?;
        if reading.is_ok() && followed.tail.needs_position() {
            let positioned = self.position(followed).await?;
            (followed, reading) = match positioned {
                (followed, Ok(())) => blocking(move || read_on(followed, after)).await?,
                (followed, Err(error)) => (followed, Err(error)),
            };
        }
        let lines = self.note_reading(&mut followed, reading);
        let partition = followed.tail.partition();
        self.tails.insert(id, followed);
        let Some(lines) = lines else { return Ok(false) };
        self.send(&partition, lines).await?;
        Ok(true)
    }

    /// Notes how the reading of a file ended, and returns its lines.
    fn note_reading(&mut self, followed: &mut Followed, reading: io::Result<Reading>) -> Option<Lines> {
        let has_more = match &reading {
            Ok(Reading::Lines(_)) => !followed.tail.is_read_to(followed.length),
            Ok(Reading::Rewritten) => true,
            Ok(Reading::Nothing) | Err(_) => false,
        };
        followed.is_current |= reading.is_ok() && !has_more;
        // To the end of the queue.
        followed.due_since = has_more.then(Instant::now);
        if followed.tail.take_trailing_garbage() {
            self.note_trailing_garbage(followed.tail.path());
        }
        let error = match reading {
            // It was reported, and is not whole yet.
            Ok(Reading::Nothing) if followed.tail.is_cut() => return None,
            Ok(reading) => {
                if let Some(path) = followed.failed_at.take() {
                    self.failures.works(&path);
                }
                return match reading {
                    Reading::Lines(lines) => Some(lines),
                    Reading::Nothing | Reading::Rewritten => None,
                };
            }
            Err(error) => error,
        };
        // A gzip file that is damaged or not whole is read again when it has changed.
        let is_damaged = error.raw_os_error().is_none() && DAMAGE.contains(&error.kind());
        followed.again_at = (!is_damaged).then(|| Instant::now() + READ_AGAIN_AFTER);
        let path = followed.tail.path().to_owned();
        // It was renamed or removed since it was found: the next look tells.
        if error.kind() == io::ErrorKind::NotFound {
            return None;
        }
        if let Some(before) = followed.failed_at.replace(path.clone())
            && before != path
        {
            self.failures.works(&before);
        }
        self.note_failure(&path, &error);
        None
    }

    fn note_unlisted(&mut self, errors: Vec<(PathBuf, io::Error)>) {
        let before = std::mem::take(&mut self.unlisted);
        for (path, error) in errors {
            // Once, not four times a second.
            if !before.contains(&path) {
                self.note_failure(&path, &error);
            }
            self.unlisted.insert(path);
        }
        for path in before.difference(&self.unlisted) {
            self.failures.works(path);
        }
    }

    fn note_trailing_garbage(&self, path: &Path) {
        let files = self.output.counters().counter("gzip_trailing_garbage");
        files.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(path = %path.display(), "bytes behind the end of a gzip file are ignored");
    }

    fn note_failure(&mut self, path: &Path, error: &io::Error) {
        let errors = self.output.counters().counter("read_errors");
        errors.fetch_add(1, Ordering::Relaxed);
        if self.failures.failed(path, error) {
            tracing::warn!(path = %path.display(), %error, "cannot read a file now; it is tried again");
        }
    }

    /// Shows operators how many bytes were not read, and what cannot be read.
    fn show_state(&self) {
        let behind = self
            .tails
            .values()
            .map(|followed| followed.tail.behind(followed.length));
        let lag = self.output.counters().counter("lag");
        lag.store(behind.sum(), Ordering::Relaxed);
        self.output.counters().set_last_error(self.failures.last());
    }

    /// Finds where a file has to be read on.
    async fn position(&self, mut followed: Followed) -> Result<(Followed, io::Result<()>)> {
        let tail = &followed.tail;
        let (mut known, mut next) = (None, tail.first_generation());
        // The lookup of the one that is free takes it, too.
        while let Some(resume) = self.output.resume(&tail.partition_of(next)).await? {
            known = Some((next, resume));
            next += 1;
        }
        if tail.is_rewritten() {
            self.note_rewritten();
            followed.tail.set_position(next, None);
            return Ok((followed, Ok(())));
        }
        let Some((generation, resume)) = known else {
            return self.position_by_content(followed).await;
        };
        let checked = blocking(move || {
            let begins = followed.tail.begins_with(&resume);
            match begins {
                Ok(true) => followed.tail.set_position(generation, Some(&resume)),
                // It was written anew since.
                Ok(false) => followed.tail.set_position(next, None),
                Err(_) => {}
            }
            (followed, begins)
        });
        let (followed, begins) = checked.await?;
        if matches!(begins, Ok(false)) {
            self.note_rewritten();
        }
        Ok((followed, begins.map(drop)))
    }

    fn note_rewritten(&self) {
        let rewritten = self.output.counters().counter("files_rewritten");
        rewritten.fetch_add(1, Ordering::Relaxed);
    }

    /// Finds the partition of a file that had not its whole first line when it was first read, or that an older version has read.
    async fn position_by_content(&self, mut followed: Followed) -> Result<(Followed, io::Result<()>)> {
        let candidates = self
            .known_at_start
            .get(&followed.tail.id())
            .cloned()
            .unwrap_or_default();
        let matching = blocking(move || {
            let mut matching: Vec<(String, u32)> = Vec::new();
            for (partition, resume) in candidates {
                let Some((name, generation)) = partition.rsplit_once(':') else {
                    continue;
                };
                if resume.note.is_none() && !followed.tail.is_older_partition(name) {
                    continue;
                }
                match followed.tail.begins_with(&resume) {
                    Ok(true) => matching.push((name.to_owned(), generation.parse().unwrap_or(0))),
                    Ok(false) => {}
                    Err(error) => return (followed, Err(error)),
                }
            }
            (followed, Ok(matching))
        });
        let (back, matching) = matching.await?;
        followed = back;
        let matching = match matching {
            Ok(matching) => matching,
            Err(error) => return Ok((followed, Err(error))),
        };
        for (name, generation) in matching.into_iter().rev() {
            if let Some(resume) = self.output.resume(&format!("{name}:{generation}")).await? {
                followed.tail.set_identity(&name);
                followed.tail.set_position(generation, Some(&resume));
                return Ok((followed, Ok(())));
            }
        }
        followed.tail.set_position(0, None);
        Ok((followed, Ok(())))
    }

    /// Removes the positions of files that are gone.
    async fn forget_vanished(&mut self, present: &mut Present) {
        let now = Instant::now();
        if !self.vanished.is_due(now) {
            return;
        }
        for (id, followed) in &self.tails {
            match followed.tail.partition_name() {
                Some(name) => drop(present.partitions.insert(name)),
                None => drop(present.unidentified.insert(*id)),
            }
        }
        let positions = self.output.positions();
        let forgotten = async {
            let partitions = positions.all().await?.into_iter().map(|at| at.partition).collect();
            let gone = self.vanished.look(partitions, present, now);
            if !gone.is_empty() {
                positions.forget(&gone).await?;
                tracing::info!(partitions = gone.len(), "removed the positions of files that are gone");
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "cannot remove the positions of files that are gone");
        }
    }

    async fn send(&mut self, partition: &str, lines: Lines) -> Result<()> {
        let received_ns = self.output.now_ns();
        let (done, outcome) = oneshot::channel();
        let batch = Batch {
            stored: None,
            partition: Some(partition.into()),
            first_offset: lines.first_offset,
            last_offset: lines.last_offset,
            note: Some(lines.note.as_str().into()),
            events: lines.into_events(received_ns),
            retries: true,
            done: Some(done),
        };
        let output = self.output.clone();
        let mut sending = std::pin::pin!(output.send(batch));
        loop {
            tokio::select! {
                sent = &mut sending => break sent?,
                // The pipeline is slow, and files grow.
                () = tokio::time::sleep(SHOW_EVERY) => self.look_at_lengths().await?,
            }
        }
        self.waiting.push(outcome);
        Ok(())
    }

    /// Shows how far the source is behind while it waits.
    async fn look_at_lengths(&mut self) -> Result<()> {
        let paths: Vec<(FileId, PathBuf)> = self
            .tails
            .iter()
            .map(|(id, followed)| (*id, followed.tail.path().to_owned()))
            .collect();
        let lengths = move || {
            let length = |(id, path): (FileId, PathBuf)| match FileId::of(&path) {
                Ok(Some((found, stamp))) if found == id => Some((id, stamp.length)),
                _ => None,
            };
            paths.into_iter().filter_map(length).collect::<Vec<_>>()
        };
        for (id, length) in blocking(lengths).await? {
            if let Some(followed) = self.tails.get_mut(&id) {
                followed.length = length;
            }
        }
        self.show_state();
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

/// Reads some lines. `after`: time until a last line without a line break is whole.
fn read_on(mut followed: Followed, after: Duration) -> (Followed, io::Result<Reading>) {
    let tail = &mut followed.tail;
    let reading = tail.look(after).and_then(|()| tail.read(after));
    (followed, reading)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::internal("the reading of a file failed because of a bug, see the log"))
}
