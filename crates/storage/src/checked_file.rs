//! Small files with a checksum: one line of text that says what the file is, then the body.
//!
//! ```text
//! MAGIC VERSION CRC LENGTH\n
//! body
//! ```
//!
//! `VERSION` and `LENGTH` (bytes of the body) are decimal, `CRC` is the CRC32C of the body in eight hexadecimal digits.

/// The bytes of a file with this body.
pub fn print(magic: &str, version: u32, body: &[u8]) -> Vec<u8> {
    let head = format!("{magic} {version} {:08x} {}\n", crc32c::crc32c(body), body.len());
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// The body of a file, or what is wrong with the file: another magic or version, another length or checksum.
pub fn parse<'a>(expected_magic: &str, expected_version: u32, bytes: &'a [u8]) -> Result<&'a [u8], String> {
    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no head")?;
    let head = std::str::from_utf8(&bytes[..line]).map_err(|_| "its head is no text")?;
    let body = &bytes[line + 1..];
    let [magic, version, checksum, length] = head.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("its head is [{head}]"));
    };
    if magic != expected_magic {
        return Err(format!("it begins with [{magic}]"));
    }
    if version != expected_version.to_string() {
        return Err(format!(
            "it has version [{version}] and this firn reads [{expected_version}]"
        ));
    }
    if length != body.len().to_string() {
        return Err(format!(
            "its head promises [{length}] bytes and [{}] follow",
            body.len()
        ));
    }
    let found = format!("{:08x}", crc32c::crc32c(body));
    if found != checksum {
        return Err(format!("its checksum is [{found}] and its head says [{checksum}]"));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_found() {
        let bytes = print("firn-test", 3, b"{\"a\":1}");
        assert_eq!(parse("firn-test", 3, &bytes), Ok(&b"{\"a\":1}"[..]));
        assert!(parse("firn-test", 2, &bytes).is_err());
        assert!(parse("firn-other", 3, &bytes).is_err());
        for len in 0..bytes.len() {
            assert!(parse("firn-test", 3, &bytes[..len]).is_err(), "cut to {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse("firn-test", 3, &flipped).is_err(), "bit {bit}");
        }
    }
}
