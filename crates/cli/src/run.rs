//! `weft run`: runs a program that uses verbs on a device of this machine, in user space.

use std::env;
use std::ffi::OsString;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use weft_device::environment;

use crate::failure::{Failure, Verdict};

/// Environment variable with the folder of the libraries, for libraries that are not beside this command.
const LIBRARIES: &str = "WEFT_VERBS_LIBRARIES";

/// The library that programs with verbs load.
const LIBRARY: &str = "libibverbs.so.1";

const SEARCH_PATH: &str = "LD_LIBRARY_PATH";

/// Which program to run, on which device.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArguments {
    /// Address of the device: peers send to UDP port 4791 there
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST)]
    address: Ipv4Addr,
    /// Name of the device
    #[arg(long, value_name = "NAME", default_value = "weft0", value_parser = parse_name)]
    device: String,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096 [default: 4096 on loopback, else 1024]
    #[arg(long, value_name = "BYTES", value_parser = ["256", "512", "1024", "2048", "4096"], hide_possible_values = true)]
    mtu: Option<String>,
    /// The program, found as a shell finds it, and its arguments
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    program: Vec<OsString>,
}

fn parse_name(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if plain && (1..64).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err("a device's name has 1 to 63 letters, digits, hyphens and underscores".to_owned())
}

impl RunArguments {
    /// Replaces this process by the program. Errors about the address or the libraries are reported before.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let libraries = libraries()?;
        let address = self.address;
        if let Err(error) = UdpSocket::bind((address, 0)) {
            return Err(Failure::new(format!(
                "no device can have the address {address} ({error}): choose one of `ip address`, or one of 127.0.0.0/8"
            )));
        }
        let mut path = OsString::from(&libraries);
        if let Some(others) = env::var_os(SEARCH_PATH).filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        let (name, arguments) = self.program.split_first().expect("the parser wants a program");
        let mut command = Command::new(name);
        command
            .args(arguments)
            .env(SEARCH_PATH, path)
            .env(environment::ADDRESS, address.to_string())
            .env(environment::DEVICE, &self.device);
        match &self.mtu {
            Some(mtu) => command.env(environment::MTU, mtu),
            None => command.env_remove(environment::MTU),
        };
        let error = command.exec();
        Err(Failure::at(Path::new(name), format!("the program does not start: {error}")))
    }
}

/// The folder with the libraries.
fn libraries() -> Result<PathBuf, Failure> {
    let folder = match env::var_os(LIBRARIES) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let command = env::current_exe().map_err(|error| {
                Failure::new(format!("this command does not know where it is ({error}): set {LIBRARIES}"))
            })?;
            command.parent().unwrap_or(Path::new("/")).join("verbs")
        }
    };
    if folder.join(LIBRARY).is_file() {
        return Ok(folder);
    }
    let advice =
        format!("there is no {LIBRARY}: build it by tools/verbs.sh, or set {LIBRARIES} to its folder");
    Err(Failure::at(&folder, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(parse_name("weft-0_a").as_deref(), Ok("weft-0_a"));
        for wrong in ["", "a/b", "a b", &"a".repeat(64)] {
            assert!(parse_name(wrong).is_err(), "{wrong}");
        }
    }
}
