//! Directory at the end of a table: its splits, its fields, and the start of each section.

use std::fmt;
use std::ops::Range;

use super::section::SHAPES_MAX;
use super::shape::Shape;
use crate::regions::ObjectId;

/// First bytes of the directory: magic and version 1.
pub(super) const KIND: &[u8; 12] = b"FIRN-TFT\x01\0\0\0";
const SHAPE_BYTES: usize = 16;

/// Maximum number of splits in a table. A slice of all of them is in memory during the write, about 80 MB.
pub(super) const SPLITS_MAX: usize = 1 << 14;

/// Directory of a table; see the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    /// Ascending.
    pub(super) splits: Vec<ObjectId>,
    pub(super) groups: Vec<Group>,
}

/// Filters of one field with the same number of slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) field: String,
    pub(super) shapes: Vec<Shape>,
    /// Indices of the filters' splits among the table's splits, ascending.
    pub(super) columns: Vec<u32>,
    /// Logical start of the section of each slice, ascending.
    pub(super) sections: Vec<u64>,
    /// Logical start of the shape numbers of the first slice; the other slices follow. Computed from the earlier
    /// groups.
    pub(super) numbers: u64,
}

impl Group {
    /// Returns the logical range with the shape number of each split in a slice.
    pub(super) fn numbers_of(&self, slice: u32) -> Range<u64> {
        let len = self.columns.len() as u64;
        let start = self.numbers + u64::from(slice) * len;
        start..start + len
    }

    fn numbers_len(&self) -> u64 {
        self.columns.len() as u64 * self.sections.len() as u64
    }
}

/// Bytes that are not a valid directory of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableDamage;

impl fmt::Display for TableDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the bytes are not a table of term filters")
    }
}

impl std::error::Error for TableDamage {}

pub(super) fn to_bytes(directory: &Directory) -> Vec<u8> {
    let mut bytes = KIND.to_vec();
    let number = |bytes: &mut Vec<u8>, number: usize| bytes.extend_from_slice(&(number as u32).to_le_bytes());
    number(&mut bytes, directory.splits.len());
    directory
        .splits
        .iter()
        .for_each(|split| bytes.extend_from_slice(&split.0));
    number(&mut bytes, directory.groups.len());
    for group in &directory.groups {
        bytes.extend_from_slice(&(group.field.len() as u16).to_le_bytes());
        bytes.extend_from_slice(group.field.as_bytes());
        bytes.push(group.shapes.len() as u8);
        for shape in &group.shapes {
            bytes.extend_from_slice(&shape.seed.to_le_bytes());
            bytes.extend_from_slice(&shape.segment.to_le_bytes());
            bytes.extend_from_slice(&shape.first.to_le_bytes());
        }
        number(&mut bytes, group.columns.len());
        group
            .columns
            .iter()
            .for_each(|column| bytes.extend_from_slice(&column.to_le_bytes()));
        number(&mut bytes, group.sections.len());
        group
            .sections
            .iter()
            .for_each(|start| bytes.extend_from_slice(&start.to_le_bytes()));
    }
    bytes
}

/// Decodes [`to_bytes`]. Sections begin before the shape numbers, which are in the logical range `numbers`.
pub(super) fn parse(bytes: &[u8], numbers: &Range<u64>) -> Result<Directory, TableDamage> {
    let mut rest = Rest(bytes);
    if rest.take(KIND.len())? != KIND {
        return Err(TableDamage);
    }
    let count = rest.number()? as usize;
    if count > SPLITS_MAX {
        return Err(TableDamage);
    }
    let (ids, _) = rest.take(count * 32)?.as_chunks::<32>();
    let splits: Vec<ObjectId> = ids.iter().map(|id| ObjectId(*id)).collect();
    let mut next_numbers = numbers.start;
    let mut groups = Vec::new();
    for _ in 0..rest.number()? {
        let group = rest.group(next_numbers)?;
        let ascends = group.columns.is_sorted_by(|one, next| one < next);
        let within = group.columns.last().is_some_and(|last| (*last as usize) < splits.len());
        let sections = &group.sections;
        let in_order = sections.is_sorted() && sections.last().is_some_and(|last| *last < numbers.start);
        if !ascends || !within || !in_order || !sections.len().is_power_of_two() {
            return Err(TableDamage);
        }
        next_numbers += group.numbers_len();
        groups.push(group);
    }
    let is_whole = rest.0.is_empty() && next_numbers == numbers.end && splits.is_sorted_by(|one, next| one < next);
    is_whole.then_some(Directory { splits, groups }).ok_or(TableDamage)
}

