//! Kinds of damage to a file.

use std::fs;
use std::path::Path;

/// Unit of disk transfers, and the page size of most file systems.
const PAGE_BYTES: usize = 4096;

/// Damage of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// One bit of one byte is flipped.
    Flip { offset: usize, bit: u32 },
    /// The file is truncated.
    Cut { len: usize },
    /// A page is filled with zeros.
    Zero { page: usize },
    /// Two pages are swapped.
    Swap { first: usize, second: usize },
    /// The file is removed.
    Remove,
}

impl Damage {
    /// Draws a damage. Six of ten are flipped bits. Small files have no two pages to swap: they are truncated.
    pub fn draw(random: &mut fastrand::Rng, len: usize) -> Self {
        let pages = len.div_ceil(PAGE_BYTES);
        match random.u32(0..10) {
            _ if len == 0 => Self::Remove,
            6 => Self::Cut {
                len: random.usize(0..len),
            },
            7 => Self::Zero {
                page: random.usize(0..pages),
            },
            8 if pages > 2 => {
                let first = random.usize(0..pages - 2);
                Self::Swap {
                    first,
                    second: random.usize(first + 1..pages - 1),
                }
            }
            8 => Self::Cut {
                len: random.usize(0..len),
            },
            9 => Self::Remove,
            // The first and the last page hold the names and checksums of the rest.
            _ => {
                let offset = match random.u32(0..4) {
                    0 => random.usize(0..len.min(PAGE_BYTES)),
                    1 => random.usize(len.saturating_sub(PAGE_BYTES)..len),
                    _ => random.usize(0..len),
                };
                Self::Flip {
                    offset,
                    bit: random.u32(0..8),
                }
            }
        }
    }

    /// Damages the file; returns whether its bytes changed.
    pub fn apply(self, path: &Path) -> bool {
        if self == Self::Remove {
            fs::remove_file(path).unwrap();
            return true;
        }
        let mut bytes = fs::read(path).unwrap();
        let before = bytes.clone();
        match self {
            Self::Flip { offset, bit } => bytes[offset] ^= 1 << bit,
            Self::Cut { len } => bytes.truncate(len),
            Self::Zero { page } => {
                let end = bytes.len().min((page + 1) * PAGE_BYTES);
                bytes[page * PAGE_BYTES..end].fill(0);
            }
            Self::Swap { first, second } => {
                for byte in 0..PAGE_BYTES {
                    bytes.swap(first * PAGE_BYTES + byte, second * PAGE_BYTES + byte);
                }
            }
            Self::Remove => {}
        }
        if bytes == before {
            return false;
        }
        // In place, as a disk does it: the file keeps its mode.
        fs::write(path, &bytes).unwrap();
        true
    }
}
