//! Expressions in SystemVerilog, and in words for its comments.

use super::action::{Action, Row, is_set};
use super::storage::MEMBERS;
use super::{Gates, index_bits, names};
use crate::definition::{Definition, Parameter, ParameterKind};
use crate::expression::Expression;

/// The statements of one action, under construction.
pub(super) struct Body<'a> {
    pub(super) gates: &'a Gates,
    pub(super) action: &'a Action<'a>,
    /// Declarations of the block's variables.
    pub(super) locals: Vec<String>,
    pub(super) lines: Vec<String>,
    /// The variables of elements.
    elements: Vec<String>,
    depth: usize,
    quantifiers: usize,
}

impl<'a> Body<'a> {
    pub(super) const fn new(gates: &'a Gates, action: &'a Action<'a>) -> Self {
        Self { gates, action, locals: vec![], lines: vec![], elements: vec![], depth: 0, quantifiers: 0 }
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        self.lines.push("  ".repeat(self.depth) + line.as_ref());
    }

    pub(super) fn comment(&mut self, text: &str) {
        self.line(format!("// {}", text.replace('\n', " ")));
    }

    /// Declares a variable and gives it a value.
    pub(super) fn local(&mut self, kind: &str, name: &str, value: &str) {
        self.locals.push(format!("automatic {kind} {name};"));
        self.line(format!("{name} = {value};"));
    }

    /// Declares a variable for an element. It is left out if nothing uses it.
    pub(super) fn element(&mut self, kind: &str, name: &str, value: &str) {
        self.elements.push(name.to_owned());
        self.local(kind, name, value);
    }

    /// The declarations and statements.
    pub(super) fn finish(self) -> Vec<String> {
        let all: Vec<_> = self.locals.into_iter().chain(self.lines).collect();
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let names = |line: &&String, name: &String| {
            !line.starts_with("//") && line.split(|letter| !is_word(letter)).any(|word| word == name)
        };
        // A variable that is used occurs in more lines than its declaration and its assignment.
        let unused = |name: &&String| all.iter().filter(|line| names(line, name)).count() == 2;
        let unused: Vec<_> = self.elements.iter().filter(unused).collect();
        let stays = |line: &&String| !unused.iter().any(|name| names(line, name));
        all.iter().filter(stays).cloned().collect()
    }

    /// The signal of an argument of the call.
    pub(super) fn argument(&self, parameter: usize) -> String {
        format!("call_q.arguments[{}]", self.action.position(parameter))
    }

    /// The term of an expression. A quantifier becomes a loop in front of it.
    pub(super) fn term(&mut self, expression: &Expression) -> String {
        match expression {
            Expression::Boolean(value) => format!("1'b{}", u8::from(*value)),
            Expression::Number(value) => self.gates.literal(*value),
            Expression::Not(inner) => format!("(!{})", self.term(inner)),
            Expression::All(parts) => self.join(parts, " && ", "1'b1"),
            Expression::Any(parts) => self.join(parts, " || ", "1'b0"),
            Expression::Same(first, second) => {
                // A quantifier's variable is an int.
                let wide = |term: String| format!("32'({term})");
                format!("({} == {})", wide(self.term(first)), wide(self.term(second)))
            }
            Expression::Less(first, second) => self.binary(first, "<", second),
            Expression::AtMost(first, second) => self.binary(first, "<=", second),
            Expression::Add(first, second) => self.binary(first, "+", second),
            Expression::Subtract(first, second) => self.binary(first, "-", second),
            Expression::If(condition, then, otherwise) => {
                let [condition, then, otherwise] = [condition, then, otherwise].map(|part| self.term(part));
                format!("({condition} ? {then} : {otherwise})")
            }
            Expression::Read { field, indices } => self.read(*field, indices),
            Expression::Parameter(parameter) => names::parameter(self.action.parameters()[*parameter].name),
            Expression::Variable(variable) => names::variable(variable),
            Expression::Every { variable, sort, body } => self.quantifier(variable, sort, body, true),
            Expression::Some { variable, sort, body } => self.quantifier(variable, sort, body, false),
        }
    }

    fn binary(&mut self, first: &Expression, operator: &str, second: &Expression) -> String {
        format!("({} {operator} {})", self.term(first), self.term(second))
    }

    fn join(&mut self, parts: &[Expression], operator: &str, neutral: &str) -> String {
        let parts: Vec<_> = parts.iter().map(|part| self.term(part)).collect();
        if parts.is_empty() { neutral.to_owned() } else { format!("({})", parts.join(operator)) }
    }

