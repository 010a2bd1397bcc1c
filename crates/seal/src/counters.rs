//! What an endpoint counts.

weft_counters::counters! {
    /// Counters of an endpoint, in datagrams unless the name says otherwise.
    pub struct Counters {
        /// Frames sealed.
        seal_sealed,
        /// Frames opened.
        seal_opened,
        /// Handshakes that have given an association.
        seal_handshakes,
        /// Datagrams refused because they came in plaintext.
        seal_plaintext,
        /// Datagrams refused because they are neither a frame nor of a handshake.
        seal_malformed,
        /// Frames refused because no association with their sender has their SPI.
        seal_unknown_spi,
        /// Datagrams refused because their tag is wrong: they were changed, or sealed under another key.
        seal_bad_tag,
        /// Frames refused because they had come before, or are older than the replay window, and handshakes that were
        /// over.
        seal_replayed,
        /// Datagrams of handshakes refused because they were meant for another address, or came from another.
        seal_misdirected,
        /// Datagrams not sent, and handshakes ended, because the tables for them were full.
        seal_no_room,
    }
}

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Plaintext,
    Malformed,
    UnknownSpi,
    BadTag,
    Replayed,
    Misdirected,
}

impl Counters {
    pub(crate) const fn count(&mut self, refusal: Refusal) {
        let counter = match refusal {
            Refusal::Plaintext => &mut self.seal_plaintext,
            Refusal::Malformed => &mut self.seal_malformed,
            Refusal::UnknownSpi => &mut self.seal_unknown_spi,
            Refusal::BadTag => &mut self.seal_bad_tag,
            Refusal::Replayed => &mut self.seal_replayed,
            Refusal::Misdirected => &mut self.seal_misdirected,
        };
        *counter += 1;
    }

    /// Number of datagrams that were refused, for any cause.
    pub const fn refused(&self) -> u64 {
        self.seal_plaintext
            + self.seal_malformed
            + self.seal_unknown_spi
            + self.seal_bad_tag
            + self.seal_replayed
            + self.seal_misdirected
    }
}
