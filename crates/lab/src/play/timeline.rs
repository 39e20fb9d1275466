//! Troubles and native work of a scenario, each at its moment.

use super::jobs;
use crate::lab::{Lab, Node};
use crate::state::Dir;
use crate::{cgroup, farm};
use anyhow::{Context, Result, bail};
use armento_scenario::{Plan, What};
use std::process::{Child, Stdio};
use std::time::Duration;

/// What is done to a node, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    /// So many native tasks begin; they are one work.
    Begin {
        node: usize,
        tasks: usize,
        work: usize,
    },
    End {
        work: usize,
    },
    Cut(usize),
    Mend(usize),
    Kill(usize),
    Start(usize),
    Speed(usize, f64),
}

impl Deed {
    /// It makes good what another did.
    fn restores(&self, plan: &Plan) -> bool {
        match *self {
            Deed::End { .. } | Deed::Mend(_) | Deed::Start(_) => true,
            Deed::Speed(node, speed) => speed == plan.nodes[node].speed,
            _ => false,
        }
    }
}

/// What is still to be done, the next last, and what goes on.
pub struct Timeline<'a> {
    lab: &'a Lab,
    /// Its nodes run daemons.
    farm: bool,
    due: Vec<(f64, Deed)>,
    native: Vec<(usize, Child)>,
    acted: bool,
}

