//! Golden scripts, as the tests of all engines play them: files with commands, and below each what came of it when
//! somebody read it.
//!
//! A line that begins with `>` is a command. Lines with `#` and empty ones are remarks and stay; all others are what
//! came of the commands.

use std::fmt::Write as _;
use std::path::Path;

/// What commands are carried out on.
pub trait Stage {
    /// Carries out a command of these words.
    fn command(&mut self, words: &[&str]);

    /// What has come of the commands so far, in lines.
    fn output(&mut self) -> &mut String;
}

/// The script with what comes of its commands on this stage.
fn play(mut stage: impl Stage, script: &str) -> String {
    for line in script.lines() {
        let command = line.strip_prefix('>');
        if command.is_some() || line.starts_with('#') || line.is_empty() {
            writeln!(stage.output(), "{line}").unwrap();
        }
        if let Some(command) = command {
            stage.command(&command.split_whitespace().collect::<Vec<_>>());
        }
    }
    std::mem::take(stage.output())
}

/// Plays every script of the crate, of which there are so many at least, each on a stage of its own, and compares
/// what it says with what comes of its commands, or writes it anew if WEFT_UPDATE_SCRIPTS is set.
pub fn scripts_read_as_they_did<S: Stage>(least: usize, stage: impl Fn() -> S) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= least, "the scripts are there");
    for path in paths {
        let script = std::fs::read_to_string(&path).unwrap();
        let played = play(stage(), &script);
        if std::env::var_os("WEFT_UPDATE_SCRIPTS").is_some() {
            std::fs::write(&path, played).unwrap();
        } else {
            let differs = played.lines().zip(script.lines()).position(|(is, should)| is != should);
            let line = differs.map(|line| line + 1);
            assert_eq!(played, script, "{} differs from line {line:?}", path.display());
        }
    }
}
