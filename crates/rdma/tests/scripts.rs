//! Golden conversations: each file in `tests/scripts` says what two queue pairs do, command by command and packet
//! by packet. `UPDATE=1 cargo test -p weft-rdma --test scripts` writes the files anew; read the difference.

mod common;
#[path = "common/script.rs"]
mod script;

use std::path::Path;

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
    credits_drop
}
