//! Rules of Kibana, as its page of rules exports them
//! (<https://www.elastic.co/docs/api/doc/kibana/operation/operation-exportrules>).

mod exceptions;
mod filters;
mod members;
mod pipelines;
mod rule;
mod threat;
mod time;

pub(super) use exceptions::ExceptionLists;
pub(super) use rule::definition;
