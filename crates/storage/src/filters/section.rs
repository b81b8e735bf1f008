//! Section of a table: one slice of all splits of a group. It has a matrix per shape, with a row for each slot and a
//! column for each split of that shape. The shape numbers of splits are stored separately, for all sections together.

use std::io::{self, Write};
use std::ops::Range;

use super::shape::{Probe, Shape};

/// Shape number of a split whose filter the table does not have in this slice.
const UNKNOWN: u8 = u8::MAX;

/// Maximum number of shapes in a group. Filters of similar size have three or four; if the shape of a split does not
/// fit, the table omits its filter in this slice.
pub(super) const SHAPES_MAX: usize = UNKNOWN as usize;

/// Rows transposed at once: each filter is read in runs, and the output stays in the processor's caches.
const STRIPE_ROWS: usize = 64;

/// Layout of the columns of a section.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    /// Shapes of the group.
    shapes: &'a [Shape],
    /// Shape number of each split.
    shape_of: &'a [u8],
}

impl<'a> Layout<'a> {
    /// Returns `None` if a split has an unknown shape.
    pub(super) fn new(shapes: &'a [Shape], shape_of: &'a [u8]) -> Option<Self> {
        let is_known = |number: &u8| *number == UNKNOWN || usize::from(*number) < shapes.len();
        shape_of.iter().all(is_known).then_some(Self { shapes, shape_of })
    }

    /// Returns the three rows per shape that a value needs, relative to the section's start.
    pub(super) fn rows(&self, hash: u64) -> Vec<Rows> {
        let mut counts = vec![0_u64; self.shapes.len()];
        for number in self.shape_of.iter().filter(|number| **number != UNKNOWN) {
            counts[usize::from(*number)] += 1;
        }
        let mut matrix = 0;
        let mut rows = Vec::new();
        for (number, (shape, count)) in self.shapes.iter().zip(&counts).enumerate() {
            if *count == 0 {
                continue;
            }
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

    /// Returns the splits (indices in the group) whose filter excludes the value, given the three rows of a shape.
    pub(super) fn without(&self, rows: &Rows, bytes: &[impl AsRef<[u8]>; 3]) -> impl Iterator<Item = usize> {
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

/// Ranges to read of one shape's matrix.
#[derive(Debug)]
pub(super) struct Rows {
    shape: u8,
    /// Relative to the section's start.
    pub(super) ranges: [Range<u64>; 3],
    probe: Probe,
}

/// Writes the matrices of slices in the format of splits. Returns the shape number of each split, and adds new shapes
/// to `shapes`. An invalid slice is omitted: its split is searched.
pub(super) fn write(slices: &[impl AsRef<[u8]>], shapes: &mut Vec<Shape>, out: &mut impl Write) -> io::Result<Vec<u8>> {
    let mut shape_of = Vec::with_capacity(slices.len());
    let mut columns: Vec<Vec<&[u8]>> = vec![Vec::new(); shapes.len()];
    for slice in slices {
        let Some((shape, slots)) = Shape::of(slice.as_ref()) else {
            shape_of.push(UNKNOWN);
            continue;
        };
        let number = match shapes.iter().position(|known| *known == shape) {
            Some(number) => number,
            None if shapes.len() == SHAPES_MAX => {
                shape_of.push(UNKNOWN);
                continue;
            }
            None => {
                shapes.push(shape);
                columns.push(Vec::new());
                shapes.len() - 1
            }
        };
        shape_of.push(number as u8);
        columns[number].push(slots);
    }
    columns.iter().try_for_each(|columns| write_matrix(columns, out))?;
    Ok(shape_of)
}

/// Transposes columns into rows.
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
    fn slices_are_grouped_by_their_shape() {
        let (small, _) = filter::build((0..100).collect()).unwrap();
        let (large, _) = filter::build((0..3000).collect()).unwrap();
        let mut shapes = Vec::new();
        let mut section = Vec::new();
        let slices = [&small[..], b"no filter", &large[..], &small[..]];
        let numbers = write(&slices, &mut shapes, &mut section).unwrap();
        assert_eq!(numbers, [0, UNKNOWN, 1, 0]);
        let [small_len, large_len] = [0, 1].map(|number: usize| shapes[number].places() as usize);
        assert_eq!(section.len(), 2 * small_len + large_len);
        // The next section reuses the shapes of the earlier one.
        assert_eq!(write(&[&large[..]], &mut shapes, &mut Vec::new()).unwrap(), [1]);
        assert_eq!(shapes.len(), 2);
        let layout = Layout::new(&shapes, &numbers).unwrap();
        let rows = layout.rows(7);
        assert_eq!(rows.len(), 2);
        assert!(rows[1].ranges.iter().all(|range| range.start >= 2 * small_len as u64));
        assert!(
            rows.iter()
                .flat_map(|rows| &rows.ranges)
                .all(|range| range.end <= section.len() as u64)
        );
        assert!(Layout::new(&shapes[..1], &numbers).is_none());
        assert!(Layout::new(&shapes[..1], &[0, UNKNOWN]).is_some());
    }
}
