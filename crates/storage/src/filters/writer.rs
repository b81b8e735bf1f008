//! Writer of a table: one object of [pages](crate::split::pages).

use std::io::{self, Write};

use bytes::Bytes;

use super::directory::{self, Directory, Group, SPLITS_MAX};
use super::reference::FilterTableRef;
use super::section;
use crate::regions::ObjectId;
use crate::split::hashing::{Hashing, salt_of};
use crate::split::pages::PageWriter;

/// Maximum number of shape numbers in a group: they are in memory until the end.
const NUMBERS_MAX: usize = 16 << 20;

/// Writer of a table. The same filters give the same bytes.
pub struct TableWriter<W> {
    pages: PageWriter<Hashing<W>>,
    salt: u64,
    directory: Directory,
    numbers: Vec<Vec<u8>>,
}

impl<W: Write> TableWriter<W> {
    /// Maximum number of splits in one table.
    pub const SPLITS_MAX: usize = SPLITS_MAX;

    /// Creates a writer for filters of these splits, which are ascending and distinct.
    pub fn new(out: W, splits: Vec<ObjectId>) -> Self {
        let identity = std::iter::once(&directory::KIND[..]);
        let salt = salt_of(identity.chain(splits.iter().map(|split| &split.0[..])));
        Self {
            pages: PageWriter::new(Hashing::new(out), salt),
            salt,
            directory: Directory {
                splits,
                groups: Vec::new(),
            },
            numbers: Vec::new(),
        }
    }

    /// Adds the filters of a field, of splits in which it has the same number of slices. `columns` are the splits'
    /// indices in the table, ascending. `slice` returns a slice, by the index of the split in `columns` and the number
    /// of the slice; it is called for all splits of one slice, then of the next. Fails with
    /// [`io::ErrorKind::InvalidInput`] if the arguments are invalid.
    pub fn add<E: From<io::Error>>(
        &mut self,
        field: &str,
        slices: u32,
        columns: &[u32],
        mut slice: impl FnMut(usize, u32) -> Result<Bytes, E>,
    ) -> Result<(), E> {
        let splits = self.directory.splits.len();
        let is_wrong = columns.is_empty()
            || !columns.is_sorted_by(|one, next| one < next)
            || columns.iter().any(|column| *column as usize >= splits)
            || splits > SPLITS_MAX
            || !slices.is_power_of_two()
            || field.len() > usize::from(u16::MAX);
        if is_wrong {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        }
        let at_a_time = (NUMBERS_MAX / slices as usize).max(1);
        for (part, columns) in columns.chunks(at_a_time).enumerate() {
            let first = part * at_a_time;
            let mut group = Group {
                field: field.to_owned(),
                shapes: Vec::new(),
                columns: columns.to_vec(),
                sections: Vec::with_capacity(slices as usize),
                numbers: 0,
            };
            let mut numbers = Vec::with_capacity(columns.len() * slices as usize);
            for number in 0..slices {
                let own: Result<Vec<Bytes>, E> = (0..columns.len()).map(|at| slice(first + at, number)).collect();
                self.pages.align()?;
                group.sections.push(self.pages.position());
                numbers.extend(section::write(&own?, &mut group.shapes, &mut self.pages)?);
            }
            self.directory.groups.push(group);
            self.numbers.push(numbers);
        }
        Ok(())
    }

    /// Writes the shape numbers and the directory.
    pub fn finish(mut self) -> io::Result<(W, FilterTableRef)> {
        self.pages.align()?;
        let numbers = self.pages.position();
        for own in &self.numbers {
            self.pages.write_all(own)?;
        }
        let start = self.pages.position();
        self.pages.write_all(&directory::to_bytes(&self.directory))?;
        let directory = start..self.pages.position();
        let (hashing, len) = self.pages.finish()?;
        let (out, id) = hashing.finish();
        let reference = FilterTableRef {
            id,
            len,
            salt: self.salt,
            numbers,
            directory,
            splits: self.directory.splits.len() as u32,
        };
        Ok((out, reference))
    }
}
