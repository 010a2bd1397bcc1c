//! A node restarts without the calls of its former incarnations that only an unreachable replica has.

use crate::cluster::{Cluster, small};
use weft_rdt::MethodSet;
use weft_rdt::replica::{Replica, ReplicaParameters};
use weft_time::Duration;

const ORIGIN: usize = 0;
/// The replica that the origin cannot reach when it restarts.
const APART: usize = 4;
/// The other replicas: with them the origin becomes full.
const OTHERS: [usize; 3] = [1, 2, 3];

/// The replicas that get a call.
#[derive(Debug)]
enum To {
    All,
    Others,
    Apart,
}

/// A counter whose calls are summarized, and one whose calls go through the ring.
fn both(nodes: usize) -> [ReplicaParameters; 2] {
    let summarized = small("g-counter", nodes);
    [ReplicaParameters { reduce: MethodSet::EMPTY, ..summarized.clone() }, summarized]
}

fn founded(parameters: ReplicaParameters) -> Cluster {
    let mut cluster = Cluster::new(1, parameters);
    cluster.asking = false;
    cluster.run(Duration::from_us(100));
    cluster
}

/// Cuts the links between a node and others, or restores them.
fn part(cluster: &mut Cluster, node: usize, others: &[usize], is_cut: bool) {
    cluster.cut(node, others, is_cut);
    for &other in others {
        cluster.cut(other, &[node], is_cut);
    }
}

fn set_apart(cluster: &mut Cluster, is_cut: bool) {
    part(cluster, APART, &[ORIGIN], is_cut);
    part(cluster, APART, &OTHERS, is_cut);
}

/// Number of the origin's calls that have taken effect at a node.
fn calls_at(cluster: &Cluster, node: usize) -> u64 {
    let counts = cluster.state(node).expect("it runs").observer().counts;
    counts.summaries[ORIGIN] + counts.entries[ORIGIN]
}

/// The origin makes a call, and these replicas get it.
fn call(cluster: &mut Cluster, receivers: &[usize]) {
    cluster.invoke(ORIGIN, "increment", [1, 0, 0, 0]);
    let made = calls_at(cluster, ORIGIN);
    cluster.until(|cluster| receivers.iter().all(|&node| calls_at(cluster, node) == made));
}

fn join(cluster: &mut Cluster) {
    cluster.restart(ORIGIN);
    cluster.until(|cluster| cluster.state(ORIGIN).is_some_and(Replica::is_full));
}

/// The origin makes the calls of each incarnation, and restarts after them while one replica is apart. Then
/// that replica is connected again. Returns how many replicas start over; all must converge.
fn starting_over(parameters: ReplicaParameters, incarnations: &[&[To]]) -> u64 {
    let mut cluster = founded(parameters);
    for calls in incarnations {
        for to in *calls {
            match to {
                To::All => call(&mut cluster, &[1, 2, 3, APART]),
                To::Others => {
                    set_apart(&mut cluster, true);
                    call(&mut cluster, &OTHERS);
                }
                To::Apart => {
                    part(&mut cluster, APART, &OTHERS, true);
                    cluster.cut(ORIGIN, &OTHERS, true);
                    call(&mut cluster, &[APART]);
                }
            }
        }
        cluster.crash(ORIGIN);
        set_apart(&mut cluster, true);
        cluster.cut(ORIGIN, &OTHERS, false);
        join(&mut cluster);
    }
    assert_eq!(cluster.lost_nodes, 0, "{incarnations:?}: {}", cluster.describe());
    set_apart(&mut cluster, false);
    cluster.run(Duration::from_ms(1));
    let count = cluster.lost_nodes;
    cluster.heal();
    count
}

/// The replica has more calls than the origin has found, or other calls under the same numbers.
#[test]
fn a_replica_with_calls_that_their_origin_has_lost_starts_over() {
    use To::{All, Apart, Others};
    let schedules: [&[&[To]]; 3] = [&[&[Apart]], &[&[All, Apart]], &[&[Apart], &[Others]]];
    for parameters in both(5) {
        for incarnations in schedules {
            assert_eq!(starting_over(parameters.clone(), incarnations), 1, "{incarnations:?}");
        }
    }
}

#[test]
fn a_replica_with_calls_that_their_origin_has_found_keeps_them() {
    use To::{All, Others};
    let schedules: [&[To]; 3] = [&[Others], &[All], &[All, Others]];
    for parameters in both(5) {
        for calls in schedules {
            assert_eq!(starting_over(parameters.clone(), &[calls]), 0, "{calls:?}");
        }
    }
}

/// Node 2 lacks the calls of the origin's second incarnation. The third one finds these at node 1, and reads
/// from node 2 as well; so it has found all that node 2 has, though that is of an earlier incarnation.
#[test]
fn a_replica_that_the_origin_has_read_keeps_the_calls_of_an_earlier_incarnation() {
    for parameters in both(3) {
        let mut cluster = founded(parameters);
        // Node 2 gets none of the calls from node 1.
        part(&mut cluster, 1, &[2], true);
        call(&mut cluster, &[1, 2]);
        cluster.crash(ORIGIN);
        join(&mut cluster);
        cluster.cut(ORIGIN, &[2], true);
        call(&mut cluster, &[1]);
        cluster.crash(ORIGIN);
        cluster.cut(ORIGIN, &[2], false);
        join(&mut cluster);
        cluster.run(Duration::from_us(200));
        assert_eq!((cluster.lost_nodes, calls_at(&cluster, 2)), (0, 2), "{}", cluster.describe());
        part(&mut cluster, 1, &[2], false);
        cluster.heal();
    }
}
