//! Text analysis: the analyzers `standard`, `simple`, `whitespace` and `keyword`.
//!
//! `standard` follows the word boundaries of Unicode (UAX #29) as Lucene's StandardTokenizer does: `example.com`,
//! `don't`, `192.168.0.1` and `foo_bar` are one word each, `a-b` and `a/b` two; each ideograph is a word. Different
//! from Lucene: emoji are no words.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use firn_model::mapping::Analyzer;
use tantivy::tokenizer::{RawTokenizer, TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager};

use crate::schema::{TOKENIZER_SIMPLE, TOKENIZER_STANDARD, TOKENIZER_WHITESPACE};

/// Longer words are cut into pieces of this many characters, as in Elasticsearch.
const TOKEN_CHARS_MAX: usize = 255;

/// Positions between the words of two values of a field, so that no phrase spans them however sloppy
/// (`position_increment_gap`). Tantivy begins a value after the length of the one before.
const VALUE_GAP: usize = 100;

static TOKENIZERS: LazyLock<TokenizerManager> = LazyLock::new(|| {
    let manager = TokenizerManager::new();
    for (name, analyzer) in [
        (TOKENIZER_STANDARD, Analyzer::Standard),
        (TOKENIZER_SIMPLE, Analyzer::Simple),
        (TOKENIZER_WHITESPACE, Analyzer::Whitespace),
    ] {
        manager.register(name, TextAnalyzer::from(WordTokenizer::new(analyzer)));
    }
    manager.register("raw", TextAnalyzer::from(RawTokenizer::default()));
    manager.register("default", TextAnalyzer::from(RawTokenizer::default()));
    manager
});

/// Returns all tokenizers by the names in [`crate::schema`].
pub fn tokenizers() -> TokenizerManager {
    TOKENIZERS.clone()
}

/// A term and its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzedToken {
    /// The term.
    pub text: String,
    /// UTF-16 code units before it, as Elasticsearch counts.
    pub start_offset: u32,
    /// UTF-16 code units up to its end.
    pub end_offset: u32,
    /// Position of the word, from 0.
    pub position: u32,
    /// `<ALPHANUM>`, `<NUM>`, `<IDEOGRAPHIC>` and so on for `standard`, else `word`.
    pub kind: &'static str,
}

/// Analyzes a text: calls `found` for each token in order until it breaks off.
pub fn each_token<B>(
    analyzer: Analyzer,
    text: &str,
    mut found: impl FnMut(AnalyzedToken) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if analyzer == Analyzer::Keyword {
        return found(AnalyzedToken {
            text: text.to_owned(),
            start_offset: 0,
            end_offset: utf16_length(text),
            position: 0,
            kind: "word",
        });
    }
    let mut words = Words::new(analyzer, text);
    let mut term = String::new();
    let (mut byte, mut unit, mut position) = (0, 0, 0);
    while let Some(word) = words.next_word() {
        let start_offset = unit + utf16_length(&text[byte..word.start]);
        let end_offset = start_offset + utf16_length(&text[word.start..word.end]);
        (byte, unit) = (word.end, end_offset);
        write_term(analyzer, &text[word.start..word.end], &mut term);
        found(AnalyzedToken {
            text: term.clone(),
            start_offset,
            end_offset,
            position,
            kind: if analyzer == Analyzer::Standard {
                word.kind
            } else {
                "word"
            },
        })?;
        position += 1;
    }
    ControlFlow::Continue(())
}

/// Returns only the terms, in order.
pub fn terms(analyzer: Analyzer, text: &str) -> Vec<String> {
    if analyzer == Analyzer::Keyword {
        return vec![text.to_owned()];
    }
    let mut words = Words::new(analyzer, text);
    let mut terms = Vec::new();
    while let Some(word) = words.next_word() {
        let mut term = String::new();
        write_term(analyzer, &text[word.start..word.end], &mut term);
        terms.push(term);
    }
    terms
}

fn utf16_length(text: &str) -> u32 {
    if text.is_ascii() {
        text.len() as u32
    } else {
        text.encode_utf16().count() as u32
    }
}

