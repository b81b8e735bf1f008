//! Table of the columns of a split, stored in the footer.

use std::ops::Range;

use bytes::Bytes;

use crate::varint::{self, Reader};

/// Rows of a run: few enough that the newest hits of a tenant cost some 20 KB of timestamps, and enough that a million
/// documents have only 62 runs in each column.
pub const RUN_ROWS: u32 = 1 << 14;

/// Places of all columns, and the bytes between Tantivy's columns and the end of its file: names, ends, checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::splits) struct ColumnTable {
    /// In the order of the file, without gaps.
    pub(super) columns: Vec<StoredColumn>,
    /// Bytes after the columns.
    pub(super) tail: Bytes,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredColumn {
    /// Its range in Tantivy's file.
    pub(super) file: Range<u64>,
    /// Its start in the part.
    pub(super) start: u64,
    pub(super) stored: Stored,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    /// As Tantivy wrote it.
    Whole,
    /// A dictionary, an index of documents, then runs.
    Runs(Runs),
}

/// Description of a column in runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runs {
    /// Bytes of the dictionary; `None`: not a string column.
    pub(super) dictionary: Option<u64>,
    /// The index of documents, inline if it has only a few bytes.
    pub(super) index: IndexPlace,
    /// Tantivy's code for the encoding of the values.
    pub(super) codec: u8,
    pub(super) rows: u32,
    pub(super) min: u64,
    pub(super) max: u64,
    /// End of each run, relative to the start of the first.
    pub(super) ends: Vec<u64>,
}

/// The set of documents with values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndexPlace {
    /// Stored in the table.
    Inline(Vec<u8>),
    /// Stored after the dictionary, compressed with zstd: compressed and uncompressed bytes.
    Packed(u64, u64),
}

const WHOLE: u8 = 0;
const RUNS: u8 = 1;
const HAS_DICTIONARY: u8 = 2;
const INLINE_INDEX: u8 = 4;

impl StoredColumn {
    /// Returns the place of the dictionary in the part.
    pub(super) fn dictionary(&self, runs: &Runs) -> Option<Range<u64>> {
        runs.dictionary.map(|len| self.start..self.start + len)
    }

    /// Returns the place of the compressed index in the part.
    pub(super) fn index(&self, runs: &Runs) -> Range<u64> {
        let start = self.start + runs.dictionary.unwrap_or_default();
        match runs.index {
            IndexPlace::Inline(_) => start..start,
            IndexPlace::Packed(packed, _) => start..start + packed,
        }
    }

    /// Returns the place of a run in the part.
    pub(super) fn run(&self, runs: &Runs, number: usize) -> Range<u64> {
        let first = self.index(runs).end;
        let start = number.checked_sub(1).map_or(0, |before| runs.ends[before]);
        first + start..first + runs.ends[number]
    }

    /// Returns the bytes of the column in the part.
    fn len(&self) -> u64 {
        match &self.stored {
            Stored::Whole => self.file.end - self.file.start,
            Stored::Runs(runs) => self.index(runs).end + runs.ends.last().copied().unwrap_or_default() - self.start,
        }
    }
}

impl Runs {
    /// Returns the rows of a run.
    pub(super) fn rows_of(&self, number: usize) -> Range<u32> {
        let start = number as u32 * RUN_ROWS;
        start..start.saturating_add(RUN_ROWS).min(self.rows)
    }
}

impl ColumnTable {
    /// Returns the number of columns.
    pub(in crate::splits) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Returns the place of a column's dictionary in the part and in Tantivy's file; `None`: it has no dictionary, or
    /// is stored whole.
    pub(in crate::splits) fn dictionary(&self, number: usize) -> Option<(Range<u64>, Range<u64>)> {
        let column = self.columns.get(number)?;
        let Stored::Runs(runs) = &column.stored else {
            return None;
        };
        let range = column.dictionary(runs)?;
        let in_file = column.file.start..column.file.start + (range.end - range.start);
        Some((range, in_file))
    }

    /// Returns the length of Tantivy's file.
    pub(super) fn file_len(&self) -> u64 {
        self.columns_end() + self.tail.len() as u64
    }

    /// Returns the end of the columns in Tantivy's file.
    pub(super) fn columns_end(&self) -> u64 {
        self.columns.last().map_or(0, |column| column.file.end)
    }

