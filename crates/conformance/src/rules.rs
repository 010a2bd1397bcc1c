//! The rules of the transport, the scenarios that test them, and the intended differences between the twins.

use std::fmt::Write as _;

use crate::twin::Kind;

/// A kind of malformed packet that one kind of NIC handles differently on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedException {
    /// The name of the case.
    pub case: &'static str,
    /// The kind of NIC.
    pub kind: Kind,
    /// The answers of this kind of NIC.
    pub answer: &'static str,
    /// The counter of this kind of NIC.
    pub counter: &'static str,
    /// The reason for the difference.
    pub reason: &'static str,
}

/// All such exceptions.
pub const MALFORMED_EXCEPTIONS: &[MalformedException] = &[
    MalformedException {
        case: "a length that is not a multiple of four",
        kind: Kind::Rtl,
        answer: "",
        counter: "icrc_errors",
        reason: "The gateware looks for the ICRC on a 4-byte boundary, as every RoCE packet has it, and so finds a wrong one.",
    },
    MalformedException {
        case: "a frame longer than any may be",
        kind: Kind::Soft,
        answer: "ACKNOWLEDGE NAK RemoteAccessError",
        counter: "violation_bounds",
        reason: "The gateware's receive buffer ends a frame at 9,216 bytes, more than the longest path MTU needs; the soft NIC parses \
                 whatever it is given and refuses the payload.",
    },
    MalformedException {
        case: "memory that is not installed",
        kind: Kind::Rtl,
        answer: "ACKNOWLEDGE",
        counter: "memory_fault",
        reason: "A memory's error comes when the write has long been acknowledged in the gateware: it is counted, nothing is written, and \
                 the peer is not told. The driver must not register what is not installed.",
    },
];

/// Whether any kind of NIC handles a malformed packet differently.
pub fn is_exceptional(case: &str) -> bool {
    Kind::ALL.iter().any(|kind| malformed_exception(case, *kind).is_some())
}

/// The exception of a kind of NIC for a malformed packet, if there is one.
pub fn malformed_exception(case: &str, kind: Kind) -> Option<&'static MalformedException> {
    MALFORMED_EXCEPTIONS.iter().find(|exception| exception.case == case && exception.kind == kind)
}

/// A rule of the transport, and the scenarios that test it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The text of the rule.
    pub rule: &'static str,
    /// Its source: clauses of the InfiniBand Architecture Specification, volume 1, unless stated otherwise.
    pub clause: &'static str,
    /// Names of scripts.
    pub scripts: &'static [&'static str],
    /// Kinds of malformed packets, by the first words of their names.
    pub malformed: &'static [&'static str],
    /// Other tests of this suite.
    pub tests: &'static [&'static str],
}

macro_rules! rules {
    ($($rule:literal, $clause:literal: [$($script:literal),*] [$($malformed:literal),*] [$($test:literal),*];)*) => {
        /// All rules.
        pub const RULES: &[Rule] = &[$(Rule {
            rule: $rule,
            clause: $clause,
            scripts: &[$($script),*],
            malformed: &[$($malformed),*],
            tests: &[$($test),*],
        }),*];
    };
}

