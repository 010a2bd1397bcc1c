//! `weft log`: a replicated log of a running cluster.

use clap::{Args, Subcommand};
use serde_json::json;
use weft_client::{Error, Read};

use crate::client::{ClientOptions, failure, text, verdict};
use crate::failure::{Failure, Verdict};

/// The cluster, and the operation on a log.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogArguments {
    #[command(flatten)]
    options: ClientOptions,
    #[command(subcommand)]
    request: Request,
}

#[derive(Clone, Debug, Subcommand)]
enum Request {
    /// Append an entry, exactly once
    Append {
        /// The log's name in the configuration
        name: String,
        /// The entry: text
        content: String,
    },
    /// Read the entry at an index
    Read {
        /// The log's name in the configuration
        name: String,
        /// Index of the entry, from 0
        index: u64,
    },
    /// Show how far the answering replica has decided and applied the log, and which node leads
    Status {
        /// The log's name in the configuration
        name: String,
    },
}

impl LogArguments {
    /// Sends the request, and shows the answer. If the entry does not exist, the exit code says so.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let options = &self.options;
        let config = options.load()?;
        let (Request::Append { name, .. } | Request::Read { name, .. } | Request::Status { name }) =
            &self.request;
        if !config.engines.logs.iter().any(|log| log.name == *name) {
            let known: Vec<_> = config.engines.logs.iter().map(|log| log.name.as_str()).collect();
            let known = if known.is_empty() { "no [[log]] at all".to_owned() } else { known.join(", ") };
            let error = format!("the cluster has no log `{name}`; it has {known}");
            return Err(Failure::at(&options.config, error));
        }
        let log = options.open(&config)?.log(name)?;
        match &self.request {
            Request::Append { content, .. } => {
                let index = log
                    .append(content.as_bytes())
                    .wait()
                    .map_err(|error| failure(&error, "read the end of the log"))?;
                options.deliver(
                    &format!("appended, index {index}"),
                    &json!({ "log": name, "outcome": "appended", "index": index }),
                )?;
                Ok(Verdict::Good)
            }
            Request::Read { index, .. } => {
                let (line, outcome, content) = match log.read(*index).wait() {
                    Ok(Read::Entry(entry)) => {
                        let content = text(&entry.content);
                        (format!("entry {index}: {content}"), "entry", Some(content))
                    }
                    Ok(Read::NotYet { decided }) => {
                        (format!("not yet: the log has {decided} entries"), "not_yet", None)
                    }
                    Ok(Read::Void) => {
                        (format!("nothing stands at {index}, and never will: read on"), "void", None)
                    }
                    Err(Error::Forgotten { .. }) => {
                        ("not kept any more: read a later entry".to_owned(), "forgotten", None)
                    }
                    Err(Error::Unknown { after }) => {
                        return Err(Failure::new(format!(
                            "no answer within {after}: see whether the nodes run"
                        )));
                    }
                    Err(error) => return Err(error.into()),
                };
                let object = json!({ "log": name, "outcome": outcome, "index": index, "content": content });
                options.deliver(&line, &object)?;
                Ok(verdict(outcome == "entry"))
            }
            Request::Status { .. } => {
                let answer = log.status().wait()?;
                let leader =
                    answer.leader.map_or("no node leads".to_owned(), |leader| format!("node {leader} leads"));
                let line = format!("{} entries applied, {} decided; {leader}", answer.index, answer.decided);
                let object = json!({
                    "log": name,
                    "applied": answer.index,
                    "decided": answer.decided,
                    "leader": answer.leader,
                    "halted": answer.halted,
                });
                options.deliver(&line, &object)?;
                Ok(Verdict::Good)
            }
        }
    }
}
