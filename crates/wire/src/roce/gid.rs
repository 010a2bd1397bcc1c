//! Global identifiers: the addresses of ports.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A GID of RoCE v2: an IPv6 address, or an IPv4 address mapped to IPv6 (annex A17.4).
///
/// It is printed as an IPv6 address, as in `/sys/class/infiniband/*/ports/*/gids`. The parser also accepts an
/// IPv4 address, and 32 digits without colons, as libibverbs' examples exchange them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

/// The text is not a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no GID: neither an IPv6 address, nor an IPv4 address, nor 32 hexadecimal digits")]
pub struct NoGid;

impl Gid {
    /// The IP address that the GID stands for.
    pub const fn address(self) -> IpAddr {
        self.ipv6().to_canonical()
    }

    const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from_be_bytes(self.0))
    }

    /// The GID as 32 hexadecimal digits.
    pub fn digits(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Self(address.octets()),
        }
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(address: Ipv4Addr) -> Self {
        Self(address.to_ipv6_mapped().octets())
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ipv6().fmt(f)
    }
}

impl FromStr for Gid {
    type Err = NoGid;

    fn from_str(text: &str) -> Result<Self, NoGid> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        let is_digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_digits).ok_or(NoGid)?;
        Ok(Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_texts_of_an_address_are_one_gid() {
        let gid = Gid::from(Ipv4Addr::new(10, 9, 0, 1));
        assert_eq!(gid.to_string(), "::ffff:10.9.0.1");
        assert_eq!(gid.address(), IpAddr::from([10, 9, 0, 1]));
        for text in ["10.9.0.1", "::ffff:10.9.0.1", "0000:0000:0000:0000:0000:ffff:0a09:0001", &gid.digits()]
        {
            assert_eq!(text.parse(), Ok(gid), "{text}");
        }
        let six: Gid = "fe80::5054:ff:fe00:2".parse().unwrap();
        assert_eq!((six.to_string().as_str(), six.digits().parse()), ("fe80::5054:ff:fe00:2", Ok(six)));
        assert!(six.address().is_ipv6());
    }

    #[test]
    fn other_texts_are_none() {
        for text in
            ["", "10.9.0", "fe80:::2", "00000000000000000000ffff0a09000", "+000000000000000000ffff0a090001"]
        {
            assert_eq!(text.parse::<Gid>(), Err(NoGid), "{text}");
        }
    }
}
