//! Patterns that take fields out of a text: literals with `%{name}` between them.

/// Longest pattern in pieces.
const PIECES_MAX: usize = 64;

/// Pattern such as `Accepted %{method} for %{user} from %{ip} port %{port} %{?}`.
///
/// A field takes the text up to the next literal, and the last one the rest. A name that begins with `?` takes text that is
/// not stored. Two fields next to each other are refused.
#[derive(Debug)]
pub(crate) struct Pattern {
    prefix: Box<str>,
    /// Names, and the literals after them.
    pieces: Vec<(Box<str>, Box<str>)>,
}

impl Pattern {
    /// Parses a pattern. Fails with what is wrong.
    pub(crate) fn parse(pattern: &str) -> Result<Self, String> {
        let mut parts = pattern.split("%{");
        let prefix = parts.next().unwrap_or_default();
        let mut pieces: Vec<(Box<str>, Box<str>)> = Vec::new();
        for part in parts {
            let Some((name, literal)) = part.split_once('}') else {
                return Err(format!("pattern [{pattern}]: a closing brace is missing"));
            };
            if pieces.last().is_some_and(|(_, literal)| literal.is_empty()) {
                return Err(format!("pattern [{pattern}]: there is nothing between two fields"));
            }
            pieces.push((name.into(), literal.into()));
        }
        if pieces.is_empty() || pieces.len() > PIECES_MAX {
            return Err(format!("pattern [{pattern}]: 1 to {PIECES_MAX} fields are needed"));
        }
        Ok(Self {
            prefix: prefix.into(),
            pieces,
        })
    }

    /// Calls `each` with name and range of each field if the whole text matches.
    pub(crate) fn matches<'p, 't>(&'p self, text: &'t str, mut each: impl FnMut(&'p str, &'t str)) -> bool {
        let Some(rest) = text.strip_prefix(&*self.prefix) else {
            return false;
        };
        // Walked twice, so that no field is stored of a text that does not match; the patterns are short.
        self.walk(rest, &mut |_, _| ()) && self.walk(rest, &mut each)
    }

    fn walk<'p, 't>(&'p self, mut rest: &'t str, each: &mut impl FnMut(&'p str, &'t str)) -> bool {
        for (name, literal) in &self.pieces {
            let end = match literal.is_empty() {
                true => rest.len(),
                false => match memchr::memmem::find(rest.as_bytes(), literal.as_bytes()) {
                    Some(end) => end,
                    None => return false,
                },
            };
            if !name.is_empty() && !name.starts_with('?') {
                each(name, &rest[..end]);
            }
            rest = &rest[end + literal.len()..];
        }
        let ends_with_literal = self.pieces.last().is_some_and(|(_, literal)| !literal.is_empty());
        !ends_with_literal || rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expect: Option<&[(&str, &str)]>) {
        let mut fields = Vec::new();
        let pattern = Pattern::parse(pattern).unwrap();
        let matches = pattern.matches(text, |name, value| fields.push((name.to_owned(), value)));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(matches.then_some(&*fields), expect, "{text}");
    }

    #[test]
    fn takes_fields() {
        check(
            "for %{user} from %{ip}",
            "for bob from 1.2.3.4",
            Some(&[("user", "bob"), ("ip", "1.2.3.4")]),
        );
        check(
            "for %{user} from %{ip}",
            "for  from x",
            Some(&[("user", ""), ("ip", "x")]),
        );
        check("(%{a})", "(b)", Some(&[("a", "b")]));
        check("(%{a})", "(b) c", None);
        check("(%{a}) %{?rest}", "(b) c", Some(&[("a", "b")]));
        check("for %{user}", "by bob", None);
    }

    #[test]
    fn refuses() {
        for pattern in ["", "abc", "%{a", "%{a}%{b}"] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
