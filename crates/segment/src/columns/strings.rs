//! Columns of strings.

use std::io;
use std::sync::Arc;

use tantivy::DocId;
use tantivy::columnar::{Column, Dictionary};

/// A column of strings: ordinals and their dictionary. Tantivy's type cannot be constructed from these two.
#[derive(Clone)]
pub struct StrColumn {
    dictionary: Arc<Dictionary>,
    ords: Column<u64>,
}

impl From<tantivy::columnar::StrColumn> for StrColumn {
    fn from(column: tantivy::columnar::StrColumn) -> Self {
        let (dictionary, ords) = column.into_parts();
        Self { dictionary, ords }
    }
}

impl StrColumn {
    pub(crate) fn new(dictionary: Arc<Dictionary>, ords: Column<u64>) -> Self {
        Self { dictionary, ords }
    }

    /// Returns the strings, ascending.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Returns the ordinals of the documents.
    pub fn ords(&self) -> &Column<u64> {
        &self.ords
    }

    /// Returns the number of distinct strings.
    pub fn num_terms(&self) -> usize {
        self.dictionary.num_terms()
    }

    /// Returns the ordinals of a document.
    pub fn term_ords(&self, doc: DocId) -> impl Iterator<Item = u64> + '_ {
        self.ords.values_for_doc(doc)
    }

    /// Reads the bytes of an ordinal; returns false if the ordinal does not exist.
    pub(crate) fn ord_to_bytes(&self, ord: u64, bytes: &mut Vec<u8>) -> io::Result<bool> {
        self.dictionary.ord_to_term(ord, bytes)
    }

    /// Reads the string of an ordinal; returns false if the ordinal does not exist.
    pub fn ord_to_str(&self, ord: u64, text: &mut String) -> io::Result<bool> {
        let mut bytes = std::mem::take(text).into_bytes();
        if !self.ord_to_bytes(ord, &mut bytes)? {
            return Ok(false);
        }
        *text = String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(true)
    }
}
