//! PSP in the gateware between MAC and card: the module `psp_port`, connected to the card as in
//! `weft_nic_psp`, and its driver.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use weft_service::psp::{ASSOCIATIONS, Change, Counters, Expanded, InstallError, Key, PspConfig};

use crate::mac::Beat;
use crate::model::Model;
use crate::model::psp_port::{Inputs, Outputs, Top};
use crate::package::{self, PspCommand, PspEvents};

/// Capacity in beats of the queue between card and `psp_port`, as in `weft_nic_psp`.
const QUEUE: usize = 2;

/// Cycles until a register write has taken effect.
const WRITE_CYCLES: u32 = 4;

/// Index of the first power of the hash key among an association's keys.
const FIRST_POWER: u8 = 16;

/// The module and its connections to the card.
#[derive(Debug)]
pub(crate) struct PspPort {
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    /// Beats that the card has sent and that wait to be sealed.
    queue: VecDeque<Beat>,
    /// The beat that was opened in the previous cycle, and whether its frame is invalid.
    opened: Option<(Beat, bool)>,
    /// Register writes to do, one in each cycle.
    writes: VecDeque<(u8, u32)>,
    /// Cycles since anything entered.
    idle_cycles: u32,
    counters: Counters,
    driver: Driver,
}

/// The driver's record of the associations.
#[derive(Debug, Default)]
struct Driver {
    /// Indices of associations for sealing: those in use, with peer and key.
    senders: Vec<(u8, Ipv4Addr, Key)>,
    /// The free ones; the one released first is reused first.
    free: VecDeque<u8>,
    receivers: [Option<(u32, Ipv4Addr)>; ASSOCIATIONS],
}