rules! {
    "A frame that is cut short or whose lengths contradict each other is dropped", "RFC 791, RFC 768":
        [] ["a frame that ends", "an IPv4 packet", "an IPv4 header", "a UDP length", "a wrong UDP", "a wrong IPv4", "IP version", "IPv4's reserved"] ["random"];
    "Frames for others and what the port does not serve itself", "Weft":
        [] ["a frame for another", "a fragment", "another destination"] ["capture"];
    "The ICRC covers what routers do not change, and a packet with a wrong one is dropped", "A17.3.3":
        [] ["a wrong ICRC", "a flipped bit", "a packet cut short", "a datagram too short", "a length that is not"] ["capture", "random"];
    "Opcode, header version, extended headers, pad: what contradicts the opcode is dropped", "9.2, 9.3, 9.6.1.1":
        [] ["an opcode", "a transport header", "a RETH", "an AtomicETH", "more pad", "a READ request with", "an acknowledgement with", "an acknowledgement of a reserved", "a NAK of a reserved"] [];
    "The longest frame", "Weft": [] ["a frame longer"] [];
    "Destination queue pair, its state, the peer's address", "9.6.1.1, A17.4":
        [] ["a queue pair", "a number that", "another source", "an acknowledgement for", "an acknowledgement from another"] ["capture"];
    "Partition", "9.6.1.1.3, 10.9.3": [] ["another partition", "an acknowledgement of another partition"] [];
    "A message is FIRST, MIDDLE..., LAST or ONLY by its length and the path MTU", "9.4, 9.7.4.1.4":
        ["write_segmented"] ["a packet longer", "a WRITE FIRST", "a WRITE MIDDLE that", "a WRITE LAST of", "a SEND FIRST"] ["random", "capture"];
    "Opcodes follow each other in the order of a message", "9.7.4.1.2":
        [] ["a WRITE MIDDLE without", "a WRITE LAST without", "a SEND MIDDLE", "a SEND LAST", "a WRITE ONLY in", "a READ in", "a WRITE LAST in"] [];
    "Only the first packet of a WRITE names the memory", "9.4.3": ["write_segmented"] ["a WRITE whose later"] ["random"];
    "A WRITE has the length that it announces", "9.7.4.1.6": [] ["a WRITE of", "a WRITE LAST that"] [];
    "Immediate data comes with the last packet and consumes a receive request", "9.3.6, 9.4.3": ["write_immediate"] [] ["random"];
    "PSN and MSN wrap at 24 bits", "9.7.2": ["psn_wrap"] ["a PSN far"] ["random"];
    "One acknowledgement speaks for everything before it", "9.7.5.1.2": ["write_segmented", "window_64"] [] ["random"];
    "A response acknowledges the requests before it, and none overtakes it", "9.7.5.1.3": ["read_acknowledges_earlier_writes"] [] ["random"];
    "A gap is reported once; the requester goes back to it", "9.7.4.1.1, 9.7.5.2.2":
        ["nak_sequence_go_back_n", "error_flush"] ["a PSN behind", "a second packet"] ["random"];
    "What is not acknowledged in time is sent again", "9.7.6.1.3": ["time_out_go_back_n", "window_64"] [] ["random"];
    "What is in time is measured: a time-out follows it, and only one as long as that of verbs counts as an attempt", "Weft, RFC 6298":
        ["time_out_measured"] [] ["random"];
    "A gap, or a missing response, is told again when the packet that told of it comes again", "Weft": ["lost_again"] [] ["random"];
    "What comes behind a gap is kept, if the NAK says so, and only the gap is filled", "Weft": ["kept"] [] ["random"];
    "Only missing responses are asked for again, if responses say that this is understood", "Weft": ["read_repaired"] [] ["random"];
    "A missing response is asked for again from where it is missing", "9.7.5.1.1": ["read_response_lost", "psn_wrap"] [] ["random"];
    "What is left of an older stream of responses spends no further retry and restarts the time-out", "9.7.6.1.3": ["read_time_out"] [] [];
    "Responses that nobody asked for, or that are late, are dropped", "9.7.6.1":
        ["lost_acknowledgement"] ["an acknowledgement of what", "an acknowledgement from long", "a NAK of what", "a receiver-not-ready", "a READ response that nobody", "an atomic response that nobody", "a NAK that only"] ["random"];
    "Responses of the wrong kind or length end the request", "9.9.2.2": [] ["a READ response that is", "an atomic response to"] [];
    "A NAK of the peer ends the request, with its reason", "9.9.2.2, 9.7.5.2.2": ["access_violation", "invalid_requests"] ["a NAK: "] [];
    "Duplicate SENDs and WRITEs are acknowledged again and not carried out", "9.7.4.1.1, 9.7.5.1.4": ["lost_acknowledgement", "rpc_region", "error_flush"] ["a PSN far behind"] ["random"];
    "That acknowledgement stays before the next READ or atomic, for which soft RoCE would take it", "9.7.5.1.3": ["acknowledgement_before_response"] [] ["literal", "capture"];
    "A READ or atomic has one response due, and responses leave in the order of PSNs", "9.7.4.1.4": ["duplicate_responses"] [] ["random"];
    "Duplicate READs are carried out again", "9.7.5.1.5": ["read_response_lost", "error_flush"] ["a duplicate READ"] ["random"];
    "Duplicate atomics are answered from what was saved", "9.7.5.1.5": ["atomic_duplicate", "error_flush"] ["a duplicate atomic"] ["random"];
    "Receiver not ready: wait, then try again; packets behind are dropped", "9.7.5.2.8": ["send_receiver_not_ready"] ["a SEND without", "a WRITE with immediate"] ["random"];
    "A gap that is reported in that wait, as soft RoCE does, neither ends it nor spends a retry", "9.7.5.2.8": ["nak_sequence_receiver_not_ready"] [] ["literal"];
    "`rnr_retry` limits that", "9.7.5.2.8": ["receiver_not_ready_retry_exceeded"] [] [];
    "`retry_cnt` limits attempts; the first request fails, the others are flushed", "9.9.2.1": ["retry_exceeded_flush", "error_flush"] [] [];
    "Key, domain, bounds and permission of a region", "10.6.3.1, 9.7.4.1.5":
        ["access_violation"] ["a key", "the key", "the local key", "a region", "a WRITE past", "a WRITE before", "a WRITE that wraps", "a WRITE whose address", "a WRITE without permission", "a READ without", "an atomic without", "a READ past", "an atomic past"] [];
    "Permissions of the queue pair", "9.7.4.1.3": ["invalid_requests", "permission_in_flight"] ["a WRITE that the queue", "a READ that the queue", "an atomic that the queue"] [];
    "Permissions change while traffic flows: nothing that arrives later lands", "Weft": ["permission_revoked", "permission_in_flight"] [] ["permission", "engine"];
    "Alignment of atomics, length of READs, length of SENDs", "9.4.5, 9.7.4.1.6": ["invalid_requests"] ["an atomic on", "a READ of", "a SEND longer"] [];
    "A failure that is not the requester's fault", "9.9.3": ["invalid_requests", "targets"] ["memory that"] [];
    "Local protection errors keep the order of completions", "9.9.2.3": ["local_errors"] [] [];
    "A fence waits for READs and atomics; `max_rd_atomic` limits them", "10.8.3.3": ["fence"] [] ["random"];
    "Completions come once each and in order; unsignaled ones only in error", "10.8.5": ["queue_of_64", "retry_exceeded_flush"] [] ["random"];
    "A queue pair in ERROR flushes what is posted and answers nobody", "10.3.1.6": ["error_flush", "retry_exceeded_flush"] ["a queue pair in ERROR"] ["permission"];
    "The window is clocked by acknowledgements", "BALBOA 4.4": ["window", "window_64"] [] [];
    "The sender of marked packets is told by a congestion notification, once in 50 us; the congestion bits of the BTH mean nothing", "A17.9.3": ["congestion_notification"] [] [];
    "A notification limits the rate of the queue pair", "DCQCN 3.3": ["rate_limited"] [] [];
    "No credit towards the host: dropped without a NAK", "BALBOA 4.3": ["credits_drop"] [] [];
    "A WRITE into an RPC region is one call of its engine", "Weft": ["rpc_region"] [] ["random", "rpc"];
    "An engine answers a call over its queue pair by a SEND; an answer to one that is gone is refused", "Weft": [] [] ["rpc"];
    "Targets and writing through", "Weft": ["write_through", "targets"] [] ["random"];
}

