//! Why the nodes reject the datagrams of this client: it has no key, or another one.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};

use weft_net::UdpPort;

use crate::Error;

/// What this client has instead of the cluster's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMismatch {
    NoKey = 1,
    OtherKey = 2,
}

impl KeyMismatch {
    /// What a datagram says that has come in plaintext: nodes that seal theirs answer in this way.
    pub fn of_datagram(bytes: &[u8]) -> Option<Self> {
        weft_seal::is_handshake(bytes).then_some(Self::NoKey)
    }

    /// What the counters of a sealed port say.
    pub fn of_port(port: &UdpPort<SocketAddr>) -> Option<Self> {
        let counters = port.seal_counters()?;
        (counters.seal_handshakes == 0 && counters.seal_bad_tag > 0).then_some(Self::OtherKey)
    }

    /// What is wrong and what to do, in half a line.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NoKey => {
                "they seal their datagrams; add [security] with the cluster's key_file to the configuration"
            }
            Self::OtherKey => {
                "their key or the cluster's name is another; copy weft.toml and the key file from a node"
            }
        }
    }
}

/// The mismatch that is known now, for all threads.
#[derive(Debug, Default)]
pub(crate) struct MismatchCell(AtomicU8);

/// A node has answered this client.
const HEARD: u8 = u8::MAX;

impl MismatchCell {
    /// Notes that a node has answered. From now on it is possible that nodes have taken calls, whatever they say later.
    pub fn heard(&self) {
        self.0.store(HEARD, Ordering::Relaxed);
    }

    /// Notes the mismatch that the nodes tell now.
    pub fn note(&self, mismatch: Option<KeyMismatch>) {
        let mismatch = mismatch.map_or(0, |mismatch| mismatch as u8);
        let unheard = |known| (known != HEARD).then_some(mismatch);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unheard);
    }

    /// The error of a call, which says why nobody has answered.
    pub fn explain(&self, error: Error) -> Error {
        let known = self.0.load(Ordering::Relaxed);
        let mismatches = [KeyMismatch::NoKey, KeyMismatch::OtherKey];
        match (error, mismatches.into_iter().find(|mismatch| *mismatch as u8 == known)) {
            (Error::NotBegun { .. } | Error::Unknown { .. }, Some(mismatch)) => {
                Error::KeyMismatch(mismatch.remedy())
            }
            (error, _) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_time::Duration;

    use super::*;

    #[test]
    fn only_a_client_that_was_never_answered_is_sure_that_nothing_has_happened() {
        let unknown = || Error::Unknown { after: Duration::from_secs(5) };
        let cell = MismatchCell::default();
        assert_eq!(cell.explain(unknown()), unknown());
        cell.note(Some(KeyMismatch::NoKey));
        assert_eq!(cell.explain(unknown()), Error::KeyMismatch(KeyMismatch::NoKey.remedy()));
        cell.note(None);
        assert_eq!(cell.explain(unknown()), unknown());
        cell.heard();
        cell.note(Some(KeyMismatch::OtherKey));
        assert_eq!(cell.explain(unknown()), unknown());
    }
}
