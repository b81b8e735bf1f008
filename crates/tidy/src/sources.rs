//! Text files of the repository, and the comments and code of Rust files.

use std::path::Path;
use std::{fs, io};

/// Paths from the root that git does not track, and git's own folder.
const SKIPPED: &[&str] = &[
    ".git",
    ".venv",
    "console/artifacts",
    "console/build",
    "console/dist",
    "console/node_modules",
    "data",
    "fuzz/artifacts",
    "fuzz/corpus",
    "fuzz/coverage",
    "fuzz/target",
    "target",
    "tests/clients/js/node_modules",
];

/// Larger files hold test data or events, not sources.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A text file.
pub(crate) struct Source {
    /// Path from the root, with `/` between its parts.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    /// Lines that contain one of `needles`, as `file:line: needle`.
    pub(crate) fn lines_with(&self, needles: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            for needle in needles.iter().filter(|needle| line.contains(**needle)) {
                found.push(format!("{}:{}: {needle}", self.name, number + 1));
            }
        }
        found
    }
}

/// Reads every text file below `root`, sorted by name.
///
/// # Errors
/// A folder or file that cannot be read, or fewer files than the repository has.
pub(crate) fn read(root: &Path) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort_by(|left, right| left.name.cmp(&right.name));
    if found.len() < 100 {
        let message = format!("{} has only {} text files", root.display(), found.len());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    Ok(found)
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<Source>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let is_skipped = SKIPPED.contains(&name.as_str()) || name.ends_with("__pycache__") || name.ends_with(".log");
        if is_skipped || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), &format!("{name}/"), found)?;
            continue;
        }
        if entry.metadata()?.len() > FILE_BYTES_MAX {
            continue;
        }
        // Binary files are no UTF-8, and no rule is about them.
        if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
            found.push(Source { name, text });
        }
    }
    Ok(())
}

/// Returns `text` of a Rust file with comments and string contents replaced by spaces; lines keep their numbers.
///
/// Follows the lexical structure of the Rust reference as far as comments, strings and character literals go.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if at == 0 || !is_word(bytes[at - 1]) || bytes[at - 1] == b'b' => match raw_string_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            b'\'' => match char_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(out).unwrap_or_default()
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Position of `needle` from `at` on, or the end.
fn find(bytes: &[u8], at: usize, needle: &[u8]) -> usize {
    bytes[at..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map_or(bytes.len(), |offset| at + offset)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// End of `r"…"` or `r#"…"#`; `None` if `start` begins no raw string.
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(start + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    Some((find(bytes, start + 2 + hashes, &closing) + closing.len()).min(bytes.len()))
}

/// End of a character literal; `None` for a lifetime.
fn char_end(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start + 1)? {
        b'\\' => Some((find(bytes, start + 3, b"'") + 1).min(bytes.len())),
        first => {
            let width = match first {
                0x00..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            (bytes.get(start + 1 + width) == Some(&b'\'')).then_some(start + 2 + width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn comments_and_strings_become_spaces() {
        let text = "a(\"x // y\"); // comment\nlet c = '\"'; let b: &'a str = r#\"no\"b\"#; /* x /* y */ z */ end\n";
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        assert!(
            !code.contains("comment") && !code.contains('x') && !code.contains("no\"b"),
            "{code}"
        );
        assert!(code.contains("let b: &'a str =") && code.contains("end\n"), "{code}");
    }
}
