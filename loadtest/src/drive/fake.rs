//! Fake server for tests: raw HTTP/1.1 over TCP; the test chooses the bytes of each reply.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// Method and target: `POST /write?db=db`.
    pub(super) line: String,
    pub(super) headers: Vec<String>,
    pub(super) body: Vec<u8>,
}

/// Reaction to a request.
pub(super) enum Act {
    /// Send these bytes and read the next request.
    Send(Vec<u8>),
    /// Send these bytes and close the connection.
    Close(Vec<u8>),
}

pub(super) struct Fake {
    pub(super) url: String,
    /// All requests so far.
    pub(super) requests: Arc<Mutex<Vec<Request>>>,
    /// Connections so far.
    pub(super) connections: Arc<Mutex<usize>>,
}

/// Starts a server that runs until the runtime ends. `act` gets the number of the request (from 0) and the request.
pub(super) async fn serve(act: impl Fn(usize, &Request) -> Act + Send + Sync + 'static) -> Fake {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let connections = Arc::new(Mutex::new(0));
    let (seen, count, act) = (requests.clone(), connections.clone(), Arc::new(act));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            *count.lock().unwrap() += 1;
            let (seen, act) = (seen.clone(), act.clone());
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Some(request) = read_request(&mut stream).await {
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    match act(number, &request) {
                        Act::Send(bytes) => stream.write_all(&bytes).await.unwrap(),
                        Act::Close(bytes) => {
                            stream.write_all(&bytes).await.unwrap();
                            return;
                        }
                    }
                }
            });
        }
    });
    Fake { url, requests, connections }
}

async fn read_request(stream: &mut BufReader<tokio::net::TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|&bytes| bytes > 0)?;
    let (mut headers, mut length) = (Vec::new(), 0);
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.unwrap();
        let header = header.trim().to_owned();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        headers.push(header);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    Some(Request { line: line.trim().trim_end_matches(" HTTP/1.1").to_owned(), headers, body })
}

/// Returns a reply with a body.
pub(super) fn reply(status: u16, extra: &str, body: &str) -> Act {
    Act::Send(format!("HTTP/1.1 {status} Some\r\n{extra}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// Returns a 204 reply, InfluxDB's acknowledgement of a write.
pub(super) fn no_content(extra: &str) -> Act {
    Act::Send(format!("HTTP/1.1 204 No Content\r\n{extra}\r\n").into_bytes())
}
