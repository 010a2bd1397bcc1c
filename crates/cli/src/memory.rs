//! Memory of this machine.

/// Bytes that can be allocated without swapping out other programs; `None` if the system does not say.
pub(crate) fn available() -> Option<u64> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_is_available() {
        let meminfo = "MemTotal:       24670000 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(available_in(meminfo), Some(23_000_000 << 10));
        assert_eq!(available_in("MemFree: 1 kB"), None);
        assert_eq!(available_in("MemAvailable: much"), None);
    }
}
