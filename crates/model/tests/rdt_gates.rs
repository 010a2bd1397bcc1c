//! The gates of every data type do what its definition says, in registers and in RAM; and the proof fails if they do
//! not.

use crate::stock;
use weft_model::rdt::{Judged, Solver, files_of, prove_gates};
use weft_rdt::gates::Gates;
use weft_rdt::{Bounds, Definition, types};

/// Where the fields are: all that may be in RAM, or none.
#[derive(Clone, Copy, Debug)]
enum Storage {
    Registers,
    Ram,
}

use Storage::{Ram, Registers};

fn gates(definition: &Definition, storage: Storage, elements: usize) -> Gates {
    let registers_max = match storage {
        Registers => usize::MAX,
        Ram => 0,
    };
    Gates::new(definition, &Bounds::uniform(elements), registers_max).expect("a type that ships fits")
}

fn judge(gates: &Gates, files: &[(String, String)]) -> Vec<Judged> {
    let solver = Solver::find().expect("tools/setup.sh installs the solver");
    prove_gates(&solver, gates, files).expect("yosys and the solver answer")
}

/// The claims that were not proved.
fn open(judged: &[Judged]) -> Vec<&str> {
    judged.iter().filter(|judged| !judged.is_proved).map(|judged| &*judged.claim).collect()
}

fn by_name(name: &str) -> Definition {
    types::by_name(name).expect("a listed type")
}

/// Proves a type in both storages.
fn prove(definition: &Definition, elements: usize) {
    for storage in [Registers, Ram] {
        let gates = gates(definition, storage, elements);
        let judged = judge(&gates, &files_of(&gates));
        println!("{} in {storage:?}: {} claims", definition.name, judged.len());
        assert_eq!(open(&judged), [""; 0], "{} in {storage:?}", definition.name);
    }
}

/// A test for each type, so that they run side by side.
macro_rules! proofs {
    ($($(#[$attribute:meta])* $test:ident: $name:literal,)*) => {
        const PROVED: &[&str] = &[$($name),*];
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                prove(&by_name($name), 2);
            }
        )*
    };
}

proofs! {
    g_counter_in_gates: "g-counter",
    pn_counter_in_gates: "pn-counter",
    lww_register_in_gates: "lww-register",
    g_set_in_gates: "g-set",
    #[ignore = "part of `make nightly`"]
    pn_set_in_gates: "pn-set",
    #[ignore = "part of `make nightly`"]
    two_phase_set_in_gates: "2p-set",
    account_in_gates: "account",
    courseware_in_gates: "courseware",
    #[ignore = "part of `make nightly`"]
    project_in_gates: "project",
    #[ignore = "part of `make nightly`"]
    movie_in_gates: "movie",
    #[ignore = "takes minutes; part of `make nightly`"]
    auction_in_gates: "auction",
    #[ignore = "takes minutes; part of `make nightly`"]
    ycsb_in_gates: "ycsb",
    #[ignore = "takes minutes; part of `make nightly`"]
    smallbank_in_gates: "smallbank",
}

#[test]
#[ignore = "part of `make nightly`"]
fn the_type_of_a_program_in_gates() {
    prove(&stock::definition(), 2);
}

#[test]
fn no_type_is_left_out() {
    assert_eq!(PROVED, types::NAMES);
}

#[test]
#[ignore = "takes minutes; part of `make nightly`"]
fn all_types_with_three_elements_in_gates() {
    types::NAMES.map(by_name).iter().for_each(|definition| prove(definition, 3));
}

/// An error that a generator could make: in the files of a type, this text is replaced, once.
struct Planted {
    what: &'static str,
    name: &'static str,
    storage: Storage,
    replace: &'static str,
    by: &'static str,
    /// A claim that must fail.
    fails: &'static str,
}

