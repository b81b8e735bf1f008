//! Filter table that is open for lookups.
//!
//! A lookup of a field and a value takes one round of reads through the region cache: the rows of its slices, one or a
//! few ranges per group of filters. The shape numbers of splits are in memory if they are small; otherwise they take
//! one round of reads before.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::directory::{self, Directory, Group};
use super::reference::FilterTableRef;
use super::section::{Layout, Rows};
use crate::object::{ObjectError, ObjectErrorKind, Objects};
use crate::regions::{CachedObject, ObjectId, RegionCache};
use crate::split::{PartKind, filter, pages};

/// Maximum length of a table that an open fetches as a whole: it takes one request, like its directory alone.
const WHOLE_BYTES_MAX: u64 = 256 << 10;
/// Maximum bytes of shape numbers in memory.
const NUMBERS_HELD_MAX: u64 = 64 << 10;

/// Value to look up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// Path of the field.
    pub field: String,
    /// [Hash](filter::hash) of the value.
    pub hash: u64,
}

/// Open table; see the module.
#[derive(Debug)]
pub struct FilterTable {
    object: Arc<CachedObject>,
    directory: Directory,
    /// Logical range of the shape numbers.
    numbers: Range<u64>,
    /// The shape numbers, if they are in memory.
    numbers_held: Option<Bytes>,
}

/// Slice of a group that a lookup needs.
struct SectionLookup<'a> {
    question: usize,
    hash: u64,
    group: &'a Group,
    slice: u32,
}

impl SectionLookup<'_> {
    /// Converts a range relative to the section to a logical range.
    fn place(&self, range: &Range<u64>) -> Range<u64> {
        let start = self.group.sections[self.slice as usize];
        start.saturating_add(range.start)..start.saturating_add(range.end)
    }
}

impl FilterTable {
    /// Opens a table and reads its directory. Fails with [`ObjectErrorKind::Corrupt`] if the directory is invalid.
    pub async fn open(
        cache: &RegionCache,
        store: Arc<dyn Objects>,
        reference: &FilterTableRef,
    ) -> Result<Self, ObjectError> {
        let damaged = || {
            ObjectError::new(
                ObjectErrorKind::Corrupt,
                reference.key(),
                directory::TableDamage.to_string(),
            )
        };
        let object = Arc::new(CachedObject {
            id: ObjectId::parse(&reference.id).ok_or_else(damaged)?,
            key: reference.key(),
            len: reference.len,
            salt: reference.salt,
            store,
            owner: None,
        });
        if reference.len <= WHOLE_BYTES_MAX {
            cache.fetch(&object, &[(PartKind::Filters, 0..reference.len)]).await?;
        }
        let numbers = reference.numbers..reference.directory.start;
        if numbers.start > numbers.end || reference.directory.is_empty() {
            return Err(damaged());
        }
        let is_little = numbers.end - numbers.start <= NUMBERS_HELD_MAX;
        let start = if is_little { numbers.start } else { numbers.end };
        let bytes = read(cache, &object, &(start..reference.directory.end)).await?;
        let (held, directory) = bytes.split_at((numbers.end - start) as usize);
        Ok(Self {
            directory: directory::parse(directory, &numbers).map_err(|_| damaged())?,
            // A copy, so that the raw directory is not retained.
            numbers_held: is_little.then(|| Bytes::copy_from_slice(held)),
            numbers,
            object,
        })
    }

    /// Returns the splits with filters in the table, ascending.
    pub fn splits(&self) -> &[ObjectId] {
        &self.directory.splits
    }

    /// Returns the index of a split among [`FilterTable::splits`].
    pub fn place(&self, split: &ObjectId) -> Option<usize> {
        self.directory.splits.binary_search(split).ok()
    }

    /// Returns for each question and each split, by [index](FilterTable::place), whether the split certainly has no
    /// document with the value. A split whose filter the table lacks may have one.
    pub async fn without(&self, cache: &RegionCache, questions: &[Question]) -> Result<Vec<Vec<bool>>, ObjectError> {
        let mut without = vec![vec![false; self.directory.splits.len()]; questions.len()];
        let lookups: Vec<SectionLookup<'_>> = (0..)
            .zip(questions)
            .flat_map(|(number, own)| self.lookups(number, own))
            .collect();
        let numbers = self.numbers(cache, &lookups).await?;
        let mut layouts = Vec::with_capacity(lookups.len());
        for (lookup, numbers) in lookups.iter().zip(&numbers) {
            let layout = Layout::new(&lookup.group.shapes, numbers).ok_or_else(|| self.damaged())?;
            let rows = layout.rows(lookup.hash);
            layouts.push((lookup, layout, rows));
        }
        let ranges = layouts.iter().flat_map(|(lookup, _, rows)| {
            rows.iter()
                .flat_map(|rows| &rows.ranges)
                .map(|range| lookup.place(range))
        });
        self.fetch(cache, ranges).await?;
        for (lookup, layout, rows) in &layouts {
            for rows in rows {
                let bytes = self.rows(cache, lookup, rows).await?;
                for column in layout.without(rows, &bytes) {
                    without[lookup.question][lookup.group.columns[column] as usize] = true;
                }
            }
        }
        Ok(without)
    }

