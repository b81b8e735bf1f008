//! Evaluator of scripts.

use firn_model::{Error, Result};
use serde_json::Value as Json;

use super::ast::{Cast, Expr, Node, Op, Statement, Value};
use super::{Lang, STEPS_MAX, Script};

/// Variables that a script can read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// By name; `None` is null. They hide parameters of the script.
    pub variables: &'a [(&'a str, Option<f64>)],
    /// The window of `moving_fn`.
    pub values: &'a [f64],
}

/// Remaining steps that scripts may execute.
#[derive(Debug)]
pub struct Steps(u64);

impl Default for Steps {
    fn default() -> Self {
        Self(STEPS_MAX)
    }
}

impl Steps {
    /// Creates a budget of this many steps.
    pub fn new(steps: u64) -> Self {
        Self(steps)
    }
}

/// Runs a script; returns its value, if it returns one.
pub(super) fn run(script: &Script, scope: &Scope<'_>, steps: &mut Steps) -> Result<Option<Value>> {
    let mut evaluator = Evaluator {
        script,
        scope,
        steps,
        locals: vec![Value::Null; script.program.locals],
    };
    evaluator.statements(&script.program.statements)
}

struct Evaluator<'a> {
    script: &'a Script,
    scope: &'a Scope<'a>,
    steps: &'a mut Steps,
    locals: Vec<Value>,
}

