//! Names that others know: commands of openMosix, metrics, hostfiles, the client for Python.

mod lab;
mod slurm;

use lab::{Farm, until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Farms of an allocation, one after the other, in the long run.
const STARTS_LONG: usize = 30;
/// Links by the old names come first.
const OLD: &str = "PATH=/tmp/old/bin:$PATH;";

fn old(farm: &Farm, script: &str) -> String {
    farm.sh("n1", &format!("{OLD} {script}"))
}

/// What an old command that refuses says: one line and a hint, and nothing else.
fn refused(farm: &Farm, script: &str) -> String {
    let out = farm.run("n1", &format!("{OLD} {script}"));
    assert_eq!(out.status.code(), Some(125), "{script}: {out:?}");
    assert!(out.stdout.is_empty(), "{script}: {out:?}");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(err.lines().count(), 2, "{script}: {err}");
    assert!(
        err.contains("\nhint: ") && !err.contains('\x1b'),
        "{script}: {err}"
    );
    err
}

/// Waits until every node has told n1 what it is.
fn reported(farm: &Farm) {
    until("every node has reported", || {
        !farm
            .sh("n1", "armento nodes --json")
            .contains("\"cores\": 0")
    });
}

/// The node of a process, as mps shows it.
fn node_of(farm: &Farm, pid: &str) -> String {
    let listed = old(farm, &format!("mps -o pid,comm -p {pid}"));
    let mut lines = listed.lines();
    let heading = lines.next().unwrap_or_default();
    assert!(
        heading.split_whitespace().eq(["PID", "NODE", "COMMAND"]),
        "{listed}"
    );
    let line = lines.next().unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn commands_of_openmosix_do_what_they_did() {
    let Some(farm) = Farm::up("names", None) else {
        return;
    };
    reported(&farm);
    let made = farm.sh("n1", "armento mosix install --dir /tmp/old/bin");
    assert!(
        made.contains("/tmp/old/bin/mosrun\n") && made.contains("/share/man/man1/mosrun.1\n"),
        "{made}"
    );
    programs_start_and_move(&farm);
    nodes_are_told_and_switched(&farm);
    maps_are_compared(&farm);
    screens_show_nodes(&farm);
    refusals_are_one_line(&farm);
    proc_is_shown(&farm);
    other_programs_are_served(&farm);
    processes_are_expelled_and_brought(&farm);
    let left = "echo own > /tmp/old/bin/mps.own; mv /tmp/old/bin/mps.own /tmp/old/bin/mps; armento mosix install --dir /tmp/old/bin 2>&1; echo $?; \
                armento mosix remove --dir /tmp/old/bin >/dev/null; ls /tmp/old/bin /tmp/old/share/man/man1";
    let left = farm.sh("n1", left);
    assert!(
        left.contains("left: /tmp/old/bin/mps\n") && left.contains("\n125\n"),
        "{left}"
    );
    assert!(
        left.ends_with("/tmp/old/bin:\nmps\n\n/tmp/old/share/man/man1:\n"),
        "{left}"
    );
}

fn programs_start_and_move(farm: &Farm) {
    let pid = old(farm, "mosrun -2 sleep 99 >/dev/null 2>&1 & echo $!");
    let pid = pid.trim();
    until("it runs on node 2", || node_of(farm, pid) == "2");
    old(farm, &format!("migrate {pid} 3"));
    assert_eq!(node_of(farm, pid), "3");
    let info = old(farm, &format!("ompsinfo -h -p {pid}"));
    let words: Vec<&str> = info.split_whitespace().collect();
    assert_eq!(words[..2], [pid, "3"], "{info}");
    assert!(old(farm, "mosps -O").contains(pid));
    old(farm, &format!("migrate {pid} home"));
    assert_eq!(node_of(farm, pid), "0");
    old(farm, &format!("migrate {pid} balance"));
    old(farm, &format!("migrate {pid} freeze"));
    let state = farm.sh("n1", &format!("ps -o state= -p {pid}"));
    assert_eq!(state.trim(), "T");
    old(farm, &format!("migrate {pid} continue; kill {pid}"));
    let ended = old(
        farm,
        "for run in nomig runhome 'runon 2' cpujob iojob nodecay slowdecay fastdecay 'mosrun -j2-3 -F' 'mosrun -h -l' 'mosrun -c -t 5 -d 9' native mosenv; \
         do $run sh -c 'exit 7' || echo $?; done",
    );
    assert_eq!(ended, "7\n".repeat(13));
}

fn nodes_are_told_and_switched(farm: &Farm) {
    assert_eq!(old(farm, "mosctl whois"), "This is MOSIX #1\n");
    let address = old(farm, "mosctl whois 2");
    assert_eq!(old(farm, &format!("mosctl whois {address}")), "2\n");
    assert_eq!(old(farm, "mosctl isup 3; mosctl isup n3"), "yes\nyes\n");
    for figure in ["getload", "getspeed 2", "getmem 2", "getfree", "getyard"] {
        let told = old(farm, &format!("mosctl {figure}"));
        assert!(told.trim().parse::<u64>().is_ok(), "{figure}: {told}");
    }
    assert_eq!(old(farm, "mosctl block; mosctl status"), "up block nomfs\n");
    assert_eq!(
        old(farm, "mosctl noblock; mosctl quiet; mosctl status"),
        "up quiet nomfs\n"
    );
    old(farm, "mosctl noquiet");
    assert!(["1\n", "2\n", "3\n"].contains(&old(farm, "mosbestnode").as_str()));
}

/// Last: for a minute a node takes no guest after `expel`, and a home sends nothing after `bring`.
fn processes_are_expelled_and_brought(farm: &Farm) {
    let pid = old(farm, "runon 2 sleep 99 >/dev/null 2>&1 & echo $!");
    let pid = pid.trim();
    until("it runs on node 2", || node_of(farm, pid) == "2");
    old(farm, "mosctl bring");
    assert_eq!(node_of(farm, pid), "0");
    assert_eq!(
        old(farm, "mosctl status; mosctl nostay"),
        "up lstay nomfs\n"
    );
    farm.sh("n1", &format!("kill {pid}"));
    farm.sh("n2", "armento run --on n3 sleep 99 >/dev/null 2>&1 &");
    let guests = "armento mosix cat /proc/hpc/remote/from";
    until("node 3 has a guest", || farm.sh("n3", guests) == "1\n");
    let expelled =
        "armento mosix mosctl expel; armento mosix mosctl status; armento mosix mosctl noblock";
    let said = farm.sh("n3", expelled);
    assert!(said.starts_with("up block nomfs"), "{said}");
    assert_eq!(farm.sh("n3", guests), "0\n");
}

fn maps_are_compared(farm: &Farm) {
    let map = old(
        farm,
        "showmap; setpe -r -f /tmp/openmosix.map; setpe -w -f /tmp/openmosix.map",
    );
    assert!(
        map.starts_with("My Node-Id: 0x0001\n") && map.contains("\n0x0003 "),
        "{map}"
    );
    let out = farm.run(
        "n1",
        &format!("{OLD} echo 9 10.99.0.9 1 >> /tmp/openmosix.map; setpe -w -f /tmp/openmosix.map"),
    );
    assert_eq!(out.status.code(), Some(125));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.starts_with("9 10.99.0.9: not a member"), "{said}");
    let stopped = old(
        farm,
        "setpe -off; mosctl status; setpe -r | setpe -w; mosctl status",
    );
    assert_eq!(stopped, "up stopped block quiet nomfs\nup nomfs\n");
}

fn screens_show_nodes(farm: &Farm) {
    let bars = old(farm, "mosmon -m -t");
    assert!(
        bars.contains("GiB") && bars.contains("3 of 3 nodes are up"),
        "{bars}"
    );
    let top = old(farm, "mtop -b -n 1");
    assert!(
        top.lines()
            .any(|l| l.split_whitespace().take(3).eq(["PID", "NODE", "USER"])),
        "{top}"
    );
    assert!(
        old(farm, "mps aux")
            .lines()
            .next()
            .is_some_and(|l| l.contains(" NODE "))
    );
    assert!(old(farm, "mosrun --help").contains("Example:"));
}

fn refusals_are_one_line(farm: &Farm) {
    for script in [
        "mosrun -q true",
        "mosrun -9 true",
        "mosrun -2 -l true",
        "mosrun --no-such true",
        r#"mosctl "$(printf '\033[2J')""#,
        "migrate 1 checkpoint",
        "migrate 1 nowhere",
        "mosctl setspeed 5",
        "mosctl getload 9",
        "setpe -w -f /nonexistent",
        "omdiscd",
        "armento mosix no-such",
        "armento mosix write /proc/1/mignodes 6",
        "armento mosix write /proc/hpc/admin/speed 7",
        "ARMENTO_SOCKET=/nonexistent/s mosctl getload",
        "chmod 700 /run/armento; setpriv --reuid 1000 --regid 1000 --clear-groups mosctl getload; e=$?; chmod 755 /run/armento; exit $e",
    ] {
        refused(farm, script);
    }
}

fn proc_is_shown(farm: &Farm) {
    let cores = farm.sh("n1", "armento mosix cat /proc/hpc/nodes/2/CPUs");
    assert!(cores.trim().parse::<u32>().is_ok_and(|n| n > 0), "{cores}");
    if !farm.run("n1", "armento mfs on").status.success() {
        println!("skipped: MFS cannot be mounted here, so .proc of the mount is not looked at");
        return;
    }
    let pid = old(farm, "runon 2 sleep 99 >/dev/null 2>&1 & echo $!");
    let pid = pid.trim();
    until("it runs on node 2", || node_of(farm, pid) == "2");
    let goto = format!("armento mosix write /proc/{pid}/goto");
    let dry = farm.sh("n1", &format!("{goto} 3 --dry-run"));
    assert!(dry.contains(&format!("run migrate {pid} 3")), "{dry}");
    farm.sh("n1", &format!("{goto} 3"));
    assert_eq!(node_of(farm, pid), "3");
    farm.sh(
        "n1",
        &format!("{goto} 2; armento mosix write /proc/hpc/admin/quiet 1"),
    );
    assert_eq!(
        farm.sh("n1", "armento mosix cat /proc/hpc/admin/quiet")
            .trim(),
        "1"
    );
    farm.sh("n1", "armento mosix write /proc/hpc/admin/quiet 0");
    until("the mount shows it", || {
        farm.run("n1", &format!("test $(cat /mfs/.proc/{pid}/where) = 2"))
            .status
            .success()
    });
    let tree = farm.sh(
        "n1",
        &format!("cd /mfs/.proc; cat hpc/nodes/2/CPUs hpc/admin/mospe {pid}/lock; ls hpc hpc/nodes; cat hpc/admin/config | wc -l; cat hpc/none {pid}/none 2>&1; echo 1 2>&1 > hpc/admin/block || true"),
    );
    let want = format!("{cores}1\n1\nhpc:\nadmin\nnodes\nremote\n\nhpc/nodes:\n1\n2\n3\n3\n");
    assert!(tree.starts_with(&want), "{tree}\nnot\n{want}");
    assert_eq!(tree.matches("No such file").count(), 2, "{tree}");
    let other = farm.run(
        "n1",
        &format!("setpriv --reuid 1000 --regid 1000 --clear-groups ls /mfs/.proc/{pid}"),
    );
    assert!(!other.status.success(), "another user sees the process");
    assert!(!farm.sh("n1", "ls -a /mfs").contains(".proc"));
    farm.sh("n1", &format!("kill {pid}; armento mfs off"));
}

fn other_programs_are_served(farm: &Farm) {
    let metrics = farm.sh("n1", "armento metrics");
    assert!(
        metrics.contains("armento_node_up{node=\"n3\"} 1.0\n") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let text = farm.sh(
        "n1",
        "armento metrics --out /tmp/armento.prom; cat /tmp/armento.prom; ls -a /tmp | grep -c prom",
    );
    assert!(
        text.contains("# TYPE armento_decisions_total counter\n") && text.ends_with("\n1\n"),
        "{text}"
    );
    let checks = |form: &str, first: &str| {
        let file = farm.sh("n1", &format!("armento hostfile --names --slots 2 {form}"));
        assert_eq!(file.lines().next(), Some(first), "{form}: {file}");
    };
    checks("--openmpi", "n1 slots=2");
    checks("--mpich", "n1:2");
    checks("--parallel", "2/n1");
    checks("--slurm", "n1");
    let pvm = farm.sh("n1", "armento hostfile --names --pvm");
    assert!(pvm.starts_with("n1 sp="), "{pvm}");
}

/// Where the client for Python is in the tree.
fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

/// The wheel, made offline. `None` where this Python cannot make wheels.
fn wheel() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheel");
    let (source, out) = (dir.join("source"), dir.join("out"));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("directory");
    // setuptools writes beside its source.
    let copied = Command::new("cp")
        .arg("-r")
        .args([client(), source.clone()])
        .status();
    assert!(copied.is_ok_and(|s| s.success()));
    let words = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--disable-pip-version-check",
    ];
    let made = Command::new("/usr/bin/python3")
        .args(words)
        .arg("--wheel-dir")
        .arg(&out)
        .arg(&source)
        .output();
    let made = made.expect("python3 runs");
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(
            said.contains("No module named") || said.contains("invalid command 'bdist_wheel'"),
            "{said}"
        );
        println!(
            "skipped: the client for Python needs pip, setuptools and wheel to be built: {}",
            said.lines().last().unwrap_or_default()
        );
        return None;
    }
    let found = fs::read_dir(&out).expect("directory").next();
    Some(found.expect("a wheel").expect("a file").path())
}