    fn lookups<'a>(&'a self, question: usize, own: &Question) -> impl Iterator<Item = SectionLookup<'a>> {
        let groups = self.directory.groups.iter().filter(|group| group.field == own.field);
        groups.map(move |group| SectionLookup {
            question,
            hash: own.hash,
            group,
            slice: filter::slice_of(own.hash, group.sections.len() as u32),
        })
    }

    /// Returns the shape numbers of splits in each of these slices.
    async fn numbers(&self, cache: &RegionCache, lookups: &[SectionLookup<'_>]) -> Result<Vec<Bytes>, ObjectError> {
        let ranges = || lookups.iter().map(|lookup| lookup.group.numbers_of(lookup.slice));
        if let Some(held) = &self.numbers_held {
            let place = |range: Range<u64>| {
                (range.start - self.numbers.start) as usize..(range.end - self.numbers.start) as usize
            };
            return Ok(ranges().map(|range| held.slice(place(range))).collect());
        }
        self.fetch(cache, ranges()).await?;
        try_join_all(ranges().map(|range| async move { read(cache, &self.object, &range).await })).await
    }

    async fn rows(
        &self,
        cache: &RegionCache,
        lookup: &SectionLookup<'_>,
        rows: &Rows,
    ) -> Result<[Bytes; 3], ObjectError> {
        let [a, b, c] = rows.ranges.each_ref().map(|range| lookup.place(range));
        Ok([
            read(cache, &self.object, &a).await?,
            read(cache, &self.object, &b).await?,
            read(cache, &self.object, &c).await?,
        ])
    }

    /// Fetches ranges into the cache: neighbouring ranges in one request, all requests concurrently.
    async fn fetch(&self, cache: &RegionCache, ranges: impl Iterator<Item = Range<u64>>) -> Result<(), ObjectError> {
        let wanted: Vec<_> = ranges
            .map(|range| (PartKind::Filters, pages::physical(&range)))
            .collect();
        cache.fetch(&self.object, &wanted).await
    }

    fn damaged(&self) -> ObjectError {
        let why = directory::TableDamage.to_string();
        ObjectError::new(ObjectErrorKind::Corrupt, &self.object.key, why)
    }
}

