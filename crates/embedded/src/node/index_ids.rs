//! Uuids of new indices.

/// Returns 128 random bits as 22 characters of URL-safe base64 without padding, as Elasticsearch does.
pub(crate) fn fresh_uuid(random: &mut fastrand::Rng) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = random.u128(..);
    (0..22)
        .map(|place| {
            // The last character holds the remaining two bits.
            let six = match place {
                21 => (bits & 0b11) << 4,
                _ => (bits >> (122 - 6 * place)) & 0b11_1111,
            };
            char::from(ALPHABET[six as usize])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_22_characters_and_differ() {
        let mut random = fastrand::Rng::with_seed(7);
        let first = fresh_uuid(&mut random);
        assert_eq!(first.len(), 22);
        assert!(first.ends_with(['A', 'Q', 'g', 'w']), "{first}");
        assert_ne!(first, fresh_uuid(&mut random));
    }
}
