//! `weft txn`: one transaction at a running cluster.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::json;
use weft_applications::application;
use weft_client::{Ended, Error};
use weft_cluster::TransactionsConfig;
use weft_net::transactions::Application;
use weft_txn::{Accesses, INPUT_MAX, KEYS_MAX, Key, Mode, Outcome, Request};

use crate::client::{ClientOptions, verdict};
use crate::failure::{Failure, Verdict};

/// Which cluster, and what to call.
#[derive(Clone, Debug, Args)]
pub(crate) struct TxnArguments {
    #[command(flatten)]
    options: ClientOptions,
    #[command(subcommand)]
    request: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Run a registered procedure as one transaction, at most once
    Call(CallArguments),
}

#[derive(Clone, Debug, Args)]
struct CallArguments {
    /// Name of the procedure. The cluster has one set of procedures, which `procedures` in weft.toml names;
    /// docs/transactions.md lists each set
    procedure: String,
    /// Keys in the order that the procedure expects: SHARD/NUMBER (read and written), r:SHARD/NUMBER (only read) or
    /// w:SHARD/NUMBER (only written)
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Arguments of the procedure: signed 64-bit integers
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_number)]
    input: Vec<i64>,
    /// Node to send the request to first
    #[arg(long, value_name = "N", default_value_t = 0)]
    node: usize,
}

/// The procedures that a configuration's `[transactions]` names.
pub(crate) fn registered(
    transactions: &TransactionsConfig,
    nodes: usize,
) -> Result<Box<dyn Application>, Failure> {
    application(&transactions.procedures, transactions.size, nodes)
        .map_err(|error| Failure::new(format!("[transactions]: {error}")))
}

impl TxnArguments {
    /// Calls the procedure, and shows the answer. If the procedure's own rules reject the call, the exit code says so;
    /// a missing answer, or no effect for other reasons, is a failure.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let (Action::Call(call), options) = (self.request, self.options);
        let config = options.load()?;
        let Some(transactions) = &config.engines.transactions else {
            return Err(Failure::at(
                &options.config,
                "the cluster runs no transactions: there is no [transactions]",
            ));
        };
        let nodes = config.peers.len();
        let request = call.request(&*registered(transactions, nodes)?, nodes)?;
        if call.node >= nodes {
            let last = nodes - 1;
            return Err(Failure::new(format!("there is no node {}; choose --node 0 to {last}", call.node)));
        }
        let transactions = options.open_first(&config, call.node)?.transactions()?;
        match transactions.request(request).wait() {
            Ok(ended) => call.deliver(&options, ended),
            Err(Error::Unknown { .. }) => Err(Failure::new(
                "the node that was called does not answer any more: the transaction took effect once or never will, \
                 so read what it would have written before it is called again",
            )),
            Err(error) => Err(error.into()),
        }
    }
}

impl CallArguments {
    fn request(&self, application: &dyn Application, nodes: usize) -> Result<Request, Failure> {
        let procedures = application.procedures();
        let procedure = procedures.find(&self.procedure).ok_or_else(|| {
            let names = procedures.names().collect::<Vec<_>>().join(", ");
            Failure::new(format!("there is no procedure `{}`; choose {names}", self.procedure))
        })?;
        let mut accesses = Accesses::default();
        for text in &self.keys {
            let (key, mode) = parse_key(text, nodes).map_err(Failure::new)?;
            accesses
                .add(key, mode)
                .map_err(|_| Failure::new(format!("a transaction has at most {KEYS_MAX} keys")))?;
        }
        let input: Vec<u8> = self.input.iter().flat_map(|number| number.to_le_bytes()).collect();
        if input.len() > INPUT_MAX {
            let most = INPUT_MAX / 8;
            return Err(Failure::new(format!("--input has {} numbers; at most {most}", self.input.len())));
        }
        Ok(Request { procedure, input, accesses })
    }

