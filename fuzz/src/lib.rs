//! Every decoder of untrusted bytes, as functions that a fuzzer calls: none may panic, none may take more memory than a
//! multiple of its input, and every decoded value must come back from its encoding.
//!
//! It never judges what a message means: conformance and the escape tests do. Start at [`TARGETS`]; `seeds` makes the
//! corpus from real encodings; `cargo xtask fuzz` runs libFuzzer.
//!
//! A member of the workspace, so that its dependencies are built once; only Armento's crates are built a second time,
//! instrumented (`rustc.sh`).

mod control;
mod follow;
mod gossip;
mod image;
mod names;
mod nfs;
mod pack;
mod proc;
pub mod seeds;
mod sys;
mod wire;

pub use sys::within;

/// A target: its name, the memory it may use beside a multiple of its input, and its function.
pub struct Target {
    pub name: &'static str,
    pub bytes_max: usize,
    pub run: fn(&[u8]),
}

/// Memory beside that multiple: tables built once, and a container that reserves in advance (serde: a MiB).
const ROOM: usize = 8 << 20;
/// Bytes of memory allowed for a byte of input: an area of memory is 7 bytes on the wire and 104 in memory.
const PER_BYTE: usize = 64;

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target {
        name,
        bytes_max: ROOM,
        run,
    }
}

pub const TARGETS: &[Target] = &[
    target("frames", wire::frames),
    target("call", wire::call),
    target("talk", wire::talk),
    target("pages", wire::pages),
    target("image", image::image),
    target("layout", image::layout),
    target("pack", pack::pack),
    target("gossip", gossip::gossip),
    target("control", control::control),
    target("names", names::names),
    target("nfs", nfs::nfs),
    target("proc", proc::proc),
    target("follow", follow::follow),
];

/// Runs the target of this name.
pub fn run(name: &str, data: &[u8]) {
    if let Some(t) = TARGETS.iter().find(|t| t.name == name) {
        within(t.bytes_max + PER_BYTE * data.len(), || (t.run)(data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A defect stays fixed: every input of the corpus, without a fuzzer.
    #[test]
    fn corpus_inputs_pass() {
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        for t in TARGETS {
            let mut inputs = 0;
            for entry in fs::read_dir(all.join(t.name)).expect("a folder a target") {
                let path = entry.expect("an entry").path();
                run(t.name, &fs::read(&path).expect("an input"));
                inputs += 1;
            }
            assert!(inputs > 0, "{} has no corpus", t.name);
        }
    }

    /// Truncated, altered and repeated seeds: cheap, and without a fuzzer.
    #[test]
    fn altered_seeds_pass() {
        for (name, _, seed) in seeds::all() {
            run(name, &seed);
            for i in 0..seed.len().min(400) {
                run(name, &seed[..i]);
                for bend in [0x01, 0x80, 0xff] {
                    let mut bent = seed.clone();
                    bent[i] ^= bend;
                    run(name, &bent);
                }
            }
        }
    }
}
