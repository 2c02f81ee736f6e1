//! Networks of IP addresses.

use std::{net::IpAddr, str::FromStr};

/// A network of IP addresses, such as 10.0.0.0/8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Network {
    address: u128,
    mask: u128,
}

/// An address as IPv6 bits; IPv4 is mapped.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

impl Network {
    /// Whether the network contains an address.
    pub fn has(&self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.address
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| ())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(longest);
        let host = longest.checked_sub(length).ok_or(())?;
        let mask = u128::MAX.checked_shl(host).unwrap_or(0);
        // Host bits are an error: 10.0.0.1/8 is ambiguous.
        (bits(address) & mask == bits(address)).then_some(Self { address: bits(address), mask }).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_their_addresses_and_no_others() {
        let network = |text: &str| text.parse::<Network>();
        let has = |text: &str, address: &str| network(text).unwrap().has(address.parse().unwrap());
        assert!(
            has("10.0.0.0/8", "10.255.1.2") && has("10.0.0.0/8", "::ffff:10.1.1.1") && !has("10.0.0.0/8", "11.0.0.1")
        );
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.8"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "2001:db8::1") && has("::/0", "1.2.3.4"));
        assert!(has("2001:db8::/32", "2001:db8:1::1") && !has("2001:db8::/32", "2001:db9::1"));
        for wrong in ["10.0.0.1/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "/8", "x", ""] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
