//! Literals at the start or the end of a value: found by a hash of the bytes there, without a pass over the value.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::search::Hit;

/// Bytes of a literal that are looked up, at most.
const KEY_BYTES: usize = 8;

/// End of a value at which a literal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    End,
}

/// A literal, and the items that it is of.
#[derive(Debug)]
struct Literal {
    text: Box<str>,
    hits: Box<[Hit]>,
}

/// Literals of one field that stand at one end of a value.
#[derive(Debug)]
pub(super) struct AnchoredLiterals {
    anchor: Anchor,
    /// Lengths of the keys: bit `n - 1` for `n` bytes.
    key_lengths: u8,
    /// Literals from one place to another, by the bytes at their anchor.
    by_key: HashMap<u64, (u32, u32), FixedState>,
    literals: Box<[Literal]>,
}

impl AnchoredLiterals {
    /// Literals are in lower case and not empty.
    pub(super) fn new(anchor: Anchor, literals: HashMap<String, Vec<Hit>>) -> Self {
        let mut keyed: Vec<(u64, String, Vec<Hit>)> = Vec::with_capacity(literals.len());
        let mut key_lengths = 0;
        for (literal, hits) in literals {
            let length = literal.len().min(KEY_BYTES);
            key_lengths |= 1u8 << (length - 1);
            keyed.push((key(anchor.part(literal.as_bytes(), length)), literal, hits));
        }
        keyed.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let mut by_key: HashMap<u64, (u32, u32), FixedState> = HashMap::default();
        for (place, (key, ..)) in (0u32..).zip(&keyed) {
            by_key.entry(*key).or_insert((place, place)).1 = place + 1;
        }
        let literals = keyed.into_iter().map(|(_, text, hits)| Literal {
            text: text.into(),
            hits: hits.into(),
        });
        Self {
            anchor,
            key_lengths,
            by_key,
            literals: literals.collect(),
        }
    }

    /// Calls `found` with the hits of each literal that stands at its end of a value, and whether the literal is the whole value.
    #[inline]
    pub(super) fn search(&self, value: &str, mut found: impl FnMut(&[Hit], bool)) {
        let bytes = value.as_bytes();
        let mut lengths = self.key_lengths;
        while lengths != 0 {
            let length = lengths.trailing_zeros() as usize + 1;
            lengths &= lengths - 1;
            if length > bytes.len() {
                break;
            }
            let Some((from, to)) = self.by_key.get(&key(self.anchor.part(bytes, length))) else {
                continue;
            };
            for literal in &self.literals[*from as usize..*to as usize] {
                let text = literal.text.as_bytes();
                let is_there = match self.anchor {
                    Anchor::Start => bytes.starts_with(text),
                    Anchor::End => bytes.ends_with(text),
                };
                if is_there {
                    found(&literal.hits, text.len() == bytes.len());
                }
            }
        }
    }

    /// Number of literals.
    pub(super) fn len(&self) -> usize {
        self.literals.len()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let literals = self.literals.iter();
        let texts: usize = literals
            .map(|literal| literal.text.len() + size_of_val(&*literal.hits))
            .sum();
        let entry = size_of::<(u64, (u32, u32))>() + 1;
        texts + size_of_val(&*self.literals) + self.by_key.capacity() * entry
    }
}

impl Anchor {
    fn part(self, bytes: &[u8], length: usize) -> &[u8] {
        match self {
            Self::Start => &bytes[..length],
            Self::End => &bytes[bytes.len() - length..],
        }
    }
}

/// Bytes as a number. Texts of different lengths may have the same one.
#[inline]
fn key(part: &[u8]) -> u64 {
    let mut key = [0; KEY_BYTES];
    key[..part.len()].copy_from_slice(part);
    u64::from_le_bytes(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::item::Check;

    #[test]
    fn each_literal_is_found_at_its_end_alone() {
        let seed = 11;
        let mut random = fastrand::Rng::with_seed(seed);
        let text = |random: &mut fastrand::Rng, most: usize| -> String {
            let length = random.usize(1..=most);
            (0..length).map(|_| ['a', 'b', 'é', '\0'][random.usize(0..4)]).collect()
        };
        for anchor in [Anchor::Start, Anchor::End] {
            let texts: Vec<String> = (0..60).map(|_| text(&mut random, 12)).collect();
            let hits = (0u32..).zip(&texts).map(|(item, text)| {
                let hit = Hit {
                    item,
                    check: Check::Equals,
                    needs_match: false,
                };
                (text.clone(), vec![hit])
            });
            let by_text: HashMap<String, Vec<Hit>> = hits.collect();
            let literals = AnchoredLiterals::new(anchor, by_text.clone());
            for _ in 0..2_000 {
                let value = format!("{}{}", text(&mut random, 6), text(&mut random, 8));
                let (mut found, mut whole) = (Vec::new(), Vec::new());
                literals.search(&value, |hits, is_whole| {
                    found.push(hits[0].item);
                    whole.extend(is_whole.then_some(hits[0].item));
                });
                let mut expected: Vec<u32> = by_text
                    .iter()
                    .filter(|(text, _)| match anchor {
                        Anchor::Start => value.starts_with(text.as_str()),
                        Anchor::End => value.ends_with(text.as_str()),
                    })
                    .map(|(_, hits)| hits[0].item)
                    .collect();
                expected.sort_unstable();
                found.sort_unstable();
                // A value with zero bytes is looked up under the key of a shorter one as well.
                found.dedup();
                let equal: Vec<u32> = by_text.get(&value).iter().map(|hits| hits[0].item).collect();
                whole.dedup();
                assert_eq!((found, whole), (expected, equal), "seed {seed}, {anchor:?}, {value:?}");
            }
        }
    }
}
