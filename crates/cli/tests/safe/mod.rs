//! `armento run --safe`: the node of a program is lost, and it goes on with no effect lost or made twice; or it ends, and
//! says why.

use crate::fails_with;
use crate::lab::{Farm, long, until};
use crate::restarts::json;
use serde_json::Value;

/// Effects that show when one is lost or repeated: lines of a file and of its output, bytes through a pipe of its own. It
/// computes between them, and sleeps.
const PROGRAM: &str = r#"use IO::Handle; $| = 1; ($file, $turns) = @ARGV; open(F, ">>", $file); F->autoflush(1); pipe(R, W);
 for $i (1..$turns) { for (1..20000) { $x = ($x * 69069 + $i + $_) % 4294967296 }
 syswrite(W, "$i\n"); sysread(R, $b, 100); print F "$i $x $b"; print "$i $x\n"; select(undef, undef, undef, 0.01) }"#;
const TURNS: u32 = 400;
const TURNS_FEW: u32 = 150;
/// For those that take their time.
const TURNS_MANY: u32 = 1200;

/// Each line has the time of the line: no second run writes the same.
const CLOCK: &str = r#"use Time::HiRes "time"; $| = 1; for (1..300) { print time, "\n"; select(undef, undef, undef, 0.02) }"#;

/// Kills the hosts of a node as a power cut would: without a word.
const KILL_HOSTS: &str = "pkill -9 -f '^armento host'";

/// A program under `armento run --safe` that began on n2.
struct Job<'a> {
    farm: &'a Farm,
    pid: String,
    turns: u32,
}