    fn deliver(&self, options: &ClientOptions, ended: Ended) -> Result<Verdict, Failure> {
        let Ended { attempt, outcome } = ended;
        let (name, reason, answer) = match outcome {
            Outcome::Committed { answer } => ("committed", None, Some(answer)),
            Outcome::Unanswered => ("committed", None, None),
            Outcome::Aborted { reason, answer } => ("refused", Some(reason), Some(answer)),
            Outcome::Conflict => {
                return Err(Failure::new(
                    "others were in the way for too long, and nothing has happened: call again",
                ));
            }
            Outcome::Full => {
                return Err(Failure::new(
                    "the table of a replica has no room for what is inserted, and nothing has happened: delete something first",
                ));
            }
            Outcome::Unavailable => {
                return Err(Failure::new(
                    "no node that holds one of these shards is left, and nothing has happened: their objects are lost",
                ));
            }
            Outcome::Faulty(fault) => {
                return Err(Failure::new(format!(
                    "the procedure is at fault, and nothing has happened: {fault}"
                )));
            }
            Outcome::Unknown => unreachable!("the client makes an error of it"),
        };
        let numbers = answer.as_deref().and_then(numbers);
        let mut human = name.to_owned();
        if let Some(reason) = reason {
            let _ = write!(human, ", reason {reason}");
        }
        match (&answer, &numbers) {
            (None, _) => human.push_str("; the answer was lost with the node that gave it"),
            (Some(_), Some(numbers)) if !numbers.is_empty() => {
                let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                let _ = write!(human, ": {}", numbers.join(" "));
            }
            (Some(answer), None) => {
                let _ = write!(human, ": {}", hexadecimal(answer));
            }
            _ => {}
        }
        let object = json!({
            "procedure": self.procedure,
            "outcome": name,
            "reason": reason,
            "answer": answer.as_deref().map(hexadecimal),
            "numbers": numbers,
            "attempt": attempt.map(|attempt| attempt.to_string()),
        });
        options.deliver(&human, &object)?;
        Ok(verdict(name != "refused"))
    }
}

/// Parses a number of a procedure's input.
fn parse_number(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| format!("give whole numbers from {} to {}, separated by commas", i64::MIN, i64::MAX))
}

/// Parses a key and how the transaction accesses it.
fn parse_key(text: &str, nodes: usize) -> Result<(Key, Mode), String> {
    let (mode, place) = match text.split_once(':') {
        Some(("r", place)) => (Mode::Read, place),
        Some(("w", place)) => (Mode::Write, place),
        Some(_) => return Err(format!("the key `{text}` is neither r:SHARD/NUMBER nor w:SHARD/NUMBER")),
        None => (Mode::Update, text),
    };
    let parts = place.split_once('/').and_then(|(shard, local)| {
        Some((shard.parse::<usize>().ok()?, local.parse::<u64>().ok().filter(|local| local >> 56 == 0)?))
    });
    let Some((shard, local)) = parts else {
        return Err(format!("`{text}` is no key; give SHARD/NUMBER, such as 0/17"));
    };
    if shard >= nodes {
        return Err(format!("the key `{text}`: there is a shard for each node, 0 to {}", nodes - 1));
    }
    Ok((Key::new(shard, local), mode))
}

/// An answer as 64-bit numbers, if its length is a multiple of eight bytes.
fn numbers(answer: &[u8]) -> Option<Vec<i64>> {
    let (numbers, rest) = answer.as_chunks::<8>();
    rest.is_empty().then(|| numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_what_is_done_with_them() {
        assert_eq!(parse_key("2/17", 3), Ok((Key::new(2, 17), Mode::Update)));
        assert_eq!(parse_key("r:0/0", 3), Ok((Key::new(0, 0), Mode::Read)));
        assert_eq!(parse_key("w:1/5", 3), Ok((Key::new(1, 5), Mode::Write)));
        for (text, says) in [
            ("17", "give SHARD/NUMBER"),
            ("a/1", "give SHARD/NUMBER"),
            ("0/72057594037927936", "give SHARD/NUMBER"),
            ("x:0/1", "neither r:"),
            ("3/1", "0 to 2"),
        ] {
            let error = parse_key(text, 3).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn answers_are_numbers_where_they_can_be() {
        assert_eq!(numbers(&[1, 0, 0, 0, 0, 0, 0, 0]), Some(vec![1]));
        assert_eq!(numbers(&[]), Some(vec![]));
        assert_eq!(numbers(&[1]), None);
        assert_eq!(hexadecimal(&[1, 255]), "01ff");
    }
}
