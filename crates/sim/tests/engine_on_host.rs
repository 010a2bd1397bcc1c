//! The same engine in two places: on a card with its application, and in a process with an RDMA card.

use crate::common::replicator::{
    ALARM, ALARM_AFTER, AWAIT, CLOSE, GREET, LOOKS_EVERY, Listener, Node, Placement, QUERY, RECONNECT,
    Replicator, UPDATE, nodes,
};
use weft_nic::HostCommand;
use weft_sim::{HAMBAND_PROCESS, HOST_PROCESS, MachineId, NoCrashes, PortConfig, SwitchConfig, World};
use weft_time::{Duration, Instant};
use weft_verbs::CompletionStatus;

type Cluster = World<Node<Listener>>;

/// A cluster of `count` nodes that are connected to each other, and its machines.
fn cluster(placement: Placement, count: usize) -> (Cluster, Vec<MachineId>) {
    let mut world = World::new(1, SwitchConfig::default());
    let ids: Vec<MachineId> = nodes(placement, count, |_| Listener::default())
        .into_iter()
        .enumerate()
        .map(|(node, machine)| {
            let port = PortConfig::new(format!("node{node}"), crate::common::replicator::hardware(node).0);
            world.add_machine(port, machine)
        })
        .collect();
    for id in &ids {
        call(&mut world, *id, 0, RECONNECT, b"");
    }
    settle(&mut world);
    (world, ids)
}

fn call(world: &mut Cluster, id: MachineId, token: u32, kind: u8, payload: &[u8]) {
    world.with_machine(id, |machine, now| machine.call(now, token, kind, payload));
}

fn settle(world: &mut Cluster) {
    let until = world.now() + Duration::from_ms(50);
    world.run_until(until, &mut NoCrashes);
}

/// The time from a call of `id` to its answer.
fn time_of(world: &mut Cluster, id: MachineId, token: u32, kind: u8, payload: &[u8]) -> Duration {
    let begun = world.local_now(id);
    call(world, id, token, kind, payload);
    settle(world);
    let &(at, answered, _) = world.machine(id).unwrap().application().answered.last().expect("an answer");
    assert_eq!(answered, token);
    at - begun
}

#[test]
fn an_update_reaches_all_memories_from_either_place() {
    for placement in [Placement::Card, Placement::Host] {
        let (mut world, ids) = cluster(placement, 3);
        time_of(&mut world, ids[1], 7, UPDATE, b"value");
        let slot = Replicator::slot(1, 1);
        for id in &ids {
            let machine = world.machine(*id).unwrap();
            assert_eq!(&machine.memory()[slot..slot + 5], b"value", "{placement:?}");
            assert_eq!(machine.engine().failed, []);
        }
    }
}

#[test]
fn a_query_costs_the_engines_own_work_and_no_bus() {
    let (mut world, ids) = cluster(Placement::Card, 2);
    // Four cycles of 4 ns.
    assert_eq!(time_of(&mut world, ids[0], 1, QUERY, b""), Duration::from_ns(16));
    let (mut world, ids) = cluster(Placement::Host, 2);
    assert_eq!(time_of(&mut world, ids[0], 1, QUERY, b""), HOST_PROCESS.operation.duration());
}

#[test]
fn a_write_between_hosts_takes_what_card_bus_and_network_take() {
    let (mut world, ids) = cluster(Placement::Host, 2);
    let whole = time_of(&mut world, ids[0], 1, UPDATE, b"value");
    // The call and its post, then the bus, two cards, and the bus again: 1,076 ns without the network. The
    // network is twice 300 ns in the switch and four times 10 ns of fibre. The bits are on four links: of a
    // WRITE with 64 bytes, and of an acknowledgement.
    let process = HOST_PROCESS.operation.duration() + HOST_PROCESS.verb.duration() * 2;
    let network = Duration::from_ns(640);
    let rest = whole.as_ns() - process.as_ns() - 1_076 - network.as_ns();
    assert!((35..60).contains(&rest), "{rest} ns are left for the bits");
    // With the network, a WRITE with inline payload takes 1.75 us; SafarDB table 2.1 has 2.0 us.
    assert!((1_700..1_800).contains(&(whole.as_ns() - process.as_ns())));
}

