//! Calculation of `minimum_should_match`.

use firn_model::{Error, Result};

/// Returns how many of `optional` clauses must match for `spec` (`2`, `-1`, `75%`, `-25%`, `3<90%`, `2<-25% 9<-3`).
/// Follows Lucene's `Queries.calculateMinShouldMatch`; the result may be larger than `optional`, which then matches
/// nothing.
pub(crate) fn calculate(spec: &str, optional: usize) -> Result<usize> {
    let spec = spec.trim();
    if spec.contains('<') {
        let mut result = optional;
        for part in spec.replace(" <", "<").replace("< ", "<").split_whitespace() {
            let (bound, value) = part.split_once('<').ok_or_else(|| bad(spec))?;
            let bound: usize = bound.parse().map_err(|_| bad(spec))?;
            if optional <= bound {
                return Ok(result);
            }
            result = calculate(value, optional)?;
        }
        return Ok(result);
    }
    let count = i64::try_from(optional).unwrap_or(i64::MAX);
    let wanted = match spec.strip_suffix('%') {
        Some(percent) => {
            let percent: i64 = percent.trim().parse().map_err(|_| bad(spec))?;
            let share = count.saturating_mul(percent) / 100;
            if percent < 0 {
                count.saturating_add(share)
            } else {
                share
            }
        }
        None => {
            let number: i64 = spec.parse().map_err(|_| bad(spec))?;
            if number < 0 {
                count.saturating_add(number)
            } else {
                number
            }
        }
    };
    Ok(usize::try_from(wanted).unwrap_or(0))
}

fn bad(spec: &str) -> Error {
    Error::illegal_argument(format!("cannot understand minimum_should_match [{spec}]"))
}

#[cfg(test)]
mod tests {
    use super::calculate;

    #[test]
    fn as_lucene_calculates() {
        for (spec, optional, expect) in [
            ("2", 3, 2),
            ("5", 3, 5),
            ("-1", 3, 2),
            ("-9", 3, 0),
            ("75%", 4, 3),
            ("75%", 3, 2),
            ("-25%", 4, 3),
            ("-25%", 3, 3),
            ("3<90%", 3, 3),
            ("3<90%", 4, 3),
            ("2<-25% 9<-3", 2, 2),
            ("2<-25% 9<-3", 8, 6),
            ("2<-25% 9<-3", 10, 7),
        ] {
            assert_eq!(calculate(spec, optional).ok(), Some(expect), "{spec} of {optional}");
        }
        assert!(calculate("x", 1).is_err());
        assert!(calculate("3<x", 9).is_err());
    }
}
