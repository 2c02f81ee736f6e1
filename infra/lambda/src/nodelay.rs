//! Sockets that send what they have at once.
//!
//! An answer that is streamed goes to the Runtime API in several small writes. By default the system holds each back until
//! the one before is acknowledged, which the other side puts off for 40 ms. The client of `lambda_runtime` has no setting for it.

#![allow(unsafe_code, reason = "the sockets are owned by that client")]

use std::os::fd::BorrowedFd;

use socket2::SockRef;

/// Has all TCP sockets of this process send at once.
pub(crate) fn set() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    for number in open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok()).filter(|n| *n >= 0) {
        // SAFETY: the descriptor is used for one call. If it was closed meanwhile, the call fails; if another one has its
        // number by now, that sends at once, which harms nothing.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        // Whatever is no TCP socket refuses it.
        let _ = SockRef::from(&socket).set_tcp_nodelay(true);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn every_tcp_socket_sends_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let streams = [(); 3].map(|()| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        assert!(streams.iter().all(|stream| !stream.nodelay().unwrap()));
        super::set();
        assert!(streams.iter().all(|stream| stream.nodelay().unwrap()));
    }
}
