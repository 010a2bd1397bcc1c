//! Measures how many events the kernel handles per second of real time: machines echo small frames to each
//! other.
//!
//! Run it with `cargo run --release -p weft-sim --example events_per_second`.

use std::collections::VecDeque;

use weft_sim::{Machine, NoCrashes, PortConfig, SwitchConfig, World};
use weft_time::{Duration, Instant};

const MACHINES: u8 = 8;
const FRAMES_OF_EACH: usize = 16;
const FRAME_BYTES: usize = 128;

/// Returns every frame 500 ns after it has arrived.
struct Echo {
    answers: VecDeque<(Instant, [u8; FRAME_BYTES])>,
}

impl Machine for Echo {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        let Ok(mut answer) = <[u8; FRAME_BYTES]>::try_from(frame) else { return };
        answer[..6].copy_from_slice(&frame[6..12]);
        answer[6..12].copy_from_slice(&frame[..6]);
        self.answers.push_back((now + Duration::from_ns(500), answer));
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn wake(&mut self, _: Instant) {}

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        let (at, answer) = self.answers.pop_front()?;
        frame.extend_from_slice(&answer);
        Some(at)
    }
}

fn main() {
    let mut world = World::new(1, SwitchConfig::default());
    for from in 0..MACHINES {
        let mut frame = [0; FRAME_BYTES];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, (from + 1) % MACHINES]);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, from]);
        let answers = std::iter::repeat_n((Instant::ZERO, frame), FRAMES_OF_EACH).collect();
        world.add_machine(PortConfig::new(format!("echo{from}"), [2, 0, 0, 0, 0, from]), Echo { answers });
    }
    let started = std::time::Instant::now();
    world.run_until(Instant::ZERO + Duration::from_ms(50), &mut NoCrashes);
    let elapsed = started.elapsed().as_secs_f64();
    let events = world.log_hash().records();
    println!(
        "{events} events in {elapsed:.2} s: {:.2} million/s, log {}",
        events as f64 / elapsed / 1e6,
        world.log_hash()
    );
}
