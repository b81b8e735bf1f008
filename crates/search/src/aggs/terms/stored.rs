//! Counts of one of several segments by ordinal, whose values are resolved only when needed.

use std::fmt;
use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{KeyBytes, ValueCounts, address_of};
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema;
use firn_segment::schema::Class;
use tantivy::SegmentReader;

use super::super::counts::{Counts, RowTotals};
use super::super::table::Table;
use super::collector::cut_row;
use super::{Cut, string_key};
use crate::compile::string_scan::Texts;
use crate::run::memory::Memory;

/// With fewer values, all are resolved at once.
const VALUES_MIN: usize = 1000;

/// The column from which values can be read again.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) reader: SegmentReader,
    pub(super) class: Class,
    pub(super) path: String,
    pub(super) is_ip: bool,
}

/// Counts of one segment by ordinal; see the module.
pub(super) struct SegmentCounts {
    /// By ordinal.
    counts: Counts,
    totals: RowTotals,
    strings: StrColumn,
    origin: Origin,
    memory: Memory,
    bytes: usize,
}

impl SegmentCounts {
    /// Moves the counts out of a table with one parent; `None`: they are not stored by key, or are so few that they
    /// can be resolved at once.
    pub(super) fn take(table: &mut Table, strings: &StrColumn, origin: &Origin) -> Option<Arc<Self>> {
        let totals = table.row(0)?.totals();
        if totals.value_count < VALUES_MIN {
            return None;
        }
        let (counts, memory, bytes) = table.take_row()?;
        Some(Arc::new(Self {
            counts,
            totals,
            strings: strings.clone(),
            origin: origin.clone(),
            memory,
            bytes,
        }))
    }

    fn texts(&self) -> Result<Option<Arc<Texts>>> {
        let Origin {
            reader, class, path, ..
        } = &self.origin;
        Texts::of(reader, *class, path, &mut || Ok(()))
    }

    fn key(&self, value: &[u8]) -> KeyBytes {
        string_key(&String::from_utf8_lossy(value), self.origin.is_ip)
    }

    /// Returns a key as the column stores it; `None`: it cannot be in the column.
    fn value(&self, key: &KeyBytes) -> Option<String> {
        match key {
            KeyBytes::Str(text) => Some(text.to_string()),
            KeyBytes::Ip(bits) => Some(schema::encode_ip(address_of(*bits))),
            _ => None,
        }
    }
}

impl Drop for SegmentCounts {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

impl fmt::Debug for SegmentCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.origin.path;
        write!(formatter, "SegmentCounts({path}, {} values)", self.totals.value_count)
    }
}

impl ValueCounts for SegmentCounts {
    fn value_count(&self) -> usize {
        self.totals.value_count
    }

    fn total(&self) -> u64 {
        self.totals.total
    }

    fn most_frequent(&self, count: usize) -> Result<(Vec<(KeyBytes, u64)>, u64)> {
        // One more entry gives the highest count of the others.
        let row = self.counts.row(0, self.counts.cell_count());
        let mut entries = cut_row(0, row, &Cut::most_frequent(count.saturating_add(1))).top;
        let floor = entries.get(count).map_or(0, |entry| entry.count);
        entries.truncate(count);
        entries.sort_unstable_by_key(|entry| entry.key);
        let mut named = Vec::with_capacity(entries.len());
        if let Some(texts) = self.texts()? {
            named.extend(
                entries
                    .iter()
                    .map(|entry| (self.key(texts.get(entry.key as usize)), entry.count)),
            );
            return Ok((named, floor));
        }
        let ordinals: Vec<u64> = entries.iter().map(|entry| entry.key).collect();
        let mut counts = entries.iter().map(|entry| entry.count);
        self.strings.dictionary().sorted_ords_to_term_cb(&ordinals, |value| {
            named.push((self.key(value), counts.next().unwrap_or_default()));
        })?;
        Ok((named, floor))
    }

    fn counts_of(&self, keys: &[&KeyBytes]) -> Result<Vec<u64>> {
        let texts = self.texts()?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let ordinal = match (self.value(key), &texts) {
                (None, _) => None,
                (Some(value), Some(texts)) => texts.position(value.as_bytes()),
                (Some(value), None) => self
                    .strings
                    .dictionary()
                    .term_ord(value.as_bytes())?
                    .map(|ordinal| ordinal as usize),
            };
            found.push(ordinal.map_or(0, |ordinal| self.counts.get(ordinal).into()));
        }
        Ok(found)
    }
}
