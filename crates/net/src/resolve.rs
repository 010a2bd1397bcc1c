//! The addresses that hosts' names have now.

use std::io;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use weft_cluster::{Family, Host, HostName};
use weft_time::Duration;

use crate::Stop;

/// How long to wait before a name is looked up again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Looks up all addresses of a name, and may block for seconds.
pub(crate) trait Lookup: Fn(&HostName) -> io::Result<Vec<IpAddr>> + Send + 'static {}

impl<F: Fn(&HostName) -> io::Result<Vec<IpAddr>> + Send + 'static> Lookup for F {}

/// The system's lookup: the hosts file, the domain name system, and whatever else it is configured to ask. Addresses
/// that are valid on one link only are left out.
pub(crate) fn system_lookup(name: &HostName) -> io::Result<Vec<IpAddr>> {
    let found = (name.as_str(), 0).to_socket_addrs()?.map(|found| found.ip().to_canonical());
    Ok(found.filter(|address| Host::from(*address).is_reachable()).collect())
}

/// Which of the addresses `found` a host has: `current`, if it is still one of them, otherwise the first of `family`.
/// Without a family, IPv4 comes first.
///
/// # Errors
/// Why there is none, in half a line.
pub(crate) fn choose(
    name: &HostName,
    found: io::Result<Vec<IpAddr>>,
    family: Option<Family>,
    current: Option<IpAddr>,
) -> Result<IpAddr, String> {
    let found = found.map_err(|error| format!("{name} does not resolve ({error})"))?;
    let first = |family| found.iter().copied().find(|address| Family::of(*address) == family);
    let kept = current.filter(|current| found.contains(current));
    let chosen = kept.or_else(|| match family {
        Some(family) => first(family),
        None => first(Family::V4).or_else(|| first(Family::V6)),
    });
    chosen.ok_or_else(|| match family {
        Some(family) => format!("{name} has no {family} address"),
        None => format!("{name} has no address"),
    })
}

/// The address at which this machine is `host`: waits until the name resolves to an address of an interface, and logs
/// what it waits for. `None` if `stop` is requested before.
///
/// # Errors
/// The kernel's error, if it grants no more file descriptors.
pub(crate) fn own_address(host: &Host, family: Option<Family>, stop: &Stop) -> io::Result<Option<IpAddr>> {
    let name = match host {
        Host::Address(address) => return Ok(Some(*address)),
        Host::Name(name) => name,
    };
    let mut said = String::new();
    loop {
        let missing = match choose(name, system_lookup(name), family, None) {
            Ok(address) if is_own(address) => return Ok(Some(address)),
            Ok(address) => format!("{name} is at {address}, which no interface of this machine has"),
            Err(reason) => reason,
        };
        if missing != said {
            tracing::warn!(%name, "waits for an own address: {missing}; trying again each second");
            said = missing;
        }
        if stop.wait(RETRY)? {
            return Ok(None);
        }
    }
}

/// Whether an interface has the address. Other errors than that are reported when a port is opened.
fn is_own(address: IpAddr) -> bool {
    !UdpSocket::bind((address, 0)).is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// A name to look up, with the number under which the answer comes.
type Question = (usize, HostName);
/// The addresses of the name with this number.
type Answer = (usize, io::Result<Vec<IpAddr>>);

/// A thread that looks up names, one after the other. It ends with the lookup after which this value is gone.
#[derive(Debug)]
pub(crate) struct Resolver {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
}

impl Resolver {
    pub(crate) fn start(lookup: impl Lookup) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel::<Question>();
        let (to, answers) = mpsc::channel();
        thread::Builder::new().name("names".to_owned()).spawn(move || {
            for (number, name) in asked {
                if to.send((number, lookup(&name))).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { questions, answers })
    }

    /// Asks for a name. Does not block.
    pub(crate) fn ask(&self, number: usize, name: &HostName) {
        // The thread ends after this value.
        let _ = self.questions.send((number, name.clone()));
    }

    /// The next answer, if there is one. Does not block.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(found: &[&str], family: Option<Family>, current: Option<&str>) -> Result<String, String> {
        let name = HostName::new("node0.example").unwrap();
        let found = found.iter().map(|text| text.parse().unwrap()).collect();
        let address = choose(&name, Ok(found), family, current.map(|text| text.parse().unwrap()));
        address.map(|address| address.to_string())
    }

    #[test]
    fn an_address_is_kept_as_long_as_the_name_has_it() {
        let both = ["fd00::1", "10.0.0.1", "10.0.0.2"];
        assert_eq!(chosen(&both, None, None).as_deref(), Ok("10.0.0.1"));
        assert_eq!(chosen(&both, Some(Family::V6), None).as_deref(), Ok("fd00::1"));
        assert_eq!(chosen(&both, Some(Family::V4), Some("10.0.0.2")).as_deref(), Ok("10.0.0.2"));
        assert_eq!(chosen(&both, Some(Family::V4), Some("10.0.0.3")).as_deref(), Ok("10.0.0.1"));
        assert_eq!(chosen(&both[..1], None, None).as_deref(), Ok("fd00::1"));
        let error = chosen(&both[..1], Some(Family::V4), None).unwrap_err();
        assert_eq!(error, "node0.example has no IPv4 address");
        assert_eq!(chosen(&[], None, None).unwrap_err(), "node0.example has no address");
    }

    #[test]
    fn a_name_that_does_not_exist_is_named() {
        let name = HostName::new("nowhere.invalid").unwrap();
        let error = choose(&name, system_lookup(&name), None, None).unwrap_err();
        assert!(error.starts_with("nowhere.invalid does not resolve ("), "{error}");
    }

    #[test]
    fn an_own_address_is_waited_for_until_the_stop() {
        let stop = Stop::new().unwrap();
        let own = |host: &str| own_address(&host.parse().unwrap(), None, &stop).unwrap();
        assert_eq!(own("127.0.0.1"), Some([127, 0, 0, 1].into()));
        assert_eq!(own("localhost"), Some([127, 0, 0, 1].into()));
        stop.request();
        assert_eq!(own("nowhere.invalid"), None);
    }
}
