//! Extent of a timestamp in a syslog header. Its text is passed on as it stands; a date processor gives it a meaning.

/// Months as RFC 3164 writes them.
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Time zones behind a timestamp: up to this many capital letters.
const ZONE_LETTERS_MAX: usize = 5;

/// Length of the timestamp at the start of `text`, bytes. None if there is none.
///
/// Accepts `Oct 11 22:14:15`, `Oct 11 2026 22:14:15`, `2026 Oct 11 22:14:15`, `Oct 11 22:14:15 2026`, each with a fraction
/// and a time zone, and ISO 8601.
pub(super) fn length(text: &str) -> Option<usize> {
    iso(text).or_else(|| bsd(text))
}

/// Length of an ISO 8601 timestamp: `2026-10-11T22:14:15.003Z`, also with a space and without a zone.
pub(super) fn iso(text: &str) -> Option<usize> {
    let mut reader = Reader::new(text);
    reader.digits(4, 4)?;
    reader.byte(b'-')?;
    reader.digits(2, 2)?;
    reader.byte(b'-')?;
    reader.digits(2, 2)?;
    reader
        .byte(b'T')
        .or_else(|| reader.byte(b't'))
        .or_else(|| reader.byte(b' '))?;
    reader.clock()?;
    if reader.byte(b'Z').or_else(|| reader.byte(b'z')).is_none() {
        reader.zone_offset();
    }
    reader.ends_word().then_some(reader.offset)
}

fn bsd(text: &str) -> Option<usize> {
    let mut reader = Reader::new(text);
    let year_first = reader.attempt(|reader| {
        reader.digits(4, 4)?;
        reader.spaces()
    });
    reader.month()?;
    reader.spaces()?;
    reader.digits(1, 2)?;
    reader.spaces()?;
    if year_first.is_none() {
        reader.attempt(|reader| {
            reader.digits(4, 4)?;
            reader.spaces()
        });
    }
    reader.clock()?;
    reader.zone_offset();
    reader.attempt(Reader::zone_name);
    reader.attempt(|reader| {
        reader.spaces()?;
        reader.digits(4, 4)?;
        reader.ends_word().then_some(())
    });
    reader.ends_word().then_some(reader.offset)
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            offset: 0,
        }
    }

    /// Runs `step`, and goes back if it fails.
    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let start = self.offset;
        let result = step(self);
        if result.is_none() {
            self.offset = start;
        }
        result
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.offset).copied()
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        if self.peek() != Some(byte) {
            return None;
        }
        self.offset += 1;
        Some(())
    }

    fn digits(&mut self, min: usize, max: usize) -> Option<()> {
        let count = self.bytes[self.offset..]
            .iter()
            .take(max)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count < min {
            return None;
        }
        self.offset += count;
        Some(())
    }

    fn spaces(&mut self) -> Option<()> {
        self.byte(b' ')?;
        while self.byte(b' ').is_some() {}
        Some(())
    }

    fn month(&mut self) -> Option<()> {
        let name = self.bytes.get(self.offset..self.offset + 3)?;
        if !MONTHS.iter().any(|month| month.as_bytes().eq_ignore_ascii_case(name)) {
            return None;
        }
        self.offset += 3;
        Some(())
    }

    /// `22:14:15` with an optional fraction.
    fn clock(&mut self) -> Option<()> {
        self.digits(1, 2)?;
        self.byte(b':')?;
        self.digits(2, 2)?;
        self.byte(b':')?;
        self.digits(2, 2)?;
        self.attempt(|reader| {
            reader.byte(b'.').or_else(|| reader.byte(b','))?;
            reader.digits(1, 9)
        });
        Some(())
    }

    /// `+02:00`, `-0500`, `+02`.
    fn zone_offset(&mut self) {
        self.attempt(|reader| {
            reader.byte(b'+').or_else(|| reader.byte(b'-'))?;
            reader.digits(2, 2)?;
            let _ = reader.byte(b':');
            let _ = reader.digits(2, 2);
            Some(())
        });
    }

    /// ` CEST`, only in front of a colon or a year: otherwise capital letters are a hostname.
    fn zone_name(&mut self) -> Option<()> {
        self.spaces()?;
        let letters = self.bytes[self.offset..]
            .iter()
            .take_while(|byte| byte.is_ascii_uppercase())
            .count();
        if letters == 0 || letters > ZONE_LETTERS_MAX {
            return None;
        }
        self.offset += letters;
        match self.peek() {
            Some(b':') if self.ends_word() => Some(()),
            Some(b' ') => {
                let year = self.bytes.get(self.offset + 1..self.offset + 5)?;
                let ends = !self
                    .bytes
                    .get(self.offset + 5)
                    .is_some_and(|byte| !matches!(byte, b' ' | b':'));
                (year.iter().all(u8::is_ascii_digit) && ends).then_some(())
            }
            _ => None,
        }
    }

    /// True at the end of the text, at a space, and at a colon with one of the two behind it.
    fn ends_word(&self) -> bool {
        match self.peek() {
            None | Some(b' ') => true,
            Some(b':') => matches!(self.bytes.get(self.offset + 1), None | Some(b' ')),
            Some(_) => false,
        }
    }
}
