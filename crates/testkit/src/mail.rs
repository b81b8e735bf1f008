//! SMTP server that takes each mail, without TLS and without authentication.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use anyhow::Result;

/// A server on a free port of 127.0.0.1, until the end of the process.
pub struct MailServer {
    port: u16,
    mails: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    /// Starts the server.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
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

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the mails that it has taken, with their headers.
    pub fn mails(&self) -> Vec<String> {
        self.mails.lock().map(|mails| mails.clone()).unwrap_or_default()
    }
}

fn converse(mut stream: &TcpStream, mails: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let reader = BufReader::new(stream);
    let mut mail: Option<String> = None;
    stream.write_all(b"220 ready\r\n")?;
    for line in reader.lines() {
        let line = line?;
        if let Some(text) = &mut mail {
            match line.as_str() {
                "." => {
                    if let (Some(text), Ok(mut mails)) = (mail.take(), mails.lock()) {
                        mails.push(text);
                    }
                    stream.write_all(b"250 taken\r\n")?;
                }
                line => {
                    text.push_str(line.strip_prefix('.').unwrap_or(line));
                    text.push('\n');
                }
            }
            continue;
        }
        let command = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match command.as_str() {
            "DATA" => {
                mail = Some(String::new());
                stream.write_all(b"354 go on\r\n")?;
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n"),
            _ => stream.write_all(b"250 well\r\n")?,
        }
    }
    Ok(())
}