#[test]
fn a_write_between_cards_takes_two_passages_each_way() {
    let (mut world, ids) = cluster(Placement::Card, 2);
    let whole = time_of(&mut world, ids[0], 1, UPDATE, b"value");
    // Twice 414 ns of MACs and pipelines, once HBM, twice the network, and 16 ns each for the call and the
    // completion.
    let rest = whole.as_ns() - 2 * 414 - 384 - 640 - 2 * 16;
    assert!((35..80).contains(&rest), "{rest} ns are left for the bits and beats");
}

#[test]
fn an_acknowledgement_that_waits_for_memory_delays_nothing_else() {
    let (mut world, ids) = cluster(Placement::Card, 2);
    let alone = time_of(&mut world, ids[1], 1, UPDATE, b"value");
    call(&mut world, ids[0], 2, UPDATE, b"value");
    // The WRITE has passed node 1's pipelines, and takes 384 ns to reach HBM.
    let arrived = world.now() + Duration::from_ns(850);
    world.run_until(arrived, &mut NoCrashes);
    let slot = Replicator::slot(0, 1);
    assert_eq!(&world.machine(ids[1]).unwrap().memory()[slot..slot + 5], b"value");
    assert_eq!(time_of(&mut world, ids[1], 3, UPDATE, b"value"), alone);
    let answered = &world.machine(ids[0]).unwrap().application().answered;
    assert_eq!(answered.last().map(|answer| answer.1), Some(2));
}

#[test]
fn a_permission_costs_what_the_driver_takes_and_holds_before_the_answer() {
    let (mut world, ids) = cluster(Placement::Host, 2);
    let taken = time_of(&mut world, ids[1], 1, CLOSE, b"");
    assert_eq!(taken, HOST_PROCESS.operation.duration() + HOST_PROCESS.access.duration());
    call(&mut world, ids[0], 2, UPDATE, b"early");
    settle(&mut world);
    assert_eq!(world.machine(ids[0]).unwrap().engine().failed, [CompletionStatus::RemoteInvalidRequest]);
    let slot = Replicator::slot(0, 1);
    assert_eq!(world.machine(ids[1]).unwrap().memory()[slot..slot + 5], [0; 5]);

    // After the reconnection the engine works again. The reconnection takes as long as a reset.
    for id in [ids[1], ids[0]] {
        let process = HOST_PROCESS.connect.duration() + HOST_PROCESS.access.duration();
        let taken = time_of(&mut world, id, 3, RECONNECT, b"");
        assert_eq!(taken, HOST_PROCESS.operation.duration() + process);
    }
    time_of(&mut world, ids[0], 4, UPDATE, b"later");
    let slot = Replicator::slot(0, 2);
    assert_eq!(&world.machine(ids[1]).unwrap().memory()[slot..slot + 5], b"later");
}

#[test]
fn a_register_of_the_card_takes_no_time() {
    let (mut world, ids) = cluster(Placement::Card, 2);
    assert_eq!(time_of(&mut world, ids[1], 1, CLOSE, b""), Duration::from_ns(16));
    call(&mut world, ids[0], 2, UPDATE, b"early");
    settle(&mut world);
    assert_eq!(world.machine(ids[0]).unwrap().engine().failed, [CompletionStatus::RemoteInvalidRequest]);
}

#[test]
fn what_was_posted_before_a_connection_is_not_told_after_it() {
    let (mut world, ids) = cluster(Placement::Host, 2);
    time_of(&mut world, ids[1], 1, CLOSE, b"");
    // The posts are refused while the core connects the queue pair. Afterwards their completions belong to
    // the earlier connection.
    world.with_machine(ids[0], |machine, now| {
        machine.act(now, |_, commands| {
            for (token, kind) in [(2, UPDATE), (3, UPDATE), (4, RECONNECT)] {
                commands.submit(HostCommand::Call { engine: 0, token, kind, payload: b"early" });
            }
        });
    });
    settle(&mut world);
    let machine = world.machine(ids[0]).unwrap();
    assert_eq!(machine.engine().failed, []);
    assert_eq!(machine.application().answered.last().map(|answer| answer.1), Some(4));
}

