//! Content digest of written bytes: objects are named by their content.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

/// Writer that hashes the bytes passing through.
pub(crate) struct Hashing<W> {
    out: W,
    hasher: Sha256,
}

impl<W> Hashing<W> {
    /// Creates a writer that has hashed nothing yet.
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            hasher: Sha256::new(),
        }
    }

    /// Returns the inner writer and the SHA-256 of all bytes, in hex.
    pub(crate) fn finish(self) -> (W, String) {
        let digest = self.hasher.finalize();
        (self.out, digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Derives the page salt of an object from bytes that identify it.
pub(crate) fn salt_of<'a>(identity: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = Sha256::new();
    identity.for_each(|bytes| hasher.update(bytes));
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |salt, byte| salt << 8 | u64::from(*byte))
}
