//! Command lines that repeat a run.

use std::fmt::{self, Display};

/// A command line under construction.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine(String);

impl CommandLine {
    /// Begins with a command: `weft bench kv`.
    pub(crate) fn new(command: &str) -> Self {
        Self(command.to_owned())
    }

    /// Adds a word.
    pub(crate) fn word(mut self, word: &str) -> Self {
        self.0 += &format!(" {}", quoted(word));
        self
    }

    /// Adds an option with its value.
    pub(crate) fn option(mut self, name: &str, value: impl Display) -> Self {
        self.0 += &format!(" {name} {}", quoted(&value.to_string()));
        self
    }

    /// Adds an option unless its value is the default.
    pub(crate) fn unless<T: Display + PartialEq>(self, default: T, name: &str, value: T) -> Self {
        if value == default { self } else { self.option(name, value) }
    }

    /// Adds an option without value if it was given.
    pub(crate) fn flag(mut self, name: &str, given: bool) -> Self {
        if given {
            self.0 += &format!(" {name}");
        }
        self
    }

    /// Adds an option with its value, if there is a value.
    pub(crate) fn given(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.option(name, value),
            None => self,
        }
    }
}

impl Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word, quoted so that a shell reads it as one word.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./,:=+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_holds_what_differs() {
        let line = CommandLine::new("weft bench kv").option("--seed", 7).unless(32, "--clients", 32);
        let line = line.unless(3, "--nodes", 5).given("--records", Some(9)).given("--seconds", None::<u8>);
        assert_eq!(line.to_string(), "weft bench kv --seed 7 --nodes 5 --records 9");
    }

    #[test]
    fn words_survive_a_shell() {
        for word in ["plan.toml", "my plan.toml", "it's", "$HOME", "", "a\"b`c", "ü"] {
            let line = CommandLine::new("printf '[%s]'").option("%s", word).to_string();
            let output = std::process::Command::new("sh").arg("-c").arg(&line).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("[%s][{word}]"), "{line}");
        }
    }
}
