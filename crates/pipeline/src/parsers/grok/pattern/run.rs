//! Matcher: runs a program over a text, with a stack of what may be tried again.

use memchr::{memchr, memchr2, memrchr};

use super::class::{Property, character_length, decode};
use super::{Assertion, Instruction, Pattern, Run, STEPS_MAX, STEPS_PER_BYTE_MAX};

/// The search took more steps than a pattern may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepsExceeded;

/// Entries of the stack that a thread keeps for the next search.
const RETAINED_FRAMES_MAX: usize = 1 << 12;

/// Memory of a search, to be used again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    slots: Vec<usize>,
    stack: Vec<Frame>,
}

/// What is done when a branch fails.
#[derive(Debug, Clone, Copy)]
enum Frame {
    /// Goes on at another instruction.
    Branch { place: u32, at: usize },
    /// Restores a slot.
    Slot { slot: u32, old: usize },
    /// Tries a shorter run, which ends between `low` and `high`.
    Greedy { place: u32, low: usize, high: usize },
    /// Tries a longer run; `count` characters end at `at`.
    Lazy { place: u32, at: usize, count: u32 },
}

/// Slot of a group that took no part in the match.
const UNSET: usize = usize::MAX;

/// Groups of the last match.
#[derive(Debug)]
pub(crate) struct Match<'s> {
    slots: &'s [usize],
}

impl Match<'_> {
    /// Start and end of a group, bytes. None if it took no part.
    pub(crate) fn group(&self, number: usize) -> Option<(usize, usize)> {
        let (start, end) = (self.slots[2 * number], self.slots[2 * number + 1]);
        (end != UNSET && start <= end).then_some((start, end))
    }
}

impl Pattern {
    /// Finds the leftmost match in `text`.
    pub(crate) fn search<'s>(&self, text: &str, scratch: &'s mut Scratch) -> Result<Option<Match<'s>>, StepsExceeded> {
        let bytes = text.as_bytes();
        if self
            .required
            .as_ref()
            .is_some_and(|required| required.find(bytes).is_none())
        {
            return Ok(None);
        }
        let mut matcher = Matcher {
            pattern: self,
            bytes,
            slots: std::mem::take(&mut scratch.slots),
            stack: std::mem::take(&mut scratch.stack),
            steps: 0,
            steps_max: STEPS_MAX + STEPS_PER_BYTE_MAX * bytes.len() as u64,
        };
        let found = matcher.search();
        scratch.slots = matcher.slots;
        scratch.stack = matcher.stack;
        scratch.stack.clear();
        scratch.stack.shrink_to(RETAINED_FRAMES_MAX);
        Ok(found?.then_some(Match { slots: &scratch.slots }))
    }
}

struct Matcher<'p, 't> {
    pattern: &'p Pattern,
    bytes: &'t [u8],
    slots: Vec<usize>,
    stack: Vec<Frame>,
    steps: u64,
    steps_max: u64,
}

impl Matcher<'_, '_> {
    fn search(&mut self) -> Result<bool, StepsExceeded> {
        self.slots.clear();
        self.slots.resize(self.pattern.slots, UNSET);
        let mut at = 0;
        loop {
            if !self.pattern.anchored {
                at = self.next_start(at)?;
            }
            let first = self.bytes.get(at).copied();
            if self.pattern.start.allows(first) && self.run(0, at)?.is_some() {
                return Ok(true);
            }
            let Some(first) = first.filter(|_| !self.pattern.anchored) else {
                return Ok(false);
            };
            at += character_length(first);
        }
    }

    /// The next place at or after `at` where a match may begin, or the end of the text.
    fn next_start(&mut self, at: usize) -> Result<usize, StepsExceeded> {
        let mut start = at;
        while let Some(&byte) = self.bytes.get(start)
            && !self.pattern.start.allows(Some(byte))
        {
            start += character_length(byte);
        }
        self.step((start - at) >> 4)?;
        Ok(start)
    }

    #[inline]
    fn step(&mut self, count: usize) -> Result<(), StepsExceeded> {
        self.steps += count as u64;
        if self.steps > self.steps_max {
            Err(StepsExceeded)
        } else {
            Ok(())
        }
    }

