//! A table: one object of [pages] with a section for each slice of each group, and the directory at its end.
//!
//! A question of a field and a value takes two rounds of reads through the region cache: the headers of its slice, one for each group, and
//! the rows that they name.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::directory::{self, GROUP_SPLITS_MAX, Group};
use super::section::{self, Header};
use crate::object::{ObjectError, ObjectErrorKind};
use crate::regions::{CachedObject, ObjectId, RegionCache};
use crate::split::pages::{self, PageWriter};
use crate::split::{PartKind, filter};

/// Writes a table.
pub struct TableWriter<W> {
    pages: PageWriter<W>,
    groups: Vec<Group>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenTable {
    /// Bytes of the object.
    pub len: u64,
    /// Its directory, logical.
    pub directory: Range<u64>,
}

impl<W: Write> TableWriter<W> {
    /// A table whose pages have this salt.
    pub fn new(out: W, salt: u64) -> Self {
        Self {
            pages: PageWriter::new(out, salt),
            groups: Vec::new(),
        }
    }

    /// Adds the filters of a field in splits that have it cut into the same number of slices. `slice` reads one:
    /// of the split at this place, the slice of this number; it is asked for all splits of one slice, then of the next.
    /// More splits than a group holds become several groups. [`io::ErrorKind::InvalidInput`] if there is nothing to add.
    pub fn add<E: From<io::Error>>(
        &mut self,
        field: &str,
        slices: u32,
        splits: &[ObjectId],
        mut slice: impl FnMut(usize, u32) -> Result<Bytes, E>,
    ) -> Result<(), E> {
        if splits.is_empty() || !slices.is_power_of_two() || field.len() > usize::from(u16::MAX) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        }
        for (group, splits) in splits.chunks(GROUP_SPLITS_MAX).enumerate() {
            let mut sections = Vec::with_capacity(slices as usize);
            for number in 0..slices {
                let first = group * GROUP_SPLITS_MAX;
                let columns: Result<Vec<Bytes>, E> =
                    (first..first + splits.len()).map(|at| slice(at, number)).collect();
                self.pages.align()?;
                sections.push(self.pages.position());
                section::write(&columns?, &mut self.pages)?;
            }
            self.groups.push(Group {
                field: field.to_owned(),
                splits: splits.to_vec(),
                sections,
            });
        }
        Ok(())
    }

    /// Writes the directory.
    pub fn finish(mut self) -> io::Result<(W, WrittenTable)> {
        self.pages.align()?;
        let start = self.pages.position();
        self.pages.write_all(&directory::to_bytes(&self.groups))?;
        let directory = start..self.pages.position();
        let (out, len) = self.pages.finish()?;
        Ok((out, WrittenTable { len, directory }))
    }
}

/// A table that can be asked. Its directory lies in memory: 32 bytes for each split and field.
#[derive(Debug)]
pub struct FilterTable {
    object: Arc<CachedObject>,
    groups: Vec<Group>,
}

impl FilterTable {
    /// Reads the directory, which is all that is read before a question. One that makes no sense is
    /// [`ObjectErrorKind::Corrupt`].
    pub async fn open(
        cache: &RegionCache,
        object: Arc<CachedObject>,
        directory: &Range<u64>,
    ) -> Result<Self, ObjectError> {
        let bytes = read(cache, &object, directory).await?;
        let groups = directory::parse(&bytes, directory.start).map_err(|_| corrupt(&object))?;
        Ok(Self { object, groups })
    }

    /// Splits that it has a filter of, for a field.
    pub fn splits(&self, field: &str) -> usize {
        self.of(field).map(|group| group.splits.len()).sum()
    }

    /// The splits that certainly have no document with the value of this [hash](filter::hash). What the table does not know is
    /// not among them.
    pub async fn without(&self, cache: &RegionCache, field: &str, hash: u64) -> Result<Vec<ObjectId>, ObjectError> {
        let groups = self.of(field).map(|group| self.without_in(cache, group, hash));
        Ok(try_join_all(groups).await?.concat())
    }

    async fn without_in(&self, cache: &RegionCache, group: &Group, hash: u64) -> Result<Vec<ObjectId>, ObjectError> {
        let slice = filter::slice_of(hash, group.sections.len() as u32);
        let start = group.sections[slice as usize];
        let within = |range: &Range<u64>| start + range.start..start + range.end;
        let header = read(cache, &self.object, &within(&(0..Header::len(group.splits.len())))).await?;
        let header = Header::parse(&header).ok_or_else(|| corrupt(&self.object))?;
        let rows = header.rows(hash);
        let bytes = rows.iter().map(|rows| async {
            let [a, b, c] = rows.ranges.each_ref().map(within);
            let read = |range| async move { read(cache, &self.object, &range).await };
            let bytes = try_join_all([a, b, c].map(read)).await?;
            <[Bytes; 3]>::try_from(bytes).map_err(|_| corrupt(&self.object))
        });
        let bytes = try_join_all(bytes).await?;
        let without = rows
            .iter()
            .zip(&bytes)
            .flat_map(|(rows, bytes)| header.without(rows, bytes));
        Ok(without.map(|split| group.splits[split]).collect())
    }

    fn of(&self, field: &str) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| group.field == field)
    }
}

fn corrupt(object: &CachedObject) -> ObjectError {
    ObjectError::new(
        ObjectErrorKind::Corrupt,
        &object.key,
        directory::TableDamage.to_string(),
    )
}

