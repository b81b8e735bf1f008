//! Checksum of the bytes of a file before the position, which tells whether the file was written anew.

/// Bytes before the end that the checksum covers.
const BYTES: usize = 4096;

/// See the module. It is stored as the note of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Offset of the end of the bytes that were read.
    pub(super) end: u64,
    checksum: u32,
}

impl Mark {
    /// Returns the length of the bytes before `end` that a checksum covers.
    pub(super) fn length_before(end: u64) -> usize {
        end.min(BYTES as u64) as usize
    }

    /// Returns the checksum before `end`. `bytes` ends there and has at least [`Mark::length_before`] bytes.
    pub(super) fn of(bytes: &[u8], end: u64) -> Self {
        let covered = &bytes[bytes.len() - Self::length_before(end)..];
        Self {
            end,
            checksum: crc32c::crc32c(covered),
        }
    }

    /// Whether `bytes`, those before the end, are the ones that were read.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.length() && crc32c::crc32c(bytes) == self.checksum
    }

    /// Returns the offset and the length of the bytes that the checksum covers.
    pub(super) fn covers(&self) -> (u64, usize) {
        (self.end - self.length() as u64, self.length())
    }

    fn length(&self) -> usize {
        Self::length_before(self.end)
    }

    /// Prints the note of a position, with the offsets at which lines were cut.
    pub(super) fn to_note(self, cuts: &[u64]) -> String {
        let mut note = format!("{}:{:08x}", self.end, self.checksum);
        for cut in cuts {
            note.push(':');
            note.push_str(&cut.to_string());
        }
        note
    }

    /// Reads the output of [`Mark::to_note`]; `None`: it is none.
    pub(super) fn from_note(note: &str) -> Option<Self> {
        let (end, checksum) = note.split_once(':')?;
        let checksum = checksum.split(':').next()?;
        Some(Self {
            end: end.parse().ok()?,
            checksum: u32::from_str_radix(checksum, 16).ok()?,
        })
    }
}

/// Returns the offsets at which lines were cut, of the output of [`Mark::to_note`].
pub(super) fn cuts_of_note(note: &str) -> Vec<u64> {
    note.split(':').skip(2).filter_map(|cut| cut.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_covers_the_end_and_is_a_note() {
        let bytes: Vec<u8> = (0..5000_u32).map(|number| number as u8).collect();
        let mark = Mark::of(&bytes, 5000);
        assert_eq!(mark.covers(), (904, 4096));
        assert!(mark.is_of(&bytes[904..]) && !mark.is_of(&bytes[903..4999]) && !mark.is_of(&bytes));
        assert_eq!(Mark::from_note(&mark.to_note(&[])), Some(mark));
        let short = Mark::of(b"abc", 3);
        assert_eq!(
            (short.covers(), short.is_of(b"abc"), short.is_of(b"abd")),
            ((0, 3), true, false)
        );
        let note = mark.to_note(&[7, 12]);
        assert_eq!((Mark::from_note(&note), cuts_of_note(&note)), (Some(mark), vec![7, 12]));
        assert_eq!(cuts_of_note(&mark.to_note(&[])), [0; 0]);
        for bad in ["", "1", "x:0", "1:z"] {
            assert_eq!(Mark::from_note(bad), None, "{bad}");
        }
    }
}
