//! Socket addresses, of one family or of either.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address to which a [`UdpPort`](crate::UdpPort) sends and from which it receives: of IPv4, of IPv6, or of one of
/// them.
pub trait Address: Copy + Eq + fmt::Debug + fmt::Display + Into<SocketAddr> {
    /// The address as this type, if it is of this family.
    fn of(address: SocketAddr) -> Option<Self>;

    /// UDP port `port` of `address` as a destination from this address, if the families agree.
    fn reach(self, address: IpAddr, port: u16) -> Option<Self>;

    /// The IP address.
    fn ip_address(self) -> IpAddr;

    /// The UDP port.
    fn udp_port(self) -> u16;
}

/// An address whose family is known when the port is opened. All addresses of a port are of its family.
impl Address for SocketAddr {
    #[inline]
    fn of(address: SocketAddr) -> Option<Self> {
        Some(address)
    }

    #[inline]
    fn reach(self, address: IpAddr, port: u16) -> Option<Self> {
        match self {
            Self::V4(own) => own.reach(address, port).map(Self::V4),
            Self::V6(own) => own.reach(address, port).map(Self::V6),
        }
    }

    #[inline]
    fn ip_address(self) -> IpAddr {
        self.ip()
    }

    #[inline]
    fn udp_port(self) -> u16 {
        self.port()
    }
}

impl Address for SocketAddrV4 {
    #[inline]
    fn of(address: SocketAddr) -> Option<Self> {
        if let SocketAddr::V4(address) = address { Some(address) } else { None }
    }

    #[inline]
    fn reach(self, address: IpAddr, port: u16) -> Option<Self> {
        if let IpAddr::V4(address) = address { Some(Self::new(address, port)) } else { None }
    }

    #[inline]
    fn ip_address(self) -> IpAddr {
        IpAddr::V4(*self.ip())
    }

    #[inline]
    fn udp_port(self) -> u16 {
        self.port()
    }
}

impl Address for SocketAddrV6 {
    #[inline]
    fn of(address: SocketAddr) -> Option<Self> {
        if let SocketAddr::V6(address) = address { Some(address) } else { None }
    }

    /// A link-local destination is on the same link as this address.
    #[inline]
    fn reach(self, address: IpAddr, port: u16) -> Option<Self> {
        if let IpAddr::V6(address) = address {
            Some(Self::new(address, port, 0, self.scope_id()))
        } else {
            None
        }
    }

    #[inline]
    fn ip_address(self) -> IpAddr {
        IpAddr::V6(*self.ip())
    }

    #[inline]
    fn udp_port(self) -> u16 {
        self.port()
    }
}
