//! `urldecode`: decodes `%20` and `+`.

use super::prelude::*;
use super::text::{self, Change};

#[derive(Debug)]
struct UrlDecode;

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    text::parse(options, UrlDecode)
}

impl Change for UrlDecode {
    fn change(&self, text: &str, _path: &str, _budget: &mut Budget) -> Result<Value, Failure> {
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'+' => out.push(b' '),
                b'%' => {
                    let Some(digits) = bytes.get(at + 1..at + 3) else {
                        return Err(Failure::illegal("URLDecoder: Incomplete trailing escape (%) pattern"));
                    };
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let (Some(high), Some(low)) = (digit(digits[0]), digit(digits[1])) else {
                        let digits = String::from_utf8_lossy(digits);
                        return Err(Failure::illegal(format!(
                            "URLDecoder: Illegal hex characters in escape (%) pattern - Error at index 0 in: \"{digits}\""
                        )));
                    };
                    out.push((high * 16 + low) as u8);
                    at += 2;
                }
                other => out.push(other),
            }
            at += 1;
        }
        Ok(String::from_utf8_lossy(&out).into_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"urldecode": {}}), "[field] required property is missing");
    }

    #[test]
    fn results() {
        check(
            json!({"urldecode": {"field": "f"}}),
            json!({"f": "a%20b+c%C3%A4"}),
            json!({"f": "a b cä"}),
        );
        check(
            json!({"urldecode": {"field": "f"}}),
            json!({"f": ["%41", ""]}),
            json!({"f": ["A", ""]}),
        );
    }

    #[test]
    fn failures() {
        let reason = "URLDecoder: Incomplete trailing escape (%) pattern";
        fails(json!({"urldecode": {"field": "f"}}), json!({"f": "a%2"}), reason);
        let reason = "URLDecoder: Illegal hex characters in escape (%) pattern - Error at index 0 in: \"zz\"";
        fails(json!({"urldecode": {"field": "f"}}), json!({"f": "a%zz"}), reason);
    }
}
