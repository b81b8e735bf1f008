//! Nesting depth of JSON, measured without recursion.

/// Returns whether objects and arrays of a text nest deeper than `levels`. A parser that recurses for each level would
/// overflow the stack on a hostile text. The text need not be JSON; for other texts the result has no meaning.
pub fn nests_deeper(text: &[u8], levels: usize) -> bool {
    // Most texts contain fewer opening brackets.
    if memchr::memchr2_iter(b'[', b'{', text).nth(levels).is_none() {
        return false;
    }
    let (mut depth, mut in_string) = (0usize, false);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_string => {
                bytes.next();
            }
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > levels {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::nests_deeper;

    #[test]
    fn only_what_is_open_at_once_counts() {
        assert!(!nests_deeper(b"[[[1]]]", 3));
        assert!(nests_deeper(b"[[[1]]]", 2));
        assert!(nests_deeper(b"{\"a\":{\"b\":{\"c\":[", 3));
        assert!(!nests_deeper("[[],".repeat(9).replace("[[", "[").as_bytes(), 9));
        assert!(!nests_deeper(br#"{"text":"[[[[\"[[[[","list":[[],[],[],[]]}"#, 3));
        assert!(nests_deeper(br#"{"text":"\\","list":[[[]]]}"#, 3));
    }
}
