//! Live segments of a shard: open for reading, with their current deletes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use firn_engine::document::StoredDocument;
use firn_model::ids::AutoId;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::analysis;
use firn_segment::block_checksums::CHECKSUMS_FILE;
use firn_segment::commit_point::{DeletesFile, SegmentMeta, damaged, segment_dir};
use firn_segment::deletes::DeleteSet;
use firn_segment::directory::DiskDirectory;
use firn_segment::distinct;
use firn_segment::schema::{IGNORED, fields};
use firn_segment::segment::{AliveBits, Segment};
use firn_segment::segment_memo::SegmentMemo;
use firn_segment::splits::dry_run;
use firn_segment::splits::dry_run::catch;
use firn_segment::tenant_file;
use firn_segment::tenant_file::TENANTS_FILE;
use firn_segment::tenants::SegmentTenants;
use tantivy::columnar::Column;
use tantivy::schema::{IndexRecordOption, TantivyDocument, Value};
use tantivy::store::StoreReader;
use tantivy::{DocSet, Index, SegmentReader, TERMINATED, Term};

use super::buffer::tantivy_error;
use super::checksums;
use super::config::ShardConfig;
use super::id_filter::IdFilter;
use super::seq_nos::SeqNos;
use super::tenant_count::{self, TenantColumns};

/// File with the Bloom filter of ids in a segment's folder.
pub(super) const FILTER_FILE: &str = "ids.filter";

/// Immutable part of an open segment.
pub(super) struct OpenSegment {
    pub(super) meta: SegmentMeta,
    pub(super) index: Index,
    pub(super) reader: SegmentReader,
    pub(super) directory: DiskDirectory,
    seq_nos: SeqNos,
    /// Opened on first use.
    versions: OnceLock<Option<Column<u64>>>,
    /// `None`: no user-given ids.
    pub(super) filter: Option<IdFilter>,
    pub(super) tenants: Option<Arc<SegmentTenants>>,
    derived: Arc<SegmentMemo>,
}

/// Segment and its mutable state, under the shard's lock.
pub(super) struct LiveSegment {
    pub(super) open: Arc<OpenSegment>,
    pub(super) deletes: DeleteSet,
    /// Deletes in the last commit point.
    pub(super) committed_deletes: Option<DeletesFile>,
    /// Whether a commit point names it.
    pub(super) committed: bool,
    /// The segment as last published to searches, with its deletes.
    pub(super) published: Option<Arc<Segment>>,
}

impl OpenSegment {
    /// Opens the folder of a segment described by `meta`. Checks the lengths of all files, not their
    /// checksums: see [`Self::verify`].
    pub(super) fn open(config: &ShardConfig, meta: SegmentMeta) -> Result<Arc<Self>> {
        let dir = segment_dir(&config.dir, meta.generation);
        // A damaged or missing file of checksums is rebuilt.
        for (name, sum) in meta.files.iter().filter(|(name, _)| *name != CHECKSUMS_FILE) {
            let path = dir.join(name);
            match config.disk.len(&path) {
                Ok(len) if len == sum.len => {}
                Ok(len) => return Err(damaged(&path, &format!("it has {len} bytes instead of {}", sum.len))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(damaged(&path, "it is missing"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let checksums = checksums::read(config, &dir, &meta)?;
        let directory = DiskDirectory::open(Arc::clone(&config.disk), dir.clone(), meta.files.clone(), checksums);
        let filter = if meta.user_ids > 0 && meta.files.contains_key(FILTER_FILE) {
            let path = dir.join(FILTER_FILE);
            let bytes = config.disk.read(&path)?;
            if crc32c::crc32c(&bytes) != meta.files[FILTER_FILE].crc {
                return Err(damaged(&path, "its checksum does not match"));
            }
            Some(IdFilter::from_bytes(bytes).ok_or_else(|| damaged(&path, "it is not a filter"))?)
        } else {
            None
        };
        let tenants = match meta.files.get(TENANTS_FILE) {
            None => None,
            Some(sum) => {
                let path = dir.join(TENANTS_FILE);
                let bytes = config.disk.read(&path)?;
                if crc32c::crc32c(&bytes) != sum.crc {
                    return Err(damaged(&path, "its checksum does not match"));
                }
                let tenants = tenant_file::decode(&bytes, meta.docs);
                Some(tenants.ok_or_else(|| damaged(&path, "it has no valid tenant counts"))?)
            }
        };
        // Tantivy panics on some kinds of damage.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            catch(|| {
                let index = Index::open(directory.clone());
                let mut index = index.map_err(|error| damaged(&dir, &error.to_string()))?;
                let reader = open_reader(&mut index)?;
                Self::new(index, reader, directory, meta, filter, tenants)
            })
        }));
        match opened {
            Ok(Err(error)) if error.kind() == ErrorKind::Internal => Err(damaged(&dir, error.reason())),
            Ok(opened) => opened,
            Err(_) => Err(damaged(&dir, "its files cannot be read")),
        }
    }

