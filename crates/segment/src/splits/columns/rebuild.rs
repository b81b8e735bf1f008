//! Rebuilding of a column as Tantivy writes it, from the stored pieces.
//!
//! ```text
//! (dictionary)  index of documents  codec  values  u32 bytes of the index  (u32 bytes of the dictionary)
//! ```

use std::io;

use tantivy::columnar::column_values::{CodecType, serialize_u64_based_column_values};

/// The pieces of a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces<'a> {
    /// `None`: not a string column.
    pub(super) dictionary: Option<&'a [u8]>,
    pub(super) index: &'a [u8],
    pub(super) codec: u8,
    pub(super) values: &'a [u64],
}

/// Returns Tantivy's codec for a code; `None`: firn does not know the code.
pub(super) fn codec(code: u8) -> Option<CodecType> {
    match code {
        0 => Some(CodecType::Bitpacked),
        1 => Some(CodecType::Linear),
        2 => Some(CodecType::BlockwiseLinear),
        _ => None,
    }
}

/// Returns the bytes of a column; `None`: its codec is unknown.
pub(super) fn column(pieces: &Pieces<'_>) -> io::Result<Option<Vec<u8>>> {
    let Some(codec) = codec(pieces.codec) else {
        return Ok(None);
    };
    let mut bytes = pieces.dictionary.map(<[u8]>::to_vec).unwrap_or_default();
    bytes.extend_from_slice(pieces.index);
    serialize_u64_based_column_values::<u64>(&pieces.values, &[codec], &mut bytes)?;
    bytes.extend_from_slice(&(pieces.index.len() as u32).to_le_bytes());
    if let Some(dictionary) = pieces.dictionary {
        bytes.extend_from_slice(&(dictionary.len() as u32).to_le_bytes());
    }
    Ok(Some(bytes))
}
