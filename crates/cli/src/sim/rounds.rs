//! `weft sim rounds`: fault campaigns of the rounds engine.

use clap::Args;
use weft_bench::rounds::{
    DECIDED_WITHIN, FaultClass, MEMBER_WITHIN, RoundsFigures, RoundsSubject, SeedFailures, Service,
};
use weft_results::NicModel;
use weft_sim::{FaultKinds, FaultPlan};

use super::campaign::{Conduct, EngineOptions, Found, NodesOption};
use super::faults::{FaultChoice, FaultsOption};
use crate::failure::Failure;
use crate::parse;
use crate::replay::CommandLine;

/// Checks of a run.
const DEFINITIONS: &str = "\
In each run some nodes fail: they crash, or their messages are lost, late or corrupted; the membership service may \
crash and come back, too. In three runs of four at most as many nodes fail as the cluster tolerates: nodes that have \
not failed must not stop, and must decide everything that they propose. In every fourth run more fail: nodes may then \
stop, but must report that. In all runs the logs must agree, hold each proposal at most once, and hold nothing that \
was not proposed. With --service register, clients read, write, delete and compare-and-set one register, and their \
history must be linearizable.";

/// Options of the rounds.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RoundsOptions {
    /// Consensus instances in flight, 4 or 8 [default: the fewest that the nodes need]
    #[arg(long, value_name = "4|8", value_parser = parse::window)]
    window: Option<u64>,
    /// Consensus engine: soft (in software) or rtl (the gateware, simulated cycle by cycle)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
    /// What runs on top of the consensus: streams (each node proposes and reads decisions) or register (one
    /// linearizable register with clients)
    #[arg(long, value_name = "streams|register", default_value_t)]
    service: Service,
    /// Encrypt all frames between nodes and clients with PSP (the PSP Security Protocol) and rotate the keys; an
    /// observer checks that no nonce is used twice
    #[arg(long)]
    psp: bool,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_rounds_bug)]
    planted_bug: Option<weft_rounds::PlantedBug>,
}

/// The faults of rounds come from their class.
impl FaultChoice for FaultClass {
    fn chosen(&self) -> Result<(FaultKinds, Option<FaultPlan>), Failure> {
        Ok((FaultKinds::NONE, None))
    }
}

impl EngineOptions for RoundsOptions {
    type Faults = FaultClass;
    type Figures = RoundsFigures;
    type About = SeedFailures;

    const KIND: &'static str = "sim rounds";
    const NODES: NodesOption =
        NodesOption { help: "Number of nodes, 2 to 8", default: "5", parse: parse::members };
    const FAULTS: FaultsOption<FaultClass> = FaultsOption {
        value: "CLASS",
        help: "Class of faults: all, omission, crash or none",
        parse: str::parse,
    };

    fn run(&self, conduct: Conduct<'_, FaultClass>) -> Result<Found<Self>, Failure> {
        let window = parse::window_for(self.window, conduct.runs.nodes)?;
        parse::fit_into_gates(self.nic, conduct.runs.nodes, window, 0)?;
        if self.nic == NicModel::Rtl && self.service == Service::Register {
            return Err(Failure::new(
                "the register is software only; choose --service streams or --nic soft",
            ));
        }
        conduct.of(&RoundsSubject {
            faults: *conduct.faults,
            window,
            nic: self.nic,
            service: self.service,
            psp: self.psp,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        let line = line
            .given("--window", self.window)
            .unless(NicModel::Soft, "--nic", self.nic)
            .unless(Service::Streams, "--service", self.service)
            .flag("--psp", self.psp);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_rounds::PlantedBug::name));
        line
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        let figures = &found.figures;
        let load = match self.service {
            Service::Streams => ("decided", figures.decided),
            Service::Register => ("operations", figures.operations),
        };
        let (beyond, rounds) = (("beyond t", figures.seeds_beyond), ("rounds", figures.rounds));
        vec![beyond, rounds, load, ("fences", figures.fences)]
    }

    fn cluster(&self, found: &Found<Self>) -> Option<(&'static str, String)> {
        let RoundsFigures { tolerated, window, nic, .. } = &found.figures;
        let nodes = format!("{}, of which {tolerated} may fail", found.nodes);
        Some(("nodes", format!("{nodes}; window {window}, engine {nic}")))
    }

    fn notes(&self, _: &Found<Self>) -> Vec<(&'static str, String)> {
        let decided = format!("decided everywhere within {DECIDED_WITHIN}");
        vec![("in time", format!("{decided}, members again within {MEMBER_WITHIN} of the last fault"))]
    }

    fn about(run: &SeedFailures) -> String {
        format!(", nodes {:?} fail", run.faulty)
    }
}
