//! Format of a keystore: [docs/formats/keystore.md](../../../../docs/formats/keystore.md).

use std::collections::BTreeMap;
use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit as _};
use zeroize::Zeroizing;

const MAGIC: &[u8; 8] = b"FIRN-KEY";
const VERSION: u32 = 1;
/// A password is needed.
const FLAG_PASSWORD: u32 = 1;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// Magic, version, flags, three parameters, salt, nonce.
const HEADER_BYTES: usize = 8 + 5 * 4 + SALT_BYTES + NONCE_BYTES;
const CHECKSUM_BYTES: usize = 4;
/// Bounds for the work that a file can cause before it is authenticated.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;

/// Secrets by name, wiped from memory when dropped.
pub(crate) type Entries = BTreeMap<String, Zeroizing<String>>;

/// Random bytes of one write: never used twice.
pub(crate) struct Fresh {
    pub(crate) salt: [u8; SALT_BYTES],
    pub(crate) nonce: [u8; NONCE_BYTES],
}

/// Cost of trying a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Cost {
    /// RFC 9106's second recommendation: 64 MiB, three passes, four lanes. A tenth of a second at each start.
    const OF_PASSWORD: Self = Self {
        memory_kib: 64 << 10,
        passes: 3,
        lanes: 4,
    };
    /// Without a password there is nothing to guess.
    const OF_NOTHING: Self = Self {
        memory_kib: 8,
        passes: 1,
        lanes: 1,
    };

    fn is_bounded(self) -> bool {
        self.memory_kib <= MEMORY_KIB_MAX && self.passes <= PASSES_MAX && self.lanes <= LANES_MAX
    }
}

/// Reason why a keystore cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Another kind of file.
    Foreign,
    /// Written by a newer firn.
    Version(u32),
    /// Truncated or changed.
    Damaged,
    /// It needs a password, and none was provided.
    NoPassword,
    /// The password is wrong, or the file and its checksum were changed.
    WrongPassword,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => formatter.write_str("it is not a keystore"),
            Self::Version(version) => write!(
                formatter,
                "it has version {version}, this firn reads versions up to {VERSION}"
            ),
            Self::Damaged => formatter.write_str("it is damaged (its checksum does not match)"),
            Self::NoPassword => formatter.write_str("it needs a password"),
            Self::WrongPassword => formatter.write_str("the password is wrong"),
        }
    }
}

/// The part that is readable without the password.
pub(crate) struct Header {
    is_protected: bool,
    cost: Cost,
    salt: [u8; SALT_BYTES],
    nonce: [u8; NONCE_BYTES],
}

impl Header {
    /// Whether a password is needed.
    pub(crate) fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// Reads the header, and verifies the checksum of the file.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        if bytes.get(..MAGIC.len()) != Some(MAGIC) {
            return Err(Unreadable::Foreign);
        }
        let mut at = MAGIC.len();
        let mut number = || {
            let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
            at += 4;
            Some(u32::from_le_bytes(bytes))
        };
        // Magic and version have this place in every future version; all else may move.
        let version = number().ok_or(Unreadable::Damaged)?;
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let numbers = [number(), number(), number(), number()];
        let body = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Unreadable::Damaged)?;
        let (body, checksum) = bytes.split_at(body);
        if body.len() < HEADER_BYTES || crc32c::crc32c(body).to_le_bytes() != checksum {
            return Err(Unreadable::Damaged);
        }
        let [Some(flags), Some(memory_kib), Some(passes), Some(lanes)] = numbers else {
            return Err(Unreadable::Damaged);
        };
        let cost = Cost {
            memory_kib,
            passes,
            lanes,
        };
        if flags & !FLAG_PASSWORD != 0 || !cost.is_bounded() {
            return Err(Unreadable::Damaged);
        }
        let (salt, nonce) = bytes[HEADER_BYTES - SALT_BYTES - NONCE_BYTES..HEADER_BYTES].split_at(SALT_BYTES);
        Ok(Self {
            is_protected: flags & FLAG_PASSWORD != 0,
            cost,
            salt: salt.try_into().expect("sixteen bytes"),
            nonce: nonce.try_into().expect("twelve bytes"),
        })
    }

    fn print(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in [
            VERSION,
            if self.is_protected { FLAG_PASSWORD } else { 0 },
            self.cost.memory_kib,
            self.cost.passes,
            self.cost.lanes,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.salt);
        bytes.extend(self.nonce);
        bytes
    }

    fn cipher(&self, password: &str) -> Option<ChaCha20Poly1305> {
        let params = Params::new(self.cost.memory_kib, self.cost.passes, self.cost.lanes, None).ok()?;
        let mut key = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(password.as_bytes(), &self.salt, key.as_mut_slice())
            .ok()?;
        Some(ChaCha20Poly1305::new(key.as_slice().into()))
    }
}

