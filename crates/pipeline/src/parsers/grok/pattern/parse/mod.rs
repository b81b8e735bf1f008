//! Parser of Oniguruma's syntax (its document `RE`, Ruby's dialect).

mod brackets;

use self::brackets::property;
use super::ast::{Node, RepeatKind};
use super::class::Class;
use super::{Assertion, DEPTH_MAX, PATTERN_BYTES_MAX, REPEAT_MAX};

/// A pattern as a tree, with the names of its groups.
pub(super) struct Parsed {
    pub(super) node: Node,
    pub(super) names: Vec<String>,
}

/// Options that `(?imx)` switches.
#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    dot_all: bool,
    extended: bool,
}

struct Parser<'p> {
    text: &'p str,
    offset: usize,
    flags: Flags,
    depth: usize,
    names: Vec<String>,
}

/// Parses a pattern.
pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    let mut parser = Parser {
        text,
        offset: 0,
        flags: Flags::default(),
        depth: 0,
        names: Vec::new(),
    };
    let node = parser.alternatives()?;
    if parser.offset < text.len() {
        return Err(parser.error("unmatched `)`"));
    }
    Ok(Parsed {
        node,
        names: parser.names,
    })
}

impl<'p> Parser<'p> {
    fn error(&self, what: &str) -> String {
        format!("{what} at byte {} of the pattern", self.offset)
    }

    fn rest(&self) -> &'p str {
        &self.text[self.offset..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.offset += next.len_utf8();
        Some(next)
    }

