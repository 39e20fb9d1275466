//! A farm of Debian machines, installed and joined as an administrator does it. For tests: failures panic.

use crate::machine::MEM_MIB;
use crate::{Image, Kernel, Kind, Machine, Site, Suite};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An emulated machine beside others takes minutes where a real one takes seconds.
pub const SOON: Duration = Duration::from_secs(120);
const CHECK_EVERY: Duration = Duration::from_millis(500);

pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the checkout")
}

/// The tested program: built beside this test.
pub fn armento() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let release = test.ancestors().nth(2).expect("the build directory");
    let program = release.join("armento");
    assert!(
        program.is_file(),
        "{} is missing: cargo build --release --bin armento",
        program.display()
    );
    program
}

/// Arguments of [`Farm::boot`] for machines of Debian 12 with these kernels.
pub fn debian_12(kind: Kind, kernels: &[Kernel]) -> Vec<(Suite, Kind, Kernel)> {
    let one = |k: &Kernel| (Suite::Bookworm, kind, *k);
    kernels.iter().map(one).collect()
}

pub struct Farm {
    pub site: Arc<Site>,
    pub machines: Vec<Machine>,
}

impl Farm {
    /// Machines n1, n2, …: Debian release, packages, kernel. Armento is not installed. `None`: the reason was printed.
    pub fn boot(wanted: &[(Suite, Kind, Kernel)]) -> Option<Farm> {
        Farm::boot_with(wanted, MEM_MIB)
    }

    fn boot_with(wanted: &[(Suite, Kind, Kernel)], mem_mib: u32) -> Option<Farm> {
        let farm = Farm::off(wanted, mem_mib)?;
        for m in &farm.machines {
            m.on().expect("switched on");
        }
        for m in &farm.machines {
            m.wait_up().expect("up");
        }
        Some(farm)
    }

    /// Machines that are off.
    fn off(wanted: &[(Suite, Kind, Kernel)], mem_mib: u32) -> Option<Farm> {
        let site = Arc::new(Site::new_or_skip()?);
        let mut machines = Vec::new();
        for (number, (suite, kind, kernel)) in (1..).zip(wanted) {
            let image = match Image::ready(*suite, *kind).expect("an image") {
                Ok(image) => image,
                Err(missing) => {
                    println!("skipped: Debian machines need {missing}");
                    return None;
                }
            };
            let mut m = Machine::new(&site, &image, number, *kernel).expect("a machine");
            m.mem_mib = mem_mib;
            machines.push(m);
        }
        Some(Farm { site, machines })
    }

    /// For long tests, which run only when `ARMENTO_LONG_TESTS` is set (`make test-all`): machines as of
    /// [`Farm::boot`].
    pub fn boot_long(wanted: &[(Suite, Kind, Kernel)]) -> Option<Farm> {
        Farm::boot_long_with(wanted, MEM_MIB)
    }

    fn boot_long_with(wanted: &[(Suite, Kind, Kernel)], mem_mib: u32) -> Option<Farm> {
        is_long().then(|| Farm::boot_with(wanted, mem_mib))?
    }

    /// As [`Farm::boot_long`], and they are off: cards can be added.
    pub fn off_long(wanted: &[(Suite, Kind, Kernel)]) -> Option<Farm> {
        is_long().then(|| Farm::off(wanted, MEM_MIB))?
    }

    /// As [`Farm::boot_long`], with Debian 12 and Armento installed, and joined into one farm.
    pub fn up_long(kind: Kind, kernels: &[Kernel]) -> Option<Farm> {
        Farm::up_long_with(kind, kernels, MEM_MIB)
    }

    /// As [`Farm::up_long`], each machine with so much memory.
    pub fn up_long_with(kind: Kind, kernels: &[Kernel], mem_mib: u32) -> Option<Farm> {
        let farm = Farm::boot_long_with(&debian_12(kind, kernels), mem_mib)?;
        farm.machines.iter().for_each(install);
        farm.join();
        Some(farm)
    }

    /// As [`Farm::up_long`], two small machines with the newer kernel.
    pub fn pair_long() -> Option<Farm> {
        Farm::up_long(Kind::Small, &[Kernel::V6_12; 2])
    }

    pub fn n(&self, number: usize) -> &Machine {
        &self.machines[number - 1]
    }

    /// `farm init` on n1, `join` on the others, as printed.
    pub fn join(&self) {
        let said = self.n(1).sh("root", "armento farm init");
        let join = join_line(&said);
        assert!(join.contains(" 10.9.9.1"), "{said}");
        for m in &self.machines[1..] {
            m.sh("root", &join);
        }
        self.all_alive();
    }

    /// Waits until every node shows every node as alive.
    pub fn all_alive(&self) {
        let n = self.machines.len();
        for m in &self.machines {
            let script =
                format!("test $(armento nodes --json | grep -o '\"alive\"' | wc -l) = {n}");
            m.until("all nodes alive", "root", &script, SOON);
        }
    }
}

/// Whether long tests run; if not, it is printed.
fn is_long() -> bool {
    let long = std::env::var_os("ARMENTO_LONG_TESTS").is_some();
    if !long {
        println!("skipped: a long test (make test-all)");
    }
    long
}