    /// Completes a segment whose Tantivy files were just written: adds firn's files to the folder.
    pub(super) fn finish(
        config: &ShardConfig,
        directory: &DiskDirectory,
        index: Index,
        reader: SegmentReader,
        mut meta: SegmentMeta,
        filter: Option<IdFilter>,
    ) -> Result<Arc<Self>> {
        let mut tenants = None;
        if let Some(field) = config.tenant_field.as_deref() {
            meta.is_nanos |= tenant_count::is_nanos(&reader, meta.time_range_ms)?;
            if let Some(columns) = TenantColumns::open(&reader, field, meta.time_range_ms, meta.is_nanos)? {
                tenants = tenant_count::count(&columns, meta.docs)?;
            }
        }
        if let Some(tenants) = &tenants {
            directory.write_small(TENANTS_FILE, &tenant_file::encode(tenants))?;
        }
        if let Some(filter) = &filter {
            directory.write_small(FILTER_FILE, filter.as_bytes())?;
        }
        distinct::write(directory, reader.segment_id(), meta.docs)?;
        meta.files = directory.finish()?;
        meta.size_bytes = meta.files.values().map(|sum| sum.len).sum();
        Self::new(index, reader, directory.clone(), meta, filter, tenants)
    }

    fn new(
        index: Index,
        reader: SegmentReader,
        directory: DiskDirectory,
        meta: SegmentMeta,
        filter: Option<IdFilter>,
        tenants: Option<SegmentTenants>,
    ) -> Result<Arc<Self>> {
        if reader.max_doc() != meta.docs {
            return Err(firn_model::Error::internal(format!(
                "the segment holds {} documents instead of {}",
                reader.max_doc(),
                meta.docs
            )));
        }
        let seq_nos = SeqNos::new(&reader, meta.ordered);
        let derived = Arc::new(SegmentMemo::of_directory(&reader, directory.clone()));
        Ok(Arc::new(Self {
            meta,
            index,
            reader,
            directory,
            seq_nos,
            versions: OnceLock::new(),
            filter,
            tenants: tenants.map(Arc::new),
            derived,
        }))
    }

    pub(super) fn seq_no(&self, doc: u32) -> u64 {
        self.seq_nos.of(doc)
    }

    pub(super) fn version(&self, doc: u32) -> u64 {
        let open = || {
            let column = self.reader.fast_fields().column_opt("_version");
            column.unwrap_or_else(|error| dry_run::fail(tantivy_error(error)))
        };
        let versions = self.versions.get_or_init(open);
        versions.as_ref().and_then(|versions| versions.first(doc)).unwrap_or(1)
    }

    /// Returns the first damage found in its files so far.
    pub(super) fn damage(&self) -> Option<&Error> {
        self.directory.damage()
    }

    /// Whether it has documents of tenants that are not ordered by tenant.
    pub(super) fn is_unclustered(&self) -> bool {
        self.tenants.as_ref().is_some_and(|tenants| !tenants.clustered)
    }

    /// Returns the live document with a user-given id.
    pub(super) fn find_id(&self, id: &str, hash: u64, is_alive: &dyn Fn(u32) -> bool) -> Result<Option<u32>> {
        if self.meta.user_ids == 0 || self.filter.as_ref().is_some_and(|filter| !filter.may_contain(hash)) {
            return Ok(None);
        }
        let field = fields().id;
        let inverted = self.reader.inverted_index(field).map_err(tantivy_error)?;
        let postings = inverted.read_postings(&Term::from_field_text(field, id), IndexRecordOption::Basic)?;
        let Some(mut postings) = postings else {
            return Ok(None);
        };
        while postings.doc() != TERMINATED {
            if is_alive(postings.doc()) {
                return Ok(Some(postings.doc()));
            }
            postings.advance();
        }
        Ok(None)
    }