async fn read(cache: &RegionCache, object: &Arc<CachedObject>, logical: &Range<u64>) -> Result<Bytes, ObjectError> {
    let physical = pages::physical(logical);
    let whole = cache.read(object, PartKind::Filters, physical.clone()).await?;
    Ok(pages::payload(physical.start, &whole, logical))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::testing::{Bed, block_on, object_of};

    const FIELD: &str = "client.ip";

    fn split(number: usize) -> ObjectId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        ObjectId(id)
    }

    /// The hashes of a split's values; every hundredth one has the needle.
    fn hashes(split: usize, count: usize) -> Vec<u64> {
        let own = (0..count).map(|number| filter::hash(format!("{split}/{number}").as_bytes()));
        let needle = split.is_multiple_of(100).then(|| filter::hash(b"needle"));
        own.chain(needle).collect()
    }

    struct Filters {
        slices: u32,
        /// As they lie in splits.
        filters: Vec<Bytes>,
    }

    impl Filters {
        fn new(count: usize, values: impl Fn(usize) -> usize) -> Self {
            let built: Vec<_> = (0..count)
                .map(|split| filter::build(hashes(split, values(split))).unwrap())
                .collect();
            let slices = built[0].1;
            assert!(built.iter().all(|(_, other)| *other == slices));
            let filters = built.into_iter().map(|(bytes, _)| bytes.into()).collect();
            Self { slices, filters }
        }

        fn slice(&self, split: usize, number: u32) -> Bytes {
            let len = self.filters[split].len() / self.slices as usize;
            self.filters[split].slice(number as usize * len..(number as usize + 1) * len)
        }

        fn may_hold(&self, split: usize, hash: u64) -> bool {
            filter::may_hold(&self.slice(split, filter::slice_of(hash, self.slices)), hash).unwrap()
        }

        fn table(&self) -> (Vec<u8>, WrittenTable) {
            let mut writer = TableWriter::new(Vec::new(), 77);
            let splits: Vec<_> = (0..self.filters.len()).map(split).collect();
            let slice = |split, number| Ok::<_, io::Error>(self.slice(split, number));
            writer.add(FIELD, self.slices, &splits, slice).unwrap();
            writer.finish().unwrap()
        }
    }

    #[test]
    fn a_table_decides_as_its_filters_do() {
        for values in [|split: usize| 1100 + 9 * split, |split: usize| 9000 + 11 * split] {
            let filters = Filters::new(120, values);
            let (bytes, written) = filters.table();
            assert_eq!(bytes.len() as u64, written.len);
            let bed = Bed::new(10_000);
            let (object, store) = object_of(1, bytes, 77);
            let table = block_on(FilterTable::open(&bed.cache, object, &written.directory)).unwrap();
            assert_eq!((table.splits(FIELD), table.splits("other")), (120, 0));
            assert_eq!(store.count(), 1);
            let own = (0..120).map(|split| hashes(split, 50)[split % 50]);
            for asked in own.chain([filter::hash(b"needle"), filter::hash(b"nobody's")]) {
                let mut without = block_on(table.without(&bed.cache, FIELD, asked)).unwrap();
                without.sort();
                let mut expect: Vec<_> = (0..120).filter(|at| !filters.may_hold(*at, asked)).map(split).collect();
                expect.sort();
                assert_eq!(without, expect);
                assert!(without.len() > 100, "{}", without.len());
            }
            assert!(block_on(table.without(&bed.cache, "other", 1)).unwrap().is_empty());
        }
    }

    /// What tables are for: thousands of splits, of sizes as they come, are decided by few reads.
    #[test]
    fn few_reads_decide_thousands_of_splits() {
        let filters = Filters::new(12_500, |split| 60 + split % 40);
        let (bytes, written) = filters.table();
        let bed = Bed::new(100_000);
        let (object, store) = object_of(1, bytes, 77);
        let table = block_on(FilterTable::open(&bed.cache, object, &written.directory)).unwrap();
        let before = store.count();
        let needle = filter::hash(b"needle");
        let without = block_on(table.without(&bed.cache, FIELD, needle)).unwrap();
        let reads = store.count() - before;
        assert!(reads <= 50, "{reads} reads");
        let left = 12_500 - without.len();
        assert!((125..250).contains(&left), "{left} splits are left of 125 that have it");
        assert!(
            without.iter().all(|split| split.0[0] != 0 || split.0[1] != 0),
            "the first one has it"
        );
        let fetched =
            bed.cache.stats().total().fetched_bytes - written.directory.end.saturating_sub(written.directory.start);
        assert!(fetched < 1 << 20, "{fetched} bytes");
        block_on(table.without(&bed.cache, FIELD, needle)).unwrap();
        assert_eq!(store.count() - before, reads, "asked again, nothing is fetched");
    }

    #[test]
    fn what_is_no_filter_is_searched() {
        let filters = Filters::new(3, |_| 100);
        let mut writer = TableWriter::new(Vec::new(), 77);
        let splits = [split(0), split(1), split(2)];
        let slice = |at, number| match at {
            1 => Ok(Bytes::from_static(b"no filter")),
            _ => Ok::<_, io::Error>(filters.slice(at, number)),
        };
        writer.add(FIELD, 1, &splits, slice).unwrap();
        assert!(writer.add(FIELD, 1, &[], slice).is_err());
        assert!(writer.add(FIELD, 3, &splits, slice).is_err());
        let (bytes, written) = writer.finish().unwrap();
        let bed = Bed::new(100);
        let (object, _) = object_of(1, bytes.clone(), 77);
        let table = block_on(FilterTable::open(&bed.cache, object, &written.directory)).unwrap();
        let without = block_on(table.without(&bed.cache, FIELD, filter::hash(b"nobody's"))).unwrap();
        assert_eq!(without, [split(0), split(2)]);
        // Pages that are sound but no directory.
        let (object, _) = object_of(1, bytes, 77);
        let error = block_on(FilterTable::open(&bed.cache, object, &(0..100))).unwrap_err();
        assert_eq!(error.kind, ObjectErrorKind::Corrupt);
    }
}
