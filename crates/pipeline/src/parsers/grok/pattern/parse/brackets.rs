//! Classes in brackets, POSIX brackets and properties.

use super::super::DEPTH_MAX;
use super::super::class::{Class, Property};
use super::{Escape, Parser};

impl Parser<'_> {
    /// A class in brackets, of which `[` was read.
    pub(super) fn class(&mut self) -> Result<Class, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!(
                "the pattern has more than {DEPTH_MAX} groups inside each other"
            ));
        }
        let negated = self.skip("^");
        let mut class = Class::empty();
        // Operands of `&&` that are complete.
        let mut operands: Option<Class> = None;
        let mut is_first = true;
        loop {
            let Some(character) = self.next() else {
                return Err(self.error("a class without `]`"));
            };
            let item = match character {
                ']' if !is_first => break,
                '[' if self.rest().starts_with(':') && self.posix_end().is_some() => Escape::Class(self.posix()?),
                '[' => Escape::Class(self.class()?),
                '&' if self.skip("&") => {
                    operands = Some(match operands {
                        None => class,
                        Some(before) => before.intersection(class),
                    });
                    class = Class::empty();
                    continue;
                }
                '\\' if self.skip("b") => Escape::Character('\u{8}'),
                '\\' => self.class_escape()?,
                character => Escape::Character(character),
            };
            is_first = false;
            class = class.union(match item {
                Escape::Class(class) => class,
                Escape::Character(first) => match self.range_end()? {
                    Some(last) if last < first => return Err(self.error("a range that ends before it begins")),
                    Some(last) => self.with_case(Class::range(first, last)),
                    None => self.with_case(Class::of(first)),
                },
            });
        }
        self.depth -= 1;
        let class = match operands {
            None => class,
            Some(before) => before.intersection(class),
        };
        Ok(if negated { class.negated() } else { class })
    }

    fn with_case(&self, class: Class) -> Class {
        if self.flags.ignore_case {
            class.ignoring_case()
        } else {
            class
        }
    }

    /// The last character of a range, if `-` and a character stand here.
    fn range_end(&mut self) -> Result<Option<char>, String> {
        let Some(after) = self.rest().strip_prefix('-') else {
            return Ok(None);
        };
        match after.chars().next() {
            None | Some(']' | '[') => Ok(None),
            Some('\\') => {
                let start = self.offset;
                self.offset += 2;
                match self.class_escape()? {
                    Escape::Character(last) => Ok(Some(last)),
                    // `[a-\d]`: the dash is text.
                    Escape::Class(_) => {
                        self.offset = start;
                        Ok(None)
                    }
                }
            }
            Some(last) => {
                self.offset += 1 + last.len_utf8();
                Ok(Some(last))
            }
        }
    }

    /// Length of the inside of a POSIX bracket, `:alpha`.
    fn posix_end(&self) -> Option<usize> {
        let end = self.rest().find(":]")?;
        let name = self.rest().get(1..end)?;
        name.bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'^')
            .then_some(end)
    }

    fn posix(&mut self) -> Result<Class, String> {
        let end = self.posix_end().unwrap_or(1);
        let inside = &self.rest()[1..end.max(1)];
        let (name, negated) = match inside.strip_prefix('^') {
            Some(name) => (name, true),
            None => (inside, false),
        };
        let Some(class) = property(name) else {
            return Err(self.error("an unknown POSIX bracket"));
        };
        self.offset += end + 2;
        Ok(if negated { class.negated() } else { class })
    }
}

/// Class of a property or POSIX bracket by its name in lower case.
pub(super) fn property(name: &str) -> Option<Class> {
    Some(match name {
        "alpha" | "l" | "letter" | "alphabetic" => Class::property(Property::Alphabetic),
        "alnum" => Class::property(Property::Alphanumeric),
        "word" => Class::property(Property::Word),
        "digit" | "n" | "nd" => Class::property(Property::Digit),
        "lower" | "ll" => Class::property(Property::Lower),
        "upper" | "lu" => Class::property(Property::Upper),
        "space" => Class::property(Property::Space),
        "cntrl" | "cc" => Class::property(Property::Control),
        "graph" => Class::property(Property::Graphic),
        "print" => Class::property(Property::Print),
        "blank" => Class::ascii(|character| matches!(character, ' ' | '\t')),
        "xdigit" => Class::ascii(|character| character.is_ascii_hexdigit()),
        "punct" => Class::ascii(|character| character.is_ascii_punctuation()),
        "ascii" => Class::ascii(|_| true),
        "any" => Class::any(true),
        _ => return None,
    })
}
