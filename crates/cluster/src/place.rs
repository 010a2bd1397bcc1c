//! Where the machines of a cluster are: hosts by address or by name, and ports.
//!
//! This is the one parser of addresses in configurations. Names are resolved by the world, never here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

/// Length of the longest name in bytes (RFC 1035, section 2.3.4, without the label of the root).
pub(crate) const NAME_BYTES_MAX: usize = 253;
/// Length of the longest label of a name in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// A machine: an IP address, or a name that resolves to one.
///
/// An IPv6 address stands bare, `fd00::1`; before a port, in a [`Place`], it stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address. IPv4 addresses in the notation of IPv6 are IPv4 addresses.
    Address(IpAddr),
    /// A name.
    Name(HostName),
}

/// A host's name in lower case: labels of letters, digits, hyphens and underscores, separated by dots (RFC 1123,
/// section 2.1; underscores occur in names of containers). The last label is no number, so that a mistyped IPv4 address
/// is no name. A dot at the end says that the name is complete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostName(String);

/// A host and a port, as text `10.0.0.1:4793`, `[fd00::1]:4793` or `node0.example:4793`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The machine.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Place {
    /// Appends the place as bytes. An IPv4 address is 4 bytes, followed by the port, 2 bytes, big-endian. No address of
    /// a machine begins with 0, so the others do: 0, 0, the 16 bytes of an IPv6 address, the port; or 0, the length of
    /// a name, which is not 0, the name, the port.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match &self.host {
            Host::Address(IpAddr::V4(address)) => out.extend(address.octets()),
            Host::Address(IpAddr::V6(address)) => {
                out.extend([0, 0]);
                out.extend(address.octets());
            }
            Host::Name(HostName(name)) => {
                out.extend([0, name.len() as u8]);
                out.extend(name.as_bytes());
            }
        }
        out.extend(self.port.to_be_bytes());
    }

    /// Number of bytes that [`Place::encode`] appends.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let host = match &self.host {
            Host::Address(IpAddr::V4(_)) => 4,
            Host::Address(IpAddr::V6(_)) => 2 + 16,
            Host::Name(HostName(name)) => 2 + name.len(),
        };
        host + 2
    }

    /// Takes a place from the front of `bytes`, and returns it with the bytes behind it; `None` if [`Place::encode`]
    /// never writes such bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (host, rest) = match bytes {
            [0, 0, rest @ ..] => {
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let address = Ipv6Addr::from(*address);
                (Some(Host::from(address)).filter(|host| host.family() == Some(Family::V6))?, rest)
            }
            [0, length, rest @ ..] => {
                let (name, rest) = rest.split_at_checked(usize::from(*length))?;
                let name = str::from_utf8(name).ok()?;
                (Host::Name(HostName::new(name).filter(|known| known.0 == name)?), rest)
            }
            _ => {
                let (address, rest) = bytes.split_first_chunk::<4>()?;
                (Ipv4Addr::from(*address).into(), rest)
            }
        };
        let (port, rest) = rest.split_first_chunk()?;
        Some((Self { host, port: u16::from_be_bytes(*port) }, rest))
    }
}

/// A version of IP. All addresses of a cluster are of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A text that is no [`Host`] or no [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give {wanted}")]
pub struct NoPlace {
    wanted: &'static str,
}

impl Host {
    /// What a host looks like, for error messages.
    pub(crate) const WANTED: &str =
        "an IPv4 or IPv6 address or a host name, as \"10.0.0.1\", \"fd00::1\" or \"node0.example\"";

    /// The version of IP of an address; `None` for a name.
    pub fn family(&self) -> Option<Family> {
        match self {
            Self::Address(address) => Some(Family::of(*address)),
            Self::Name(_) => None,
        }
    }