/// Waits until `node` accepts programs: after a boot its clock may not be synchronised yet.
pub fn runs_on(home: &Machine, node: &str) {
    let what = format!("{node} runs programs of {}", home.name());
    home.until(
        &what,
        "alice",
        &format!("armento run --on {node} true"),
        SOON,
    );
}

/// The join command in the output of `farm init` and `farm invite`.
pub fn join_line(said: &str) -> String {
    let (_, rest) = said.split_once("armento join ").expect("a join line");
    let rest = rest.lines().next().expect("a line");
    format!("armento join {}", rest.trim())
}

/// Copies the files of the package to their places.
pub fn install(m: &Machine) {
    let packaging = root().join("packaging");
    m.put(&armento(), "/usr/bin/armento").expect("the program");
    let unit = "/usr/lib/systemd/system/armento.service";
    m.put(&packaging.join("armento.service"), unit)
        .expect("the unit");
    m.put(
        &packaging.join("tmpfiles.d/armento.conf"),
        "/usr/lib/tmpfiles.d/armento.conf",
    )
    .expect("its directories");
    m.sh(
        "root",
        "chmod 644 /usr/lib/systemd/system/armento*.service /usr/lib/tmpfiles.d/armento.conf; mkdir -p /etc/armento; \
         systemd-tmpfiles --create armento.conf; systemctl daemon-reload; systemctl enable -q --now armento",
    );
}

/// A user's program that runs until its `end` file exists; as `armento ps` lists it.
pub struct Program<'a> {
    pub home: &'a Machine,
    pub user: &'a str,
    pub pid: u32,
    dir: String,
}

impl<'a> Program<'a> {
    /// `armento run OPTIONS WORDS` in the background of a login that ends; the program outlives it.
    pub fn start(home: &'a Machine, user: &'a str, options: &str, words: &str) -> Program<'a> {
        let script = format!(
            "d=$(mktemp -d /tmp/program.XXXXXX); cd $d
             (setsid sh -c 'armento run {options} {words} > out 2> err < /dev/null & echo $! > pid; wait $!; echo $? > code' &) \
             > /dev/null 2>&1 < /dev/null
             until test -s pid; do sleep 0.1; done; echo $d $(cat pid)"
        );
        let said = home.sh(user, &script);
        let (dir, pid) = said.trim().split_once(' ').expect("directory and pid");
        Program {
            home,
            user,
            pid: pid.parse().expect("a pid"),
            dir: dir.to_owned(),
        }
    }

    pub fn place(&self) -> Option<String> {
        place(self.home, self.user, self.pid)
    }

    /// Waits until `ps` shows it at `node`.
    pub fn at(&self, node: &str) {
        let until = Instant::now() + SOON;
        while self.place().as_deref() != Some(node) {
            let said = || {
                self.home.run(
                    self.user,
                    &format!("armento ps; armento why {}; cat {}/err", self.pid, self.dir),
                )
            };
            assert!(
                Instant::now() < until,
                "{} is not at {node}: {:?}",
                self.pid,
                said()
            );
            sleep(CHECK_EVERY);
        }
    }

    pub fn migrate(&self, node: &str) {
        self.home
            .sh(self.user, &format!("armento migrate {} {node}", self.pid));
        let name = self.home.name();
        self.at(if node == "home" { &name } else { node });
    }

    /// Its exit code, when it has ended.
    pub fn code(&self) -> Option<i32> {
        let reply = self.home.run(self.user, &format!("cat {}/code", self.dir));
        reply.out.trim().parse().ok()
    }

    pub fn ends(&self, code: i32) {
        let until = Instant::now() + SOON;
        loop {
            if let Some(got) = self.code() {
                let err = self.home.run(self.user, &format!("cat {}/err", self.dir));
                return assert_eq!(got, code, "{}", err.out);
            }
            assert!(Instant::now() < until, "{} does not end", self.pid);
            sleep(CHECK_EVERY);
        }
    }

    pub fn out(&self) -> String {
        self.home.sh(self.user, &format!("cat {}/out", self.dir))
    }

    pub fn err(&self) -> String {
        self.home.sh(self.user, &format!("cat {}/err", self.dir))
    }

    /// Creates a file in its directory: programs wait for such files.
    pub fn touch(&self, name: &str) {
        self.home
            .sh(self.user, &format!("touch {}/{name}", self.dir));
    }
}

/// The place of a process in `ps`.
pub fn place(home: &Machine, user: &str, pid: u32) -> Option<String> {
    let reply = home.run(user, "armento ps --json");
    let doc: Value = serde_json::from_str(&reply.out).ok()?;
    let all = doc["procs"].as_array()?;
    let it = all.iter().find(|p| p["pid"].as_u64() == Some(pid.into()))?;
    it["place"].as_str().map(str::to_owned)
}

/// Succeeds when no body of n1 is here.
pub const NO_BODY: &str = "test -z \"$(find /sys/fs/cgroup -type d -name 'armento-n1-*')\"";

/// Counts, and writes down each count, until the file `end` is there; then prints that it is over. The output is the
/// same on any node.
pub const COUNTER: &str = "python3 -c \"
import os, time
n = 0
while not os.path.exists(\\\"end\\\"):
    n += 1
    x = sum(i * i for i in range(2000))
    t = time.time()
    open(\\\"count\\\", \\\"w\\\").write(str(n))
print(\\\"over\\\", x)
\"";
