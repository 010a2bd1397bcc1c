//! The packed structs of the SystemVerilog packages, as Rust.
//!
//! The parser supports what the packages use: constants, aliases, enumerations, packed structs, and the
//! expressions in their ranges. Declarations that use anything else are skipped.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A field of a struct.
struct Field {
    name: String,
    /// The type's name if it is a struct of the package.
    nested: Option<String>,
    bits: u32,
}

/// A struct, its first field in the highest bits.
struct Struct {
    name: String,
    fields: Vec<Field>,
}

impl Struct {
    fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum()
    }
}

/// The declarations of the packages.
pub(crate) struct Package {
    constants: BTreeMap<String, u64>,
    /// Constants and members of enumerations, in the order of declaration, with their values.
    named: Vec<(String, u64)>,
    widths: BTreeMap<String, u32>,
    structs: Vec<Struct>,
    /// Number of entries of `named` and `structs` that belong to the shared packages.
    shared: (usize, usize),
    /// Names that are declared twice. Only a constant of an engine may have the name of a shared one.
    repeated: Vec<String>,
}

impl Package {
    /// Parses the shared packages and then those of engines.
    pub(crate) fn parse(shared: &str, own: &str) -> Result<Self, String> {
        let mut package = Self {
            constants: BTreeMap::new(),
            named: Vec::new(),
            widths: BTreeMap::from([("logic".to_owned(), 1)]),
            structs: Vec::new(),
            shared: (0, 0),
            repeated: Vec::new(),
        };
        package.add(shared)?;
        package.shared = (package.named.len(), package.structs.len());
        package.add(own)?;
        if !package.repeated.is_empty() {
            Err(format!("the packages declare twice: {}", package.repeated.join(", ")))
        } else if package.shared.1 == 0 {
            Err("the packages of the list declare no packed struct".into())
        } else if package.bit_names("nic_events_t").is_empty() {
            Err("the packages declare no `nic_events_t` of known width: no event would be counted".into())
        } else {
            Ok(package)
        }
    }

    fn add(&mut self, source: &str) -> Result<(), String> {
        let words = without_macros(tokens(&without_comments(source)));
        let mut rest = &words[..];
        while let Some(word) = rest.first() {
            let end = match word.as_str() {
                "localparam" | "parameter" => find(rest, ";")?,
                "typedef" => typedef_end(rest)?,
                _ => {
                    rest = &rest[1..];
                    continue;
                }
            };
            let declaration = &rest[..end];
            rest = &rest[end..];
            // Declarations that the parser does not support are skipped.
            let _ = if word == "typedef" { self.typedef(declaration) } else { self.constant(declaration) };
        }
        Ok(())
    }

    /// `localparam int unsigned Name = expression`
    fn constant(&mut self, words: &[String]) -> Option<()> {
        let equals = words.iter().position(|word| word == "=")?;
        let name = words.get(equals - 1)?.clone();
        let value = self.value(&words[equals + 1..])?;
        self.name(name, value);
        Some(())
    }

    fn name(&mut self, name: String, value: u64) {
        if self.named[self.shared.0..].iter().any(|(known, _)| *known == name) {
            self.repeated.push(name.clone());
        }
        self.constants.insert(name.clone(), value);
        self.named.push((name, value));
    }

    fn kind(&mut self, name: String, width: u32) {
        if self.widths.insert(name.clone(), width).is_some() {
            self.repeated.push(name);
        }
    }