impl Evaluator<'_> {
    /// Returns the returned value, if any.
    fn statements(&mut self, statements: &[Statement]) -> Result<Option<Value>> {
        for statement in statements {
            match statement {
                Statement::Set(slot, node) => self.locals[*slot] = self.eval(node)?,
                Statement::Return(node) => return self.eval(node).map(Some),
                Statement::If(condition, then, otherwise) => {
                    let branch = if self.condition(condition)? { then } else { otherwise };
                    if let Some(value) = self.statements(branch)? {
                        return Ok(Some(value));
                    }
                }
            }
        }
        Ok(None)
    }

    fn eval(&mut self, node: &Node) -> Result<Value> {
        self.step(node, 1)?;
        Ok(match &node.expr {
            Expr::Literal(value) => *value,
            Expr::Param(name) => self.param(node, name)?,
            Expr::Local(slot) => self.locals[*slot],
            Expr::ValuesLength => Value::Int(self.scope.values.len() as i64),
            Expr::ValuesAt(index) => self.value_at(index)?,
            Expr::Negate(inner) => match self.numeric(inner)? {
                Value::Int(value) => Value::Int(value.wrapping_neg()),
                value => Value::Float(-float(value)),
            },
            Expr::Not(inner) => Value::Bool(!self.condition(inner)?),
            Expr::Cast(cast, inner) => match (cast, self.numeric(inner)?) {
                (Cast::Float, value) => Value::Float(float(value)),
                (Cast::Int, Value::Float(value)) => Value::Int(value as i64),
                (Cast::Int, value) => value,
            },
            Expr::Binary(op, left, right) => self.binary(node, *op, left, right)?,
            Expr::Ternary(condition, then, otherwise) => {
                let branch = if self.condition(condition)? { then } else { otherwise };
                self.eval(branch)?
            }
            Expr::Elvis(first, second) => match self.eval(first)? {
                Value::Null => self.eval(second)?,
                value => value,
            },
            Expr::Math(function, arguments) => {
                let mut values = [Value::Null; 2];
                for (value, argument) in values.iter_mut().zip(arguments) {
                    *value = self.numeric(argument)?;
                }
                function.call(&values[..arguments.len()])
            }
            Expr::Moving(function, arguments) => {
                self.step(node, self.scope.values.len() as u64)?;
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(match self.eval(argument)? {
                        Value::Bool(flag) => f64::from(u8::from(flag)),
                        value => float(self.check_number(argument, value)?),
                    });
                }
                let result = function.call(self.scope.values, &values);
                Value::Float(result.map_err(|reason| self.fail(node, reason))?)
            }
        })
    }

    fn step(&mut self, node: &Node, count: u64) -> Result<()> {
        match self.steps.0.checked_sub(count) {
            Some(left) => {
                self.steps.0 = left;
                Ok(())
            }
            None => Err(self.fail(
                node,
                format!(
                    "the scripts of this request need more than [{STEPS_MAX}] steps; reduce the buckets or the window"
                ),
            )),
        }
    }

    fn fail(&self, node: &Node, reason: impl Into<String>) -> Error {
        self.script.runtime_error(node.at, reason)
    }

    fn param(&self, node: &Node, name: &str) -> Result<Value> {
        if let Some((_, value)) = self.scope.variables.iter().find(|(known, _)| *known == name) {
            return Ok(value.map_or(Value::Null, Value::Float));
        }
        match self.script.params.get(name) {
            Some(Json::Bool(flag)) => Ok(Value::Bool(*flag)),
            Some(Json::Number(number)) => Ok(match number.as_i64() {
                Some(value) if self.script.lang == Lang::Painless => Value::Int(value),
                _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            }),
            None if self.script.lang == Lang::Expression => Err(self.fail(node, format!("Unknown variable [{name}]"))),
            None | Some(Json::Null) => Ok(Value::Null),
            Some(_) => Err(self.fail(node, format!("parameter [{name}] is neither a number nor a boolean"))),
        }
    }

    fn value_at(&mut self, index: &Node) -> Result<Value> {
        let value = self.eval(index)?;
        let Value::Int(at) = value else {
            return Err(self.fail(index, format!("Cannot cast from [{}] to [int].", value.type_name())));
        };
        // As in Painless, negative indices count from the end.
        let values = self.scope.values;
        let at = if at < 0 { at + values.len() as i64 } else { at };
        match usize::try_from(at).ok().and_then(|at| values.get(at)) {
            Some(value) => Ok(Value::Float(*value)),
            None => Err(self.fail(index, format!("Index {at} out of bounds for length {}", values.len()))),
        }
    }

    /// Evaluates a number, or fails.
    fn numeric(&mut self, node: &Node) -> Result<Value> {
        let value = self.eval(node)?;
        self.check_number(node, value)
    }

    fn check_number(&self, node: &Node, value: Value) -> Result<Value> {
        match value {
            Value::Int(_) | Value::Float(_) => Ok(value),
            Value::Bool(flag) if self.script.lang == Lang::Expression => Ok(Value::Float(f64::from(u8::from(flag)))),
            Value::Null => Err(self.fail(node, "cannot use null as a number: null pointer")),
            Value::Bool(_) => Err(self.fail(node, "cannot use a boolean as a number")),
        }
    }

    fn condition(&mut self, node: &Node) -> Result<bool> {
        match self.eval(node)? {
            Value::Bool(flag) => Ok(flag),
            Value::Float(value) if self.script.lang == Lang::Expression => Ok(value != 0.0),
            value => Err(self.fail(node, format!("Cannot cast from [{}] to [boolean].", value.type_name()))),
        }
    }

    fn binary(&mut self, node: &Node, op: Op, left: &Node, right: &Node) -> Result<Value> {
        match op {
            Op::And => return Ok(Value::Bool(self.condition(left)? && self.condition(right)?)),
            Op::Or => return Ok(Value::Bool(self.condition(left)? || self.condition(right)?)),
            Op::Equal | Op::NotEqual => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                let equal = match (left, right) {
                    (Value::Int(left), Value::Int(right)) => left == right,
                    (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => float(left) == float(right),
                    (left, right) => left == right,
                };
                return Ok(Value::Bool(equal == (op == Op::Equal)));
            }
            _ => {}
        }
        let (left, right) = (self.numeric(left)?, self.numeric(right)?);
        if let (Value::Int(left), Value::Int(right)) = (left, right) {
            return self.whole(node, op, left, right);
        }
        let (left, right) = (float(left), float(right));
        Ok(match op {
            Op::Less => Value::Bool(left < right),
            Op::LessOrEqual => Value::Bool(left <= right),
            Op::Greater => Value::Bool(left > right),
            Op::GreaterOrEqual => Value::Bool(left >= right),
            Op::Add => Value::Float(left + right),
            Op::Subtract => Value::Float(left - right),
            Op::Multiply => Value::Float(left * right),
            Op::Divide => Value::Float(left / right),
            Op::Remainder => Value::Float(left % right),
            Op::And | Op::Or | Op::Equal | Op::NotEqual => {
                return Err(Error::internal(format!("operator [{}] is not arithmetic", op.symbol())));
            }
        })
    }

    fn whole(&self, node: &Node, op: Op, left: i64, right: i64) -> Result<Value> {
        Ok(match op {
            Op::Less => Value::Bool(left < right),
            Op::LessOrEqual => Value::Bool(left <= right),
            Op::Greater => Value::Bool(left > right),
            Op::GreaterOrEqual => Value::Bool(left >= right),
            Op::Add => Value::Int(left.wrapping_add(right)),
            Op::Subtract => Value::Int(left.wrapping_sub(right)),
            Op::Multiply => Value::Int(left.wrapping_mul(right)),
            Op::Divide | Op::Remainder if right == 0 => return Err(self.fail(node, "/ by zero")),
            Op::Divide => Value::Int(left.wrapping_div(right)),
            Op::Remainder => Value::Int(left.wrapping_rem(right)),
            Op::And | Op::Or | Op::Equal | Op::NotEqual => {
                return Err(Error::internal(format!("operator [{}] is not arithmetic", op.symbol())));
            }
        })
    }
}

/// Returns a number as a float; NaN for any other value.
fn float(value: Value) -> f64 {
    match value {
        Value::Int(value) => value as f64,
        Value::Float(value) => value,
        Value::Null | Value::Bool(_) => f64::NAN,
    }
}
