//! Recursive descent parser of scripts.

use firn_model::{Error, Result};

use super::ast::{Cast, Expr, Node, OPERATORS, Op, Program, Statement, Value};
use super::error::script_error;
use super::functions::MathFunction;
use super::lexer::{Token, tokens};
use super::moving::MovingFunction;
use super::{DEPTH_MAX, LENGTH_MAX, Lang};

pub(super) fn parse(source: &str, lang: Lang) -> Result<Program> {
    if source.len() > LENGTH_MAX {
        return Err(Error::illegal_argument(format!(
            "exceeded max allowed inline script size in bytes [{LENGTH_MAX}] with size [{}] for script",
            source.len()
        )));
    }
    let fail = |(at, reason): (u32, String)| script_error("compile error", source, lang, at, reason);
    let tokens = tokens(source).map_err(fail)?;
    let mut parser = Parser {
        tokens,
        next: 0,
        lang,
        locals: Vec::new(),
        depth: 0,
    };
    parser.program().map_err(fail)
}

/// Position and reason of a parse failure.
type Fail = (u32, String);

struct Parser<'a> {
    tokens: Vec<(u32, Token<'a>)>,
    next: usize,
    lang: Lang,
    /// Variables in scope.
    locals: Vec<&'a str>,
    /// Recursion depth of the parser.
    depth: u32,
}

/// Types allowed in declarations of local variables.
const TYPES: &[&str] = &[
    "def", "double", "float", "long", "int", "boolean", "Double", "Long", "Integer", "Number",
];

impl<'a> Parser<'a> {
    fn program(&mut self) -> Result<Program, Fail> {
        if *self.peek() == Token::End {
            return Err((0, "unexpected end of script.".to_owned()));
        }
        let statements = if self.lang == Lang::Expression {
            vec![Statement::Return(self.expression()?)]
        } else {
            let mut statements = Vec::new();
            while *self.peek() != Token::End {
                statements.extend(self.statement()?);
            }
            statements
        };
        match self.peek() {
            Token::End => Ok(Program {
                statements,
                locals: self.locals.len(),
            }),
            _ => Err(self.unexpected()),
        }
    }

