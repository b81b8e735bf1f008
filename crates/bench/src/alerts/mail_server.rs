//! SMTP server that notes when it has accepted each mail.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest line of a client, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
const SILENCE_MAX: Duration = Duration::from_secs(300);

type Mails = Arc<Mutex<HashMap<String, Instant>>>;

/// A server on a free port of 127.0.0.1, until the end of the process.
pub(super) struct MailServer {
    port: u16,
    mails: Mails,
}

impl MailServer {
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let server = Self {
            port: listener.local_addr()?.port(),
            mails: Arc::default(),
        };
        let mails = Arc::clone(&server.mails);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mails = Arc::clone(&mails);
                // A client that goes away ends its conversation.
                std::thread::spawn(move || drop(converse(&stream, &mails)));
            }
        });
        Ok(server)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns when mails were accepted, by their subjects; of mails with the same subject, the first.
    pub(super) fn accepted(&self) -> HashMap<String, Instant> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn converse(mut stream: &TcpStream, mails: &Mails) -> std::io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    // The subject of the mail that is being received; `None`: commands come.
    let mut subject: Option<String> = None;
    stream.write_all(b"220 ready\r\n")?;
    loop {
        line.clear();
        if reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let text = line.trim_end();
        if let Some(known) = &mut subject {
            if let Some(value) = text.strip_prefix("Subject: ") {
                value.clone_into(known);
            }
            if text == "." {
                stream.write_all(b"250 taken\r\n")?;
                let mut mails = mails.lock().unwrap_or_else(PoisonError::into_inner);
                mails
                    .entry(subject.take().unwrap_or_default())
                    .or_insert_with(Instant::now);
            }
            continue;
        }
        match text.split(' ').next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "DATA" => {
                subject = Some(String::new());
                stream.write_all(b"354 go on\r\n")?;
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n"),
            _ => stream.write_all(b"250 well\r\n")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_is_noted_under_its_subject_once_it_is_accepted() {
        let server = MailServer::start().unwrap();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        let mut lines = BufReader::new(&stream).lines();
        let mut read = || lines.next().unwrap().unwrap();
        assert_eq!(read(), "220 ready");
        let mut ask = |text: &str| {
            (&stream).write_all(text.as_bytes()).unwrap();
            read()
        };
        for command in [
            "EHLO me\r\n",
            "MAIL FROM:<a@example.com>\r\n",
            "RCPT TO:<b@example.com>\r\n",
        ] {
            assert_eq!(ask(command), "250 well");
        }
        assert_eq!(ask("DATA\r\n"), "354 go on");
        (&stream).write_all(b"Subject: q-1\r\n\r\ntext\r\n").unwrap();
        assert!(server.accepted().is_empty());
        assert_eq!(ask(".\r\n"), "250 taken");
        assert_eq!(ask("QUIT\r\n"), "221 bye");
        assert_eq!(server.accepted().keys().collect::<Vec<_>>(), ["q-1"]);
    }
}