async fn read(cache: &RegionCache, object: &Arc<CachedObject>, logical: &Range<u64>) -> Result<Bytes, ObjectError> {
    let physical = pages::physical(logical);
    let whole = cache.read(object, PartKind::Filters, physical.clone()).await?;
    Ok(pages::payload(physical.start, &whole, logical))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::filters::TableWriter;
    use crate::regions::testing::{Bed, block_on, object_of};

    const FIELD: &str = "client.ip";

    fn split(number: usize) -> ObjectId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        ObjectId(id)
    }

    fn question(field: &str, hash: u64) -> Question {
        let field = field.to_owned();
        Question { field, hash }
    }

    /// Returns the hashes of a split's values; every hundredth split contains the needle.
    fn hashes(split: usize, count: usize) -> Vec<u64> {
        let own = (0..count).map(|number| filter::hash(format!("{split}/{number}").as_bytes()));
        let needle = split.is_multiple_of(100).then(|| filter::hash(b"needle"));
        own.chain(needle).collect()
    }

    struct Filters {
        slices: u32,
        /// In the format of splits.
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

        fn table(&self) -> (Vec<u8>, FilterTableRef) {
            let splits: Vec<_> = (0..self.filters.len()).map(split).collect();
            let mut writer = TableWriter::new(Vec::new(), splits);
            let columns: Vec<u32> = (0..self.filters.len() as u32).collect();
            let slice = |split, number| Ok::<_, io::Error>(self.slice(split, number));
            writer.add(FIELD, self.slices, &columns, slice).unwrap();
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
            let (object, store) = object_of(1, bytes, written.salt);
            let mut table = block_on(FilterTable::open(&bed.cache, Arc::clone(&object.store), &written)).unwrap();
            assert_eq!((table.place(&split(7)), table.place(&split(120))), (Some(7), None));
            assert_eq!(store.count(), 1);
            let own = (0..120).map(|split| hashes(split, 50)[split % 50]);
            let wanted: Vec<u64> = own
                .chain([filter::hash(b"needle"), filter::hash(b"noname's")])
                .collect();
            let mut questions: Vec<_> = wanted.iter().map(|hash| question(FIELD, *hash)).collect();
            questions.push(question("other", 1));
            let without = block_on(table.without(&bed.cache, &questions)).unwrap();
            for (hash, without) in wanted.iter().zip(&without) {
                let expect: Vec<_> = (0..120).map(|at| !filters.may_hold(at, *hash)).collect();
                assert_eq!(*without, expect);
                assert!(without.iter().filter(|own| **own).count() > 100);
            }
            assert_eq!(without.last(), Some(&vec![false; 120]));
            // Without the shape numbers in memory they are read.
            assert!(table.numbers_held.take().is_some());
            assert_eq!(block_on(table.without(&bed.cache, &questions)).unwrap(), without);
        }
    }

    /// Purpose of tables: few reads decide about thousands of splits of varying sizes.
    #[test]
    fn few_reads_decide_thousands_of_splits() {
        let filters = Filters::new(12_500, |split| 60 + split % 40);
        let (bytes, written) = filters.table();
        let bed = Bed::new(100_000);
        let (object, store) = object_of(1, bytes, written.salt);
        let table = block_on(FilterTable::open(&bed.cache, Arc::clone(&object.store), &written)).unwrap();
        let (before, fetched_before) = (store.count(), bed.cache.stats().total().fetched_bytes);
        let needle = [question(FIELD, filter::hash(b"needle"))];
        let without = block_on(table.without(&bed.cache, &needle)).unwrap().remove(0);
        let reads = store.count() - before;
        assert!(reads <= 30, "{reads} reads");
        let left = without.iter().filter(|own| !**own).count();
        assert!((125..250).contains(&left), "{left} splits remain, 125 contain it");
        assert!(!without[0], "the first split contains it");
        let fetched = bed.cache.stats().total().fetched_bytes - fetched_before;
        assert!(fetched < 1 << 20, "{fetched} bytes");
        block_on(table.without(&bed.cache, &needle)).unwrap();
        assert_eq!(store.count() - before, reads, "a repeated lookup fetches nothing");
    }

    /// The directory of a small table is fetched with the rest.
    #[test]
    fn a_small_table_needs_no_further_read() {
        let filters = Filters::new(10, |_| 300);
        let (bytes, written) = filters.table();
        let bed = Bed::new(1000);
        let (object, store) = object_of(1, bytes, written.salt);
        let table = block_on(FilterTable::open(&bed.cache, Arc::clone(&object.store), &written)).unwrap();
        let needle = [question(FIELD, filter::hash(b"needle"))];
        let without = block_on(table.without(&bed.cache, &needle)).unwrap();
        assert!(!without[0][0] && without[0].iter().any(|own| *own));
        assert_eq!(store.count(), 1);
    }

    #[test]
    fn what_is_no_filter_is_searched() {
        let filters = Filters::new(3, |_| 100);
        let mut writer = TableWriter::new(Vec::new(), vec![split(0), split(1), split(2), split(3)]);
        let slice = |at, number| match at {
            1 => Ok(Bytes::from_static(b"no filter")),
            _ => Ok::<_, io::Error>(filters.slice(at, number)),
        };
        writer.add(FIELD, 1, &[0, 1, 2], slice).unwrap();
        for (slices, columns) in [(1, &[][..]), (3, &[0]), (1, &[1, 0]), (1, &[4])] {
            assert!(
                writer.add(FIELD, slices, columns, slice).is_err(),
                "{slices} {columns:?}"
            );
        }
        let (bytes, written) = writer.finish().unwrap();
        let bed = Bed::new(100);
        let (object, _) = object_of(1, bytes.clone(), written.salt);
        let table = block_on(FilterTable::open(&bed.cache, Arc::clone(&object.store), &written)).unwrap();
        let noname = [question(FIELD, filter::hash(b"noname's"))];
        let without = block_on(table.without(&bed.cache, &noname)).unwrap();
        assert_eq!(without, [[true, false, true, false]]);
        // Pages that are sound, but not a directory.
        for (numbers, directory) in [
            (0, 0..100),
            (100, 0..100),
            (0, written.directory.end..written.directory.end),
        ] {
            let wrong = FilterTableRef {
                numbers,
                directory,
                ..written.clone()
            };
            let opened = block_on(FilterTable::open(&bed.cache, Arc::clone(&object.store), &wrong));
            assert_eq!(opened.unwrap_err().kind, ObjectErrorKind::Corrupt);
        }
    }
}
