//! Tests with real labs. They need root; without it each test is skipped with a message and counted.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use armento_lab::{Lab, Link, Spec};

mod launcher;
mod networks;

/// The lab's own binary, built beside this test by `cargo test`.
fn exe() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let exe = test.parent().unwrap().join("../examples/lab");
    assert!(
        exe.exists(),
        "no {}: cargo build -p armento-lab --examples",
        exe.display()
    );
    exe.canonicalize().unwrap()
}

/// Unique on this machine while this process lives; at most 20 letters.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "t{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

fn spec(nodes: usize) -> Spec {
    Spec {
        name: name(),
        nodes,
        farm: false,
        exe: Some(exe()),
        ..Spec::default()
    }
}

/// True when a lab can be started here.
fn able(test: &str) -> bool {
    let root = fs::read_to_string("/proc/self/status")
        .unwrap()
        .contains("\nUid:\t0\t0\t");
    if !root {
        println!("skipped: {test} needs root (namespaces, mounts, control groups)");
    }
    root
}

/// Removes kept labs of test runs that were killed.
fn sweep() {
    for entry in fs::read_dir("/run/armento-lab")
        .into_iter()
        .flatten()
        .flatten()
    {
        let lab = entry.file_name().display().to_string();
        let owner = lab
            .strip_prefix('t')
            .and_then(|l| l.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            cli(&["down", "--name", &lab]);
        }
    }
}

/// Traces of the lab `name` on this machine.
fn traces(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if Path::new("/run/armento-lab").join(name).exists() {
        found.push("state directory".into());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|l| l.contains(name))
            .map(|l| format!("mount {l}")),
    );
    let dirs = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name"])
        .arg(format!("armento-lab-{name}*"))
        .output()
        .unwrap();
    found.extend(
        String::from_utf8_lossy(&dirs.stdout)
            .lines()
            .map(|l| format!("cgroup {l}")),
    );
    let netns = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    found.extend(
        netns
            .map(|e| e.file_name().display().to_string())
            .filter(|n| n.contains(name)),
    );
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(env) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let mark = format!("ARMENTO_LAB={name}");
        if env.split(|b| *b == 0).any(|v| v == mark.as_bytes()) {
            found.push(format!("process {}", entry.file_name().display()));
        }
    }
    found
}

/// Polls for an event without notification. Panics after a limit that no machine exceeds.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < end, "still waiting: {what}");
        std::thread::yield_now();
    }
}

