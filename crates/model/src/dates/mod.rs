//! Dates: formats, date math, time zones, and rounding down to an interval.
//!
//! All instants are ms since the epoch in UTC (`i64`) unless a name says `nanos`. The calendar is the proleptic
//! Gregorian one, as in Java's `java.time`.

mod civil;
mod duration;
mod format;
mod iso;
mod math;
mod named;
mod parts;
mod pattern;
mod print;
mod rounding;
mod zone;

#[cfg(test)]
mod tests;

pub use duration::{parse_duration_ms, parse_duration_setting_ms, print_duration_ms, print_exact_duration_ms};
pub use format::DateFormat;
pub use math::is_relative_to_now;
pub use rounding::{CalendarUnit, Interval, Rounding};
pub use zone::Zone;
