//! Visitor of a search request: it sees every part of the request, by type.
//!
//! [`Accept`] passes the parts of a value to a [`Visitor`], always in the same order. Its implementations name every
//! field and every variant, so a new one does not compile before it has a place here. What a visitor computes stands
//! beside this folder: `properties.rs` and `cache_key.rs`.

mod aggregations;
mod pipelines;
mod queries;
mod request;

use std::time::Duration;

use serde_json::Value;

use crate::aggs::AggregationKind;
use crate::query::Query;
use crate::query::query_string::Node;

/// Receiver of the parts of a search request. Numbers, texts and values together determine the request; the other
/// calls add what they mean.
pub(super) trait Visitor {
    /// A number, a flag, the number of a variant, or the length of the list that follows.
    fn number(&mut self, _: u64) {}

    /// A name, a pattern or an option.
    fn text(&mut self, _: &str) {}

    /// A value to compare with a field; if the field is a date, the value may be date math.
    fn value(&mut self, _: &Value) {}

    /// JSON that is no value of a field.
    fn json(&mut self, _: &Value) {}

    /// A name or pattern of indices, which may be date math (`<logs-{now/d}>`).
    fn index_name(&mut self, name: &str) {
        self.text(name);
    }

    /// A query, before its parts.
    fn query(&mut self, _: &Query) {}

    /// The kind of an aggregation, before its parts.
    fn aggregation(&mut self, _: &AggregationKind) {}

    /// The syntax tree of a query string. It follows from texts and options that are passed too.
    fn syntax_tree(&mut self, _: &Node) {}

    /// The translation of a KQL text without a mapping. It follows from texts and options that are passed too.
    fn kql_translation(&mut self, _: &Query) {}
}

/// A part of a search request that a [`Visitor`] can visit.
pub(super) trait Accept {
    /// Passes all parts to the visitor.
    fn accept(&self, visitor: &mut dyn Visitor);
}

/// Implements [`Accept`] for a struct: all of its fields, in this order.
macro_rules! accept_fields {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl Accept for $type {
            fn accept(&self, visitor: &mut dyn Visitor) {
                let Self { $($field),* } = self;
                $($field.accept(visitor);)*
            }
        }
    };
}

/// Implements [`Accept`] for an enum: the number of the variant, then its content. With `as`, the method of the
/// visitor is called first, with the whole value.
macro_rules! accept_variants {
    ($type:ident $(as $method:ident)? {
        $($variant:ident $(($($part:ident),+))? $({ $($field:ident),+ })?),* $(,)?
    }) => {
        impl Accept for $type {
            fn accept(&self, visitor: &mut dyn Visitor) {
                enum Number {
                    $($variant),*
                }
                $(visitor.$method(self);)?
                match self {
                    $(Self::$variant $(($($part),+))? $({ $($field),+ })? => {
                        visitor.number(Number::$variant as u64);
                        $($($part.accept(visitor);)+)?
                        $($($field.accept(visitor);)+)?
                    })*
                }
            }
        }
    };
}

use {accept_fields, accept_variants};

impl Accept for bool {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(u64::from(*self));
    }
}

impl Accept for u8 {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(u64::from(*self));
    }
}

impl Accept for u32 {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(u64::from(*self));
    }
}

impl Accept for u64 {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(*self);
    }
}

impl Accept for usize {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(*self as u64);
    }
}

impl Accept for i64 {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(self.cast_unsigned());
    }
}

/// By the bits: 0 and -0 are different numbers here.
impl Accept for f32 {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(u64::from(self.to_bits()));
    }
}

impl Accept for f64 {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(self.to_bits());
    }
}

impl Accept for Duration {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(self.as_secs());
        visitor.number(u64::from(self.subsec_nanos()));
    }
}

impl Accept for String {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.text(self);
    }
}

impl Accept for Value {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.value(self);
    }
}

impl<T: Accept> Accept for Box<T> {
    fn accept(&self, visitor: &mut dyn Visitor) {
        (**self).accept(visitor);
    }
}

impl<T: Accept> Accept for Option<T> {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(u64::from(self.is_some()));
        if let Some(part) = self {
            part.accept(visitor);
        }
    }
}

impl<T: Accept> Accept for Vec<T> {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(self.len() as u64);
        for part in self {
            part.accept(visitor);
        }
    }
}

impl<A: Accept, B: Accept> Accept for (A, B) {
    fn accept(&self, visitor: &mut dyn Visitor) {
        self.0.accept(visitor);
        self.1.accept(visitor);
    }
}
