//! Objects with some elements in the card's memory and the others in the host's memory.

use weft_rdt::definition::ParameterKind;
use weft_rdt::replica::OnHost;
use weft_workload::Popularity;

use super::reference::Subject;

/// Which keys are in which memory, and how many updates are folded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Split {
    /// Number of keys on the card. These are the keys with the lowest numbers.
    pub card_keys: usize,
    /// Percentage of accesses to these keys.
    pub on_card: u8,
    /// Number of calls that are folded before they are sent.
    pub fold: usize,
}

impl Split {
    /// The distribution of accesses to `keys` keys.
    pub(super) fn popularity(self, keys: usize, skew: f64) -> Popularity {
        Popularity::in_parts(keys, self.card_keys, self.on_card, skew)
    }

    /// The elements of the type in the host's memory. The keys are the elements that its queries take.
    pub(super) fn on_host(self, subject: &Subject) -> Option<OnHost> {
        let parameters = subject.kind().definition().queries.iter().flat_map(|query| &query.parameters);
        let mut sorts = parameters.filter_map(|parameter| match parameter.kind {
            ParameterKind::Element(sort) => Some(sort),
            _ => None,
        });
        sorts.next().map(|sort| OnHost { sort, from: self.card_keys })
    }
}