/// A file of this machine on n1.
fn send(farm: &Farm, from: &Path, to: &str) {
    use std::io::Write;
    use std::process::Stdio;
    let armento = env!("CARGO_BIN_EXE_armento");
    let mut cat = Command::new(armento)
        .args([
            "lab",
            "exec",
            "--name",
            &farm.name,
            "n1",
            "--",
            "sh",
            "-c",
            &format!("cat > {to}"),
        ])
        .stdin(Stdio::piped())
        .spawn()
        .expect("armento runs");
    let bytes = fs::read(from).expect("file");
    cat.stdin
        .take()
        .expect("input")
        .write_all(&bytes)
        .expect("written");
    assert!(cat.wait().expect("end").success());
}

#[test]
fn client_for_python_says_what_armento_says() {
    let Some(wheel) = wheel() else { return };
    let Some(farm) = Farm::up("python", None) else {
        return;
    };
    reported(&farm);
    let name = wheel
        .file_name()
        .expect("name")
        .to_string_lossy()
        .into_owned();
    send(&farm, &wheel, &format!("/tmp/{name}"));
    send(&farm, &client().join("tests/drive.py"), "/tmp/drive.py");
    // A wheel is a zip file, from which Python imports.
    let drive = format!(
        "armento run --stay sleep 99 >/dev/null 2>&1 & p=$!; until armento ps --json | grep -q '\"pid\": '$p'[,}}]*'; do :; done; \
         PYTHONPATH=/tmp/{name} /usr/bin/python3 -B /tmp/drive.py $p n2; e=$?; kill $p; exit $e"
    );
    assert_eq!(farm.sh("n1", &drive), "driven\n");
}