impl<'a> Job<'a> {
    fn start(farm: &'a Farm, how: &str, program: &str, words: &str) -> Job<'a> {
        Job::begin(farm, &format!("--safe={how}"), program, words, TURNS)
    }

    fn begin(farm: &'a Farm, options: &str, program: &str, words: &str, turns: u32) -> Job<'a> {
        let start = format!(
            "rm -f /tmp/wrote; armento run {options} --on n2 perl -e '{program}' {words} >/tmp/out 2>/tmp/err </dev/null & echo $!"
        );
        let pid = farm.sh("n1", &start).trim().to_owned();
        Job { farm, pid, turns }
    }

    fn seen(&self) -> Option<Value> {
        let doc = json(self.farm, "n1", "armento ps --json")?;
        let mut all = doc["procs"].as_array()?.iter();
        all.find(|p| p["pid"].as_u64() == self.pid.parse().ok())
            .cloned()
    }

    /// It has a checkpoint, and has done some calls since.
    fn is_safe(&self) {
        until("a checkpoint and calls behind it", || {
            let safe = self.seen().map(|p| p["safe"].clone()).unwrap_or_default();
            safe["age_ms"].is_u64()
                && safe["unsafe_now"].is_null()
                && safe["calls"].as_u64() > Some(3)
        });
    }

    fn wrote(&self, lines: u32) {
        until("its lines", || {
            let out = self.farm.sh("n1", "wc -l < /tmp/out");
            out.trim().parse::<u32>().is_ok_and(|n| n >= lines)
        });
    }

    fn leaves(&self, node: &str) {
        until("it at another node", || {
            self.seen()
                .is_none_or(|p| p["place"].as_str() != Some(node))
        });
    }

    fn ends(&self) {
        until("its end", || {
            let lives = format!("kill -0 {}", self.pid);
            !self.farm.run("n1", &lives).status.success()
        });
    }

    fn said(&self) -> String {
        self.farm.sh("n1", "cat /tmp/err")
    }

    /// Nothing was lost, and nothing was done twice.
    fn ends_as_native(self) {
        self.ends();
        assert_eq!(self.said(), "");
        let native = format!(
            "rm -f /tmp/native; perl -e '{PROGRAM}' /tmp/native {} > /tmp/native.out; \
             cmp /tmp/native /tmp/wrote && cmp /tmp/native.out /tmp/out",
            self.turns
        );
        self.farm.sh("n1", &native);
    }
}

#[test]
fn a_program_goes_on_when_its_node_is_lost() {
    let Some(farm) = Farm::up("safe", None) else {
        return;
    };
    let words = format!("/tmp/wrote {TURNS}");
    // Its host is killed, and it goes on from a checkpoint that is old: its calls since are compared.
    let job = Job::start(&farm, "3600", PROGRAM, &words);
    job.is_safe();
    let why = farm.sh("n1", &format!("armento why {}", job.pid));
    assert!(why.contains("it goes on if its node is lost"), "{why}");
    farm.sh("n2", KILL_HOSTS);
    job.leaves("n2");
    job.ends_as_native();
    let log = farm.sh("n1", "armento log");
    assert!(log.contains("recovered"), "{log}");

    // The body alone is killed, as a node that is short of memory does; with checkpoints all the time.
    let job = Job::start(&farm, "1", PROGRAM, &words);
    job.is_safe();
    farm.sh("n2", "pkill -9 -x perl");
    job.ends_as_native();
}

#[test]
fn a_running_program_becomes_safe() {
    let Some(farm) = Farm::up("become", None) else {
        return;
    };
    let job = Job::begin(
        &farm,
        "",
        PROGRAM,
        &format!("/tmp/wrote {TURNS_MANY}"),
        TURNS_MANY,
    );
    job.wrote(10);
    let safe = format!("armento safe {}", job.pid);
    let price = farm.sh("n1", &format!("{safe} --dry-run"));
    assert!(price.contains("MiB of this node's memory"), "{price}");
    let kept = || job.seen().map(|p| !p["safe"].is_null());
    until("its row", || kept() == Some(false));
    let bad = farm.run("n1", &format!("{safe} --every 0"));
    assert_eq!(bad.status.code(), Some(125), "{bad:?}");
    let other = farm.run("n1", &format!("{} {safe}", crate::USER));
    fails_with(&other, &[&job.pid]);
    assert_eq!(kept(), Some(false));

    farm.sh("n1", &format!("{safe} --every 3600"));
    until("it at its node", || {
        job.seen()
            .is_some_and(|p| p["place"].as_str() == Some("n2"))
    });
    // Off, and on again.
    farm.sh("n1", &format!("{safe} --off"));
    until("nothing to be kept", || kept() == Some(false));
    let said = farm.sh("n1", &format!("{safe} --every 3600 --json"));
    assert!(
        said.contains("armento.safe/1") && said.contains("3600"),
        "{said}"
    );
    job.is_safe();
    farm.sh("n2", KILL_HOSTS);
    job.leaves("n2");
    job.ends_as_native();
    those_that_share_memory_are_handed_over(&farm);
}

/// A parent and a child that count in turn, in memory that both map, until /tmp/stop is there.
const SHARED: &str = r#"import mmap, os, time
m, n = mmap.mmap(-1, 4096), 0
child = os.fork()
mine = 0 if child else 1
if child: print(child, flush=True)
turn = lambda at: int.from_bytes(m[at:at + 8], "little")
while not os.path.exists("/tmp/stop"):
    t = turn(0)
    if t % 2 == mine: n += 1; m[0:8] = (t + 1).to_bytes(8, "little")
    else: time.sleep(0.001)
if not child: m[8:16] = n.to_bytes(8, "little"); os._exit(0)
os.waitpid(child, 0)
print("wrong", turn(0) - turn(8) - n)
"#;

/// A safe tree is one whose keeper began anew: both come home together, and go back together.
fn those_that_share_memory_are_handed_over(farm: &Farm) {
    let start = format!(
        "rm -f /tmp/stop; armento run --on n2 python3 -c '{SHARED}' > /tmp/out 2>/tmp/err </dev/null & echo $!"
    );
    let parent = farm.sh("n1", &start).trim().to_owned();
    let mut child = String::new();
    until("its child", || {
        child = farm.sh("n1", "head -1 /tmp/out").trim().to_owned();
        !child.is_empty()
    });
    let both_away = || {
        let doc = json(farm, "n1", "armento ps --json");
        let all = doc.map(|d| d["procs"].clone()).unwrap_or_default();
        let place = |pid: &String| {
            let mut all = all.as_array().into_iter().flatten();
            let one = all.find(|p| p["pid"].as_u64() == pid.parse().ok());
            one.and_then(|p| p["place"].as_str().map(str::to_owned))
        };
        [&parent, &child].map(place) == [Some("n2".to_owned()), Some("n2".to_owned())]
    };
    until("both at their node", both_away);
    for wish in ["--every 3600", "--off"] {
        farm.sh("n1", &format!("armento safe {parent} {wish}"));
        until("both at their node again", both_away);
    }
    farm.sh("n1", "touch /tmp/stop");
    until("its end", || {
        let lives = format!("kill -0 {parent}");
        !farm.run("n1", &lives).status.success()
    });
    let said = farm.sh("n1", "cat /tmp/out /tmp/err");
    assert_eq!(said, format!("{child}\nwrong 0\n"));
}

#[test]
fn programs_that_run_for_long_become_safe_by_the_settings() {
    if !long() {
        return;
    }
    let Some(farm) = Farm::up("old", None) else {
        return;
    };
    farm.sh(
        "n1",
        "echo 'safe_after_s = 3' >> /etc/armento/config.toml; armento farm reload",
    );
    let job = Job::begin(
        &farm,
        "",
        PROGRAM,
        &format!("/tmp/wrote {TURNS_MANY}"),
        TURNS_MANY,
    );
    job.is_safe();
    farm.sh("n2", KILL_HOSTS);
    job.leaves("n2");
    job.ends_as_native();
}

#[test]
fn nothing_runs_twice_when_a_node_was_only_silent() {
    let Some(farm) = Farm::up("silent", None) else {
        return;
    };
    let job = Job::start(&farm, "3600", PROGRAM, &format!("/tmp/wrote {TURNS}"));
    job.is_safe();
    farm.sh("n2", "pkill -STOP -f '^armento host'");
    job.leaves("n2");
    farm.sh("n2", "pkill -CONT -f '^armento host'");
    job.ends_as_native();
    until("the end of the host that was silent", || {
        !farm.run("n2", "pgrep -x perl").status.success()
    });
}

#[test]
fn a_program_that_cannot_go_on_ends_and_says_why() {
    let Some(farm) = Farm::up("unsafe", None) else {
        return;
    };
    let job = Job::start(&farm, "3600", CLOCK, "");
    job.is_safe();
    let before = farm.sh("n1", "wc -l < /tmp/out");
    farm.sh("n2", KILL_HOSTS);
    job.ends();
    let said = job.said();
    assert!(said.contains("went another way than before"), "{said}");
    // Nothing that it did the second time reached anything.
    let after = farm.sh("n1", "sort -n /tmp/out | uniq -d | wc -l; wc -l < /tmp/out");
    assert!(after.starts_with("0\n"), "{before} then {after}");
}

#[test]
fn output_that_was_held_goes_on_whatever_the_program_depends_on() {
    let Some(farm) = Farm::up("exact", None) else {
        return;
    };
    let job = Job::start(&farm, "exact", CLOCK, "");
    job.wrote(20);
    farm.sh("n2", KILL_HOSTS);
    job.ends();
    assert_eq!(job.said(), "");
    let out = farm.sh("n1", "wc -l < /tmp/out; sort -n /tmp/out | cmp - /tmp/out && echo in order; sort /tmp/out | uniq -d | wc -l");
    assert_eq!(out, "300\nin order\n0\n");
}

/// A parent and a child that hand numbers to each other in memory that they share, and wait for each other by pipes.
const GROUP: &str = r#"import mmap, os, struct, sys, time
out = open(sys.argv[1], "a"); turns = int(sys.argv[2]); m = mmap.mmap(-1, 1 << 20)
r, w = os.pipe(); back, answer = os.pipe()
def get(at): return struct.unpack("q", m[at:at+8])[0]
def put(at, v): m[at:at+8] = struct.pack("q", v)
if os.fork() == 0:
    os.close(w); os.close(back)
    while os.read(r, 1):
        x = get(8)
        for k in range(20000): x = (x * 69069 + k) % 4294967296
        put(16, x); put(1000 + 8 * get(0), x); os.write(answer, b".")
    os._exit(7)
os.close(r); os.close(answer)
for i in range(turns):
    put(0, i); put(8, (get(16) + i) % 4294967296); os.write(w, b"x"); os.read(back, 1)
    out.write(f"{i} {get(16)}\n"); out.flush(); print(i, get(16), flush=True); time.sleep(0.01)
os.close(w); _, status = os.wait()
print("end", os.WEXITSTATUS(status), sum(m[1000:1000 + 8 * turns]), flush=True)
"#;

#[test]
fn processes_that_share_memory_go_on_together_when_their_node_is_lost() {
    let Some(farm) = Farm::up("safe-group", None) else {
        return;
    };
    farm.sh("n1", &format!("cat > /tmp/group.py <<'END'\n{GROUP}END"));
    // Each effect of either waits for a checkpoint of both.
    let exact = long().then_some(("exact", 60));
    for (how, turns) in [("3600", TURNS_FEW)].into_iter().chain(exact) {
        let start = format!(
            "rm -f /tmp/wrote; armento run --safe={how} /usr/bin/python3 /tmp/group.py /tmp/wrote {turns} >/tmp/out 2>/tmp/err </dev/null & echo $!"
        );
        let pid = farm.sh("n1", &start).trim().to_owned();
        let job = Job {
            farm: &farm,
            pid,
            turns,
        };
        job.wrote(3);
        farm.sh("n1", &format!("armento migrate {} n2", job.pid));
        until("checkpoints of both", || {
            let doc = json(&farm, "n1", "armento ps --json").unwrap_or_default();
            let procs = doc["procs"].as_array().cloned().unwrap_or_default();
            let kept =
                |p: &&Value| p["safe"]["age_ms"].is_u64() && p["safe"]["unsafe_now"].is_null();
            procs.iter().filter(kept).count() == 2
        });
        let lines = farm.sh("n1", "wc -l < /tmp/out");
        job.wrote(lines.trim().parse::<u32>().expect("a number") + 10);
        farm.sh("n2", KILL_HOSTS);
        job.leaves("n2");
        job.ends();
        assert_eq!(job.said(), "", "{how}");
        let native = format!(
            "rm -f /tmp/native; python3 /tmp/group.py /tmp/native {turns} > /tmp/native.out; \
             cmp /tmp/native /tmp/wrote && cmp /tmp/native.out /tmp/out"
        );
        farm.sh("n1", &native);
    }
}
