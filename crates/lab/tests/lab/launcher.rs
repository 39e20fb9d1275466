//! `lab rsh`: commands that nodes start on each other, by itself and by the tools that it is made for.

use super::{able, cli, line, output_of, sh, spec, until};
use armento_lab::Lab;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// True when the program is installed; it is a Debian package's.
fn installed(test: &str, program: &str, package: &str) -> bool {
    let found = Path::new("/usr/bin").join(program).exists();
    if !found {
        println!("skipped: {test} needs Debian's package {package}");
    }
    found
}

/// Processes of a node beside its first one and what lists them.
fn programs(lab: &Lab, node: usize) -> String {
    output_of(
        lab,
        node,
        "ps -e -o pid= -o args= | grep -v 'lab-init node\\|ps -e\\|grep\\|sh -c' || true",
    )
}

fn none_left(lab: &Lab, nodes: std::ops::RangeInclusive<usize>) {
    for node in nodes {
        until(&format!("n{node} to be empty"), || {
            programs(lab, node).is_empty()
        });
    }
}

#[test]
fn commands_run_as_by_ssh() {
    if !able("commands_run_as_by_ssh") {
        return;
    }
    let lab = Lab::up(spec(2)).unwrap();
    let check = |script: &str, code: i32, want: &str| {
        let got = sh(&lab, 1, script);
        let said = String::from_utf8_lossy(&got.stdout).into_owned();
        let errors = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!(
            (got.status.code(), said.trim_end()),
            (Some(code), want),
            "{script}: {errors}"
        );
    };
    check("armento-rsh n2 hostname", 0, "n2");
    check(
        "armento-rsh 10.77.$(hostname -i | cut -d. -f3).2 hostname",
        0,
        "n2",
    );
    check("armento-rsh localhost hostname", 0, "n1");
    check("armento-rsh n2 'exit 7'", 7, "");
    check("armento-rsh n2 'kill -TERM $$'", 128 + 15, "");
    check("armento-rsh n2 echo \\$HOME '\"a  b\"'", 0, "/root a  b");
    check("echo through | armento-rsh n2 cat", 0, "through");
    check("echo lost | armento-rsh -n n2 cat", 0, "");
    check(
        "armento-rsh n2 'echo wrong >&2' 2>&1 >/dev/null",
        0,
        "wrong",
    );
    check(
        "head -c 3000000 /dev/zero | armento-rsh n2 cat | wc -c",
        0,
        "3000000",
    );
    check(
        "X_A=1 X_B=2 ARMENTO_RSH_ENV='X_*' armento-rsh n2 'echo $X_A$X_B'",
        0,
        "12",
    );
    check(
        "X_A=1 X_B=2 armento-rsh -o SendEnv=X_B n2 'echo $X_A$X_B'",
        0,
        "2",
    );
    check("armento-rsh n9 true", 125, "");
    check("armento-rsh n2", 125, "");
    // A file that a node reads and writes is its own, whoever opened the other end.
    check(
        "armento-rsh n2 'echo x > /tmp/f' > /tmp/g && cat /tmp/g; test ! -e /tmp/f",
        0,
        "",
    );

    // From outside, by the lab's name.
    let name = &lab.plan().name;
    let got = cli(&["rsh", "--name", name, "n2", "hostname"]);
    assert_eq!(String::from_utf8_lossy(&got.stdout), "n2\n");
    // It counts as the node's: same control groups, by the processor that it runs on.
    let where_is = "cut -d: -f2,3 /proc/self/cgroup; taskset -cp $$ | sed 's/.*: //'; readlink /proc/self/ns/net";
    let by_rsh = cli(&["rsh", "--name", name, "n2", where_is]);
    assert_eq!(
        String::from_utf8_lossy(&by_rsh.stdout).trim(),
        output_of(&lab, 2, where_is)
    );
    lab.down().unwrap();
}