    fn read(&mut self, field: usize, indices: &[Expression]) -> String {
        let plan = &self.gates.fields[field];
        let indices: Vec<_> = indices.iter().map(|index| (index, self.term(index))).collect();
        let value = match indices.as_slice() {
            [] => format!("{}_q", plan.name),
            [(first, index), rest @ ..] => {
                let row = if plan.in_memory {
                    let Expression::Parameter(argument) = first else {
                        unreachable!("a field whose first index is bound is in registers")
                    };
                    let row = Row { argument: *argument, is_member: is_set(&self.gates.definition, field) };
                    format!("{}_row[{}]", plan.name, self.port(field, row))
                } else if is_set(&self.gates.definition, field) {
                    format!("{}_q", plan.name)
                } else {
                    format!("{}_q[{index}]", plan.name)
                };
                match rest {
                    [(_, column)] => format!("{row}[{column}]"),
                    _ if is_set(&self.gates.definition, field) => {
                        format!("{row}[{}]", self.column(field, index))
                    }
                    _ => row,
                }
            }
        };
        if self.gates.definition.fields[field].numeric { format!("number({value})") } else { value }
    }

    /// The bit of a set's element within its row.
    pub(super) fn column(&self, field: usize, index: &str) -> String {
        let plan = &self.gates.fields[field];
        if plan.in_memory && plan.rows > 1 {
            format!("{index}[{}:0]", MEMBERS.ilog2() - 1)
        } else {
            index.to_owned()
        }
    }

    /// The port of a memory that reads and writes this row.
    pub(super) fn port(&self, field: usize, row: Row) -> usize {
        let port = self.action.places[field].iter().position(|place| *place == row);
        port.expect("the action's places are collected from its expressions")
    }

    fn quantifier(&mut self, variable: &str, sort: &str, body: &Expression, every: bool) -> String {
        let name = format!("{}_{}", if every { "every" } else { "some" }, self.quantifiers);
        self.quantifiers += 1;
        let index = names::variable(variable);
        self.locals.push(format!("automatic logic {name};"));
        self.line(format!("{name} = 1'b{};", u8::from(every)));
        let size = self.gates.elements(sort);
        self.line(format!("for (int unsigned {index} = 0; {index} < {size}; {index}++) begin"));
        self.depth += 1;
        let body = self.term(body);
        let (condition, value) = if every { (format!("!{body}"), 0) } else { (body, 1) };
        self.line(format!("if ({condition}) {name} = 1'b{value};"));
        self.depth -= 1;
        self.line("end");
        name
    }
}

impl Gates {
    /// A number as a constant.
    pub(super) fn literal(&self, value: i64) -> String {
        let sign = if value < 0 { "-" } else { "" };
        format!("{sign}{}'sd{}", self.number_bits, value.unsigned_abs())
    }

    /// The type of a parameter's variable.
    pub(super) fn kind(&self, parameter: &Parameter) -> String {
        match parameter.kind {
            ParameterKind::Element(sort) => format!("logic [{}:0]", index_bits(self.elements(sort)) - 1),
            ParameterKind::Elements(_) => format!("logic [{}:0]", MEMBERS - 1),
            _ => "number_t".to_owned(),
        }
    }
}

/// An expression in words of its type.
pub(super) fn tell(definition: &Definition, parameters: &[&Parameter], expression: &Expression) -> String {
    let tell = |part: &Expression| tell(definition, parameters, part);
    let join = |parts: &[Expression], word: &str| {
        format!("({})", parts.iter().map(tell).collect::<Vec<_>>().join(word))
    };
    match expression {
        Expression::Boolean(value) => value.to_string(),
        Expression::Number(value) => value.to_string(),
        Expression::Not(inner) => format!("not {}", tell(inner)),
        Expression::All(parts) => join(parts, " and "),
        Expression::Any(parts) => join(parts, " or "),
        Expression::Same(first, second) => format!("{} = {}", tell(first), tell(second)),
        Expression::Less(first, second) => format!("{} < {}", tell(first), tell(second)),
        Expression::AtMost(first, second) => format!("{} <= {}", tell(first), tell(second)),
        Expression::Add(first, second) => format!("{} + {}", tell(first), tell(second)),
        Expression::Subtract(first, second) => format!("{} - {}", tell(first), tell(second)),
        Expression::If(condition, then, otherwise) => {
            format!("({} if {}, otherwise {})", tell(then), tell(condition), tell(otherwise))
        }
        Expression::Read { field, indices } => {
            let name = definition.fields[*field].name;
            let indices: Vec<_> = indices.iter().map(tell).collect();
            if indices.is_empty() { name.to_owned() } else { format!("{name}({})", indices.join(", ")) }
        }
        Expression::Parameter(parameter) => parameters[*parameter].name.to_owned(),
        Expression::Variable(variable) => (*variable).to_owned(),
        Expression::Every { variable, sort, body } => format!("every {sort} {variable}: {}", tell(body)),
        Expression::Some { variable, sort, body } => format!("some {sort} {variable}: {}", tell(body)),
    }
}
