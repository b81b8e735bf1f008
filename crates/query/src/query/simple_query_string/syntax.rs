//! Parser of `simple_query_string`, which has no syntax errors: invalid parts are read as text or left out.
//!
//! Follows the description of Lucene's `SimpleQueryParser`: `+` and `|` combine, `-` negates, quotes make phrases, `~N`
//! after a word or phrase sets edits or slop, `*` at a word's end makes a prefix, parentheses group, `\` escapes.
//! Operators join the tree so far with the next part, from left to right; only parentheses have precedence.

use firn_model::{Error, Result};

use super::Flags;
use crate::query::CLAUSES_MAX;
use crate::query::fuzziness::EDITS_MAX;
use crate::query::query_string::{DEPTH_MAX, Node};

/// Parses a text. Fails only at a limit: [`CLAUSES_MAX`] clauses, [`DEPTH_MAX`] levels.
pub(super) fn parse(text: &str, operator_and: bool, flags: Flags) -> Result<Node> {
    // Elasticsearch checks this before it parses, too.
    if text.trim() == "*" {
        return Ok(Node::All);
    }
    let letters: Vec<char> = text.chars().collect();
    let mut parser = Parser {
        closing: closing_parentheses(&letters, flags),
        letters,
        default: match operator_and {
            true => Occurrence::Must,
            false => Occurrence::Should,
        },
        flags,
        clauses: 0,
    };
    let end = parser.letters.len();
    let top = parser.level(0, end, 0)?;
    Ok(top.unwrap_or_else(Node::nothing))
}

#[derive(Clone, Copy, PartialEq)]
enum Occurrence {
    Must,
    Should,
}

struct Parser {
    letters: Vec<char>,
    /// Index of the closing parenthesis for every opening one.
    closing: Vec<Option<usize>>,
    default: Occurrence,
    flags: Flags,
    clauses: usize,
}

/// State of one level of parentheses.
struct Level {
    index: usize,
    end: usize,
    top: Option<Node>,
    /// Depth of `top`.
    depth: usize,
    current: Option<Occurrence>,
    previous: Option<Occurrence>,
    is_negated: bool,
}

