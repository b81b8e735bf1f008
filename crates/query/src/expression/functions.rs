//! Functions of scripts: `Math.*` of Painless and the functions of Lucene expressions.

use super::ast::Value;

/// A numeric function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MathFunction {
    Abs,
    Acos,
    Asin,
    Atan,
    Atan2,
    Cbrt,
    Ceil,
    Cos,
    Cosh,
    Exp,
    Expm1,
    Floor,
    Hypot,
    IsInfinite,
    IsNan,
    Log,
    Log10,
    Log1p,
    Log2,
    Max,
    Min,
    Pow,
    Rint,
    Round,
    Signum,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
    ToDegrees,
    ToRadians,
}

use MathFunction::*;

/// Java's names.
const MATH: &[(&str, MathFunction)] = &[
    ("abs", Abs),
    ("acos", Acos),
    ("asin", Asin),
    ("atan", Atan),
    ("atan2", Atan2),
    ("cbrt", Cbrt),
    ("ceil", Ceil),
    ("cos", Cos),
    ("cosh", Cosh),
    ("exp", Exp),
    ("expm1", Expm1),
    ("floor", Floor),
    ("hypot", Hypot),
    ("log", Log),
    ("log10", Log10),
    ("log1p", Log1p),
    ("max", Max),
    ("min", Min),
    ("pow", Pow),
    ("rint", Rint),
    ("round", Round),
    ("signum", Signum),
    ("sin", Sin),
    ("sinh", Sinh),
    ("sqrt", Sqrt),
    ("tan", Tan),
    ("tanh", Tanh),
    ("toDegrees", ToDegrees),
    ("toRadians", ToRadians),
];

/// Lucene's names.
const LUCENE: &[(&str, MathFunction)] = &[
    ("abs", Abs),
    ("acos", Acos),
    ("asin", Asin),
    ("atan", Atan),
    ("atan2", Atan2),
    ("ceil", Ceil),
    ("cos", Cos),
    ("cosh", Cosh),
    ("exp", Exp),
    ("floor", Floor),
    ("ln", Log),
    ("log10", Log10),
    ("log2", Log2),
    ("max", Max),
    ("min", Min),
    ("pow", Pow),
    ("sin", Sin),
    ("sinh", Sinh),
    ("sqrt", Sqrt),
    ("tan", Tan),
    ("tanh", Tanh),
];

impl MathFunction {
    /// Returns the function `class.name` of Painless.
    pub(super) fn painless(class: &str, name: &str) -> Option<Self> {
        let find = || {
            MATH.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, function)| *function)
        };
        match (class, name) {
            ("Math", _) => find(),
            ("Double" | "Float", "isNaN") => Some(IsNan),
            ("Double" | "Float", "isInfinite") => Some(IsInfinite),
            _ => None,
        }
    }

    /// Returns the function with this name in Lucene expressions.
    pub(super) fn lucene(name: &str) -> Option<Self> {
        LUCENE
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, function)| *function)
    }

    /// Returns the number of arguments.
    pub(super) fn arity(self) -> usize {
        match self {
            Atan2 | Hypot | Max | Min | Pow => 2,
            _ => 1,
        }
    }

    /// Calls the function with numbers ([`Value::Int`] or [`Value::Float`]), as many as its arity.
    pub(super) fn call(self, arguments: &[Value]) -> Value {
        // Integers stay integers where Java has an overload for them.
        match (self, arguments) {
            (Abs, [Value::Int(value)]) => return Value::Int(value.wrapping_abs()),
            (Max, [Value::Int(left), Value::Int(right)]) => return Value::Int(*left.max(right)),
            (Min, [Value::Int(left), Value::Int(right)]) => return Value::Int(*left.min(right)),
            _ => {}
        }
        let number = |index: usize| match arguments.get(index) {
            Some(Value::Int(value)) => *value as f64,
            Some(Value::Float(value)) => *value,
            _ => f64::NAN,
        };
        let (x, y) = (number(0), number(1));
        Value::Float(match self {
            IsNan => return Value::Bool(x.is_nan()),
            IsInfinite => return Value::Bool(x.is_infinite()),
            Round => return Value::Int((x + 0.5).floor() as i64),
            // Unlike Rust's, Java's functions return NaN if one argument is NaN.
            Max | Min if x.is_nan() || y.is_nan() => f64::NAN,
            Abs => x.abs(),
            Acos => x.acos(),
            Asin => x.asin(),
            Atan => x.atan(),
            Atan2 => x.atan2(y),
            Cbrt => x.cbrt(),
            Ceil => x.ceil(),
            Cos => x.cos(),
            Cosh => x.cosh(),
            Exp => x.exp(),
            Expm1 => x.exp_m1(),
            Floor => x.floor(),
            Hypot => x.hypot(y),
            Log => x.ln(),
            Log10 => x.log10(),
            Log1p => x.ln_1p(),
            Log2 => x.log2(),
            Max => x.max(y),
            Min => x.min(y),
            Pow => x.powf(y),
            Rint => x.round_ties_even(),
            Signum if x == 0.0 => x,
            Signum => x.signum(),
            Sin => x.sin(),
            Sinh => x.sinh(),
            Sqrt => x.sqrt(),
            Tan => x.tan(),
            Tanh => x.tanh(),
            ToDegrees => x.to_degrees(),
            ToRadians => x.to_radians(),
        })
    }
}
