//! Each reason to stay that can be provoked on a farm: the move is refused with it, and `why` and `ps` show it.

use super::{Farm, install32, text, until};
use armento_model::Stay;
use serde_json::Value;

/// A child of the program $p attaches to it, does something with the address $a of its text, and detaches. KERNEL:
/// ptrace(2), PTRACE_ATTACH, PTRACE_DETACH.
macro_rules! debugged {
    ($does:literal) => {
        concat!(
            "open M, q(/proc/self/maps); ($a) = grep { /r-xp.*perl/ } <M>; close M; $a = hex((split /-/, $a)[0]); ",
            "unless ($c = fork) { $p = getppid; syscall(101, 16, $p, 0, 0) and die $!; waitpid $p, 0; ",
            $does,
            "; syscall(101, 17, $p, 0, 0); exit } waitpid $c, 0; $? and die"
        )
    };
}

/// What happens before the program reports that it is ready and sleeps. KERNEL: numbers of syscall_64.tbl.
const PROGRAMS: &[(Stay, &str)] = &[
    (
        Stay::SharedMemory,
        "open F, q(+>), q(/tmp/r/map); truncate F, 4096; syscall(9, 0, 4096, 3, 1, fileno(F), 0); fork",
    ),
    (
        Stay::DeviceMapping,
        "open F, q(/dev/zero); syscall(9, 0, 4096, 1, 2, fileno(F), 0)",
    ),
    (
        Stay::OwnFilter,
        "syscall(157, 38, 1, 0, 0, 0); $f = pack(q(SCCL), 6, 0, 0, 0x7fff0000); \
         $p = pack(q(Sx6P), 1, $f); syscall(317, 1, 0, $p) and die",
    ),
    (
        Stay::IoUring,
        "$p = chr(0) x 120; syscall(425, 4, $p) < 0 and die $!",
    ),
    (
        Stay::SealedMapping,
        "$a = syscall(9, 0, 4096, 1, 0x22, -1, 0); syscall(462, $a, 4096, 0) and die $!",
    ),
    // RLIMIT_AS: no room for Armento's region.
    (
        Stay::LimitLower,
        "$l = pack(q(QQ), 24 << 20, 24 << 20); syscall(160, 9, $l) and die $!",
    ),
    // KERNEL: userfaultfd(2), UFFD_USER_MODE_ONLY.
    (Stay::UnsupportedCall, "syscall(323, 1) < 0 and die $!"),
    (Stay::ProcSelfOpen, "open F, q(/proc/self/maps)"),
    // KERNEL: prctl(2), PR_SET_TSC, PR_TSC_SIGSEGV.
    (Stay::KernelState, "syscall(157, 26, 2, 0, 0, 0)"),
    // A debugger that has detached left a breakpoint (int3) in its text. KERNEL: ptrace(2), PTRACE_POKETEXT.
    (
        Stay::KernelState,
        debugged!("syscall(101, 4, $p, $a, 0xcc)"),
    ),
    // … and one in a debug register: PTRACE_POKEUSER of u_debugreg.
    (
        Stay::KernelState,
        debugged!("syscall(101, 6, $p, 848, $a); syscall(101, 6, $p, 904, 1) and die $!"),
    ),
];

/// A process on n1, and what to kill at the end.
struct Case<'a> {
    farm: &'a Farm,
    pid: String,
    root: String,
}

