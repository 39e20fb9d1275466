//! Embeds `guests/*.c`, `*.cc`, `*.go` and `*.h`, so that an installed binary contains its guests.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../guests")
        .canonicalize()
        .expect("guests/ is beside crates/");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("guests/ can be read")
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|x| x == "c" || x == "cc" || x == "go" || x == "h")
        })
        .collect();
    files.sort();
    let mut text = String::from("pub const FILES: &[(&str, &str)] = &[\n");
    for path in files {
        let name = path.file_name().expect("has a name").to_string_lossy();
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(
            text,
            "    ({name:?}, include_str!({:?})),",
            path.display().to_string()
        )
        .expect("writing to a string");
    }
    text.push_str("];\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo")).join("guests.rs");
    fs::write(out, text).expect("OUT_DIR can be written");
}