    fn typedef(&mut self, words: &[String]) -> Option<()> {
        let name = words.last()?.clone();
        let body = words.iter().position(|word| word == "{").map(|open| (open, words.len() - 2));
        match (words.get(1)?.as_str(), body) {
            ("struct", Some((open, close))) => {
                let fields: Option<Vec<Field>> = words[open + 1..close]
                    .split(|word| word == ";")
                    .filter(|field| !field.is_empty())
                    .map(|field| self.field(field))
                    .collect();
                let made = Struct { name: name.clone(), fields: fields? };
                self.kind(name, made.bits());
                self.structs.push(made);
            }
            ("enum", Some((open, close))) => {
                let width = self.width(&words[2..open])?;
                self.kind(name, width);
                let mut next = 0;
                for member in
                    words[open + 1..close].split(|word| word == ",").filter(|member| !member.is_empty())
                {
                    if let Some(equals) = member.iter().position(|word| word == "=") {
                        next = self.value(&member[equals + 1..])?;
                    }
                    self.name(member[0].clone(), next);
                    next += 1;
                }
            }
            _ => {
                let width = self.width(&words[1..words.len() - 1])?;
                self.kind(name, width);
            }
        }
        Some(())
    }

    /// `type [high:low] name`
    fn field(&self, words: &[String]) -> Option<Field> {
        let (name, kind) = words.split_last()?;
        let nested = self.structs.iter().any(|known| known.name == kind[0]).then(|| kind[0].clone());
        let bits = self.width(kind)?;
        // An array of structs becomes plain bits in Rust.
        let nested = nested.filter(|nested| self.widths[nested] == bits);
        Some(Field { name: name.clone(), nested, bits })
    }

    /// Width in bits of `type [high:low] [high:low] …`.
    fn width(&self, words: &[String]) -> Option<u32> {
        let mut width = *self.widths.get(words.first()?)?;
        for range in words[1..].split(|word| word == "[").filter(|range| !range.is_empty()) {
            let (bracket, range) = range.split_last()?;
            let colon = range.iter().position(|word| word == ":")?;
            let (high, low) = (self.value(&range[..colon])?, self.value(&range[colon + 1..])?);
            if bracket != "]" {
                return None;
            }
            width *= u32::try_from(high.checked_sub(low)? + 1).ok()?;
        }
        Some(width)
    }

    fn value(&self, words: &[String]) -> Option<u64> {
        let mut rest = words;
        let value = self.sum(&mut rest)?;
        rest.is_empty().then_some(value)
    }

