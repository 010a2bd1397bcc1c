//! Replicas that have taken copies of the state from different ones.

mod cluster;

use cluster::{Cluster, small};
use weft_rdt::MethodSet;
use weft_rdt::replica::ReplicaParameters;
use weft_time::Duration;

/// The datagram that asks for a data connection.
const CONNECT: u8 = 10;

/// Nodes of the schedule. The others are 0, 5 and 6.
const A: usize = 1;
const B: usize = 2;
const X: usize = 3;
const Y: usize = 4;

/// A and B have made calls that they can tell nobody. X comes back with a copy of A's state, and Y with one of B's; then A and B die. X and Y, and
/// all others, get from each other what they lack: X and Y must not have it in their objects alone, where nobody can read single calls.
#[test]
fn who_has_taken_a_snapshot_can_pass_on_what_was_in_it() {
    let mut cluster =
        Cluster::new(1, ReplicaParameters { reduce: MethodSet::EMPTY, ..small("g-counter", 7) });
    cluster.asking = false;
    cluster.run(Duration::from_us(100));
    // A and B lose their connections, and make calls. From now on A can make none but to X, and B none but to Y.
    for origin in [A, B] {
        let others: Vec<usize> = (0..7).filter(|node| *node != origin).collect();
        cluster.cut(origin, &others, true);
        for _ in 0..3 {
            cluster.invoke(origin, "increment", [1, 0, 0, 0]);
        }
    }
    cluster.network.loses = |from, to, kind, _| {
        let is_apart = match from {
            A => to != X,
            B => to != Y,
            X => to == B || to == Y,
            Y => to == A || to == X,
            _ => false,
        };
        kind == CONNECT && is_apart
    };
    cluster.run(Duration::from_us(200));
    cluster.crash(X);
    cluster.crash(Y);
    for origin in [A, B] {
        let others: Vec<usize> = (0..7).filter(|node| *node != origin).collect();
        cluster.cut(origin, &others, false);
    }
    cluster.run(Duration::from_us(200));
    let entries = |cluster: &Cluster, node: usize| {
        let counts = cluster.state(node).expect("it runs").witness().counts.entries;
        (counts[A], counts[B])
    };
    for node in [X, Y] {
        cluster.restart(node);
        cluster.until(|cluster| cluster.state(node).is_some_and(weft_rdt::replica::Replica::is_full));
    }
    for (node, has) in [(0, (0, 0)), (5, (0, 0)), (6, (0, 0)), (X, (3, 0)), (Y, (0, 3))] {
        assert_eq!(entries(&cluster, node), has, "node {node}: {}", cluster.describe());
    }
    cluster.bury(A);
    cluster.bury(B);
    cluster.network.loses = |_, _, _, _| false;
    cluster.run(Duration::from_ms(1));
    for node in [0, 5, 6, X, Y] {
        assert_eq!(entries(&cluster, node), (3, 3), "node {node}: {}", cluster.describe());
    }
    cluster.heal();
}
