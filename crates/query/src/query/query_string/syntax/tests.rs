//! Queries with the trees they parse to, written as compact text.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// `+` must, `-` must not, `field(…)` scopes, `^` boosts.
pub(in crate::query) fn show(node: &Node) -> String {
    match node {
        Node::All => "ALL".to_owned(),
        Node::Bool { must, should, must_not } => {
            let marked = |mark: &'static str, nodes: &[Node]| -> Vec<String> {
                nodes.iter().map(|node| format!("{mark}{}", show(node))).collect()
            };
            let clauses = [marked("+", must), marked("", should), marked("-", must_not)];
            format!("{{{}}}", clauses.concat().join(" "))
        }
        Node::Scoped { field, boost, node } => {
            let boost = if *boost == 1.0 {
                String::new()
            } else {
                format!("^{boost}")
            };
            format!("{}({}){boost}", field.as_deref().unwrap_or(""), show(node))
        }
        Node::Word(word) => format!("<{word}>"),
        Node::Phrase(text, slop) => format!("\"{text}\"~{slop}"),
        Node::Wildcard(pattern) => format!("wild<{pattern}>"),
        Node::Prefix(start) => format!("prefix<{start}>"),
        Node::Fuzzy(word, distance) => format!("fuzzy<{word}>~{distance}"),
        Node::Regexp(pattern) => format!("/{pattern}/"),
        Node::Range { lower, upper } => {
            let lower = match lower {
                Some((bound, inclusive)) => format!("{bound}<{}", if *inclusive { "=" } else { "" }),
                None => String::new(),
            };
            let upper = match upper {
                Some((bound, inclusive)) => format!("<{}{bound}", if *inclusive { "=" } else { "" }),
                None => String::new(),
            };
            format!("[{lower}.{upper}]")
        }
        Node::Exists(field) => format!("exists<{field}>"),
    }
}

const DEFAULT: Syntax<'_> = Syntax {
    operator_and: false,
    default_field: None,
    fuzziness: Fuzziness::Auto { low: 3, high: 6 },
    phrase_slop: 0,
    allow_leading_wildcard: true,
};