fn sh(lab: &Lab, node: usize, script: &str) -> Output {
    lab.node(node)
        .command("sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn output_of(lab: &Lab, node: usize, script: &str) -> String {
    let out = sh(lab, node, script);
    assert!(
        out.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn cli(args: &[&str]) -> Output {
    Command::new(exe())
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn nodes_are_isolated_and_leave_no_trace() {
    if !able("nodes_are_isolated") {
        return;
    }
    let lab = Lab::up(spec(2)).unwrap();
    let name = lab.plan().name.clone();
    assert_eq!(output_of(&lab, 1, "hostname; cat /etc/hostname"), "n1\nn1");
    assert_eq!(output_of(&lab, 2, "hostname"), "n2");
    assert!(output_of(&lab, 1, "tr '\\0' ' ' </proc/1/cmdline").contains("lab-init node"));

    // Disks: files that n1 writes are visible neither to n2 nor to this machine.
    for dir in [
        "/etc",
        "/usr",
        "/root",
        "/run",
        "/tmp",
        "/var/tmp",
        "/var/lib/armento",
        "/dev/shm",
    ] {
        let file = format!("{dir}/{name}");
        output_of(&lab, 1, &format!("echo mine >{file} && cat {file}"));
        assert_eq!(
            sh(&lab, 2, &format!("test -e {file}")).status.code(),
            Some(1),
            "{file}"
        );
        assert!(!Path::new(&file).exists(), "{file}");
    }
    // Files of this machine are there, its mounts and processes are not.
    assert_eq!(
        output_of(&lab, 1, "cat /etc/passwd"),
        fs::read_to_string("/etc/passwd").unwrap().trim()
    );
    assert_eq!(
        output_of(
            &lab,
            1,
            "grep -c ' /old\\| /proc/sys\\|ext4 .* / ' /proc/mounts || true"
        ),
        "0"
    );
    let pids = output_of(&lab, 2, "ls /proc | grep -c '^[0-9]'");
    assert!(pids.parse::<u32>().unwrap() <= 5, "{pids} processes");
    assert_eq!(
        output_of(&lab, 1, "ls /run/armento-lab 2>/dev/null | wc -l"),
        "0"
    );

    // Orphans are adopted and reaped by the node's first process.
    output_of(&lab, 1, "(sleep 0.01 & exec true); :");
    until("the orphan is reaped", || {
        output_of(&lab, 1, "cat /proc/[0-9]*/stat | grep -c '(sleep)' || true") == "0"
    });

    lab.down().unwrap();
    assert_eq!(traces(&name), Vec::<String>::new());
}

#[test]
fn exec_passes_on_exit_codes_input_users_and_signals() {
    if !able("exec_passes_on") {
        return;
    }
    let lab = Lab::up(spec(1)).unwrap();
    let check = |script: &str, want: i32| {
        assert_eq!(sh(&lab, 1, script).status.code(), Some(want), "{script}")
    };
    check("exit 0", 0);
    check("exit 7", 7);
    check("kill -TERM $$", 128 + 15);
    let code = |program: &str| lab.node(1).command(program).output().unwrap().status.code();
    assert_eq!(code("/no/such/program"), Some(127));
    assert_eq!(code("/etc/passwd"), Some(126));

    let n = lab.plan().name.clone();
    assert_eq!(
        cli(&["exec", "--name", &n, "n9", "--", "true"])
            .status
            .code(),
        Some(125)
    );
    assert_eq!(
        cli(&["exec", "--name", "no-such-lab", "n1", "--", "true"])
            .status
            .code(),
        Some(125)
    );
    let id = cli(&[
        "exec", "--name", &n, "--user", "nobody", "n1", "--", "id", "-un",
    ]);
    assert_eq!(String::from_utf8_lossy(&id.stdout), "nobody\n");

    let mut cat = lab
        .node(1)
        .command("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    cat.stdin.take().unwrap().write_all(b"through").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"through");

    // A signal sent to `lab exec` reaches the program.
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = lab
        .node(1)
        .command("sh")
        .args(["-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    line(&mut child);
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(5));

    // Killing `lab exec` kills the program.
    let script = "echo ready; exec sleep 1000";
    let mut child = lab
        .node(1)
        .command("sh")
        .args(["-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    line(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the program ends", || {
        output_of(&lab, 1, "cat /proc/[0-9]*/stat | grep -c '(sleep)' || true") == "0"
    });

    // Background programs stay.
    let mut c = lab.node(1).background("/var/log/x.log", "sh");
    assert!(
        c.args(["-c", "echo started; exec sleep 1000"])
            .status()
            .unwrap()
            .success()
    );
    until("its first line", || {
        sh(&lab, 1, "grep -q started /var/log/x.log")
            .status
            .success()
    });
    until("it to run", || {
        output_of(&lab, 1, "cat /proc/[0-9]*/stat | grep -c '(sleep)' || true") == "1"
    });
}

#[test]
fn program_has_the_terminal() {
    if !able("program_has_the_terminal") {
        return;
    }
    let lab = Lab::up(spec(1)).unwrap();
    let inner = "test -t 0 || exit 9; trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done";
    // `exec`: otherwise Ctrl-C would end the shell in between, which has no trap.
    let exec = format!(
        "exec {} exec --name {} n1 -- sh -c \"{inner}\"",
        exe().display(),
        lab.plan().name
    );
    // Background processes ignore Ctrl-C, and a shell cannot trap a signal that is ignored at its start.
    let mut script = Command::new("env")
        .args(["--default-signal=INT", "script", "-qec", &exec, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(line(&mut script).trim_end(), "ready");
    script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(5), "Ctrl-C");
}

#[test]
fn nodes_reach_each_other_by_name() {
    if !able("nodes_reach_each_other_by_name") {
        return;
    }
    for link in [
        Link::None,
        "switch100".parse().unwrap(),
        Link::Switch {
            bits: 4_000_000_000,
        },
    ] {
        let lab = Lab::up(Spec { link, ..spec(2) }).unwrap();
        let server = "use IO::Socket::INET; $| = 1;
            $s = IO::Socket::INET->new(Listen => 1, LocalAddr => 'n2', LocalPort => 7000) or die $!;
            print qq(ready\\n); $c = $s->accept; print $c qq(hello from n2\\n);";
        let mut s = lab
            .node(2)
            .command("perl")
            .args(["-e", server])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        line(&mut s);
        let got = lab
            .node(1)
            .command("bash")
            .args(["-c", "cat </dev/tcp/n2/7000"])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&got.stdout),
            "hello from n2\n",
            "{link:?}"
        );
        assert!(s.wait().unwrap().success());
    }
}

#[test]
fn speed_memory_and_cpu_are_set() {
    if !able("speed_memory_and_cpu_are_set") {
        return;
    }
    let lab = Lab::up(Spec {
        speeds: vec![0.25, 1.0],
        mem: Some(256 << 20),
        ..spec(2)
    })
    .unwrap();
    let group = Path::new("/sys/fs/cgroup");
    let v1 = group.join("cpu").exists();
    let (speed, memory, slow, full) = if v1 {
        (
            "cpu/cpu.cfs_quota_us",
            "memory/memory.limit_in_bytes",
            "2500",
            "-1",
        )
    } else {
        ("cpu.max", "memory.max", "2500 10000", "max 100000")
    };
    let read = |node, file: &str| output_of(&lab, node, &format!("cat /sys/fs/cgroup/{file}"));
    assert_eq!((read(1, speed), read(2, speed)), (slow.into(), full.into()));
    assert_eq!(read(2, memory), (256 << 20).to_string());
    assert_eq!(output_of(&lab, 1, "nproc"), "1", "pinned to one CPU");
    assert_eq!(
        output_of(&lab, 1, "grep -c -v ':/$' /proc/self/cgroup || true"),
        "0",
        "its own group is the top"
    );
}

#[test]
fn lab_ends_with_its_process() {
    if !able("lab_ends_with_its_process") {
        return;
    }
    let n = {
        let lab = Lab::up(spec(1)).unwrap();
        lab.plan().name.clone()
    };
    assert_eq!(traces(&n), Vec::<String>::new());
}

#[test]
fn closed_output_does_not_stop_the_work() {
    if !able("closed_output_does_not_stop_the_work") {
        return;
    }
    let n = name();
    let to = |out: Stdio, args: &[&str]| {
        let mut cmd = Command::new(exe());
        let done = cmd.args(args).stdin(Stdio::null()).stdout(out).output();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), said)
    };
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let full = || {
        let full = std::fs::File::options().write(true).open("/dev/full");
        Stdio::from(full.unwrap())
    };
    let up = ["up", "--nodes", "1", "--no-farm", "--name", &n];
    assert_eq!(to(closed(), &up), (Some(0), String::new()));
    assert_eq!(to(closed(), &["list"]), (Some(0), String::new()));
    // Lost output is reported, and the work is done all the same.
    let (code, said) = to(full(), &["down", "--name", &n]);
    assert_eq!(code, Some(125));
    assert!(said.contains("cannot write to standard output"), "{said}");
    assert_eq!(traces(&n), Vec::<String>::new());
}

#[test]
fn kept_labs_stay_until_taken_down_and_names_are_taken_once() {
    if !able("kept_labs_stay") {
        return;
    }
    sweep();
    let n = name();
    let up = || cli(&["up", "--nodes", "1", "--no-farm", "--json", "--name", &n]);
    let out = up();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&json["v"], &json["nodes"][0]["state"]),
        (&1.into(), &"up".into())
    );

    let again = up();
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("hint: `armento lab down"));
    let listed = cli(&["list", "--json"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&n));

    // A stopped `lab exec` must not keep the lab from ending.
    let mut child = Lab::find(&n)
        .unwrap()
        .node(1)
        .command("sh")
        .args(["-c", "echo ready; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    line(&mut child);
    signal(&child, "STOP");
    assert!(cli(&["down", "--name", &n]).status.success());
    assert_eq!(traces(&n), Vec::<String>::new());
    until("the stopped `lab exec` ends", || {
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
    assert!(!cli(&["down", "--name", &n]).status.success(), "it is gone");
}

/// `lab up` is killed as soon as a trace of the lab is visible, or after so many checks.
#[test]
fn killed_lab_up_leaves_no_trace() {
    if !able("killed_lab_up_leaves_no_trace") {
        return;
    }
    let file = |n: &str, f: &str| {
        fs::read_to_string(format!("/run/armento-lab/{n}/{f}")).unwrap_or_default()
    };
    type Seen<'a> = &'a dyn Fn(&str) -> bool;
    let moments: [(&str, Seen); 5] = [
        ("at once", &|_| true),
        ("state directory", &|n| {
            Path::new("/run/armento-lab").join(n).exists()
        }),
        ("plan", &|n| !file(n, "lab.json").is_empty()),
        ("switch", &|n| file(n, "pids.json").contains("switch")),
        ("nodes", &|n| file(n, "pids.json").contains("\"nodes\":[{")),
    ];
    for (moment, seen) in moments {
        for switch_too in [false, true] {
            let n = name();
            let mut up = Command::new(exe());
            up.args(["up", "--nodes", "3", "--no-farm", "--name", &n]);
            let mut up = up
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            until(moment, || seen(&n) || up.try_wait().unwrap().is_some());
            let _ = up.kill();
            up.wait().unwrap();
            if switch_too {
                let pids: serde_json::Value =
                    serde_json::from_str(&file(&n, "pids.json")).unwrap_or_default();
                if let Some(pid) = pids["switch"]["pid"].as_i64() {
                    Command::new("kill")
                        .args(["-9", &pid.to_string()])
                        .stderr(Stdio::null())
                        .status()
                        .unwrap();
                }
                cli(&["down", "--name", &n]); // fails if the kill came before any trace
            } else if !traces(&n).is_empty() && file(&n, "pids.json").is_empty() {
                // Killed before the switch process started: only `down` can report it.
                cli(&["down", "--name", &n]);
            }
            until(&format!("{moment}: {:?}", traces(&n)), || {
                if file(&n, "pids.json").contains("\"nodes\":[{") {
                    cli(&["down", "--name", &n]); // it had committed before the kill
                }
                traces(&n).is_empty()
            });
        }
    }
}

#[test]
fn bad_arguments_are_refused_with_a_hint() {
    if !able("bad_arguments_are_refused_with_a_hint") {
        return;
    }
    let n = name();
    for bad in [
        &["--nodes", "0"][..],
        &["--nodes", "65"],
        &["--speed", "2"],
        &["--speed", "0.1,0.1,0.1,0.1,0.1"],
        &["--mem", "1M"],
        &["--rate", "1bit"],
        &["--link", "p2p:n9"],
        &["--link", "none", "--rate", "10mbit"],
        &["--link", "p2p", "--links", "2"],
        &["--link", "hub10", "--fault", "duplex:n1"],
        &["--fault", "duplex:n9"],
        &["--mtu", "100"],
        &["--cores", "65"],
        &["--cores", "2", "--speed", "1", "--nodes", "64"],
        &["--period", "1", "--speed", "0.1"],
        &["--disk", "1K"],
        &["--share", "/no/such/place"],
        &["--share", "/tmp:/proc/x"],
    ] {
        let out = cli(&[&["up", "--no-farm", "--name", &n], bad].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            !out.status.success() && said.contains("hint: "),
            "{bad:?}: {said}"
        );
        assert_eq!(traces(&n), Vec::<String>::new());
    }
}

/// Needs no root: the doctor reports what is missing.
#[test]
fn doctor_has_a_remedy_for_every_failed_check() {
    let out = cli(&["doctor", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(said["v"], 1);
    assert_eq!(out.status.success(), said["farm"] == true);
    let checks = said["checks"].as_array().unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for c in checks {
        let text = |k: &str| c[k].as_str().unwrap();
        assert_eq!(text("remedy").is_empty(), text("state") == "ok", "{c}");
        assert!(
            !text("found").is_empty() && !text("found").contains('\n'),
            "{c}"
        );
        assert!(ids.insert(text("id").to_owned()), "{c}");
    }
    let people = cli(&["doctor"]);
    assert!(String::from_utf8_lossy(&people.stdout).contains("tier: "));
}

fn line(child: &mut Child) -> String {
    let mut said = String::new();
    BufReader::new(Read::by_ref(child.stdout.as_mut().unwrap()))
        .read_line(&mut said)
        .unwrap();
    said
}

/// The pid of a node's first process on this machine.
fn first_pid(lab: &str, node: usize) -> i64 {
    let file = format!("/run/armento-lab/{lab}/pids.json");
    let pids: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    pids["nodes"][node - 1]["pid"].as_i64().unwrap()
}

fn signal(child: &Child, signal: &str) {
    let done = Command::new("kill")
        .args(["-s", signal, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(done.success());
}
