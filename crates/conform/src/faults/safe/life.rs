//! One program that is kept safe: started, disturbed as planned, judged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use armento_migrate::phase::Failpoint;

use crate::faults::arms::{Arms, Passed};
use crate::faults::campaign::Ended;
use crate::faults::farm::{Farm, VIA};
use crate::faults::plan::{Fault, What};
use crate::faults::safe::homes::{self, Home, Recovery};
use crate::faults::safe::plan::{How, Life, Place};
use crate::faults::safe::programs::{Known, files};
use crate::faults::safe::reason::reason;
use crate::faults::safe::twice::Bodies;

/// Natively they take three seconds at most. A body that is lost is given up after 3 s and built within seconds, up to two
/// times in a life; on a full machine all that takes many times as long.
const HANG: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(15);
const KILLED: i32 = 137;
/// `armento run --on` says that the node could not take it.
const NOT_BEGUN: i32 = 125;
const NOT_BEGUN_SAID: [&str; 2] = ["it was not begun", "nothing was started"];
pub const KEEPER_KILLED: &str = "its keeper was killed";
const NOT_BEGUN_WHY: &str = "its node could not take it";

pub struct Stage<'a> {
    pub farm: &'a Farm,
    pub tally: &'a Path,
    pub programs: &'a [Known],
    pub bodies: &'a Bodies,
    pub keep: &'a Path,
    /// Held by the one life that loses its home.
    pub homes: Mutex<()>,
}

struct Running<'a> {
    stage: &'a Stage<'a>,
    life: &'a Life,
    known: &'a Known,
    child: Child,
    started: Instant,
    arms: Arms<'a>,
    /// Steps by which its disk gets full and empty, with their times; the last one first.
    disk: Vec<(u64, &'static str)>,
}

impl Stage<'_> {
    /// From start to end.
    pub fn live(&self, life: &Life) -> Result<Ended> {
        let known = &self.programs[life.program];
        let _home = life
            .home_lost
            .map(|_| self.homes.lock().unwrap_or_else(PoisonError::into_inner));
        let disk = life.full.map_or_else(Vec::new, |(at, ms)| {
            vec![
                (at + ms, "rm -f full"),
                (at, "dd if=/dev/zero of=full bs=4k 2>/dev/null; true"),
            ]
        });
        let mut r = Running {
            stage: self,
            life,
            known,
            child: self.start(life, known)?,
            started: Instant::now(),
            arms: Arms::new(
                self.farm,
                (life.number, life.home()),
                &life.faults,
                life.later.then_some(Failpoint::SafeCommitted),
            ),
            disk,
        };
        let lost_home = r.home_is_lost()?;
        let code = r.follow()?;
        let passed = r.arms.passed();
        let met = r.arms.met();
        let verdict = match lost_home {
            Some(Err(wrong)) => Err(wrong),
            Some(Ok(Recovery::Recovered)) if code != Some(KILLED) => Err(format!(
                "it was recovered, and at its old home it ended with {code:?}"
            )),
            Some(Ok(Recovery::Recovered)) => Ok(vec!["home lost: recovered".into()]),
            Some(Ok(Recovery::Late)) if code == Some(KILLED) => {
                Ok(vec!["home lost: nothing was recovered in time".into()])
            }
            Some(Ok(Recovery::Late)) | None => r.judge(code, &met, &passed),
        };
        let (told, wrong) = match verdict {
            Ok(told) => (told, None),
            Err(wrong) => (Vec::new(), Some(wrong)),
        };
        if wrong.is_some() {
            r.keep(&met);
        }
        r.clear()?;
        let mut points = BTreeMap::new();
        for p in passed {
            *points.entry(p.point).or_default() += 1;
        }
        Ok(Ended {
            moves: 0,
            points,
            met,
            died: code == Some(KILLED),
            told,
            wrong,
        })
    }

    fn start(&self, life: &Life, known: &Known) -> Result<Child> {
        let (n, faults) = (life.number, Arms::directory(life.number));
        let via = match life.cable {
            true => format!("export {VIA};"),
            false => String::new(),
        };
        let safe = match life.how {
            How::Every => "1",
            How::Exact => "exact",
            How::Remote => "remote:1",
        };
        let place = match life.place {
            Place::On(node) => format!("--on n{}", node + 1),
            Place::Storm { ms, seed } => format!("--storm {ms} --seed {seed}"),
        };
        let disk = match life.full {
            Some(_) => "mount -t tmpfs -o size=1m disk w || exit 99;",
            None => "",
        };
        let home = life.home();
        let line = self.farm.path(home, &format!("/tmp/line-{n}"));
        fs::write(&line, known.program.line)?;
        if home != homes::KEEPER {
            // It may go on there.
            fs::create_dir_all(self.farm.path(homes::KEEPER, &format!("/tmp/lives/{n}/w")))?;
        }
        let script = format!(
            "mkdir -p /tmp/lives/{n}/w {faults} && cd /tmp/lives/{n} || exit 99; {disk} cd w; {via} {} \
             export ARMENTO_FAULTS={faults} ARMENTO_KEEPER_LOG=/tmp/lives/{n}/keeper.log; echo $$ > ../pid; \
             exec armento run --safe={safe} {place} sh /tmp/line-{n} >../out 2>../err </dev/null",
            known.variables(self.tally)
        );
        let mut c = self.farm.shell(home, &script);
        c.stdout(Stdio::null()).stderr(Stdio::null());
        c.spawn().context("cannot start a program in its node")
    }
}

