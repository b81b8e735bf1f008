//! Replacement of `%{SYNTAX:SEMANTIC:TYPE}` by the definition of `SYNTAX`.

use std::collections::BTreeMap;

use super::bank;
use super::pattern::PATTERN_BYTES_MAX;

/// Definitions inside each other at most.
const DEPTH_MAX: usize = 50;

/// Replaces all references, and those in what replaces them.
pub(super) fn expand(pattern: &str, definitions: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut open = Vec::new();
    expand_into(pattern, definitions, &mut open, &mut out)?;
    Ok(out)
}

/// `open` holds the names of the definitions around `pattern`.
fn expand_into<'d>(
    pattern: &'d str,
    definitions: &'d BTreeMap<String, String>,
    open: &mut Vec<&'d str>,
    out: &mut String,
) -> Result<(), String> {
    if open.len() > DEPTH_MAX {
        return Err(format!("more than {DEPTH_MAX} patterns inside each other"));
    }
    let mut rest = pattern;
    while let Some(start) = rest.find("%{") {
        out.push_str(&rest[..start]);
        let Some(reference) = Reference::parse(&rest[start..]) else {
            out.push_str("%{");
            rest = &rest[start + 2..];
            continue;
        };
        if open.contains(&reference.syntax) {
            return Err(format!("circular reference in pattern [{}]", reference.syntax));
        }
        let known = definitions
            .get(reference.syntax)
            .map(String::as_str)
            .or_else(|| bank::definition(reference.syntax));
        let Some(definition) = reference.definition.or(known) else {
            return Err(format!("unable to find pattern [{}]", reference.syntax));
        };
        match reference.semantic {
            "" => out.push_str("(?:"),
            semantic => out.extend(["(?<", semantic, ">"]),
        }
        open.push(reference.syntax);
        expand_into(definition, definitions, open, out)?;
        open.pop();
        out.push(')');
        if out.len() > PATTERN_BYTES_MAX {
            return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        rest = &rest[start + reference.length..];
    }
    out.push_str(rest);
    Ok(())
}

/// One reference.
struct Reference<'p> {
    syntax: &'p str,
    /// Name of the field and its type. Empty if nothing is captured.
    semantic: &'p str,
    /// Definition in the reference itself, `%{NAME=definition}`.
    definition: Option<&'p str>,
    length: usize,
}

impl<'p> Reference<'p> {
    /// The reference at the start of `text`. None if it is none, and thereby text.
    fn parse(text: &'p str) -> Option<Self> {
        let inside = text.strip_prefix("%{")?;
        let syntax = prefix(inside, |byte| byte.is_ascii_alphanumeric() || byte == b'_')?;
        let mut rest = &inside[syntax.len()..];
        let mut semantic = "";
        if let Some(after) = rest.strip_prefix(':') {
            semantic = prefix(after, |byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'[' | b']' | b'_' | b':' | b'.' | b'-')
            })?;
            rest = &after[semantic.len()..];
        }
        let mut definition = None;
        if let Some(after) = rest.strip_prefix('=') {
            let text = prefix(after, |byte| !matches!(byte, b'{' | b'}'))?;
            definition = Some(text);
            rest = &after[text.len()..];
        }
        let after = rest.strip_prefix('}')?;
        Some(Self {
            syntax,
            semantic,
            definition,
            length: text.len() - after.len(),
        })
    }
}

/// The bytes at the start of `text` for which `is_part` is true; at least one.
fn prefix(text: &str, is_part: impl Fn(u8) -> bool) -> Option<&str> {
    let length = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    (length > 0).then(|| &text[..length])
}
