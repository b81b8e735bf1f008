//! Parser of scripts: recursive descent over the tokens.

use regex::Regex;

use super::ast::{Expr, Function, Kind, Operator, Statement, Type};
use super::lexer::{Token, tokens};
use super::methods::Method;

/// Parentheses, blocks and the like inside each other. The parser recurses for each.
const NESTING_MAX: usize = 60;

/// Local variables.
const LOCALS_MAX: usize = 256;

/// Bytes of one compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

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

    // Expressions, from the weakest operator to the strongest.

    fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            let left = parser.conditional()?;
            let operator = match parser.peek() {
                Token::Symbol("=") => None,
                Token::Symbol("+=") => Some(Operator::Add),
                Token::Symbol("-=") => Some(Operator::Subtract),
                Token::Symbol("*=") => Some(Operator::Multiply),
                Token::Symbol("/=") => Some(Operator::Divide),
                Token::Symbol("%=") => Some(Operator::Remainder),
                _ => return Ok(left),
            };
            parser.check_target(&left)?;
            parser.at += 1;
            let right = parser.expression()?;
            parser.make(Kind::Assign(Box::new(left), operator, Box::new(right), false))
        })
    }

    fn check_target(&self, target: &Expr) -> Parsed<()> {
        match target.kind {
            Kind::Local(_) | Kind::Field(_, _, false) | Kind::Index(_, _) => Ok(()),
            _ => self.mistake("invalid assignment: cannot assign a value to this expression"),
        }
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        let condition = self.or()?;
        if self.take("?:") {
            let otherwise = self.deeper(Self::conditional)?;
            return self.make(Kind::Elvis(Box::new(condition), Box::new(otherwise)));
        }
        if self.take("?") {
            let then = self.expression()?;
            self.expect(":")?;
            let otherwise = self.deeper(Self::conditional)?;
            return self.make(Kind::Conditional(
                Box::new(condition),
                Box::new(then),
                Box::new(otherwise),
            ));
        }
        Ok(condition)
    }

    fn or(&mut self) -> Parsed<Expr> {
        let mut left = self.and()?;
        while self.take("||") {
            let right = self.and()?;
            left = self.make(Kind::Or(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed<Expr> {
        let mut left = self.equality()?;
        while self.take("&&") {
            let right = self.equality()?;
            left = self.make(Kind::And(Box::new(left), Box::new(right)))?;
        }
        if let Token::Symbol(symbol @ ("&" | "|" | "^" | "->" | "::")) = self.peek() {
            return self.missing(symbol);
        }
        Ok(left)
    }

    fn equality(&mut self) -> Parsed<Expr> {
        let mut left = self.comparison()?;
        loop {
            let operator = match self.peek() {
                Token::Symbol("==" | "===") => Operator::Equal,
                Token::Symbol("!=" | "!==") => Operator::NotEqual,
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.comparison()?;
            left = self.make(Kind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn comparison(&mut self) -> Parsed<Expr> {
        let mut left = self.sum()?;
        loop {
            let operator = match self.peek() {
                Token::Symbol("<") => Operator::Less,
                Token::Symbol("<=") => Operator::LessEqual,
                Token::Symbol(">") => Operator::Greater,
                Token::Symbol(">=") => Operator::GreaterEqual,
                Token::Name(name) if name == "instanceof" => {
                    self.at += 1;
                    let of = self.type_name()?;
                    left = self.make(Kind::InstanceOf(Box::new(left), of))?;
                    continue;
                }
                Token::Symbol(symbol @ ("=~" | "==~")) => {
                    let whole = *symbol == "==~";
                    self.at += 1;
                    let regex = self.regex(whole)?;
                    left = self.make(Kind::Matches(Box::new(left), regex))?;
                    continue;
                }
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.sum()?;
            left = self.make(Kind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn type_name(&mut self) -> Parsed<Type> {
        let len = self.type_len();
        match self.peek() {
            Token::Name(name) => match Type::parse(name) {
                Some(of) => {
                    self.at += len;
                    Ok(of)
                }
                None => self.missing(&format!("type {name}")),
            },
            _ => Err(self.unexpected("expected a type but found")),
        }
    }

    fn regex(&mut self, whole: bool) -> Parsed<Regex> {
        let Token::Regex(text, flags) = self.peek().clone() else {
            return self.missing("a regular expression that is no constant");
        };
        let mut pattern = if whole { format!("^(?:{text})$") } else { text };
        for flag in flags.chars() {
            match flag {
                'i' | 'm' | 's' | 'x' | 'u' => pattern = format!("(?{flag}){pattern}"),
                _ => return self.mistake(format!("Unknown flag [{flag}]")),
            }
        }
        let compiled = regex::RegexBuilder::new(&pattern).size_limit(REGEX_BYTES_MAX).build();
        let compiled = compiled.map_err(|error| (self.offset(), format!("Error compiling regex: {error}")))?;
        self.at += 1;
        Ok(compiled)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Token::Symbol("+") => Operator::Add,
                Token::Symbol("-") => Operator::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.product()?;
            left = self.make(Kind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn product(&mut self) -> Parsed<Expr> {
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek() {
                Token::Symbol("*") => Operator::Multiply,
                Token::Symbol("/") => Operator::Divide,
                Token::Symbol("%") => Operator::Remainder,
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.unary()?;
            left = self.make(Kind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            if parser.take("!") {
                let inner = parser.unary()?;
                return parser.make(Kind::Not(Box::new(inner)));
            }
            if parser.take("-") {
                let inner = parser.unary()?;
                return parser.make(Kind::Negate(Box::new(inner)));
            }
            if parser.take("+") {
                return parser.unary();
            }
            for (symbol, operator) in [("++", Operator::Add), ("--", Operator::Subtract)] {
                if parser.take(symbol) {
                    let target = parser.unary()?;
                    parser.check_target(&target)?;
                    let one = parser.make(Kind::Int(1))?;
                    return parser.make(Kind::Assign(Box::new(target), Some(operator), Box::new(one), false));
                }
            }
            let is_cast = parser.is_symbol("(")
                && matches!(parser.peek_at(1), Token::Name(name) if Type::parse(name).is_some())
                && matches!(parser.peek_at(2), Token::Symbol(")" | "<"));
            if is_cast {
                parser.at += 1;
                let to = parser.type_name()?;
                parser.expect(")")?;
                let inner = parser.unary()?;
                return parser.make(Kind::Cast(to, Box::new(inner)));
            }
            parser.postfix()
        })
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut left = self.primary()?;
        loop {
            if self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                left = self.make(Kind::Index(Box::new(left), Box::new(index)))?;
                continue;
            }
            for (symbol, operator) in [("++", Operator::Add), ("--", Operator::Subtract)] {
                if self.take(symbol) {
                    self.check_target(&left)?;
                    let one = self.make(Kind::Int(1))?;
                    return self.make(Kind::Assign(Box::new(left), Some(operator), Box::new(one), true));
                }
            }
            let null_safe = self.is_symbol("?.");
            if !self.take(".") && !self.take("?.") {
                return Ok(left);
            }
            if let Token::Int(index) = *self.peek() {
                self.at += 1;
                let index = self.make(Kind::Int(index))?;
                left = self.make(Kind::Index(Box::new(left), Box::new(index)))?;
                continue;
            }
            let name = self.name()?;
            left = match self.is_symbol("(") {
                true => {
                    let arguments = self.arguments()?;
                    let Some(method) = Method::parse(&name, arguments.len()) else {
                        return self.missing(&format!("method {name}/{}", arguments.len()));
                    };
                    self.make(Kind::Call(Box::new(left), method, arguments, null_safe))?
                }
                false => self.make(Kind::Field(Box::new(left), name, null_safe))?,
            };
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect("(")?;
        self.expressions(")")
    }

    fn expressions(&mut self, end: &str) -> Parsed<Vec<Expr>> {
        let mut expressions = Vec::new();
        while !self.take(end) {
            if !expressions.is_empty() {
                self.expect(",")?;
            }
            expressions.push(self.expression()?);
        }
        Ok(expressions)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let kind = match self.peek().clone() {
            Token::Int(number) => Kind::Int(number),
            Token::Float(number) => Kind::Float(number),
            Token::Text(text) => Kind::Text(text),
            Token::Regex(_, _) => return self.missing("a regular expression that is no operand of =~"),
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => {
                self.at += 1;
                return self.literal();
            }
            Token::Name(name) => return self.named(&name),
            _ => return Err(self.unexpected("unexpected token")),
        };
        self.at += 1;
        self.make(kind)
    }

    /// `[a, b]`, `[a: b]`, `[:]`.
    fn literal(&mut self) -> Parsed<Expr> {
        if self.take(":") {
            self.expect("]")?;
            return self.make(Kind::Map(Vec::new()));
        }
        if self.take("]") {
            return self.make(Kind::List(Vec::new()));
        }
        let first = self.expression()?;
        if !self.take(":") {
            let mut values = vec![first];
            if self.take(",") {
                values.extend(self.expressions("]")?);
            } else {
                self.expect("]")?;
            }
            return self.make(Kind::List(values));
        }
        let mut fields = vec![(first, self.expression()?)];
        while !self.take("]") {
            self.expect(",")?;
            let name = self.expression()?;
            self.expect(":")?;
            fields.push((name, self.expression()?));
        }
        self.make(Kind::Map(fields))
    }

    fn named(&mut self, name: &str) -> Parsed<Expr> {
        let kind = match name {
            "null" => Kind::Null,
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "ctx" => Kind::Ctx,
            "params" => Kind::Params,
            "new" => {
                self.at += 1;
                return self.creation();
            }
            name => {
                let local = self.scope.iter().rev().find(|(known, _)| known == name);
                match local {
                    Some((_, slot)) => Kind::Local(*slot),
                    None => return self.static_call(name),
                }
            }
        };
        self.at += 1;
        self.make(kind)
    }

    /// `new ArrayList()`, `new HashMap(…)`.
    fn creation(&mut self) -> Parsed<Expr> {
        let of = self.type_name()?;
        let empty = match of {
            Type::List => Kind::List(Vec::new()),
            Type::Map => Kind::Map(Vec::new()),
            _ => return self.missing("new of this type"),
        };
        let arguments = self.arguments()?;
        if !arguments.is_empty() {
            return self.missing("new with arguments");
        }
        self.make(empty)
    }

    fn static_call(&mut self, class: &str) -> Parsed<Expr> {
        let (Token::Symbol("."), Token::Name(name)) = (self.peek_at(1).clone(), self.peek_at(2).clone()) else {
            return match self.peek_at(1) {
                Token::Symbol("(") => self.missing(&format!("function {class}")),
                Token::Symbol("->") => self.missing("->"),
                _ => self.mistake(format!("cannot resolve symbol [{class}]")),
            };
        };
        let function = match (class, name.as_str()) {
            ("Integer", "parseInt" | "valueOf") => Function::ParseInt,
            ("Long", "parseLong" | "valueOf") => Function::ParseLong,
            ("Double", "parseDouble" | "valueOf") | ("Float", "parseFloat") => Function::ParseDouble,
            ("Boolean", "parseBoolean" | "valueOf") => Function::ParseBoolean,
            ("String", "valueOf") => Function::TextOf,
            ("Integer" | "Long" | "Double" | "Boolean" | "Objects", "toString") => Function::TextOf,
            ("String", "join") => Function::Join,
            ("Math", "min") => Function::Min,
            ("Math", "max") => Function::Max,
            ("Math", "abs") => Function::Abs,
            ("Math", "floor") => Function::Floor,
            ("Math", "ceil") => Function::Ceil,
            ("Math", "round") => Function::Round,
            _ if class.starts_with(|c: char| c.is_uppercase()) => return self.missing(&format!("{class}.{name}")),
            _ => return self.mistake(format!("cannot resolve symbol [{class}]")),
        };
        self.at += 3;
        let arguments = self.arguments()?;
        let wanted = if matches!(function, Function::Join | Function::Min | Function::Max) {
            2
        } else {
            1
        };
        if arguments.len() != wanted {
            return self.mistake(format!("static method [{class}, {name}/{}] not found", arguments.len()));
        }
        self.make(Kind::Static(function, arguments))
    }
}