    fn sum(&self, rest: &mut &[String]) -> Option<u64> {
        let mut value = self.product(rest)?;
        while let Some(sign @ ("+" | "-")) = rest.first().map(String::as_str) {
            *rest = &rest[1..];
            let other = self.product(rest)?;
            value = if sign == "+" { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn product(&self, rest: &mut &[String]) -> Option<u64> {
        let mut value = self.factor(rest)?;
        while let Some(sign @ ("*" | "/")) = rest.first().map(String::as_str) {
            *rest = &rest[1..];
            let other = self.factor(rest)?;
            value = if sign == "*" { value.checked_mul(other)? } else { value.checked_div(other)? };
        }
        Some(value)
    }

    fn factor(&self, rest: &mut &[String]) -> Option<u64> {
        let (word, after) = rest.split_first()?;
        *rest = after;
        if word == "$clog2" {
            let value = self.factor(rest)?;
            return Some(u64::from(64 - value.checked_sub(1)?.leading_zeros()).max(1));
        }
        if word == "(" {
            let value = self.sum(rest)?;
            *rest = rest.strip_prefix(&[")".to_owned()][..])?;
            return Some(value);
        }
        if let Some((_, literal)) = word.split_once('\'') {
            let (radix, digits) = literal.split_at_checked(1)?;
            let radix = match radix {
                "h" => 16,
                "d" => 10,
                "b" => 2,
                _ => return None,
            };
            return u64::from_str_radix(&digits.replace('_', ""), radix).ok();
        }
        word.replace('_', "").parse().ok().or_else(|| self.constants.get(word).copied())
    }

    /// A Rust struct with `pack` and `unpack` for each struct of the shared packages, and a constant for each name.
    pub(crate) fn rust(&self) -> String {
        let mut text = self.rust_of(&self.named[..self.shared.0], &self.structs[..self.shared.1]);
        let _ = writeln!(
            text,
            "\n/// The counters by their numbers: the bits of `nic_events_t`.\npub const COUNTERS: &[&str] = &{:?};",
            self.bit_names("nic_events_t")
        );
        let _ = writeln!(
            text,
            "\n/// The block that has each counter.\npub const COUNTER_BLOCKS: &[&str] = &{:?};",
            self.bit_blocks("nic_events_t")
        );
        text
    }

    /// The same for the packages of engines. The struct of all events is left out, because nothing in Rust
    /// holds one.
    pub(crate) fn rust_of_engines(&self) -> String {
        let structs = self.structs[self.shared.1..].iter().filter(|made| made.name != "nic_events_t");
        self.rust_of(&self.named[self.shared.0..], structs)
    }

    fn rust_of<'a>(&self, named: &[(String, u64)], structs: impl IntoIterator<Item = &'a Struct>) -> String {
        let mut text = String::new();
        for (name, value) in named {
            let _ = writeln!(text, "/// `{name}`.\npub const {}: u64 = {value};", screaming(name));
        }
        for made in structs {
            rust_struct(made, &mut text);
        }
        text
    }

    /// For each bit of a struct, from bit 0 on: the name of its outermost field.
    fn bit_blocks(&self, name: &str) -> Vec<&str> {
        let Some(made) = self.structs.iter().find(|made| made.name == name) else { return Vec::new() };
        made.fields.iter().rev().flat_map(|field| vec![&*field.name; field.bits as usize]).collect()
    }

    /// For each bit of a struct, from bit 0 on: the name of its innermost field.
    fn bit_names(&self, name: &str) -> Vec<&str> {
        let Some(made) = self.structs.iter().find(|made| made.name == name) else { return Vec::new() };
        let fields = made.fields.iter().rev();
        fields
            .flat_map(|field| match &field.nested {
                Some(nested) => self.bit_names(nested),
                None => vec![&*field.name; field.bits as usize],
            })
            .collect()
    }
}

fn rust_struct(made: &Struct, text: &mut String) {
    let (name, bits) = (rust_name(&made.name), made.bits());
    let words = bits.div_ceil(32);
    let _ = writeln!(
        text,
        "\n/// `{}`.\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\npub struct {name} {{",
        made.name
    );
    for field in &made.fields {
        let _ = writeln!(
            text,
            "    /// Field `{0}`, {1} bits.\n    pub {2}: {3},",
            field.name,
            field.bits,
            field_name(&field.name),
            field_type(field)
        );
    }
    let fields: Vec<(&str, u32)> = made.fields.iter().map(|field| (&*field.name, field.bits)).collect();
    let (mut pack, mut unpack) = (String::new(), String::new());
    let mut at = bits;
    for field in &made.fields {
        at -= field.bits;
        let (name, bits) = (field_name(&field.name), field.bits);
        let _ = match (&field.nested, bits) {
            (Some(nested), _) => {
                let nested = rust_name(nested);
                let _ = writeln!(pack, "        put_words(&mut words, {at}, {bits}, &self.{name}.pack());");
                writeln!(unpack, "            {name}: {nested}::unpack(&take_words(words, {at}, {bits})),")
            }
            (None, 1) => {
                let _ = writeln!(pack, "        put(&mut words, {at}, 1, self.{name}.into());");
                writeln!(unpack, "            {name}: take(words, {at}, 1) != 0,")
            }
            (None, 2..=64) => {
                let _ = writeln!(pack, "        put(&mut words, {at}, {bits}, self.{name}.into());");
                writeln!(unpack, "            {name}: take(words, {at}, {bits}) as {},", field_type(field))
            }
            _ => {
                let _ = writeln!(pack, "        put_words(&mut words, {at}, {bits}, &self.{name});");
                writeln!(unpack, "            {name}: take_words(words, {at}, {bits}),")
            }
        };
    }
    let _ = write!(
        text,
        "}}\n\nimpl {name} {{\n\
         \x20   /// Bits.\n    pub const BITS: u32 = {bits};\n\n\
         \x20   /// Its fields and their bits, the highest first.\n\
         \x20   pub const FIELDS: &'static [(&'static str, u32)] = &{fields:?};\n\n\
         \x20   /// The packed value, the lowest word first.\n    #[inline]\n\
         \x20   pub fn pack(&self) -> [u32; {words}] {{\n        let mut words = [0; {words}];\n{pack}        words\n    }}\n\n\
         \x20   /// The fields of a packed value.\n    #[inline]\n\
         \x20   pub fn unpack(words: &[u32; {words}]) -> Self {{\n        Self {{\n{unpack}        }}\n    }}\n"
    );
    if bits <= 64 {
        let _ = write!(
            text,
            "\n    /// The packed value of up to 64 bits.\n    #[inline]\n    pub fn to_bits(&self) -> u64 {{\n\
             \x20       take(&self.pack(), 0, {bits})\n    }}\n\n\
             \x20   /// The fields of a packed value of up to 64 bits.\n    #[inline]\n    pub fn from_bits(bits: u64) -> Self {{\n\
             \x20       let mut words = [0; {words}];\n        put(&mut words, 0, {bits}, bits);\n        Self::unpack(&words)\n    }}\n"
        );
    }
    text.push_str("}\n");
}

/// The text without `//` comments.
pub(crate) fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The tokens: identifiers, numbers and literals as a whole; punctuation character by character.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$' | '\'');
    let mut tokens: Vec<String> = Vec::new();
    let mut inside = false;
    for letter in text.chars() {
        if is_word(letter) {
            match tokens.last_mut().filter(|_| inside) {
                Some(word) => word.push(letter),
                None => tokens.push(letter.into()),
            }
        } else if !letter.is_whitespace() {
            tokens.push(letter.into());
        }
        inside = is_word(letter);
    }
    tokens
}

