//! Open split: its footer with the tables in it, and the source of all other bytes.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::Footer;
use stable_deref_trait::StableDeref;
use tantivy::directory::OwnedBytes;

use super::column_totals::Totals;
use super::columns::{ColumnTable, Hours};
use super::{SplitBytes, dry_run, names};

thread_local! {
    static READ_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Returns the bytes that this thread has read from splits so far. Data retained from a segment on disk is a view of a
/// mapped file, but from a split it is heap memory; this counter measures it.
pub(crate) fn read_bytes() -> u64 {
    READ_BYTES.get()
}

/// An open split: its footer, and the source of all other bytes.
#[derive(Debug)]
pub(crate) struct SplitFiles {
    pub(super) footer: Footer,
    pub(super) bytes: Arc<dyn SplitBytes>,
    /// Places of the columns; `None`: the columns are stored as Tantivy wrote them.
    pub(super) columns: Option<ColumnTable>,
    /// Places of the timestamps rounded down to the hour.
    pub(super) hours: Option<Hours>,
    /// Statistics of whole columns.
    pub(super) totals: Option<Totals>,
}

impl SplitFiles {
    /// Decodes the tables in the footer of a split with `docs` documents.
    pub(super) fn new(footer: Footer, bytes: Arc<dyn SplitBytes>, docs: u32) -> Result<Self> {
        let table = |inline: &str, part: &str| {
            let (_, part) = footer.part(part)?;
            footer.inline.get(inline).map(|table| (table, part.len))
        };
        let damaged = |what: &str| {
            let reason = format!("the footer of a split is damaged: its table of {what} is invalid");
            Error::new(ErrorKind::Repository, reason)
        };
        let columns = table(names::COLUMN_TABLE, names::COLUMN_RUNS)
            .map(|(table, len)| ColumnTable::decode(table, len).ok_or_else(|| damaged("columns")))
            .transpose()?;
        let hours = table(names::HOUR_TABLE, names::HOURS)
            .map(|(table, len)| Hours::decode(table, len).ok_or_else(|| damaged("hours")))
            .transpose()?;
        let column_count = columns.as_ref().map_or(0, ColumnTable::column_count);
        let totals = table(names::TOTAL_TABLE, names::TOTALS)
            .map(|(table, len)| Totals::decode(table, column_count, docs.into(), len).ok_or_else(|| damaged("totals")))
            .transpose()?;
        Ok(Self {
            footer,
            bytes,
            columns,
            hours,
            totals,
        })
    }

    /// Reads a range of a part.
    pub(super) fn read(&self, part: usize, range: &Range<u64>) -> Result<Bytes> {
        if let Some(bytes) = self.footer.hot(part, range) {
            return Ok(bytes);
        }
        let beyond = || Error::new(ErrorKind::Repository, "a read goes beyond the end of a split");
        let own = self.footer.parts.get(part).ok_or_else(beyond)?;
        let logical = own.locate(range).ok_or_else(beyond)?;
        dry_run::note(&self.bytes, own.kind, &logical)?;
        let bytes = self.bytes.read(own.kind, logical)?;
        READ_BYTES.set(READ_BYTES.get() + bytes.len() as u64);
        Ok(bytes)
    }

    /// Records the read of a range if it would have to wait ([`crate::splits::dry_run`]).
    pub(super) fn note(&self, part: usize, range: &Range<u64>) -> Result<()> {
        match self
            .footer
            .parts
            .get(part)
            .and_then(|own| Some((own.kind, own.locate(range)?)))
        {
            Some((kind, logical)) if self.footer.hot(part, range).is_none() => {
                dry_run::note(&self.bytes, kind, &logical)
            }
            _ => Ok(()),
        }
    }
}

/// Bytes of the footer, or bytes that were read.
struct Held(Bytes);

impl Deref for Held {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: `Bytes` points at memory that it shares and never moves, not at memory inside itself.
#[allow(unsafe_code, reason = "Tantivy asks for this promise of every owner of bytes")]
unsafe impl StableDeref for Held {}

/// Converts bytes to Tantivy's type.
pub(super) fn owned(bytes: Bytes) -> OwnedBytes {
    OwnedBytes::new(Held(bytes))
}
