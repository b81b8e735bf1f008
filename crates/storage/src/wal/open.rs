//! Opening of a WAL: check, replay, truncation of a torn tail, continuation.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_model::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::durable_notes;
use super::format::{HEADER_BYTES, Header};
use super::log::{Log, OlderFile, State, create_file, remove_oldest};
use super::reader::{Listing, WalFile, damaged, list, scan};
use super::{Record, Syncer, WalOptions};
use crate::disk::{AppendFile, Disk};

pub(super) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    identity: u64,
    options: &WalOptions,
    syncer: &Syncer,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Log> {
    let listing = match disk.exists(dir)? {
        true => list(disk.as_ref(), dir, identity, options.keep_from_generation)?,
        false => Listing::default(),
    };
    let Listing {
        files,
        trimmed,
        temporary,
    } = listing;
    let is_new = files.is_empty();
    let last = match is_new {
        true => create(disk.as_ref(), dir, identity)?,
        false => replay_all(disk.as_ref(), dir, identity, &files, replay)?,
    };
    for path in temporary {
        match disk.remove_file(&path) {
            // Creating the first file reuses the name of a left-over temporary file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    // An earlier process may have removed names without a sync; see `remove_oldest`.
    if !trimmed.is_empty() {
        disk.sync_dir(dir)?;
    }
    for generation in trimmed {
        remove_oldest(disk.as_ref(), dir, generation)?;
    }
    let state = State {
        file: last.file,
        salt: last.header.salt,
        generation: last.header.generation,
        buffer: Vec::new(),
        written: last.end,
        records_end: last.durable,
        durable: last.durable,
        operations: last.operations,
        durable_operations: last.operations,
        older: last.older,
        epoch: 0,
        ended_epochs: VecDeque::new(),
        failure: None,
        is_closed: false,
        waiting: Vec::new(),
        is_syncing: false,
        is_requested: false,
        is_timed: false,
        sync_interval: options.sync_interval,
    };
    let log = Log {
        disk,
        dir: dir.to_path_buf(),
        identity,
        buffer_bytes: options.buffer_bytes,
        syncer: syncer.shared.clone(),
        state: Mutex::new(state),
        synced: Condvar::new(),
        has_trimmed: AtomicBool::new(false),
    };
    if !last.is_marked {
        log.mark(&mut log.state.lock())?;
    }
    Ok(log)
}

/// Last file of the log, where appends continue.
struct Last {
    header: Header,
    file: Arc<dyn AppendFile>,
    end: u64,
    /// Covers at least all records.
    durable: u64,
    /// Whether a sync mark states that `durable` bytes are durable.
    is_marked: bool,
    operations: u64,
    older: VecDeque<OlderFile>,
}

#[expect(clippy::disallowed_methods, reason = "no seed may repeat the salt of a WAL file")]
fn create(disk: &dyn Disk, dir: &Path, identity: u64) -> Result<Last> {
    disk.create_dir_all(dir)?;
    let header = Header {
        salt: fastrand::u32(..),
        generation: 1,
        identity,
        previous_len: 0,
    };
    let file = create_file(disk, dir, &header)?;
    disk.sync_dir(dir.parent().unwrap_or(Path::new("")))?;
    Ok(Last {
        header,
        file,
        end: HEADER_BYTES,
        durable: HEADER_BYTES,
        is_marked: false,
        operations: 0,
        older: VecDeque::new(),
    })
}

fn replay_all(
    disk: &dyn Disk,
    dir: &Path,
    identity: u64,
    files: &[WalFile],
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Last> {
    let mut older = VecDeque::new();
    for (index, file) in files.iter().enumerate() {
        let limit = files.get(index + 1).map(|next| next.header.previous_len);
        let scanned = scan(disk, file, limit, replay)?;
        if limit.is_some() {
            older.push_back(OlderFile {
                generation: file.header.generation,
                bytes: scanned.end,
                operations: scanned.operations,
            });
            continue;
        }
        let noted = durable_notes::read(disk, dir, identity, file.header.generation);
        if let Some(durable) = noted.filter(|durable| *durable > scanned.end) {
            let why = scanned.torn.unwrap_or("the file ends here");
            let why = format!("{why}, and {durable} bytes of the file were durable");
            return Err(damaged(&file.path, scanned.end, why));
        }
        if let Some(why) = scanned.torn {
            let cut_bytes = file.len - scanned.end;
            tracing::warn!(
                path = %file.path.display(), offset = scanned.end, cut_bytes, why,
                "truncated the torn tail of a write-ahead log; it contains no acknowledged operation"
            );
            disk.set_len(&file.path, scanned.end)?;
        }
        // Replayed records may be written but not synced (the process was killed, not the machine), or a sync of them
        // failed; the same holds for the file's name. They count as acknowledged from now on, so they must become
        // durable.
        let proven = scanned.proven.filter(|_| scanned.torn.is_none());
        if proven.is_none() {
            disk.rewrite_and_sync(&file.path, scanned.known_durable)?;
            disk.sync_dir(dir)?;
        }
        return Ok(Last {
            header: file.header,
            file: Arc::from(disk.open_append(&file.path)?),
            end: scanned.end,
            operations: scanned.operations,
            durable: proven.unwrap_or(scanned.end),
            is_marked: proven.is_some(),
            older,
        });
    }
    Err(Error::internal("cannot replay a write-ahead log that has no file"))
}
