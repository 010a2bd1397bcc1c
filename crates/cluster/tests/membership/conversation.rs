//! Dialogues between agents and the service, as readable scripts. Heartbeats and grants that repeat the previous
//! ones are left out.

use crate::world::{Clock, Network, World};
use weft_cluster::ServiceParameters;
use weft_time::Duration;

fn quiet_world(nodes: usize) -> World {
    let network = Network {
        loss_percent: 0,
        duplicate_percent: 0,
        delay_min: Duration::from_ms(1),
        delay_max: Duration::from_ms(1),
        straggler_max: Duration::from_ms(1),
    };
    let clocks = vec![Clock { offset_ps: 0, ppm: 0 }; nodes + 1];
    let mut world = World::new(1, ServiceParameters::new(nodes, Duration::from_ms(100)), network, &clocks);
    world.sync_max = Duration::ZERO;
    world
}

#[track_caller]
fn assert_conversation(world: &World, expected: &str) {
    let expected: Vec<_> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found: Vec<_> = world.log.iter().map(|line| line.trim()).collect();
    assert!(found == expected, "the conversation is:\n{}", world.log.join("\n"));
}

fn ms(count: u64) -> u64 {
    Duration::from_ms(count).as_ps()
}

#[test]
fn a_crash_and_a_return() {
    let mut world = quiet_world(3);
    (0..3).for_each(|node| world.start(node));
    world.run_until(ms(110));
    world.crash(2);
    world.run_until(ms(500));
    world.start(2);
    world.run_until(ms(700));
    assert_conversation(
        &world,
        "
            0 ms   -> heartbeat node0#1 starting at epoch 0
            0 ms   -> heartbeat node1#1 starting at epoch 0
            0 ms   -> heartbeat node2#1 starting at epoch 0
            1 ms   <- refusal node0#1 at epoch 0: Waiting
            1 ms   <- refusal node1#1 at epoch 0: Waiting
            1 ms epoch 1: full {0, 1, 2} joining {}
            1 ms   <- grant node2#1 epoch 1: full {0, 1, 2} joining {} for 100 ms
            1 ms   <- notice node0 epoch 1
            1 ms   <- notice node1 epoch 1
            3 ms   <- grant node0#1 epoch 1: full {0, 1, 2} joining {} for 100 ms
            3 ms   <- grant node1#1 epoch 1: full {0, 1, 2} joining {} for 100 ms
           25 ms   -> heartbeat node2#1 full at epoch 1
           27 ms   -> heartbeat node0#1 full at epoch 1
           27 ms   -> heartbeat node1#1 full at epoch 1
          203 ms epoch 2: full {0, 1} joining {}
          203 ms   <- grant node0#1 epoch 2: full {0, 1} joining {} for 100 ms
          203 ms   <- notice node1 epoch 2
          203 ms   <- notice node2 epoch 2
          203 ms   <- grant node1#1 epoch 2: full {0, 1} joining {} for 100 ms
          227 ms   -> heartbeat node0#1 full at epoch 2
          229 ms   -> heartbeat node1#1 full at epoch 2
          500 ms   -> heartbeat node2#2 starting at epoch 0
          501 ms   <- refusal node2#2 at epoch 2: Waiting
          503 ms epoch 3: full {0, 1} joining {2}
          503 ms   <- grant node2#2 epoch 3: full {0, 1} joining {2} for 100 ms
          503 ms   <- notice node0 epoch 3
          503 ms   <- notice node1 epoch 3
          503 ms   <- grant node0#1 epoch 3: full {0, 1} joining {2} for 100 ms
          504 ms   -> heartbeat node2#2 synced at epoch 3
          505 ms   <- grant node1#1 epoch 3: full {0, 1} joining {2} for 100 ms
          528 ms epoch 4: full {0, 1, 2} joining {}
          528 ms   <- notice node0 epoch 4
          528 ms   <- notice node1 epoch 4
          528 ms   <- notice node2 epoch 4
          529 ms   -> heartbeat node0#1 full at epoch 3
          529 ms   -> heartbeat node1#1 full at epoch 3
          530 ms   <- grant node0#1 epoch 4: full {0, 1, 2} joining {} for 100 ms
          530 ms   <- grant node1#1 epoch 4: full {0, 1, 2} joining {} for 100 ms
          530 ms   <- grant node2#2 epoch 4: full {0, 1, 2} joining {} for 100 ms
          554 ms   -> heartbeat node0#1 full at epoch 4
          554 ms   -> heartbeat node1#1 full at epoch 4
          554 ms   -> heartbeat node2#2 full at epoch 4
        ",
    );
}

