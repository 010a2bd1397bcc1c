//! In its steady state a world allocates nothing.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use common::{ScriptedMachine, frame, us, world};
use weft_sim::NoCrashes;
use weft_time::Duration;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_steady_world_allocates_nothing() {
    let stations = (0..4u8).map(|from| {
        let first = (0..8).map(|number| (us(1), frame((from + 1) % 4, from, number, 100)));
        ScriptedMachine {
            keep: false,
            echoes_left: u64::MAX,
            echo_latency: Duration::from_ns(100),
            ..ScriptedMachine::sending(first)
        }
    });
    let mut world = world(1, stations);
    world.run_until(us(1_000), &mut NoCrashes);
    let (allocations, delivered) = (ALLOCATIONS.load(Ordering::Relaxed), world.traffic().delivered);
    world.run_until(us(5_000), &mut NoCrashes);
    assert!(world.traffic().delivered > delivered + 100_000);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), allocations);
    assert_eq!(world.traffic().in_flight, 32);
}
