//! Replicas that have taken snapshots from different peers.

use crate::cluster::{Cluster, small};
use weft_rdt::MethodSet;
use weft_rdt::replica::{Replica, ReplicaParameters};
use weft_time::Duration;

/// The kind of the datagram that requests a data connection.
const CONNECT: u8 = 10;

/// The nodes of the schedule. The other nodes are 0, 5 and 6.
const A: usize = 1;
const B: usize = 2;
const X: usize = 3;
const Y: usize = 4;

/// A and B have made calls that they cannot send to any other node. X rejoins with a snapshot of A's state, and
/// Y with one of B's; then A and B crash. X, Y and all others get from each other the calls that they lack. So
/// X and Y must not have these calls only as part of their objects, because single calls cannot be read there.
#[test]
fn a_replica_can_pass_on_the_calls_in_a_snapshot() {
    let mut cluster =
        Cluster::new(1, ReplicaParameters { reduce: MethodSet::EMPTY, ..small("g-counter", 7) });
    cluster.asking = false;
    cluster.run(Duration::from_us(100));
    // A and B lose their connections, and make calls. From now on A can connect only to X, and B only to Y.
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
        let counts = cluster.state(node).expect("it runs").observer().counts.entries;
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

/// Node 1's deposits have reached only node 0, which leads. Withdrawals that depend on them fill the log.
/// Node 2 cannot apply these, so no log slot becomes free. Now node 1 restarts in a new incarnation. While it
/// is alive, no other node sends its deposits to node 2; and no log can include it before there is room.
#[test]
fn a_joining_replica_passes_on_the_calls_that_others_wait_for() {
    let account = || small("account", 3);
    for parameters in [account(), ReplicaParameters { reduce: MethodSet::EMPTY, ..account() }] {
        joins_while_the_log_stands_still(parameters);
    }
}

fn joins_while_the_log_stands_still(parameters: ReplicaParameters) {
    const LEADER: usize = 0;
    const ORIGIN: usize = 1;
    const LACKS: usize = 2;
    let mut cluster = Cluster::new(1, parameters);
    cluster.asking = false;
    cluster.run(Duration::from_us(100));
    // Node 2's data connections fail and are not restored. So it gets none of node 1's calls, and copies none
    // from node 0.
    cluster.cut(LACKS, &[LEADER, ORIGIN], true);
    cluster.cut(ORIGIN, &[LACKS], true);
    for _ in 0..3 {
        cluster.invoke(ORIGIN, "deposit", [30, 0, 0, 0]);
    }
    cluster.network.loses =
        |from, to, kind, _| kind == CONNECT && [(ORIGIN, LACKS), (LACKS, LEADER)].contains(&(from, to));
    cluster.run(Duration::from_us(200));
    cluster.cut(LACKS, &[LEADER, ORIGIN], false);
    cluster.cut(ORIGIN, &[LACKS], false);
    cluster.run(Duration::from_us(200));
    for _ in 0..60 {
        cluster.invoke(LEADER, "withdraw", [1, 0, 0, 0]);
        cluster.run(Duration::from_us(10));
    }
    let group = cluster.state(LACKS).expect("it runs").group(0);
    assert!(group.applied() < group.decided(), "{}", cluster.describe());
    cluster.crash(ORIGIN);
    cluster.restart(ORIGIN);
    cluster.run(Duration::from_us(100));
    cluster.network.loses = |_, _, _, _| false;
    cluster.until(|cluster| cluster.state(ORIGIN).is_some_and(Replica::is_full));
    cluster.heal();
}
