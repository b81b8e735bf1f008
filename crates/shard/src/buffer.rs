//! Write buffers: documents that become a segment.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use firn_model::{Error, Result};
use firn_segment::analysis;
use firn_segment::deletes::DeleteSet;
use firn_segment::directory::{DiskDirectory, NO_SPACE};
use firn_segment::schema::fields;
use firn_segment::splits::dry_run::catch;
use parking_lot::Mutex;
use tantivy::indexer::SingleSegmentIndexWriter;
use tantivy::store::{Compressor, ZstdCompressor};
use tantivy::{Index, IndexSettings};

use super::config::ShardConfig;
use crate::mapper::MappedDocument;

/// Initial size of the hash table of terms, which grows as needed. Small, because most buffers hold only the documents
/// of one second.
const WRITER_BUDGET_BYTES: usize = 4 << 20;

/// Part of a buffer under a lock of the buffer.
pub(super) struct Buffer {
    /// Generation of the future segment.
    pub(super) generation: u64,
    /// Batches in the order of their document ids.
    pub(super) queue: Mutex<VecDeque<Vec<MappedDocument>>>,
    /// `None`: already a segment, or failed. Never locked while the shard's lock is held.
    pub(super) writer: Mutex<Option<Writer>>,
    /// Memory of the writer, bytes.
    pub(super) bytes: AtomicU64,
    /// Number of threads with documents in the queue.
    pub(super) busy: AtomicU32,
}

/// Writer of one segment.
pub(super) struct Writer {
    pub(super) tantivy: SingleSegmentIndexWriter<MappedDocument>,
    pub(super) directory: DiskDirectory,
}

/// Part of a buffer under the shard's lock.
pub(super) struct BufferState {
    pub(super) buffer: Arc<Buffer>,
    /// The buffer takes no more documents.
    pub(super) sealed: bool,
    /// Number of document ids assigned in this buffer.
    pub(super) docs: u32,
    /// Positions of user-given ids; entries of deleted documents are stale.
    pub(super) ids: HashMap<Box<str>, BufferedId>,
    /// Positions of documents with generated ids, by ascending sequence number.
    pub(super) runs: Vec<Run>,
    pub(super) deletes: DeleteSet,
    pub(super) time_range_ms: Option<(i64, i64)>,
    pub(super) without_time: u32,
    pub(super) seq_no_range: Option<(u64, u64)>,
    /// Bytes of sources retained for reads by id.
    pub(super) retained_bytes: usize,
}

/// Buffered document with a user-given id.
pub(super) struct BufferedId {
    pub(super) doc: u32,
    pub(super) seq_no: u64,
    pub(super) version: u64,
    /// For reads by id; `None`: not retained, a read refreshes first.
    pub(super) retained: Option<Arc<StoredOp>>,
}

/// Content of a read by id.
pub(super) struct StoredOp {
    pub(super) source: Bytes,
    pub(super) routing: Option<Box<str>>,
    pub(super) ignored: Vec<String>,
}

/// Run of consecutive documents with generated ids: document `doc + i` has sequence number `seq_no + i`.
pub(super) struct Run {
    pub(super) seq_no: u64,
    pub(super) doc: u32,
    pub(super) count: u32,
}

/// Returns the Tantivy settings for writing and merging segments.
pub(super) fn index_settings(config: &ShardConfig) -> IndexSettings {
    // Merging copies compressed blocks unchanged, so the level is chosen when a block is first written.
    let level = if config.best_compression { 9 } else { 1 };
    IndexSettings {
        docstore_compression: Compressor::Zstd(ZstdCompressor {
            compression_level: Some(level),
        }),
        docstore_compress_dedicated_thread: false,
        // Stored lines of a million web-log events at zstd 1: 87 MB in 64 KB blocks, 80 in 128 KB, 73 in 256 KB, with
        // the same write time. Reading one event decompresses its block. See `bench/RESULTS.md`.
        docstore_blocksize: 160 << 10,
        ..IndexSettings::default()
    }
}

