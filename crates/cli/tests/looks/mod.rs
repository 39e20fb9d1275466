//! Tools at home work on a process that is away: ps, top, kill, renice, taskset, prlimit, gdb, strace, a core dump.

mod ends;

use super::{Farm, until};
use std::process::Output;

/// It has a name of its own and computes.
const PROGRAM: &str = "perl -e '$0 = q(a title of its own); 1 while 1'";
/// It makes threads one after the other, and says a line after some of them.
const MAKES_THREADS: &str = "python3 -c '
import threading, time
while True:
    for n in range(20):
        t = threading.Thread(target=time.sleep, args=(0.01,))
        t.start()
        t.join()
    print(n, flush=True)
'";
/// It ends by SIGSEGV; its core is 2 MiB at least.
const FALLS: &str = "perl -e '$x = q(marked) x (1 << 19); select(undef, undef, undef, 0.3); kill 11, $$; 1 while 1'";

struct Away<'a> {
    farm: &'a Farm,
    pid: String,
}

impl Away<'_> {
    fn start(farm: &Farm) -> Away<'_> {
        let start = format!("armento run --on n2 {PROGRAM} > /tmp/log 2>&1 & echo $!");
        let pid = farm.sh("n1", &start).trim().to_owned();
        let away = Away { farm, pid };
        away.is_at("n2");
        away
    }

    fn is_at(&self, node: &str) {
        until(&format!("process {} at {node}", self.pid), || {
            self.listed()["place"] == node
        });
    }

    fn listed(&self) -> serde_json::Value {
        let said = self.farm.sh("n1", "armento ps --json");
        let doc: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let procs = doc["procs"].as_array().cloned().unwrap_or_default();
        let pid: u64 = self.pid.parse().expect("a number");
        procs
            .into_iter()
            .find(|p| p["pid"] == pid)
            .unwrap_or_default()
    }

    /// Runs a command in which PID stands for its pid.
    fn run(&self, script: &str) -> Output {
        self.farm.run("n1", &script.replace("PID", &self.pid))
    }

    /// As [`Away::run`], but the command must succeed; returns its output.
    fn sh(&self, script: &str) -> String {
        self.farm.sh("n1", &script.replace("PID", &self.pid))
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.run("kill -KILL PID");
    }
}

/// Debuggers are not installed everywhere: a skip names the missing one.
fn installed(farm: &Farm, tool: &str) -> bool {
    let installed = farm
        .run("n1", &format!("command -v {tool}"))
        .status
        .success();
    if !installed {
        println!("skipped: this part needs {tool}");
    }
    installed
}

pub fn all_at_home(farm: &Farm) {
    let p = Away::start(farm);
    is_listed(&p);
    stops_and_continues(&p);
    takes_priority_affinity_and_limits(&p);
    debuggers_attach_at_home(&p);
    drop(p);
    threads_leave_it_where_its_user_put_it(farm);
    core_is_whole(farm);
    ends::kill_during_exec_ends_one_child(farm);
}

fn is_listed(p: &Away) {
    until("its title in ps", || {
        p.sh("ps -o args= -p PID").trim() == "a title of its own"
    });
    assert_eq!(p.sh("ps -o comm= -p PID").trim(), "a title of its");
    let top = p.sh("top -b -n 1 -w 200 -p PID");
    assert!(top.contains("a title of its"), "{top}");
    // CPU time and memory are the body's: only `armento ps` shows them.
    until("its CPU time in `armento ps`", || {
        p.listed()["cpu_ms"].as_u64() > Some(300)
    });
    assert!(p.listed()["rss_kib"].as_u64() > Some(500), "{}", p.listed());
    assert_eq!(p.listed()["command"], "a title of its own");
}

fn stops_and_continues(p: &Away) {
    p.sh("kill -STOP PID");
    until("its stop", || {
        p.sh("ps -o stat= -p PID").to_lowercase().starts_with('t')
    });
    let stands = p.listed()["cpu_ms"].clone();
    p.sh("kill -CONT PID");
    until("that it continues", || {
        p.listed()["cpu_ms"].as_u64() > stands.as_u64().map(|ms| ms + 300)
    });
    p.is_at("n2");
}