impl Parser {
    fn level(&mut self, start: usize, end: usize, depth: usize) -> Result<Option<Node>> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let mut level = Level {
            index: start,
            end,
            top: None,
            depth,
            current: None,
            previous: None,
            is_negated: false,
        };
        while level.index < end {
            let letter = self.letters[level.index];
            match letter {
                '(' if self.flags.precedence() => self.group(&mut level)?,
                ')' if self.flags.precedence() => level.index += 1,
                '"' if self.flags.phrase() => self.phrase(&mut level)?,
                '+' if self.flags.and() => level.operator(Occurrence::Must),
                '|' if self.flags.or() => level.operator(Occurrence::Should),
                '-' if self.flags.not() => {
                    level.is_negated = !level.is_negated;
                    level.index += 1;
                    // The negation applies only to the next part.
                    continue;
                }
                _ if is_space(letter) && self.flags.whitespace() => level.index += 1,
                _ => self.word(&mut level)?,
            }
            level.is_negated = false;
        }
        Ok(level.top)
    }

    fn group(&mut self, level: &mut Level) -> Result<()> {
        let start = level.index + 1;
        match self.closing[level.index].filter(|closing| *closing < level.end) {
            // An unclosed parenthesis is ignored.
            None => level.index = start,
            Some(closing) if closing == start => {
                level.current = None;
                level.index = closing + 1;
            }
            Some(closing) => {
                let inside = self.level(start, closing, level.depth + 1)?;
                self.add(level, inside)?;
                level.index = closing + 1;
            }
        }
        Ok(())
    }

    fn phrase(&mut self, level: &mut Level) -> Result<()> {
        let start = level.index + 1;
        let mut text = String::new();
        let mut index = start;
        let mut is_escaped = false;
        while index < level.end {
            let letter = self.letters[index];
            if !is_escaped && letter == '\\' && self.flags.escape() {
                is_escaped = true;
                index += 1;
                continue;
            }
            if !is_escaped && letter == '"' {
                break;
            }
            is_escaped = false;
            text.push(letter);
            index += 1;
        }
        if index == level.end {
            level.index = start;
            return Ok(());
        }
        level.index = index + 1;
        if index == start {
            level.current = None;
            return Ok(());
        }
        let slop = match self.letters.get(level.index) {
            Some('~') if level.index < level.end && self.flags.near() => self.number(level),
            _ => 0,
        };
        self.add(level, Some(Node::Phrase(text, slop)))
    }

    fn word(&mut self, level: &mut Level) -> Result<()> {
        let mut text = String::new();
        let (mut is_escaped, mut is_prefix, mut is_fuzzy) = (false, false, false);
        while level.index < level.end {
            let letter = self.letters[level.index];
            if !is_escaped {
                if letter == '\\' && self.flags.escape() {
                    (is_escaped, is_prefix) = (true, false);
                    level.index += 1;
                    continue;
                }
                if self.ends_word(letter) {
                    break;
                }
                if !text.is_empty() && letter == '~' && self.flags.fuzzy() {
                    is_fuzzy = true;
                    break;
                }
                is_prefix = !text.is_empty() && letter == '*' && self.flags.prefix();
            } else {
                is_prefix = false;
            }
            is_escaped = false;
            text.push(letter);
            level.index += 1;
        }
        if text.is_empty() {
            return Ok(());
        }
        let node = if is_fuzzy {
            match self.number(level).min(EDITS_MAX.into()) {
                0 => Node::Word(text),
                edits => Node::Fuzzy(text, edits as u8),
            }
        } else if is_prefix {
            text.pop();
            Node::Prefix(text)
        } else {
            Node::Word(text)
        };
        self.add(level, Some(node))
    }

    /// Parses the number after a `~`; 0 if it is not a number.
    fn number(&self, level: &mut Level) -> u32 {
        level.index += 1;
        let start = level.index;
        while level.index < level.end && !self.ends_word(self.letters[level.index]) {
            level.index += 1;
        }
        let digits: String = self.letters[start..level.index].iter().collect();
        digits.parse::<i32>().map_or(0, |number| number.max(0) as u32)
    }

    fn ends_word(&self, letter: char) -> bool {
        match letter {
            '"' => self.flags.phrase(),
            '|' => self.flags.or(),
            '+' => self.flags.and(),
            '(' | ')' => self.flags.precedence(),
            _ => is_space(letter) && self.flags.whitespace(),
        }
    }

    /// Joins the tree so far with a branch.
    fn add(&mut self, level: &mut Level, branch: Option<Node>) -> Result<()> {
        let Some(mut branch) = branch else {
            return Ok(());
        };
        self.clauses += 1;
        if self.clauses > CLAUSES_MAX {
            return Err(Error::illegal_argument(format!(
                "Query contains too many clauses; maxClauseCount is set to {CLAUSES_MAX}"
            )));
        }
        if level.is_negated {
            branch = Node::Bool {
                must: Vec::new(),
                should: vec![Node::All],
                must_not: vec![branch],
            };
        }
        let operation = level.current.take().unwrap_or(self.default);
        let Some(top) = level.top.take() else {
            level.top = Some(branch);
            return Ok(());
        };
        let mut top = match level.previous {
            Some(previous) if previous == operation => top,
            _ => {
                level.depth += 1;
                if level.depth > DEPTH_MAX {
                    return Err(too_deep());
                }
                level.previous = Some(operation);
                operation.bool(top)
            }
        };
        if let Node::Bool { must, should, .. } = &mut top {
            match operation {
                Occurrence::Must => must.push(branch),
                Occurrence::Should => should.push(branch),
            }
        }
        level.top = Some(top);
        Ok(())
    }
}

impl Level {
    /// An operator counts only after an operand and if no other operator precedes it.
    fn operator(&mut self, operation: Occurrence) {
        if self.top.is_some() && self.current.is_none() {
            self.current = Some(operation);
        }
        self.index += 1;
    }
}

