//! One scenario on one farm: started, run, taken down.

use super::timeline::Timeline;
use super::way::Way;
use super::{jobs, tasks};
use crate::lab::Lab;
use crate::spec::{Link, Spec};
use crate::state::Dir;
use crate::{cgroup, farm};
use anyhow::{Context, Result, bail};
use armento_scenario::{Plan, Played};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Directory for the reports of jobs and the summaries of keepers, on each home.
const DIR: &str = "/var/tmp/play";
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// After this long daemons have reported their loads, and smoothed loads have forgotten an earlier run.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// Time limit for the shells of killed jobs to end.
const END_MAX: Duration = Duration::from_secs(20);

/// A farm, or nodes without one, on which a plan is run.
pub struct Stage {
    lab: Lab,
    way: Way,
}

impl Stage {
    /// Starts the nodes of the plan. After `Err` nothing of them is left.
    pub fn raise(plan: &Plan, way: &Way) -> Result<Stage> {
        let spec = Spec {
            name: format!("play-{}", std::process::id()),
            nodes: plan.nodes.len(),
            speeds: plan.nodes.iter().map(|n| n.speed).collect(),
            cores: plan.nodes.iter().map(|n| n.cores).collect(),
            mems: plan.nodes.iter().map(|n| n.mem_mib << 20).collect(),
            link: Link::Switch {
                bits: plan.link_mbit * 1_000_000,
            },
            farm: way.needs_farm(),
            config: way.config(plan),
            ..Spec::default()
        };
        let stage = Stage {
            lab: Lab::up(spec)?,
            way: way.clone(),
        };
        let dir = Dir::of(&stage.lab.plan().name)?.0;
        let program = jobs::compile(&dir)?;
        for node in 0..plan.nodes.len() {
            jobs::install(&program, &stage.lab.root(node + 1)?)?;
        }
        if let Way::Pvm(_) = way {
            tasks::raise(&stage.lab, &dir, DIR)?;
        }
        if way.needs_farm() {
            sleep(SETTLE_TIME);
        }
        Ok(stage)
    }

    /// Its nodes.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Runs the jobs of the plan, whose nodes are those of the stage.
    pub fn play(&self, plan: &Plan) -> Result<Played> {
        let mut homes = jobs::by_home(plan);
        if let Way::Pvm(_) = self.way {
            // Each node is the home of the tasks that PVM places there; the first has the report.
            homes = (0..plan.nodes.len()).map(|n| (n, Vec::new())).collect();
        }
        for (home, jobs) in &homes {
            let inputs = jobs::inputs(plan, jobs, DIR);
            let clean = format!("rm -rf {DIR}; mkdir -p {DIR}{inputs}");
            let done = self
                .lab
                .node(home + 1)
                .command("sh")
                .args(["-c", &clean])
                .status()?;
            if !done.success() {
                bail!("n{} has no room for reports", home + 1);
            }
        }
        let mut timeline = Timeline::begin(&self.lab, plan, self.way.needs_farm())?;
        if self.way.needs_farm() && plan.background.iter().any(|b| b.from_s <= 0.0) {
            sleep(SETTLE_TIME);
        }
        let before = self.cpu_us();
        let began = Instant::now();
        let epoch = jobs::now_s();
        let mut started: Vec<Child> = match self.way {
            Way::Parallel => self.parallel(plan)?.into(),
            Way::Pvm(_) => vec![tasks::begin(&self.lab, plan, self.way.needs_farm(), DIR)?],
            _ => homes
                .iter()
                .map(|(home, jobs)| {
                    let script = jobs::script(plan, jobs, DIR);
                    let mut c = self.lab.node(home + 1).command("bash");
                    c.args(["-c", &script]).stdin(Stdio::null()).spawn()
                })
                .collect::<std::io::Result<_>>()?,
        };
        let cap = Duration::from_secs_f64(plan.cap_s);
        while alive(&mut started)? && began.elapsed() <= cap {
            timeline.follow(began.elapsed())?;
            sleep(CHECK_EVERY);
        }
        let cpu_s = (self.cpu_us().saturating_sub(before)) as f64 / 1e6;
        if alive(&mut started)? {
            self.end_jobs(&mut started)?;
        }
        if timeline.restore(plan)? && self.way.needs_farm() {
            farm::wait_alive(self.lab.node(1), self.lab.nodes().len())?;
            sleep(SETTLE_TIME);
        }
        let work_s: f64 = plan.jobs.iter().map(|j| j.work_s).sum();
        let mut played = Played {
            // With native work on nodes its share of that time is unknown, and so is how much killed processes had
            // done.
            beside_s: (plan.background.is_empty() && plan.events.is_empty())
                .then_some(cpu_s - work_s),
            ..Played::default()
        };
        for home in homes.keys() {
            // There is no report where no job ended.
            let text = self.read(*home, "report").unwrap_or_default();
            let ends = jobs::ended(&text, epoch);
            played.ends_s.extend(ends.iter().map(|(_, end_s)| end_s));
            played.copied(plan, *home, &ends);
            // There is no summary where no process had a keeper.
            let summary = self.read(*home, "summary").unwrap_or_default();
            played.moves += jobs::moves(&summary);
        }
        played.lost = plan.jobs.len().saturating_sub(played.ends_s.len());
        Ok(played)
    }