const PLANTED: [Planted; 10] = [
    Planted {
        what: "a guard is strict",
        name: "account",
        storage: Registers,
        replace: "(arg_amount <= number(balance_q))",
        by: "(arg_amount < number(balance_q))",
        fails: "update_withdraw as operation 0",
    },
    Planted {
        what: "a range is one too large",
        name: "account",
        storage: Registers,
        replace: "if (arg_amount < 66'sd0 || arg_amount > 66'sd4294967295) in_range = 1'b0;\n        \
                  if (call_q.arguments[3:1] != '0) in_range = 1'b0;\n        // the balance",
        by: "if (arg_amount < 66'sd0 || arg_amount > 66'sd4294967296) in_range = 1'b0;\n        \
             if (call_q.arguments[3:1] != '0) in_range = 1'b0;\n        // the balance",
        fails: "update_withdraw as operation 0",
    },
    Planted {
        what: "a stamp is not of this replica",
        name: "lww-register",
        storage: Registers,
        replace: "replica_i})",
        by: "4'd0})",
        fails: "update_assign as operation 0",
    },
    Planted {
        what: "an overflow is not noticed",
        name: "g-counter",
        storage: Registers,
        replace: "assign changes = execute && answer_d.outcome == RdtDone",
        by: "assign changes = execute && answer_d.outcome != RdtOutOfRange",
        fails: "update_increment as operation 1",
    },
    Planted {
        what: "an effect sees the one before it",
        name: "smallbank",
        storage: Registers,
        replace: "checking_d[arg_to] = new_2[63:0];",
        by: "checking_d[arg_to] = checking_d[arg_to] + arg_savings[63:0] + arg_checking[63:0];",
        fails: "update_amalgamate as operation 1",
    },
    Planted {
        what: "a row gets the value of another effect",
        name: "smallbank",
        storage: Ram,
        replace: "checking_d[1] = new_2[63:0];",
        by: "checking_d[1] = new_1[63:0];",
        fails: "update_amalgamate as operation 1",
    },
    Planted {
        what: "a quantifier leaves out an element",
        name: "courseware",
        storage: Registers,
        replace: "any_s < 2",
        by: "any_s < 1",
        fails: "update_delete_course as operation 0",
    },
    Planted {
        what: "a summary is applied as a whole",
        name: "g-counter",
        storage: Registers,
        replace: "number(call_q.arguments[1]) - number(call_q.summary[0])",
        by: "number(call_q.arguments[1])",
        fails: "absorb_increment as operation 2",
    },
    Planted {
        what: "a read misses a row that is written in the same cycle",
        name: "ycsb",
        storage: Ram,
        replace: "forwards[reader]  = 1'b1;",
        by: "forwards[reader]  = 1'b0;",
        fails: "the second stage sees the state as it is",
    },
    Planted {
        what: "RAM is cleared but for its last row",
        name: "ycsb",
        storage: Ram,
        replace: "AddressBits'(Rows - 1)) clearing_q",
        by: "AddressBits'(0)) clearing_q",
        fails: "a module that is clearing",
    },
];

/// The types whose planted errors are proofs of minutes.
const LONG: [&str; 2] = ["smallbank", "ycsb"];

#[test]
fn planted_errors_are_found() {
    find(PLANTED.iter().filter(|planted| !LONG.contains(&planted.name)));
}

#[test]
#[ignore = "takes minutes; part of `make nightly`"]
fn planted_errors_of_long_proofs_are_found() {
    find(PLANTED.iter().filter(|planted| LONG.contains(&planted.name)));
}

fn find<'a>(errors: impl Iterator<Item = &'a Planted>) {
    for planted in errors {
        let gates = gates(&by_name(planted.name), planted.storage, 2);
        let mut files = files_of(&gates);
        let places: usize = files.iter().map(|(_, text)| text.matches(planted.replace).count()).sum();
        assert_eq!(places, 1, "{}: the text to replace is not there once", planted.what);
        for (_, text) in &mut files {
            *text = text.replace(planted.replace, planted.by);
        }
        let judged = judge(&gates, &files);
        let open = open(&judged);
        println!("{}: {open:?}", planted.what);
        assert!(open.iter().any(|claim| claim.starts_with(planted.fails)), "{}: {open:?}", planted.what);
    }
}