/// Encrypts secrets to the bytes of a file. Without a password they are only obscured, not protected.
pub(crate) fn seal(entries: &Entries, password: &str, fresh: Fresh) -> Vec<u8> {
    let is_protected = !password.is_empty();
    let header = Header {
        is_protected,
        cost: if is_protected {
            Cost::OF_PASSWORD
        } else {
            Cost::OF_NOTHING
        },
        salt: fresh.salt,
        nonce: fresh.nonce,
    };
    let plain: BTreeMap<&str, &str> = entries
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let plain = Zeroizing::new(serde_json::to_vec(&plain).expect("names and text are JSON"));
    let mut bytes = header.print();
    let payload = Payload {
        msg: &plain,
        aad: &bytes,
    };
    let sealed = header
        .cipher(password)
        .expect("the parameters are valid")
        .encrypt(&header.nonce.into(), payload)
        .expect("a keystore is shorter than the cipher's 256 GB");
    bytes.extend(sealed);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Decrypts a file. Slow on purpose if it has a password.
pub(crate) fn open(bytes: &[u8], password: &str) -> Result<Entries, Unreadable> {
    let header = Header::read(bytes)?;
    if header.is_protected && password.is_empty() {
        return Err(Unreadable::NoPassword);
    }
    // A password that is configured for a keystore without one is ignored.
    let password = if header.is_protected { password } else { "" };
    let (aad, sealed) = bytes[..bytes.len() - CHECKSUM_BYTES].split_at(HEADER_BYTES);
    let cipher = header.cipher(password).ok_or(Unreadable::Damaged)?;
    let plain = cipher
        .decrypt(&header.nonce.into(), Payload { msg: sealed, aad })
        .map_err(|_| Unreadable::WrongPassword)?;
    let plain = Zeroizing::new(plain);
    let entries: BTreeMap<String, String> = serde_json::from_slice(&plain).map_err(|_| Unreadable::Damaged)?;
    Ok(entries
        .into_iter()
        .map(|(name, value)| (name, Zeroizing::new(value)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Entries {
        [
            ("bootstrap.password", "pässword"),
            ("s3.client.default.access_key", "AK"),
        ]
        .map(|(name, value)| (name.to_owned(), Zeroizing::new(value.to_owned())))
        .into()
    }

    fn sealed(password: &str) -> Vec<u8> {
        let fresh = Fresh {
            salt: [1; SALT_BYTES],
            nonce: [2; NONCE_BYTES],
        };
        seal(&entries(), password, fresh)
    }

    #[test]
    fn what_is_sealed_opens_with_its_password_alone() {
        for password in ["", "correct horse"] {
            let bytes = sealed(password);
            assert_eq!(open(&bytes, password), Ok(entries()));
            assert_eq!(
                Header::read(&bytes).map(|header| header.is_protected()),
                Ok(!password.is_empty())
            );
            assert!(!bytes.windows(2).any(|pair| pair == b"AK"), "nothing is readable");
        }
        let bytes = sealed("correct horse");
        assert_eq!(open(&bytes, "correct house"), Err(Unreadable::WrongPassword));
        assert_eq!(open(&bytes, ""), Err(Unreadable::NoPassword));
        assert_eq!(open(&sealed(""), "not needed"), Ok(entries()));
    }

    /// The bytes of version 1 stay readable: its first program wrote these.
    #[test]
    fn the_format_stays_what_it_is() {
        const FIRST: &str = "RklSTi1LRVkBAAAAAQAAAAAAAQADAAAABAAAAAEBAQEBAQEBAQEBAQEBAQECAgICAgICAgICAgL8ly3AGxsJQbUsO0u2jtRUXFh+8qpU\
                             6bD58QUPY+vjgX3FsCUNcr733ZMwr7j7rNm9i7jjA9ApFQT+sOFU82rZAu3+PhZpCfr82lnQIGscgR3BEMoLZXfiMKY=";
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(FIRST).unwrap();
        assert_eq!(open(&bytes, "correct horse"), Ok(entries()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let bytes = sealed("");
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length], "").is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(open(&changed, "").is_err(), "changed at {at}");
        }
    }

    #[test]
    fn a_forged_header_costs_nothing() {
        let sealed = sealed("x");
        let forge = |at: usize, number: u32| {
            let mut bytes = sealed.clone();
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
            open(&bytes, "x")
        };
        assert_eq!(forge(8, 2), Err(Unreadable::Version(2)));
        for at in [16, 20, 24] {
            assert_eq!(forge(at, u32::MAX), Err(Unreadable::Damaged));
        }
        // Within the bounds, but other parameters than those of the password.
        assert_eq!(forge(20, 1), Err(Unreadable::WrongPassword));
        assert_eq!(forge(16, 0), Err(Unreadable::Damaged));
    }
}
