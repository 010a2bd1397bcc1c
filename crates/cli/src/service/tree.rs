//! The changes that add a service to the tree of the repository: two files for its halves, and a line or an instance
//! in each file that lists the services.

use std::fmt;
use std::str::FromStr;

use crate::failure::Failure;

const LIST: &str = "crates/service/src/services/mod.rs";
const PACKAGE: &str = "rtl/services/services_pkg.sv";
const PATH: &str = "rtl/services/services.sv";
const TESTS: [&str; 2] = ["crates/service/tests/suite.rs", "crates/conformance/tests/services.rs"];
/// Tests that list the files of the module with the services.
const BLOCK_TESTS: [&str; 2] = ["rtl/services/test_service_port.py", "rtl/services/test_services.py"];
/// Lists of SystemVerilog files, and what precedes a file's path in them.
const FILES: [(&str, &str); 2] = [("rtl/weft.f", "services/"), ("weft.core", "      - rtl/services/")];

/// The largest number of a kind: settings have four bits for it.
const NUMBER_MAX: usize = 15;

/// Whether a service changes payload or observes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Map,
    Tap,
}

/// Name of a service, as files and modules have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(String);

/// Words that name no module in Rust, and one whose signal `services.sv` has already.
const TAKEN: &str = " abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen \
    if impl in let loop macro match mod move mut override priv pub ref return self state static struct super trait \
    true try type typeof unsafe unsized use virtual where while yield ";

impl FromStr for Name {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_word = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && name.len() <= 32
            && !TAKEN.contains(&format!(" {name} "));
        if is_word {
            Ok(Self(name.to_owned()))
        } else {
            Err("choose up to 32 lower-case letters, digits and _, beginning with a letter, and no keyword"
                .into())
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    /// The name as types have it: `byte_sum` becomes `ByteSum`.
    fn of_type(&self) -> String {
        let parts = self.0.split('_').filter_map(|part| {
            let first = part.chars().next()?;
            Some(format!("{}{}", first.to_ascii_uppercase(), &part[1..]))
        });
        parts.collect()
    }

    /// A template with this name in it.
    fn fill(&self, template: &str) -> String {
        template.replace("@name@", &self.0).replace("@Name@", &self.of_type())
    }
}

/// A file and its new content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) file: String,
    pub(super) text: String,
}

/// A file of the tree is not as this program knows it.
fn unknown_form(file: &str, line: &str) -> Failure {
    Failure::new(format!("{file} has no line `{line}`; add the service by hand, as docs/services.md says"))
}

/// A file of the tree that is being changed.
struct Text {
    file: &'static str,
    text: String,
}

impl Text {
    /// Inserts text behind the only place that has `anchor`.
    fn behind(&mut self, anchor: &str, text: &str) -> Result<&mut Self, Failure> {
        let mut found = self.text.match_indices(anchor).map(|(at, _)| at + anchor.len());
        match (found.next(), found.next()) {
            (Some(at), None) => {
                self.text.insert_str(at, text);
                Ok(self)
            }
            _ => Err(unknown_form(self.file, anchor.trim().lines().next().unwrap_or_default())),
        }
    }

    /// Inserts a line in order into the last block of lines that begin with `prefix`.
    fn in_order(&mut self, prefix: &str, line: &str) -> Result<&mut Self, Failure> {
        let mut lines: Vec<&str> = self.text.lines().collect();
        let missing = || unknown_form(self.file, prefix.trim());
        let end = 1 + lines.iter().rposition(|known| known.starts_with(prefix)).ok_or_else(missing)?;
        let others = lines[..end].iter().rposition(|known| !known.starts_with(prefix));
        let first = others.map_or(0, |at| at + 1);
        let at = first + lines[first..end].partition_point(|known| *known < line);
        lines.insert(at, line);
        self.text = lines.join("\n") + "\n";
        Ok(self)
    }

    /// The items between `head` and the next `tail`: where they end, and how many there are.
    fn items(&self, head: &str, tail: &str) -> Result<(usize, usize), Failure> {
        let missing = || unknown_form(self.file, head);
        let start = self.text.find(head).ok_or_else(missing)? + head.len();
        let end = start + self.text[start..].find(tail).ok_or_else(missing)?;
        let count = self.text[start..end].matches(" = ").count();
        if count > NUMBER_MAX {
            return Err(Failure::new(format!("{} has all {NUMBER_MAX} numbers in use", self.file)));
        }
        Ok((end, count))
    }
}

