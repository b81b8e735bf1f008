//! Writer of a split: converts a committed segment to one object.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::metadata::TIMESTAMP;
use firn_model::{Error, Result};
use firn_storage::split::block_index::BlockIndex;
use firn_storage::split::blocks::BlockWriter;
use firn_storage::split::{PartKind, SplitRef, SplitTenant, SplitWriter, salt_of_segment};
use tantivy::columnar::{ColumnType, ColumnarReader, DynamicColumn};
use tantivy::directory::FileSlice;
use tantivy::directory::footer::Footer;

use super::columns::{ColumnTable, Hours};
use super::split_files::owned;
use super::split_info::About;
use super::{SplitDocument, column_totals, columns, filters, lengths, names, open_recorder, terms};
use crate::columns::column::{NumColumn, docs_with_value};
use crate::frozen_segment::FrozenSegment;
use crate::schema::{IGNORED, fields};
use crate::stored_documents::Stored;
use crate::tenant_file::TENANTS_FILE;
use crate::zones::Zones;

/// Files of a segment that a split reproduces byte for byte. Columns and terms are converted; the others are stored as
/// they are.
pub(super) const COPIED: [(&str, PartKind); 5] = [
    (names::POSITIONS, PartKind::Positions),
    (names::POSTINGS, PartKind::Postings),
    (names::TERMS, PartKind::Terms),
    (names::COLUMNS, PartKind::Columns),
    (names::FIELD_NORMS, PartKind::Columns),
];
/// Parts no longer than this are also in the footer: bytes of the footer need no further request.
const SMALL_BYTES: u64 = 4 << 10;
/// Maximum size of a document index in the footer, enough for some nine million events. Without it each first read of a
/// document waits for one more request.
const SMALL_INDEX_BYTES: u64 = 128 << 10;
/// Total size of the dictionaries of counted columns in the footer, the shortest first. With them the most frequent
/// values are named without a request.
const SMALL_DICTIONARIES_BYTES: u64 = 16 << 10;
const HOUR_MS: i64 = 3_600_000;
/// Bytes copied between two checks for cancellation.
const COPY_BYTES: usize = 1 << 20;
/// Prefix of the names of string columns, and separator of the levels of their paths.
const KEYWORDS: &str = "kw\u{1}";
const PATH_SEPARATOR: char = '\u{1}';
/// Documents written between two checks for cancellation.
const STOP_DOCS: u32 = 1024;
/// Maximum of tenants of a split that the manifest names; if there are more, only the footer lists them.
const TENANTS_MAX: usize = 4096;

/// Writes a segment as a split. `stop` is called regularly; its error ends the write. The same segment gives the same
/// bytes. The files of the segment are verified before they are read.
pub fn write_split(segment: &FrozenSegment, out: &mut dyn Write, stop: &dyn Fn() -> Result<()>) -> Result<SplitRef> {
    segment.verify()?;
    let salt = salt_of_segment(&segment.id(), &serde_json::to_vec(&segment.meta)?);
    let mut writer = SplitWriter::new(out, salt);
    let (_, index) = writer.part(names::STORE, PartKind::Store, |out| write_documents(segment, out, stop))?;
    writer.part(names::STORE_INDEX, PartKind::Store, |out| {
        Ok(out.write_all(&index.groups)?)
    })?;
    let index_len = index.groups.len() as u64;
    if index_len <= SMALL_INDEX_BYTES {
        writer.hot(names::STORE_INDEX, std::iter::once(0..index_len).collect(), |_| {
            Ok(index.groups.clone())
        })?;
    }
    let mut files = segment.files.clone();
    let paged = match file(segment, names::TERMS) {
        Some(file) => terms::page(file, &fields().schema)?,
        None => None,
    };
    let paged_terms = paged.is_some();
    if let Some(paged) = paged {
        files.insert(format!("{}.{}", segment.id(), names::TERMS), paged);
    }
    let mut reads = open_recorder::reads_of_open(&files)?;
    for (name, kind) in COPIED {
        let Some(file) = files.get(&format!("{}.{name}", segment.id())) else {
            continue;
        };
        if name == names::COLUMNS {
            let table = write_columns(&mut writer, file, stop)?;
            if file.len() as u64 > SMALL_BYTES {
                write_totals(&mut writer, file, segment.docs(), &table, stop)?;
            }
            write_hours(&mut writer, segment, stop)?;
            continue;
        }
        writer.part(name, kind, |out| copy(file, out, stop))?;
        let mut hot = reads.remove(name).unwrap_or_default();
        if file.len() as u64 <= SMALL_BYTES {
            hot.push(0..file.len() as u64);
        }
        writer.hot(name, hot, |range| {
            Ok(file.slice(range.start as usize..range.end as usize))
        })?;
    }
    let (_, lengths) = writer.part(names::LENGTHS, PartKind::Lengths, |out| {
        lengths::write(&segment.reader, out, stop)
    })?;
    let (part, filters) = writer.part(names::FILTERS, PartKind::Filters, |out| {
        filters::write(&segment.reader, out, stop)
    })?;
    let filters = filters.into_iter().map(|filter| filter.placed_at(part.start)).collect();
    if let Some(filter) = segment.files.get(names::ID_FILTER) {
        writer.part(names::ID_FILTER, PartKind::Filters, |out| Ok(out.write_all(filter)?))?;
    }
    for name in [names::META, TENANTS_FILE] {
        if let Some(file) = segment.files.get(name) {
            writer.inline(name, file.clone());
        }
    }
    writer.inline(names::STORE, empty_store(segment)?);
    writer.inline(names::STORE_GROUPS, index.places);
    if let Some(zones) = time_zones(segment)? {
        writer.inline(names::TIME_ZONES, zones.encode().into());
    }
    let about = About {
        segment: segment.meta.clone(),
        column_docs: column_docs(segment)?,
        lengths,
        paged_terms,
    };
    let (_, written) = writer.finish(serde_json::to_value(&about)?)?;
    let meta = &segment.meta;
    Ok(SplitRef {
        id: written.id,
        len: written.len,
        salt,
        footer: written.footer,
        segment: segment.id(),
        docs: meta.docs,
        time_range_ms: meta.time_range_ms,
        without_time: meta.without_time,
        seq_no_range: meta.seq_no_range,
        segment_bytes: meta.size_bytes,
        tenants: tenants(segment),
        filters,
    })
}

