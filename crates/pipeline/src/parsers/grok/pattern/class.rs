//! Class of characters: one bit for each ASCII character, a rule for the others.

/// A set of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// Bit `n` stands for the character `n`.
    pub(super) ascii: u128,
    pub(super) wide: Wide,
}

/// Characters beyond ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wide {
    None,
    All,
    Range(char, char),
    Property(Property),
    Not(Box<Wide>),
    Any(Vec<Wide>),
    Both(Box<Wide>, Box<Wide>),
}

/// Property of a character, by Unicode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Alphabetic,
    Alphanumeric,
    Word,
    Digit,
    Lower,
    Upper,
    Space,
    Control,
    Graphic,
    Print,
}

impl Property {
    pub(super) fn has(self, character: char) -> bool {
        match self {
            Self::Alphabetic => character.is_alphabetic(),
            Self::Alphanumeric | Self::Word => character.is_alphanumeric() || (self == Self::Word && character == '_'),
            Self::Digit => character.is_numeric(),
            Self::Lower => character.is_lowercase(),
            Self::Upper => character.is_uppercase(),
            Self::Space => character.is_whitespace(),
            Self::Control => character.is_control(),
            Self::Graphic => !character.is_whitespace() && !character.is_control(),
            Self::Print => !character.is_control(),
        }
    }
}

impl Wide {
    fn has(&self, character: char) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Range(first, last) => (*first..=*last).contains(&character),
            Self::Property(property) => property.has(character),
            Self::Not(wide) => !wide.has(character),
            Self::Any(wides) => wides.iter().any(|wide| wide.has(character)),
            Self::Both(one, other) => one.has(character) && other.has(character),
        }
    }
}

/// Bits of the ASCII characters for which `has` is true.
fn bits(has: impl Fn(char) -> bool) -> u128 {
    (0..128_u8)
        .filter(|&byte| has(char::from(byte)))
        .fold(0, |bits, byte| bits | 1 << byte)
}

impl Class {
    pub(super) fn empty() -> Self {
        Self {
            ascii: 0,
            wide: Wide::None,
        }
    }

    pub(super) fn of(character: char) -> Self {
        Self::range(character, character)
    }

    pub(super) fn range(first: char, last: char) -> Self {
        Self {
            ascii: bits(|character| (first..=last).contains(&character)),
            wide: if last.is_ascii() {
                Wide::None
            } else {
                Wide::Range(first, last)
            },
        }
    }

    /// ASCII characters only.
    pub(super) fn ascii(has: impl Fn(char) -> bool) -> Self {
        Self {
            ascii: bits(has),
            wide: Wide::None,
        }
    }

    pub(super) fn property(property: Property) -> Self {
        Self {
            ascii: bits(|character| match property {
                Property::Digit => character.is_ascii_digit(),
                _ => property.has(character),
            }),
            wide: Wide::Property(property),
        }
    }

    /// `.`: all characters, except line breaks unless `dot_all`.
    pub(super) fn any(dot_all: bool) -> Self {
        Self {
            ascii: bits(|character| dot_all || character != '\n'),
            wide: Wide::All,
        }
    }

    pub(super) fn negated(self) -> Self {
        Self {
            ascii: !self.ascii,
            wide: match self.wide {
                Wide::None => Wide::All,
                Wide::All => Wide::None,
                Wide::Not(wide) => *wide,
                wide => Wide::Not(Box::new(wide)),
            },
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        let wide = match (self.wide, other.wide) {
            (Wide::All, _) | (_, Wide::All) => Wide::All,
            (Wide::None, wide) | (wide, Wide::None) => wide,
            (Wide::Any(mut wides), wide) => {
                wides.push(wide);
                Wide::Any(wides)
            }
            (one, other) => Wide::Any(vec![one, other]),
        };
        Self {
            ascii: self.ascii | other.ascii,
            wide,
        }
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        let wide = match (self.wide, other.wide) {
            (Wide::None, _) | (_, Wide::None) => Wide::None,
            (Wide::All, wide) | (wide, Wide::All) => wide,
            (one, other) => Wide::Both(Box::new(one), Box::new(other)),
        };
        Self {
            ascii: self.ascii & other.ascii,
            wide,
        }
    }

    /// Adds the other case of each ASCII letter, and of characters that stand alone in the class.
    pub(super) fn ignoring_case(mut self) -> Self {
        let letters = bits(|character| character.is_ascii_alphabetic());
        let set = self.ascii & letters;
        self.ascii |= (set >> 32 | set << 32) & letters;
        if let Wide::Range(first, last) = self.wide
            && first == last
        {
            let mut cases = vec![Wide::Range(first, first)];
            for case in [single(first.to_lowercase()), single(first.to_uppercase())]
                .into_iter()
                .flatten()
            {
                cases.push(Wide::Range(case, case));
            }
            self.wide = Wide::Any(cases);
        }
        self
    }
}

/// A class that answers by the first byte of a character.
#[derive(Debug)]
pub(super) struct ClassTable {
    pub(super) class: Class,
    bytes: [Answer; 256],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    No,
    /// An ASCII character of the class.
    One,
    /// A longer character, which must be looked at.
    Wide,
}

impl ClassTable {
    pub(super) fn new(class: Class) -> Self {
        let mut bytes = [Answer::No; 256];
        for (byte, answer) in bytes.iter_mut().enumerate() {
            if byte >= 128 {
                *answer = if class.wide == Wide::None {
                    Answer::No
                } else {
                    Answer::Wide
                };
            } else if class.ascii >> byte & 1 == 1 {
                *answer = Answer::One;
            }
        }
        Self { class, bytes }
    }

    /// Bytes of the character at the start of `bytes`, which is UTF-8, if the class has it.
    #[inline]
    pub(super) fn length_at(&self, bytes: &[u8]) -> Option<usize> {
        match self.bytes[usize::from(*bytes.first()?)] {
            Answer::No => None,
            Answer::One => Some(1),
            Answer::Wide => self.wide_length_at(bytes),
        }
    }

    /// The end of the run of characters of the class that starts at `at`.
    #[inline]
    pub(super) fn run_end(&self, bytes: &[u8], at: usize) -> usize {
        let mut end = at;
        loop {
            while bytes
                .get(end)
                .is_some_and(|&byte| self.bytes[usize::from(byte)] == Answer::One)
            {
                end += 1;
            }
            match self.length_at(&bytes[end..]) {
                Some(length) => end += length,
                None => return end,
            }
        }
    }

    fn wide_length_at(&self, bytes: &[u8]) -> Option<usize> {
        let length = character_length(bytes[0]);
        match &self.class.wide {
            Wide::None => None,
            Wide::All => Some(length),
            wide => wide.has(decode(&bytes[..length])).then_some(length),
        }
    }

    /// True for `.`, whose runs end at a line break.
    pub(super) fn is_any_but_newline(&self) -> bool {
        self.class.wide == Wide::All && self.class.ascii == !(1 << b'\n')
    }
}

fn single(mut characters: impl Iterator<Item = char>) -> Option<char> {
    let first = characters.next()?;
    characters.next().is_none().then_some(first)
}

/// Bytes of a character by its first one.
pub(super) fn character_length(first: u8) -> usize {
    match first {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

/// The character of these bytes.
pub(super) fn decode(bytes: &[u8]) -> char {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.chars().next())
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}