/// Settings made at home apply where it runs, or at the latest when it is home again.
fn takes_priority_affinity_and_limits(p: &Away) {
    p.sh(
        "renice -n 7 -p PID && taskset -p 1 PID && prlimit -p PID --nofile=99:200 --as=5000000000",
    );
    // No other program computes there.
    let body = "ps -eo pid=,ni= --sort=-pcpu | head -n 1";
    until("its niceness at its node", || {
        p.farm.sh("n2", body).trim().ends_with(" 7")
    });
    let limit = format!("set -- $({body}); grep 'address space' /proc/$1/limits");
    until("its limit at its node", || {
        p.farm.sh("n2", &limit).contains(" 5000000000 ")
    });
    p.sh("armento migrate PID home");
    assert_eq!(p.sh("ps -o ni= -p PID").trim(), "7");
    assert!(p.sh("taskset -p PID").trim().ends_with(": 1"));
    let files = p.sh("grep 'open files' /proc/PID/limits");
    let limits: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(limits, ["99", "200"]);
    p.sh("armento migrate PID n2");
}

fn debuggers_attach_at_home(p: &Away) {
    if installed(p.farm, "gdb") {
        let refused = p.run("gdb -nx -batch -p PID -ex 'info registers rip' 2>&1");
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(said.contains("Operation not permitted"), "{said}");
        let said = p.sh("armento hold PID -- gdb -nx -batch -p PID -ex 'info registers rip' 2>&1");
        assert!(said.contains("rip  "), "{said}");
        // After the hold it returns to the node of `--on`.
        p.is_at("n2");
    }
    p.sh("armento hold PID");
    p.is_at("n1");
    assert!(p.sh("armento why PID").contains("[locked]"));
    if installed(p.farm, "strace") {
        let traced = p.run("timeout 2 strace -o /tmp/strace -p PID");
        assert_eq!(traced.status.code(), Some(124), "{traced:?}");
    }
    p.is_at("n1");
    p.sh("armento migrate PID balance");
    p.is_at("n2");
}

/// A process that was moved by hand remains locked when it makes threads there.
fn threads_leave_it_where_its_user_put_it(farm: &Farm) {
    if !installed(farm, "python3") {
        return;
    }
    let start = format!("armento run {MAKES_THREADS} > /tmp/threads 2>&1 & echo $!");
    let pid = farm.sh("n1", &start).trim().to_owned();
    let p = Away { farm, pid };
    let lines = || p.sh("cat /tmp/threads").lines().count();
    // An exec, as of a script that starts it, would end the lock.
    until("its first line", || lines() > 0);
    p.sh("armento migrate PID n2");
    let before = lines();
    until("threads that it makes away", || lines() > before + 4);
    p.is_at("n2");
    assert_eq!(p.listed()["locked"], true, "{}", p.listed());
}

fn core_is_whole(farm: &Farm) {
    if farm
        .sh("n1", "cat /proc/sys/kernel/core_pattern")
        .starts_with(['|', '/'])
    {
        println!(
            "skipped: this machine's core_pattern keeps cores elsewhere than beside the program"
        );
        return;
    }
    let falls = format!(
        "mkdir -p /tmp/core; cd /tmp/core; ulimit -c unlimited; armento run --on n2 {FALLS}; echo $?"
    );
    let said = farm.sh("n1", &falls);
    assert!(said.trim().ends_with("139"), "{said}");
    let marks = farm.sh("n1", "cat /tmp/core/core* | grep -ao markedmarked | wc -l");
    let marks: u64 = marks.trim().parse().expect("a number");
    assert!(marks > 1 << 17, "{marks} marks in its core");
    if installed(farm, "gdb") {
        let said = farm.sh(
            "n1",
            "gdb -nx -batch $(command -v perl) /tmp/core/core* -ex bt 2>&1",
        );
        assert!(said.contains("SIGSEGV") && said.contains("#0"), "{said}");
    }
}
