#![allow(clippy::unwrap_used)]

use super::super::fake::{Act, no_content, reply, serve};
use super::*;

fn quick() -> HttpOptions {
    HttpOptions {
        request_timeout: Duration::from_secs(5),
        retry_deadline: Duration::from_secs(5),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(4),
        ..HttpOptions::default()
    }
}

#[tokio::test]
async fn one_connection_carries_many_requests_with_their_bodies() {
    let fake = serve(|number, request| {
        reply(200, "X-Tidelake-Token: t7\r\n", &format!("{number}:{}", String::from_utf8_lossy(&request.body)))
    })
    .await;
    let options = HttpOptions { authorization: Some("Bearer abc".into()), ..quick() };
    let mut client = Client::new(&format!("{}/base/", fake.url), options).unwrap();
    client.set_tokens(&["t1".into(), "t2".into()]);
    for number in 0..3 {
        let sent =
            client.send("POST", "/write?db=db", "text/plain", format!("body {number}").as_bytes()).await.unwrap();
        assert_eq!(sent.status, 200);
        assert_eq!(sent.token.as_deref(), Some("t7"));
        assert_eq!(sent.body, format!("{number}:body {number}").into_bytes());
    }
    assert_eq!(*fake.connections.lock().unwrap(), 1);
    let requests = fake.requests.lock().unwrap();
    assert_eq!(requests[0].line, "POST /base/write?db=db");
    assert!(requests[0].headers.contains(&"authorization: Bearer abc".to_owned()));
    assert!(requests[0].headers.contains(&"x-tidelake-token: t1,t2".to_owned()));
    assert!(requests[0].headers.contains(&"content-type: text/plain".to_owned()));
}

#[tokio::test]
async fn bodies_of_every_framing_arrive_whole() {
    let long = "x".repeat(3 << 20);
    let copy = long.clone();
    let fake = serve(move |number, _| match number {
        0 => Act::Send(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: u\r\n\r\n".into(),
        ),
        1 => Act::Send(
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{copy}\r\n1\r\ny\r\n0\r\n\r\n",
                copy.len()
            )
            .into(),
        ),
        2 => Act::Send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".into()),
        3 => reply(200, "", &copy),
        _ => Act::Close(b"HTTP/1.1 200 OK\r\n\r\nto the end".into()),
    })
    .await;
    let mut client = Client::new(&fake.url, quick()).unwrap();
    let expected = ["abcde".to_owned(), format!("{long}y"), String::new(), long, "to the end".to_owned()];
    for (number, body) in expected.iter().enumerate() {
        let sent = client.send("GET", "/", "", b"").await.unwrap();
        assert!(sent.body == body.as_bytes(), "reply {number} has {} bytes", sent.body.len());
    }
    // The third reply said "close".
    assert_eq!(*fake.connections.lock().unwrap(), 2);
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_made_again() {
    let fake = serve(|number, _| match number {
        1 => Act::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb".into()),
        _ => reply(200, "", "a"),
    })
    .await;
    let mut client = Client::new(&fake.url, quick()).unwrap();
    for expected in [b"a", b"b", b"a", b"a"] {
        assert_eq!(client.send("GET", "/", "", b"").await.unwrap().body, expected);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((*fake.connections.lock().unwrap(), fake.requests.lock().unwrap().len()), (2, 4));
}

#[tokio::test]
async fn a_busy_server_and_a_broken_connection_are_tried_again() {
    let fake = serve(|number, _| match number {
        0 => reply(503, "Retry-After: 1\r\n", "busy"),
        1 => reply(500, "", "{\"error\":\"timeout\"}"),
        2 => Act::Close(b"HTTP/1.1 2".into()),
        3 => reply(429, "", ""),
        _ => no_content(""),
    })
    .await;
    let mut client = Client::new(&fake.url, quick()).unwrap();
    let (sent, repeats) = client.send_again("POST", "/write", "", b"rows").await.unwrap();
    assert_eq!((sent.status, repeats), (204, Repeats { busy: 3, broken: 1 }));
    assert!(fake.requests.lock().unwrap().iter().all(|request| request.body == b"rows"));
}

#[tokio::test]
async fn waiting_for_a_busy_or_absent_server_ends() {
    let fake = serve(|_, _| reply(503, "", "still busy")).await;
    let options = HttpOptions { retry_deadline: Duration::from_millis(100), ..quick() };
    let mut client = Client::new(&fake.url, options.clone()).unwrap();
    let error = format!("{:#}", client.send_again("POST", "/write", "", b"").await.unwrap_err());
    assert!(error.contains("given up") && error.contains("503: still busy"), "{error}");

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut client = Client::new(&format!("http://{free}"), options).unwrap();
    let error = format!("{:#}", client.send_again("POST", "/write", "", b"").await.unwrap_err());
    assert!(error.contains("given up") && error.contains("connect"), "{error}");
}

#[tokio::test]
async fn a_refusal_is_not_tried_again_and_an_internal_error_is_not_busy() {
    for (status, body) in [(400, "bad line"), (500, "panic"), (404, "")] {
        let fake = serve(move |_, _| reply(status, "", body)).await;
        let mut client = Client::new(&fake.url, quick()).unwrap();
        let (sent, repeats) = client.send_again("POST", "/write", "", b"").await.unwrap();
        assert_eq!((sent.status, repeats), (status, Repeats::default()));
    }
}

#[tokio::test]
async fn silence_floods_and_nonsense_are_errors() {
    let fake = serve(|_, _| Act::Send(Vec::new())).await;
    let options = HttpOptions { request_timeout: Duration::from_millis(50), ..quick() };
    let mut client = Client::new(&fake.url, options).unwrap();
    assert!(format!("{:#}", client.send("GET", "/", "", b"").await.unwrap_err()).contains("no reply within 50ms"));

    let replies: [(&[u8], &str); 6] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n", "exceeds the limit of 1000"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n", "exceeds the limit of 1000"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "invalid chunk size"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "expected a number"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "closed the connection"),
        (b"220 smtp ready\r\n\r\n", "expected an HTTP/1.1 reply"),
    ];
    for (bytes, expected) in replies {
        let fake = serve(move |_, _| Act::Close(bytes.into())).await;
        let mut client = Client::new(&fake.url, HttpOptions { max_reply: 1000, ..quick() }).unwrap();
        let error = format!("{:#}", client.send("GET", "/", "", b"").await.unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn only_plain_http_addresses_are_taken() {
    for url in ["https://host", "host:80", "http://", "http://user@host", "http://host?x"] {
        assert!(Client::new(url, quick()).unwrap_err().to_string().contains("expected http://host:port"), "{url}");
    }
    assert_eq!(Client::new("http://host", quick()).unwrap().authority, "host:80");
    assert_eq!(Client::new("http://[::1]:8086/a/", quick()).unwrap().base, "/a");
}
