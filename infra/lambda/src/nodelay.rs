//! Sets TCP_NODELAY on the process's sockets.
//!
//! A streamed response goes to the Runtime API in several small writes. By default the system delays each until the
//! previous one is acknowledged, and the peer delays acknowledgements by 40 ms. The client of `lambda_runtime` has no
//! option for TCP_NODELAY.

#![allow(unsafe_code, reason = "the sockets are owned by that client")]

use std::os::fd::BorrowedFd;

use socket2::SockRef;

/// Sets TCP_NODELAY on all TCP sockets of this process.
pub(crate) fn set() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    for number in open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok()).filter(|n| *n >= 0) {
        // SAFETY: the descriptor is used for one call. If it was closed meanwhile, the call fails; if its number was
        // reused, the option is set on the new socket, which is harmless.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        // Fails for other descriptors than TCP sockets.
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
