//! Reader of a file of prepared hashes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use firn_model::{Error, Result};
use tantivy::directory::{FileHandle, FileSlice};
use tantivy::{DocId, HasLen};

use super::entries::{EntryReader, packed_len};
use super::{DISTINCT_FILE, zone};
use crate::columns::strings::StrColumn;
use crate::varint::{self, Reader};

/// First byte of the file.
pub(super) const VERSION: u8 = 1;
/// Bytes at the end of the file: the length of the directory (u32).
const TRAILER_BYTES: usize = 4;
/// Entries by row that are read at once: the rows of a search ascend.
const WINDOW_ROWS: u32 = 4096;

/// An open file of prepared hashes.
pub struct DistinctFile {
    file: FileSlice,
    /// By class and path, for example `kw.host.ip`.
    columns: HashMap<String, ColumnAbout>,
    zones: StoredZones,
}

/// The documents that have zones: zones of `docs` documents each, the last one may have fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredZones {
    /// Documents of a zone, at least 1.
    pub docs: u32,
    /// The documents before this one have zones.
    pub end: DocId,
}

/// A column in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnAbout {
    /// Whether there is an entry for each row of the column instead of each ordinal.
    pub(super) by_row: bool,
    pub(super) terms: u32,
    pub(super) rows: u32,
    pub(super) entries: Range<u64>,
    pub(super) zones: Vec<Range<u64>>,
}

impl ColumnAbout {
    fn count(&self) -> u32 {
        match self.by_row {
            true => self.rows,
            false => self.terms,
        }
    }
}

/// The content of the file, apart from the entries and zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) zones: StoredZones,
    pub(super) columns: Vec<(String, ColumnAbout)>,
}

impl Table {
    /// Encodes the end of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, self.zones.docs.into());
        varint::put(&mut bytes, self.zones.end.into());
        varint::put(&mut bytes, self.columns.len() as u64);
        for (name, about) in &self.columns {
            varint::put_text(&mut bytes, name);
            bytes.push(about.by_row.into());
            varint::put(&mut bytes, about.terms.into());
            varint::put(&mut bytes, about.rows.into());
            for zone in &about.zones {
                varint::put(&mut bytes, zone.end - zone.start);
            }
        }
        let len = bytes.len() as u32;
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes
    }

    /// Decodes it; the entries and zones end at `data_end`. `None`: the bytes are invalid.
    fn decode(bytes: &[u8], data_end: u64) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        let zones = StoredZones {
            docs: reader.small().filter(|docs| *docs > 0)?,
            end: reader.small()?,
        };
        let zone_count = zones.end.div_ceil(zones.docs);
        let count = reader.small()?;
        let mut columns = Vec::new();
        let mut next = 1_u64;
        let mut place = |len: u64| {
            let start = next;
            next = start.checked_add(len).filter(|end| *end <= data_end)?;
            Some(start..next)
        };
        for _ in 0..count {
            let name = reader.text()?.to_owned();
            let by_row = reader.byte()? != 0;
            let (terms, rows) = (reader.small()?, reader.small()?);
            let entries = place(packed_len(if by_row { rows } else { terms }))?;
            let zones = (0..zone_count)
                .map(|_| place(reader.number()?))
                .collect::<Option<_>>()?;
            let about = ColumnAbout {
                by_row,
                terms,
                rows,
                entries,
                zones,
            };
            columns.push((name, about));
        }
        (reader.rest.is_empty() && next == data_end).then_some(Self { zones, columns })
    }
}

fn damaged(what: &str) -> Error {
    Error::internal(format!("the file [{DISTINCT_FILE}] of a segment {what}"))
}

impl DistinctFile {
    /// Opens the file; `None`: a later build wrote it. Fails if its content is invalid.
    pub fn open(file: Arc<dyn FileHandle>) -> Result<Option<Self>> {
        let file = FileSlice::new(file);
        let len = file.len();
        let body_end = len.checked_sub(TRAILER_BYTES).filter(|end| *end > 0);
        let body_end = body_end.ok_or_else(|| damaged("is too short"))?;
        if file.read_bytes_slice(0..1)?[0] != VERSION {
            return Ok(None);
        }
        let trailer = file.read_bytes_slice(body_end..len)?;
        let table_len = trailer.first_chunk().map_or(0, |len| u32::from_le_bytes(*len)) as usize;
        let start = body_end.checked_sub(table_len).filter(|start| *start > 0);
        let start = start.ok_or_else(|| damaged("has no table"))?;
        let table = Table::decode(&file.read_bytes_slice(start..body_end)?, start as u64);
        let table = table.ok_or_else(|| damaged("has an invalid table"))?;
        Ok(Some(Self {
            file,
            columns: table.columns.into_iter().collect(),
            zones: table.zones,
        }))
    }

