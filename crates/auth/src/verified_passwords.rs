//! Cache of verified passwords, so that argon2 does not run with every request.
//!
//! The cache stores keyed digests of name and password, never the password. An entry is valid as long as the user's
//! hash is the one that it was verified against.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// Maximum number of cached sign-ins: some 100 bytes each.
const ENTRIES_MAX: usize = 1024;
/// Lifetime of an entry. Privileges are looked up each time anyway.
const GOOD_FOR: Duration = Duration::from_secs(5 * 60);

/// Digest of name and password, keyed with a secret of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SignIn([u8; 32]);

/// Verified sign-ins.
#[derive(Debug)]
pub(crate) struct Verified {
    pepper: [u8; 32],
    entries: HashMap<SignIn, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The hash that the password was verified against.
    hash: [u8; 32],
    until: Instant,
}

impl Verified {
    pub(crate) fn new(pepper: [u8; 32]) -> Self {
        Self {
            pepper,
            entries: HashMap::new(),
        }
    }

    /// Returns the key of a sign-in.
    pub(crate) fn sign_in(&self, name: &str, password: &str) -> SignIn {
        let digest = Sha256::new()
            .chain_update(self.pepper)
            .chain_update((name.len() as u64).to_le_bytes())
            .chain_update(name)
            .chain_update(password);
        SignIn(digest.finalize().into())
    }

    /// Returns whether the password was recently verified against this hash.
    pub(crate) fn contains(&self, sign_in: &SignIn, hash: &str, now: Instant) -> bool {
        let entry = self.entries.get(sign_in);
        entry.is_some_and(|entry| now < entry.until && entry.hash == digest(hash))
    }

    /// Caches a verified password.
    pub(crate) fn insert(&mut self, sign_in: SignIn, hash: &str, now: Instant) {
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.retain(|_, entry| now < entry.until);
        }
        if self.entries.len() >= ENTRIES_MAX {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.until);
            if let Some(oldest) = oldest.map(|(sign_in, _)| *sign_in) {
                self.entries.remove(&oldest);
            }
        }
        let entry = Entry {
            hash: digest(hash),
            until: now + GOOD_FOR,
        };
        self.entries.insert(sign_in, entry);
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests;
