//! Restarts of either end heal by themselves.

use weft_seal::{ClusterKey, Endpoint, Opened, Parameters};
use weft_time::{Duration, Instant};

use crate::network::{CLUSTER, Network, Setting, address};

const ROUND_TRIP: Duration = Duration::from_us(600);

#[test]
fn the_first_datagrams_wait_for_the_handshake() {
    let mut network = Network::new(1, Setting::default());
    let ids: Vec<_> = (0..10).map(|_| network.send(0, 1).unwrap()).collect();
    network.pass(ROUND_TRIP * 2).unwrap();
    assert!(ids.iter().all(|id| network.has_arrived(*id)));
    assert_eq!(network.observed().1, 2, "one association, a key for each direction");
    // The responder uses it, too.
    let answer = network.send(1, 0).unwrap();
    network.pass(ROUND_TRIP).unwrap();
    assert!(network.has_arrived(answer));
    assert_eq!(network.observed().1, 2);
}

#[test]
fn a_restart_of_either_end_heals_within_two_round_trips() {
    for restarted in [0, 1] {
        for sender in [0, 1] {
            let mut network = Network::new(2, Setting::default());
            network.all_send().unwrap();
            network.pass(Duration::from_ms(20)).unwrap();
            network.restart(restarted);
            // What the other has sent before it knew of the restart is lost; the next is not.
            let first = network.send(sender, 1 - sender).unwrap();
            network.pass(ROUND_TRIP * 2).unwrap();
            assert_eq!(network.has_arrived(first), sender == restarted);
            for (from, to) in [(0, 1), (1, 0)] {
                let next = network.send(from, to).unwrap();
                network.pass(ROUND_TRIP).unwrap();
                assert!(network.has_arrived(next), "machine {restarted} was restarted, {sender} sends");
            }
        }
    }
}

#[test]
fn an_association_is_renewed_before_it_ends() {
    let parameters = Parameters { life: Duration::from_secs(20), ..Parameters::default() };
    let mut network = Network::new(3, Setting { parameters, ..Setting::default() });
    for second in 0..60 {
        let ids = [network.send(0, 1).unwrap(), network.send(1, 0).unwrap()];
        network.pass(Duration::from_secs(1)).unwrap();
        assert!(ids.iter().all(|id| network.has_arrived(*id)), "second {second}");
    }
    assert!(network.observed().1 >= 10, "{:?}", network.observed());
    // Both sides have been silent until all associations had ended.
    network.pass(Duration::from_secs(90)).unwrap();
    let id = network.send(1, 0).unwrap();
    network.pass(ROUND_TRIP * 2).unwrap();
    assert!(network.has_arrived(id));
}

fn endpoint(key: u8, cluster: &str) -> Endpoint {
    let random = &mut |bytes: &mut [u8]| bytes.fill(key);
    Endpoint::new(&ClusterKey::new([key; 32]), cluster, address(0), Parameters::default(), random)
}

#[test]
fn another_key_and_another_cluster_are_strangers() {
    let random = &mut |bytes: &mut [u8]| bytes.fill(9);
    for (key, cluster) in [(1, CLUSTER), (2, "other")] {
        let local = address(1);
        let key = ClusterKey::new([key; 32]);
        let mut stranger = Endpoint::new(&key, cluster, local, Parameters::default(), random);
        let mut node = endpoint(2, CLUSTER);
        stranger.hold(Instant::ZERO, address(0), vec![1], random);
        let (_, mut hello) = stranger.poll_transmit().unwrap();
        assert_eq!(node.open(Instant::ZERO, local, &mut hello, random), Opened::Refused);
        assert_eq!(node.counters().seal_bad_tag, 1);
        // It is told, once in a millisecond, and nothing else happens.
        let (_, mut told) = node.poll_transmit().unwrap();
        assert_eq!(told.len(), hello.len());
        assert_eq!((node.poll_transmit(), node.peers()), (None, (0, 0)));
        assert_eq!(stranger.open(Instant::ZERO, address(0), &mut told, random), Opened::Refused);
        assert_eq!((stranger.counters().seal_bad_tag, stranger.poll_transmit()), (1, None));
        node.open(Instant::ZERO, local, &mut hello, random);
        node.open(Instant::ZERO, local, &mut [1; 30], random);
        assert_eq!((node.poll_transmit(), node.counters().seal_plaintext), (None, 1));
    }
}
