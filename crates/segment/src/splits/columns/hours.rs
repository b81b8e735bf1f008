//! Timestamps of a split rounded down to the hour.
//!
//! Dashboards would fetch mostly timestamps in ms. If every interval of a histogram begins on an hour, the hour of each
//! event is enough: a hundredth of the bytes if rows are ordered by time.

use std::io::Write;

use bytes::Bytes;
use firn_model::Result;
use firn_storage::split::numbers;
use tantivy::columnar::{Column, MonotonicallyMappableToU64};

use super::table::RUN_ROWS;
use super::table::{ColumnTable, IndexPlace, Runs, Stored, StoredColumn};
use crate::columns::presence::is_full;
use crate::varint::{self, Reader};

/// The document index of a column with one value per document, as Tantivy writes it.
const FULL: [u8; 1] = [0];

/// Places of the hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::splits) struct Hours {
    /// Length of an hour in the unit of the column.
    unit: u64,
    pub(super) column: StoredColumn,
}

impl Hours {
    /// Writes the hours of a column of `i64`. `None`, and nothing written: some document does not have exactly one
    /// timestamp.
    pub(in crate::splits) fn write(
        column: &Column<u64>,
        unit: i64,
        out: &mut dyn Write,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Self>> {
        let rows = column.values.num_vals();
        if !is_full(column) || rows == 0 {
            return Ok(None);
        }
        let hour_of = |raw: u64| i64::from_u64(raw).div_euclid(unit).checked_mul(unit).map(i64::to_u64);
        let (Some(min), Some(max)) = (hour_of(column.values.min_value()), hour_of(column.values.max_value())) else {
            return Ok(None);
        };
        let mut ends = Vec::new();
        let mut end = 0;
        for start in (0..rows).step_by(RUN_ROWS as usize) {
            stop()?;
            let mut values = vec![0; RUN_ROWS.min(rows - start) as usize];
            column.values.get_range(start.into(), &mut values);
            // No value is before the smallest one.
            values.iter_mut().for_each(|raw| *raw = hour_of(*raw).unwrap_or(min));
            let packed = numbers::pack(&values)?;
            out.write_all(&packed)?;
            end += packed.len() as u64;
            ends.push(end);
        }
        let runs = Runs {
            dictionary: None,
            index: IndexPlace::Inline(FULL.to_vec()),
            codec: 0,
            rows,
            min,
            max,
            ends,
        };
        Ok(Some(Self {
            unit: unit as u64,
            column: StoredColumn {
                file: 0..0,
                start: 0,
                stored: Stored::Runs(runs),
            },
        }))
    }

    /// Encodes the unit, then a table of one column.
    pub(in crate::splits) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, self.unit);
        let table = ColumnTable {
            columns: vec![self.column.clone()],
            tail: Bytes::new(),
        };
        bytes.extend_from_slice(&table.encode());
        bytes
    }

    /// Decodes [`Hours::encode`] for a part of `part_len` bytes; `None`: the bytes are invalid.
    pub(in crate::splits) fn decode(bytes: &Bytes, part_len: u64) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        let unit = reader.number().filter(|unit| *unit > 0)?;
        let ColumnTable { mut columns, tail } = ColumnTable::decode(&bytes.slice_ref(reader.rest), part_len)?;
        let column = columns.pop().filter(|_| columns.is_empty() && tail.is_empty())?;
        let is_plain = |runs: &Runs| runs.dictionary.is_none() && runs.index == IndexPlace::Inline(FULL.to_vec());
        match &column.stored {
            Stored::Runs(runs) if is_plain(runs) => Some(Self { unit, column }),
            _ => None,
        }
    }

    /// Returns the length of an hour in the unit of the column.
    pub(super) fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the number of rows.
    pub(in crate::splits) fn rows(&self) -> u32 {
        match &self.column.stored {
            Stored::Runs(runs) => runs.rows,
            Stored::Whole => 0,
        }
    }
}
