//! A derivation as people and programs read it.

use serde::Serialize;
use weft_rdt::derive::{Answer, Question};
use weft_rdt::verdict::{Category, coordination};

use super::Derived;

/// What was derived about a type.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The type.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What must hold.
    pub invariant: Vec<&'static str>,
    /// Its methods.
    pub methods: Vec<ExplainedMethod>,
    /// The methods of each synchronization group.
    pub groups: Vec<Vec<&'static str>>,
    /// What is wrong with the definition: claims that it must fulfil before it may run.
    pub defects: Vec<String>,
    /// All pairs of methods, each with itself too.
    pub pairs: Vec<ExplainedPair>,
    /// Which method depends on which, with cases.
    pub dependences: Vec<ExplainedDependence>,
    /// All claims with their answers.
    pub answers: Vec<ExplainedAnswer>,
    /// How many claims were proved.
    pub proved: usize,
    /// How many were refuted.
    pub refuted: usize,
    /// How many were left open, and count as refuted.
    pub unknown: usize,
    /// How many questions the solver was asked, those for examples included.
    pub asked: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// What was derived about a method.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedMethod {
    /// Its name with its parameters.
    pub signature: String,
    /// What its guards require.
    pub guards: Vec<&'static str>,
    /// How its calls travel.
    pub category: Category,
    /// Its synchronization group.
    pub group: Option<usize>,
    /// The methods that it conflicts with.
    pub conflicts: Vec<String>,
    /// The methods that it depends on.
    pub depends: Vec<String>,
    /// Whether its calls combine.
    pub summarizable: bool,
}

/// A pair of methods.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedPair {
    /// One method.
    pub first: &'static str,
    /// The other, or the same.
    pub second: &'static str,
    /// `free`, `conflict`, or `unknown`, which counts as conflict.
    pub verdict: &'static str,
    /// The claims that were not proved.
    pub because: Vec<ExplainedAnswer>,
}

/// A method that depends on another, or on itself.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDependence {
    /// The later call.
    pub method: &'static str,
    /// The earlier call.
    pub on: &'static str,
    /// The claim that was not proved.
    pub because: ExplainedAnswer,
}

/// One claim.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedAnswer {
    /// What was claimed.
    pub claim: String,
    /// `proved`, `refuted` or `unknown`.
    pub answer: &'static str,
    /// A case in which it fails, in the type's own words.
    pub example: Vec<String>,
}

impl Derived {
    /// The derivation in words.
    pub fn explain(&self) -> Explained {
        let definition = &self.definition;
        let coordination = coordination(definition, &self.verdict).expect("a derived verdict fits");
        let methods = definition.methods.iter().enumerate().map(|(number, method)| {
            let names: Vec<_> = method.parameters.iter().map(|parameter| parameter.name).collect();
            let verdict = &self.verdict[method.name];
            ExplainedMethod {
                signature: format!("{}({})", method.name, names.join(", ")),
                guards: method.guards.iter().map(|guard| guard.name).collect(),
                category: coordination[number].category,
                group: coordination[number].group,
                conflicts: verdict.conflicts.keys().cloned().collect(),
                depends: verdict.depends.clone(),
                summarizable: verdict.summarizable,
            }
        });
        let methods: Vec<_> = methods.collect();
        let groups = methods.iter().filter_map(|method| method.group).max().map_or(0, |last| last + 1);
        let groups = (0..groups).map(|group| {
            let members = definition.methods.iter().zip(&methods);
            members.filter(|(_, method)| method.group == Some(group)).map(|(method, _)| method.name).collect()
        });
        let answers: Vec<_> = self.answers.iter().map(|entry| self.explain_answer(entry)).collect();
        let name = |method: usize| definition.methods[method].name;
        let count = definition.methods.len();
        let pairs = (0..count).flat_map(|a| (a..count).map(move |b| (a, b))).map(|(a, b)| {
            let claims = self.answers.iter().filter(|(question, answer)| {
                let about = match *question {
                    Question::Commute(one, other) | Question::Stays(one, other) => (one, other),
                    _ => return false,
                };
                !answer.is_proved() && (about == (a, b) || about == (b, a))
            });
            let because: Vec<_> = claims.map(|entry| self.explain_answer(entry)).collect();
            let verdict = match because.as_slice() {
                [] => "free",
                claims if claims.iter().any(|claim| claim.answer == "refuted") => "conflict",
                _ => "unknown",
            };
            ExplainedPair { first: name(a), second: name(b), verdict, because }
        });
        let dependences = self.answers.iter().filter_map(|entry| match *entry {
            (Question::Free(method, on), ref answer) if !answer.is_proved() => Some(ExplainedDependence {
                method: name(method),
                on: name(on),
                because: self.explain_answer(entry),
            }),
            _ => None,
        });
        let number = |of: &str| answers.iter().filter(|answer| answer.answer == of).count();
        Explained {
            name: definition.name,
            about: definition.about,
            invariant: definition.invariant.iter().map(|part| part.name).collect(),
            groups: groups.collect(),
            pairs: pairs.collect(),
            dependences: dependences.collect(),
            methods,
            defects: self.defects.clone(),
            proved: number("proved"),
            refuted: number("refuted"),
            unknown: number("unknown"),
            answers,
            asked: self.asked,
            seconds: self.seconds,
        }
    }

    fn explain_answer(&self, (question, answer): &(Question, Answer)) -> ExplainedAnswer {
        let example = match answer {
            Answer::Refuted(Some(example)) => example.tell(question, &self.definition),
            _ => vec![],
        };
        let answer = match answer {
            Answer::Proved => "proved",
            Answer::Refuted(_) => "refuted",
            Answer::Unknown => "unknown",
        };
        ExplainedAnswer { claim: question.describe(&self.definition), answer, example }
    }
}
