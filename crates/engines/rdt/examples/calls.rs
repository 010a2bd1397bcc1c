//! Measures the duration of calls: `cargo run --release -p weft-rdt --example calls`. It prints nanoseconds
//! for universes of 64 elements, as the best of many batches. It measures filling in, checking and, if
//! permissible, applying a call; folding and absorbing a summary; and evaluating the invariant, both where
//! the call can have changed it and as a whole.

use std::hint::black_box;
use std::time::Instant;

use weft_rdt::definition::ParameterKind;
use weft_rdt::{Arguments, Bounds, Object, SummaryWords, Type, types};

const BATCHES: usize = 200;
const CALLS: usize = 1024;
const ELEMENTS: usize = 64;

/// Nanoseconds per call in the best of many batches of `calls` calls.
fn best(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        (0..calls).for_each(&mut call);
        start.elapsed().as_nanos() as f64 / calls as f64
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("{:16}{:18}{:>8}{:>8}{:>8}{:>8}", "type", "method", "call", "summary", "near", "whole");
    for name in types::NAMES {
        let kind = Type::shipped(name, &Bounds::uniform(ELEMENTS)).expect("a shipped type");
        let mut object = Object::new(&kind);
        // Every method runs in the state that the earlier methods have left.
        for method in 0..kind.method_count() {
            let definition = &kind.definition().methods[method];
            let arguments: Vec<Arguments> = (0..CALLS as u64)
                .map(|number| {
                    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut arguments = Arguments::default();
                    for (argument, parameter) in arguments.iter_mut().zip(&definition.parameters) {
                        random ^= random >> 29;
                        random = random.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                        *argument = match parameter.kind {
                            ParameterKind::Element(_) => (random >> 32) as i64 % ELEMENTS as i64,
                            _ => 1,
                        };
                    }
                    arguments
                })
                .collect();
            let call = best(CALLS, |number| {
                let mut call = arguments[number];
                object.prepare(0, method, &mut call);
                if object.permissible(method, &call) {
                    object.apply(method, &call);
                }
            });
            let summary = kind.summary(method).map_or(String::new(), |shape| {
                let mut slots = vec![SummaryWords::default(); shape.slots];
                let mut other = Object::new(&kind);
                let nanoseconds = best(CALLS, |number| {
                    let slot = kind.slot(method, &arguments[number]);
                    let old = slots[slot];
                    kind.fold(method, &arguments[number], &mut slots[slot]);
                    other.absorb(method, slot, &old, &slots[slot]);
                });
                black_box(other);
                format!("{nanoseconds:.0}")
            });
            let near = best(CALLS, |number| {
                black_box(object.invariant_after(method, &arguments[number]));
            });
            let whole = best(20, |_| {
                black_box(object.invariant());
            });
            println!("{name:16}{:18}{call:>8.0}{summary:>8}{near:>8.0}{whole:>8.0}", definition.name);
        }
        black_box(object);
    }
}
