//! Parser of scripts: recursive descent over the tokens. Here are the statements.

mod expressions;

use super::ast::{Expr, Kind, Statement, Type};
use super::lexer::{Token, tokens};

/// Parentheses, blocks and the like inside each other. The parser recurses for each.
const NESTING_MAX: usize = 60;

/// Local variables.
const LOCALS_MAX: usize = 256;

/// Statements of Painless that firn does not have.
const MISSING: [&str; 4] = ["do", "try", "throw", "switch"];

/// Offset and text of a mistake.
pub(super) type Mistake = (usize, String);

type Parsed<T> = Result<T, Mistake>;

/// A parsed script.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) statements: Vec<Statement>,
    /// Slots of local variables.
    pub(super) locals: usize,
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    nesting: usize,
    /// Visible local variables: names and slots.
    scope: Vec<(String, usize)>,
    locals: usize,
}

/// Parses a script.
pub(super) fn parse(source: &str) -> Parsed<Body> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        at: 0,
        nesting: 0,
        scope: Vec::new(),
        locals: 0,
    };
    let mut statements = Vec::new();
    while *parser.peek() != Token::End {
        parser.statement(&mut statements)?;
    }
    Ok(Body {
        statements,
        locals: parser.locals,
    })
}

impl Parser {
    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        let at = (self.at + ahead).min(self.tokens.len() - 1);
        &self.tokens[at].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_it = self.is_symbol(symbol);
        self.at += usize::from(is_it);
        is_it
    }

    fn take_name(&mut self, name: &str) -> bool {
        let is_it = matches!(self.peek(), Token::Name(found) if found == name);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("expected ['{symbol}'] but found"))),
        }
    }

    fn name(&mut self) -> Parsed<String> {
        match self.next() {
            Token::Name(name) => Ok(name),
            _ => {
                self.at -= 1;
                Err(self.unexpected("expected a name but found"))
            }
        }
    }

    fn offset(&self) -> usize {
        self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn mistake<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err((self.offset(), reason.into()))
    }

    fn unexpected(&self, what: &str) -> Mistake {
        let found = match self.peek() {
            Token::Int(number) => number.to_string(),
            Token::Float(number) => number.to_string(),
            Token::Text(text) => format!("'{text}'"),
            Token::Regex(text, _) => format!("/{text}/"),
            Token::Name(name) => name.clone(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
            Token::End => "<EOF>".to_owned(),
        };
        (self.offset(), format!("{what} [{found}]."))
    }

    fn missing<T>(&self, what: &str) -> Parsed<T> {
        self.mistake(format!("[{what}] is not implemented by firn"))
    }

    fn make(&self, kind: Kind) -> Parsed<Expr> {
        Expr::new(kind).ok_or_else(|| (self.offset(), "the script nests too deeply".to_owned()))
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting == NESTING_MAX {
            return self.mistake("the script nests too deeply");
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn declare(&mut self, name: String) -> Parsed<usize> {
        if self.scope.iter().any(|(known, _)| *known == name) {
            return self.mistake(format!("variable [{name}] is already defined"));
        }
        if self.locals == LOCALS_MAX {
            return self.mistake(format!("more than {LOCALS_MAX} variables"));
        }
        self.scope.push((name, self.locals));
        self.locals += 1;
        Ok(self.locals - 1)
    }

    // Statements.

    /// Parses a block or one statement, with a scope of its own.
    fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.deeper(|parser| {
            let visible = parser.scope.len();
            let mut statements = Vec::new();
            if parser.take("{") {
                while !parser.take("}") {
                    if *parser.peek() == Token::End {
                        return Err(parser.unexpected("expected ['}'] but found"));
                    }
                    parser.statement(&mut statements)?;
                }
            } else {
                parser.statement(&mut statements)?;
            }
            parser.scope.truncate(visible);
            Ok(statements)
        })
    }

    fn statement(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        if self.take(";") {
            return Ok(());
        }
        if self.is_symbol("{") {
            let block = self.block()?;
            out.extend(block);
            return Ok(());
        }
        if self.take_name("if") {
            self.expect("(")?;
            let condition = self.expression()?;
            self.expect(")")?;
            let then = self.block()?;
            let otherwise = if self.take_name("else") {
                self.block()?
            } else {
                Vec::new()
            };
            out.push(Statement::If(condition, then, otherwise));
            return Ok(());
        }
        if self.take_name("for") {
            return self.for_loop(out);
        }
        if self.take_name("while") {
            self.expect("(")?;
            let condition = self.expression()?;
            self.expect(")")?;
            let body = self.block()?;
            out.push(Statement::Loop(Some(condition), None, body));
            return Ok(());
        }
        let statement = if self.take_name("return") {
            let value = if self.is_symbol(";") || *self.peek() == Token::End {
                None
            } else {
                Some(self.expression()?)
            };
            Statement::Return(value)
        } else if self.take_name("break") {
            Statement::Break
        } else if self.take_name("continue") {
            Statement::Continue
        } else if let Some(word) = MISSING
            .iter()
            .find(|word| matches!(self.peek(), Token::Name(name) if name == *word))
        {
            return self.missing(word);
        } else if self.at_declaration() {
            self.declaration(out)?;
            return self.end_of_statement();
        } else {
            Statement::Expression(self.expression()?)
        };
        out.push(statement);
        self.end_of_statement()
    }

    fn end_of_statement(&mut self) -> Parsed<()> {
        match self.take(";") || self.is_symbol("}") || *self.peek() == Token::End {
            true => Ok(()),
            false => Err(self.unexpected("unexpected token")),
        }
    }

    /// Returns whether a type and the name of a variable follow.
    fn at_declaration(&self) -> bool {
        let is_type = matches!(self.peek(), Token::Name(name) if Type::parse(name).is_some());
        is_type && matches!(self.peek_at(self.type_len()), Token::Name(name) if name != "instanceof")
    }

    /// Number of tokens of a type with its parameters (`Map<String, Object>`) and brackets.
    fn type_len(&self) -> usize {
        let mut len = 1;
        if matches!(self.peek_at(1), Token::Symbol("<")) {
            let mut open = 0;
            loop {
                match self.peek_at(len) {
                    Token::Symbol("<") => open += 1,
                    Token::Symbol(">") => open -= 1,
                    Token::Name(_) | Token::Symbol("," | "?" | ".") => {}
                    _ => return 1,
                }
                len += 1;
                if open == 0 {
                    break;
                }
            }
        }
        len
    }

    fn declaration(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        self.at += self.type_len();
        loop {
            let name = self.name()?;
            let value = if self.take("=") { Some(self.expression()?) } else { None };
            let slot = self.declare(name)?;
            out.push(Statement::Declare(slot, value));
            if !self.take(",") {
                return Ok(());
            }
        }
    }

    fn for_loop(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        self.expect("(")?;
        let visible = self.scope.len();
        let len = self.type_len();
        let is_each = self.at_declaration() && matches!(self.peek_at(len + 1), Token::Symbol(":"));
        let is_in = matches!((self.peek(), self.peek_at(1)), (Token::Name(_), Token::Name(word)) if word == "in");
        if is_each || is_in {
            self.at += if is_each { len } else { 0 };
            let name = self.name()?;
            self.at += 1;
            let list = self.expression()?;
            self.expect(")")?;
            let slot = self.declare(name)?;
            let body = self.block()?;
            out.push(Statement::ForEach(slot, list, body));
        } else {
            if self.at_declaration() {
                self.declaration(out)?;
            } else if !self.is_symbol(";") {
                let first = self.expression()?;
                out.push(Statement::Expression(first));
            }
            self.expect(";")?;
            let condition = if self.is_symbol(";") {
                None
            } else {
                Some(self.expression()?)
            };
            self.expect(";")?;
            let update = if self.is_symbol(")") {
                None
            } else {
                Some(self.expression()?)
            };
            self.expect(")")?;
            let body = self.block()?;
            out.push(Statement::Loop(condition, update, body));
        }
        self.scope.truncate(visible);
        Ok(())
    }
}