/// Remaining bytes.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], TableDamage> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(TableDamage)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, TableDamage> {
        let bytes = self.take(4)?.first_chunk().ok_or(TableDamage)?;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn group(&mut self, numbers: u64) -> Result<Group, TableDamage> {
        let len = self.take(2)?.first_chunk().ok_or(TableDamage)?;
        let field = self.take(usize::from(u16::from_le_bytes(*len)))?;
        let field = String::from_utf8(field.to_vec()).map_err(|_| TableDamage)?;
        let count = usize::from(self.take(1)?[0]);
        let (shapes, _) = self.take(count * SHAPE_BYTES)?.as_chunks::<SHAPE_BYTES>();
        let shapes: Option<Vec<Shape>> = shapes.iter().map(shape).collect();
        let count = self.number()? as usize;
        let (columns, _) = self.take(count.saturating_mul(4))?.as_chunks::<4>();
        let slices = self.number()? as usize;
        let (sections, _) = self.take(slices.saturating_mul(8))?.as_chunks::<8>();
        Ok(Group {
            field,
            shapes: shapes.filter(|shapes| shapes.len() <= SHAPES_MAX).ok_or(TableDamage)?,
            columns: columns.iter().map(|column| u32::from_le_bytes(*column)).collect(),
            sections: sections.iter().map(|start| u64::from_le_bytes(*start)).collect(),
            numbers,
        })
    }
}

fn shape(bytes: &[u8; SHAPE_BYTES]) -> Option<Shape> {
    let seed = u64::from_le_bytes(*bytes.first_chunk()?);
    let number = |at: usize| Some(u32::from_le_bytes(*bytes[at..].first_chunk()?));
    Shape::checked(seed, number(8)?, number(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(columns: &[u32], sections: &[u64], numbers: u64) -> Group {
        Group {
            field: "client.ip".to_owned(),
            shapes: vec![Shape::checked(3, 4, 8).unwrap()],
            columns: columns.to_vec(),
            sections: sections.to_vec(),
            numbers,
        }
    }

    fn directory(groups: Vec<Group>) -> Directory {
        Directory {
            splits: vec![ObjectId([1; 32]), ObjectId([2; 32])],
            groups,
        }
    }

    #[test]
    fn a_directory_that_makes_no_sense_is_refused() {
        let groups = vec![group(&[0, 1], &[0, 5], 20), group(&[1], &[9], 24)];
        assert_eq!(groups[0].numbers_of(1), 22..24);
        let sound = to_bytes(&directory(groups.clone()));
        assert_eq!(parse(&sound, &(20..25)), Ok(directory(groups)));
        assert_eq!(parse(&sound, &(9..14)), Err(TableDamage), "a section beyond the end");
        assert_eq!(parse(&sound, &(20..26)), Err(TableDamage), "numbers of no split");
        for cut in 0..sound.len() {
            assert_eq!(parse(&sound[..cut], &(20..25)), Err(TableDamage), "{cut} bytes");
        }
        assert_eq!(parse(&[&sound[..], &[0]].concat(), &(20..25)), Err(TableDamage));
        let check = |columns: &[u32], sections: &[u64]| {
            let len = columns.len() as u64 * sections.len() as u64;
            parse(
                &to_bytes(&directory(vec![group(columns, sections, 20)])),
                &(20..20 + len),
            )
            .is_ok()
        };
        assert!(check(&[0, 1], &[0, 5]));
        for (columns, sections) in [
            (&[0, 1][..], &[5, 0][..]),
            (&[0, 1], &[0, 1, 2]),
            (&[0, 1], &[]),
            (&[], &[0]),
            (&[0, 2], &[0]),
            (&[1, 0], &[0]),
            (&[1, 1], &[0]),
        ] {
            assert!(!check(columns, sections), "{columns:?} {sections:?}");
        }
        let mut twice = directory(vec![group(&[0], &[0], 20)]);
        twice.splits[1] = twice.splits[0];
        assert_eq!(parse(&to_bytes(&twice), &(20..21)), Err(TableDamage));
    }
}