    fn peek(&self) -> &Token<'a> {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> u32 {
        let last = self.tokens.len() - 1;
        self.tokens[self.next.min(last)].0
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(own) if *own == symbol);
        self.next += usize::from(found);
        found
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(own) if *own == name);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Fail> {
        if self.takes(symbol) {
            return Ok(());
        }
        let (at, reason) = self.unexpected();
        Err((at, format!("{reason} expected ['{symbol}']")))
    }

    fn unexpected(&self) -> Fail {
        let reason = match self.peek() {
            Token::End => "unexpected end of script.".to_owned(),
            token => format!("unexpected token ['{}'] was encountered.", token.shown()),
        };
        (self.at(), reason)
    }

    /// Parses a statement; `None` for a single semicolon.
    fn statement(&mut self) -> Result<Option<Statement>, Fail> {
        if self.takes(";") {
            return Ok(None);
        }
        if self.takes_name("return") {
            let value = self.expression()?;
            self.end_of_statement()?;
            return Ok(Some(Statement::Return(value)));
        }
        if self.takes_name("if") {
            return self.nested(Self::condition).map(Some);
        }
        if let Some(statement) = self.assignment()? {
            return Ok(Some(statement));
        }
        // As in Painless, an expression without assignment must be the last statement, and is the result.
        let value = self.expression()?;
        self.takes(";");
        match self.peek() {
            Token::End | Token::Symbol("}") => Ok(Some(Statement::Return(value))),
            _ => Err((value.at, "not a statement: result not used".to_owned())),
        }
    }

    fn end_of_statement(&mut self) -> Result<(), Fail> {
        match self.peek() {
            Token::End | Token::Symbol("}") => Ok(()),
            _ => self.expect(";"),
        }
    }

    fn condition(&mut self) -> Result<Statement, Fail> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        let then = self.block()?;
        let otherwise = if self.takes_name("else") {
            self.block()?
        } else {
            Vec::new()
        };
        Ok(Statement::If(condition, then, otherwise))
    }

    fn block(&mut self) -> Result<Vec<Statement>, Fail> {
        if !self.takes("{") {
            return Ok(self.statement()?.into_iter().collect());
        }
        let mut statements = Vec::new();
        while !self.takes("}") {
            if *self.peek() == Token::End {
                return Err(self.unexpected());
            }
            statements.extend(self.statement()?);
        }
        Ok(statements)
    }

    /// Parses `def x = …` or `x = …`.
    fn assignment(&mut self) -> Result<Option<Statement>, Fail> {
        let token = |ahead: usize| self.tokens.get(self.next + ahead).map(|(_, token)| token);
        let declared =
            matches!((token(0), token(1)), (Some(Token::Name(name)), Some(Token::Name(_))) if TYPES.contains(name));
        let place = usize::from(declared);
        let (Some(Token::Name(name)), Some(Token::Symbol("="))) = (token(place), token(place + 1)) else {
            return Ok(None);
        };
        let (name, at) = (*name, self.at());
        let known = self.locals.iter().position(|own| *own == name);
        self.next += place + 2;
        let value = self.expression()?;
        self.end_of_statement()?;
        let slot = match (known, declared) {
            (Some(_), true) => return Err((at, format!("variable [{name}] is already defined"))),
            (None, false) => return Err((at, format!("variable [{name}] is not defined"))),
            (Some(slot), false) => slot,
            (None, true) => {
                self.locals.push(name);
                self.locals.len() - 1
            }
        };
        Ok(Some(Statement::Set(slot, value)))
    }

    /// Counts recursion levels, so that no source overflows the stack.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fail>) -> Result<T, Fail> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err((
                self.at(),
                format!("the script is nested deeper than [{DEPTH_MAX}] levels"),
            ));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn expression(&mut self) -> Result<Node, Fail> {
        self.nested(Self::ternary)
    }

    fn ternary(&mut self) -> Result<Node, Fail> {
        let condition = self.binary(1)?;
        let at = self.at();
        if self.takes("?") {
            let then = self.expression()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            let depth = condition.depth.max(then.depth).max(otherwise.depth);
            let expr = Expr::Ternary(condition.into(), then.into(), otherwise.into());
            return node(at, depth, expr);
        }
        if self.lang == Lang::Painless && self.takes("?:") {
            let otherwise = self.expression()?;
            let depth = condition.depth.max(otherwise.depth);
            return node(at, depth, Expr::Elvis(condition.into(), otherwise.into()));
        }
        Ok(condition)
    }

    /// Parses binary operators with at least the precedence `least`.
    fn binary(&mut self, least: u8) -> Result<Node, Fail> {
        let mut left = self.unary()?;
        while let Some((op, level)) = self.operator().filter(|(_, level)| *level >= least) {
            let at = self.at();
            self.next += 1;
            let right = self.nested(|parser| parser.binary(level + 1))?;
            let depth = left.depth.max(right.depth);
            left = node(at, depth, Expr::Binary(op, left.into(), right.into()))?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Op, u8)> {
        let Token::Symbol(symbol) = self.peek() else {
            return None;
        };
        let found = OPERATORS.iter().find(|(known, ..)| known == symbol);
        found.map(|(_, op, level)| (*op, *level))
    }

    fn unary(&mut self) -> Result<Node, Fail> {
        let at = self.at();
        for symbol in ["-", "+", "!"] {
            if self.takes(symbol) {
                let inner = self.nested(Self::unary)?;
                let depth = inner.depth;
                return match symbol {
                    "-" => node(at, depth, Expr::Negate(inner.into())),
                    "!" => node(at, depth, Expr::Not(inner.into())),
                    _ => Ok(inner),
                };
            }
        }
        match self.cast() {
            Some(cast) => {
                let inner = self.nested(Self::unary)?;
                let depth = inner.depth;
                node(at, depth, Expr::Cast(cast, inner.into()))
            }
            None => self.primary(),
        }
    }

    /// Parses a cast such as `(double)`.
    fn cast(&mut self) -> Option<Cast> {
        let token = |ahead: usize| self.tokens.get(self.next + ahead).map(|(_, token)| token);
        let (Some(Token::Symbol("(")), Some(Token::Name(name)), Some(Token::Symbol(")"))) =
            (token(0), token(1), token(2))
        else {
            return None;
        };
        let cast = match *name {
            "double" | "float" => Cast::Float,
            "long" | "int" => Cast::Int,
            _ => return None,
        };
        self.next += 3;
        Some(cast)
    }

    fn primary(&mut self) -> Result<Node, Fail> {
        let at = self.at();
        match self.take() {
            Token::Number(Value::Int(value)) if self.lang == Lang::Expression => leaf(at, Value::Float(value as f64)),
            Token::Number(value) => leaf(at, value),
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Name("true") => leaf(at, Value::Bool(true)),
            Token::Name("false") => leaf(at, Value::Bool(false)),
            Token::Name("null") => leaf(at, Value::Null),
            Token::Name(name) => self.name(at, name),
            _ => {
                self.next -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn name(&mut self, at: u32, name: &'a str) -> Result<Node, Fail> {
        if self.lang == Lang::Expression {
            if *self.peek() != Token::Symbol("(") {
                return node(at, 0, Expr::Param(name.to_owned()));
            }
            let function =
                MathFunction::lucene(name).ok_or_else(|| (at, format!("Unrecognized function call ({name}).")))?;
            return self.math(at, name, function);
        }
        match name {
            "params" => {
                // Painless reports the position of the dot.
                let at = self.at();
                let key = self.key()?;
                node(at, 0, Expr::Param(key))
            }
            "values" => self.values(at),
            "Math" | "Double" | "Float" | "MovingFunctions" => self.member(at, name),
            _ => match self.locals.iter().position(|own| *own == name) {
                Some(slot) => node(at, 0, Expr::Local(slot)),
                None => Err((at, format!("cannot resolve symbol [{name}]"))),
            },
        }
    }

    /// Parses `.name`, `?.name` or `['name']`.
    fn key(&mut self) -> Result<String, Fail> {
        let at = self.at();
        if self.takes(".") || self.takes("?.") {
            if let Token::Name(key) = self.take() {
                return Ok(key.to_owned());
            }
        } else if self.takes("[")
            && let Token::Text(key) = self.take()
        {
            self.expect("]")?;
            return Ok(key.to_owned());
        }
        Err((at, "[params] must be followed by the name of a parameter".to_owned()))
    }

    fn values(&mut self, at: u32) -> Result<Node, Fail> {
        if self.takes("[") {
            let index = self.expression()?;
            self.expect("]")?;
            let depth = index.depth;
            return node(at, depth, Expr::ValuesAt(index.into()));
        }
        if self.takes(".") && self.takes_name("length") {
            return node(at, 0, Expr::ValuesLength);
        }
        Err((
            at,
            "[values] is an array; use [values.length], [values[i]] or a function of [MovingFunctions]".to_owned(),
        ))
    }

    /// Parses a function call or constant of a class.
    fn member(&mut self, at: u32, class: &str) -> Result<Node, Fail> {
        self.expect(".")?;
        let Token::Name(name) = self.take() else {
            self.next -= 1;
            return Err(self.unexpected());
        };
        if *self.peek() != Token::Symbol("(") {
            let constant = match (class, name) {
                ("Math", "PI") => std::f64::consts::PI,
                ("Math", "E") => std::f64::consts::E,
                ("Double", "NaN") => f64::NAN,
                ("Double", "POSITIVE_INFINITY") => f64::INFINITY,
                ("Double", "NEGATIVE_INFINITY") => f64::NEG_INFINITY,
                ("Double", "MAX_VALUE") => f64::MAX,
                _ => return Err((at, format!("static field [{class}, {name}] not found"))),
            };
            return leaf(at, Value::Float(constant));
        }
        let missing = |count: usize| (at, format!("static method [{class}, {name}/{count}] not found"));
        if class == "MovingFunctions" {
            let function = MovingFunction::find(name).ok_or_else(|| missing(1))?;
            return self.moving(at, name, function);
        }
        let function = MathFunction::painless(class, name).ok_or_else(|| missing(1))?;
        self.math(at, &format!("{class}, {name}"), function)
    }

    fn math(&mut self, at: u32, name: &str, function: MathFunction) -> Result<Node, Fail> {
        self.expect("(")?;
        let arguments = self.arguments()?;
        if arguments.len() != function.arity() {
            return Err((at, format!("static method [{name}/{}] not found", arguments.len())));
        }
        let depth = deepest(&arguments);
        node(at, depth, Expr::Math(function, arguments))
    }

    fn moving(&mut self, at: u32, name: &str, function: MovingFunction) -> Result<Node, Fail> {
        self.expect("(")?;
        if !self.takes_name("values") {
            return Err((
                self.at(),
                format!("the first argument of [MovingFunctions.{name}] must be [values]"),
            ));
        }
        let arguments = if self.takes(",") {
            self.arguments()?
        } else {
            self.expect(")")?;
            Vec::new()
        };
        if arguments.len() != function.arity() {
            let count = arguments.len() + 1;
            return Err((at, format!("static method [MovingFunctions, {name}/{count}] not found")));
        }
        let depth = deepest(&arguments);
        node(at, depth, Expr::Moving(function, arguments))
    }

    /// Parses arguments up to and including the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<Node>, Fail> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.takes(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }
}

fn deepest(nodes: &[Node]) -> u32 {
    nodes.iter().map(|node| node.depth).max().unwrap_or(0)
}

fn leaf(at: u32, value: Value) -> Result<Node, Fail> {
    node(at, 0, Expr::Literal(value))
}

/// Creates a node above a subtree of depth `below`; long chains of operators are deep, too.
fn node(at: u32, below: u32, expr: Expr) -> Result<Node, Fail> {
    let depth = below + 1;
    if depth > DEPTH_MAX {
        return Err((at, format!("the script is nested deeper than [{DEPTH_MAX}] levels")));
    }
    Ok(Node { at, depth, expr })
}