    /// Runs the program from `place`; returns the end of the match. On failure all slots are as before.
    fn run(&mut self, place: usize, at: usize) -> Result<Option<usize>, StepsExceeded> {
        let pattern = self.pattern;
        let base = self.stack.len();
        let mut place = place;
        let mut at = at;
        loop {
            self.step(1)?;
            let goes_on = match &pattern.instructions[place] {
                Instruction::Match | Instruction::SubEnd => return Ok(Some(at)),
                Instruction::Byte(byte) => match self.bytes.get(at) == Some(byte) {
                    true => Some((place + 1, at + 1)),
                    false => None,
                },
                Instruction::Literal(literal) => match self.bytes[at..].starts_with(literal) {
                    true => Some((place + 1, at + literal.len())),
                    false => None,
                },
                Instruction::Class(class) => {
                    let length = pattern.classes[*class as usize].length_at(&self.bytes[at..]);
                    length.map(|length| (place + 1, at + length))
                }
                Instruction::Greedy(run) => self.greedy(run, place, at)?.map(|at| (place + 1, at)),
                Instruction::Lazy(run) => self.lazy(run, place, at)?.map(|at| (place + 1, at)),
                Instruction::Save(slot) => {
                    self.save(*slot, at);
                    Some((place + 1, at))
                }
                Instruction::Jump(target) => Some((*target as usize, at)),
                Instruction::Split {
                    preferred,
                    other,
                    preferred_first,
                    other_first,
                } => {
                    let byte = self.bytes.get(at).copied();
                    let is_other_possible = pattern.first[*other_first as usize].allows(byte);
                    if !pattern.first[*preferred_first as usize].allows(byte) {
                        is_other_possible.then_some((*other as usize, at))
                    } else {
                        if is_other_possible {
                            self.stack.push(Frame::Branch { place: *other, at });
                        }
                        Some((*preferred as usize, at))
                    }
                }
                Instruction::Assert(assertion) => self.holds(*assertion, at).then_some((place + 1, at)),
                Instruction::LookAtOne { class, behind, negated } => {
                    let start = if *behind { self.back(at, 1) } else { Some(at) };
                    let found = start.is_some_and(|start| {
                        pattern.classes[*class as usize]
                            .length_at(&self.bytes[start..])
                            .is_some()
                    });
                    (found != *negated).then_some((place + 1, at))
                }
                Instruction::ExitIfEmpty { slot, exit } => {
                    let moved = self.slots[*slot as usize] != at;
                    Some((if moved { place + 1 } else { *exit as usize }, at))
                }
                Instruction::Atomic { next } => {
                    let inner = self.stack.len();
                    let end = self.run(place + 1, at)?;
                    self.forget_branches(inner);
                    end.map(|end| (*next as usize, end))
                }
                Instruction::Look { behind, negated, next } => {
                    let inner = self.stack.len();
                    let start = behind.map_or(Some(at), |count| self.back(at, count));
                    let found = match start {
                        Some(start) => self.run(place + 1, start)?.is_some(),
                        None => false,
                    };
                    if *negated {
                        self.unwind(inner);
                    } else {
                        self.forget_branches(inner);
                    }
                    (found != *negated).then_some((*next as usize, at))
                }
            };
            match goes_on {
                Some(next) => (place, at) = next,
                None => match self.backtrack(base)? {
                    Some(next) => (place, at) = next,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Takes up the last branch that is left: the next instruction and its place in the text.
    fn backtrack(&mut self, base: usize) -> Result<Option<(usize, usize)>, StepsExceeded> {
        let pattern = self.pattern;
        while self.stack.len() > base {
            let Some(frame) = self.stack.pop() else { break };
            match frame {
                Frame::Branch { place, at } => return Ok(Some((place as usize, at))),
                Frame::Slot { slot, old } => self.slots[slot as usize] = old,
                Frame::Greedy { place, low, high } => {
                    let Instruction::Greedy(run) = &pattern.instructions[place as usize] else {
                        continue;
                    };
                    if let Some(at) = self.shorter(run, place as usize, low, high)? {
                        return Ok(Some((place as usize + 1, at)));
                    }
                }
                Frame::Lazy { place, at, count } => {
                    let Instruction::Lazy(run) = &pattern.instructions[place as usize] else {
                        continue;
                    };
                    if count < run.max
                        && let Some(length) = pattern.classes[run.class as usize].length_at(&self.bytes[at..])
                        && let Some(at) = self.longer(run, place as usize, at + length, count + 1)?
                    {
                        return Ok(Some((place as usize + 1, at)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn save(&mut self, slot: u32, at: usize) {
        let old = std::mem::replace(&mut self.slots[slot as usize], at);
        self.stack.push(Frame::Slot { slot, old });
    }

    /// Drops the branches above `base`; what restores slots stays.
    fn forget_branches(&mut self, base: usize) {
        let mut end = base;
        for position in base..self.stack.len() {
            if matches!(self.stack[position], Frame::Slot { .. }) {
                self.stack.swap(end, position);
                end += 1;
            }
        }
        self.stack.truncate(end);
    }

    /// Drops all above `base` and restores the slots.
    fn unwind(&mut self, base: usize) {
        while self.stack.len() > base {
            if let Some(Frame::Slot { slot, old }) = self.stack.pop() {
                self.slots[slot as usize] = old;
            }
        }
    }

    /// The longest run from `at`, or a shorter one behind which the next byte stands.
    fn greedy(&mut self, run: &Run, place: usize, at: usize) -> Result<Option<usize>, StepsExceeded> {
        let class = &self.pattern.classes[run.class as usize];
        let mut low = at;
        let mut end = at;
        if run.min == 0 && run.max == u32::MAX && class.is_any_but_newline() {
            end = memchr(b'\n', &self.bytes[at..]).map_or(self.bytes.len(), |length| at + length);
        } else if run.max == u32::MAX && run.min <= 1 {
            if run.min == 1 {
                match class.length_at(&self.bytes[at..]) {
                    Some(length) => low = at + length,
                    None => return Ok(None),
                }
            }
            end = class.run_end(self.bytes, low);
        } else {
            let mut count = 0;
            while count < run.max {
                let Some(length) = class.length_at(&self.bytes[end..]) else {
                    break;
                };
                end += length;
                count += 1;
                if count == run.min {
                    low = end;
                }
            }
            if count < run.min {
                return Ok(None);
            }
        }
        self.step((end - at) >> 4)?;
        if run.exclusive || end == low {
            return Ok(Some(end));
        }
        self.shorter(run, place, low, end)
    }

    /// The longest run that ends between `low` and `high` and that the next byte follows.
    fn shorter(&mut self, run: &Run, place: usize, low: usize, high: usize) -> Result<Option<usize>, StepsExceeded> {
        let mut end = high;
        if let Some(next) = run.next
            && self.bytes.get(high) != Some(&next)
        {
            let found = memrchr(next, &self.bytes[low..high]);
            self.step((high - found.map_or(low, |found| low + found)) >> 4)?;
            match found {
                Some(found) => end = low + found,
                None => return Ok(None),
            }
        }
        if end > low {
            let high = self.back(end, 1).unwrap_or(low);
            self.stack.push(Frame::Greedy {
                place: place as u32,
                low,
                high,
            });
        }
        Ok(Some(end))
    }

    /// The shortest run from `at` that the next byte follows.
    fn lazy(&mut self, run: &Run, place: usize, at: usize) -> Result<Option<usize>, StepsExceeded> {
        let class = &self.pattern.classes[run.class as usize];
        let mut end = at;
        for _ in 0..run.min {
            match class.length_at(&self.bytes[end..]) {
                Some(length) => end += length,
                None => return Ok(None),
            }
        }
        self.step((end - at) >> 4)?;
        self.longer(run, place, end, run.min)
    }

    /// The shortest run that ends at `at`, after `count` characters, or behind it, and that the next byte follows.
    fn longer(&mut self, run: &Run, place: usize, at: usize, count: u32) -> Result<Option<usize>, StepsExceeded> {
        let class = &self.pattern.classes[run.class as usize];
        let mut end = at;
        let mut count = count;
        if let Some(next) = run.next {
            if run.max == u32::MAX && class.is_any_but_newline() {
                match memchr2(next, b'\n', &self.bytes[at..]) {
                    Some(length) if self.bytes[at + length] == next => end = at + length,
                    _ => return Ok(None),
                }
            } else {
                while self.bytes.get(end) != Some(&next) {
                    match class.length_at(&self.bytes[end..]) {
                        Some(length) if count < run.max => end += length,
                        _ => return Ok(None),
                    }
                    count += 1;
                }
            }
            self.step((end - at) >> 4)?;
        }
        self.stack.push(Frame::Lazy {
            place: place as u32,
            at: end,
            count,
        });
        Ok(Some(end))
    }

    /// The place `count` characters before `at`.
    fn back(&self, at: usize, count: u32) -> Option<usize> {
        let mut at = at;
        for _ in 0..count {
            at = at.checked_sub(1)?;
            while self.bytes[at] & 0xc0 == 0x80 {
                at -= 1;
            }
        }
        Some(at)
    }

    fn holds(&self, assertion: Assertion, at: usize) -> bool {
        let bytes = self.bytes;
        match assertion {
            Assertion::TextStart => at == 0,
            Assertion::TextEnd => at == bytes.len(),
            Assertion::TextEndOrNewline => matches!(bytes[at..], [] | [b'\n']),
            Assertion::LineStart => at == 0 || (bytes[at - 1] == b'\n' && at < bytes.len()),
            Assertion::LineEnd => matches!(bytes[at..], [] | [b'\n', ..]),
            Assertion::WordBoundary => self.is_word_before(at) != self.is_word_at(at),
            Assertion::NoWordBoundary => self.is_word_before(at) == self.is_word_at(at),
        }
    }

    fn is_word_before(&self, at: usize) -> bool {
        self.back(at, 1).is_some_and(|before| self.is_word_at(before))
    }

    fn is_word_at(&self, at: usize) -> bool {
        match self.bytes.get(at) {
            None => false,
            Some(byte) if byte.is_ascii() => byte.is_ascii_alphanumeric() || *byte == b'_',
            Some(&byte) => Property::Word.has(decode(&self.bytes[at..at + character_length(byte)])),
        }
    }
}
