//! A data type in the form that the check of a run needs, made from its definition.
//!
//! A step changes a few fields at a few elements, so the invariant is checked only there
//! ([`Object::invariant_after`]), and large states are compared only there.

use std::sync::Arc;

use weft_check::replicated::{Call, Contained, METHODS_MAX, Specification};
use weft_rdt::definition::{Method, ParameterKind, Update};
use weft_rdt::expression::Expression;
use weft_rdt::{Bounds, Category, MethodSet, Object, Type, VerdictError, types, verdict};

/// States with at most this number of words are compared completely at every step; of larger states, only the
/// elements that the step has changed.
const COMPARED_WHOLE: usize = 64;

/// Fields, each with the indices of the parameters that determine its element.
type Places = Vec<(usize, Vec<usize>)>;

/// A data type, and how its calls are sent.
#[derive(Clone, Debug)]
pub struct Subject {
    kind: Arc<Type>,
    /// Fields that each method writes; `None`: any field.
    written: Vec<Option<Places>>,
    /// Methods whose calls are sent as summaries.
    summaries: MethodSet,
    /// Whether no call is ever sent twice.
    is_faultless: bool,
}

/// The stream of all calls that are sent as summaries.
pub const SUMMARIES: u8 = METHODS_MAX as u8 - 2;

/// The stream of all other calls without a group.
pub const ENTRIES: u8 = METHODS_MAX as u8 - 1;

impl Subject {
    /// The shipped type with this name and these sizes. All reducible methods are summarized.
    ///
    /// # Errors
    /// There is no such type.
    pub fn shipped(name: &str, bounds: &Bounds) -> Result<Self, VerdictError> {
        let unknown = || VerdictError::NoType(name.into());
        let definition = types::by_name(name).ok_or_else(unknown)?;
        let verdicts = verdict::shipped()?;
        let verdict = verdicts.get(name).ok_or_else(unknown)?;
        let kind = Type::new(definition, verdict, bounds)?;
        let reducible = |method: &usize| kind.coordination(*method).category == Category::Reducible;
        let summaries = (0..kind.method_count()).filter(reducible).collect();
        let written = kind.definition().methods.iter().map(written).collect();
        Ok(Self { kind, written, summaries, is_faultless: true })
    }

    /// The same type, of which only these methods are summarized. `is_faultless` says that no call is sent
    /// twice in the run.
    #[must_use]
    pub fn with_summaries(mut self, summaries: MethodSet, is_faultless: bool) -> Self {
        (self.summaries, self.is_faultless) = (summaries, is_faultless);
        self
    }

    /// The type, which engines use too.
    pub const fn kind(&self) -> &Arc<Type> {
        &self.kind
    }

    /// Number of queries of the type.
    pub fn queries(&self) -> usize {
        self.kind.definition().queries.len()
    }

    /// Positions of a restored replica in all streams, from the counts of its engine: summarized calls and
    /// other calls by origin, and calls of each group.
    pub fn contained(&self, summaries: &[u64], entries: &[u64], groups: &[u64]) -> Contained {
        let of = |stream, counts: &[u64]| -> Vec<(usize, u8, u64)> {
            let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counts.map(|(node, count)| (node, stream, *count)).collect()
        };
        let streams = [of(SUMMARIES, summaries), of(ENTRIES, entries)].concat();
        Contained { streams, groups: groups[..self.kind.group_count()].to_vec() }
    }
}

/// The fields that a method writes, with the parameters that determine their elements; `None` if it may write
/// any field.
fn written(method: &Method) -> Option<Places> {
    let parameter = |index: &Expression| match index {
        Expression::Parameter(parameter) => Some(*parameter),
        _ => None,
    };
    let place = |update: &Update| match update {
        Update::At { field, indices, .. } => {
            Some((*field, indices.iter().map(parameter).collect::<Option<Vec<_>>>()?))
        }
        Update::Union { .. } => None,
    };
    method.updates.iter().map(place).collect()
}

impl Specification for Subject {
    type State = Object;

    fn initial(&self) -> Object {
        Object::new(&self.kind)
    }

    fn group(&self, method: u8) -> Option<usize> {
        self.kind.coordination(method as usize).group
    }

    fn stream(&self, method: u8) -> u8 {
        if self.summaries.contains(method as usize) { SUMMARIES } else { ENTRIES }
    }

    fn is_exact(&self) -> bool {
        self.is_faultless || self.summaries.is_empty()
    }

    fn depends(&self, method: u8, on: u8) -> bool {
        let on = on as usize;
        on < self.kind.method_count()
            && self.kind.coordination(on).group.is_none()
            && self.kind.coordination(method as usize).dependencies.contains(on)
    }