    fn skip(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.offset += text.len();
        }
        found
    }

    fn alternatives(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!(
                "the pattern has more than {DEPTH_MAX} groups inside each other"
            ));
        }
        let flags = self.flags;
        let mut branches = vec![self.concatenation()?];
        while self.skip("|") {
            branches.push(self.concatenation()?);
        }
        self.flags = flags;
        self.depth -= 1;
        Ok(if branches.len() == 1 {
            branches.remove(0)
        } else {
            Node::Alternate(branches)
        })
    }

    fn concatenation(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        loop {
            match self.peek() {
                None | Some('|' | ')') => break,
                Some(space) if self.flags.extended && space.is_ascii_whitespace() => {
                    self.next();
                    continue;
                }
                Some('#') if self.flags.extended => {
                    while self.next().is_some_and(|character| character != '\n') {}
                    continue;
                }
                _ => {}
            }
            let Some(node) = self.element()? else { continue };
            let node = self.quantified(node)?;
            nodes.push(node);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Concat(nodes),
        })
    }

    /// One element without its quantifiers. None for comments and flags.
    fn element(&mut self) -> Result<Option<Node>, String> {
        let start = self.offset;
        let Some(character) = self.next() else { return Ok(None) };
        Ok(Some(match character {
            '(' => return self.group(start),
            '[' => Node::Class(self.class()?),
            '.' => Node::Class(Class::any(self.flags.dot_all)),
            '^' => Node::Assert(Assertion::LineStart),
            '$' => Node::Assert(Assertion::LineEnd),
            '\\' => self.escape()?,
            '*' | '+' | '?' => {
                self.offset = start;
                return Err(self.error("nothing to repeat"));
            }
            literal => self.literal(literal),
        }))
    }

    fn literal(&self, character: char) -> Node {
        if !self.flags.ignore_case {
            return Node::Character(character);
        }
        match Class::of(character).ignoring_case() {
            class if class == Class::of(character) => Node::Character(character),
            class => Node::Class(class),
        }
    }

    /// A group, of which `(` at `start` was read.
    fn group(&mut self, start: usize) -> Result<Option<Node>, String> {
        if !self.skip("?") {
            // In a pattern with named groups, others do not capture.
            return self.inside().map(Some);
        }
        let node = if self.skip("#") {
            while let Some(character) = self.next() {
                match character {
                    ')' => return Ok(None),
                    '\\' => {
                        self.next();
                    }
                    _ => {}
                }
            }
            return Err(self.error("a comment without `)`"));
        } else if self.skip(":") {
            self.inside()?
        } else if self.skip(">") {
            Node::Atomic(Box::new(self.inside()?))
        } else if self.skip("=") {
            self.look(false, false)?
        } else if self.skip("!") {
            self.look(false, true)?
        } else if self.skip("<=") {
            self.look(true, false)?
        } else if self.skip("<!") {
            self.look(true, true)?
        } else if self.skip("<") {
            self.capture('>')?
        } else if self.skip("'") {
            self.capture('\'')?
        } else if self.skip("P<") {
            self.capture('>')?
        } else if self.rest().starts_with(['(', '~']) {
            return Err(self.error("conditions and absent operators are not supported,"));
        } else {
            return self.flag_group(start);
        };
        Ok(Some(node))
    }

    /// Alternatives up to the closing parenthesis.
    fn inside(&mut self) -> Result<Node, String> {
        let node = self.alternatives()?;
        if self.skip(")") {
            Ok(node)
        } else {
            Err(self.error("a group without `)`"))
        }
    }

    fn look(&mut self, behind: bool, negated: bool) -> Result<Node, String> {
        let node = self.inside()?;
        if !behind || node.fixed_length().is_some() {
            return Ok(Node::Look {
                node: Box::new(node),
                behind,
                negated,
            });
        }
        // Alternatives may have different lengths; each is looked for by itself.
        let Node::Alternate(branches) = node else {
            return Err(self.error("lookbehind of a variable length is not supported,"));
        };
        if branches.iter().any(|branch| branch.fixed_length().is_none()) {
            return Err(self.error("lookbehind of a variable length is not supported,"));
        }
        let looks = branches.into_iter().map(|branch| Node::Look {
            node: Box::new(branch),
            behind,
            negated,
        });
        Ok(if negated {
            Node::Concat(looks.collect())
        } else {
            Node::Alternate(looks.collect())
        })
    }

    fn capture(&mut self, end: char) -> Result<Node, String> {
        let Some(length) = self.rest().find(end) else {
            return Err(self.error("the name of a group without its end"));
        };
        let name = &self.rest()[..length];
        if name.is_empty() {
            return Err(self.error("a group with an empty name"));
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.offset += length + end.len_utf8();
        Ok(Node::Capture(number, Box::new(self.inside()?)))
    }

    /// `(?imx-imx)` or `(?imx-imx:…)`.
    fn flag_group(&mut self, start: usize) -> Result<Option<Node>, String> {
        let outer = self.flags;
        let mut on = true;
        loop {
            match self.next() {
                Some('i') => self.flags.ignore_case = on,
                Some('m') => self.flags.dot_all = on,
                Some('x') => self.flags.extended = on,
                Some('-') if on => on = false,
                // They last to the end of the group around them.
                Some(')') => return Ok(None),
                Some(':') => {
                    let node = self.inside()?;
                    self.flags = outer;
                    return Ok(Some(node));
                }
                _ => {
                    self.offset = start;
                    return Err(self.error("an unknown kind of group"));
                }
            }
        }
    }

    fn quantified(&mut self, node: Node) -> Result<Node, String> {
        let mut node = node;
        loop {
            let (min, max, is_braces) = match self.peek() {
                Some('*') => (0, u32::MAX, false),
                Some('+') => (1, u32::MAX, false),
                Some('?') => (0, 1, false),
                Some('{') => match self.braces()? {
                    Some((min, max)) => (min, max, true),
                    None => return Ok(node),
                },
                _ => return Ok(node),
            };
            if !is_braces {
                self.next();
            }
            let kind = if self.skip("?") {
                RepeatKind::Lazy
            } else if !is_braces && self.skip("+") {
                RepeatKind::Possessive
            } else {
                RepeatKind::Greedy
            };
            // The look of an assertion does not change by repeating it.
            node = Node::Repeat {
                node: Box::new(node),
                min,
                max,
                kind,
            };
        }
    }

    /// `{n}`, `{n,}`, `{,m}`, `{n,m}`. None if the brace is text.
    fn braces(&mut self) -> Result<Option<(u32, u32)>, String> {
        let Some((inside, _)) = self.rest()[1..].split_once('}') else {
            return Ok(None);
        };
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true if text.len() < 9 => text.parse::<u32>().ok(),
            true => Some(u32::MAX),
            false => None,
        };
        let range = match inside.split_once(',') {
            None => number(inside).map(|count| (count, count)),
            Some(("", "")) => None,
            Some(("", max)) => number(max).map(|max| (0, max)),
            Some((min, "")) => number(min).map(|min| (min, u32::MAX)),
            Some((min, max)) => number(min).zip(number(max)),
        };
        let Some((min, max)) = range else { return Ok(None) };
        if min > REPEAT_MAX || (max > REPEAT_MAX && max != u32::MAX) {
            return Err(self.error("too many repetitions"));
        }
        if min > max {
            return Err(self.error("a range of repetitions that ends before it begins"));
        }
        self.offset += inside.len() + 2;
        Ok(Some((min, max)))
    }

    /// An escape outside brackets, of which the backslash was read.
    fn escape(&mut self) -> Result<Node, String> {
        let start = self.offset;
        let Some(character) = self.next() else {
            return Err(self.error("a backslash at the end"));
        };
        Ok(match character {
            'A' => Node::Assert(Assertion::TextStart),
            'z' => Node::Assert(Assertion::TextEnd),
            'Z' => Node::Assert(Assertion::TextEndOrNewline),
            'b' => Node::Assert(Assertion::WordBoundary),
            'B' => Node::Assert(Assertion::NoWordBoundary),
            'R' => {
                let breaks = Class::ascii(|character| matches!(character, '\n'..='\r'));
                let pair = Node::Concat(vec![Node::Character('\r'), Node::Character('\n')]);
                Node::Atomic(Box::new(Node::Alternate(vec![pair, Node::Class(breaks)])))
            }
            'G' | 'K' | 'X' | 'k' | 'g' | '1'..='9' => {
                return Err(format!(
                    "`\\{character}` is not supported, at byte {} of the pattern",
                    start - 1
                ));
            }
            _ => {
                self.offset = start;
                match self.class_escape()? {
                    Escape::Character(character) => self.literal(character),
                    Escape::Class(class) => Node::Class(class),
                }
            }
        })
    }

    /// An escape that is one character or a class, of which the backslash was read.
    fn class_escape(&mut self) -> Result<Escape, String> {
        let Some(character) = self.next() else {
            return Err(self.error("a backslash at the end"));
        };
        let word = || Class::ascii(|character| character.is_ascii_alphanumeric() || character == '_');
        let digit = || Class::ascii(|character| character.is_ascii_digit());
        let space = || Class::ascii(|character| matches!(character, ' ' | '\t'..='\r'));
        let hexadecimal = || Class::ascii(|character| character.is_ascii_hexdigit());
        Ok(match character {
            'w' => Escape::Class(word()),
            'W' => Escape::Class(word().negated()),
            'd' => Escape::Class(digit()),
            'D' => Escape::Class(digit().negated()),
            's' => Escape::Class(space()),
            'S' => Escape::Class(space().negated()),
            'h' => Escape::Class(hexadecimal()),
            'H' => Escape::Class(hexadecimal().negated()),
            'p' | 'P' => Escape::Class(self.property(character == 'P')?),
            't' => Escape::Character('\t'),
            'n' => Escape::Character('\n'),
            'r' => Escape::Character('\r'),
            'f' => Escape::Character('\u{c}'),
            'v' => Escape::Character('\u{b}'),
            'a' => Escape::Character('\u{7}'),
            'e' => Escape::Character('\u{1b}'),
            '0' => Escape::Character('\0'),
            'x' => Escape::Character(self.code_point(2)?),
            'u' => Escape::Character(self.code_point(4)?),
            other => Escape::Character(other),
        })
    }

    /// `\xHH`, `\x{H…}` or `\uHHHH`, of which the letter was read.
    fn code_point(&mut self, digits: usize) -> Result<char, String> {
        let text = if self.skip("{") {
            let Some((inside, _)) = self.rest().split_once('}') else {
                return Err(self.error("a code point without `}`"));
            };
            self.offset += inside.len() + 1;
            inside
        } else {
            let length = self
                .rest()
                .bytes()
                .take(digits)
                .take_while(u8::is_ascii_hexdigit)
                .count();
            let text = &self.rest()[..length];
            self.offset += length;
            text
        };
        let code = u32::from_str_radix(text, 16).ok().and_then(char::from_u32);
        code.ok_or_else(|| self.error("a code point that is none"))
    }

    /// `\p{Name}` or `\p{^Name}`, of which the letter was read.
    fn property(&mut self, negated: bool) -> Result<Class, String> {
        let inside = self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((inside, _)) = inside else {
            return Err(self.error("a property without braces"));
        };
        let (name, inverted) = match inside.strip_prefix('^') {
            Some(name) => (name, true),
            None => (inside, false),
        };
        let Some(class) = property(&name.to_ascii_lowercase()) else {
            return Err(format!("property `{name}` is not supported"));
        };
        self.offset += inside.len() + 2;
        Ok(if negated == inverted { class } else { class.negated() })
    }
}

/// An escape inside brackets.
enum Escape {
    Character(char),
    Class(Class),
}