impl Case<'_> {
    /// Starts it there; `command` creates /tmp/r/ready when it is ready.
    fn start<'a>(farm: &'a Farm, command: &str) -> Case<'a> {
        farm.sh("n1", "mkdir -p /tmp/r; chmod 777 /tmp/r; rm -f /tmp/r/*");
        let start = format!("{command} > /tmp/log 2>&1 & echo $!");
        let pid = farm.sh("n1", &start).trim().to_owned();
        let root = pid.clone();
        let case = Case { farm, pid, root };
        let ready = || farm.run("n1", "test -e /tmp/r/ready").status.success();
        until(&format!("the start of: {command}"), ready);
        case
    }

    fn perl<'a>(farm: &'a Farm, user: &str, script: &str) -> Case<'a> {
        Case::start(farm, &format!("{user} armento run --stay {}", perl(script)))
    }

    /// Waits for its one child.
    fn child(&self) -> String {
        let mut child = String::new();
        until("a child", || {
            let out = self.farm.run("n1", &format!("pgrep -P {}", self.root));
            child = text(&out.stdout).trim().to_owned();
            out.status.success()
        });
        child
    }

    fn listed(&self) -> Option<Value> {
        let doc = json(&self.farm.sh("n1", "armento ps --json"));
        let procs = doc["procs"].as_array().cloned().unwrap_or_default();
        let pid: Option<u64> = self.pid.parse().ok();
        procs.into_iter().find(|p| p["pid"].as_u64() == pid)
    }

    fn why(&self) -> Value {
        json(
            &self
                .farm
                .sh("n1", &format!("armento why {} --json", self.pid)),
        )
    }

    /// A move to `node` is refused for the reason `stay`; `partner`: the other process that causes the reason.
    fn stays(&self, node: &str, stay: Stay, partner: Option<&str>) {
        let line = format!("a line of process {} for {stay:?}", self.pid);
        until(&line, || self.listed().is_some());
        let out = self
            .farm
            .run("n1", &format!("armento migrate {} {node}", self.pid));
        assert_eq!(out.status.code(), Some(125), "{stay:?}: {out:?}");
        let err = text(&out.stderr);
        assert!(err.contains(stay.explain()), "{stay:?}: {err}");
        assert!(err.contains(&format!("hint: {}", stay.remedy())), "{err}");
        until(&format!("{stay:?} in ps"), || {
            self.listed().is_some_and(|p| p["stay"] == stay.code())
        });
        let listed = self.listed().expect("it lives");
        for doc in [&listed, &self.why()] {
            assert_eq!(doc["stay"], stay.code(), "{doc}");
            assert_eq!(doc["explanation"], stay.explain(), "{doc}");
            assert_eq!(doc["remedy"], stay.remedy(), "{doc}");
            assert!(doc["detail"].is_string(), "{doc}");
            let named = partner.map_or_else(|| "null".into(), str::to_owned);
            assert_eq!(doc["partner"].to_string(), named, "{stay:?}: {doc}");
        }
        let said = self.farm.sh("n1", &format!("armento why {}", self.pid));
        assert!(said.contains(&format!("[{}]", stay.code())), "{said}");
        let because = partner.map(|p| format!("\nbecause of: process {p} "));
        assert!(because.is_none_or(|b| said.contains(&b)), "{said}");
    }

    /// Without an order: the reason that `why` gives.
    fn why_reports(&self, stay: Stay) {
        until(&format!("{stay:?}"), || {
            self.listed().is_some() && self.why()["stay"] == stay.code()
        });
    }
}

impl Drop for Case<'_> {
    fn drop(&mut self) {
        let end = format!("pkill -KILL -P {0}; kill -KILL {0}", self.root);
        self.farm.run("n1", &end);
    }
}

fn perl(script: &str) -> String {
    let ready = "open R, q(>), q(/tmp/r/ready); close R; sleep 600";
    format!("perl -e '{script}; {ready}'")
}

