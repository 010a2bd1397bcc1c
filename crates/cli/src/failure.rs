//! Outcome of a command.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Messages of the standard library for unreadable numbers, and their replacements.
const UNREADABLE_NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "give a whole number, 0 or more"),
    ("cannot parse integer from empty string", "give a whole number, 0 or more"),
    ("number too large to fit in target type", "give a smaller number"),
];

/// Verdict of a command that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is wrong.
    Good,
    /// A history violates the protocol's guarantees, or data arrived wrong.
    Violated,
    /// The cluster has answered no: not found, mismatch, or refused by the procedure.
    Negative,
    /// The cluster has answered, and something is wrong with it.
    Unwell,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::SUCCESS,
            Verdict::Violated => Self::from(1),
            Verdict::Negative => Self::from(3),
            Verdict::Unwell => Self::from(4),
        }
    }
}

/// Why a command could not do its work: one line with the error and its remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure that shows this line.
    pub(crate) fn new(line: impl fmt::Display) -> Self {
        Self(line.to_string())
    }

    /// A failure that is caused by the file at `path`.
    pub(crate) fn at(path: &Path, reason: impl fmt::Display) -> Self {
        Self(format!("{}: {reason}", path.display()))
    }

    /// The command-line parser's error about the options of `subcommand`, in one line.
    pub(crate) fn of_arguments(error: &clap::Error, subcommand: &str) -> Self {
        let what = match error.kind() {
            ErrorKind::MissingSubcommand => "a subcommand is missing".to_owned(),
            _ => {
                let text = error.to_string();
                let paragraph = text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>();
                let what = paragraph.join(" ").trim_start_matches("error: ").to_owned();
                UNREADABLE_NUMBERS.iter().fold(what, |what, (from, to)| what.replace(from, to))
            }
        };
        let kinds =
            [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
        let similar = kinds.into_iter().find_map(|kind| match error.get(kind)? {
            ContextValue::String(name) => Some(name.clone()),
            // Prefer the shortest name: the longer ones are hidden subcommands whose names begin with a
            // visible one.
            ContextValue::Strings(names) => names.iter().min_by_key(|name| name.len()).cloned(),
            _ => None,
        });
        let hint = similar.map_or(String::new(), |name| format!("did you mean `{name}`? "));
        Self(format!("{what}; {hint}see `{subcommand} --help`"))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = self.0.split_whitespace();
        f.write_str(words.next().unwrap_or_default())?;
        words.try_for_each(|word| write!(f, " {word}"))
    }
}

/// Whether the parser's "error" is output that the user asked for: the version, the help, or the help of a command
/// without a subcommand.
pub(crate) fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The subcommand with which the arguments begin: for example, `weft bench kv`.
pub(crate) fn subcommand<C: CommandFactory>(arguments: &[OsString]) -> String {
    let root = C::command();
    let mut command = &root;
    let mut path = command.get_name().to_owned();
    for argument in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        match command.find_subcommand(argument) {
            Some(found) => {
                command = found;
                path = format!("{path} {argument}");
            }
            None => break,
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_failure_is_one_line_whatever_it_was_told() {
        assert_eq!(
            Failure::new("a node ended:\n  panicked\n\tat x\n").to_string(),
            "a node ended: panicked at x"
        );
    }

    #[test]
    fn a_subcommand_is_named_as_far_as_it_exists() {
        let path = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            subcommand::<crate::Cli>(&words)
        };
        assert_eq!(path("target/weft bench kv --nodes x"), "weft bench kv");
        assert_eq!(path("weft bench nothing"), "weft bench");
        assert_eq!(path("weft --nodes"), "weft");
    }

    #[test]
    fn a_command_called_bare_asks_for_help() {
        for words in [&["weft"][..], &["weft", "bench"], &["weft", "--help"], &["weft", "--version"]] {
            assert!(is_help(&crate::Cli::try_parse_from(words).expect_err("it only prints")), "{words:?}");
        }
        assert!(!is_help(&crate::Cli::try_parse_from(["weft", "bnch"]).expect_err("it is wrong")));
    }

    #[test]
    fn what_the_parser_says_becomes_one_line() {
        let line = |words: &[&str]| {
            let error = crate::Cli::try_parse_from(words).expect_err("it is wrong");
            Failure::of_arguments(&error, "weft x").to_string()
        };
        assert_eq!(
            line(&["weft", "bnch"]),
            "unrecognized subcommand 'bnch'; did you mean `bench`? see `weft x --help`"
        );
        assert_eq!(
            line(&["weft", "bench", "kv", "--seed", "seven"]),
            "invalid value 'seven' for '--seed <N>': give a whole number, 0 or more; see `weft x --help`"
        );
        let large = line(&["weft", "bench", "kv", "--seed", "18446744073709551616"]);
        assert!(large.contains("give a smaller number"), "{large}");
        let without = line(&["weft", "log", "--config", "weft.toml"]);
        assert_eq!(without, "a subcommand is missing; see `weft x --help`");
        let missing = line(&["weft", "start"]);
        assert!(
            missing.starts_with("the following required arguments were not provided: --node"),
            "{missing}"
        );
    }
}
