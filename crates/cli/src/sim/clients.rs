//! `weft sim clients`: fault campaigns of the client library that ships, against any engine.

use clap::Args;
use weft_bench::compare::{CAMPAIGN_VALUE_BYTES, EngineName};
use weft_harness::NodeFigures;

use super::campaign::{CampaignGround, Conduct, EngineOptions, Found};
use super::faults::{FaultsOption, NETWORK_FAULTS};
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::Ground;
use crate::replay::CommandLine;

/// Checks of a run.
const DEFINITIONS: &str = "\
Eight clients on one separate machine call an engine through the network. The client library, the nodes and the \
membership service are those of `weft-client`, `weft start` and `weft membership`; half of the calls are reads. \
Checks: kv, the history is linearizable; smr, each entry has the same index for every reader, and appends are ordered \
in real time; rdt, every replica of a counter ends with all acknowledged calls; txn, each balance is the sum of its \
deposits; lock, tokens grow; rounds, each decision has one place for every reader, follows all that was acknowledged \
before it was proposed, and is decided once. After the last fault every node must serve again, and every call must \
end.

Rounds stop for good if half of the nodes fail at once. In their runs only a minority of the nodes fails, which a seed \
chooses: all faults concern these nodes and their links, the clients, or the membership service, and there are no fault \
plans.";

/// The engine whose clients these are.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ClientsOptions {
    /// Engine that the clients call: kv, smr, rdt, txn, lock or rounds
    #[arg(long, value_name = "ENGINE")]
    engine: EngineName,
    #[command(flatten)]
    ground: Ground<CampaignGround>,
}

impl EngineOptions for ClientsOptions {
    type Faults = Faults;
    type Figures = NodeFigures;
    type About = ();

    const KIND: &'static str = "sim clients";
    const FAULTS: FaultsOption<Faults> = NETWORK_FAULTS;

    fn run(&self, conduct: Conduct<'_, Faults>) -> Result<Found<Self>, Failure> {
        let ground = (self.ground.network(), self.ground.profile());
        self.engine.check_campaign(&conduct.runs, &ground.1)?;
        let contender = self.engine.contender(CAMPAIGN_VALUE_BYTES);
        conduct.by(|runs, replay, done| contender.campaign(runs, ground, replay, done))
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        self.ground.add_to(line.option("--engine", self.engine))
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        found.figures.counts.clone().into_iter().chain([("views", found.views)]).collect()
    }
}
