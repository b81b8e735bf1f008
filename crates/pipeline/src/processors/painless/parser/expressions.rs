//! Parser of expressions, from the weakest operator to the strongest.

use regex::Regex;

use super::super::ast::{Expr, Function, Kind, Operator, Type};
use super::super::lexer::Token;
use super::super::methods::Method;
use super::{Parsed, Parser};

/// Bytes of one compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl Parser {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
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
            Token::Symbol("$") => {
                self.at += 1;
                self.expect("(")?;
                let path = self.expression()?;
                self.expect(",")?;
                return self.lookup_default(path);
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
            "field" if matches!(self.peek_at(1), Token::Symbol("(")) => {
                self.at += 2;
                let path = self.expression()?;
                self.expect(")")?;
                self.expect(".")?;
                if !self.take_name("get") {
                    return self.missing("a method of field(…) other than get");
                }
                self.expect("(")?;
                return self.lookup_default(path);
            }
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

    /// Reads the default value of a look-up and the bracket behind it.
    fn lookup_default(&mut self, path: Expr) -> Parsed<Expr> {
        let default = self.expression()?;
        self.expect(")")?;
        self.make(Kind::Lookup(Box::new(path), Box::new(default)))
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