fn write_term(analyzer: Analyzer, word: &str, term: &mut String) {
    term.clear();
    if analyzer == Analyzer::Whitespace {
        term.push_str(word);
    } else if word.is_ascii() {
        term.push_str(word);
        term.make_ascii_lowercase();
    } else {
        term.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// Word-break class of a character; the names are those of UAX #29.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    Other,
    Letter,
    Numeric,
    ExtendNumLet,
    MidLetter,
    MidNum,
    /// Between letters and between digits.
    MidNumLet,
    Extend,
    Katakana,
    Hiragana,
    Ideograph,
}

static ASCII: [Break; 128] = {
    let mut table = [Break::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte as usize] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Break::Letter,
            b'0'..=b'9' => Break::Numeric,
            b'_' => Break::ExtendNumLet,
            b':' => Break::MidLetter,
            b',' | b';' => Break::MidNum,
            b'.' | b'\'' => Break::MidNumLet,
            _ => Break::Other,
        };
        byte += 1;
    }
    table
};

fn break_of(character: char) -> Break {
    match character {
        '\0'..='\x7f' => ASCII[character as usize],
        '\u{b7}' => Break::MidLetter,
        '\u{2018}' | '\u{2019}' | '\u{2024}' | '\u{fe52}' | '\u{ff07}' | '\u{ff0e}' => Break::MidNumLet,
        '\u{203f}' | '\u{2040}' | '\u{2054}' | '\u{ff3f}' => Break::ExtendNumLet,
        '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{ad}' => Break::Extend,
        '\u{3041}'..='\u{309f}' => Break::Hiragana,
        '\u{30a0}'..='\u{30ff}' | '\u{ff66}'..='\u{ff9d}' => Break::Katakana,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => {
            Break::Ideograph
        }
        _ if character.is_alphabetic() => Break::Letter,
        _ if character.is_numeric() => Break::Numeric,
        _ => Break::Other,
    }
}

struct Word {
    start: usize,
    end: usize,
    kind: &'static str,
}

/// Iterates over the words of a text.
struct Words<'a> {
    analyzer: Analyzer,
    text: &'a str,
    position: usize,
}

impl<'a> Words<'a> {
    fn new(analyzer: Analyzer, text: &'a str) -> Self {
        Self {
            analyzer,
            text,
            position: 0,
        }
    }

    #[inline]
    fn at(&self, position: usize) -> Option<(char, usize)> {
        let byte = *self.text.as_bytes().get(position)?;
        if byte < 0x80 {
            return Some((char::from(byte), position + 1));
        }
        let character = self.text[position..].chars().next()?;
        Some((character, position + character.len_utf8()))
    }

    fn next_word(&mut self) -> Option<Word> {
        match self.analyzer {
            Analyzer::Standard | Analyzer::Keyword => self.next_standard(),
            Analyzer::Simple => self.next_run(char::is_alphabetic),
            Analyzer::Whitespace => self.next_run(|character| !character.is_whitespace()),
        }
    }

    /// Returns the next run of characters for which `belongs` is true.
    fn next_run(&mut self, belongs: fn(char) -> bool) -> Option<Word> {
        let start = loop {
            let (character, next) = self.at(self.position)?;
            if belongs(character) {
                break self.position;
            }
            self.position = next;
        };
        let mut count = 0;
        while let Some((character, next)) = self.at(self.position) {
            if !belongs(character) || count == TOKEN_CHARS_MAX {
                break;
            }
            count += 1;
            self.position = next;
        }
        Some(Word {
            start,
            end: self.position,
            kind: "word",
        })
    }

    fn next_standard(&mut self) -> Option<Word> {
        loop {
            let start = self.position;
            let (character, next) = self.at(start)?;
            self.position = next;
            let kind = match break_of(character) {
                Break::Letter | Break::Numeric | Break::ExtendNumLet | Break::Katakana => {
                    match self.rest_of_word(break_of(character)) {
                        Some(kind) => kind,
                        None => continue,
                    }
                }
                Break::Hiragana => "<HIRAGANA>",
                Break::Ideograph => "<IDEOGRAPHIC>",
                _ => continue,
            };
            return Some(Word {
                start,
                end: self.position,
                kind,
            });
        }
    }

