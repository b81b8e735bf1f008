//! Modifiers that encode a text before it is looked for: `base64`, `base64offset`, `wide`, `utf16`, `utf16be`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsigma_ir::IrEncoding;

/// An encoded text, and whether it is looked for anywhere in the value, even if the rule asks for equality.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) texts: Vec<String>,
    pub(super) is_part: bool,
}

/// Encodes a text in the order of the specification: first the width of its characters, then base64.
pub(super) fn encode(text: &str, encodings: &[IrEncoding]) -> Encoded {
    let mut bytes = text.as_bytes().to_vec();
    for encoding in encodings {
        let units = || text.encode_utf16();
        match encoding {
            IrEncoding::Wide => bytes = units().flat_map(u16::to_le_bytes).collect(),
            IrEncoding::Utf16Be => bytes = units().flat_map(u16::to_be_bytes).collect(),
            // With a byte order mark.
            IrEncoding::Utf16 => bytes = [0xfeff].into_iter().chain(units()).flat_map(u16::to_le_bytes).collect(),
            IrEncoding::Base64 | IrEncoding::Base64Offset | IrEncoding::Windash => {}
        }
    }
    if encodings.contains(&IrEncoding::Base64Offset) {
        return Encoded {
            texts: offsets(&bytes),
            is_part: true,
        };
    }
    let encoded = match encodings.contains(&IrEncoding::Base64) {
        true => STANDARD.encode(&bytes),
        false => String::from_utf8_lossy(&bytes).into_owned(),
    };
    Encoded {
        texts: vec![encoded],
        is_part: false,
    }
}

/// Base64 of bytes inside other bytes: for each of the three offsets the characters that the bytes around do not change.
fn offsets(bytes: &[u8]) -> Vec<String> {
    let texts = (0..3usize).filter_map(|offset| {
        let mut padded = vec![0; offset];
        padded.extend_from_slice(bytes);
        let encoded = STANDARD.encode(&padded);
        // Each byte is 4/3 characters; one that shares bits with a neighbour is left out.
        let start = (offset * 8).div_ceil(6);
        let end = padded.len() * 8 / 6;
        encoded
            .get(start..end)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offset_is_found_in_what_it_stands_in() {
        let Encoded { texts, is_part } = encode("http://", &[IrEncoding::Base64Offset]);
        assert!(is_part);
        assert_eq!(texts, ["aHR0cDovL", "h0dHA6Ly", "odHRwOi8v"]);
        for before in 0..6 {
            for after in 0..4 {
                let text = format!("{}http://{}", "x".repeat(before), "y".repeat(after));
                let encoded = STANDARD.encode(text);
                assert!(
                    encoded.contains(&texts[before % 3]),
                    "{before} before, {after} after: {encoded}"
                );
            }
        }
    }

    #[test]
    fn wide_text_is_two_bytes_a_character() {
        let Encoded { texts, .. } = encode("ab", &[IrEncoding::Wide, IrEncoding::Base64]);
        assert_eq!(texts, [STANDARD.encode(b"a\0b\0")]);
        let Encoded { texts, .. } = encode("ab", &[IrEncoding::Utf16, IrEncoding::Base64]);
        assert_eq!(texts, [STANDARD.encode(b"\xff\xfea\0b\0")]);
        let Encoded { texts, .. } = encode("ab", &[IrEncoding::Utf16Be, IrEncoding::Base64]);
        assert_eq!(texts, [STANDARD.encode(b"\0a\0b")]);
    }
}
