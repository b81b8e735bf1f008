//! One slice of all splits of a group: a header that says whose filter has which shape, then a matrix for each shape, with
//! a row for each place and a column for each split of that shape.

use std::io::{self, Write};
use std::ops::Range;

use super::shape::{Probe, Shape};

/// Shapes of a section. Slices of about one size have three or four; of a split whose shape finds no place
/// the table knows nothing in this slice.
const SHAPES_MAX: usize = 16;

const SHAPE_BYTES: usize = 16;

/// The number of a split that the section knows nothing of.
const UNKNOWN: u8 = u8::MAX;

/// Rows that are turned at once: each filter is read in runs, and what is written stays in the processor's caches.
const STRIPE_ROWS: usize = 64;

/// The beginning of a section. Its length depends only on how many splits there are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    shapes: Vec<Shape>,
    /// The number of each split's shape.
    shape_of: Vec<u8>,
}

impl Header {
    /// Bytes of a header.
    pub(super) fn len(splits: usize) -> u64 {
        (SHAPES_MAX * SHAPE_BYTES + splits) as u64
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SHAPES_MAX * SHAPE_BYTES + self.shape_of.len());
        for shape in &self.shapes {
            bytes.extend_from_slice(&shape.seed.to_le_bytes());
            bytes.extend_from_slice(&shape.segment.to_le_bytes());
            bytes.extend_from_slice(&shape.first.to_le_bytes());
        }
        bytes.resize(SHAPES_MAX * SHAPE_BYTES, 0);
        bytes.extend_from_slice(&self.shape_of);
        bytes
    }

    /// Reads a header; `None`: these bytes are none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (shapes, shape_of) = bytes.split_at_checked(SHAPES_MAX * SHAPE_BYTES)?;
        let (shapes, _) = shapes.as_chunks::<SHAPE_BYTES>();
        let used = shapes.iter().take_while(|bytes| **bytes != [0; SHAPE_BYTES]);
        let shapes: Option<Vec<Shape>> = used
            .map(|bytes| {
                let seed = u64::from_le_bytes(*bytes.first_chunk()?);
                let number = |at: usize| Some(u32::from_le_bytes(*bytes[at..].first_chunk()?));
                Shape::checked(seed, number(8)?, number(12)?)
            })
            .collect();
        let shapes = shapes?;
        let is_known = |number: &u8| *number == UNKNOWN || usize::from(*number) < shapes.len();
        shape_of.iter().all(is_known).then(|| Self {
            shapes,
            shape_of: shape_of.to_vec(),
        })
    }

    /// The three rows of each shape that a value needs, from the section's start, and how to read them.
    pub(super) fn rows(&self, hash: u64) -> Vec<Rows> {
        let mut counts = vec![0_u64; self.shapes.len()];
        for number in self.shape_of.iter().filter(|number| **number != UNKNOWN) {
            counts[usize::from(*number)] += 1;
        }
        let mut matrix = Self::len(self.shape_of.len());
        let mut rows = Vec::with_capacity(self.shapes.len());
        for (number, (shape, count)) in self.shapes.iter().zip(&counts).enumerate() {
            let probe = shape.probe(hash);
            let row = |place: u32| matrix + u64::from(place) * count..matrix + (u64::from(place) + 1) * count;
            rows.push(Rows {
                shape: number as u8,
                ranges: probe.places.map(row),
                probe,
            });
            matrix += u64::from(shape.places()) * count;
        }
        rows
    }

    /// The splits, by their place in the group, whose filter says no, given the three rows of a shape.
    pub(super) fn without<'a>(
        &'a self,
        rows: &'a Rows,
        bytes: &'a [impl AsRef<[u8]>; 3],
    ) -> impl Iterator<Item = usize> + 'a {
        let own = self
            .shape_of
            .iter()
            .enumerate()
            .filter(|(_, number)| **number == rows.shape);
        own.enumerate().filter_map(|(column, (split, _))| {
            let slot = |row: &dyn AsRef<[u8]>| row.as_ref().get(column).copied();
            let [a, b, c] = [slot(&bytes[0])?, slot(&bytes[1])?, slot(&bytes[2])?];
            (a ^ b ^ c != rows.probe.fingerprint).then_some(split)
        })
    }
}

/// What is read of one shape's matrix.
#[derive(Debug)]
pub(super) struct Rows {
    shape: u8,
    /// From the section's start.
    pub(super) ranges: [Range<u64>; 3],
    probe: Probe,
}

/// Writes a section of slices as they lie in their splits. A slice that is none is left out: its split is searched.
pub(super) fn write(slices: &[impl AsRef<[u8]>], out: &mut impl Write) -> io::Result<()> {
    let parsed: Vec<Option<(Shape, &[u8])>> = slices.iter().map(|slice| Shape::of(slice.as_ref())).collect();
    let mut counts: Vec<(Shape, usize)> = Vec::new();
    for (shape, _) in parsed.iter().flatten() {
        match counts.iter_mut().find(|(known, _)| known == shape) {
            Some((_, count)) => *count += 1,
            None => counts.push((*shape, 1)),
        }
    }
    // The commonest ones, in an order that depends on nothing else.
    counts.sort_by_key(|(shape, count)| (std::cmp::Reverse(*count), *shape));
    counts.truncate(SHAPES_MAX);
    let shapes: Vec<Shape> = counts.into_iter().map(|(shape, _)| shape).collect();
    let number_of = |shape: &Shape| shapes.iter().position(|known| known == shape);
    let shape_of = parsed.iter().map(|slice| {
        let known = slice.as_ref().and_then(|(shape, _)| number_of(shape));
        known.map_or(UNKNOWN, |number| number as u8)
    });
    let header = Header {
        shape_of: shape_of.collect(),
        shapes: shapes.clone(),
    };
    out.write_all(&header.to_bytes())?;
    for shape in &shapes {
        let own = parsed.iter().flatten().filter(|(known, _)| known == shape);
        write_matrix(&own.map(|(_, slots)| *slots).collect::<Vec<_>>(), out)?;
    }
    Ok(())
}

/// Turns columns into rows.
fn write_matrix(columns: &[&[u8]], out: &mut impl Write) -> io::Result<()> {
    let height = columns.first().map_or(0, |slots| slots.len());
    let mut rows = vec![0; STRIPE_ROWS * columns.len()];
    for first in (0..height).step_by(STRIPE_ROWS) {
        let count = STRIPE_ROWS.min(height - first);
        for (column, slots) in columns.iter().enumerate() {
            for (row, slot) in slots[first..first + count].iter().enumerate() {
                rows[row * columns.len() + column] = *slot;
            }
        }
        out.write_all(&rows[..count * columns.len()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::filter;

    #[test]
    fn a_header_that_makes_no_sense_is_refused() {
        let (slice, _) = filter::build((0..100).collect()).unwrap();
        let mut section = Vec::new();
        write(&[&slice[..], b"no filter", &slice[..]], &mut section).unwrap();
        let bytes = &section[..Header::len(3) as usize];
        let header = Header::parse(bytes).unwrap();
        assert_eq!(header.shape_of, [0, UNKNOWN, 0]);
        assert_eq!(header.to_bytes(), bytes);
        assert_eq!(Header::parse(&bytes[..SHAPES_MAX * SHAPE_BYTES - 1]), None);
        for (place, value) in [(8, 3), (12, 1), (bytes.len() - 1, 1)] {
            let mut bytes = bytes.to_vec();
            bytes[place] = value;
            assert_eq!(Header::parse(&bytes), None, "byte {place}");
        }
    }
}