/// Writes the timestamps rounded down to the hour. They are small, so they are collected in memory and written at once.
fn write_hours<W: Write>(
    writer: &mut SplitWriter<W>,
    segment: &FrozenSegment,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let column = NumColumn::open(&segment.reader, TIMESTAMP)?;
    let Some(column) = column.filter(|column| column.is_i64() && !segment.meta.is_nanos) else {
        return Ok(());
    };
    let mut bytes = Vec::new();
    let Some(hours) = Hours::write(&column.column, HOUR_MS, &mut bytes, stop)? else {
        return Ok(());
    };
    writer.part(names::HOURS, PartKind::Columns, |out| Ok(out.write_all(&bytes)?))?;
    writer.inline(names::HOUR_TABLE, hours.encode().into());
    let bytes = Bytes::from(bytes);
    if bytes.len() as u64 <= SMALL_BYTES {
        let all = std::iter::once(0..bytes.len() as u64).collect();
        writer.hot(names::HOURS, all, |range| {
            Ok(bytes.slice(range.start as usize..range.end as usize))
        })?;
    }
    Ok(())
}

fn write_columns<W: Write>(
    writer: &mut SplitWriter<W>,
    file: &Bytes,
    stop: &dyn Fn() -> Result<()>,
) -> Result<ColumnTable> {
    let table = if file.len() as u64 <= SMALL_BYTES {
        let mut bytes = Vec::new();
        let table = columns::write(file, &mut bytes, stop)?;
        writer.part(names::COLUMN_RUNS, PartKind::Columns, |out| Ok(out.write_all(&bytes)?))?;
        let bytes = Bytes::from(bytes);
        let len = bytes.len() as u64;
        writer.hot(names::COLUMN_RUNS, std::iter::once(0..len).collect(), |range| {
            Ok(bytes.slice(range.start as usize..range.end as usize))
        })?;
        table
    } else {
        let (_, table) = writer.part(names::COLUMN_RUNS, PartKind::Columns, |out| {
            columns::write(file, out, stop)
        })?;
        table
    };
    writer.inline(names::COLUMN_TABLE, table.encode().into());
    Ok(table)
}

/// Writes the statistics of whole columns, and the dictionaries that name the counted values.
fn write_totals<W: Write>(
    writer: &mut SplitWriter<W>,
    file: &Bytes,
    docs: u32,
    table: &ColumnTable,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut bytes = Vec::new();
    let totals = column_totals::write(file, docs, &mut bytes, stop)?;
    writer.part(names::TOTALS, PartKind::Columns, |out| Ok(out.write_all(&bytes)?))?;
    writer.inline(names::TOTAL_TABLE, totals.encode().into());
    let bytes = Bytes::from(bytes);
    if bytes.len() as u64 <= SMALL_BYTES {
        let all = std::iter::once(0..bytes.len() as u64).collect();
        writer.hot(names::TOTALS, all, |range| {
            Ok(bytes.slice(range.start as usize..range.end as usize))
        })?;
    }
    let mut dictionaries: Vec<(Range<u64>, Range<u64>)> =
        totals.counted().filter_map(|number| table.dictionary(number)).collect();
    dictionaries.sort_by_key(|(range, _)| (range.end - range.start, range.start));
    let mut left = SMALL_DICTIONARIES_BYTES;
    dictionaries.retain(|(range, _)| {
        let len = range.end - range.start;
        let fits = len <= left;
        left -= if fits { len } else { 0 };
        fits
    });
    let ranges = dictionaries.iter().map(|(range, _)| range.clone()).collect();
    writer.hot(names::COLUMN_RUNS, ranges, |range| {
        let found = dictionaries.iter().find(|(own, _)| *own == range);
        let (_, place) = found.ok_or_else(|| Error::internal("two dictionaries of a split overlap"))?;
        Ok(file.slice(place.start as usize..place.end as usize))
    })
}