    /// Returns the prepared hashes of a column with this class field and path; `None`: it has none.
    pub fn column(&self, class_field: &str, path: &str, strings: &StrColumn) -> Option<DistinctColumn> {
        let about = self.columns.get(&format!("{class_field}.{path}"))?;
        let is_own = about.terms as usize == strings.num_terms() && about.rows == strings.ords().values.num_vals();
        is_own.then(|| DistinctColumn {
            file: self.file.clone(),
            about: about.clone(),
            zones: self.zones,
        })
    }
}

/// The prepared hashes of a column.
pub struct DistinctColumn {
    file: FileSlice,
    about: ColumnAbout,
    zones: StoredZones,
}

impl DistinctColumn {
    /// Whether there is an entry for each row of the column instead of each ordinal.
    pub fn is_by_row(&self) -> bool {
        self.about.by_row
    }

    /// Opens the entries.
    pub fn entries(&self) -> EntryReader {
        let place = self.about.entries.start as usize..self.about.entries.end as usize;
        let count = self.about.count();
        let window_len = if self.about.by_row { WINDOW_ROWS } else { count };
        EntryReader::new(self.file.slice(place), count, window_len)
    }

    /// Returns the documents that have zones.
    pub fn zones(&self) -> StoredZones {
        self.zones
    }

    /// Merges the registers of a zone into `registers`. Fails if the zone does not exist or is invalid.
    pub fn merge_zone(&self, number: u32, registers: &mut [u8]) -> Result<()> {
        let place = self.about.zones.get(number as usize);
        let place = place.ok_or_else(|| damaged("lacks a zone"))?;
        let bytes = self.file.read_bytes_slice(place.start as usize..place.end as usize)?;
        zone::merge(&bytes, registers).ok_or_else(|| damaged("has an invalid zone"))
    }
}

#[cfg(test)]
mod tests {
    use tantivy::directory::OwnedBytes;

    use super::*;

    fn example() -> Table {
        let about = |by_row, start: u64| ColumnAbout {
            by_row,
            terms: 3,
            rows: 4,
            entries: start..start + 14,
            zones: vec![start + 14..start + 20, start + 20..start + 21],
        };
        Table {
            zones: StoredZones { docs: 10, end: 13 },
            columns: vec![("kw.a.b".into(), about(true, 1)), ("kwc.ä".into(), about(false, 22))],
        }
    }

    fn file_of(table: &[u8], data_len: usize) -> Arc<dyn FileHandle> {
        let mut bytes = vec![VERSION];
        bytes.resize(1 + data_len, 0);
        bytes.extend_from_slice(table);
        Arc::new(OwnedBytes::new(bytes))
    }

    #[test]
    fn reads_what_it_writes_and_refuses_the_rest() {
        let bytes = example().encode();
        let table = &bytes[..bytes.len() - TRAILER_BYTES];
        assert_eq!(Table::decode(table, 43), Some(example()));
        for len in 0..table.len() {
            assert_eq!(Table::decode(&table[..len], 43), None, "{len}");
        }
        assert_eq!(Table::decode(table, 42), None);
        assert_eq!(Table::decode(table, 44), None);

        assert!(DistinctFile::open(file_of(&bytes, 42)).unwrap().is_some());
        for (file, message) in [
            (file_of(&bytes, 41), "invalid table"),
            (file_of(&1000u32.to_le_bytes(), 5), "no table"),
            (file_of(&[], 2), "too short"),
        ] {
            let error = DistinctFile::open(file).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        let later = Arc::new(OwnedBytes::new(vec![VERSION + 1, 0, 0, 0, 0, 0]));
        assert!(DistinctFile::open(later).unwrap().is_none());
    }
}
