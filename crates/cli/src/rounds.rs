//! `weft rounds`: the consensus in rounds of a running cluster.

use clap::{Args, Subcommand};
use serde_json::json;
use weft_client::Proposal;

use crate::client::{ClientOptions, failure, text, verdict};
use crate::failure::{Failure, Verdict};

/// The cluster, and the request.
#[derive(Clone, Debug, Args)]
pub(crate) struct RoundsArguments {
    #[command(flatten)]
    options: ClientOptions,
    #[command(subcommand)]
    request: Request,
}

#[derive(Clone, Debug, Subcommand)]
enum Request {
    /// Propose a value, exactly once
    Propose {
        /// The value: text, at least one byte
        content: String,
    },
    /// Read decisions in order, as many as fit into one answer; continue with --after
    Read {
        /// Start after this decision, as INSTANCE/PROPOSER [default: at the beginning]
        #[arg(long, value_name = "PLACE", value_parser = parse_place)]
        after: Option<(u64, u8)>,
    },
    /// Show the current round and the last decision of the answering node
    Status,
}

fn parse_place(text: &str) -> Result<(u64, u8), String> {
    let place = text
        .split_once('/')
        .and_then(|(instance, proposer)| Some((instance.parse().ok()?, proposer.parse().ok()?)));
    place.ok_or_else(|| "give INSTANCE/PROPOSER, such as 120/2, as a decision is shown".into())
}

impl RoundsArguments {
    /// Sends the request, and shows the answer. If the instance decided without the proposal, the exit code says so.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let options = &self.options;
        let config = options.load()?;
        if config.engines.rounds.is_none() {
            return Err(Failure::at(&options.config, "the cluster has no rounds: there is no [rounds]"));
        }
        let rounds = options.open(&config)?.rounds()?;
        match &self.request {
            Request::Propose { content } => {
                let proposal = rounds
                    .propose(content.as_bytes())
                    .wait()
                    .map_err(|error| failure(&error, "read what is decided"))?;
                let (line, outcome, instance) = match proposal {
                    Proposal::Decided { instance } => {
                        (format!("decided, instance {instance}"), "decided", instance)
                    }
                    Proposal::Dropped { instance } => (
                        format!("dropped: instance {instance} decided without it; propose again"),
                        "dropped",
                        instance,
                    ),
                };
                options.deliver(&line, &json!({ "outcome": outcome, "instance": instance }))?;
                Ok(verdict(outcome == "decided"))
            }
            Request::Read { after } => {
                let list = rounds.read(*after).wait()?;
                let mut lines: Vec<_> = Vec::new();
                if list.forgotten {
                    lines.push("earlier decisions are not kept".to_owned());
                }
                let mut decisions = Vec::new();
                for decision in &list.decisions {
                    let ((instance, proposer), content) = (decision.place, text(&decision.proposal));
                    lines.push(format!("{instance}/{proposer}: {content}"));
                    decisions.push(json!({ "instance": instance, "proposer": proposer, "content": content }));
                }
                if decisions.is_empty() {
                    lines.push("nothing more is decided".to_owned());
                }
                let object = json!({ "forgotten": list.forgotten, "decisions": decisions });
                options.deliver(&lines.join("\n"), &object)?;
                Ok(verdict(!decisions.is_empty()))
            }
            Request::Status => {
                let answer = rounds.status().wait()?;
                let phase = format!("{:?}", answer.phase).to_lowercase();
                let members: Vec<_> = answer.members.iter().collect();
                let line =
                    format!("{phase}, epoch {}, round {}, members {members:?}", answer.epoch, answer.number);
                let object = json!({
                    "phase": phase,
                    "epoch": answer.epoch,
                    "round": answer.number,
                    "members": members,
                });
                options.deliver(&line, &object)?;
                Ok(Verdict::Good)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_it_is_shown() {
        assert_eq!(parse_place("120/2"), Ok((120, 2)));
        for text in ["120", "a/1", "1/300", "1/2/3"] {
            assert!(parse_place(text).unwrap_err().contains("such as 120/2"));
        }
    }
}
