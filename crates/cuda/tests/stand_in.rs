//! Tests that run on any machine: they build a stand-in for the driver and load it in place of
//! `libcuda.so.1`.
//!
//! They test that calls, their order and waiting are correct, and so are the kernel's findings. They do not
//! test a GPU.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use weft_cuda::{DeviceMemory, Findings, Flag, Gpu, MappedMemory, Place, Watcher, expected_word};
use weft_nic::AttachedMemory;

/// A process loads the driver when it starts, so each of these tests runs in its own process.
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

/// Writes rounds as if packets arrived, with a later write or the word in host memory as the notification.
/// Returns the kernel's findings.
#[allow(unsafe_code)]
fn watch(gpu: &Arc<Gpu>, memory: &mut dyn AttachedMemory, place: &Place, flag: Flag) -> Findings {
    // Safety: the memory belongs to the caller, which keeps it until the watcher has ended.
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
        // A card calls submit repeatedly.
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
            // More than one round is wrong, because a round does not wait for what an earlier round has
            // delayed.
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

/// Opening a GPU on a machine without one, without the stand-in, returns an error with a message of one line.
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
