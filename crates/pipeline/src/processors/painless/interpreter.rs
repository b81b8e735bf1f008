//! Interpreter of scripts: walks the tree, one step of the budget per node.

use serde_json::{Map, Value};

use super::super::document::java_text;
use super::super::failure::{Failure, FailureKind};
use super::ast::{Expr, Function, Kind, Operator, Statement, Type};
use super::calls;
use super::memory::{Memory, is_ctx, out_of_bounds};
use super::value::{Key, Place, Root, Val, arithmetic, cast, cast_failure};

/// Names of a path that `field` looks up.
const KEYS_MAX: usize = 32;

pub(super) struct Interpreter<'a> {
    pub(super) memory: Memory<'a>,
    locals: Vec<Val>,
}

/// What follows a statement.
enum Next {
    Statement,
    Break,
    Continue,
    Return(Val),
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(memory: Memory<'a>, locals: usize) -> Self {
        Self {
            memory,
            locals: vec![Val::Null; locals],
        }
    }

    /// Runs a script; its value is that of `return`, or of the last statement.
    pub(super) fn run(&mut self, statements: &[Statement]) -> Result<Val, Failure> {
        if let Some((Statement::Expression(last), before)) = statements.split_last() {
            return match self.block(before)? {
                Next::Return(value) => Ok(value),
                _ => self.eval(last),
            };
        }
        match self.block(statements)? {
            Next::Return(value) => Ok(value),
            _ => Ok(Val::Null),
        }
    }