impl PspPort {
    /// The module after reset.
    ///
    /// # Panics
    /// If `config` asks for more associations or frames for a key than the gateware has.
    pub(crate) fn new(config: &PspConfig, power_on_seed: u32) -> Self {
        assert!(config.associations <= ASSOCIATIONS, "{ASSOCIATIONS} associations");
        assert_eq!(config.frames_per_key, weft_service::psp::FRAMES_PER_KEY, "frames for a key");
        let free = (0..ASSOCIATIONS as u8).collect();
        let port = (package::PSP_PORT as u8, config.port.into());
        Self {
            model: Model::new(power_on_seed),
            inputs: Inputs::default(),
            outputs: Outputs::default(),
            queue: VecDeque::with_capacity(QUEUE),
            opened: None,
            writes: VecDeque::from([port]),
            idle_cycles: 0,
            counters: Counters::default(),
            driver: Driver { free, ..Driver::default() },
        }
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the card may send a beat.
    pub(crate) fn is_ready(&self) -> bool {
        self.queue.len() < QUEUE
    }

    /// Queues a beat that the card has sent.
    pub(crate) fn push(&mut self, beat: Beat) {
        self.queue.push_back(beat);
    }

    /// The beat for the card, and whether its frame is invalid.
    pub(crate) fn take(&mut self) -> Option<(Beat, bool)> {
        self.opened.take()
    }

    /// Whether register writes are outstanding.
    pub(crate) fn is_writing(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Whether no beat or write is inside.
    pub(crate) fn is_idle(&self) -> bool {
        self.outputs.idle_o != 0 && self.queue.is_empty() && self.opened.is_none() && self.writes.is_empty()
    }

    /// Simulates one cycle. Takes a beat of the MAC, and returns the beat that is offered to the MAC. The module's
    /// clock stands still while nothing is inside.
    pub(crate) fn step(&mut self, time_ps: u64, received: Option<&Beat>, mac_ready: bool) -> Option<Beat> {
        let is_idle = received.is_none() && self.is_idle();
        self.idle_cycles = if is_idle { self.idle_cycles.saturating_add(1) } else { 0 };
        if self.idle_cycles > WRITE_CYCLES {
            return None;
        }
        let inputs = &mut self.inputs;
        inputs.write_valid_i = 0;
        if let Some((register, value)) = self.writes.pop_front() {
            (inputs.write_valid_i, inputs.write_register_i, inputs.write_data_i) = (1, register, value);
        }
        inputs.rx_valid_i = received.is_some().into();
        if let Some(beat) = received {
            (inputs.rx_data_i, inputs.rx_keep_i) = (beat.data, beat.keep());
            inputs.rx_last_i = beat.last.into();
        }
        inputs.tx_ready_i = mac_ready.into();
        inputs.card_tx_valid_i = (!self.queue.is_empty()).into();
        if let Some(beat) = self.queue.front() {
            inputs.card_tx_i = beat.pack();
        }
        self.model.step(inputs, &mut self.outputs, time_ps);
        let outputs = &self.outputs;
        if outputs.card_tx_ready_o != 0 {
            self.queue.pop_front();
        }
        let beat = |data, keep: u64, last| Beat { data, bytes: keep.count_ones() as usize, last };
        if outputs.card_rx_valid_o != 0 {
            let (keep, last) = (outputs.card_rx_keep_o, outputs.card_rx_last_o != 0);
            self.opened = Some((beat(outputs.card_rx_data_o, keep, last), outputs.card_rx_error_o != 0));
        }
        if outputs.events_o != 0 {
            count(&mut self.counters, &PspEvents::from_bits(outputs.events_o.into()));
        }
        (outputs.tx_valid_o != 0).then(|| beat(outputs.tx_data_o, outputs.tx_keep_o, outputs.tx_last_o != 0))
    }

    /// Carries out a change of the host. The registers are written in the following cycles.
    pub(crate) fn change(&mut self, change: &Change) -> Result<(), InstallError> {
        let changed = match *change {
            Change::InstallReceiver { peer, spi, ref key } => self.install_receiver(peer, spi, key),
            Change::InstallSender { peer, spi, ref key } => self.install_sender(peer, spi, key),
            Change::RemoveReceiver { spi } => {
                self.remove_receivers(|known, _| known == spi);
                Ok(())
            }
            Change::RemovePeer { peer } => {
                self.remove_receivers(|_, known| known == peer);
                while let Some(at) = self.driver.senders.iter().position(|(_, known, _)| *known == peer) {
                    let (index, ..) = self.driver.senders.remove(at);
                    self.configure(true, index, None);
                    self.driver.free.push_back(index);
                }
                Ok(())
            }
        };
        self.counters.psp_changes_refused += u64::from(changed.is_err());
        changed
    }

    fn install_receiver(&mut self, peer: Ipv4Addr, spi: u32, key: &Key) -> Result<(), InstallError> {
        let index = spi as usize % ASSOCIATIONS;
        if self.driver.receivers[index].is_some() {
            return Err(InstallError::PlaceTaken);
        }
        self.driver.receivers[index] = Some((spi, peer));
        self.write_key(false, index as u8, key);
        self.configure(false, index as u8, Some((peer, spi)));
        Ok(())
    }

    fn install_sender(&mut self, peer: Ipv4Addr, spi: u32, key: &Key) -> Result<(), InstallError> {
        if self.driver.senders.iter().any(|(.., known)| known == key) {
            return Err(InstallError::KeyInUse);
        }
        let index = self.driver.free.pop_front().ok_or(InstallError::Full)?;
        self.write_key(true, index, key);
        // The gateware disables the peer's previous association in the same cycle.
        self.configure(true, index, Some((peer, spi)));
        if let Some(at) = self.driver.senders.iter().position(|(_, known, _)| *known == peer) {
            let (former, ..) = self.driver.senders.remove(at);
            self.driver.free.push_back(former);
        }
        self.driver.senders.push((index, peer, *key));
        Ok(())
    }

    fn remove_receivers(&mut self, is_gone: impl Fn(u32, Ipv4Addr) -> bool) {
        for index in 0..ASSOCIATIONS {
            if self.driver.receivers[index].is_some_and(|(spi, peer)| is_gone(spi, peer)) {
                self.driver.receivers[index] = None;
                self.configure(false, index as u8, None);
            }
        }
    }

    fn write_key(&mut self, seal: bool, index: u8, key: &Key) {
        let expanded = Expanded::new(key);
        let powers = (FIRST_POWER..).zip(&expanded.powers);
        for (place, block) in (0..).zip(&expanded.rounds).chain(powers) {
            for (word, bytes) in (0..).zip(block.chunks_exact(4)) {
                let value = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
                self.writes.push_back((package::PSP_WORD0 as u8 + word, value));
            }
            self.command(PspCommand { configure: false, seal, enable: false, place, index });
        }
    }

    fn configure(&mut self, seal: bool, index: u8, of: Option<(Ipv4Addr, u32)>) {
        let (peer, spi) = of.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        self.writes.push_back((package::PSP_WORD0 as u8, peer.into()));
        self.writes.push_back((package::PSP_WORD1 as u8, spi));
        self.command(PspCommand { configure: true, seal, enable: of.is_some(), place: 0, index });
    }

    fn command(&mut self, command: PspCommand) {
        self.writes.push_back((package::PSP_COMMAND as u8, command.to_bits() as u32));
    }
}

fn count(counters: &mut Counters, events: &PspEvents) {
    counters.psp_sealed += u64::from(events.psp_sealed);
    counters.psp_opened += u64::from(events.psp_opened);
    counters.psp_without_association += u64::from(events.psp_without_association);
    counters.psp_key_used_up += u64::from(events.psp_key_used_up);
    counters.psp_plaintext += u64::from(events.psp_plaintext);
    counters.psp_malformed += u64::from(events.psp_malformed);
    counters.psp_unknown_spi += u64::from(events.psp_unknown_spi);
    counters.psp_wrong_peer += u64::from(events.psp_wrong_peer);
    counters.psp_wrong_version += u64::from(events.psp_wrong_version);
    counters.psp_bad_tag += u64::from(events.psp_bad_tag);
    counters.psp_replayed += u64::from(events.psp_replayed);
}
