//! Golden scripts: each file in `tests/scripts` shows the commands to two queue pairs, and their packets one
//! by one. `UPDATE=1 cargo test -p weft-rdma scripts::` rewrites the files; review the difference.
//!
//! | rule (InfiniBand Architecture Specification, volume 1, chapter 9, unless said otherwise) | script or test |
//! |---|---|
//! | a message is FIRST, MIDDLE..., LAST or ONLY by its length and the path MTU | `write_segmented` |
//! | only the first packet of a WRITE names the memory | `write_segmented` |
//! | immediate data is in the last packet and consumes a receive request | `write_immediate` |
//! | PSN and MSN wrap at 24 bits | `psn_wrap`, `psn::tests` |
//! | one acknowledgement covers everything before it | `write_segmented`, `window` |
//! | a response acknowledges the requests before it, and none overtakes it | `read_acknowledges_earlier_writes` |
//! | a gap is reported once; the requester goes back to it | `nak_sequence_go_back_n` |
//! | packets that are not acknowledged in time are sent again | `time_out_go_back_n` |
//! | round trips are measured; only a time-out of verbs counts as a retry (Weft) | `time_out_measured`, `round_trip::tests` |
//! | a gap is reported again when the packet that revealed it arrives again (Weft) | `lost_again` |
//! | packets beyond a gap are kept if the NAK says so, and only the gap is filled (Weft) | `kept`, `reorder::tests`, `properties.rs` |
//! | only missing responses are requested again if responses announce it (Weft) | `read_repaired`, `early::tests`, `properties.rs` |
//! | a missing response is requested again from where it is missing | `read_response_lost`, `psn_wrap` |
//! | duplicate SENDs and WRITEs are acknowledged again and not executed | `lost_acknowledgement`, `rpc_region` |
//! | that acknowledgement stops before the next READ or atomic (soft RoCE takes it literally) | `acknowledgement_before_response`, `responses.rs` |
//! | duplicate READs are executed again | `read_response_lost` |
//! | a READ or atomic has one response due, and responses are sent in the order of PSNs | `duplicate_responses`, `responses.rs` |
//! | duplicate atomics are answered from the saved result | `atomic_duplicate` |
//! | receiver not ready: wait, then try again; later packets are dropped | `send_receiver_not_ready` |
//! | a gap that is reported during that wait changes nothing (soft RoCE does so) | `nak_sequence_receiver_not_ready`, `recovery.rs` |
//! | `rnr_retry` limits these retries | `receiver_not_ready_retry_exceeded` |
//! | the rest of an older stream of responses costs no further retry | `read_time_out`, `recovery.rs` |
//! | `retry_cnt` limits retries; the first request fails, the others are flushed | `retry_exceeded_flush` |
//! | key, domain, bounds and permission of a region | `access_violation`, `region::tests` |
//! | permissions change under traffic | `permission_revoked` |
//! | invalid requests: alignment, length, order of opcodes, too many READs | `invalid_requests`, `hostile.rs` |
//! | a failure that is not the requester's fault | `invalid_requests`, `local_errors` |
//! | local protection errors keep the order of completions | `local_errors` |
//! | a fence waits for READs and atomics; `max_rd_atomic` limits them | `fence` |
//! | the window is clocked by acknowledgements (BALBOA 4.4) | `window`, `control.rs` |
//! | no credit towards the host: dropped without a NAK (BALBOA 4.3) | `credits_drop` |
//! | a WRITE into an RPC region is one call of its engine (Weft) | `rpc_region` |
//! | marked packets are answered with one notification in 50 us (annex A17.9.3, DCQCN 3.1) | `congestion_notification` |
//! | a notification limits the rate of the queue pair (DCQCN 3.3) | `rate_limited`, `rate` |
//! | targets and write-through (Weft) | `write_through` |
//! | unknown queue pair, other source, other partition, wrong state | `hostile.rs` |
//! | legal state transitions, ranges of attributes | `control.rs` |
//! | queue pairs share the wire fairly | `fairness.rs` |

use std::path::Path;

use crate::script;

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name).with_extension("txt");
    let expected =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let actual = script::replay(&expected);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, actual).unwrap();
    } else {
        assert!(actual == expected, "{name} reads differently:\n{actual}");
    }
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        /// A script without a test would prove nothing.
        #[test]
        fn every_script_is_a_test() {
            let tests = [$(stringify!($name)),*];
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                assert!(tests.contains(&name), "{name} is not in the list of tests");
            }
        }
    };
}

scripts! {
    write_segmented
    write_immediate
    send_receiver_not_ready
    receiver_not_ready_retry_exceeded
    read_response_lost
    read_acknowledges_earlier_writes
    atomic_duplicate
    nak_sequence_go_back_n
    time_out_go_back_n
    time_out_measured
    lost_again
    kept
    read_repaired
    lost_acknowledgement
    retry_exceeded_flush
    access_violation
    invalid_requests
    local_errors
    psn_wrap
    permission_revoked
    fence
    window
    rpc_region
    write_through
    congestion_notification
    rate_limited
    credits_drop
    acknowledgement_before_response
    duplicate_responses
    nak_sequence_receiver_not_ready
    read_time_out
}