#[test]
fn a_quick_restart() {
    let mut world = quiet_world(2);
    (0..2).for_each(|node| world.start(node));
    world.run_until(ms(110));
    world.crash(1);
    world.start(1);
    world.run_until(ms(290));
    assert_conversation(
        &world,
        "
            0 ms   -> heartbeat node0#1 starting at epoch 0
            0 ms   -> heartbeat node1#1 starting at epoch 0
            1 ms   <- refusal node0#1 at epoch 0: Waiting
            1 ms epoch 1: full {0, 1} joining {}
            1 ms   <- grant node1#1 epoch 1: full {0, 1} joining {} for 100 ms
            1 ms   <- notice node0 epoch 1
            3 ms   <- grant node0#1 epoch 1: full {0, 1} joining {} for 100 ms
           25 ms   -> heartbeat node1#1 full at epoch 1
           27 ms   -> heartbeat node0#1 full at epoch 1
          110 ms   -> heartbeat node1#2 starting at epoch 0
          111 ms   <- refusal node1#2 at epoch 1: Occupied
          201 ms epoch 2: full {0} joining {1}
          201 ms   <- notice node0 epoch 2
          201 ms   <- notice node1 epoch 2
          203 ms   <- grant node0#1 epoch 2: full {0} joining {1} for 100 ms
          203 ms   <- grant node1#2 epoch 2: full {0} joining {1} for 100 ms
          204 ms   -> heartbeat node1#2 synced at epoch 2
          226 ms epoch 3: full {0, 1} joining {}
          226 ms   <- notice node0 epoch 3
          226 ms   <- notice node1 epoch 3
          227 ms   -> heartbeat node0#1 full at epoch 2
          228 ms   <- grant node0#1 epoch 3: full {0, 1} joining {} for 100 ms
          228 ms   <- grant node1#2 epoch 3: full {0, 1} joining {} for 100 ms
          252 ms   -> heartbeat node0#1 full at epoch 3
          252 ms   -> heartbeat node1#2 full at epoch 3
        ",
    );
}

#[test]
fn a_node_that_was_cut_off_starts_empty() {
    let mut world = quiet_world(2);
    (0..2).for_each(|node| world.start(node));
    world.run_until(ms(110));
    world.hosts[1].mute = true;
    world.run_until(ms(300));
    world.hosts[1].mute = false;
    world.run_until(ms(400));
    assert_conversation(
        &world,
        "
            0 ms   -> heartbeat node0#1 starting at epoch 0
            0 ms   -> heartbeat node1#1 starting at epoch 0
            1 ms   <- refusal node0#1 at epoch 0: Waiting
            1 ms epoch 1: full {0, 1} joining {}
            1 ms   <- grant node1#1 epoch 1: full {0, 1} joining {} for 100 ms
            1 ms   <- notice node0 epoch 1
            3 ms   <- grant node0#1 epoch 1: full {0, 1} joining {} for 100 ms
           25 ms   -> heartbeat node1#1 full at epoch 1
           27 ms   -> heartbeat node0#1 full at epoch 1
          203 ms epoch 2: full {0} joining {}
          203 ms   <- grant node0#1 epoch 2: full {0} joining {} for 100 ms
          203 ms   <- notice node1 epoch 2
          227 ms   -> heartbeat node0#1 full at epoch 2
          305 ms   <- refusal node1#1 at epoch 2: Rejoin
          306 ms   -> heartbeat node1#2 starting at epoch 0
          307 ms   <- refusal node1#2 at epoch 2: Waiting
          309 ms epoch 3: full {0} joining {1}
          309 ms   <- grant node1#2 epoch 3: full {0} joining {1} for 100 ms
          309 ms   <- notice node0 epoch 3
          310 ms   -> heartbeat node1#2 synced at epoch 3
          311 ms   <- grant node0#1 epoch 3: full {0} joining {1} for 100 ms
          334 ms epoch 4: full {0, 1} joining {}
          334 ms   <- notice node0 epoch 4
          334 ms   <- notice node1 epoch 4
          335 ms   -> heartbeat node0#1 full at epoch 3
          336 ms   <- grant node0#1 epoch 4: full {0, 1} joining {} for 100 ms
          336 ms   <- grant node1#2 epoch 4: full {0, 1} joining {} for 100 ms
          360 ms   -> heartbeat node0#1 full at epoch 4
          360 ms   -> heartbeat node1#2 full at epoch 4
        ",
    );
}

#[test]
fn the_last_copy_is_gone() {
    let mut world = quiet_world(2);
    (0..2).for_each(|node| world.start(node));
    world.run_until(ms(110));
    world.crash(1);
    world.run_until(ms(300));
    world.crash(0);
    world.start(0);
    world.start(1);
    world.run_until(ms(400));
    assert_conversation(
        &world,
        "
            0 ms   -> heartbeat node0#1 starting at epoch 0
            0 ms   -> heartbeat node1#1 starting at epoch 0
            1 ms   <- refusal node0#1 at epoch 0: Waiting
            1 ms epoch 1: full {0, 1} joining {}
            1 ms   <- grant node1#1 epoch 1: full {0, 1} joining {} for 100 ms
            1 ms   <- notice node0 epoch 1
            3 ms   <- grant node0#1 epoch 1: full {0, 1} joining {} for 100 ms
           25 ms   -> heartbeat node1#1 full at epoch 1
           27 ms   -> heartbeat node0#1 full at epoch 1
          203 ms epoch 2: full {0} joining {}
          203 ms   <- grant node0#1 epoch 2: full {0} joining {} for 100 ms
          203 ms   <- notice node1 epoch 2
          227 ms   -> heartbeat node0#1 full at epoch 2
          300 ms   -> heartbeat node0#2 starting at epoch 0
          300 ms   -> heartbeat node1#2 starting at epoch 0
          301 ms   <- refusal node0#2 at epoch 2: Occupied
          301 ms   <- refusal node1#2 at epoch 2: Waiting
          303 ms epoch 3: full {0} joining {1}
          303 ms   <- grant node1#2 epoch 3: full {0} joining {1} for 100 ms
          303 ms   <- notice node0 epoch 3
          305 ms   <- refusal node0#2 at epoch 3: Occupied
          327 ms   -> heartbeat node1#2 joining at epoch 3
          378 ms cluster halted at epoch 3
        ",
    );
}