/// The tokens with macros replaced by the values that the package defines for them.
fn without_macros(mut words: Vec<String>) -> Vec<String> {
    while let Some(at) = words.windows(2).position(|pair| pair == ["`", "define"]) {
        let definition: Vec<String> = words.drain(at..(at + 4).min(words.len())).skip(2).collect();
        let [name, value] = &definition[..] else { break };
        while let Some(at) = words.windows(2).position(|pair| pair[0] == "`" && pair[1] == *name) {
            words.splice(at..at + 2, [value.clone()]);
        }
    }
    words
}

/// Index of the first token `what`.
fn find(words: &[String], what: &str) -> Result<usize, String> {
    words.iter().position(|word| word == what).ok_or_else(|| format!("the package ends without a `{what}`"))
}

/// Index of the end of a typedef: the semicolon after its body, if it has one.
fn typedef_end(words: &[String]) -> Result<usize, String> {
    let first = find(words, ";")?;
    match words[..first].iter().any(|word| word == "{") {
        true => {
            let close = find(words, "}")?;
            Ok(close + find(&words[close..], ";")?)
        }
        false => Ok(first),
    }
}

/// `work_request_t` becomes `WorkRequest`.
fn rust_name(name: &str) -> String {
    let words = name.strip_suffix("_t").unwrap_or(name).split('_');
    words
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
        })
        .collect()
}

/// `OperationSend` becomes `OPERATION_SEND`.
fn screaming(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() && !text.ends_with('_') {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
    }
    text
}

fn field_name(name: &str) -> String {
    if matches!(name, "type" | "match" | "move" | "ref" | "use" | "final" | "loop") {
        format!("r#{name}")
    } else {
        name.into()
    }
}

fn field_type(field: &Field) -> String {
    match (&field.nested, field.bits) {
        (Some(nested), _) => rust_name(nested),
        (None, 1) => "bool".into(),
        (None, 2..=8) => "u8".into(),
        (None, 9..=16) => "u16".into(),
        (None, 17..=32) => "u32".into(),
        (None, 33..=64) => "u64".into(),
        (None, bits) => format!("[u32; {}]", bits.div_ceil(32)),
    }
}
