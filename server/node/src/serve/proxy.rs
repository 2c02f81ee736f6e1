//! PROXY protocol, versions 1 and 2: a load balancer sends the client's address at the start of a connection.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>. Read only from the networks named in the settings;
//! other peers could forge addresses.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::io::{AsyncRead, AsyncReadExt};

/// First bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// First bytes of version 1.
const WORD: &[u8] = b"PROXY ";
/// Longest header of version 1, in bytes.
const LONGEST_LINE: usize = 107;
/// Longest accepted header of version 2, in bytes: the addresses and the load balancer's extensions.
const LONGEST: usize = 4 << 10;

/// Reads exactly the header and returns the client's address; `None` if the load balancer connects for itself, as for
/// health checks, or gives no address.
///
/// # Errors
/// InvalidData for an invalid header; errors of the connection.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut begin = [0; SIGNATURE.len()];
    stream.read_exact(&mut begin).await?;
    if begin == SIGNATURE {
        return version_2(stream).await;
    }
    if !begin.starts_with(WORD) {
        return Err(wrong());
    }
    let mut line = begin.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LONGEST_LINE {
            return Err(wrong());
        }
        line.push(stream.read_u8().await?);
    }
    version_1(&line)
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the connection does not begin with a PROXY protocol header")
}

fn version_1(line: &[u8]) -> io::Result<Option<SocketAddr>> {
    let text = std::str::from_utf8(line).map_err(|_| wrong())?;
    let mut words = text.trim_end_matches("\r\n").split(' ').skip(1);
    let is_v4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        Some("UNKNOWN") => return Ok(None),
        _ => return Err(wrong()),
    };
    let words: Vec<&str> = words.collect();
    let [source, _, port, _] = words[..] else { return Err(wrong()) };
    let source: IpAddr = source.parse().map_err(|_| wrong())?;
    let port = port.parse().map_err(|_| wrong())?;
    if source.is_ipv4() == is_v4 { Ok(Some(SocketAddr::new(source, port))) } else { Err(wrong()) }
}

async fn version_2(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let (command, family) = (stream.read_u8().await?, stream.read_u8().await?);
    let length = usize::from(stream.read_u16().await?);
    if length > LONGEST {
        return Err(wrong());
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(wrong()),
    };
    let port = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    let v4 = || Some(SocketAddr::new(Ipv4Addr::from(<[u8; 4]>::try_from(rest.get(..4)?).ok()?).into(), port(8)?));
    let v6 = || Some(SocketAddr::new(Ipv6Addr::from(<[u8; 16]>::try_from(rest.get(..16)?).ok()?).into(), port(32)?));
    match family {
        _ if is_local => Ok(None),
        0x11 => v4().map(Some).ok_or_else(wrong),
        0x21 => v6().map(Some).ok_or_else(wrong),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        [&SIGNATURE[..], &[command, family], &(rest.len() as u16).to_be_bytes(), rest].concat()
    }

    #[tokio::test]
    async fn headers_of_both_versions_are_read_to_their_last_byte_and_no_further() {
        let v6: Ipv6Addr = "2001:db8::7".parse().unwrap();
        let addresses = [&[192, 0, 2, 7, 10, 0, 0, 1][..], &[0x12, 0x34, 0x1f, 0x96], &[3, 0, 4, 1, 2, 3, 4]].concat();
        let six = [&v6.octets()[..], &[0; 16], &[0, 80, 0, 81]].concat();
        for (header, expected) in [
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 4660 8086\r\n".to_vec(), Some("192.0.2.7:4660")),
            (b"PROXY TCP6 2001:db8::7 ::1 80 8086\r\n".to_vec(), Some("[2001:db8::7]:80")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN whatever it says\r\n".to_vec(), None),
            (v2(0x21, 0x11, &addresses), Some("192.0.2.7:4660")),
            (v2(0x21, 0x21, &six), Some("[2001:db8::7]:80")),
            (v2(0x20, 0x00, &[]), None),
            (v2(0x20, 0x11, &addresses), None),
            (v2(0x21, 0x31, &[0; 216]), None),
        ] {
            let sent = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            let mut stream = &sent[..];
            let found = read(&mut stream).await.unwrap();
            assert_eq!(found, expected.map(|text| text.parse().unwrap()), "{header:?}");
            assert_eq!(stream, b"GET / HTTP/1.1\r\n", "{header:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        let long = format!("PROXY TCP4 {}", "1".repeat(200));
        for sent in [
            b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4660\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::7 ::1 80 8086\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 70000 1\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.7 10.0.0.1 1 1\r\n".to_vec(),
            long.into_bytes(),
            v2(0x21, 0x11, &[1, 2, 3]),
            v2(0x31, 0x11, &[0; 12]),
            v2(0x21, 0x11, &vec![0; LONGEST + 1]),
            b"PROXY".to_vec(),
        ] {
            assert!(read(&mut &sent[..]).await.is_err(), "{sent:?}");
        }
    }
}