fn check(text: &str, expected: &str) {
    match parse(text, false) {
        Ok(node) => assert_eq!(show(&node), expected, "{text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

fn check_and(text: &str, expected: &str) {
    assert_eq!(show(&parse(text, true).unwrap()), expected, "{text} with AND");
}

fn check_refused(text: &str, cause: &str) {
    match parse(text, false) {
        Ok(node) => panic!("{text} was read as {}", show(&node)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::QueryShard);
            assert_eq!(error.reason(), format!("Failed to parse query [{text}]"));
            assert_eq!(
                error.cause().unwrap().reason(),
                format!("Cannot parse '{text}': {cause}")
            );
        }
    }
}

#[test]
fn words() {
    check("", "{-ALL}");
    check("  \t\n", "{-ALL}");
    check("foo", "<foo>");
    check("foo-bar+baz@x.de", "<foo-bar+baz@x.de>");
    check("foo bar  baz", "<foo bar baz>");
    check_and("foo bar", "<foo bar>");
    check("10.1.2.3 äöü", "<10.1.2.3 äöü>");
    check("a - b", "<a - b>");
    check("foo\u{3000}bar", "<foo bar>");
}

#[test]
fn operators_set_occurrences() {
    check("a OR b", "{<a> <b>}");
    check("a || b", "{<a> <b>}");
    check("a AND b", "{+<a> +<b>}");
    check("a && b", "{+<a> +<b>}");
    check("a&&b", "<a&&b>");
    check("a AND b OR c", "{+<a> +<b> <c>}");
    check("a OR b AND c", "{+<b> +<c> <a>}");
    check("a b AND c", "{+<b> +<c> <a>}");
    check("a b c AND d", "{+<c> +<d> <a b>}");
    check("a NOT b", "{<a> -<b>}");
    check("a !b", "{<a> -<b>}");
    check("a AND NOT b", "{+<a> -<b>}");
    check("NOT a AND b", "{+<b> -<a>}");
    check("+a -b c", "{+<a> <c> -<b>}");
    check("+a", "{+<a>}");
    check_and("a b:c", "{+<a> +b(<c>)}");
    check_and("a OR b", "{<a> <b>}");
    check_and("a:1 OR b:2 c:3", "{+c(<3>) a(<1>) b(<2>)}");
    check_and("a:1 -b:2", "{+a(<1>) -b(<2>)}");
    check_and("a:1 OR +b:2", "{a(<1>) b(<2>)}");
}

#[test]
fn only_negative_means_all_but() {
    check("NOT a", "{+ALL -<a>}");
    check("-a -b", "{+ALL -<a> -<b>}");
    check("(NOT a) OR b", "{{+ALL -<a>} <b>}");
    check("b AND (-a)", "{+<b> +{+ALL -<a>}}");
}

#[test]
fn parentheses_and_fields() {
    check("(a)", "<a>");
    check("(a OR b) AND c", "{+{<a> <b>} +<c>}");
    check("f:(a OR g:b)^2.5", "f({<a> g(<b>)})^2.5");
    check("(a)^3", "(<a>)^3");
    check("f:a", "f(<a>)");
    check("f : a", "f(<a>)");
    check("f.g\\:h:a^2", "f.g:h(<a>)^2");
    check("f\\ g:a", "f g(<a>)");
    check("*:a", "*(<a>)");
    check("f:a b c", "{f(<a>) <b c>}");
    check("f:(a b)", "f(<a b>)");
}

#[test]
fn everything_and_existence() {
    check("*", "ALL");
    check("*:*", "ALL");
    check("*:*^2", "(ALL)^2");
    check("f:*", "exists<f>");
    check("f:(*)", "exists<f>");
    check("_exists_:a.b", "exists<a.b>");
    check("_exists_:a.*", "exists<a.*>");
    check("_exists_:\"a b\"", "exists<a b>");
    check("NOT _exists_:a", "{+ALL -exists<a>}");
    let syntax = Syntax {
        default_field: Some("f"),
        ..DEFAULT
    };
    assert_eq!(show(&syntax.parse("* -x").unwrap()), "{exists<f> -<x>}");
}

#[test]
fn phrases() {
    check("\"a b\"", "\"a b\"~0");
    check("\"a b\"~2", "\"a b\"~2");
    check("\"a b\"~2^3", "(\"a b\"~2)^3");
    check("\"a b\"^3~2", "(\"a b\"~2)^3");
    check("f:\"a \\\"b\\\" \\\\\"", "f(\"a \"b\" \\\"~0)");
    check("\"\"", "\"\"~0");
    check("\"a b\"~x", "\"a b\"~0");
}

#[test]
fn patterns() {
    check("foo*", "prefix<foo>");
    check("f:f\\*o*", "f(prefix<f*o>)");
    check("foo\\*", "<foo*>");
    check("*foo", "wild<*foo>");
    check("f?o*", "wild<f?o*>");
    check("f\\?o?", "wild<f\\?o?>");
    check("?", "wild<?>");
    check("**", "wild<**>");
    check("/joh?n(ath[oa]n)/", "/joh?n(ath[oa]n)/");
    check("f:/a\\/b/", "f(/a\\/b/)");
}

#[test]
fn fuzzy() {
    check("ab~", "fuzzy<ab>~0");
    check("abcd~", "fuzzy<abcd>~1");
    check("abcdef~", "fuzzy<abcdef>~2");
    check("abcdef~1", "fuzzy<abcdef>~1");
    check("abcdef~7", "fuzzy<abcdef>~2");
    check("abcdef~0.8", "fuzzy<abcdef>~1");
    check("abc~1^2", "(fuzzy<abc>~1)^2");
    check("abc^2~1", "(fuzzy<abc>~1)^2");
}

#[test]
fn ranges() {
    check("f:[1 TO 5]", "f([1<=.<=5])");
    check("f:{1 TO 5}", "f([1<.<5])");
    check("f:[1 TO 5}^2", "f([1<=.<5])^2");
    check("f:[* TO 5]", "f([.<=5])");
    check("f:[2020-01-01||/d TO *}", "f([2020-01-01||/d<=.])");
    check("f:[\"a b\" TO \"*\"]", "f([a b<=.<=*])");
    check("f:[ now-1d TO now ]", "f([now-1d<=.<=now])");
    check("[a TO b]", "[a<=.<=b]");
    check("f:>5", "f([5<.])");
    check("f:>=5", "f([5<=.])");
    check("f:<5", "f([.<5])");
    check("f:<=5", "f([.<=5])");
    check("f:(>=5 AND <10)", "f({+[5<=.] +[.<10]})");
    check(">5", "<>5>");
    check("f:>", "f(<>>)");
    check("f:>=", "f([=<.])");
}

#[test]
fn escapes() {
    check("a\\:b\\ c", "<a:b c>");
    check("\\(1\\+1\\)\\=2", "<(1+1)=2>");
    check("\\u0041\\u00e4", "<Aä>");
    check("\\ud83d\\ude00", "<😀>");
    check("\\AND", "<AND>");
}

#[test]
fn refusals() {
    check_refused("a AND", "Encountered \"<EOF>\" at line 1, column 6.");
    check_refused("AND a", "Encountered \" <AND> \"AND \"\" at line 1, column 1.");
    check_refused("a OR OR b", "Encountered \" <OR> \"OR \"\" at line 1, column 6.");
    check_refused("NOT NOT a", "Encountered \" <NOT> \"NOT \"\" at line 1, column 5.");
    check_refused("(a", "Encountered \"<EOF>\" at line 1, column 3.");
    check_refused("a)", "Encountered \" \")\" \") \"\" at line 1, column 2.");
    check_refused("()", "Encountered \" \")\" \") \"\" at line 1, column 2.");
    check_refused("f:", "Encountered \"<EOF>\" at line 1, column 3.");
    check_refused("a:b:c", "Encountered \" \":\" \": \"\" at line 1, column 4.");
    check_refused("\"a", "Encountered an unterminated quote at line 1, column 1.");
    check_refused(
        "x\n/a",
        "Encountered an unterminated regular expression at line 2, column 1.",
    );
    check_refused("f:[1 5]", "Encountered a range without \"TO\" at line 1, column 6.");
    check_refused("f:[1 TO 5", "Encountered an unterminated range at line 1, column 10.");
    check_refused("a^b", "Encountered no number after \"^\" at line 1, column 3.");
    check_refused("a]", "Encountered \"]\" at line 1, column 2.");
    check_refused("a\\", "Term can not end with escape character. at line 1, column 2.");
    check_refused(
        "\\u00g1",
        "Encountered an escape that is not a character at line 1, column 7.",
    );
    check_refused(
        "a~1.5",
        "Fractional edit distances are not allowed! at line 1, column 6.",
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(DEPTH_MAX), false).is_ok());
    assert!(parse(&nested(DEPTH_MAX + 1), false).is_err());
    assert!(parse(&"(".repeat(1_000_000), false).is_err());
    assert!(parse(&"-(".repeat(1000), false).is_err());
}

#[test]
fn clauses_are_bounded() {
    assert!(parse(&"a ".repeat(CLAUSES_MAX), false).is_ok());
    assert!(parse(&"a ".repeat(CLAUSES_MAX + 1), false).is_err());
    assert!(parse(&"a:b ".repeat(CLAUSES_MAX + 1), false).is_err());
}

#[test]
fn errors_have_positions() {
    let check = |text: &str, start: u64, end: u64, expected: &[&str]| {
        let error = parse(text, false).unwrap_err();
        let details = error.cause().unwrap().details().unwrap();
        assert_eq!(details["position"], json!({"start": start, "end": end}), "{text}");
        assert_eq!(details["expected"], json!(expected), "{text}");
    };
    let clause = ["field name", "value", "(", "NOT"];
    check("a AND", 5, 5, &clause);
    check("a AND OR b", 6, 8, &clause);
    check("(a", 2, 2, &[")"]);
    check("a)", 1, 2, &["AND", "OR", "value", "end of input"]);
    check("😀 \"x", 3, 5, &["\""]);
    check("a:[1 2]", 5, 6, &["TO"]);
    check("a:[1 TO 2", 9, 9, &["]", "}"]);
    check("a^x", 2, 3, &["number"]);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}", operator_and: bool) {
        if let Err(error) = parse(&text, operator_and) {
            let position = &error.cause().unwrap().details().unwrap()["position"];
            let length = text.encode_utf16().count() as u64;
            prop_assert!(position["start"].as_u64() <= position["end"].as_u64());
            prop_assert!(position["end"].as_u64() <= Some(length));
        }
    }

    #[test]
    fn no_text_of_syntax_panics(text in "[ab \\\\:()\\[\\]{}^~*?\"/+!<>=&|u0ANDORTO-]{0,40}", operator_and: bool) {
        if let Ok(node) = parse(&text, operator_and) {
            prop_assert!(node.clause_count() > 0);
        }
    }

    #[test]
    fn escaped_text_is_one_word(text in "[a-zA-Z0-9 :()\\[\\]{}^~*?\"/+!<>=&|-]{1,20}") {
        let escaped: String = text.chars().flat_map(|character| ['\\', character]).collect();
        // `\u` starts a code; every other escaped character means itself.
        let escaped = escaped.replace("\\u", "u");
        prop_assert_eq!(parse(&escaped, false).unwrap(), Node::Word(text));
    }
}

#[test]
fn parameters() {
    let syntax = Syntax {
        fuzziness: Fuzziness::Edits(1),
        phrase_slop: 3,
        allow_leading_wildcard: false,
        ..DEFAULT
    };
    let read = |text: &str| show(&syntax.parse(text).unwrap());
    assert_eq!(read("elephant~ elephant~2"), "{fuzzy<elephant>~1 fuzzy<elephant>~2}");
    assert_eq!(read("\"a b\" \"a b\"~1"), "{\"a b\"~3 \"a b\"~1}");
    assert_eq!(read("a?b *"), "{wild<a?b> ALL}");
    assert!(syntax.parse("?b").is_err());
    assert!(syntax.parse("*b").is_err());
}