#[test]
fn every_post_ends_also_when_the_queue_is_full() {
    let (mut world, ids) = cluster(Placement::Host, 2);
    world.crash(ids[1]);
    world.with_machine(ids[0], |machine, now| {
        machine.act(now, |_, commands| {
            for token in 0..130 {
                commands.submit(HostCommand::Call { engine: 0, token, kind: UPDATE, payload: b"lost" });
            }
        });
    });
    settle(&mut world);
    let failed = &world.machine(ids[0]).unwrap().engine().failed;
    let count = |status| failed.iter().filter(|failure| **failure == status).count();
    assert_eq!(count(CompletionStatus::LocalQueuePairOperationError), 2, "the queue holds 128");
    assert_eq!(count(CompletionStatus::RetryExceeded), 1);
    assert_eq!(count(CompletionStatus::WorkRequestFlushed), 127);
}

#[test]
fn messages_and_timers_work_in_either_place() {
    for placement in [Placement::Card, Placement::Host] {
        let (mut world, ids) = cluster(placement, 3);
        call(&mut world, ids[2], 1, GREET, b"hello");
        settle(&mut world);
        for id in &ids[..2] {
            let heard = &world.machine(*id).unwrap().engine().heard;
            assert_eq!(heard.len(), 1, "{placement:?}");
            assert_eq!(heard[0].0.index(), 2);
        }
        let taken = time_of(&mut world, ids[0], 2, ALARM, b"");
        assert!((ALARM_AFTER..ALARM_AFTER + Duration::from_ns(100)).contains(&taken), "{taken}");
    }
}

#[test]
fn what_no_engine_takes_is_counted_in_either_place() {
    for placement in [Placement::Card, Placement::Host] {
        let (mut world, ids) = cluster(placement, 2);
        world.with_machine(ids[0], |machine, now| {
            machine.act(now, |_, commands| {
                commands.submit(HostCommand::Call { engine: 1, token: 1, kind: QUERY, payload: b"" });
            });
        });
        settle(&mut world);
        let counters = world.machine(ids[0]).unwrap().counters();
        assert!(counters.contains(&("messages_without_engine", 1)), "{placement:?}");
    }
}

/// The times at which a process has answered each of four queries that arrive at once.
fn four_queries(placement: Placement) -> [Duration; 4] {
    let (mut world, ids) = cluster(placement, 2);
    let begun = world.local_now(ids[0]);
    world.with_machine(ids[0], |machine, now| {
        machine.act(now, |_, commands| {
            for token in 0..4 {
                commands.submit(HostCommand::Call { engine: 0, token, kind: QUERY, payload: b"" });
            }
        });
    });
    settle(&mut world);
    let answered = &world.machine(ids[0]).unwrap().application().answered;
    let last: [(Instant, u32, u8); 4] = answered[answered.len() - 4..].try_into().unwrap();
    last.map(|answer| answer.0 - begun)
}

#[test]
fn a_core_does_one_thing_after_the_other() {
    let one = HOST_PROCESS.operation.duration();
    assert_eq!(four_queries(Placement::Host), [1, 2, 3, 4].map(|count| one * count));
}

#[test]
fn threads_share_what_there_is_to_do_and_none_is_faster_than_one() {
    let one = HOST_PROCESS.operation.duration();
    assert_eq!(four_queries(Placement::Threads(1)), four_queries(Placement::Host));
    assert_eq!(four_queries(Placement::Threads(2)), [0, 1, 2, 3].map(|before| one / 2 * before + one));
}

