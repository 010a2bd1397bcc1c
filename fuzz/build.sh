# Sourced by run.sh and keep.sh in the root of the project: builds the libFuzzer executable.

output=${CARGO_TARGET_DIR:-target}/fuzz
triple=$(rustc --version --verbose | awk '/^host:/ { print $2 }')
fuzzer=$output/$triple/release/weft-fuzz

build_fuzzer() {
    local flags=(
        --cfg fuzzing
        -Cpasses=sancov-module
        -Cllvm-args=-sanitizer-coverage-level=4
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
        -Cllvm-args=-sanitizer-coverage-pc-table
        -Cllvm-args=-sanitizer-coverage-trace-compares
    )
    # With --target, the flags are not applied to build scripts and procedural macros, which could not be linked with
    # libFuzzer.
    RUSTFLAGS="${flags[*]}" \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
        CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
        "${CARGO:-cargo}" build --quiet --locked --package weft-fuzz --bin weft-fuzz --release \
        --target "$triple" --target-dir "$output"
}
