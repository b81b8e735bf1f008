//! Writer of a file of prepared hashes.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;

use firn_model::{Error, Result};
use firn_query::aggs::cardinality::{PREPARED_BITS, hash_bytes, prepare, record_prepared};
use tantivy::DocId;
use tantivy::columnar::{ColumnType, ColumnarReader, DynamicColumn};
use tantivy::directory::footer::Footer;
use tantivy::directory::{Directory, FileSlice};
use tantivy::index::SegmentId;

use super::entries::pack;
use super::file::{ColumnAbout, StoredZones, Table, VERSION};
use super::{DISTINCT_FILE, zone};
use crate::columns::column::ValueBlock;
use crate::columns::strings::StrColumn;
use crate::directory::DiskDirectory;

/// Sizes on which the content of the file depends; readers take any.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Minimum of distinct values of a column in the file.
    pub terms_min: usize,
    /// Documents of a zone, at least 1.
    pub zone_docs: u32,
}

/// Fewer values are hashed in the time of one millisecond. Reading the rest of two zones row by row takes less than a
/// millisecond, and a zone of 8 KB takes an eighth of a byte for each document.
pub const DEFAULT_SIZES: Sizes = Sizes {
    terms_min: 4096,
    zone_docs: 1 << 16,
};
/// Documents that are read at once.
const BLOCK_DOCS: u32 = 1024;
/// Prefixes of the names of string columns in Tantivy's file, and the separator of the levels of their paths.
const STRING_COLUMNS: [&str; 2] = ["kw\u{1}", "kwc\u{1}"];
const PATH_SEPARATOR: &str = "\u{1}";
/// Extension of Tantivy's file of columns.
const COLUMNS: &str = "fast";

/// Writes the file of a segment of `docs` documents whose columns are written, if a column has enough values. Must be
/// called before [`DiskDirectory::finish`].
pub fn write(directory: &DiskDirectory, segment: SegmentId, docs: u32) -> Result<()> {
    // Mostly a document has one value; the few segments in which several have many work without the file.
    if (docs as usize) < DEFAULT_SIZES.terms_min {
        return Ok(());
    }
    let name = format!("{}.{COLUMNS}", segment.uuid_string());
    let file = directory
        .get_file_handle(Path::new(&name))
        .map_err(|error| Error::internal(format!("cannot open the columns of a new segment: {error}")))?;
    if let Some(bytes) = encode(FileSlice::new(file), docs, DEFAULT_SIZES)? {
        directory.write_small(DISTINCT_FILE, &bytes)?;
    }
    Ok(())
}

/// Returns the content of the file for Tantivy's file of columns; `None`: no column has enough values.
pub fn encode(columns: FileSlice, docs: u32, sizes: Sizes) -> Result<Option<Vec<u8>>> {
    let (_, columns) = Footer::extract_footer(columns)?;
    let mut bytes = vec![VERSION];
    let mut table = Table {
        zones: zones_of(docs, sizes.zone_docs),
        columns: Vec::new(),
    };
    let mut names = HashSet::new();
    for (name, handle) in ColumnarReader::open(columns)?.list_columns()? {
        let is_string = handle.column_type() == ColumnType::Str;
        if !is_string || !STRING_COLUMNS.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let DynamicColumn::Str(strings) = handle.open()? else {
            continue;
        };
        let strings = StrColumn::from(strings);
        let name = name.replace(PATH_SEPARATOR, ".");
        // A dot in a name would make two columns the same.
        if strings.num_terms() < sizes.terms_min || !names.insert(name.clone()) {
            continue;
        }
        if let Some(about) = write_column(&strings, docs, table.zones, &mut bytes)? {
            table.columns.push((name, about));
        }
    }
    if table.columns.is_empty() {
        return Ok(None);
    }
    bytes.extend_from_slice(&table.encode());
    Ok(Some(bytes))
}

/// A last zone of less than half the documents is left out.
fn zones_of(docs: u32, zone_docs: u32) -> StoredZones {
    let rest = docs % zone_docs;
    StoredZones {
        docs: zone_docs,
        end: if rest < zone_docs / 2 { docs - rest } else { docs },
    }
}

fn write_column(strings: &StrColumn, docs: u32, zones: StoredZones, out: &mut Vec<u8>) -> Result<Option<ColumnAbout>> {
    let ords = strings.ords();
    let rows = ords.values.num_vals();
    let Ok(terms) = u32::try_from(strings.num_terms()) else {
        return Ok(None);
    };
    let mut by_ordinal = Vec::with_capacity(terms as usize);
    let mut stream = strings.dictionary().stream()?;
    while stream.advance() {
        by_ordinal.push(prepare(hash_bytes(stream.key())));
    }
    // The values of a nearly unique field are read in the order of their rows; ordinals would be read in any order.
    let by_row = u64::from(terms) * 2 > u64::from(rows);
    let mut rows_read = Vec::with_capacity(if by_row { rows as usize } else { 0 });
    let mut zone_bytes = Vec::new();
    let mut places = Vec::new();
    let mut block = ValueBlock::default();
    let mut prepared = Vec::new();
    let mut read = |docs: Range<DocId>, registers: &mut [u8]| -> io::Result<()> {
        for start in docs.clone().step_by(BLOCK_DOCS as usize) {
            let documents: Vec<DocId> = (start..docs.end.min(start + BLOCK_DOCS)).collect();
            block.read(ords, &documents);
            prepared.clear();
            for ordinal in &block.raws {
                let entry = by_ordinal.get(*ordinal as usize);
                let lacks = || io::Error::new(io::ErrorKind::InvalidData, "a dictionary lacks an ordinal");
                prepared.push(*entry.ok_or_else(lacks)?);
            }
            record_prepared(registers, prepared.iter().copied());
            if by_row {
                rows_read.extend_from_slice(&prepared);
            }
        }
        Ok(())
    };
    let mut registers = vec![0; 1 << PREPARED_BITS];
    for start in (0..zones.end).step_by(zones.docs as usize) {
        registers.fill(0);
        read(start..zones.end.min(start + zones.docs), &mut registers)?;
        let from = zone_bytes.len() as u64;
        zone::encode(&registers, &mut zone_bytes);
        places.push(from..zone_bytes.len() as u64);
    }
    if by_row {
        read(zones.end..docs, &mut registers)?;
    }
    let entries_start = out.len() as u64;
    match by_row {
        true if rows_read.len() != rows as usize => return Ok(None),
        true => pack(&rows_read, out),
        false => pack(&by_ordinal, out),
    }
    let zones_start = out.len() as u64;
    out.extend_from_slice(&zone_bytes);
    Ok(Some(ColumnAbout {
        by_row,
        terms,
        rows,
        entries: entries_start..zones_start,
        zones: places
            .into_iter()
            .map(|place| zones_start + place.start..zones_start + place.end)
            .collect(),
    }))
}