#[test]
fn posts_of_several_threads_on_one_queue_pair_all_end() {
    let (mut world, ids) = cluster(Placement::Threads(4), 3);
    world.with_machine(ids[1], |machine, now| {
        machine.act(now, |_, commands| {
            // Queries take less time than updates, which post. So commands of several threads reach the card
            // in another order than they were issued.
            for token in 0..60 {
                let kind = if token % 3 == 0 { QUERY } else { UPDATE };
                commands.submit(HostCommand::Call { engine: 0, token, kind, payload: b"value" });
            }
        });
    });
    settle(&mut world);
    let machine = world.machine(ids[1]).unwrap();
    assert_eq!(machine.engine().failed, []);
    let mut answered: Vec<u32> = machine.application().answered.iter().map(|answer| answer.1).collect();
    answered.sort_unstable();
    let mut expected: Vec<u32> = (0..60).chain([0]).collect();
    expected.sort_unstable();
    assert_eq!(answered, expected, "RECONNECT was 0, too");
}

/// A peer's write becomes visible to a core when it has crossed the bus, not when the card has it.
#[test]
fn a_core_sees_what_was_written_when_it_has_crossed_the_bus() {
    let (mut world, ids) = cluster(Placement::TwoCores, 2);
    let begun = world.local_now(ids[0]);
    call(&mut world, ids[1], 1, AWAIT, b"");
    call(&mut world, ids[0], 2, UPDATE, b"value");
    settle(&mut world);
    let &(seen, token, _) = world.machine(ids[1]).unwrap().application().answered.last().unwrap();
    assert_eq!(token, 1);
    // The call and its post, the bus, both MACs, the network, and the bus again.
    let cost = HAMBAND_PROCESS;
    let process = cost.call.duration() + cost.update.duration() + cost.verb.duration();
    let least = process + Duration::from_ns(288 + 162 + 88 + 320 + 288);
    let took = seen - begun;
    // The core polls at intervals, each poll takes its time, and a read misses the caches. The WRITE's bits
    // take time on two links.
    let look = cost.timer.duration() + HOST_PROCESS.memory_read.duration();
    assert!((least..least + LOOKS_EVERY + look + Duration::from_ns(60)).contains(&took), "{took} {least}");
}

/// Receiving frames is the other core's work.
#[test]
fn messages_do_not_keep_calls_from_their_core() {
    let (mut world, ids) = cluster(Placement::TwoCores, 3);
    for token in 0..10 {
        call(&mut world, ids[2], token, GREET, b"hello");
    }
    let soon = world.now() + Duration::from_us(5);
    world.run_until(soon, &mut NoCrashes);
    let heard = |world: &Cluster| world.machine(ids[1]).unwrap().engine().heard.len();
    assert!((1..10).contains(&heard(&world)), "some of the frames are waiting: {}", heard(&world));
    assert_eq!(time_of(&mut world, ids[1], 20, QUERY, b""), HAMBAND_PROCESS.call.duration());
    assert_eq!(heard(&world), 10);
}

/// A change of permissions by one core is effective before the other core continues. Posts from before it are
/// not reported as completed.
#[test]
fn two_cores_change_permissions_as_one_does() {
    let (mut world, ids) = cluster(Placement::TwoCores, 2);
    let taken = time_of(&mut world, ids[1], 1, CLOSE, b"");
    assert_eq!(taken, HAMBAND_PROCESS.call.duration() + HOST_PROCESS.access.duration());
    call(&mut world, ids[0], 2, UPDATE, b"early");
    settle(&mut world);
    assert_eq!(world.machine(ids[0]).unwrap().engine().failed, [CompletionStatus::RemoteInvalidRequest]);
    for id in [ids[1], ids[0]] {
        time_of(&mut world, id, 3, RECONNECT, b"");
    }
    time_of(&mut world, ids[0], 4, UPDATE, b"later");
    let slot = Replicator::slot(0, 2);
    assert_eq!(&world.machine(ids[1]).unwrap().memory()[slot..slot + 5], b"later");
}
