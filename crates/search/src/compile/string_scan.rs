//! All values of a string column as one text, for substring search.
//!
//! A pattern without a literal prefix must test every value of a field. Reading a hundred thousand values one by
//! one from the front-coded blocks of the dictionary takes milliseconds. Concatenated, they are searched for the
//! literal piece of the pattern at memory speed.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_model::Result;
use firn_segment::columns::column;
use firn_segment::columns::paths;
use firn_segment::columns::strings::StrColumn;
use firn_segment::schema::Class;
use firn_segment::segment_cache::{CACHE, CacheKey};
use memchr::memmem::Finder;
use tantivy::SegmentReader;

/// The values of a column, in order.
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// End of each value.
    ends: Vec<u32>,
}

impl Texts {
    /// Returns the values of a field on a segment; `None`: there is no such column, or the values are too large to
    /// be cached. `step` is called for each value that is read, and may stop it.
    pub(crate) fn of(
        reader: &SegmentReader,
        class: Class,
        path: &str,
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Arc<Self>>> {
        let Some(name) = paths::string_column_name(class, path) else {
            return Ok(None);
        };
        let key = CacheKey {
            segment: reader.segment_id(),
            name: format!("texts {name}").into(),
        };
        if let Some(texts) = CACHE.get(&key) {
            return Ok(Some(texts));
        }
        let Some(strings) = column::open_strings(reader, class, path)? else {
            return Ok(None);
        };
        let Some(texts) = Self::read(&strings, CACHE.entry_bytes_max(), step)? else {
            return Ok(None);
        };
        let texts = Arc::new(texts);
        CACHE.put(key, Arc::clone(&texts), texts.size_bytes());
        Ok(Some(texts))
    }

    fn read(strings: &StrColumn, bytes_max: usize, step: &mut dyn FnMut() -> Result<()>) -> Result<Option<Self>> {
        let count = strings.num_terms();
        if count.saturating_mul(size_of::<u32>()) > bytes_max {
            return Ok(None);
        }
        let mut texts = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(count),
        };
        let mut stream = strings.dictionary().stream()?;
        while stream.advance() {
            step()?;
            texts.bytes.extend_from_slice(stream.key());
            texts.ends.push(texts.bytes.len() as u32);
            if texts.size_bytes() > bytes_max {
                return Ok(None);
            }
        }
        texts.bytes.shrink_to_fit();
        Ok(Some(texts))
    }

    fn size_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<u32>()
    }

    /// Calls `found` with every value that contains `piece`, in order.
    pub(crate) fn containing(&self, piece: &[u8], mut found: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let finder = Finder::new(piece);
        let mut from = 0;
        while let Some(at) = finder.find(&self.bytes[from..]) {
            let at = from + at;
            let number = self.ends.partition_point(|end| *end as usize <= at);
            let (start, end) = self.bounds(number);
            // A match that extends into the next value is in neither.
            if at + piece.len() <= end {
                found(&self.bytes[start..end])?;
                from = end;
            } else {
                from = at + 1;
            }
        }
        Ok(())
    }

    /// Returns the value with a number.
    pub(crate) fn get(&self, number: usize) -> &[u8] {
        let (start, end) = self.bounds(number);
        &self.bytes[start..end]
    }

    /// Returns the number of a value; `None`: it does not exist.
    pub(crate) fn position(&self, value: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(value) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn bounds(&self, number: usize) -> (usize, usize) {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        (start, self.ends[number] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    fn texts(values: &[&str]) -> Texts {
        let mut texts = Texts {
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        for value in values {
            texts.bytes.extend_from_slice(value.as_bytes());
            texts.ends.push(texts.bytes.len() as u32);
        }
        texts
    }

    #[test]
    fn values_are_found_by_number_and_back() {
        let values = ["", "a", "ab", "b", "ba"];
        let texts = texts(&values);
        for (number, value) in values.iter().enumerate() {
            assert_eq!(texts.get(number), value.as_bytes());
            assert_eq!(texts.position(value.as_bytes()), Some(number));
        }
        assert_eq!(texts.position(b"aa"), None);
        assert_eq!(texts.position(b"c"), None);
    }

    #[test]
    fn pieces_are_found_within_values() {
        let texts = texts(&["", "ab", "abab", "ba", "cab", "xa", "by"]);
        let containing = |piece: &str| {
            let mut found = Vec::new();
            texts
                .containing(piece.as_bytes(), |value| {
                    found.push(String::from_utf8_lossy(value).into_owned());
                    Ok(())
                })
                .unwrap();
            found.join(" ")
        };
        assert_eq!(containing("ab"), "ab abab cab");
        assert_eq!(containing("ba"), "abab ba");
        assert_eq!(containing("y"), "by");
        assert_eq!(containing("aba"), "abab");
        assert_eq!(containing("zz"), "");
    }
}