impl<'a> Timeline<'a> {
    /// Native work of the first moment begins at once.
    pub fn begin(lab: &'a Lab, plan: &Plan, farm: bool) -> Result<Timeline<'a>> {
        let mut timeline = Timeline {
            lab,
            farm,
            due: Vec::new(),
            native: Vec::new(),
            acted: false,
        };
        let due = deeds(plan)?;
        let (now, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(at_s, _)| *at_s <= 0.0);
        for (_, deed) in now {
            timeline.act(deed)?;
        }
        timeline.due = later;
        timeline.due.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(timeline)
    }

    /// Whatever is due by now.
    pub fn follow(&mut self, elapsed: Duration) -> Result<()> {
        while let Some((_, deed)) = self.due.pop_if(|(at_s, _)| *at_s <= elapsed.as_secs_f64()) {
            self.act(deed)?;
        }
        Ok(())
    }

    /// Everything as it was before, for what is played next. True: something had to be done.
    pub fn restore(mut self, plan: &Plan) -> Result<bool> {
        for (_, deed) in std::mem::take(&mut self.due).into_iter().rev() {
            if deed.restores(plan) {
                self.act(deed)?;
            }
        }
        Ok(self.acted)
    }

    fn act(&mut self, deed: Deed) -> Result<()> {
        let node = |i: usize| self.lab.node(i + 1);
        let sh = |i: usize, script: &str| -> Result<()> {
            let mut c = node(i).command("sh");
            let done = c.args(["-c", script]).stdin(Stdio::null()).output()?;
            if !done.status.success() {
                let why = String::from_utf8_lossy(&done.stderr).into_owned();
                bail!("n{}: `{script}`: {}", i + 1, why.trim());
            }
            Ok(())
        };
        match deed {
            Deed::Begin {
                node: i,
                tasks,
                work,
            } => {
                for _ in 0..tasks {
                    let child = endless(node(i))?;
                    self.native.push((work, child));
                }
                return Ok(());
            }
            Deed::End { work } => {
                for (_, mut child) in self.native.extract_if(.., |(of, _)| *of == work) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                return Ok(());
            }
            Deed::Cut(i) => sh(i, "ip link set eth0 down")?,
            Deed::Mend(i) => sh(i, "ip link set eth0 up")?,
            // KERNEL: kill(2): all but the caller and the first of a pid namespace.
            Deed::Kill(i) => sh(i, "kill -KILL -1")?,
            Deed::Start(i) if self.farm => farm::start_daemon(node(i))?,
            Deed::Start(_) => {}
            Deed::Speed(i, speed) => {
                let pids = Dir::of(&self.lab.plan().name)?
                    .pids()
                    .context("the lab has no list of processes")?;
                let groups = pids.groups.get(i).context("the lab has no such node")?;
                cgroup::change_speed(groups, speed)?;
            }
        }
        self.acted = true;
        Ok(())
    }
}

impl Drop for Timeline<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.native {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn endless(node: &Node) -> Result<Child> {
    let [name, args @ ..] = jobs::program(jobs::ENDLESS_S, 0);
    let mut c = node.command(&name);
    let c = c.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(c.spawn()?)
}

/// What happens when, in no order.
fn deeds(plan: &Plan) -> Result<Vec<(f64, Deed)>> {
    let mut due = Vec::new();
    for (work, b) in plan.background.iter().enumerate() {
        let (node, tasks) = (b.node, b.tasks);
        due.push((b.from_s, Deed::Begin { node, tasks, work }));
        due.extend(b.to_s.map(|to_s| (to_s, Deed::End { work })));
    }
    for (n, event) in plan.events.iter().enumerate() {
        let (at_s, node) = (event.at_s, event.node);
        let mut both = |deed: Deed, for_s: f64, back: Deed| {
            due.push((at_s, deed));
            due.push((at_s + for_s, back));
        };
        match event.what {
            What::Crash { for_s } => both(Deed::Kill(node), for_s, Deed::Start(node)),
            What::Cut { for_s } => both(Deed::Cut(node), for_s, Deed::Mend(node)),
            What::Owner { tasks, for_s } => {
                let work = plan.background.len() + n;
                both(Deed::Begin { node, tasks, work }, for_s, Deed::End { work });
            }
            What::Slow { percent, for_s } => {
                let speed = plan.nodes[node].speed;
                let slow = Deed::Speed(node, speed * percent as f64 / 100.0);
                both(slow, for_s, Deed::Speed(node, speed));
            }
            What::Skew { .. } => {
                bail!("the nodes of a lab have one clock\nhint: `armento sim` plays `skew`")
            }
        }
    }
    Ok(due)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_scenario::Scenario;

    fn plan(events: &str) -> Plan {
        let text = format!(
            "about = \"t\"\nseries = [1]\n[[nodes]]\ncount = 2\nspeed = 0.5\n[[jobs]]\nseconds = 1.0\n{events}"
        );
        Scenario::parse(&text).expect("good").plan(1, 1)
    }

    #[test]
    fn each_trouble_has_its_end() {
        let plan = plan(
            "[[background]]\nnode = 1\nfrom = 1.0\nto = 2.0\n\
             [[events]]\nat = 3.0\nnode = 2\nwhat = \"slow\"\npercent = 50\nfor = 4.0\n\
             [[events]]\nat = 5.0\nnode = 2\nwhat = \"owner\"\ntasks = 2\nfor = 1.0\n",
        );
        let (node, tasks) = (1, 2);
        let begins = Deed::Begin {
            node: 0,
            tasks: 1,
            work: 0,
        };
        let want = [
            (1.0, begins),
            (2.0, Deed::End { work: 0 }),
            (3.0, Deed::Speed(1, 0.25)),
            (7.0, Deed::Speed(1, 0.5)),
            (
                5.0,
                Deed::Begin {
                    node,
                    tasks,
                    work: 2,
                },
            ),
            (6.0, Deed::End { work: 2 }),
        ];
        let due = deeds(&plan).expect("a lab can do all that");
        assert_eq!(due, want);
        let restoring = due.iter().filter(|(_, deed)| deed.restores(&plan));
        let restoring: Vec<f64> = restoring.map(|(at_s, _)| *at_s).collect();
        assert_eq!(restoring, [2.0, 7.0, 6.0]);
    }

    #[test]
    fn clocks_cannot_be_skewed() {
        let plan = plan("[[events]]\nat = 3.0\nnode = 2\nwhat = \"skew\"\nppm = 500\n");
        let e = deeds(&plan).expect_err("one clock").to_string();
        assert!(e.contains("armento sim"), "{e}");
    }
}