impl Occurrence {
    fn bool(self, clause: Node) -> Node {
        let (mut must, mut should) = (Vec::new(), Vec::new());
        match self {
            Self::Must => must.push(clause),
            Self::Should => should.push(clause),
        }
        Node::Bool {
            must,
            should,
            must_not: Vec::new(),
        }
    }
}

/// Finds pairs of unescaped parentheses in one pass: a separate scan for each would take quadratic time.
fn closing_parentheses(letters: &[char], flags: Flags) -> Vec<Option<usize>> {
    let mut closing = vec![None; letters.len()];
    let mut open = Vec::new();
    let mut is_escaped = false;
    for (index, letter) in letters.iter().enumerate() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match letter {
            '\\' if flags.escape() => is_escaped = true,
            '(' => open.push(index),
            ')' => {
                if let Some(start) = open.pop() {
                    closing[start] = Some(index);
                }
            }
            _ => {}
        }
    }
    closing
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

fn too_deep() -> Error {
    Error::illegal_argument(format!(
        "The nested depth of the query exceeds the maximum nested depth of [{DEPTH_MAX}]"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::*;
    use crate::query::query_string::show;

    fn check_with(text: &str, operator_and: bool, flags: &str, expected: &str) {
        let node = parse(text, operator_and, Flags::parse(flags).unwrap()).unwrap();
        assert_eq!(show(&node), expected, "{text}");
    }

    fn check(text: &str, expected: &str) {
        check_with(text, false, "ALL", expected);
    }

    #[test]
    fn words() {
        check("", "{-ALL}");
        check(" \t", "{-ALL}");
        check("*", "ALL");
        check("foo", "<foo>");
        check("foo bar", "{<foo> <bar>}");
        check_with("foo bar", true, "ALL", "{+<foo> +<bar>}");
        check("foo:bar^2", "<foo:bar^2>");
        check("foo*", "prefix<foo>");
        check("f*o", "<f*o>");
        check(r"foo\*", "<foo*>");
        check("foo~1", "fuzzy<foo>~1");
        check("foo~9", "fuzzy<foo>~2");
        check("foo~", "<foo>");
        check("foo~x bar", "{<foo> <bar>}");
    }

    #[test]
    fn operators() {
        check("a + b", "{+<a> +<b>}");
        check("a | b", "{<a> <b>}");
        check("a + b | c", "{{+<a> +<b>} <c>}");
        check("a +| b", "{+<a> +<b>}");
        check("+ a", "<a>");
        check("-a", "{ALL -<a>}");
        check("--a", "<a>");
        check("- a", "<a>");
        check("a -b", "{<a> {ALL -<b>}}");
        check_with("a -b", true, "ALL", "{+<a> +{ALL -<b>}}");
    }

    #[test]
    fn groups() {
        check("a + (b | c)", "{+<a> +{<b> <c>}}");
        check("(a", "<a>");
        check("a)", "<a>");
        check("()", "{-ALL}");
        check("((a)) -(b c)", "{<a> {ALL -{<b> <c>}}}");
        check(r"\(a", "<(a>");
    }

    #[test]
    fn phrases() {
        check("\"a b\"", "\"a b\"~0");
        check("\"a b\"~2 c", "{\"a b\"~2 <c>}");
        check("\"a", "<a>");
        check("\"\" a", "<a>");
        check(r#""a \" b""#, "\"a \" b\"~0");
    }

    #[test]
    fn flags_switch_operators_off() {
        check_with("a + b", false, "NONE", "<a + b>");
        check_with("(a | b)", false, "OR", "{<(a > < b)>}");
        check_with("a* \"b\"", false, "PREFIX|WHITESPACE", "{prefix<a> <\"b\">}");
        check_with("-a~1", false, "FUZZY", "fuzzy<-a>~1");
    }

    #[test]
    fn limits_are_enforced() {
        for text in [
            "(".repeat(200) + "a" + &")".repeat(200),
            "a + b | ".repeat(200),
            "a ".repeat(100_000),
        ] {
            assert!(parse(&text, false, Flags::default()).is_err());
        }
        // Unclosed parentheses are ignored and cost nothing.
        assert_eq!(
            parse(&"(".repeat(1_000_000), false, Flags::default()).unwrap(),
            Node::nothing()
        );
    }
}