    /// Kills jobs that have not ended: the shells that started them end as well.
    fn end_jobs(&self, started: &mut [Child]) -> Result<()> {
        for node in self.lab.nodes() {
            let mut c = node.command("pkill");
            let names = format!("{}|{}", jobs::NAMES, tasks::NAMES);
            c.args(["-KILL", "-x", &names])
                .stdin(Stdio::null())
                .status()?;
        }
        let until = Instant::now() + END_MAX;
        while alive(started)? {
            if Instant::now() > until {
                for child in started.iter_mut() {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                bail!(
                    "jobs were killed and did not end within {} s",
                    END_MAX.as_secs()
                );
            }
            sleep(CHECK_EVERY);
        }
        Ok(())
    }

    /// GNU parallel with a slot for each core of each node, from outside the nodes: it uses the machine's own processors. Jobs
    /// are passed to it at their start times.
    fn parallel(&self, plan: &Plan) -> Result<[Child; 2]> {
        let exe = std::env::current_exe()?;
        let name = &self.lab.plan().name;
        let slots: Vec<&str> = self
            .lab
            .plan()
            .nodes
            .iter()
            .flat_map(|n| std::iter::repeat_n(&n.name[..], n.cores))
            .collect();
        let one = format!(
            "{} lab exec --name {name} $(printf '%s\\n' {} | sed -n {{%}}p) -- {{2}} {{3}} {{4}} && date '+{{1}} %s.%N' >> {}",
            exe.display(),
            slots.join(" "),
            self.path(0, "report")?.display()
        );
        let mut source = Command::new("bash");
        source
            .args(["-c", &jobs::lines(plan, DIR)])
            .stdin(Stdio::null());
        let mut source = source.stdout(Stdio::piped()).spawn()?;
        let jobs = source.stdout.take().map_or(Stdio::null(), Stdio::from);
        let slots = slots.len().to_string();
        let mut parallel = Command::new("parallel");
        parallel.args(["--will-cite", "-j", &slots, "--colsep", "\t", &one]);
        let parallel = parallel.stdin(jobs).stderr(Stdio::null()).spawn();
        match parallel.context("GNU parallel is not installed\nhint: apt-get install parallel") {
            Ok(parallel) => Ok([source, parallel]),
            Err(e) => {
                let _ = source.kill();
                source.wait()?;
                Err(e)
            }
        }
    }

    fn path(&self, home: usize, file: &str) -> Result<PathBuf> {
        let dir = DIR.trim_start_matches('/');
        Ok(self.lab.root(home + 1)?.join(dir).join(file))
    }

    fn read(&self, home: usize, file: &str) -> Result<String> {
        let path = self.path(home, file)?;
        fs::read_to_string(&path).with_context(|| format!("no {file} of n{}", home + 1))
    }

    fn cpu_us(&self) -> u64 {
        let dir = Dir::of(&self.lab.plan().name).ok();
        let pids = dir.and_then(|dir| dir.pids());
        let groups = pids.map(|p| p.groups).unwrap_or_default();
        groups.iter().filter_map(|dirs| cgroup::used_us(dirs)).sum()
    }

    /// After `Ok` no trace of the lab is left.
    pub fn down(self) -> Result<()> {
        self.lab.down()
    }
}

fn alive(started: &mut [Child]) -> Result<bool> {
    let mut alive = false;
    for child in started {
        alive |= child.try_wait()?.is_none();
    }
    Ok(alive)
}
