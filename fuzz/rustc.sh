#!/bin/sh
# rustc for our own crates, as RUSTC_WORKSPACE_WRAPPER: with the marks by which libFuzzer sees where a run went, and
# with arithmetic checked. What others wrote is compiled once, without, and shared with every other build.
# These are the flags of cargo-fuzz but the sanitizer, which only a nightly compiler has.
case " $* " in
*" --crate-name build_script_"* | *" proc-macro "* | *" -vV "*) exec "$@" ;;
esac
exec "$@" -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Coverflow-checks=on