#[test]
fn users_stay_themselves() {
    if !able("users_stay_themselves") {
        return;
    }
    let lab = Lab::up(spec(2)).unwrap();
    for node in [1, 2] {
        output_of(
            &lab,
            node,
            "echo 'ann:x:4711:4711::/tmp:/bin/sh' >> /etc/passwd; echo 'ann:x:4711:' >> /etc/group; echo 'lab:x:4712:ann' >> /etc/group",
        );
    }
    let ann = |script: &str| {
        let mut c = lab.node(1).command_as("ann", "sh");
        let got = c
            .args(["-c", script])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&got.stdout).into_owned();
        (got.status.code(), said.trim_end().to_owned())
    };
    let id = "uid=4711(ann) gid=4711(ann) groups=4711(ann),4712(lab)";
    assert_eq!(ann("armento-rsh n2 id"), (Some(0), id.to_owned()));
    assert_eq!(
        ann("armento-rsh -l ann n2 pwd"),
        (Some(0), "/tmp".to_owned())
    );
    assert_eq!(ann("armento-rsh -l root n2 id"), (Some(125), String::new()));
    assert_eq!(output_of(&lab, 1, "armento-rsh -l ann n2 id"), id);
    // Outside, only root reaches the socket.
    let dir = Path::new("/run/armento-lab")
        .join(&lab.plan().name)
        .join("rsh");
    let mode = fs::metadata(dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn killed_launcher_leaves_nothing() {
    if !able("killed_launcher_leaves_nothing") {
        return;
    }
    let lab = Lab::up(spec(2)).unwrap();
    let launch = |script: &str| {
        let mut c = lab.node(1).command("armento-rsh");
        let c = c.args(["n2", script]).stdin(Stdio::null());
        c.stdout(Stdio::piped()).spawn().unwrap()
    };
    // Also what has left the command's session.
    let mut child = launch("setsid sleep 1000 & (sleep 1001 & exec true); echo ready; sleep 1002");
    assert_eq!(line(&mut child), "ready\n");
    assert_eq!(programs(&lab, 2).matches("sleep").count(), 3);
    child.kill().unwrap();
    child.wait().unwrap();
    none_left(&lab, 1..=2);

    // A signal reaches the command, and its code comes back.
    let mut child = launch("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
    assert_eq!(line(&mut child), "ready\n");
    super::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    none_left(&lab, 1..=2);

    // What runs on in the background without its output is left alone.
    let done = sh(
        &lab,
        1,
        "armento-rsh n2 'setsid sleep 1000 </dev/null >/dev/null 2>&1 &'",
    );
    assert!(done.status.success());
    assert_eq!(programs(&lab, 2).matches("sleep").count(), 1);

    // A lab that ends takes its commands along, and tells.
    let child = launch("echo ready; sleep 1000");
    let name = lab.plan().name.clone();
    lab.down().unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(!ended.status.success());
    assert_eq!(super::traces(&name), Vec::<String>::new());
}

/// Ranks on four nodes, started from the first; each prints the name of its node.
fn starts_on_four(test: &str, package: &str, words: &[&str]) {
    if !able(test) || !installed(test, words[0], package) {
        return;
    }
    let lab = Lab::up(spec(4)).unwrap();
    let run = |more: &[&str]| -> Command {
        let mut c = lab.node(1).command(words[0]);
        c.args(&words[1..]).args(more).stdin(Stdio::null());
        c
    };
    let got = run(&["hostname"]).output().unwrap();
    let said = String::from_utf8_lossy(&got.stdout).into_owned();
    let mut names: Vec<&str> = said.lines().collect();
    names.sort_unstable();
    let errors = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!(names, ["n1", "n2", "n3", "n4"], "{errors}");

    // One that is ended leaves no rank on any node.
    let script = "echo ready; exec sleep 1000";
    let mut child = run(&["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(line(&mut child), "ready\n");
    super::signal(&child, "TERM");
    child.wait().unwrap(); // the code is the launcher's: hydra's is sometimes 0
    none_left(&lab, 1..=4);
}

#[test]
fn open_mpi_starts_ranks_on_four_nodes() {
    let agent = [
        "--mca",
        "plm_rsh_agent",
        "armento-rsh",
        "--host",
        "n1,n2,n3,n4",
    ];
    let words = [
        &["mpirun.openmpi", "--allow-run-as-root"][..],
        &agent,
        &["-np", "4"],
    ]
    .concat();
    starts_on_four("open_mpi_starts_ranks_on_four_nodes", "openmpi-bin", &words);
}

#[test]
fn mpich_starts_ranks_on_four_nodes() {
    let launcher = [
        "-launcher",
        "ssh",
        "-launcher-exec",
        "/usr/local/bin/armento-rsh",
    ];
    let words = [
        &["mpirun.mpich"][..],
        &launcher,
        &["-hosts", "n1,n2,n3,n4", "-np", "4"],
    ]
    .concat();
    starts_on_four("mpich_starts_ranks_on_four_nodes", "mpich", &words);
}

#[test]
fn pvm_starts_daemons_on_four_nodes() {
    let test = "pvm_starts_daemons_on_four_nodes";
    if !able(test) || !installed(test, "pvm", "pvm") {
        return;
    }
    let lab = Lab::up(spec(4)).unwrap();
    let set = "export PVM_ALLOW_ROOT=1 PVM_ROOT=/usr/lib/pvm3 PVM_RSH=/usr/local/bin/armento-rsh ARMENTO_RSH_ENV='PVM_*'";
    // `conf` first prints that hosts are missing while they join: it is asked until all are there.
    let script = format!(
        "{set}; mkdir -p /root; printf '* dx=/usr/lib/pvm3/lib/pvmd\\nn1\\nn2\\nn3\\nn4\\n' > /root/hosts
         printf 'quit\\n' | pvm /root/hosts >/dev/null 2>&1"
    );
    output_of(&lab, 1, &script);
    let conf = || output_of(&lab, 1, &format!("{set}; printf 'conf\\nquit\\n' | pvm"));
    until("four hosts of PVM", || conf().contains("4 hosts"));
    for node in 2..=4 {
        assert!(programs(&lab, node).contains("pvmd"), "n{node}");
    }
    // The console is ended by its own `halt`.
    sh(&lab, 1, &format!("{set}; printf 'halt\\n' | pvm"));
    none_left(&lab, 1..=4);
}
