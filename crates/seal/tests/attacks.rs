//! Campaigns of random traffic under faults and attacks.

use weft_seal::Parameters;
use weft_time::Duration;

use crate::network::{Network, Setting};

/// Keys that are renewed all the time.
fn short_lives() -> Parameters {
    Parameters {
        frames_per_key: 128,
        life: Duration::from_ms(60),
        overlap: Duration::from_ms(10),
        ..Parameters::default()
    }
}

/// Everything goes wrong: nothing but what the peer has sent arrives, each at most once, no nonce is used twice, and in
/// the end everybody hears everybody again.
pub fn stormy(seed: u64, mut setting: Setting) -> Result<Network, String> {
    let parameters = if seed.is_multiple_of(2) { Parameters::default() } else { short_lives() };
    (setting.parameters, setting.restarts, setting.attacks) = (parameters, 10, 60);
    (setting.lost, setting.doubled) = (10, 10);
    let mut network = Network::new(seed, setting);
    network.trouble(1_500)?;
    network.recover()?;
    Ok(network)
}

/// The network loses nothing, and the adversary can only add: then everything arrives, also while keys are renewed.
pub fn calm(seed: u64, mut setting: Setting) -> Result<Network, String> {
    let parameters = if seed.is_multiple_of(2) { Parameters::default() } else { short_lives() };
    (setting.parameters, setting.doubled, setting.attacks) = (parameters, 5, 90);
    let mut network = Network::new(seed, setting);
    network.trouble(1_500)?;
    network.pass(Duration::from_ms(5))?;
    let (sent, arrived) = network.counts();
    if arrived != sent {
        return Err(format!("of {sent} payloads, {} are lost", sent - arrived));
    }
    Ok(network)
}

#[test]
fn only_what_was_sent_arrives_once_and_traffic_goes_on() {
    let (mut frames, mut keys) = (0, 0);
    for seed in 0..20 {
        let network = stormy(seed, Setting::default()).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        let (sent, arrived) = network.counts();
        assert!(arrived * 2 > sent, "seed {seed}: of {sent} payloads, only {arrived} have arrived");
        frames += network.observed().0;
        keys += network.observed().1;
        for endpoint in &network.endpoints {
            let counters = endpoint.counters();
            assert!(counters.refused() > 0, "seed {seed}: the adversary has done nothing");
        }
    }
    assert!(frames > 20_000 && keys > 500, "{frames} frames under {keys} keys");
}

#[test]
fn an_adversary_who_only_adds_makes_nothing_lost() {
    for seed in 0..20 {
        calm(seed, Setting::default()).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
