//! Measures how many operations of a replicated engine the simulator handles per second of real time. There
//! are eight nodes. Every fifth operation is written to all peers' memories, and answered when a majority has
//! it.
//!
//! Run it with `cargo run --release -p weft-sim --example operations_per_second [-- card|host [OPERATIONS]]`.

#[path = "../tests/common/replicator.rs"]
mod replicator;

use replicator::{Node, Placement, QUERY, RECONNECT, UPDATE, hardware, nodes};
use weft_nic::{HostCommand, HostEvent};
use weft_sim::{Commands, Host, MachineId, NoCrashes, PortConfig, SwitchConfig, World};
use weft_time::{Duration, Instant};

const NODES: usize = 8;
const OUTSTANDING: u32 = 1;

/// Keeps some operations outstanding until it has made its share.
struct Client {
    left: u32,
    done: u32,
}

impl Client {
    fn issue(&mut self, commands: &mut Commands) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let kind = if left % 5 == 0 { UPDATE } else { QUERY };
        commands.submit(HostCommand::Call { engine: 0, token: left, kind, payload: &[7; 32] });
    }
}

impl Host for Client {
    fn handle(&mut self, _: Instant, event: HostEvent, commands: &mut Commands) {
        let HostEvent::Reply { kind, .. } = event else { return };
        if kind == RECONNECT {
            return;
        }
        self.done += 1;
        self.issue(commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn wake(&mut self, _: Instant, _: &mut Commands) {}
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let placement = match arguments.next().as_deref() {
        None | Some("card") => Placement::Card,
        Some("host") => Placement::Host,
        Some(other) => panic!("there is no place `{other}`; choose card or host"),
    };
    let operations: u32 = arguments.next().map_or(1_000_000, |count| count.parse().expect("a number"));
    let share = operations / NODES as u32;
    let mut world = World::new(1, SwitchConfig::default());
    let machines = nodes(placement, NODES, |_| Client { left: share, done: 0 });
    let ids: Vec<MachineId> = machines
        .into_iter()
        .enumerate()
        .map(|(node, machine)| {
            world.add_machine(PortConfig::new(format!("node{node}"), hardware(node).0), machine)
        })
        .collect();
    for id in &ids {
        world.with_machine(*id, |machine, now| machine.call(now, 0, RECONNECT, b""));
    }
    world.run_until(Instant::ZERO + Duration::from_ms(20), &mut NoCrashes);

    let (started, begun) = (std::time::Instant::now(), world.now());
    for id in &ids {
        world.with_machine(*id, |machine, now| {
            machine.act(now, |client, commands| {
                for _ in 0..OUTSTANDING {
                    client.issue(commands);
                }
            });
        });
    }
    let done = |world: &World<Node<Client>>| {
        ids.iter().map(|id| world.machine(*id).expect("nothing crashes").application().done).sum::<u32>()
    };
    while done(&world) < share * NODES as u32 {
        let until = world.now() + Duration::from_us(100);
        world.run_until(until, &mut NoCrashes);
    }
    let wall = started.elapsed().as_secs_f64();
    let operations = f64::from(share) * NODES as f64;
    println!(
        "{operations} operations in {wall:.2} s: {:.0} thousand/s, {:.2} simulated ms, {} log records, log {}",
        operations / wall / 1e3,
        (world.now() - begun).as_ps() as f64 / 1e9,
        world.log_hash().records(),
        world.log_hash()
    );
}