    fn filled_in(&self, method: u8) -> u8 {
        let parameters = self.kind.definition().methods[method as usize].parameters.iter().enumerate();
        let filled = parameters.filter(|(_, parameter)| {
            matches!(parameter.kind, ParameterKind::Stamp(_) | ParameterKind::Observed(_))
        });
        filled.fold(0, |set, (index, _)| set | 1 << index)
    }

    fn permissible(&self, state: &Object, call: &Call) -> bool {
        state.permissible(call.method as usize, &call.arguments)
    }

    fn apply(&self, state: &mut Object, call: &Call) {
        state.apply(call.method as usize, &call.arguments);
    }

    fn query(&self, state: &Object, query: &Call) -> i64 {
        state.query(query.method as usize, &query.arguments)
    }

    fn broken(&self, state: &Object, touched: Option<&Call>) -> Option<String> {
        let holds = match touched {
            Some(call) => state.invariant_after(call.method as usize, &call.arguments),
            None => state.invariant(),
        };
        (!holds).then(|| state.broken().collect::<Vec<_>>().join(", and that "))
    }

    fn same(&self, state: &Object, reference: &Object, touched: Option<&Call>) -> bool {
        let touched = touched.filter(|_| self.kind.words() > COMPARED_WHOLE);
        let places = touched.and_then(|call| Some((call, self.written[call.method as usize].as_ref()?)));
        let Some((call, places)) = places else { return state == reference };
        places.iter().all(|(field, parameters)| {
            let mut at = [0; 4];
            for (index, parameter) in at.iter_mut().zip(parameters) {
                *index = call.arguments[*parameter] as usize;
            }
            let at = &at[..parameters.len()];
            state.field(*field, at) == reference.field(*field, at)
        })
    }

    fn describe(&self, call: &Call) -> String {
        let method = &self.kind.definition().methods[call.method as usize];
        let arguments = method.parameters.iter().zip(call.arguments);
        let arguments: Vec<String> =
            arguments.map(|(parameter, value)| format!("{} {value}", parameter.name)).collect();
        format!("{}({})", method.name, arguments.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_workload::Random;

    /// If the invariant held before, the check of the changed elements has the same result as a check of the
    /// whole invariant.
    #[test]
    fn the_invariant_at_what_was_touched_is_the_invariant() {
        for name in types::NAMES {
            let subject = Subject::shipped(name, &Bounds::uniform(5)).unwrap();
            let mut random = Random::new(3, 0);
            let (mut broke, mut held) = (0, 0);
            let mut state = subject.initial();
            for _ in 0..20_000 {
                let method = random.below(subject.kind.method_count() as u64) as usize;
                let mut call = Call { method: method as u8, arguments: [0; 4] };
                for argument in &mut call.arguments {
                    *argument = random.below(5) as i64 - i64::from(random.below(8) == 0);
                }
                let parameters = subject.kind.definition().methods[method].parameters.len();
                call.arguments[parameters..].fill(0);
                if !subject.kind.admits(method, &call.arguments) {
                    continue;
                }
                // Guards are ignored, so that the invariant can break.
                let mut next = state.clone();
                next.apply(method, &call.arguments);
                let whole = subject.broken(&next, None);
                assert_eq!(subject.broken(&next, Some(&call)), whole, "{name}: {}", subject.describe(&call));
                if whole.is_none() {
                    (state, held) = (next, held + 1);
                } else {
                    broke += 1;
                }
            }
            let has_invariant = !subject.kind.definition().invariant.is_empty();
            let never_breaks = ["lww-register", "ycsb"].contains(&name);
            assert!(held > 100 && (broke > 0) == (has_invariant && !never_breaks), "{name}: {held} {broke}");
        }
    }

    #[test]
    fn large_states_are_compared_where_they_were_touched() {
        for name in types::NAMES {
            let subject = Subject::shipped(name, &Bounds::uniform(200)).unwrap();
            let [mut first, mut second] = [subject.initial(), subject.initial()];
            let mut call = Call { method: 0, arguments: [7, 3, 0, 0] };
            call.arguments[subject.kind.definition().methods[0].parameters.len()..].fill(0);
            second.prepare(1, 0, &mut call.arguments);
            second.apply(0, &call.arguments);
            assert!(!subject.same(&first, &second, Some(&call)), "{name}");
            first.apply(0, &call.arguments);
            assert!(subject.same(&first, &second, Some(&call)), "{name}");
        }
    }
}
