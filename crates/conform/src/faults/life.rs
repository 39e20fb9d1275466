//! One program of a fault campaign: started, moved around, disturbed as planned, judged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use armento_migrate::phase::Failpoint;

use crate::faults::arms::Arms;
use crate::faults::campaign::Ended;
use crate::faults::farm::{Farm, VIA};
use crate::faults::plan::{Fault, Life};

/// Rounds of the program: two to three seconds on an otherwise idle processor.
pub const ROUNDS: u32 = 120;
/// The files that it leaves, each written from beginning to end.
pub const FILES: [&str; 4] = ["out", "log", "reader", "children"];
/// Limits are 3 s (hosts) and 30 s (home); a program that takes longer than all of them hangs. On a full machine a life
/// takes twenty times as long.
const HANG: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(15);
/// Failpoints after which a process runs elsewhere.
const ARRIVED: [Failpoint; 3] = [
    Failpoint::HomeThawed,
    Failpoint::OnwardThawed,
    Failpoint::ReturnDropped,
];
const KILLED: i32 = 137;

pub struct Stage<'a> {
    pub farm: &'a Farm,
    /// The program's path in the nodes.
    pub program: &'a Path,
    /// The content of its files after a native run.
    pub native: &'a BTreeMap<&'static str, String>,
    pub keep: &'a Path,
}

struct Running<'a> {
    stage: &'a Stage<'a>,
    life: &'a Life,
    child: Child,
    started: Instant,
    arms: Arms<'a>,
}

impl Stage<'_> {
    /// From start to end. `deadly`: whether something has happened since that moment that may kill programs.
    pub fn live(&self, life: &Life, deadly: &dyn Fn(Instant) -> bool) -> Result<Ended> {
        let started = Instant::now();
        let mut r = Running {
            stage: self,
            life,
            child: self.start(life)?,
            started,
            arms: Arms::new(self.farm, (life.number, 0), &life.faults, None),
        };
        let code = r.follow()?;
        let mut points = BTreeMap::new();
        for p in r.arms.passed() {
            *points.entry(p.point).or_default() += 1;
        }
        let met = r.arms.met();
        let may_die = life.cable || met.iter().any(|f| f.what.deadly()) || deadly(started);
        let wrong = r.judge(code, may_die);
        if wrong.is_some() {
            r.keep(&met);
        }
        r.clear();
        Ok(Ended {
            moves: ARRIVED.iter().filter_map(|p| points.get(p.name())).sum(),
            points,
            met,
            died: code == Some(KILLED),
            told: Vec::new(),
            wrong,
        })
    }

    fn start(&self, life: &Life) -> Result<Child> {
        let (n, faults) = (life.number, Arms::directory(life.number));
        let via = match life.cable {
            true => format!("export {VIA};"),
            false => String::new(),
        };
        let script = format!(
            "mkdir -p /tmp/lives/{n} {faults} && cd /tmp/lives/{n} || exit 99; {via} export ARMENTO_FAULTS={faults} \
             ARMENTO_KEEPER_LOG=/tmp/lives/{n}/keeper.log; \
             armento run --storm {} --seed {} {} {ROUNDS} >out 2>err; exit $?",
            life.storm_ms,
            life.storm_seed,
            self.program.display()
        );
        let mut c = self.farm.shell(0, &script);
        c.stdout(Stdio::null()).stderr(Stdio::null());
        c.spawn().context("cannot start a program in its node")
    }
}

impl Running<'_> {
    fn folder(&self) -> PathBuf {
        let path = format!("/tmp/lives/{}", self.life.number);
        self.stage.farm.path(0, &path)
    }

    /// Its exit code; `None`: it hung.
    fn follow(&mut self) -> Result<Option<i32>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                let signal = status.signal().map(|s| 128 + s);
                return Ok(status.code().or(signal));
            }
            if self.started.elapsed() > HANG {
                return Ok(None);
            }
            self.arms.look();
            std::thread::sleep(LOOK);
        }
    }

    fn judge(&self, code: Option<i32>, may_die: bool) -> Option<String> {
        let died = match code {
            Some(0) => false,
            Some(KILLED) if may_die => true,
            Some(KILLED) => return Some("died without a deadly fault".into()),
            Some(code) => return Some(format!("exit code {code}")),
            None => return Some(format!("no end in {} s", HANG.as_secs())),
        };
        for (name, native) in self.stage.native {
            let got = fs::read_to_string(self.folder().join(name)).unwrap_or_default();
            if got != *native && !(died && native.starts_with(&got)) {
                let same = got
                    .lines()
                    .zip(native.lines())
                    .take_while(|(a, b)| a == b)
                    .count();
                return Some(format!(
                    "{name} differs in line {}: {:?} instead of {:?}{}",
                    same + 1,
                    got.lines().nth(same),
                    native.lines().nth(same),
                    if died { "; it died" } else { "" }
                ));
            }
        }
        None
    }

    /// Copies all its files to where the user who runs the campaign can read them.
    fn keep(&self, met: &[Fault]) {
        let to = self.stage.keep.join(self.life.number.to_string());
        let copy = || -> Result<()> {
            fs::create_dir_all(&to)?;
            for name in FILES.iter().copied().chain(["err", "keeper.log"]) {
                let from = self.folder().join(name);
                if from.exists() {
                    fs::copy(from, to.join(name))?;
                }
            }
            let plan = serde_json::json!({"life": self.life, "met": met, "tree": self.arms.tree()});
            fs::write(to.join("plan.json"), serde_json::to_vec_pretty(&plan)?)?;
            self.arms.keep(&to)?;
            Ok(())
        };
        if let Err(e) = copy() {
            eprintln!("cannot keep the evidence in {}: {e:#}", to.display());
        }
    }

    fn clear(&mut self) {
        // It hangs, or is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.arms.clear();
        let _ = fs::remove_dir_all(self.folder());
    }
}
