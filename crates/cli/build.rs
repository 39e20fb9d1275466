//! The program is linked at a fixed address: its 15,000 relocations, a fifth of what its start costs, are then made when it
//! is built and not in each of the three starts behind one `armento run` (`docs/rfd/0005-the-farm-decides.md`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