impl Running<'_> {
    fn folder(&self) -> PathBuf {
        let path = format!("/tmp/lives/{}", self.life.number);
        self.stage.farm.path(self.life.home(), &path)
    }

    /// Its home is lost, and it is recovered elsewhere. `None`: it does not lose it, or has ended before.
    fn home_is_lost(&mut self) -> Result<Option<Result<Recovery, String>>> {
        let Some(loss) = self.life.home_lost else {
            return Ok(None);
        };
        while self.arms.tree().is_none() && self.child.try_wait()?.is_none() {
            self.arms.look();
            std::thread::sleep(LOOK);
        }
        let Some(tree) = self.arms.tree() else {
            return Ok(None);
        };
        let home = Home {
            farm: self.stage.farm,
            known: self.known,
            number: self.life.number,
            tree: tree.to_owned(),
        };
        if !home.is_kept() || self.child.try_wait()?.is_some() {
            return Ok(None);
        }
        let verdict = home.lose(loss)?;
        // When it is back it learns that its program was recovered.
        self.started = Instant::now();
        Ok(Some(verdict))
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
            let now = self.started.elapsed().as_millis() as u64;
            if let Some((_, step)) = self.disk.pop_if(|(at, _)| *at <= now) {
                self.in_folder(step)?;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A command on its disk.
    fn in_folder(&self, step: &str) -> Result<bool> {
        let cd = format!("cd /tmp/lives/{}/w && {{ {step}; }}", self.life.number);
        let done = self.stage.farm.shell(self.life.home(), &cd).output()?;
        Ok(done.status.success())
    }

    /// What is counted of it; or what is wrong.
    fn judge(
        &self,
        code: Option<i32>,
        met: &[Fault],
        passed: &[Passed],
    ) -> Result<Vec<String>, String> {
        self.runs_once(passed)?;
        let code = code.ok_or_else(|| format!("no end in {} s", HANG.as_secs()))?;
        let stderr = fs::read(self.folder().join("err")).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr);
        let got = files(&self.folder()).map_err(|e| format!("its files cannot be read: {e:#}"))?;
        let keeper_killed = met.iter().any(|f| f.home && f.what == What::Kill);
        let lost = passed.iter().any(|p| p.point == Failpoint::SafeLost.name());
        let why = match (reason(&stderr), code) {
            (None, 0) => {
                self.equals_native(&got)?;
                let what = match lost {
                    true => "continued",
                    false => "undisturbed",
                };
                return Ok(vec![
                    what.into(),
                    format!("{what} ({})", self.known.program.name),
                ]);
            }
            (Some(Err(line)), _) => {
                return Err(format!("it ended for a reason that is not listed: {line}"));
            }
            (Some(Ok(why)), _) => why,
            (None, KILLED) if keeper_killed => KEEPER_KILLED.to_owned(),
            (None, NOT_BEGUN) if NOT_BEGUN_SAID.iter().any(|said| stderr.contains(said)) => {
                NOT_BEGUN_WHY.to_owned()
            }
            (None, code) => {
                return Err(format!(
                    "exit code {code} without a reason: {:?}",
                    stderr.lines().next()
                ));
            }
        };
        self.begins_as_native(&got)?;
        if let Some(check) = self.known.program.check
            && !self.in_folder(check).map_err(|e| format!("{e:#}"))?
        {
            return Err(format!("its check fails after its end ({why})"));
        }
        let mut told = vec![format!("ended: {why}")];
        if why != KEEPER_KILLED && why != NOT_BEGUN_WHY {
            told.push("ended".into());
            told.push(format!("ended ({}): {why}", self.known.program.name));
        }
        Ok(told)
    }

    /// No lost body has run since another one runs. Where a program has several processes it is not known whose was lost.
    fn runs_once(&self, passed: &[Passed]) -> Result<(), String> {
        let pid = fs::read_to_string(self.folder().join("pid")).unwrap_or_default();
        let Ok(pid) = pid.trim().parse() else {
            return Ok(());
        };
        let times = |point: Failpoint| {
            let of = passed.iter().filter(move |p| p.point == point.name());
            of.map(|p| p.at_ms)
        };
        let mut twice = None;
        if self.known.program.alone {
            for lost in times(Failpoint::SafeLost) {
                let thawed = times(Failpoint::SafeThawed).filter(|t| *t > lost);
                let Some(thawed) = thawed.min_by(f64::total_cmp) else {
                    continue;
                };
                twice = twice.or_else(|| self.stage.bodies.ran_on(pid, lost, thawed));
            }
        }
        self.stage.bodies.forget(pid);
        twice.map_or(Ok(()), Err)
    }

    fn equals_native(&self, got: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let native = &self.known.files;
        let names: Vec<&String> = native.keys().chain(got.keys()).collect();
        for name in names {
            match (native.get(name), got.get(name)) {
                (Some(want), Some(is)) if want == is => {}
                (Some(want), Some(is)) => return Err(differs(name, want, is)),
                (Some(_), None) => return Err(format!("the file {name} is missing")),
                (None, _) => {
                    return Err(format!("there is a file {name} that natively is not there"));
                }
            }
        }
        Ok(())
    }

    fn begins_as_native(&self, got: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        for name in self.known.program.grows {
            let native = self.known.files.get(*name).map_or(&[][..], Vec::as_slice);
            let is = got.get(*name).map_or(&[][..], Vec::as_slice);
            if !native.starts_with(is) {
                return Err(format!("{}; it ended", differs(name, native, is)));
            }
        }
        Ok(())
    }

    /// Copies all its files to where the user who runs the campaign can read them.
    fn keep(&self, met: &[Fault]) {
        let to = self.stage.keep.join(self.life.number.to_string());
        let copy = || -> Result<()> {
            fs::create_dir_all(&to)?;
            let mut cp = Command::new("cp");
            cp.arg("-r").arg(self.folder().join(".")).arg(&to);
            cp.status()?;
            self.arms.keep(&to)?;
            let name = self.known.program.name;
            let plan = serde_json::json!({"life": self.life, "program": name, "met": met, "tree": self.arms.tree()});
            fs::write(to.join("plan.json"), serde_json::to_vec_pretty(&plan)?)?;
            Ok(())
        };
        if let Err(e) = copy() {
            eprintln!("cannot keep the evidence in {}: {e:#}", to.display());
        }
    }

    fn clear(&mut self) -> Result<()> {
        // It hangs, or is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.arms.clear();
        let n = self.life.number;
        let clear =
            format!("umount /tmp/lives/{n}/w 2>/dev/null; rm -rf /tmp/lives/{n} /tmp/line-{n}");
        for node in [self.life.home(), homes::KEEPER] {
            self.stage.farm.shell(node, &clear).output()?;
        }
        Ok(())
    }
}

/// Where a file differs, by lines.
fn differs(name: &str, native: &[u8], is: &[u8]) -> String {
    let (native, is) = (String::from_utf8_lossy(native), String::from_utf8_lossy(is));
    let same = is.lines().zip(native.lines()).take_while(|(a, b)| a == b);
    let same = same.count();
    let line = |text: &str| {
        text.lines()
            .nth(same)
            .map(|l| l.chars().take(120).collect::<String>())
    };
    format!(
        "{name} differs in line {}: {:?} instead of {:?}; {} bytes of {}",
        same + 1,
        line(&is),
        line(&native),
        is.len(),
        native.len()
    )
}