    pub(in crate::splits) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, self.columns.len() as u64);
        for column in &self.columns {
            varint::put(&mut bytes, column.file.end - column.file.start);
            let Stored::Runs(runs) = &column.stored else {
                bytes.push(WHOLE);
                continue;
            };
            let has_dictionary = if runs.dictionary.is_some() { HAS_DICTIONARY } else { 0 };
            let inline = match runs.index {
                IndexPlace::Inline(_) => INLINE_INDEX,
                IndexPlace::Packed(..) => 0,
            };
            bytes.push(RUNS | has_dictionary | inline);
            if let Some(len) = runs.dictionary {
                varint::put(&mut bytes, len);
            }
            match &runs.index {
                IndexPlace::Inline(index) => {
                    varint::put(&mut bytes, index.len() as u64);
                    bytes.extend_from_slice(index);
                }
                IndexPlace::Packed(packed, unpacked) => {
                    varint::put(&mut bytes, *packed);
                    varint::put(&mut bytes, *unpacked);
                }
            }
            bytes.push(runs.codec);
            varint::put(&mut bytes, runs.rows.into());
            varint::put(&mut bytes, runs.min);
            varint::put(&mut bytes, runs.max);
            let mut start = 0;
            for end in &runs.ends {
                varint::put(&mut bytes, end - start);
                start = *end;
            }
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }

    /// Decodes [`ColumnTable::encode`] for a part of `part_len` bytes; `None`: the bytes are invalid.
    pub(in crate::splits) fn decode(bytes: &Bytes, part_len: u64) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        let mut columns = Vec::new();
        let (mut file_start, mut start) = (0u64, 0u64);
        for _ in 0..reader.small()? {
            let file_end = file_start.checked_add(reader.number()?)?;
            let flags = reader.byte()?;
            let stored = match flags {
                WHOLE => Stored::Whole,
                _ if flags & !(RUNS | HAS_DICTIONARY | INLINE_INDEX) == 0 => {
                    Stored::Runs(read_runs(flags, &mut reader)?)
                }
                _ => return None,
            };
            let column = StoredColumn {
                file: file_start..file_end,
                start,
                stored,
            };
            start = start.checked_add(column.len()).filter(|end| *end <= part_len)?;
            file_start = file_end;
            columns.push(column);
        }
        Some(Self {
            columns,
            tail: bytes.slice_ref(reader.rest),
        })
    }
}

fn read_runs(flags: u8, reader: &mut Reader<'_>) -> Option<Runs> {
    /// More than any part has; sums of some of them do not overflow.
    const LEN_MAX: u64 = 1 << 48;
    let len = |reader: &mut Reader<'_>| reader.number().filter(|len| *len <= LEN_MAX);
    let dictionary = match flags & HAS_DICTIONARY {
        0 => None,
        _ => Some(len(reader)?),
    };
    let index = match flags & INLINE_INDEX {
        0 => IndexPlace::Packed(len(reader)?, len(reader)?),
        _ => {
            let len = reader.small()? as usize;
            IndexPlace::Inline(reader.take(len)?.to_vec())
        }
    };
    let codec = reader.byte()?;
    let (rows, min, max) = (reader.small()?, reader.number()?, reader.number()?);
    let mut end = 0;
    let mut ends = Vec::with_capacity(rows.div_ceil(RUN_ROWS) as usize);
    for _ in 0..rows.div_ceil(RUN_ROWS) {
        end += len(reader)?;
        ends.push(end);
    }
    Some(Runs {
        dictionary,
        index,
        codec,
        rows,
        min,
        max,
        ends,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back() {
        let runs = |dictionary, index| {
            Stored::Runs(Runs {
                dictionary,
                index,
                codec: 2,
                rows: RUN_ROWS + 1,
                min: 3,
                max: u64::MAX,
                ends: vec![300, 310],
            })
        };
        let table = ColumnTable {
            columns: vec![
                StoredColumn {
                    file: 0..1000,
                    start: 0,
                    stored: runs(None, IndexPlace::Inline(vec![0])),
                },
                StoredColumn {
                    file: 1000..1010,
                    start: 310,
                    stored: Stored::Whole,
                },
                StoredColumn {
                    file: 1010..2000,
                    start: 320,
                    stored: runs(Some(40), IndexPlace::Packed(7, 20)),
                },
            ],
            tail: Bytes::from_static(b"tail"),
        };
        let bytes = Bytes::from(table.encode());
        assert_eq!(ColumnTable::decode(&bytes, 677), Some(table.clone()));
        assert_eq!(ColumnTable::decode(&bytes, 676), None);
        assert_eq!(table.file_len(), 2004);
        let last = &table.columns[2];
        let Stored::Runs(own) = &last.stored else {
            panic!("runs")
        };
        assert_eq!(last.dictionary(own), Some(320..360));
        assert_eq!(last.index(own), 360..367);
        assert_eq!((last.run(own, 0), last.run(own, 1)), (367..667, 667..677));
        assert_eq!(own.rows_of(1), RUN_ROWS..RUN_ROWS + 1);
        for len in 0..bytes.len() - 4 {
            assert_eq!(ColumnTable::decode(&bytes.slice(..len), 677), None, "{len}");
        }
    }
}