impl Buffer {
    pub(super) fn create(config: &ShardConfig, generation: u64) -> Result<BufferState> {
        let dir = firn_segment::commit_point::segment_dir(&config.dir, generation);
        let directory = DiskDirectory::create(Arc::clone(&config.disk), dir)?;
        let tantivy = Index::builder()
            .schema(fields().schema.clone())
            .settings(index_settings(config))
            .tokenizers(analysis::tokenizers())
            .single_segment_index_writer(directory.clone(), WRITER_BUDGET_BYTES)
            .map_err(tantivy_error)?;
        let buffer = Buffer {
            generation,
            queue: Mutex::default(),
            writer: Mutex::new(Some(Writer { tantivy, directory })),
            bytes: AtomicU64::new(0),
            busy: AtomicU32::new(0),
        };
        Ok(BufferState {
            buffer: Arc::new(buffer),
            sealed: false,
            docs: 0,
            ids: HashMap::new(),
            runs: Vec::new(),
            deletes: DeleteSet::default(),
            time_range_ms: None,
            without_time: 0,
            seq_no_range: None,
            retained_bytes: 0,
        })
    }

    /// Indexes everything in the queue, including documents of other threads.
    pub(super) fn drain(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        match writer.as_mut() {
            Some(writer) => self.drain_into(writer),
            // The thread that took the writer has drained the queue first, or failed the shard.
            None => Ok(()),
        }
    }

    pub(super) fn drain_into(&self, writer: &mut Writer) -> Result<()> {
        loop {
            let Some(batch) = self.queue.lock().pop_front() else {
                return Ok(());
            };
            guarded("indexing a document", || {
                for document in batch {
                    writer.tantivy.add_document(document).map_err(tantivy_error)?;
                }
                Ok(())
            })?;
            self.bytes.store(writer.tantivy.mem_usage() as u64, Ordering::Relaxed);
        }
    }
}

impl BufferState {
    /// Assigns a document id.
    pub(super) fn add(&mut self, seq_no: u64, time_range_ms: Option<(i64, i64)>) -> u32 {
        let doc = self.docs;
        self.docs += 1;
        match time_range_ms {
            Some((low, high)) => {
                let (lowest, highest) = self.time_range_ms.unwrap_or((low, high));
                self.time_range_ms = Some((lowest.min(low), highest.max(high)));
            }
            None => self.without_time += 1,
        }
        let (low, high) = self.seq_no_range.unwrap_or((seq_no, seq_no));
        self.seq_no_range = Some((low.min(seq_no), high.max(seq_no)));
        doc
    }

    /// Records the position of a document with a generated id.
    pub(super) fn add_run(&mut self, seq_no: u64, doc: u32) {
        match self.runs.last_mut() {
            Some(run) if run.seq_no + u64::from(run.count) == seq_no && run.doc + run.count == doc => run.count += 1,
            _ => self.runs.push(Run { seq_no, doc, count: 1 }),
        }
    }

    /// Returns the document with a generated id and this sequence number.
    pub(super) fn find_made(&self, seq_no: u64) -> Option<u32> {
        let after = self.runs.partition_point(|run| run.seq_no <= seq_no);
        let run = &self.runs[after.checked_sub(1)?];
        let offset = seq_no - run.seq_no;
        (offset < u64::from(run.count)).then(|| run.doc + offset as u32)
    }

    /// Estimates the memory of the writer, the ids and the retained sources, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let ids = self.ids.len() as u64 * 120 + self.retained_bytes as u64;
        self.buffer.bytes.load(Ordering::Relaxed) + ids
    }
}

/// Runs code of the segment library; a panic in it becomes an error. The shard then stops, as its documents
/// may have other positions than it assumes.
pub(super) fn guarded<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| catch(run))).unwrap_or_else(|_| Err(Error::internal(format!("{what} panicked"))))
}

/// Converts an error of the segment library; a full disk stays a full disk.
pub(super) fn tantivy_error(error: tantivy::TantivyError) -> Error {
    use tantivy::TantivyError;
    use tantivy::directory::error::{OpenReadError, OpenWriteError};
    let io = match &error {
        TantivyError::IoError(io) => Some(io),
        TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. }) => Some(io_error),
        TantivyError::OpenWriteError(OpenWriteError::IoError { io_error, .. }) => Some(io_error),
        _ => None,
    };
    match io {
        Some(io) => std::io::Error::new(io.kind(), error.to_string()).into(),
        // Some layers of Tantivy keep only the text of an I/O error.
        None if error.to_string().contains(NO_SPACE) => Error::new(firn_model::ErrorKind::DiskFull, error.to_string()),
        None => Error::internal(error.to_string()),
    }
}