    /// Moves to the end of a word that began with a character of class `last`; `None`: the word consists of underscores
    /// only.
    fn rest_of_word(&mut self, mut last: Break) -> Option<&'static str> {
        let (mut letters, mut digits, mut katakana) =
            (last == Break::Letter, last == Break::Numeric, last == Break::Katakana);
        let mut count = 1;
        while let Some((character, next)) = self.at(self.position) {
            let class = break_of(character);
            let end = match (last, class) {
                (_, Break::Extend) => {
                    self.position = next;
                    continue;
                }
                (Break::Letter | Break::Numeric | Break::ExtendNumLet, Break::Letter | Break::Numeric)
                | (Break::Katakana | Break::ExtendNumLet, Break::Katakana)
                | (_, Break::ExtendNumLet) => next,
                (Break::Letter, Break::MidLetter | Break::MidNumLet) => self.after_middle(next, Break::Letter),
                (Break::Numeric, Break::MidNum | Break::MidNumLet) => self.after_middle(next, Break::Numeric),
                _ => self.position,
            };
            if end == self.position {
                break;
            }
            if count >= TOKEN_CHARS_MAX {
                break;
            }
            // One character, or a middle one with the one behind it.
            count += if end == next { 1 } else { 2 };
            if end == next {
                last = class;
                letters |= class == Break::Letter;
                digits |= class == Break::Numeric;
                katakana |= class == Break::Katakana;
            }
            self.position = end;
        }
        match (letters, digits, katakana) {
            (true, ..) => Some("<ALPHANUM>"),
            (_, true, _) => Some("<NUM>"),
            (_, _, true) => Some("<KATAKANA>"),
            _ => None,
        }
    }

    /// Returns the end of the character at `position` if it has class `wanted`, else the current position.
    fn after_middle(&self, position: usize, wanted: Break) -> usize {
        match self.at(position) {
            Some((character, next)) if break_of(character) == wanted => next,
            _ => self.position,
        }
    }
}

/// [`Words`] as a Tantivy tokenizer.
#[derive(Clone)]
struct WordTokenizer {
    analyzer: Analyzer,
    token: Token,
}

impl WordTokenizer {
    fn new(analyzer: Analyzer) -> Self {
        Self {
            analyzer,
            token: Token::default(),
        }
    }
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        self.token.position_length = VALUE_GAP;
        WordStream {
            words: Words::new(self.analyzer, text),
            token: &mut self.token,
        }
    }
}

struct WordStream<'a> {
    words: Words<'a>,
    token: &'a mut Token,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next_word() else {
            return false;
        };
        let text = &self.words.text[word.start..word.end];
        write_term(self.words.analyzer, text, &mut self.token.text);
        self.token.offset_from = word.start;
        self.token.offset_to = word.end;
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(analyzer: Analyzer, text: &str, expected: &[&str]) {
        assert_eq!(terms(analyzer, text), expected, "{text}");
    }

    #[test]
    fn standard() {
        let check = |text, expected| check(Analyzer::Standard, text, expected);
        check(
            "The 2 QUICK Brown-Foxes jumped over the lazy dog's bone.",
            &[
                "the", "2", "quick", "brown", "foxes", "jumped", "over", "the", "lazy", "dog's", "bone",
            ],
        );
        check("", &[]);
        check(" .,;", &[]);
        check("example.com/a_b?c=1", &["example.com", "a_b", "c", "1"]);
        check("192.168.0.1 3,14", &["192.168.0.1", "3,14"]);
        check("a.1 1.a", &["a", "1", "1", "a"]);
        check("end. Start", &["end", "start"]);
        check("___ _a", &["_a"]);
        check("user@host.org", &["user", "host.org"]);
        check("Ärger über Straße", &["ärger", "über", "straße"]);
        check("日本語 カタカナ", &["日", "本", "語", "カタカナ"]);
        check("e\u{301}t", &["e\u{301}t"]);
        check(&"x".repeat(300), &[&"x".repeat(255), &"x".repeat(45)]);
    }

    #[test]
    fn simple_and_whitespace() {
        check(Analyzer::Simple, "The 2 QUICK dog's", &["the", "quick", "dog", "s"]);
        check(
            Analyzer::Whitespace,
            " The 2\tQUICK-dog's ",
            &["The", "2", "QUICK-dog's"],
        );
        check(Analyzer::Keyword, "As it is", &["As it is"]);
    }

    #[test]
    fn offsets_are_utf16() {
        let mut offsets = Vec::new();
        let ended = each_token(Analyzer::Standard, "😀 ab 12", |token| {
            offsets.push((token.start_offset, token.end_offset, token.position, token.kind));
            ControlFlow::<()>::Continue(())
        });
        assert!(ended.is_continue());
        assert_eq!(offsets, [(3, 5, 0, "<ALPHANUM>"), (6, 8, 1, "<NUM>")]);
    }
}
