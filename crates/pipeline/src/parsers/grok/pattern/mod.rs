//! Regular expressions as Oniguruma reads them, with the options that Elasticsearch's grok sets (Ruby's syntax, UTF-8).
//!
//! The crate `regex` has no lookaround, no atomic groups and no possessive quantifiers, and half of the published patterns
//! use them (a number is `(?<![0-9.+-])(?>…)`). This matcher backtracks like Oniguruma and gives the same captures. What
//! makes it fast on logs: repeats of one character run in a tight loop and are tried again only at places where the next
//! character fits; a branch is entered only if its first byte fits. What makes it safe: a limit of steps.
//!
//! Only named groups capture. `^` and `$` match at lines, `.` matches no line break, `\w`, `\d`, `\s` and `\h` are ASCII,
//! `\b` and POSIX brackets are Unicode. Back-references, subexpression calls and conditions are refused by name.

mod ast;
mod class;
mod compile;
mod first;
mod parse;
mod run;
#[cfg(test)]
mod tests;

pub(super) use self::run::{Match, Scratch, StepsExceeded};

use memchr::memmem;

use self::class::ClassTable;
use self::first::FirstBytes;

/// Text of one pattern at most, after all its references are replaced.
pub(super) const PATTERN_BYTES_MAX: usize = 1 << 18;

/// Groups inside each other at most: parser and compiler recurse.
const DEPTH_MAX: usize = 100;

/// Instructions of one pattern at most, about 2 MB.
const INSTRUCTIONS_MAX: usize = 50_000;

/// Repetitions in braces at most, as in Oniguruma.
const REPEAT_MAX: u32 = 100_000;

/// Steps of one search at most: some milliseconds. A sane pattern takes about one step a byte.
const STEPS_MAX: u64 = 1_000_000;

/// Steps that each byte of a text adds to [`STEPS_MAX`], so that a sane pattern gets through a text of a megabyte.
const STEPS_PER_BYTE_MAX: u64 = 8;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    instructions: Vec<Instruction>,
    classes: Vec<ClassTable>,
    first: Vec<FirstBytes>,
    /// Names of the groups, in the order of their opening parentheses; group `n` has the slots `2n` and `2n + 1`.
    names: Vec<String>,
    slots: usize,
    /// First bytes of a match.
    start: FirstBytes,
    /// True if a match can begin at the start of the text only.
    anchored: bool,
    /// Text that each match contains: most records that do not match are refused by it.
    required: Option<memmem::Finder<'static>>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is malformed, too large, or uses what this matcher refuses. The text says what and where.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let parsed = parse::parse(pattern)?;
        compile::compile(parsed)
    }

    /// Names of the groups in the order of their opening parentheses. A name may come twice.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }
}

/// One step of the matcher. Targets are places in the program.
#[derive(Debug, Clone)]
enum Instruction {
    /// These bytes.
    Literal(Box<[u8]>),
    Byte(u8),
    /// One character of a class.
    Class(u32),
    Assert(Assertion),
    /// A character of the class behind or before this place, or the lack of one.
    LookAtOne {
        class: u32,
        behind: bool,
        negated: bool,
    },
    /// Stores the place in a slot.
    Save(u32),
    /// Tries one, then the other. Each has its first bytes.
    Split {
        preferred: u32,
        other: u32,
        preferred_first: u32,
        other_first: u32,
    },
    Jump(u32),
    /// Characters of a class, as many as possible.
    Greedy(Run),
    /// Characters of a class, as few as possible.
    Lazy(Run),
    /// Goes to `exit` if the place has not moved since `slot` was saved: a loop of nothing ends.
    ExitIfEmpty {
        slot: u32,
        exit: u32,
    },
    /// Matches the program up to its `SubEnd` without going back into it, then goes on at `next`.
    Atomic {
        next: u32,
    },
    /// Matches the program up to its `SubEnd` from here, or from `behind` characters before, then goes on at `next`.
    Look {
        behind: Option<u32>,
        negated: bool,
        next: u32,
    },
    SubEnd,
    Match,
}

/// Repeat of one class.
#[derive(Debug, Clone)]
struct Run {
    class: u32,
    min: u32,
    max: u32,
    /// The byte that follows each match of the run, if there is one.
    next: Option<u8>,
    /// True if no shorter run can match: what follows begins with no character of the class.
    exclusive: bool,
}

/// Condition on a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Assertion {
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    /// End of the text, or before a line break at its end.
    TextEndOrNewline,
    WordBoundary,
    NoWordBoundary,
}
