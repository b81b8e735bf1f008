//! Syntax tree of a script.

use super::functions::MathFunction;
use super::moving::MovingFunction;

/// Result of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    /// Integers stay integers: Painless divides them without a fraction.
    Int(i64),
    Float(f64),
}

impl Value {
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) => "long",
            Self::Float(_) => "double",
        }
    }
}

/// Statements, and the number of local variables.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    pub(super) statements: Vec<Statement>,
    pub(super) locals: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    /// Assigns a local variable.
    Set(usize, Node),
    If(Node, Vec<Statement>, Vec<Statement>),
    Return(Node),
}

/// An expression and its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Byte offset in the source.
    pub(super) at: u32,
    /// Depth of the tree, this node included.
    pub(super) depth: u32,
    pub(super) expr: Expr,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    Literal(Value),
    /// `params.x`, or a bare name in a Lucene expression.
    Param(String),
    Local(usize),
    /// `values.length`
    ValuesLength,
    /// `values[i]`
    ValuesAt(Box<Node>),
    Negate(Box<Node>),
    Not(Box<Node>),
    Cast(Cast, Box<Node>),
    Binary(Op, Box<Node>, Box<Node>),
    Ternary(Box<Node>, Box<Node>, Box<Node>),
    /// `a ?: b`
    Elvis(Box<Node>, Box<Node>),
    Math(MathFunction, Vec<Node>),
    /// Function over `values`; the remaining arguments.
    Moving(MovingFunction, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cast {
    Int,
    Float,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Binary operators by symbol, with their precedence.
pub(super) const OPERATORS: &[(&str, Op, u8)] = &[
    ("||", Op::Or, 1),
    ("&&", Op::And, 2),
    ("==", Op::Equal, 3),
    ("===", Op::Equal, 3),
    ("!=", Op::NotEqual, 3),
    ("!==", Op::NotEqual, 3),
    ("<", Op::Less, 4),
    ("<=", Op::LessOrEqual, 4),
    (">", Op::Greater, 4),
    (">=", Op::GreaterOrEqual, 4),
    ("+", Op::Add, 5),
    ("-", Op::Subtract, 5),
    ("*", Op::Multiply, 6),
    ("/", Op::Divide, 6),
    ("%", Op::Remainder, 6),
];

impl Op {
    pub(super) fn symbol(self) -> &'static str {
        OPERATORS
            .iter()
            .find(|(_, op, _)| *op == self)
            .map_or("?", |(symbol, ..)| symbol)
    }
}