/// As an ordinary user: daemons of an allocation need no right that srun has not.
#[test]
fn slurm_allocation_is_a_farm_until_its_program_ends() {
    let Some(cluster) = slurm::Cluster::up() else {
        return;
    };
    let user =
        "cd /shared/meet; export TMPDIR=/tmp/r; setpriv --reuid 1000 --regid 1000 --clear-groups";
    // The program waits on n1 until its child is away, and reports where that is.
    let program = "armento run --on n3 sleep 99 >/dev/null 2>&1 & p=$!; until armento ps --json | jq -e '.procs[] | select(.place == \"n3\")' >/dev/null; do :; done; \
                   armento nodes --json | jq -r '.nodes[].name' | tr '\\n' ' '; kill $p; exit 9";
    fs::write(
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("slurm/program"),
        program,
    )
    .expect("written");
    let srun = format!("{user} srun -N3 --ntasks-per-node=1 armento farm allocation");
    let starts = if lab::long() { STARTS_LONG } else { 1 };
    for _ in 0..starts {
        let out = cluster.run("n1", &format!("{srun} -- sh /shared/program"));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(9), "{out:?}");
        assert_eq!(said, "n1 n2 n3 ", "{out:?}");
        for node in ["n1", "n2", "n3"] {
            let left = "ls -A /tmp/r /shared/meet; pgrep -f '[a]rmento node' || true";
            let left = cluster.sh(node, left);
            assert_eq!(left, "/shared/meet:\n\n/tmp/r:\n", "{node}");
        }
    }
    let plan = cluster.sh("n1", &format!("{srun} --dry-run -- true"));
    assert!(
        plan.contains("task 0 of 3 is node n1, makes the farm and runs the program"),
        "{plan}"
    );
    let outside = cluster.run("n1", "armento farm allocation -- true");
    let err = String::from_utf8_lossy(&outside.stderr).into_owned();
    assert_eq!(outside.status.code(), Some(125), "{err}");
    assert!(
        err.starts_with("armento: this is no task of Slurm") && err.contains("\nhint: `srun"),
        "{err}"
    );
}
