#!/bin/sh
# rustc for Armento's crates, as RUSTC_WORKSPACE_WRAPPER: with instrumentation by which libFuzzer measures coverage, and
# with checked arithmetic. Other crates are compiled once, without, and shared with every other build. These are the
# flags of cargo-fuzz without the sanitizer, which only a nightly compiler has.
case " $* " in
*" --crate-name build_script_"* | *" proc-macro "* | *" -vV "*) exec "$@" ;;
esac
exec "$@" -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Coverflow-checks=on