/// A script of which a part cannot be compared between kinds of NICs.
#[derive(Clone, Copy, Debug)]
pub struct ScriptException {
    /// Name of the script.
    pub script: &'static str,
    /// Number of conversations that are left out between two NICs of the gateware.
    pub left_out: usize,
    /// The reason, and the tests that replace it.
    pub reason: &'static str,
}

/// All such exceptions.
pub const SCRIPT_EXCEPTIONS: &[ScriptException] = &[
    ScriptException {
        script: "window",
        left_out: 1,
        reason: "The gateware's window is 64 packets. Script `window_64` stands in.",
    },
    ScriptException {
        script: "permission_revoked",
        left_out: 1,
        reason: "The conversation with a window of two packets, for the same reason; `permission_in_flight` stands in.",
    },
    ScriptException {
        script: "invalid_requests",
        left_out: 2,
        reason: "The conversations about memory that is not installed, whose failure the gateware counts and does not report to the peer.",
    },
    ScriptException { script: "targets", left_out: 1, reason: "As for `invalid_requests`." },
    ScriptException {
        script: "credits_drop",
        left_out: 1,
        reason: "The gateware's credits are 32 KiB and come back on their own as the host takes the payload; its own test \
                 (rtl/rdma/test_responder.py) lets them run out.",
    },
    ScriptException {
        script: "rate_limited",
        left_out: 1,
        reason: "A second packet may leave the gateware before the first is charged. The rates of both are compared bit by bit \
                 (rtl/rdma/test_rate_machine.py), and the gateware's pace by its own test (rtl/rdma/test_rate_control.py).",
    },
    ScriptException {
        script: "rpc_region",
        left_out: 1,
        reason: "The conversation with a call queue of one place: an engine of a NIC takes its calls at once. `rpc` fills the \
                 gateware's.",
    },
];