    /// Whether others may send to the host, as far as that can be told: an address must be one machine's, and an
    /// address that is valid on one link only would need the link's name. IPv4 addresses that begin with 0 belong to
    /// no machine (RFC 6890).
    pub fn is_reachable(&self) -> bool {
        match self {
            Self::Address(IpAddr::V4(address)) => {
                address.octets()[0] != 0 && !address.is_multicast() && !address.is_broadcast()
            }
            Self::Address(IpAddr::V6(address)) => {
                !address.is_unspecified() && !address.is_multicast() && !address.is_unicast_link_local()
            }
            Self::Name(_) => true,
        }
    }
}

impl HostName {
    /// A name; `None` if the text is none.
    pub fn new(text: &str) -> Option<Self> {
        let labels = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(is_allowed)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = text.len() <= NAME_BYTES_MAX
            && labels.split('.').all(is_label)
            && labels.rsplit('.').next().is_some_and(|last| !is_number(last));
        is_name.then(|| Self(text.to_ascii_lowercase()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Place {
    /// What a place looks like, for error messages.
    pub(crate) const WANTED: &str = "an IPv4 or IPv6 address or a host name, and a port, as \"10.0.0.1:4794\", \"[fd00::1]:4794\" or \
                                     \"node0.example:4794\"";

    /// A port of a host.
    pub fn new(host: impl Into<Host>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The address, unless the host is known by name.
    pub const fn address(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Address(address) => Some(SocketAddr::new(address, self.port)),
            Host::Name(_) => None,
        }
    }
}

impl Family {
    /// The version of IP of an address.
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Bytes of an IP header of this version without options, and of a UDP header.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::V4 => 20 + 8,
            Self::V6 => 40 + 8,
        }
    }
}

impl FromStr for Host {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(address.into()),
            Err(_) => HostName::new(text).map(Self::Name).ok_or(NoPlace { wanted: Self::WANTED }),
        }
    }
}

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let error = NoPlace { wanted: Self::WANTED };
        let (host, port) = text.rsplit_once(':').ok_or(error)?;
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or(error)?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match in_brackets {
            Some(address) => address.parse::<Ipv6Addr>().map(Host::from).map_err(|_| error)?,
            None if host.contains(':') => return Err(error),
            None => host.parse().map_err(|_| error)?,
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl From<Ipv4Addr> for Host {
    fn from(address: Ipv4Addr) -> Self {
        IpAddr::from(address).into()
    }
}

impl From<Ipv6Addr> for Host {
    fn from(address: Ipv6Addr) -> Self {
        IpAddr::from(address).into()
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip(), address.port())
    }
}

