//! A mount of this machine's own directories, to try things by hand and to measure.
//!
//! `mfs-loop POINT NAME=EXPORTS…`, where EXPORTS is `path[:ro|rw[:hidden…]]`, several separated by commas. It ends when
//! its standard input does.

#[path = "../tests/mfs/farm/mod.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod farm;

use armento_mfs::Mount;
use std::io::Read;
use std::path::Path;

fn main() {
    farm::serve_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((point, nodes)) = args.split_first() else {
        eprintln!("usage: mfs-loop POINT NAME=EXPORTS...");
        std::process::exit(2);
    };
    let nodes: Vec<(&str, String)> = nodes
        .iter()
        .filter_map(|n| n.split_once('='))
        .map(|(n, e)| (n, e.replace(',', "\n")))
        .collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(n, e)| (*n, &e[..])).collect();
    let farm = farm::Loop::new(&nodes, &[]);
    if let Ok(via) = std::env::var("MFS_LOOP_VIA") {
        *farm.via.lock().expect("no panic") = Some(via);
    }
    let mut options = farm::options();
    options.cache = std::env::var_os("MFS_LOOP_NO_CACHE").is_none();
    let mount = match Mount::start(Path::new(point), farm.clone(), options) {
        Ok(m) => m,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1);
        }
    };
    println!("mounted");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    for n in mount.stats().nodes {
        eprintln!("{n:?}");
    }
    if let Err(e) = mount.unmount() {
        eprintln!("{e}");
    }
}
