//! HTTP/1.1 messages: a head, and a body whose length the head defines.

use std::io::{self, BufRead, Read};

/// Maximum length of a head.
const HEAD_BYTES_MAX: usize = 256 << 10;
/// Maximum length of a body; the proxy holds it in memory.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// Complete request or response.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// `GET /bucket/key HTTP/1.1`, `HTTP/1.1 200 OK`.
    pub(super) start: String,
    pub(super) headers: Vec<(String, String)>,
    /// Without chunk framing.
    pub(super) body: Vec<u8>,
}

/// Rule for the body after a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Defined by the head; no body if the head does not define it.
    OfRequest,
    /// Defined by the head; up to the end of the connection if the head does not define it.
    OfAnswer,
    /// No body, regardless of the head: response to HEAD.
    None,
}

impl Message {
    /// Reads a message; `None` at the end of the connection.
    pub(super) fn read(stream: &mut impl BufRead, body: Body) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_until(b'\n', &mut head)? == 0 {
                return if head.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
            if head.len() > HEAD_BYTES_MAX {
                return Err(invalid("the head is too long"));
            }
        }
        let head = String::from_utf8(head).map_err(|_| invalid("the head is not UTF-8"))?;
        let mut lines = head.split("\r\n").filter(|line| !line.is_empty());
        let start = lines.next().ok_or_else(|| invalid("no first line"))?.to_owned();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let mut message = Self {
            start,
            headers,
            body: Vec::new(),
        };
        if body != Body::None && !matches!(message.status(), Some(100..=199 | 204 | 304)) {
            message.body = message.read_body(stream, body)?;
        }
        Ok(Some(message))
    }

    fn read_body(&self, stream: &mut impl BufRead, body: Body) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let is_chunked = self
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        if is_chunked {
            read_chunks(stream, &mut bytes)?;
            return Ok(bytes);
        }
        let len = match self.header("content-length") {
            Some(len) => len.parse().map_err(|_| invalid("the content length is invalid"))?,
            None if body == Body::OfAnswer => {
                stream.take(BODY_BYTES_MAX).read_to_end(&mut bytes)?;
                return Ok(bytes);
            }
            None => 0,
        };
        read_exactly(stream, len, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the first header of this name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    /// Returns the status of a response.
    pub(super) fn status(&self) -> Option<u16> {
        let rest = self.start.strip_prefix("HTTP/1.")?;
        rest.split(' ').nth(1)?.parse().ok()
    }

    /// Returns whether another message may follow on the connection.
    pub(super) fn stays_open(&self) -> bool {
        !self
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns the head of the forwarded message, whose body is in one piece with a content length.
    pub(super) fn head_bytes(&self, len: Option<usize>) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.start);
        for (name, value) in &self.headers {
            let is_framing = name.eq_ignore_ascii_case("transfer-encoding");
            let is_replaced = len.is_some() && name.eq_ignore_ascii_case("content-length");
            if !is_framing && !is_replaced {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        if let Some(len) = len {
            head.push_str(&format!("Content-Length: {len}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

fn read_chunks(stream: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let len = line.trim().split(';').next().unwrap_or_default();
        let len = u64::from_str_radix(len, 16).map_err(|_| invalid("the length of a chunk is invalid"))?;
        if len > 0 {
            read_exactly(stream, len, bytes)?;
        }
        let mut end = String::new();
        // Trailers may follow the last chunk; an empty line ends them.
        while stream.read_line(&mut end)? > 2 && len == 0 {
            end.clear();
        }
        if len == 0 {
            return Ok(());
        }
    }
}

fn read_exactly(stream: &mut impl BufRead, len: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    if len > BODY_BYTES_MAX {
        return Err(invalid("the body is too long"));
    }
    let read = stream.take(len).read_to_end(bytes)?;
    if (read as u64) < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_where_the_head_says() {
        let check = |wire: &str, body: Body, expected: &str, rest: &str| {
            let mut stream = io::Cursor::new(wire.as_bytes());
            let message = Message::read(&mut stream, body).expect(wire).expect(wire);
            assert_eq!(String::from_utf8(message.body).expect(wire), expected);
            let mut left = String::new();
            stream.read_to_string(&mut left).expect(wire);
            assert_eq!(left, rest, "{wire}");
        };
        check(
            "PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET",
            Body::OfRequest,
            "abc",
            "GET",
        );
        check("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET", Body::OfRequest, "", "GET");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x\r\ncde\r\n0\r\n\r\nHTTP";
        check(chunked, Body::OfAnswer, "abcde", "HTTP");
        check("HTTP/1.1 200 OK\r\n\r\nto the end", Body::OfAnswer, "to the end", "");
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP",
            Body::None,
            "",
            "HTTP",
        );
        check("HTTP/1.1 204 No Content\r\n\r\nHTTP", Body::OfAnswer, "", "HTTP");
    }
}
