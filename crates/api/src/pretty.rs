//! `pretty`: the same JSON with line breaks, laid out as Elasticsearch does (`"took" : 1`, `{ }`).
//!
//! Works on tokens, so values stay byte for byte what they were.

/// Lays out one JSON text and ends it with a line feed.
pub(crate) fn pretty(json: &[u8]) -> Vec<u8> {
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

/// Just past the closing quote of the string that starts at `start`.
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
    fn looks_like_elasticsearch() {
        let output = super::pretty(br#"{"a":1,"b":[],"c":{ "d":"x\",{" , "e":[1,2]}}"#);
        let expected = "{\n  \"a\" : 1,\n  \"b\" : [ ],\n  \"c\" : {\n    \"d\" : \"x\\\",{\",\n    \"e\" : [\n      1,\n      2\n    ]\n  }\n}\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }
}