impl From<SocketAddrV4> for Place {
    fn from(address: SocketAddrV4) -> Self {
        Self::new(*address.ip(), address.port())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hosts of every kind.
    pub(crate) fn host() -> impl Strategy<Value = Host> {
        let label = "[a-z0-9_]([a-z0-9_-]{0,20}[a-z0-9_])?";
        let name = (prop::collection::vec(label, 0..4), "[a-z_]([a-z0-9_-]{0,20}[a-z0-9_])?", any::<bool>());
        let name = name.prop_map(|(labels, last, is_whole)| {
            let mut name = labels.into_iter().chain([last]).collect::<Vec<_>>().join(".");
            name.extend(is_whole.then_some('.'));
            Host::Name(HostName::new(&name).expect("the strategy makes names"))
        });
        prop_oneof![any::<Ipv4Addr>().prop_map(Host::from), any::<Ipv6Addr>().prop_map(Host::from), name]
    }

    /// Places to which one can send.
    pub(crate) fn place() -> impl Strategy<Value = Place> {
        let host = host().prop_filter("one can send there", Host::is_reachable);
        (host, any::<u16>()).prop_map(|(host, port)| Place { host, port })
    }

    #[test]
    fn a_host_is_an_address_or_a_name() {
        let host = |text: &str| text.parse::<Host>();
        assert_eq!(host("10.0.0.1"), Ok(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(host("::1"), Ok(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(host("::ffff:10.0.0.1"), host("10.0.0.1"));
        let name = host("Weft-0.weft.default.svc.cluster.local").unwrap();
        assert_eq!(name.to_string(), "weft-0.weft.default.svc.cluster.local");
        assert_eq!((name.family(), host("::1").unwrap().family()), (None, Some(Family::V6)));
        for text in ["localhost", "a", "node_1", "3com.example", "whole.example.", &"x".repeat(63)] {
            assert!(matches!(host(text), Ok(Host::Name(_))), "{text}");
        }
        let long = vec!["x".repeat(63); 4].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "-a",
            "a-",
            "a b",
            "a:b",
            "na\u{ef}ve",
            "[::1]",
            "::1%lo",
            "10.0.0.256",
            "10.0.0",
            "7",
            "1.2.3.4.",
            "a/b",
            "a\n",
            &"x".repeat(64),
            &long,
        ] {
            assert_eq!(host(text), Err(NoPlace { wanted: Host::WANTED }), "{text:?}");
        }
    }

    #[test]
    fn an_ipv6_address_before_a_port_stands_in_brackets() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("[::1]:4794").unwrap(), Place::new(Ipv6Addr::LOCALHOST, 4794));
        assert_eq!(place("10.0.0.1:0").unwrap(), Place::new(Ipv4Addr::new(10, 0, 0, 1), 0));
        assert_eq!(place("weft-0.weft:4794").unwrap().to_string(), "weft-0.weft:4794");
        assert_eq!(place("weft-0.weft:4794").unwrap().address(), None);
        assert_eq!(place("[::1]:4794").unwrap().address(), Some("[::1]:4794".parse().unwrap()));
        for text in [
            "",
            ":",
            ":1",
            "a",
            "a:",
            "a:x",
            "a:+1",
            "a:65536",
            "::1:4794",
            "::1",
            "[::1]",
            "[::1]4794",
            "[10.0.0.1]:1",
            "[a]:1",
            "a:1:2",
            "[::1:1",
            "::1]:1",
        ] {
            assert_eq!(place(text), Err(NoPlace { wanted: Place::WANTED }), "{text:?}");
        }
    }

    #[test]
    fn some_addresses_are_no_machines() {
        let is_reachable = |text: &str| text.parse::<Host>().unwrap().is_reachable();
        for text in ["0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "fe80::1"] {
            assert!(!is_reachable(text), "{text}");
        }
        for text in ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "2001:db8::1", "localhost"] {
            assert!(is_reachable(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_the_same(host in host(), port: u16) {
            prop_assert_eq!(host.to_string().parse(), Ok(host.clone()));
            let place = Place { host, port };
            prop_assert_eq!(place.to_string().parse(), Ok(place.clone()));
            if let Some(address) = place.address() {
                prop_assert_eq!(address.to_string().parse(), Ok(place));
            }
        }

        #[test]
        fn a_place_survives_as_bytes(place in place(), behind in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut bytes = Vec::new();
            place.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), place.encoded_bytes());
            prop_assert_eq!(Place::decode(&bytes[..bytes.len() - 1]), None);
            bytes.extend(&behind);
            prop_assert_eq!(Place::decode(&bytes), Some((place, &behind[..])));
        }

        #[test]
        fn no_bytes_have_two_places(bytes in prop::collection::vec(any::<u8>(), 0..24), name in "[ -~]{1,8}", kind in 0..3) {
            let bytes = match kind {
                0 => bytes,
                1 => [&[0, 0], &bytes[..]].concat(),
                _ => [&[0, name.len() as u8], name.as_bytes(), &[1, 2]].concat(),
            };
            if let Some((place, rest)) = Place::decode(&bytes) {
                let mut again = Vec::new();
                place.encode(&mut again);
                prop_assert_eq!([&again, rest].concat(), bytes);
            }
        }

        #[test]
        fn no_text_has_two_readings(text in "[ -~]{0,24}") {
            if let Ok(host) = text.parse::<Host>() {
                prop_assert_eq!(host.to_string().parse(), Ok(host));
            }
            if let Ok(place) = text.parse::<Place>() {
                prop_assert_eq!(place.to_string().parse(), Ok(place.clone()));
                prop_assert!(text.ends_with(|last: char| last.is_ascii_digit()));
            }
        }
    }
}
