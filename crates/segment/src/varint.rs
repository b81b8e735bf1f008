//! Encoding of numbers with variable length (LEB128: seven bits per byte, the low ones first, the highest bit set in
//! all but the last), and other parts of firn's small formats.

/// Writes a number.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes a text after its length.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Reads encoded values; `None`: the bytes are invalid.
pub(crate) struct Reader<'a> {
    /// The unread bytes.
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        self.number().and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let len = self.small()? as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX / 2, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut reader = Reader { rest: &bytes };
            assert_eq!(reader.number(), Some(number));
            assert!(reader.rest.is_empty());
            let mut cut = Reader {
                rest: &bytes[..bytes.len() - 1],
            };
            assert_eq!(cut.number(), None);
            let mut small = Reader { rest: &bytes };
            assert_eq!(small.small(), u32::try_from(number).ok());
        }
        let mut too_long = Reader { rest: &[0xff; 11] };
        assert_eq!(too_long.number(), None);
        let mut too_large = Reader {
            rest: &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        };
        assert_eq!(too_large.number(), None);
    }

    #[test]
    fn texts_come_back() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "ä");
        assert_eq!(Reader { rest: &bytes }.text(), Some("ä"));
        assert_eq!(Reader { rest: &[1, 0xff] }.text(), None);
    }
}
