//! Values of a column, read by runs.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};

use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::numbers::Numbers;
use tantivy::columnar::ColumnValues;

use super::super::split_files::SplitFiles;
use super::open::StoredRuns;
use super::table::RUN_ROWS;
use crate::segment_cache::{CACHE, CacheKey};
use crate::splits::dry_run::ReadFailed;

/// Values of a column of a split. A run is fetched when one of its rows is first read, and stays in memory while the
/// column is open.
///
/// The interface for reading a value has no errors. If a run cannot be read, the reader unwinds with [`ReadFailed`];
/// the search catches it and returns the error inside.
pub struct RunValues {
    stored: StoredRuns,
    loaded: Box<[OnceLock<Numbers>]>,
    /// Cache key of the column; the memory of its runs is added there.
    key: CacheKey,
}

impl fmt::Debug for RunValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RunValues({} runs)", self.loaded.len())
    }
}

impl RunValues {
    pub(super) fn new(stored: StoredRuns, key: CacheKey) -> Self {
        let count = stored.runs().ends.len();
        Self {
            stored,
            loaded: (0..count).map(|_| OnceLock::new()).collect(),
            key,
        }
    }

    /// In a dry run ([`crate::splits::dry_run`]), records the missing runs of these rows.
    pub(crate) fn note(&self, rows: Range<u32>) {
        if rows.is_empty() {
            return;
        }
        let (first, last) = (rows.start / RUN_ROWS, (rows.end - 1) / RUN_ROWS);
        for number in first as usize..=(last as usize).min(self.loaded.len().saturating_sub(1)) {
            if self.loaded[number].get().is_none() {
                // An error means that the run is missing, and it is recorded.
                let _ = self.files().note(self.stored.part, &self.stored.run(number));
            }
        }
    }

    fn files(&self) -> &Arc<SplitFiles> {
        &self.stored.files
    }

    fn run(&self, number: usize) -> &Numbers {
        if let Some(run) = self.loaded[number].get() {
            return run;
        }
        // Not while the cell is locked: a thread that waits for bytes lets other jobs run, which may read the same run.
        match self.load(number) {
            Ok(run) => {
                let bytes = run.memory_bytes();
                if self.loaded[number].set(run).is_ok() {
                    CACHE.grow(&self.key, bytes);
                }
                self.loaded[number].get().expect("set by this thread or by another one")
            }
            Err(error) => resume_unwind(Box::new(ReadFailed(error))),
        }
    }

    fn load(&self, number: usize) -> Result<Numbers> {
        let bytes = self.files().read(self.stored.part, &self.stored.run(number))?;
        let rows = self.stored.runs().rows_of(number);
        Numbers::unpack(&bytes, rows.len())
            .ok_or_else(|| Error::new(ErrorKind::Repository, "a column of a split is damaged"))
    }
}

impl ColumnValues<u64> for RunValues {
    fn get_val(&self, row: u32) -> u64 {
        self.run((row / RUN_ROWS) as usize).get((row % RUN_ROWS) as usize)
    }

    fn get_vals(&self, rows: &[u32], output: &mut [u64]) {
        assert_eq!(rows.len(), output.len());
        let mut at = 0;
        while at < rows.len() {
            // Rows mostly ascend, so many consecutive rows are in one run.
            let number = rows[at] / RUN_ROWS;
            let run = self.run(number as usize);
            while let Some(row) = rows.get(at).filter(|row| **row / RUN_ROWS == number) {
                output[at] = run.get((row % RUN_ROWS) as usize);
                at += 1;
            }
        }
    }

    fn get_range(&self, start: u64, mut output: &mut [u64]) {
        let mut row = start;
        while !output.is_empty() {
            let within = row % u64::from(RUN_ROWS);
            let count = output.len().min((u64::from(RUN_ROWS) - within) as usize);
            let (now, later) = output.split_at_mut(count);
            self.run((row / u64::from(RUN_ROWS)) as usize)
                .read(within as usize, now);
            output = later;
            row += count as u64;
        }
    }

    fn get_row_ids_for_value_range(&self, values: RangeInclusive<u64>, rows: Range<u32>, hits: &mut Vec<u32>) {
        const BLOCK: u32 = 256;
        let mut read = [0; BLOCK as usize];
        let end = rows.end.min(self.num_vals());
        let mut start = rows.start;
        while start < end {
            let count = BLOCK.min(end - start);
            let read = &mut read[..count as usize];
            self.get_range(start.into(), read);
            hits.extend(
                (start..)
                    .zip(&*read)
                    .filter(|(_, value)| values.contains(value))
                    .map(|(row, _)| row),
            );
            start += count;
        }
    }

    fn min_value(&self) -> u64 {
        self.stored.runs().min
    }

    fn max_value(&self) -> u64 {
        self.stored.runs().max
    }

    fn num_vals(&self) -> u32 {
        self.stored.runs().rows
    }
}
