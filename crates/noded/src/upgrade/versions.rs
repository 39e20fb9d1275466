//! What runs on this node, by version.

use super::program::{own_hash, own_program, previous, runs_own_program};
use crate::keepers::KeeperProgram;
use crate::state::Node;
use armento_client::api::{Build, RunningBuild, StayingKeeper, VersionsInfo};
use armento_client::version;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Builds that are listed; a node has one or two.
const BUILDS_MAX: usize = 32;

/// Keepers that are listed with their reasons: an answer fits one line.
const STAYING_MAX: usize = 64;

/// One keeper or host.
struct Runs {
    pid: i32,
    build: Build,
    processes: u64,
    away: u64,
}

/// Blocks while files of programs are read, each the first time.
pub fn versions_info(node: &Node) -> VersionsInfo {
    let (keepers, staying, hosts) = {
        let core = node.lock();
        let keepers: Vec<Runs> = core
            .keepers
            .all()
            .map(|k| Runs {
                pid: k.hello.keeper,
                build: k.hello.build.clone(),
                processes: k.procs.len() as u64,
                away: k.procs.iter().filter(|p| p.place != core.me).count() as u64,
            })
            .collect();
        let host = |(pid, build, guests): (i32, &Build, u64)| Runs {
            pid,
            build: build.clone(),
            processes: guests,
            away: 0,
        };
        let staying = core.keepers.all().filter_map(|k| match &k.program {
            KeeperProgram::Stays(_, why) => Some(StayingKeeper {
                process: k.hello.root,
                why: why.clone(),
            }),
            _ => None,
        });
        let staying = staying.take(STAYING_MAX).collect();
        (
            keepers,
            staying,
            core.hosts.builds().map(host).collect::<Vec<_>>(),
        )
    };
    let program = own_program().unwrap_or_default();
    let ours = file_of(Path::new("/proc/self/exe"));
    let there = file_of(&program);
    VersionsInfo {
        node: node.farm.node.clone(),
        build: Build {
            version: crate::version::shown_version(),
            ..Build::own()
        },
        control: version::spoken(),
        boot: node.farm.boot,
        sha256: own_hash().unwrap_or_default().to_owned(),
        replaced: ours != there,
        previous: previous(&program).exists(),
        program: program.display().to_string(),
        allow_upgrade: node.settings().allow_upgrade,
        upgrade_keepers: node.settings().upgrade_keepers,
        staying,
        keepers: grouped(keepers),
        hosts: grouped(hosts),
    }
}

/// Device and inode.
pub fn file_of(path: &Path) -> Option<(u64, u64)> {
    let it = fs::metadata(path).ok()?;
    Some((it.dev(), it.ino()))
}

fn grouped(all: Vec<Runs>) -> Vec<RunningBuild> {
    let mut groups: BTreeMap<(Build, bool), RunningBuild> = BTreeMap::new();
    for it in all {
        let same_file = runs_own_program(it.pid) == Some(true);
        let key = (it.build, same_file);
        if groups.len() >= BUILDS_MAX && !groups.contains_key(&key) {
            continue;
        }
        let group = groups.entry(key).or_insert_with_key(|key| RunningBuild {
            build: key.0.clone(),
            same_file,
            count: 0,
            processes: 0,
            away: 0,
        });
        group.count += 1;
        group.processes += it.processes;
        group.away += it.away;
    }
    groups.into_values().collect()
}
