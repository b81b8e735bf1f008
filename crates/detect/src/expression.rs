//! Conditions over the fields of an event, without the syntax of a rule language.

use ipnet::IpNet;

use crate::glob::Pattern;

/// Condition over an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// All hold; with nothing inside it holds.
    And(Vec<Expression>),
    /// At least one holds; with nothing inside it does not.
    Or(Vec<Expression>),
    /// At least so many hold.
    AtLeast(usize, Vec<Expression>),
    /// Does not hold.
    Not(Box<Expression>),
    /// A value of a field passes a test.
    Test(FieldTest),
}

/// Test of the values of a field. A list passes if one of its values does.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldTest {
    /// Which values.
    pub field: Field,
    /// What is tested.
    pub test: Test,
}

/// Values of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Those of one field.
    Named(Box<str>),
    /// Texts of all fields: the keywords of Sigma.
    AnyText,
}

/// Test of one value.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// The text matches a pattern. Numbers and booleans are tested as their text.
    Text(Pattern),
    /// The text contains a match of a regular expression, in the syntax of the `regex` crate.
    Regex(String),
    /// The number compares so. Texts that are numbers are tested as such.
    Number(Comparison, f64),
    /// The address is in the network.
    Network(IpNet),
    /// There is a value other than null.
    Exists,
    /// There is no value, or null.
    Null,
    /// The value is this boolean, or its text (`true`, `yes`, `1`).
    Boolean(bool),
    /// The text relates so to a value of another field.
    OtherField {
        /// The other field.
        name: Box<str>,
        /// How the two relate.
        operator: TextOperator,
        /// Case is ignored.
        ignore_case: bool,
    },
    /// A part of the date in UTC equals the number.
    TimePart(TimePart, i64),
}

/// How two texts relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextOperator {
    /// Equal.
    Equals,
    /// The first contains the second.
    Contains,
    /// The first starts with the second.
    StartsWith,
    /// The first ends with the second.
    EndsWith,
}

/// How two numbers relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
}

impl Comparison {
    /// Compares.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// Part of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimePart {
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// Day of the month, from 1.
    Day,
    /// Week of the ISO 8601 year, from 1.
    Week,
    /// 1 to 12.
    Month,
    /// Year.
    Year,
}

impl Expression {
    /// Calls `visit` with each test.
    pub fn visit<'e>(&'e self, visit: &mut impl FnMut(&'e FieldTest)) {
        match self {
            Self::And(inner) | Self::Or(inner) | Self::AtLeast(_, inner) => {
                inner.iter().for_each(|inner| inner.visit(visit));
            }
            Self::Not(inner) => inner.visit(visit),
            Self::Test(test) => visit(test),
        }
    }
}
