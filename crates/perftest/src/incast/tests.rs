//! Incasts with the soft NIC. Those with the gateware take longer and run with the other benchmarks of the
//! gateware.

use super::*;

fn incast(clients: u32, congestion: &[Congestion]) -> IncastResult {
    let bench =
        RdmaBench { amount: Amount::Time(Duration::from_ms(10)), tx_depth: None, ..RdmaBench::default() };
    IncastBench { bench, clients, congestion: congestion.to_vec(), replay: String::new() }.run().unwrap()
}

/// The requirement: eight clients share the port fairly, lose no frames once they have adapted to each other,
/// and the queue stays far from full.
#[test]
fn eight_clients_share_a_port_with_dcqcn() {
    let result = incast(8, &[Congestion::None, Congestion::Dcqcn]);
    let [none, dcqcn] = &result.runs[..] else { panic!("two runs") };
    assert!(result.is_right());
    println!("{}", result.to_text());
    assert_eq!(dcqcn.drops_steady, 0);
    assert!(dcqcn.last_drop_ns.is_none_or(|at| at < 1_000_000));
    assert!(dcqcn.jain_index >= 0.95);
    assert!(dcqcn.queue_bytes_max_steady < result.queue_limit_bytes);
    assert!(dcqcn.marked > 0 && dcqcn.notifications > 0);
    assert!(none.drops_steady > 0 && none.marked == 0 && none.notifications == 0);
    assert!(plot(&result).contains("</html>"));
}

#[test]
fn a_seed_decides_a_run() {
    let once = incast(3, &[Congestion::Dcqcn]);
    assert_eq!(once, incast(3, &[Congestion::Dcqcn]));
}
