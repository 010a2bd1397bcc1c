//! Names in SystemVerilog.

use super::GatesError;
use crate::definition::Definition;

/// Names of signals that every module has, without their suffixes.
const TAKEN: [&str; 7] = ["answer", "answer_valid", "call", "clear", "replica", "rst", "valid"];

/// The words of a name, in lower case: `addStudent` is `add_student`, `2p-set` is `2p_set`.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        snake.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' });
    }
    snake
}

/// The words of a name, each with a capital.
pub(super) fn camel(name: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    snake(name).split('_').filter(|word| !word.is_empty()).map(capital).collect()
}

/// The module of a type.
pub(super) fn module(name: &str) -> String {
    format!("rdt_{}", snake(name))
}

/// The stem of the signals of a field. Every signal has a suffix, so it is no keyword.
pub(super) fn field(name: &str) -> String {
    let name = snake(name);
    if TAKEN.contains(&&*name) { format!("{name}_field") } else { name }
}

/// The local variable of a parameter.
pub(super) fn parameter(name: &str) -> String {
    format!("arg_{}", snake(name))
}

/// The variable of a quantifier.
pub(super) fn variable(name: &str) -> String {
    format!("any_{}", snake(name))
}

/// Refuses a definition if two of its names become one.
pub(super) fn check(definition: &Definition) -> Result<(), GatesError> {
    let distinct = |names: Vec<&'static str>, convert: fn(&str) -> String| {
        for (index, &second) in names.iter().enumerate() {
            if let Some(&first) = names[..index].iter().find(|&&first| convert(first) == convert(second)) {
                return Err(GatesError::SameName { first: first.into(), second: second.into() });
            }
        }
        Ok(())
    };
    distinct(definition.fields.iter().map(|field| field.name).collect(), field)?;
    distinct(definition.methods.iter().map(|method| method.name).collect(), camel)?;
    distinct(definition.queries.iter().map(|query| query.name).collect(), camel)?;
    let lists = definition.methods.iter().map(|method| &method.parameters);
    for parameters in lists.chain(definition.queries.iter().map(|query| &query.parameters)) {
        distinct(parameters.iter().map(|parameter| parameter.name).collect(), parameter)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_style_of_the_house() {
        assert_eq!(snake("addStudent"), "add_student");
        assert_eq!(camel("addStudent"), "AddStudent");
        assert_eq!(module("2p-set"), "rdt_2p_set");
        assert_eq!(field("call"), "call_field");
    }
}