fn json(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn compile(farm: &Farm, node: &str, options: &str, text: &str) {
    farm.sh(node, &format!("gcc {options} -x c - <<'EOF'{text}EOF"));
}

pub fn from_programs(farm: &Farm) {
    for (stay, script) in PROGRAMS {
        let case = Case::perl(farm, "", script);
        let partner = (*stay == Stay::SharedMemory).then(|| case.child());
        case.stays("n2", *stay, partner.as_deref());
    }
    // Its keeper has the user's ID, too.
    let case = Case::perl(farm, super::USER, "syscall(157, 4, 0, 0, 0, 0)");
    case.stays("n2", Stay::NotDumpable, None);
    drop(case);

    let case = Case::perl(farm, "", "1");
    let strace = format!(
        "strace -o /dev/null -p {0} >/dev/null 2>&1 & \
         until grep -q ^TracerPid:.*[1-9] /proc/{0}/status; do sleep 0.05; done; echo $!",
        case.pid
    );
    let tracer = farm.sh("n1", &strace).trim().to_owned();
    case.stays("n2", Stay::Traced, Some(&tracer));
    drop(case);

    let apart = "armento run --stay unshare -fp sh -c 'touch /tmp/r/ready; exec sleep 600'";
    let mut case = Case::start(farm, apart);
    case.pid = case.child();
    case.stays("n2", Stay::ForeignPidNamespace, None);
    drop(case);

    // posix_spawn is a vfork, and its child blocks in opening the FIFO.
    let script = "import os; os.mkfifo(\"/tmp/r/fifo\"); open(\"/tmp/r/ready\", \"w\"); \
                  wait = (os.POSIX_SPAWN_OPEN, 0, \"/tmp/r/fifo\", os.O_RDONLY, 0); \
                  os.posix_spawn(\"/bin/true\", [\"true\"], {}, file_actions=[wait])";
    let case = Case::start(farm, &format!("armento run --stay python3 -c '{script}'"));
    case.child();
    case.stays("n2", Stay::Busy, None);
    drop(case);

    compile(farm, "n1", "-pthread -o /tmp/many", MANY);
    let case = Case::start(farm, "armento run --stay /tmp/many");
    case.stays("n2", Stay::TooManyThreads, None);
    drop(case);

    // again: mov eax, 29 (pause); int 0x80; jmp again
    install32(
        farm,
        "/tmp/pause32",
        &[0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7],
    );
    let case = Case::start(
        farm,
        "touch /tmp/r/ready; exec armento run --stay /tmp/pause32",
    );
    case.stays("n2", Stay::ThirtyTwoBit, None);
}

/// Calls that these programs make away bring them home, and keep them there although their user names another node.
pub fn from_calls(farm: &Farm) {
    // The address-space limit applies when a process leaves: one that has left has the room already.
    let calls = PROGRAMS
        .iter()
        .filter(|(stay, _)| *stay != Stay::LimitLower);
    for (stay, script) in calls {
        let case = Case::start(farm, &format!("armento run --on n2 {}", perl(script)));
        case.why_reports(*stay);
        let listed = case.listed().expect("it lives");
        assert_eq!(listed["place"], "n1", "{listed}");
        assert!(
            listed["forwarded"].as_u64() > Some(0),
            "it was never away: {listed}"
        );
    }
}

/// More memory than n2 has left, and less than n1 has.
pub fn from_memory(farm: &Farm) {
    let ballast = "perl -e '$x = q(x) x (100 << 20); sleep 600' >/tmp/log 2>&1 & echo $!";
    let ballast = farm.sh("n2", ballast);
    let case = Case::perl(farm, "", "$x = q(x) x (140 << 20)");
    until("n2 is full", || {
        let nodes = json(&farm.sh("n1", "armento nodes --json"));
        let n2 = nodes["nodes"]
            .as_array()
            .and_then(|all| all.iter().find(|n| n["name"] == "n2"));
        n2.is_some_and(|n| {
            n["mem_free_kib"]
                .as_u64()
                .is_some_and(|free| free < 270 << 10)
        })
    });
    case.stays("n2", Stay::NoRoom, None);
    farm.sh("n2", &format!("kill -KILL {ballast}"));
}

pub fn from_the_policy(farm: &Farm) {
    let case = Case::perl(farm, "", "1");
    case.why_reports(Stay::Locked);
    drop(case);
    let case = Case::start(farm, "touch /tmp/r/ready; exec armento run sleep 600");
    case.why_reports(Stay::WouldNotPay);
    // A process that a user has placed stays there until it is given back to the balancer.
    let pid = &case.pid;
    for to in ["n2", "home"] {
        farm.sh("n1", &format!("armento migrate {pid} {to}"));
        case.why_reports(Stay::Locked);
    }
    farm.sh("n1", &format!("armento migrate {pid} balance"));
    case.why_reports(Stay::WouldNotPay);
    drop(case);
    // Also against `--on`, which sends a process back a second after it came home for a call.
    let case = Case::start(farm, &format!("armento run --on n2 {}", perl("1")));
    let pid = &case.pid;
    let is_at = |node: &str| case.why()["place"] == node;
    until("it to be at n2", || is_at("n2"));
    // A hold that is over does not count as a placement.
    farm.sh("n1", &format!("armento hold {pid}"));
    assert!(is_at("n1"), "{}", case.why());
    farm.sh("n1", &format!("armento migrate {pid} balance"));
    until("it to be back at n2", || is_at("n2"));
    farm.sh("n1", &format!("armento migrate {pid} home"));
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(is_at("n1"), "{}", case.why());
}

/// More threads than fit the state of one message, wherever registers are larger than 500 bytes.
const MANY: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static void *wait(void *none)
{
	for (;;)
		pause();
}
int main(void)
{
	pthread_attr_t small;
	pthread_t t;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (int i = 0; i < 6000; i++)
		if (pthread_create(&t, &small, wait, NULL))
			return 1;
	close(open("/tmp/r/ready", O_CREAT | O_WRONLY, 0600));
	wait(NULL);
}
"#;

/// Settings and defects of n3, and a link that is cut.
pub fn from_nodes(farm: &Farm) {
    // `before`: command prefix of the daemon.
    let again = |setting: &str, before: &str| {
        let file = "/etc/armento/config.toml";
        let other = format!("echo '{setting}' >> {file}");
        farm.sh("n3", &format!("{other}; pkill -f '[a]rmento node'"));
        farm.daemon_behind("n3", before);
        let alive = || {
            farm.sh("n1", "armento nodes --json")
                .matches("\"alive\"")
                .count()
                == 3
        };
        until("three nodes again", alive);
    };
    let case = Case::perl(farm, "", "1");
    // KERNEL: personality(2), UNAME26.
    again("", "setarch --uname-2.6");
    case.stays("n3", Stay::KernelTooOld, None);
    again("", "env ARMENTO_CLOCK_AHEAD_MS=1000");
    case.stays("n3", Stay::ClocksApart, None);
    drop(case);

    farm.sh("n3", "sed -i /allow_root/d /etc/armento/config.toml");
    again("allow_root = false", "");
    let case = Case::perl(farm, "", "1");
    case.stays("n3", Stay::Privileged, None);
    again("accept_from = []", "");
    case.stays("n3", Stay::NotTrusted, None);
    drop(case);

    // A read-only disk does not prevent guests.
    farm.sh(
        "n2",
        "mkdir -p /var/lib/armento/hosts; mount -t tmpfs -o ro tmpfs /var/lib/armento/hosts",
    );
    let case = Case::perl(farm, "", "1");
    let pid = &case.pid;
    until("it can be moved", || case.listed().is_some());
    farm.sh(
        "n1",
        &format!("armento migrate {pid} n2; armento migrate {pid} home"),
    );
    drop(case);
    farm.sh("n2", "umount /var/lib/armento/hosts");

    // Limits are inherited: with one page of stack a host ends at its start. The daemon's threads keep theirs.
    let stack = |limit: &str| {
        let daemon = "$(cat /var/lib/armento/lock)";
        farm.sh("n2", &format!("prlimit --pid {daemon} --stack={limit}:"));
    };
    stack("4096");
    let case = Case::perl(farm, "", "1");
    case.stays("n2", Stay::TargetFailed, None);
    stack("8388608");
    farm.sh("n2", "ip link set eth0 down");
    case.stays("n2", Stay::LinkLost, None);
    farm.sh("n2", "ip link set eth0 up");
}
