//! `pretty`: the same JSON with line breaks, formatted as Elasticsearch does (`"took" : 1`, `{ }`).
//!
//! The formatter works on tokens, so values stay byte for byte the same.

/// Limit of growth. A deeply nested text becomes mostly indentation: if the result would exceed this many times its
/// length and a number of bytes, the text stays as it is.
const GROWTH_MAX: usize = 8;
const FREE_BYTES: usize = 64 << 20;

/// Formats one JSON text and ends it with a line feed.
pub(crate) fn pretty(json: &[u8]) -> Vec<u8> {
    within(json, json.len().saturating_mul(GROWTH_MAX).saturating_add(FREE_BYTES))
}

fn within(json: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut output = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut at = 0;
    while at < json.len() {
        let byte = json[at];
        match byte {
            b'"' => {
                let end = string_end(json, at);
                output.extend_from_slice(&json[at..end]);
                at = end;
                continue;
            }
            b'{' | b'[' => {
                output.push(byte);
                let next = skip_space(json, at + 1);
                if let Some(close @ (b'}' | b']')) = json.get(next) {
                    output.push(b' ');
                    output.push(*close);
                    at = next + 1;
                    continue;
                }
                depth += 1;
                line(&mut output, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut output, depth);
                output.push(byte);
            }
            b',' => {
                output.push(b',');
                line(&mut output, depth);
            }
            b':' => output.extend_from_slice(b" : "),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            other => output.push(other),
        }
        at += 1;
        if output.len() > bytes_max {
            return [json, b"\n"].concat();
        }
    }
    output.push(b'\n');
    output
}

fn line(output: &mut Vec<u8>, depth: usize) {
    output.push(b'\n');
    output.resize(output.len() + 2 * depth, b' ');
}

fn skip_space(json: &[u8], mut at: usize) -> usize {
    while matches!(json.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns the position after the closing quote of the string that starts at `start`.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_would_be_indentation_alone_stays_as_it_is() {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let laid_out = super::pretty(deep.as_bytes());
        assert!(laid_out.len() > 400 * 500 * 2);
        assert_eq!(super::within(deep.as_bytes(), 10_000), format!("{deep}\n").into_bytes());
        assert_eq!(super::within(deep.as_bytes(), laid_out.len()), laid_out);
    }

    #[test]
    fn looks_like_elasticsearch() {
        let output = super::pretty(br#"{"a":1,"b":[],"c":{ "d":"x\",{" , "e":[1,2]}}"#);
        let expected = "{\n  \"a\" : 1,\n  \"b\" : [ ],\n  \"c\" : {\n    \"d\" : \"x\\\",{\",\n    \"e\" : [\n      1,\n      2\n    ]\n  }\n}\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }
}
