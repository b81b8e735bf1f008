//! Password hashing with argon2id.

use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use firn_model::{Error, Result};

/// Minimum length of a password in characters, as in Elasticsearch.
const CHARS_MIN: usize = 6;
/// Maximum length of a password in bytes: the sender must not control the cost of hashing.
const BYTES_MAX: usize = 1024;
/// Minimum of OWASP's cheat sheet on password storage for argon2id: 19 MiB, two passes, one lane. It takes some 25 ms
/// of one core. The few concurrent checks that the edge allows take some 40 MiB.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const SALT_BYTES: usize = 16;

/// Fails for a password that is too short or too long.
pub(crate) fn check_new(password: &str) -> Result<()> {
    if password.chars().count() < CHARS_MIN {
        return Err(Error::validation(&["passwords must be at least [6] characters long"]));
    }
    if password.len() > BYTES_MAX {
        return Err(Error::validation(&[format!(
            "passwords must be at most [{BYTES_MAX}] bytes long"
        )]));
    }
    Ok(())
}

/// Returns the hash of a password as text (`$argon2id$…`). Slow on purpose.
pub(crate) fn hash(password: &str, salt: [u8; SALT_BYTES]) -> Result<String> {
    let broken = |error: argon2::password_hash::Error| Error::internal(format!("cannot hash a password: {error}"));
    let salt = SaltString::encode_b64(&salt).map_err(broken)?;
    Ok(argon2()?
        .hash_password(password.as_bytes(), &salt)
        .map_err(broken)?
        .to_string())
}

/// Returns whether the password matches `hash`. Slow on purpose.
pub(crate) fn matches(password: &str, hash: &str) -> bool {
    if password.len() > BYTES_MAX {
        return false;
    }
    let (Ok(parsed), Ok(argon2)) = (PasswordHash::new(hash), argon2()) else {
        return false;
    };
    // Memory and passes come from the text: older hashes stay valid if the constants change.
    argon2.verify_password(password.as_bytes(), &parsed).is_ok()
}

fn argon2() -> Result<Argon2<'static>> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None)
        .map_err(|error| Error::internal(format!("cannot hash a password: {error}")))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_stands_for_one_password() {
        let stored = hash("correct horse", [7; 16]).unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(matches("correct horse", &stored));
        assert!(!matches("correct house", &stored));
        assert!(!matches("correct horse", "not a hash"));
        assert_ne!(stored, hash("correct horse", [8; 16]).unwrap());
    }

    #[test]
    fn length_is_bounded_both_ways() {
        assert!(check_new("12345").is_err());
        assert!(check_new("äöüäöü").is_ok());
        assert!(check_new(&"x".repeat(1025)).is_err());
    }
}