    fn block(&mut self, statements: &[Statement]) -> Result<Next, Failure> {
        for statement in statements {
            match self.statement(statement)? {
                Next::Statement => {}
                next => return Ok(next),
            }
        }
        Ok(Next::Statement)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Next, Failure> {
        self.memory.budget.take(1)?;
        match statement {
            Statement::Expression(expression) => {
                self.eval(expression)?;
            }
            Statement::Declare(slot, value) => {
                self.locals[*slot] = match value {
                    Some(value) => self.eval(value)?,
                    None => Val::Null,
                };
            }
            Statement::If(condition, then, otherwise) => {
                let branch = if self.eval(condition)?.as_bool()? {
                    then
                } else {
                    otherwise
                };
                return self.block(branch);
            }
            Statement::ForEach(slot, list, body) => {
                let list = self.eval(list)?;
                // A copy of the length and a look at each place: a loop that appends to its list ends.
                let len = match &list {
                    Val::Place(place) => self.memory.value(place).and_then(Value::as_array).map(Vec::len),
                    Val::Null => return Err(null_reference("iterator")),
                    _ => None,
                };
                let (Some(len), Val::Place(place)) = (len, list) else {
                    return Err(Failure::illegal("Cannot iterate over something that is no list"));
                };
                for index in 0..len {
                    self.memory.budget.take(1)?;
                    self.locals[*slot] = self.memory.load(child(&place, Key::At(index)))?;
                    match self.block(body)? {
                        Next::Break => break,
                        next @ Next::Return(_) => return Ok(next),
                        _ => {}
                    }
                }
            }
            Statement::Loop(condition, update, body) => loop {
                self.memory.budget.take(1)?;
                if let Some(condition) = condition
                    && !self.eval(condition)?.as_bool()?
                {
                    break;
                }
                match self.block(body)? {
                    Next::Break => break,
                    next @ Next::Return(_) => return Ok(next),
                    _ => {}
                }
                if let Some(update) = update {
                    self.eval(update)?;
                }
            },
            Statement::Return(value) => {
                let value = match value {
                    Some(value) => self.eval(value)?,
                    None => Val::Null,
                };
                return Ok(Next::Return(value));
            }
            Statement::Break => return Ok(Next::Break),
            Statement::Continue => return Ok(Next::Continue),
        }
        Ok(Next::Statement)
    }

    pub(super) fn eval(&mut self, expression: &Expr) -> Result<Val, Failure> {
        self.memory.budget.take(1)?;
        match &expression.kind {
            Kind::Null => Ok(Val::Null),
            Kind::Bool(value) => Ok(Val::Bool(*value)),
            Kind::Int(number) => Ok(Val::Int(*number)),
            Kind::Float(number) => Ok(Val::Float(*number)),
            Kind::Text(text) => self.text(text.clone()),
            Kind::Ctx => Ok(root(Root::Ctx)),
            Kind::Params => Ok(root(Root::Params)),
            Kind::Local(slot) => match &self.locals[*slot] {
                Val::Text(text) => self.text(text.clone()),
                value => Ok(value.clone()),
            },
            Kind::Field(of, name, null_safe) => {
                let of = self.eval(of)?;
                match of {
                    Val::Null if *null_safe => Ok(Val::Null),
                    Val::Null => Err(null_reference(name)),
                    of => self.field(of, name),
                }
            }
            Kind::Index(of, index) => {
                let (of, index) = (self.eval(of)?, self.eval(index)?);
                let Val::Place(place) = of else {
                    return Err(no_container(&of, "[]"));
                };
                let key = self.key(&place, &index)?;
                self.memory.load(child(&place, key))
            }
            Kind::Call(of, method, arguments, null_safe) => {
                let of = self.eval(of)?;
                if of == Val::Null {
                    return match null_safe {
                        true => Ok(Val::Null),
                        false => Err(null_reference(method.name())),
                    };
                }
                let arguments: Result<Vec<Val>, Failure> =
                    arguments.iter().map(|argument| self.eval(argument)).collect();
                calls::call(&mut self.memory, of, *method, arguments?)
            }
            Kind::Lookup(path, default) => {
                let path = self.eval(path)?.text();
                let keys: Vec<&str> = path.split('.').collect();
                if keys.len() > KEYS_MAX {
                    return Err(Failure::illegal(format!("a path has at most {KEYS_MAX} names")));
                }
                let root = Place {
                    root: Root::Ctx,
                    path: Vec::new(),
                };
                match self.look_up(&root, &keys)? {
                    Some(place) => match self.memory.load(place)? {
                        Val::Null => self.eval(default),
                        value => Ok(value),
                    },
                    None => self.eval(default),
                }
            }
            Kind::Static(function, arguments) => self.function(*function, arguments),
            Kind::Not(inner) => Ok(Val::Bool(!self.eval(inner)?.as_bool()?)),
            Kind::Negate(inner) => {
                let inner = self.eval(inner)?;
                arithmetic(Operator::Subtract, &Val::Int(0), &inner)
            }
            Kind::And(left, right) => {
                let value = self.eval(left)?.as_bool()? && self.eval(right)?.as_bool()?;
                Ok(Val::Bool(value))
            }
            Kind::Or(left, right) => {
                let value = self.eval(left)?.as_bool()? || self.eval(right)?.as_bool()?;
                Ok(Val::Bool(value))
            }
            Kind::Elvis(left, right) => match self.eval(left)? {
                Val::Null => self.eval(right),
                value => Ok(value),
            },
            Kind::Conditional(condition, then, otherwise) => {
                let branch = if self.eval(condition)?.as_bool()? {
                    then
                } else {
                    otherwise
                };
                self.eval(branch)
            }
            Kind::Binary(operator, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                self.binary(*operator, &left, &right)
            }
            Kind::InstanceOf(of, class) => {
                let of = self.eval(of)?;
                Ok(Val::Bool(self.is_instance(&of, *class)))
            }
            Kind::Cast(to, of) => {
                let of = self.eval(of)?;
                cast(*to, of)
            }
            Kind::Matches(of, regex) => match self.eval(of)? {
                Val::Text(text) => {
                    self.memory.budget.take_text(text.len())?;
                    Ok(Val::Bool(regex.is_match(&text)))
                }
                Val::Null => Err(null_reference("matcher")),
                other => Err(cast_failure(format!(
                    "Cannot cast {} to java.lang.CharSequence",
                    other.class()
                ))),
            },
            Kind::Assign(target, operator, value, old) => self.assign(target, *operator, value, *old),
            Kind::List(values) => {
                let list = self.memory.create(Value::Array(Vec::new()))?;
                for value in values {
                    let value = self.eval(value)?;
                    calls::push(&mut self.memory, &list, &value)?;
                }
                Ok(list)
            }
            Kind::Map(fields) => {
                let map = self.memory.create(Value::Object(Map::new()))?;
                for (name, value) in fields {
                    let (name, value) = (self.eval(name)?, self.eval(value)?);
                    if let Val::Place(place) = &map {
                        self.memory.store(place, Key::Name(name.text()), value)?;
                    }
                }
                Ok(map)
            }
        }
    }

    /// Finds a field whose names may be joined by dots at any place of the path.
    fn look_up(&mut self, place: &Place, keys: &[&str]) -> Result<Option<Place>, Failure> {
        for len in (1..=keys.len()).rev() {
            self.memory.budget.take(1)?;
            let inner = child(place, Key::Name(keys[..len].join(".")));
            if self.memory.value(&inner).is_none() {
                continue;
            }
            let found = match &keys[len..] {
                [] => Some(inner),
                rest => self.look_up(&inner, rest)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Charges for a text.
    fn text(&mut self, text: String) -> Result<Val, Failure> {
        self.memory.budget.write(text.len())?;
        Ok(Val::Text(text))
    }

    fn field(&mut self, of: Val, name: &str) -> Result<Val, Failure> {
        let Val::Place(place) = of else {
            return Err(no_container(&of, name));
        };
        match self.memory.value(&place) {
            Some(Value::Array(values)) if name == "length" => Ok(Val::Int(values.len() as i64)),
            Some(Value::Array(_)) => Err(Failure::illegal(format!(
                "dynamic getter [java.util.ArrayList, {name}] not found"
            ))),
            _ => self.memory.load(child(&place, Key::Name(name.to_owned()))),
        }
    }

    /// Turns the value in brackets into a key of a list or map.
    fn key(&mut self, place: &Place, index: &Val) -> Result<Key, Failure> {
        match (self.memory.value(place), index) {
            (Some(Value::Array(values)), Val::Int(index)) => {
                // As in Painless, a negative index counts from the end.
                let len = values.len() as i64;
                let at = if *index < 0 { *index + len } else { *index };
                match (0..len).contains(&at) {
                    true => Ok(Key::At(at as usize)),
                    false => Err(out_of_bounds(*index, values.len())),
                }
            }
            (Some(Value::Array(_)), other) => Err(cast_failure(format!("Cannot cast {} to int", other.class()))),
            (_, index) => Ok(Key::Name(index.text())),
        }
    }

    fn assign(&mut self, target: &Expr, operator: Option<Operator>, value: &Expr, old: bool) -> Result<Val, Failure> {
        let place = match &target.kind {
            Kind::Local(_) => None,
            Kind::Field(of, name, _) => match self.eval(of)? {
                Val::Place(place) => Some((place, Key::Name(name.clone()))),
                Val::Null => return Err(null_reference(name)),
                other => return Err(no_container(&other, name)),
            },
            Kind::Index(of, index) => match (self.eval(of)?, self.eval(index)?) {
                (Val::Place(place), index) => {
                    let key = self.key(&place, &index)?;
                    Some((place, key))
                }
                (Val::Null, _) => return Err(null_reference("[]")),
                (other, _) => return Err(no_container(&other, "[]")),
            },
            _ => return Err(Failure::illegal("cannot assign a value to this expression")),
        };
        let mut before = Val::Null;
        if operator.is_some() {
            before = match (&place, &target.kind) {
                (Some((place, key)), _) => self.memory.load(child(place, key.clone()))?,
                (None, Kind::Local(slot)) => self.locals[*slot].clone(),
                _ => Val::Null,
            };
        }
        let value = self.eval(value)?;
        let value = match operator {
            Some(operator) => self.binary(operator, &before, &value)?,
            None => value,
        };
        let result = if old { before } else { value.clone() };
        match (place, &target.kind) {
            (Some((place, key)), _) => self.memory.store(&place, key, value)?,
            (None, Kind::Local(slot)) => self.locals[*slot] = value,
            _ => {}
        }
        Ok(result)
    }

    fn binary(&mut self, operator: Operator, left: &Val, right: &Val) -> Result<Val, Failure> {
        match operator {
            Operator::Equal => return Ok(Val::Bool(self.equal(left, right)?)),
            Operator::NotEqual => return Ok(Val::Bool(!self.equal(left, right)?)),
            Operator::Add if matches!((left, right), (Val::Text(_), _) | (_, Val::Text(_))) => {
                let (left, right) = (self.text_of(left)?, self.text_of(right)?);
                return self.text(left + &right);
            }
            _ => {}
        }
        if *left == Val::Null || *right == Val::Null {
            return Err(null_reference("operand"));
        }
        arithmetic(operator, left, right)
    }

    /// Compares by value, as `equals` does.
    pub(super) fn equal(&mut self, left: &Val, right: &Val) -> Result<bool, Failure> {
        Ok(match (left, right) {
            (Val::Int(_) | Val::Float(_), Val::Int(_) | Val::Float(_)) => {
                arithmetic(Operator::Equal, left, right)?.as_bool()?
            }
            (Val::Place(_), Val::Place(_)) => self.memory.json(left)? == self.memory.json(right)?,
            (left, right) => left == right,
        })
    }

    fn text_of(&mut self, value: &Val) -> Result<String, Failure> {
        Ok(match value {
            Val::Place(_) => java_text(&self.memory.json(value)?),
            scalar => scalar.text(),
        })
    }

    fn is_instance(&self, value: &Val, class: Type) -> bool {
        let container = match value {
            Val::Place(place) if is_ctx(place) => return matches!(class, Type::Map | Type::Def),
            Val::Place(place) => self.memory.value(place),
            _ => None,
        };
        match (class, value) {
            (_, Val::Null) => false,
            (Type::Def, _) => true,
            (Type::Text, Val::Text(_)) | (Type::Bool, Val::Bool(_)) | (Type::Float, Val::Float(_)) => true,
            (Type::Int, Val::Int(number)) => i32::try_from(*number).is_ok(),
            // JSON's small numbers are of the class Integer.
            (Type::Long, Val::Int(number)) => i32::try_from(*number).is_err(),
            (Type::Number, Val::Int(_) | Val::Float(_)) => true,
            (Type::List, Val::Place(_)) => container.is_some_and(Value::is_array),
            (Type::Map, Val::Place(_)) => container.is_some_and(Value::is_object),
            _ => false,
        }
    }

    fn function(&mut self, function: Function, arguments: &[Expr]) -> Result<Val, Failure> {
        let arguments: Result<Vec<Val>, Failure> = arguments.iter().map(|argument| self.eval(argument)).collect();
        let arguments = arguments?;
        let first = arguments.first().cloned().unwrap_or(Val::Null);
        let second = arguments.get(1).cloned().unwrap_or(Val::Null);
        let malformed = |text: &str| Failure::new(FailureKind::NumberFormat, format!("For input string: \"{text}\""));
        let float = |value: &Val| match value {
            Val::Int(number) => Ok(*number as f64),
            Val::Float(number) => Ok(*number),
            other => Err(cast_failure(format!("Cannot cast {} to double", other.class()))),
        };
        match function {
            Function::ParseInt => {
                let text = first.text();
                text.parse::<i32>()
                    .map(|number| Val::Int(number.into()))
                    .map_err(|_| malformed(&text))
            }
            Function::ParseLong => {
                let text = first.text();
                text.parse().map(Val::Int).map_err(|_| malformed(&text))
            }
            Function::ParseDouble => {
                let text = first.text();
                text.trim().parse().map(Val::Float).map_err(|_| malformed(&text))
            }
            Function::ParseBoolean => Ok(Val::Bool(first.text().eq_ignore_ascii_case("true"))),
            Function::TextOf => {
                let text = self.text_of(&first)?;
                self.text(text)
            }
            Function::Join => {
                let Value::Array(values) = self.memory.json(&second)? else {
                    return Err(cast_failure(format!(
                        "Cannot cast {} to java.lang.Iterable",
                        second.class()
                    )));
                };
                let texts: Vec<String> = values.iter().map(java_text).collect();
                self.text(texts.join(&first.text()))
            }
            Function::Min | Function::Max => {
                let is_less = arithmetic(Operator::Less, &first, &second)?.as_bool()?;
                Ok(if is_less == (function == Function::Min) {
                    first
                } else {
                    second
                })
            }
            Function::Abs => match first {
                Val::Int(number) => Ok(Val::Int(number.wrapping_abs())),
                other => Ok(Val::Float(float(&other)?.abs())),
            },
            Function::Floor => Ok(Val::Float(float(&first)?.floor())),
            Function::Ceil => Ok(Val::Float(float(&first)?.ceil())),
            // Java rounds half up.
            Function::Round => Ok(Val::Int((float(&first)? + 0.5).floor() as i64)),
        }
    }
}

fn root(root: Root) -> Val {
    Val::Place(Place { root, path: Vec::new() })
}

pub(super) fn child(place: &Place, key: Key) -> Place {
    let mut path = place.path.clone();
    path.push(key);
    Place { root: place.root, path }
}

pub(super) fn null_reference(name: &str) -> Failure {
    let reason = format!("cannot access method/field [{name}] from a null def reference");
    Failure::new(FailureKind::NullPointer, reason)
}

fn no_container(value: &Val, name: &str) -> Failure {
    match value {
        Val::Null => null_reference(name),
        other => Failure::illegal(format!("dynamic getter [{}, {name}] not found", other.class())),
    }
}
