//! The options that `weft run` passes to a program's device, in environment variables.

use std::net::{IpAddr, Ipv4Addr};

use weft_device::environment::{ADDRESS, DEVICE, MTU};
use weft_verbs::PathMtu;

/// Options of the device that programs see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// IPv4 address of the device.
    pub address: Ipv4Addr,
    /// Name under which programs find the device.
    pub name: String,
    /// The most payload bytes in a packet.
    pub mtu: PathMtu,
}

impl Options {
    /// Reads the options from the environment.
    ///
    /// # Errors
    /// One line that says which variable is invalid.
    pub fn of_environment() -> Result<Self, String> {
        Self::of(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn of(read: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let address = match read(ADDRESS) {
            None => Ipv4Addr::LOCALHOST,
            Some(text) => match text.parse() {
                Ok(IpAddr::V4(address)) => address,
                _ => return Err(format!("{ADDRESS}={text} is no IPv4 address")),
            },
        };
        let name = read(DEVICE).unwrap_or_else(|| "weft0".into());
        if name.len() > 63 || name.contains('/') {
            return Err(format!("{DEVICE}={name} is no name for a device"));
        }
        let mtu = match read(MTU) {
            // A packet of 4,096 bytes fits into a frame of loopback, one of 1,024 into any Ethernet frame.
            None if address.is_loopback() => PathMtu::Bytes4096,
            None => PathMtu::Bytes1024,
            Some(text) => PathMtu::ALL
                .into_iter()
                .find(|mtu| mtu.bytes().to_string() == text)
                .ok_or(format!("{MTU}={text} is none of 256, 512, 1024, 2048 and 4096"))?,
        };
        Ok(Self { address, name, mtu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Options, String> {
        Options::of(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_string()))
    }

    #[test]
    fn the_environment_says_what_the_device_is_like() {
        let plain = options(&[]).unwrap();
        assert_eq!((plain.address, plain.name.as_str()), (Ipv4Addr::LOCALHOST, "weft0"));
        assert_eq!(plain.mtu, PathMtu::Bytes4096);
        let other = options(&[(ADDRESS, "10.0.0.1"), (DEVICE, "a"), (MTU, "")]);
        assert!(other.is_err(), "an empty MTU is filtered where the environment is read, not here");
        assert_eq!(options(&[(ADDRESS, "10.0.0.1")]).unwrap().mtu, PathMtu::Bytes1024);
        assert_eq!(options(&[(MTU, "2048")]).unwrap().mtu, PathMtu::Bytes2048);
        for wrong in [(ADDRESS, "::1"), (ADDRESS, "host"), (MTU, "1500"), (DEVICE, "a/b")] {
            assert!(options(&[wrong]).unwrap_err().contains(wrong.0));
        }
    }
}
