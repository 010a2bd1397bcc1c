//! The result of a derivation in a form for people and programs.

use serde::Serialize;
use weft_rdt::derive::{Answer, Question};
use weft_rdt::verdict::{Category, coordination};

use super::Derived;

/// The derivation for a type.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Name of the type.
    pub name: &'static str,
    /// A description of the type.
    pub about: &'static str,
    /// The type's invariant, as text.
    pub invariant: Vec<&'static str>,
    /// The derivation for each method of the type.
    pub methods: Vec<ExplainedMethod>,
    /// The methods of each synchronization group.
    pub groups: Vec<Vec<&'static str>>,
    /// Defects of the definition: claims that must hold before the type may run.
    pub defects: Vec<String>,
    /// All pairs of methods, including each method with itself.
    pub pairs: Vec<ExplainedPair>,
    /// Which method depends on which, with examples.
    pub dependences: Vec<ExplainedDependence>,
    /// All claims with their answers.
    pub answers: Vec<ExplainedAnswer>,
    /// Number of proved claims.
    pub proved: usize,
    /// Number of refuted claims.
    pub refuted: usize,
    /// Number of claims that are neither; they count as refuted.
    pub unknown: usize,
    /// Number of questions that the solver was asked, including those for examples.
    pub asked: usize,
    /// Duration of the derivation in seconds.
    pub seconds: f64,
}

/// The derivation for a method.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedMethod {
    /// Its name with its parameters.
    pub signature: String,
    /// The conditions of its guards.
    pub guards: Vec<&'static str>,
    /// How its calls are distributed.
    pub category: Category,
    /// Number of its synchronization group, if it conflicts with any method.
    pub group: Option<usize>,
    /// The methods with which it conflicts.
    pub conflicts: Vec<String>,
    /// The methods on which it depends.
    pub depends: Vec<String>,
    /// Whether its calls can be combined into summaries.
    pub summarizable: bool,
}

/// A pair of methods.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedPair {
    /// Name of one method.
    pub first: &'static str,
    /// The other method, or the same.
    pub second: &'static str,
    /// `free`, `conflict`, or `unknown`, which counts as conflict.
    pub verdict: &'static str,
    /// The claims that could not be proved.
    pub because: Vec<ExplainedAnswer>,
}

/// A method that depends on another, or on itself.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDependence {
    /// Name of the method of the later call.
    pub method: &'static str,
    /// Name of the method of the earlier call.
    pub on: &'static str,
    /// The claim that could not be proved.
    pub because: ExplainedAnswer,
}

/// One claim and its answer.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedAnswer {
    /// The claim in words.
    pub claim: String,
    /// `proved`, `refuted` or `unknown`.
    pub answer: &'static str,
    /// A case in which the claim fails, described in terms of the type.
    pub example: Vec<String>,
}

impl Derived {
    /// The derivation as text.
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
