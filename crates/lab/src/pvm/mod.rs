//! A virtual machine of PVM on the nodes of a lab: the pvmd of each, and what programs need to be its tasks.
//!
//! It ends with its lab: each pvmd is a process of its node, and its files are in the node's own /tmp. Start at
//! [`compile`] and [`start`].

use crate::lab::{Lab, Node};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Packages that programs for PVM need.
const PACKAGES: &str = "pvm pvm-dev gcc libc6-dev";
/// pvmd3(1) of Debian.
const PVMD: &str = "/usr/lib/pvm3/lib/pvmd";
const HEADER: &str = "/usr/include/pvm3.h";
/// Directory of a node from which PVM starts tasks.
pub const DIR: &str = "/var/tmp/pvm";
/// List of hosts in it, on n1.
const HOSTS: &str = "/var/tmp/pvm/hosts";
/// Time limit for all nodes to join.
const JOIN_MAX: Duration = Duration::from_secs(120);
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Variables of every program that uses PVM, also of `pvm_spawn`.
pub const VARIABLES: [&str; 4] = [
    "PVM_ALLOW_ROOT=1",
    "PVM_ROOT=/usr/lib/pvm3",
    "PVM_RSH=/usr/local/bin/armento-rsh",
    "ARMENTO_RSH_ENV=PVM_*",
];

/// Fails with the packages to install where this machine has no PVM.
pub fn check() -> Result<()> {
    if Path::new(PVMD).exists() && Path::new(HEADER).exists() {
        return Ok(());
    }
    bail!("PVM is not installed, or its header is missing\nhint: apt-get install -y {PACKAGES}")
}

/// Compiles a program for PVM in a temporary directory below `dir`. It needs PVM's shared library, which the nodes have from
/// this machine: the static one lacks XDR.
pub fn compile(dir: &Path, name: &str, source: &str) -> Result<Vec<u8>> {
    check()?;
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
    fs::write(&from, source)?;
    let done = Command::new("cc")
        .args(["-O2", "-o"])
        .args([&to, &from])
        .arg("-lpvm3")
        .output()
        .with_context(|| {
            format!(
                "there is no C compiler for PVM's programs\nhint: apt-get install -y {PACKAGES}"
            )
        })?;
    if !done.status.success() {
        bail!("cc: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    let program = fs::read(&to)?;
    fs::remove_file(from)?;
    fs::remove_file(to)?;
    Ok(program)
}

/// A command on a node with the variables of PVM.
pub fn command(node: &Node, program: &str) -> Command {
    let mut c = node.command("env");
    c.args(VARIABLES).arg(program).stdin(Stdio::null());
    c
}

/// Starts a pvmd on each node, from n1, as a user would: by the console and a list of hosts. After `Ok` all have joined,
/// and tasks are dealt out in the order of the nodes.
pub fn start(lab: &Lab) -> Result<()> {
    let n1 = lab.node(1);
    let mut hosts = format!("* dx={PVMD} ep={DIR}\n");
    for node in lab.nodes() {
        hosts += &format!("{}\n", node.name);
    }
    for i in 1..=lab.nodes().len() {
        fs::create_dir_all(lab.root(i)?.join(DIR.trim_start_matches('/')))?;
    }
    fs::write(lab.root(1)?.join(HOSTS.trim_start_matches('/')), hosts)?;
    // The console reads .pvmrc of the home directory, which a node's root need not have.
    let said = console(n1, &format!("mkdir -p ~; printf 'quit\\n' | pvm {HOSTS}"))?;
    let all = lab.nodes().len();
    let want = match all {
        1 => "1 host,".to_owned(),
        all => format!("{all} hosts,"),
    };
    let began = Instant::now();
    loop {
        // Hosts that are still joining are counted when they have.
        let conf = console(n1, "printf 'conf\\nquit\\n' | pvm")?;
        if conf.contains(&want) {
            return Ok(());
        }
        if began.elapsed() > JOIN_MAX {
            bail!(
                "PVM did not start on all {all} nodes within {} s: {} {}",
                JOIN_MAX.as_secs(),
                said.trim(),
                conf.trim()
            );
        }
        sleep(ASK_EVERY);
    }
}

/// What the console prints, errors included.
fn console(node: &Node, script: &str) -> Result<String> {
    let out = command(node, "sh").args(["-c", script]).output()?;
    let all = [&out.stdout[..], &out.stderr[..]].concat();
    Ok(String::from_utf8_lossy(&all).into_owned())
}
