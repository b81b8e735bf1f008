//! The end of a table: what its groups are and where their sections begin.

use std::fmt;

use crate::regions::ObjectId;

const MAGIC: &[u8; 8] = b"FIRN-TFT";
const VERSION: u32 = 1;

/// Splits of a group. A slice of all of them lies in memory while a table is written, some 80 MB.
pub(super) const GROUP_SPLITS_MAX: usize = 1 << 14;

/// Filters of one field that are cut into the same number of slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) field: String,
    /// Whose filters they are, in the order of the columns.
    pub(super) splits: Vec<ObjectId>,
    /// Where the section of each slice begins, logical; ascending.
    pub(super) sections: Vec<u64>,
}

/// Bytes that are no directory of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableDamage;

impl fmt::Display for TableDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("these bytes are no table of term filters")
    }
}

impl std::error::Error for TableDamage {}

pub(super) fn to_bytes(groups: &[Group]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(groups.len() as u32).to_le_bytes());
    for group in groups {
        bytes.extend_from_slice(&(group.field.len() as u16).to_le_bytes());
        bytes.extend_from_slice(group.field.as_bytes());
        bytes.extend_from_slice(&(group.splits.len() as u32).to_le_bytes());
        group.splits.iter().for_each(|split| bytes.extend_from_slice(&split.0));
        bytes.extend_from_slice(&(group.sections.len() as u32).to_le_bytes());
        for start in &group.sections {
            bytes.extend_from_slice(&start.to_le_bytes());
        }
    }
    bytes
}

/// Reads [`to_bytes`]. Sections begin before `end`.
pub(super) fn parse(mut bytes: &[u8], end: u64) -> Result<Vec<Group>, TableDamage> {
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], TableDamage> {
        let (taken, rest) = bytes.split_at_checked(len).ok_or(TableDamage)?;
        *bytes = rest;
        Ok(taken)
    }
    fn number(bytes: &mut &[u8], len: usize) -> Result<u64, TableDamage> {
        Ok(take(bytes, len)?
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
    let bytes = &mut bytes;
    if take(bytes, 8)? != MAGIC || number(bytes, 4)? != u64::from(VERSION) {
        return Err(TableDamage);
    }
    let mut groups = Vec::new();
    for _ in 0..number(bytes, 4)? {
        let len = number(bytes, 2)? as usize;
        let field = String::from_utf8(take(bytes, len)?.to_vec()).map_err(|_| TableDamage)?;
        let count = number(bytes, 4)? as usize;
        if count == 0 || count > GROUP_SPLITS_MAX {
            return Err(TableDamage);
        }
        let (ids, _) = take(bytes, count * 32)?.as_chunks::<32>();
        let splits = ids.iter().map(|id| ObjectId(*id)).collect();
        let slices = number(bytes, 4)? as usize;
        let (starts, _) = take(bytes, slices.saturating_mul(8))?.as_chunks::<8>();
        let sections: Vec<u64> = starts.iter().map(|start| u64::from_le_bytes(*start)).collect();
        if !slices.is_power_of_two() || !sections.is_sorted() || sections.last().is_none_or(|last| *last >= end) {
            return Err(TableDamage);
        }
        groups.push(Group {
            field,
            splits,
            sections,
        });
    }
    match bytes.is_empty() {
        true => Ok(groups),
        false => Err(TableDamage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_makes_no_sense_is_refused() {
        let group = |sections: &[u64]| Group {
            field: "client.ip".to_owned(),
            splits: vec![ObjectId([1; 32]), ObjectId([2; 32])],
            sections: sections.to_vec(),
        };
        let groups = vec![group(&[0, 5]), group(&[9])];
        let sound = to_bytes(&groups);
        assert_eq!(parse(&sound, 10), Ok(groups));
        assert_eq!(parse(&sound, 9), Err(TableDamage), "a section behind the end");
        for cut in 0..sound.len() {
            assert_eq!(parse(&sound[..cut], 10), Err(TableDamage), "{cut} bytes");
        }
        assert_eq!(parse(&[&sound[..], &[0]].concat(), 10), Err(TableDamage));
        for sections in [&[5, 0][..], &[0, 1, 2], &[]] {
            assert_eq!(
                parse(&to_bytes(&[group(sections)]), 10),
                Err(TableDamage),
                "{sections:?}"
            );
        }
    }
}