    /// Returns the live document with an id that the shard generated at `seq_no`.
    pub(super) fn find_made(&self, seq_no: u64, is_alive: &dyn Fn(u32) -> bool) -> Result<Option<u32>> {
        let (low, high) = self.meta.seq_no_range;
        if !(low..=high).contains(&seq_no) {
            return Ok(None);
        }
        match self.seq_nos.find(seq_no).filter(|doc| is_alive(*doc)) {
            // A document with a user-given id may have been written with that sequence number.
            Some(doc) if self.meta.user_ids > 0 && self.stored(doc)?.1.is_some() => Ok(None),
            found => Ok(found),
        }
    }

    /// Returns the stored part of a document: source, user-given id, routing.
    pub(super) fn stored(&self, doc: u32) -> Result<(Bytes, Option<String>, Option<String>)> {
        let store: StoreReader = self.reader.get_store_reader(1)?;
        let document: TantivyDocument = store.get(doc).map_err(tantivy_error)?;
        let fields = fields();
        let text = |field| {
            document
                .get_first(field)
                .and_then(|value| value.as_str())
                .map(str::to_owned)
        };
        let source = document
            .get_first(fields.source)
            .and_then(|value| value.as_bytes())
            .map(Bytes::copy_from_slice)
            .unwrap_or_default();
        Ok((source, text(fields.stored_id), text(fields.routing)))
    }

    /// Returns a document for a read by id.
    pub(super) fn read(&self, doc: u32) -> Result<StoredDocument> {
        let (source, _, routing) = self.stored(doc)?;
        let mut ignored = Vec::new();
        if let Some(column) = self
            .reader
            .fast_fields()
            .str(&format!("kw.{IGNORED}"))
            .map_err(tantivy_error)?
        {
            for ord in column.term_ords(doc) {
                let mut name = String::new();
                column.ord_to_str(ord, &mut name)?;
                ignored.push(name);
            }
        }
        ignored.sort_unstable();
        Ok(StoredDocument {
            source,
            version: self.version(doc),
            seq_no: self.seq_no(doc),
            primary_term: 1,
            routing,
            ignored,
        })
    }

    /// Verifies every file against its checksum.
    pub(super) fn verify(&self) -> Result<()> {
        let files = self.meta.files.iter();
        files
            .into_iter()
            .try_for_each(|(name, sum)| self.directory.verify(name, *sum))
    }
}

/// Opens the reader of an index with exactly one segment.
pub(super) fn open_reader(index: &mut Index) -> Result<SegmentReader> {
    index.set_tokenizers(analysis::tokenizers());
    let segments = index.searchable_segments().map_err(tantivy_error)?;
    let [segment] = &segments[..] else {
        return Err(firn_model::Error::internal(format!(
            "a folder holds {} segments instead of one",
            segments.len()
        )));
    };
    SegmentReader::open(segment).map_err(tantivy_error)
}

impl LiveSegment {
    pub(super) fn generation(&self) -> u64 {
        self.open.meta.generation
    }

    pub(super) fn live_docs(&self) -> u32 {
        self.open.meta.docs - self.deletes.count()
    }

    /// Returns the segment for searches with the deletes of the refresh: the same object as last time if nothing
    /// changed.
    pub(super) fn publish(&mut self, deletes: &DeleteSet) -> Arc<Segment> {
        if let Some(published) = &self.published
            && published.deleted_count == deletes.count()
            && published.committed == self.committed
        {
            return Arc::clone(published);
        }
        let meta = &self.open.meta;
        let alive: Option<Arc<AliveBits>> = match &self.published {
            Some(published) if published.deleted_count == deletes.count() => published.alive.clone(),
            _ => deletes.to_alive(meta.docs).map(Arc::new),
        };
        let segment = Arc::new(Segment {
            generation: meta.generation,
            reader: self.open.reader.clone(),
            alive,
            max_doc: meta.docs,
            deleted_count: deletes.count(),
            time_range_ms: meta.time_range_ms,
            without_time_count: meta.without_time,
            seq_no_range: meta.seq_no_range,
            size_bytes: meta.size_bytes,
            committed: self.committed,
            tenants: self.open.tenants.clone(),
            derived: Arc::clone(&self.open.derived),
        });
        self.published = Some(Arc::clone(&segment));
        segment
    }
}

/// Returns the sequence number in an id that this shard generated.
pub(super) fn made_seq_no(config: &ShardConfig, id: &str) -> Option<u64> {
    AutoId::decode(id)
        .filter(|made| made.index_tag == config.index_tag && u32::from(made.shard) == config.shard)
        .map(|made| made.seq_no)
}