/// The changes that add a service. `read` returns the content of a file of the tree, if it is there.
pub(super) fn add(
    name: &Name,
    kind: Kind,
    read: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Change>, Failure> {
    let no_tree = |file| {
        Failure::new(format!(
            "{file} is not there; run this in the tree of Weft's repository, or name it with --out"
        ))
    };
    let text = |file| read(file).map(|text| Text { file, text }).ok_or_else(|| no_tree(file));
    let (mut list, mut package, mut path) = (text(LIST)?, text(PACKAGE)?, text(PATH)?);
    let rust = format!("crates/service/src/services/{name}.rs");
    let gates = format!("rtl/services/{name}_service.sv");
    let is_listed = |prefix: &str| list.text.contains(&format!("    {prefix} = "));
    if read(&rust).is_some() || read(&gates).is_some() || is_listed(&name.of_type()) {
        return Err(Failure::new(format!("there is a service `{name}` already; choose another name")));
    }
    in_rust(name, kind, &mut list)?;
    in_package(name, kind, &mut package)?;
    in_path(name, kind, &mut path)?;
    let mut texts = vec![list, package, path];
    for (file, prefix) in FILES {
        let mut files = text(file)?;
        files.in_order(prefix, &format!("{prefix}{name}_service.sv"))?;
        texts.push(files);
    }
    let setting = match kind {
        Kind::Map => "        Setting { map: MapKind::@Name@, ..BOTH },\n",
        Kind::Tap => "        Setting { tap: TapKind::@Name@, ..BOTH },\n",
    };
    let suites = TESTS.map(|file| (file, "        Setting::default(),\n", setting));
    let blocks = BLOCK_TESTS.map(|file| (file, "(\"count_service\", ", "\"@name@_service\", "));
    for (file, anchor, item) in suites.into_iter().chain(blocks) {
        let mut tests = text(file)?;
        tests.behind(anchor, &name.fill(item))?;
        texts.push(tests);
    }
    let halves = match kind {
        Kind::Map => [include_str!("templates/map.rs"), include_str!("templates/map.sv")],
        Kind::Tap => [include_str!("templates/tap.rs"), include_str!("templates/tap.sv")],
    };
    let new = [rust, gates].into_iter().zip(halves);
    let new = new.map(|(file, template)| Change { file, text: name.fill(template) });
    Ok(new.chain(texts.into_iter().map(|Text { file, text }| Change { file: file.into(), text })).collect())
}

/// Lists the half in Rust.
fn in_rust(name: &Name, kind: Kind, list: &mut Text) -> Result<(), Failure> {
    list.in_order("mod ", &name.fill("mod @name@;"))?;
    let head = match kind {
        Kind::Map => "pub enum MapKind {",
        Kind::Tap => "pub enum TapKind {",
    };
    let (end, number) = list.items(head, "}\n")?;
    list.text
        .insert_str(end, &name.fill(&format!("    /// The service `@name@`.\n    @Name@ = {number},\n")));
    match kind {
        Kind::Map => {
            list.behind(
                "MapKind::Xor => &Xor,\n",
                &name.fill("            MapKind::@Name@ => &@name@::@Name@,\n"),
            )?;
        }
        Kind::Tap => {
            for call in ["verdict(value, offset, bytes),\n", "accept(state, verdict),\n"] {
                list.behind(
                    &format!("Self::Count => Count.{call}"),
                    &name.fill(&format!("            Self::@Name@ => @name@::@Name@.{call}")),
                )?;
            }
        }
    }
    Ok(())
}

/// Gives the service its number in gates.
fn in_package(name: &Name, kind: Kind, package: &mut Text) -> Result<(), Failure> {
    let (prefix, end) = match kind {
        Kind::Map => ("Map", "\n  } map_e;"),
        Kind::Tap => ("Tap", "\n  } tap_e;"),
    };
    let head = format!("    {prefix}None ");
    let (end, number) = package.items(&head, end)?;
    // The longest of the names so far is padded with one space.
    let item = format!("{prefix}{}", name.of_type());
    let width = package.text[..end].lines().next_back().and_then(|last| last.trim_start().find(" ="));
    package.text.insert_str(end, &format!(",\n    {item:0$} = 4'd{number}", width.unwrap_or(0)));
    Ok(())
}

/// Instantiates the half in SystemVerilog, and selects its results.
fn in_path(name: &Name, kind: Kind, path: &mut Text) -> Result<(), Failure> {
    match kind {
        Kind::Map => {
            path.behind(
                "    .data_o (xored)\n  );\n",
                &name.fill(include_str!("templates/map_instance.sv")),
            )?
            .behind(
                "if (map_q == MapXor) mapped_beat.data = xored;\n",
                &name.fill("    if (map_q == Map@Name@) mapped_beat.data = @name@_data;\n"),
            )?;
        }
        Kind::Tap => {
            path.behind(
                "    .state_o   (state_counted)\n  );\n\n",
                &name.fill(include_str!("templates/tap_instance.sv")),
            )?
            .behind(
                "if (tapped.tap == TapInspect) verdict_o.verdict = inspected;\n",
                &name.fill("    if (tapped.tap == Tap@Name@) verdict_o.verdict = @name@_verdict;\n"),
            )?
            .behind(
                "assign state_data  = write ? '0 : ",
                &name.fill("accept_tap == Tap@Name@ ? @name@_state :\n      "),
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// The files of this repository, with changes.
    #[derive(Default)]
    struct Tree(BTreeMap<String, String>);

    impl Tree {
        fn read(&self, file: &str) -> Option<String> {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
            self.0.get(file).cloned().or_else(|| std::fs::read_to_string(root.join(file)).ok())
        }

        fn add(&mut self, name: &Name, kind: Kind) -> Result<(), Failure> {
            let changes = add(name, kind, |file| self.read(file))?;
            self.0.extend(changes.into_iter().map(|change| (change.file, change.text)));
            Ok(())
        }
    }

    #[test]
    fn services_are_listed_in_both_halves() {
        let mut tree = Tree::default();
        for (text, kind) in
            [("shift", Kind::Map), ("equal_bytes", Kind::Tap), ("a", Kind::Map), ("zz", Kind::Tap)]
        {
            tree.add(&name(text), kind).unwrap();
            let again = tree.add(&name(text), Kind::Tap).unwrap_err();
            assert!(again.to_string().contains("already"), "{again}");
        }
        let has = |file: &str, part: &str| assert!(tree.read(file).unwrap().contains(part), "{file}: {part}");
        has(LIST, "mod a;\nmod count;\nmod equal_bytes;\nmod shift;\nmod xor;\nmod zz;\n");
        has(
            LIST,
            "    Preprocess = 2,\n    /// The service `shift`.\n    Shift = 3,\n    /// The service `a`.\n    A = 4,\n}",
        );
        has(LIST, "Self::EqualBytes => equal_bytes::EqualBytes.accept(state, verdict),\n");
        has(PACKAGE, "    MapShift      = 4'd3,\n    MapA          = 4'd4\n  } map_e;");
        has(PACKAGE, "    TapEqualBytes = 4'd3,\n    TapZz         = 4'd4\n  } tap_e;");
        has(
            PATH,
            "accept_tap == TapZz ? zz_state :\n      accept_tap == TapEqualBytes ? equal_bytes_state :\n",
        );
        has("rtl/services/test_services.py", "(\"count_service\", \"zz_service\", \"a_service\", ");
        has("rtl/weft.f", "services/count_service.sv\nservices/equal_bytes_service.sv\nservices/ghash.sv\n");
        has("weft.core", "rtl/services/services.sv\n      - rtl/services/shift_service.sv\n");
        has("crates/conformance/tests/services.rs", "Setting { map: MapKind::Shift, ..BOTH },\n");
        has("rtl/services/equal_bytes_service.sv", "module equal_bytes_service\n");
    }

    #[test]
    fn a_tree_that_is_none_is_left_alone() {
        let nowhere = add(&name("shift"), Kind::Map, |_| None).unwrap_err();
        assert!(nowhere.to_string().contains("--out"), "{nowhere}");
        let tree = Tree::default();
        let without = |file: &str| tree.read(file).map(|text| text.replace("(xored)", "(other)"));
        let refused = add(&name("shift"), Kind::Map, without).unwrap_err();
        assert!(refused.to_string().contains("services.sv has no line `.data_o (xored)`"), "{refused}");
        for known in ["count", "xor", "inspect", "preprocess"] {
            let refused = add(&name(known), Kind::Tap, |file| tree.read(file)).unwrap_err();
            assert!(refused.to_string().contains("already"), "{refused}");
        }
    }

    #[test]
    fn numbers_come_to_an_end() {
        let mut tree = Tree::default();
        let added = (0..20).map(|number| tree.add(&name(&format!("m{number}")), Kind::Map));
        let added: Vec<_> = added.collect();
        assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 13);
        let full = added[13].as_ref().unwrap_err().to_string();
        assert!(full.contains("15 numbers"), "{full}");
    }

    #[test]
    fn names_are_words() {
        assert_eq!(name("byte_sum2").of_type(), "ByteSum2");
        for wrong in ["", "Xor", "2x", "a-b", "match", "ü", "a/b", &"x".repeat(33)] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong}");
        }
    }
}
