//! The way to the driver and back, on any machine: a stand-in is built and put in the place of `libcuda.so.1`.
//!
//! It shows that calls, order and waiting are right, and that the kernel's findings are; it shows nothing of a GPU.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use weft_cuda::{DeviceMemory, Findings, Flag, Gpu, MappedMemory, Place, Watcher, expected_word};
use weft_nic::AttachedMemory;

/// The driver is found when a process starts, so each of these runs in one of its own.
fn under_a_stand_in(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in/driver.c");
    let library = folder.path().join("libcuda.so.1");
    let built = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-shared",
            "-fPIC",
            "-pthread",
            "-o",
        ])
        .args([&library, &source])
        .status();
    match built {
        Err(error) => return eprintln!("skipped: there is no C compiler: {error}"),
        Ok(status) => assert!(status.success()),
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

const WORDS: u32 = 4_096;
const ROUNDS: u64 = 100;
const FLAG: usize = WORDS as usize * 4;
const BYTES: usize = FLAG + 8;

/// Writes rounds as packets come in, with a later write or the host's word as news, and returns what the kernel found.
#[allow(unsafe_code)]
fn watch(gpu: &Arc<Gpu>, memory: &mut dyn AttachedMemory, place: &Place, flag: Flag) -> Findings {
    // Safety: the memory is the caller's.
    let watcher = unsafe { Watcher::start(gpu, place, WORDS, flag, ROUNDS) }.unwrap();
    for round in 1..=ROUNDS {
        let data: Vec<u8> = (0..WORDS).flat_map(|index| expected_word(round, index).to_le_bytes()).collect();
        for (offset, packet) in (0..).step_by(1_024).zip(data.chunks(1_024)) {
            memory.write(offset, packet).unwrap();
        }
        memory.write(FLAG as u64, &round.to_le_bytes()).unwrap();
        let mark = memory.mark();
        if flag == Flag::OfHost {
            while !memory.has_landed(mark) {}
            watcher.tell(round);
        }
        // A card submits again and again.
        while watcher.checked() < round {
            memory.submit();
            std::thread::yield_now();
        }
    }
    watcher.finish().unwrap()
}

const FLAGS: [Flag; 2] = [Flag::InMemory(FLAG), Flag::OfHost];
const RIGHT: Findings = Findings { rounds: ROUNDS, wrong_rounds: 0, wrong_words: 0 };

#[test]
#[ignore = "runs under a stand-in"]
fn data_come_before_news() {
    let gpu = Gpu::open(0).unwrap();
    assert_eq!((gpu.name(), gpu.driver_version().as_str()), ("stand-in", "13.0"));
    for flag in FLAGS {
        let mut memory = MappedMemory::new(&gpu, BYTES).unwrap();
        let place = memory.place();
        assert_eq!(watch(&gpu, &mut memory, &place, flag), RIGHT, "{flag:?}");
        let mut memory = DeviceMemory::new(&gpu, BYTES).unwrap();
        let place = memory.place();
        assert_eq!(watch(&gpu, &mut memory, &place, flag), RIGHT, "{flag:?}");
    }
}

#[test]
fn a_kernel_finds_data_before_their_news() {
    under_a_stand_in("data_come_before_news");
}

#[test]
#[ignore = "runs under a stand-in"]
fn memory_is_to_the_byte() {
    let gpu = Gpu::open(0).unwrap();
    let memories: [Box<dyn AttachedMemory>; 2] = [
        Box::new(MappedMemory::new(&gpu, 300_000).unwrap()),
        Box::new(DeviceMemory::new(&gpu, 300_000).unwrap()),
    ];
    for mut memory in memories {
        assert!(memory.read(0, 300_000).unwrap().iter().all(|byte| *byte == 0));
        let long: Vec<u8> = (0..200_001).map(|place: u32| (place * 7) as u8).collect();
        memory.write(99_999, &long).unwrap();
        assert!(memory.write(100_000, &long).is_err() && memory.write(u64::MAX, &long).is_err());
        assert!(memory.read(1, 300_000).is_err());
        assert!(memory.read(99_999, 200_001).unwrap() == long);
        assert_eq!(memory.read(99_998, 2).unwrap(), [0, 0]);
    }
}

#[test]
fn bytes_are_where_they_were_written() {
    under_a_stand_in("memory_is_to_the_byte");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use weft_cuda::{Planted, PlantedBug};

    use super::*;

    #[test]
    #[ignore = "runs under a stand-in"]
    fn bugs() {
        let gpu = Gpu::open(0).unwrap();
        let finds = |memory: Box<dyn AttachedMemory>, place, bug, flag| {
            let mut memory = Planted::new(memory, bug);
            let findings = watch(&gpu, &mut memory, &place, flag);
            // More than one: a round does not have to wait for what an earlier one put off.
            assert!(findings.rounds == ROUNDS && findings.wrong_rounds > 1, "{bug:?}: {findings:?}");
        };
        let memory = MappedMemory::new(&gpu, BYTES).unwrap();
        let place = memory.place();
        finds(Box::new(memory), place, PlantedBug::FlagBeforeData, FLAGS[0]);
        for (bug, flag) in [(PlantedBug::FlagBeforeData, FLAGS[0]), (PlantedBug::NewsBeforeCopy, FLAGS[1])] {
            let memory = DeviceMemory::new(&gpu, BYTES).unwrap();
            let place = memory.place();
            finds(Box::new(memory), place, bug, flag);
        }
    }

    #[test]
    fn a_kernel_finds_news_before_their_data() {
        under_a_stand_in("planted::bugs");
    }
}

/// Without a stand-in, on a machine without a GPU.
#[test]
fn a_machine_without_a_gpu_is_refused_in_one_line() {
    if let Err(error) = Gpu::open(0) {
        let line = error.to_string();
        assert!(
            !line.contains('\n') && (line.contains("no CUDA driver") || line.contains("no GPU")),
            "{line}"
        );
    }
}
