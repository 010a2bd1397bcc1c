//! Tests of the operations that workloads draw.

use weft_check::replicated::Specification;

use super::*;

/// Applies the operations of all clients in turn to one object. Returns the numbers of updates and of refused
/// updates.
fn refused(name: TypeName, nodes: usize, updates: u8, sizes: Sizes, operations: usize) -> (u64, u64) {
    let workload = Workload::new(name, nodes, updates, sizes, 0.0, 7);
    let subject = workload.subject();
    let mut state = subject.initial();
    let mut clients: Vec<_> = (0..nodes).map(|node| workload.client(node, &subject)).collect();
    let mut call = |node: usize, call: Call| {
        let (method, mut arguments) = (call.method as usize, call.arguments);
        assert!(subject.kind().admits(method, &arguments), "{name}: {}", subject.describe(&call));
        state.prepare(node, method, &mut arguments);
        assert!(subject.kind().owns(method, &arguments, node, nodes), "{name}: {}", subject.describe(&call));
        let permissible = state.permissible(method, &arguments);
        if permissible {
            state.apply(method, &arguments);
        }
        permissible
    };
    for (node, client) in clients.iter_mut().enumerate() {
        while let Some(loaded) = client.load() {
            assert!(call(node, loaded), "{name}: what is loaded is not refused");
        }
    }
    let (mut made, mut refused, mut queries) = (0, 0, 0);
    for step in 0..operations {
        let node = step % nodes;
        match clients[node].next_operation() {
            Operation::Update(update) => {
                made += 1;
                refused += u64::from(!call(node, update));
            }
            Operation::Query(query) => {
                queries += 1;
                assert!(subject.kind().admits_query(query.method as usize, &query.arguments), "{name}");
            }
        }
    }
    let share = made as f64 / operations as f64;
    assert!((share - f64::from(updates) / 100.0).abs() < 0.02, "{name}: {made} updates, {queries} queries");
    (made, refused)
}

#[test]
fn few_calls_are_refused() {
    for name in TypeName::all() {
        for nodes in [1, 3, 8] {
            let (made, refused) = refused(name, nodes, 25, Sizes { keys: 1_000, ..Sizes::LARGE }, 40_000);
            let per_cent = refused as f64 / made as f64 * 100.0;
            // An amalgamation empties an account, so more calls are refused.
            let most = if name.name() == "smallbank" { 20.0 } else { 5.0 };
            assert!(per_cent < most, "{name}: {refused} of {made}");
            let free = name.class() == "crdt" && name.name() != "2p-set" || name.name() == "ycsb";
            assert!(!free || refused == 0, "{name}");
        }
    }
}

#[test]
fn small_sizes_refuse_more_and_admit_all() {
    for name in TypeName::all() {
        for nodes in [3, 5, 8] {
            let (made, refused) = refused(name, nodes, 50, Sizes::SMALL, 4_000);
            assert!(refused < made, "{name}");
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    for name in TypeName::all() {
        let operations = |seed| {
            let workload = Workload::new(name, 3, 50, Sizes::SMALL, 0.99, seed);
            let subject = workload.subject();
            let mut client = workload.client(1, &subject);
            (0..200).map(|_| client.next_operation()).collect::<Vec<_>>()
        };
        assert_eq!(operations(1), operations(1));
        assert_ne!(operations(1), operations(2));
    }
}

#[test]
fn names_are_those_of_the_types() {
    assert_eq!("account".parse::<TypeName>().unwrap().class(), "wrdt");
    assert!("bank".parse::<TypeName>().unwrap_err().contains("account, "));
}
