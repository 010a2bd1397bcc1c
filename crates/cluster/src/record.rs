//! The content of the register in which keepers store the state of the membership service, byte by byte.
//!
//! Numbers are big-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | term |
//! | 1 | flags: 1 a state follows, 2 the cluster has halted, 4 the state has the cluster's name, 8 it has a profile |
//! | 4 | epoch |
//! | 1 | number of nodes |
//! | 9 each | role: 0 out, 1 joining, 2 full; incarnation, 0 for none |
//! | 1 | number of holders |
//! | 6 each | the first epoch of these full members; their set |
//! | 1, and as many | length of the name; the name, if there is one |
//! | rest | the profile, if there is one |

use weft_register::VALUE_BYTES_MAX;
use weft_waist::{Epoch, NODES_MAX, NodeId, NodeSet};

use crate::config::engines::{KEPT_NAMES_BYTES_MAX, NAMES_BYTES_MAX};
use crate::durable::{Durable, Holders, NodeRecord, Role};
use crate::identity::ClusterName;
use crate::membership::Incarnation;
use crate::profile::{PROFILE_BYTES_MAX, Profile};

/// Bytes of the longest record with one set of holders, without its profile.
const BYTES_MAX: usize = 4 + 1 + 4 + 1 + 9 * NODES_MAX + 1 + 6 + 1 + ClusterName::BYTES_MAX;
const _: () = assert!(
    BYTES_MAX + PROFILE_BYTES_MAX - NAMES_BYTES_MAX + KEPT_NAMES_BYTES_MAX <= VALUE_BYTES_MAX,
    "the profile of a cluster with keepers fits into the register"
);
const STORED: u8 = 1;
const HALTED: u8 = 2;
const NAMED: u8 = 4;
const PROFILED: u8 = 8;

/// The state of the membership service, and the term of the keeper that has stored it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of keepers that have held the service, one after the other.
    pub term: u32,
    /// The state; `None` before the first view.
    pub durable: Option<Durable>,
}

