//! Date math in names: `<logs-{now/d}>`. Follows Elasticsearch's `DateMathExpressionResolver`.

use crate::dates::{DateFormat, Zone};
use crate::{Error, Result};

/// Maximum bytes of an expression.
const EXPRESSION_BYTES_MAX: usize = 1024;

/// Whether a name or an exclusion in an index expression depends on the current time: `<logs-{now/d}>`. True for some
/// names with escaped braces that do not.
pub fn is_relative_name(name: &str) -> bool {
    let name = name.strip_prefix('-').unwrap_or(name);
    name.starts_with('<') && name.ends_with('>') && name.replace('\\', "").contains("{now")
}

/// Turns `<logs-{now/d{yyyy.MM.dd|+01:00}}>` into a name; returns other names unchanged. The format is `uuuu.MM.dd` and
/// the zone UTC unless given; `\` before a brace makes it a character of the name. An invalid expression fails with
/// [`crate::ErrorKind::Parsing`].
pub fn resolve_date_math(name: &str, now_ms: i64) -> Result<String> {
    let Some(inner) = name.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else {
        return Ok(name.to_owned());
    };
    let invalid = |why: &str| Error::parsing(format!("invalid dynamic name expression [{inner}]. {why}"));
    if name.len() > EXPRESSION_BYTES_MAX {
        return Err(Error::parsing(format!(
            "a dynamic name expression takes at most {EXPRESSION_BYTES_MAX} bytes"
        )));
    }
    let mut out = String::new();
    let mut placeholder: Option<String> = None;
    let mut in_format = false;
    let mut escaped = false;
    for (at, character) in inner.char_indices() {
        if character == '\\' && !escaped {
            escaped = true;
            continue;
        }
        let literal = std::mem::take(&mut escaped);
        match (&mut placeholder, character) {
            (None, '{') if !literal => placeholder = Some(String::new()),
            (None, '}') if !literal => {
                return Err(invalid(&format!(
                    "invalid character at position [{at}]. `{{` and `}}` are reserved characters and should be escaped \
                     when used as part of the index name using `\\` (e.g. `\\{{text\\}}`)"
                )));
            }
            (None, character) => out.push(character),
            (Some(text), '{') if !(in_format && literal) => {
                if in_format {
                    return Err(invalid(&format!("invalid character in placeholder at position [{at}]")));
                }
                in_format = true;
                text.push('{');
            }
            (Some(text), '}') if !(in_format && literal) => {
                if in_format {
                    in_format = false;
                    text.push('}');
                } else {
                    out.push_str(&evaluate(text, now_ms, &invalid)?);
                    placeholder = None;
                }
            }
            (Some(text), character) => text.push(character),
        }
    }
    if placeholder.is_some() {
        return Err(invalid("date math placeholder is open ended"));
    }
    if out.is_empty() {
        return Err(invalid("nothing captured"));
    }
    Ok(out)
}

/// Evaluates `now/d{yyyy.MM.dd|+01:00}`.
fn evaluate(placeholder: &str, now_ms: i64, invalid: &dyn Fn(&str) -> Error) -> Result<String> {
    let (math, format) = match placeholder.split_once('{') {
        None => (placeholder, None),
        Some((math, rest)) => match rest.strip_suffix('}') {
            None => return Err(invalid("missing closing `}` for date math format")),
            Some("") => return Err(invalid("missing date format")),
            Some(format) => (math, Some(format)),
        },
    };
    let (pattern, zone) = match format.map(|format| format.split_once('|').unwrap_or((format, ""))) {
        None => ("uuuu.MM.dd", ""),
        Some((pattern, zone)) => (pattern, zone),
    };
    let zone = match zone {
        "" => Zone::utc(),
        text => Zone::parse(text)?,
    };
    let ms = DateFormat::default_millis().parse_math_ms(math, now_ms, false, &zone)?;
    Ok(DateFormat::new(pattern)?.print_ms(ms, &zone))
}