fn file<'a>(segment: &'a FrozenSegment, extension: &str) -> Option<&'a Bytes> {
    let name = format!("{}.{extension}", segment.id());
    segment.files.get(&name)
}

fn copy(mut bytes: &[u8], out: &mut dyn Write, stop: &dyn Fn() -> Result<()>) -> Result<()> {
    while !bytes.is_empty() {
        stop()?;
        let (now, later) = bytes.split_at(bytes.len().min(COPY_BYTES));
        out.write_all(now)?;
        bytes = later;
    }
    Ok(())
}

fn write_documents(segment: &FrozenSegment, out: &mut dyn Write, stop: &dyn Fn() -> Result<()>) -> Result<BlockIndex> {
    let failed = |error: tantivy::TantivyError| Error::internal(format!("reading a segment failed: {error}"));
    let reader = &segment.reader;
    // One block is cached: documents are read in their order.
    let store = reader.get_store_reader(1)?;
    let seq_nos = reader.fast_fields().u64("_seq_no").map_err(failed)?;
    let versions = reader.fast_fields().column_opt::<u64>("_version").map_err(failed)?;
    let ignored = reader.fast_fields().str(&format!("kw.{IGNORED}")).map_err(failed)?;
    let mut blocks = BlockWriter::new(out)?;
    let mut record = Vec::new();
    for doc in 0..segment.docs() {
        if doc % STOP_DOCS == 0 {
            stop()?;
        }
        let stored = Stored::read(&store.get_document_bytes(doc).map_err(failed)?)
            .ok_or_else(|| Error::internal(format!("document {doc} of a segment cannot be read from its store")))?;
        let mut names = Vec::new();
        for ordinal in ignored
            .iter()
            .flat_map(|column| column.term_ords(doc).map(move |ord| (column, ord)))
        {
            let (column, ordinal) = ordinal;
            let mut name = String::new();
            column.ord_to_str(ordinal, &mut name)?;
            names.push(name);
        }
        names.sort_unstable();
        names.dedup();
        record.clear();
        SplitDocument {
            id: stored.id,
            routing: stored.routing,
            seq_no: seq_nos.first(doc).unwrap_or_default(),
            version: versions.as_ref().and_then(|versions| versions.first(doc)).unwrap_or(1),
            ignored: names,
            source: stored.source,
        }
        .encode(&mut record);
        blocks.push(&record)?;
    }
    blocks.finish()
}

/// Returns Tantivy's store without documents: Tantivy opens the store, but never reads it.
fn empty_store(segment: &FrozenSegment) -> Result<Bytes> {
    let file = file(segment, names::STORE).ok_or_else(|| Error::internal("a segment has no store"))?;
    // Every Tantivy file ends with a text, its length and a magic number (u32 each, little-endian).
    let end = file.len().saturating_sub(8);
    let text = file.get(end..end + 4).and_then(|len| len.first_chunk());
    let start = text.and_then(|len| end.checked_sub(u32::from_le_bytes(*len) as usize));
    let start = start.ok_or_else(|| Error::internal("the store of a segment has no end"))?;
    Ok(file.slice(start..))
}

/// Returns the number of documents with each string path: scoring of a term needs it, and would otherwise read the
/// column.
fn column_docs(segment: &FrozenSegment) -> Result<BTreeMap<String, u64>> {
    let mut docs = BTreeMap::new();
    let Some(file) = file(segment, names::COLUMNS) else {
        return Ok(docs);
    };
    // Uses the bytes in memory: the folder of the segment may be deleted by now.
    let (_, columns) = Footer::extract_footer(FileSlice::new(Arc::new(owned(file.clone()))))?;
    for (name, column) in ColumnarReader::open(columns)?.list_columns()? {
        let Some(path) = name
            .strip_prefix(KEYWORDS)
            .filter(|_| column.column_type() == ColumnType::Str)
        else {
            continue;
        };
        if let DynamicColumn::Str(strings) = column.open()? {
            let count = docs_with_value(&strings.ords().index, segment.docs());
            docs.insert(path.replace(PATH_SEPARATOR, "."), count);
        }
    }
    Ok(docs)
}

fn time_zones(segment: &FrozenSegment) -> Result<Option<Zones>> {
    let column = NumColumn::open(&segment.reader, TIMESTAMP)?;
    Ok(column.and_then(|column| Zones::new(&column.column)))
}

fn tenants(segment: &FrozenSegment) -> Option<Vec<SplitTenant>> {
    let known = segment
        .tenants
        .as_ref()
        .filter(|tenants| tenants.rows.len() <= TENANTS_MAX)?;
    let one = |rows: &crate::tenants::TenantRows| SplitTenant {
        tenant: rows.tenant.to_string(),
        docs: rows.docs,
        time_range_ms: rows.time_range_ms,
    };
    Some(known.rows.iter().map(one).collect())
}