/// Scripts that are left out entirely.
const LEFT_OUT_WHOLE: [&str; 3] = ["window", "credits_drop", "rate_limited"];

/// Remarks that apply to all comparisons.
const GENERAL: &str = "The twins are compared frame by frame, each packet answered before the next one arrives: how acknowledgements merge when
packets arrive faster than answers leave is each twin's own. Of kept requests that are next in turn, the soft NIC
executes all before it answers; the gateware may answer a READ or atomic before it executes the next, as the MSN of the
answer shows. When a change of permission by the driver returns, all that was allowed before lies in memory, and nothing
that it forbids lands any more. Time-outs of the gateware are looked at in turns, so they may come up to an eighth and
20 us off. Lengths of queues are compared at the driver's interface, which holds what does not fit into the gateware's
64 places. A call of the gateware's engine may have 1,985 bytes at any alignment, one of the soft NIC's any length; a
queue pair has 16 answers of the gateware's engine on their way, the soft NIC 256 over all queue pairs. The
acknowledgement interval (16), the window (64), READs and atomics outstanding (at most 16) and the 48 bits of an address
in memory are fixed in the gateware; the soft twin is configured to the same. Of responses behind a missing one, the
gateware stores those less than 64 PSNs behind it, the soft NIC those less than 512; the others are asked for again. The
gateware keeps at most 32 requests behind gaps, the soft NIC as many as it is configured to. When no place is free, only
the gateware frees one from time to time, so that a queue pair whose gap is never filled holds none for ever.";

const INTRODUCTION: &str = "# Conformance

The table lists each rule of the transport, the tests that check it, and whether both kinds of NIC pass: `soft`, the
reference in software, and `rtl`, the gateware as Verilator runs it. Clauses are those of the InfiniBand Architecture
Specification, volume 1, unless they say otherwise.

Scripts (`crates/rdma/tests/scripts`, `crates/conformance/scripts`) are conversations with chosen faults; every one
runs between two soft NICs, two of the gateware, and one of each in both roles, and must give the same frames byte by
byte, completions, memory and counters. A number after `malformed` is how many kinds of bad packet
(`crates/conformance/src/malformed.rs`) belong to the rule: each must be answered and counted alike, touch no memory,
and leave the next good packet working. `random` are random requests over a wire that loses, doubles, reorders and
corrupts, held to a model of memory and completions. `permission` takes permissions from a stream of packets. `engine`
does so at the gateware's port for engines, and fills its credits and buffers. `rpc` calls the key-value engine by
WRITEs over several queue pairs, with ordinary networking beside and with loss, and holds answers and counters of both
kinds to each other and to a model. `capture` replays traffic of Linux' soft RoCE to both. `literal` sets each kind
against models of a requester and a responder that behave literally as that does, over a wire that loses, doubles and
reorders.

