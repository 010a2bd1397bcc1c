//! The NIC in software of a simulated node.

use weft_nic::{CardConfig, SoftNic, SoftNicConfig};
use weft_waist::{Engine, Memory};

use crate::{ClusterHost, KeyHolder, datagram_bytes, peers};

/// A NIC with these engines, at the addresses of `node` in a cluster of `nodes` nodes. It knows the addresses
/// of `neighbours`. It seals frames if it has keys.
pub fn soft_nic<E: Engine>(
    (node, nodes): (usize, usize),
    transport: weft_rdma::Config,
    engines: Vec<(E, Memory)>,
    neighbours: impl IntoIterator<Item = ClusterHost>,
    keys: Option<&KeyHolder>,
) -> SoftNic<E> {
    let (station, datagram_bytes) = (ClusterHost::node(node), datagram_bytes(keys.is_some()));
    let card = CardConfig { peers: peers(nodes), datagram_bytes, transport, region_bytes: 0 };
    let config = SoftNicConfig { hardware: station.hardware(), address: station.address(), card };
    let mut nic = SoftNic::new(config, engines);
    for neighbour in neighbours {
        nic.add_neighbour(neighbour.address(), neighbour.hardware());
    }
    if let Some(keys) = keys {
        nic.set_psp(keys.psp());
    }
    nic
}

/// Parameters of a card that uses datagrams only, without queue pairs.
pub fn no_queue_pairs() -> weft_rdma::Config {
    weft_rdma::Config { max_queue_pairs: 1, completion_queue_depth: 1, ..Default::default() }
}
