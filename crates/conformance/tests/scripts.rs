//! Every script, on every pair of kinds: equal lines, frames equal byte by byte, and waits of equal length.

use weft_conformance::script::{self, waits_agree};
use weft_conformance::twin::{Kind, Options};

/// Compares one script on one pair of kinds with the same script on two soft NICs.
fn compare(name: &str, text: &str, kinds: [Kind; 2]) -> Result<(), String> {
    let options = Options { power_on_seed: 1, ..Options::default() };
    let expected = script::replay(text, [Kind::Soft; 2], options);
    let found = script::replay(text, kinds, options);
    let pair = format!("{name}, {}-{}", kinds[0].name(), kinds[1].name());
    if found.lines != expected.lines {
        let at = expected.lines.iter().zip(&found.lines).take_while(|(one, other)| one == other).count();
        let show = |lines: &[String]| {
            lines[at.saturating_sub(8).min(lines.len())..(at + 8).min(lines.len())].join("\n")
        };
        return Err(format!(
            "{pair}, line {at}\n--- soft-soft:\n{}\n--- found:\n{}\n",
            show(&expected.lines),
            show(&found.lines)
        ));
    }
    for (index, (one, other)) in expected.frames.iter().zip(&found.frames).enumerate() {
        if one != other {
            return Err(format!(
                "{pair}, frame {index} ({}):\n{:02x?}\n{:02x?}\n",
                script::describe_frame(&one.1),
                one,
                other
            ));
        }
    }
    if !waits_agree(&expected.waits, &found.waits) {
        return Err(format!("{pair}: waits {:?} and {:?}\n", expected.waits, found.waits));
    }
    Ok(())
}

fn check(kinds: [Kind; 2]) {
    let mut failures = Vec::new();
    for (name, path) in script::all() {
        if std::env::var("ONLY").is_ok_and(|only| only != name) {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        failures.extend(compare(&name, &text, kinds).err());
    }
    assert!(failures.is_empty(), "{} scripts differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn soft_is_deterministic() {
    check([Kind::Soft; 2]);
}

#[test]
fn rtl_is_as_soft() {
    check([Kind::Rtl; 2]);
}

#[test]
fn soft_talks_to_rtl() {
    check([Kind::Soft, Kind::Rtl]);
}

#[test]
fn rtl_talks_to_soft() {
    check([Kind::Rtl, Kind::Soft]);
}