`make nightly` runs the long random runs. This file is written by `UPDATE=1 cargo test -p weft-conformance --test
document`.

";

/// Start of the part of `docs/conformance.md` about coverage, which `tests/coverage.rs` writes.
pub const COVERAGE: &str = "
## What the suite reaches

Each event that the gateware counts, by its block, and each change of its two state machines: in how many scenarios of
the suite it happens. Every scenario is a test that passes or fails by itself; this table says what they have in
common. The suite fails if an event or a change of state is never reached and nothing says why. What a queue pair is
receiving (nothing, a SEND, a WRITE) is no register; `malformed` has the packets that each of these refuses. Written
by `UPDATE=1 cargo test -p weft-conformance coverage`.
";

/// The text of `docs/conformance.md` up to [`COVERAGE`].
pub fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    text += "| rule | clause | held by | soft | rtl |\n|---|---|---|---|---|\n";
    for rule in RULES {
        let mut held: Vec<String> = rule.scripts.iter().map(|name| format!("`{name}`")).collect();
        let cases = crate::malformed::CASES;
        let kinds = cases.iter().filter(|case| rule.holds(case.name)).count();
        if kinds > 0 {
            held.push(format!("malformed ({kinds})"));
        }
        held.extend(rule.tests.iter().map(ToString::to_string));
        let verdict = |kind| {
            let mut notes = Vec::new();
            for (number, exception) in (1..).zip(SCRIPT_EXCEPTIONS) {
                if rule.scripts.contains(&exception.script) {
                    notes.push(number);
                }
            }
            for (number, exception) in (SCRIPT_EXCEPTIONS.len() + 1..).zip(MALFORMED_EXCEPTIONS) {
                if exception.kind == kind && rule.holds(exception.case) {
                    notes.push(number);
                }
            }
            let notes: Vec<String> = notes.iter().map(|number| format!("[{number}]")).collect();
            let told = rule.scripts.iter().any(|script| !LEFT_OUT_WHOLE.contains(script));
            let held = told || kinds > 0 || !rule.tests.is_empty();
            let verdict = if held { "pass" } else { "not compared" };
            format!("{verdict} {}", notes.join(" ")).trim_end().to_owned()
        };
        let (soft, rtl) = (verdict(Kind::Soft), verdict(Kind::Rtl));
        writeln!(text, "| {} | {} | {} | {soft} | {rtl} |", rule.rule, rule.clause, held.join(", "))
            .expect("a string takes everything");
    }
    text += "\n## Exceptions\n\n";
    let scripts = SCRIPT_EXCEPTIONS.iter().map(|exception| {
        format!("Script `{}`, left out between NICs: {}", exception.script, exception.reason)
    });
    let malformed = MALFORMED_EXCEPTIONS.iter().map(|exception| {
        let answer = if exception.answer.is_empty() { "no answer" } else { exception.answer };
        format!(
            "{} on {}: {answer}, counted as `{}`. {}",
            exception.case,
            exception.kind.name(),
            exception.counter,
            exception.reason
        )
    });
    for (number, line) in (1..).zip(scripts.chain(malformed)) {
        text += &wrapped(&format!("{number}. {line}"), "   ");
    }
    text += "\n## What is compared, and how\n\n";
    text += GENERAL;
    text.push('\n');
    text
}

/// Wraps a paragraph at 120 columns; all lines but the first are indented.
fn wrapped(paragraph: &str, indent: &str) -> String {
    let mut text = String::new();
    let mut columns = 0;
    for word in paragraph.split(' ') {
        let more = word.chars().count() + 1;
        if columns > 0 && columns + more > 120 {
            text.push('\n');
            text += indent;
            columns = indent.len();
        } else if columns > 0 {
            text.push(' ');
        }
        columns += more;
        text += word;
    }
    text.push('\n');
    text
}

impl Rule {
    /// Whether a kind of malformed packet belongs to the rule.
    pub fn holds(&self, case: &str) -> bool {
        self.malformed.iter().any(|start| case.starts_with(start))
    }
}
