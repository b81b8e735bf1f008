//! Syntax tree of a script.

use regex::Regex;

use super::methods::Method;

/// Nodes on the longest way from a root to a leaf. The interpreter recurses for each.
pub(super) const DEPTH_MAX: u16 = 200;

/// Statement.
#[derive(Debug)]
pub(super) enum Statement {
    Expression(Expr),
    /// A local variable by its slot.
    Declare(usize, Option<Expr>),
    If(Expr, Vec<Statement>, Vec<Statement>),
    ForEach(usize, Expr, Vec<Statement>),
    /// Condition, update, body; the initialisation stands before it.
    Loop(Option<Expr>, Option<Expr>, Vec<Statement>),
    Return(Option<Expr>),
    Break,
    Continue,
}

/// Expression with its depth.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) kind: Kind,
    pub(super) depth: u16,
}

#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Ctx,
    Params,
    Local(usize),
    /// `a.b`, `a?.b`.
    Field(Box<Expr>, String, bool),
    /// `a[b]`.
    Index(Box<Expr>, Box<Expr>),
    /// `a.b(…)`, `a?.b(…)`.
    Call(Box<Expr>, Method, Vec<Expr>, bool),
    /// `field(a).get(b)`, `$(a, b)`.
    Lookup(Box<Expr>, Box<Expr>),
    /// `Integer.parseInt(…)`.
    Static(Function, Vec<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    /// `a ?: b`.
    Elvis(Box<Expr>, Box<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    InstanceOf(Box<Expr>, Type),
    Cast(Type, Box<Expr>),
    /// `a =~ /b/`, and `a ==~ /b/`, whose expression is anchored.
    Matches(Box<Expr>, Regex),
    /// `a = b`, `a += b`; an increment counts as `a += 1`. The flag says whether the old value is the result.
    Assign(Box<Expr>, Option<Operator>, Box<Expr>, bool),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Static function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    ParseInt,
    ParseLong,
    ParseDouble,
    ParseBoolean,
    TextOf,
    Join,
    Min,
    Max,
    Abs,
    Floor,
    Ceil,
    Round,
}

/// Type in a cast, an `instanceof` or a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Def,
    Text,
    Int,
    Long,
    Float,
    Bool,
    Number,
    List,
    Map,
}

impl Type {
    /// Returns a type by its name in Java.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "def" | "Object" => Self::Def,
            "String" | "CharSequence" => Self::Text,
            "int" | "Integer" | "short" | "Short" | "byte" | "Byte" => Self::Int,
            "long" | "Long" => Self::Long,
            "double" | "Double" | "float" | "Float" => Self::Float,
            "boolean" | "Boolean" => Self::Bool,
            "Number" => Self::Number,
            "List" | "ArrayList" | "Collection" | "Iterable" => Self::List,
            "Map" | "HashMap" | "LinkedHashMap" | "TreeMap" => Self::Map,
            _ => return None,
        })
    }
}

impl Expr {
    /// Creates an expression, or `None` if it is too deep.
    pub(super) fn new(kind: Kind) -> Option<Self> {
        let deepest = |expressions: &[Expr]| expressions.iter().map(|expression| expression.depth).max().unwrap_or(0);
        let below = match &kind {
            Kind::Field(a, _, _) | Kind::Not(a) | Kind::Negate(a) | Kind::InstanceOf(a, _) => a.depth,
            Kind::Cast(_, a) | Kind::Matches(a, _) => a.depth,
            Kind::Index(a, b) | Kind::Binary(_, a, b) | Kind::And(a, b) | Kind::Or(a, b) => a.depth.max(b.depth),
            Kind::Elvis(a, b) | Kind::Lookup(a, b) | Kind::Assign(a, _, b, _) => a.depth.max(b.depth),
            Kind::Conditional(a, b, c) => a.depth.max(b.depth).max(c.depth),
            Kind::Call(a, _, arguments, _) => a.depth.max(deepest(arguments)),
            Kind::Static(_, arguments) | Kind::List(arguments) => deepest(arguments),
            Kind::Map(fields) => fields
                .iter()
                .map(|(name, value)| name.depth.max(value.depth))
                .max()
                .unwrap_or(0),
            _ => 0,
        };
        (below < DEPTH_MAX).then(|| Self { kind, depth: below + 1 })
    }
}
