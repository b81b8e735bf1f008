//! Codec for small checksummed files: one header line, then the body.
//!
//! ```text
//! MAGIC VERSION CRC LENGTH\n
//! body
//! ```
//!
//! `VERSION` and `LENGTH` (bytes of the body) are decimal, `CRC` is the CRC32C of the body in eight hexadecimal digits.

/// Encodes `body` as a complete file with its header line.
pub fn print(magic: &str, version: u32, body: &[u8]) -> Vec<u8> {
    let head = format!("{magic} {version} {:08x} {}\n", crc32c::crc32c(body), body.len());
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Decodes a file and returns its body. Returns the defect if magic, version, length or checksum differ.
pub fn parse<'a>(expected_magic: &str, expected_version: u32, bytes: &'a [u8]) -> Result<&'a [u8], String> {
    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no header")?;
    let head = std::str::from_utf8(&bytes[..line]).map_err(|_| "its header line is not UTF-8")?;
    let body = &bytes[line + 1..];
    let [magic, version, checksum, length] = head.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("its header line [{head}] is malformed"));
    };
    if magic != expected_magic {
        return Err(format!("its magic is [{magic}], not [{expected_magic}]"));
    }
    if version != expected_version.to_string() {
        return Err(format!(
            "its format version is [{version}], this firn reads [{expected_version}]"
        ));
    }
    if length != body.len().to_string() {
        return Err(format!(
            "its header line declares [{length}] bytes, but [{}] follow",
            body.len()
        ));
    }
    let found = format!("{:08x}", crc32c::crc32c(body));
    if found != checksum {
        return Err(format!("its checksum is [{found}], its header line says [{checksum}]"));
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
