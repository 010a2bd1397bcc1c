//! Elements of an object on the card, and others in the host's memory.

use weft_rdt::definition::ParameterKind;
use weft_rdt::replica::OnHost;
use weft_workload::Popularity;

use super::reference::Subject;

/// Where keys lie, and how many updates are sent together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Split {
    /// Keys on the card: those with the lowest numbers.
    pub card_keys: usize,
    /// Per cent of the accesses that go to them.
    pub on_card: u8,
    /// Calls that are folded before they are sent.
    pub fold: usize,
}

impl Split {
    /// Of so many keys.
    pub(super) fn popularity(self, keys: usize, skew: f64) -> Popularity {
        Popularity::in_parts(keys, self.card_keys, self.on_card, skew)
    }

    /// Which elements of the type lie in the host's memory: keys are what its queries ask for.
    pub(super) fn on_host(self, subject: &Subject) -> Option<OnHost> {
        let parameters = subject.kind().definition().queries.iter().flat_map(|query| &query.parameters);
        let mut sorts = parameters.filter_map(|parameter| match parameter.kind {
            ParameterKind::Element(sort) => Some(sort),
            _ => None,
        });
        sorts.next().map(|sort| OnHost { sort, from: self.card_keys })
    }
}
