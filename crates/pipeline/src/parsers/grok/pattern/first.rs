//! First bytes of what a place in a program can match.

use super::class::{Class, Wide};
use super::{Instruction, Run};

/// Instructions that are looked at for one place, at most; past them every byte is possible.
const VISITED_MAX: usize = 256;

/// Set of the bytes that a match from some place can begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstBytes {
    bits: [u64; 4],
    /// True if the match may go on without a byte.
    passes: bool,
}

impl FirstBytes {
    /// True if a match may begin with `byte`, or at the end of the text.
    #[inline]
    pub(super) fn allows(&self, byte: Option<u8>) -> bool {
        self.passes || byte.is_some_and(|byte| self.has(byte))
    }

    #[inline]
    fn has(&self, byte: u8) -> bool {
        self.bits[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// The byte that every match begins with.
    pub(super) fn single(&self) -> Option<u8> {
        let count: u32 = self.bits.iter().map(|bits| bits.count_ones()).sum();
        if self.passes || count != 1 {
            return None;
        }
        (0..=u8::MAX).find(|&byte| self.has(byte))
    }

    /// True if no match begins with a character of the class.
    pub(super) fn excludes(&self, class: &Class) -> bool {
        let ascii = u128::from(self.bits[0]) | u128::from(self.bits[1]) << 64;
        let has_wide = self.bits[2] != 0 || self.bits[3] != 0;
        !self.passes && ascii & class.ascii == 0 && !(has_wide && class.wide != Wide::None)
    }

    fn add(&mut self, byte: u8) {
        self.bits[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn add_class(&mut self, class: &Class) {
        self.bits[0] |= class.ascii as u64;
        self.bits[1] |= (class.ascii >> 64) as u64;
        if class.wide != Wide::None {
            (self.bits[2], self.bits[3]) = (u64::MAX, u64::MAX);
        }
    }
}

/// First bytes of what the program matches from `start`.
pub(super) fn first_bytes(program: &[Instruction], classes: &[Class], start: usize) -> FirstBytes {
    let mut first = FirstBytes {
        bits: [0; 4],
        passes: false,
    };
    let mut visited = Vec::new();
    let mut pending = vec![start];
    while let Some(place) = pending.pop() {
        if visited.contains(&place) {
            continue;
        }
        visited.push(place);
        if visited.len() > VISITED_MAX {
            first.passes = true;
            break;
        }
        match &program[place] {
            Instruction::Literal(bytes) => first.add(bytes[0]),
            Instruction::Byte(byte) => first.add(*byte),
            Instruction::Class(class) => first.add_class(&classes[*class as usize]),
            Instruction::Greedy(Run { class, min, .. }) | Instruction::Lazy(Run { class, min, .. }) => {
                first.add_class(&classes[*class as usize]);
                if *min == 0 {
                    pending.push(place + 1);
                }
            }
            Instruction::Assert(_)
            | Instruction::LookAtOne { .. }
            | Instruction::Save(_)
            | Instruction::Atomic { .. } => pending.push(place + 1),
            Instruction::ExitIfEmpty { exit, .. } => pending.extend([place + 1, *exit as usize]),
            Instruction::Split { preferred, other, .. } => pending.extend([*preferred as usize, *other as usize]),
            Instruction::Jump(target) => pending.push(*target as usize),
            Instruction::Look { next, .. } => pending.push(*next as usize),
            Instruction::SubEnd | Instruction::Match => first.passes = true,
        }
    }
    first
}
