//! Fuzzes one target, or replays inputs through it.
//!
//! Built with `--cfg fuzzing` by `fuzz/run.sh`, this is libFuzzer's executable, and the environment variable
//! `WEFT_FUZZ_TARGET` names the target. In a normal build, `weft-fuzz TARGET FILE...` runs each file through
//! the target, for use in a debugger.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod engine {
    use std::sync::LazyLock;

    static TARGET: LazyLock<weft_fuzz::Target> = LazyLock::new(|| {
        let name = std::env::var("WEFT_FUZZ_TARGET").expect("WEFT_FUZZ_TARGET names the target");
        weft_fuzz::target(&name).expect("WEFT_FUZZ_TARGET names a target")
    });

    libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let names = weft_fuzz::TARGETS.map(|target| target.name).join(", ");
    let Some(target) = arguments.next().and_then(|name| weft_fuzz::target(&name)) else {
        eprintln!("error: usage: weft-fuzz TARGET FILE...; TARGET is one of {names}");
        return std::process::ExitCode::from(2);
    };
    for path in arguments {
        let data = match std::fs::read(&path) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("error: {path} cannot be read: {error}");
                return std::process::ExitCode::from(2);
            }
        };
        println!("{} {path}", target.name);
        (target.run)(&data);
    }
    std::process::ExitCode::SUCCESS
}