impl Record {
    /// The record as bytes; `None` if it does not fit into the register. A profile that does not fit is left out: then
    /// a successor learns it from the next node that starts.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let fits = |bytes: &Vec<u8>| bytes.len() <= VALUE_BYTES_MAX;
        Some(self.to_bytes(true)).filter(fits).or_else(|| Some(self.to_bytes(false)).filter(fits))
    }

    fn to_bytes(&self, with_profile: bool) -> Vec<u8> {
        let mut bytes = self.term.to_be_bytes().to_vec();
        let Some(durable) = &self.durable else {
            bytes.push(0);
            return bytes;
        };
        let profile = durable.profile().filter(|_| with_profile);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        bytes.push(
            STORED
                | flag(durable.halted(), HALTED)
                | flag(durable.cluster().is_some(), NAMED)
                | flag(profile.is_some(), PROFILED),
        );
        bytes.extend(durable.view().epoch.0.to_be_bytes());
        bytes.push(durable.nodes().len() as u8);
        for NodeRecord { role, incarnation } in durable.nodes() {
            bytes.push(match role {
                Role::Out => 0,
                Role::Joining => 1,
                Role::Full => 2,
            });
            bytes.extend(incarnation.map_or(0, Incarnation::get).to_be_bytes());
        }
        // More holders than fit into a byte do not fit into the register either.
        bytes.push(u8::try_from(durable.holders().len()).unwrap_or(u8::MAX));
        for Holders { since, full } in durable.holders() {
            bytes.extend(since.0.to_be_bytes());
            bytes.extend(full.bits().to_be_bytes());
        }
        let name = durable.cluster();
        let name = name.as_ref().map_or("", ClusterName::as_str);
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
        if let Some(profile) = profile {
            profile.encode(&mut bytes);
        }
        bytes
    }

    /// Parses a record; `None` if the bytes are none. A register that was never set has no bytes, and an empty record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let mut rest = bytes;
        let term = u32::from_be_bytes(take(&mut rest)?);
        let [flags] = take(&mut rest)?;
        let has = |flag: u8| flags & flag != 0;
        if !has(STORED) {
            return (flags == 0 && rest.is_empty()).then_some(Self { term, durable: None });
        }
        let epoch = Epoch(u32::from_be_bytes(take(&mut rest)?));
        let [count] = take(&mut rest)?;
        let mut nodes = Vec::with_capacity(count.into());
        for _ in 0..count {
            let role = match take(&mut rest)? {
                [0] => Role::Out,
                [1] => Role::Joining,
                [2] => Role::Full,
                _ => return None,
            };
            let number = u64::from_be_bytes(take(&mut rest)?);
            let incarnation = Incarnation::new(number);
            if incarnation.is_none() && number != 0 {
                return None;
            }
            nodes.push(NodeRecord { role, incarnation });
        }
        let [held] = take(&mut rest)?;
        let mut holders = Vec::with_capacity(held.into());
        for _ in 0..held {
            let since = Epoch(u32::from_be_bytes(take(&mut rest)?));
            let full = NodeSet::from_bits(u16::from_be_bytes(take(&mut rest)?));
            if full.iter().map(NodeId::index).any(|node| node >= nodes.len()) {
                return None;
            }
            holders.push(Holders { since, full });
        }
        let [length] = take(&mut rest)?;
        let (name, rest) = rest.split_at_checked(length.into())?;
        let name = match has(NAMED) {
            true => Some(ClusterName::new(std::str::from_utf8(name).ok()?)?),
            false if name.is_empty() => None,
            false => return None,
        };
        let profile = match has(PROFILED) {
            true => Some(Profile::decode(rest).filter(|profile| profile.nodes() == nodes.len())?),
            false if rest.is_empty() => None,
            false => return None,
        };
        let durable = Durable::new(epoch, has(HALTED), nodes).ok()?.held_by(holders);
        let durable = match name {
            Some(name) => durable.of_cluster(name, profile),
            None => durable,
        };
        Some(Self { term, durable: Some(durable) })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::tests::store;

    fn durable() -> impl Strategy<Value = Durable> {
        let node = (0..3u8, 1..u64::MAX / 2).prop_map(|(role, number)| NodeRecord {
            role: [Role::Out, Role::Joining, Role::Full][usize::from(role)],
            incarnation: Incarnation::new(number),
        });
        let nodes = prop::collection::vec(node, 2..=16);
        let holders = prop::collection::vec((any::<u32>(), 1..4u16), 0..20);
        (nodes, holders, 1..u32::MAX, any::<(bool, bool, bool)>()).prop_map(
            |(mut nodes, holders, epoch, (halted, named, profiled))| {
                nodes[0].role = Role::Full;
                let count = nodes.len();
                let holders = holders
                    .into_iter()
                    .map(|(since, full)| Holders { since: Epoch(since), full: NodeSet::from_bits(full) });
                let durable = Durable::new(Epoch(epoch), halted, nodes).unwrap().held_by(holders.collect());
                let profile = profiled.then(|| store(count, 10));
                if named { durable.of_cluster(ClusterName::default(), profile) } else { durable }
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_survives_a_round_trip(term in any::<u32>(), durable in prop::option::of(durable())) {
            let record = Record { term, durable };
            let bytes = record.encode().expect("it fits");
            prop_assert_eq!(Record::decode(&bytes), Some(record));
            for end in 1..bytes.len() {
                prop_assert!(Record::decode(&bytes[..end]).as_ref() != Record::decode(&bytes).as_ref());
            }
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Record::decode(&bytes);
        }
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused() {
        let node = NodeRecord { role: Role::Full, incarnation: Some(Incarnation::FIRST) };
        let holders = |count| vec![Holders { since: Epoch(1), full: NodeSet::first(1) }; count];
        let record = |count| {
            let durable = Durable::new(Epoch(1), false, vec![node]).unwrap().held_by(holders(count));
            Record { term: 1, durable: Some(durable) }
        };
        assert!(record(200).encode().is_some());
        assert_eq!(record(300).encode(), None);
        assert_eq!(Record::decode(&[]), Some(Record::default()));
    }
}
