//! Seals frames for other implementations of PSP to open, and opens frames that they have sealed.
//!
//!     psp_frames seal          prints lines of KEY PLAIN SEALED, each in hexadecimal
//!     psp_frames open          reads such lines, opens SEALED with KEY and expects PLAIN
//!
//! The associations are those of node 10.0.0.1 with node 10.0.0.2, with SPI 0x00000105.
//! `tests/oracle/check_psp.py` contains the other implementation.

use std::io::{self, BufRead};
use std::net::Ipv4Addr;
use std::process::ExitCode;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_service::Seal;
use weft_service::psp::{Key, Psp};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, emit_roce_bytes_frame, emit_udp_frame};
use weft_wire::{datagram, roce};

const SPI: u32 = 0x105;
const NODES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("seal") => seal(),
        Some("open") => open(),
        _ => {
            eprintln!("usage: psp_frames seal|open");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits = |at| hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..hex.len()).step_by(2).map(|at| digits(at).ok_or_else(|| format!("not hexadecimal: {hex}"))).collect()
}

fn key(bytes: &[u8]) -> Result<Key, String> {
    if let Ok(key) = bytes.try_into() {
        Ok(Key::Aes128(key))
    } else if let Ok(key) = bytes.try_into() {
        Ok(Key::Aes256(key))
    } else {
        Err(format!("a key of {} bytes", bytes.len()))
    }
}

fn seal() -> Result<(), String> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    for key_bytes in [16, 32] {
        let mut secret = vec![0; key_bytes];
        chance.fill_bytes(&mut secret);
        let mut psp = Psp::default();
        psp.install_sender(NODES[1], SPI, &key(&secret)?).map_err(|error| error.to_string())?;
        for length in (12..200).chain([255, 1_024, 4_136]) {
            for port in [roce::UDP_PORT, datagram::UDP_PORT] {
                let plain = frame(&mut chance, port, length);
                let mut sealed = plain.clone();
                psp.seal(&mut sealed).map_err(|error| error.to_string())?;
                println!("{} {} {}", hex(&secret), hex(&plain), hex(&sealed));
            }
        }
    }
    Ok(())
}

fn frame(chance: &mut Xoshiro256PlusPlus, port: u16, length: usize) -> Vec<u8> {
    let end = |node: usize, port| Endpoint {
        hardware: MacAddress([2, 0, 0, 0, 0, node as u8]),
        address: NODES[node],
        port,
    };
    let flow = Flow { source: end(0, 0xc123), destination: end(1, port), type_of_service: 0 };
    let (mut payload, mut frame) = (vec![0; length], Vec::new());
    chance.fill_bytes(&mut payload);
    if port == roce::UDP_PORT {
        emit_roce_bytes_frame(&mut frame, &flow, &payload);
    } else {
        emit_udp_frame(&mut frame, &flow, &payload);
    }
    frame
}

fn open() -> Result<(), String> {
    let mut frames = 0;
    let mut current: Option<(Vec<u8>, Psp)> = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let words: Vec<_> = line.split(' ').map(bytes).collect::<Result<_, _>>()?;
        let [secret, plain, sealed] = &words[..] else { return Err(format!("not three words: {line}")) };
        if current.as_ref().is_none_or(|(known, _)| known != secret) {
            let mut psp = Psp::default();
            psp.install_receiver(NODES[0], SPI, &key(secret)?).map_err(|error| error.to_string())?;
            current = Some((secret.clone(), psp));
        }
        let (_, psp) = current.as_mut().expect("it was just made");
        let mut opened = sealed.clone();
        psp.open(&mut opened).map_err(|error| format!("frame {frames}: {error}"))?;
        if opened != *plain {
            return Err(format!("frame {frames}: found {}, expected {}", hex(&opened), hex(plain)));
        }
        frames += 1;
    }
    println!("{frames} frames opened");
    if frames == 0 { Err("no frame was given".into()) } else { Ok(()) }
}
