//! How the program is linked: three starts of it are behind one `armento run` (`docs/measurements/starts-and-moves.md`).
//!
//! - At a fixed address: its 15,000 relocations are made when it is built.
//! - Without shared libraries to load at each start, where the compiler has static archives.
//!   `-C target-feature=+crt-static` cannot be used in a build with procedural macros; so the linker finds, in place of
//!   the libraries that std names, scripts that name the archives (ld, "GROUP").
//! - std uses weak symbols for functions that old libraries lack, and a weak symbol takes nothing from an archive.
//!   Without [`WEAK`] std forks the daemon, page tables and all, where it could spawn.

use std::path::Path;
use std::process::Command;

/// Libraries that std links, and the archives that replace them. The compiler's and the C library's archives need each
/// other.
const LIBRARIES: [(&str, &[&str]); 7] = [
    ("gcc_s", &["libgcc_eh.a", "libgcc.a", "libc.a"]),
    ("c", &["libc.a", "libgcc.a", "libgcc_eh.a"]),
    ("m", &["libm.a"]),
    ("dl", &["libdl.a"]),
    ("rt", &["librt.a"]),
    ("util", &["libutil.a"]),
    ("pthread", &["libpthread.a"]),
];
const WEAK: [&str; 2] = [
    "gnu_get_libc_version",
    "posix_spawn_file_actions_addchdir_np",
];

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-no-pie");
    let gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|e| e == "gnu");
    let native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    let scripts: Option<Vec<_>> = LIBRARIES
        .iter()
        .map(|(name, files)| Some((name, group(files)?)))
        .collect();
    let Some(scripts) = scripts.filter(|_| gnu && native) else {
        return Ok(());
    };
    let dir = std::env::var("OUT_DIR").unwrap_or_default();
    for (name, script) in scripts {
        std::fs::write(Path::new(&dir).join(format!("lib{name}.so")), script)?;
    }
    println!("cargo:rustc-link-arg-bins=-L{dir}");
    println!("cargo:rustc-link-arg-bins=-static");
    WEAK.iter()
        .for_each(|name| println!("cargo:rustc-link-arg-bins=-Wl,-u,{name}"));
    Ok(())
}

fn group(files: &[&str]) -> Option<String> {
    let paths: Option<Vec<String>> = files.iter().map(|f| archive(f)).collect();
    Some(format!("GROUP({})\n", paths?.join(" ")))
}

/// Path of the archive as the compiler finds it: absolute, or the name alone when it has none.
fn archive(file: &str) -> Option<String> {
    let said = Command::new("cc")
        .arg(format!("-print-file-name={file}"))
        .output()
        .ok()?;
    let path = String::from_utf8(said.stdout).ok()?.trim().to_owned();
    path.starts_with('/').then_some(path)
}
