//! Faults and native work of a scenario, each at its time.

use super::jobs;
use crate::lab::{Lab, Node};
use crate::state::Dir;
use crate::{cgroup, farm};
use anyhow::{Context, Result, bail};
use armento_scenario::{Plan, What};
use std::process::{Child, Stdio};
use std::time::Duration;

/// An action on a node, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// So many native tasks begin; they are one work item.
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

impl Action {
    /// Whether it undoes another action.
    fn restores(&self, plan: &Plan) -> bool {
        match *self {
            Action::End { .. } | Action::Mend(_) | Action::Start(_) => true,
            Action::Speed(node, speed) => speed == plan.nodes[node].speed,
            _ => false,
        }
    }
}

/// The remaining actions, the next one last, and native work that runs.
pub struct Timeline<'a> {
    lab: &'a Lab,
    /// Whether its nodes run daemons.
    farm: bool,
    due: Vec<(f64, Action)>,
    native: Vec<(usize, Child)>,
    acted: bool,
}

impl<'a> Timeline<'a> {
    /// Native work with start time 0 begins at once.
    pub fn begin(lab: &'a Lab, plan: &Plan, farm: bool) -> Result<Timeline<'a>> {
        let mut timeline = Timeline {
            lab,
            farm,
            due: Vec::new(),
            native: Vec::new(),
            acted: false,
        };
        let due = actions(plan)?;
        let (now, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(at_s, _)| *at_s <= 0.0);
        for (_, action) in now {
            timeline.act(action)?;
        }
        timeline.due = later;
        timeline.due.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(timeline)
    }

    /// Performs the actions that are due.
    pub fn follow(&mut self, elapsed: Duration) -> Result<()> {
        while let Some((_, action)) = self.due.pop_if(|(at_s, _)| *at_s <= elapsed.as_secs_f64()) {
            self.act(action)?;
        }
        Ok(())
    }

    /// Restores the lab for the next scenario. True if there was something to restore.
    pub fn restore(mut self, plan: &Plan) -> Result<bool> {
        for (_, action) in std::mem::take(&mut self.due).into_iter().rev() {
            if action.restores(plan) {
                self.act(action)?;
            }
        }
        Ok(self.acted)
    }

    fn act(&mut self, action: Action) -> Result<()> {
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
        match action {
            Action::Begin {
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
            Action::End { work } => {
                for (_, mut child) in self.native.extract_if(.., |(of, _)| *of == work) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                return Ok(());
            }
            Action::Cut(i) => sh(i, "ip link set eth0 down")?,
            Action::Mend(i) => sh(i, "ip link set eth0 up")?,
            // KERNEL: kill(2): all but the caller and the first of a pid namespace.
            Action::Kill(i) => sh(i, "kill -KILL -1")?,
            Action::Start(i) if self.farm => farm::start_daemon(node(i))?,
            Action::Start(_) => {}
            Action::Speed(i, speed) => {
                let pids = Dir::of(&self.lab.plan().name)?
                    .pids()
                    .context("the lab has no list of processes")?;
                let groups = pids.groups.get(i).context("the lab has no such node")?;
                let plan = self.lab.plan();
                cgroup::change_speed(groups, speed, plan.nodes[i].cores, plan.period_ms)?;
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

/// All actions with their times, in no order.
fn actions(plan: &Plan) -> Result<Vec<(f64, Action)>> {
    let mut due = Vec::new();
    for (work, b) in plan.background.iter().enumerate() {
        let (node, tasks) = (b.node, b.tasks);
        due.push((b.from_s, Action::Begin { node, tasks, work }));
        due.extend(b.to_s.map(|to_s| (to_s, Action::End { work })));
    }
    for (n, event) in plan.events.iter().enumerate() {
        let (at_s, node) = (event.at_s, event.node);
        let mut both = |action: Action, for_s: f64, back: Action| {
            due.push((at_s, action));
            due.push((at_s + for_s, back));
        };
        match event.what {
            What::Crash { for_s } => both(Action::Kill(node), for_s, Action::Start(node)),
            What::Cut { for_s } => both(Action::Cut(node), for_s, Action::Mend(node)),
            What::Owner { tasks, for_s } => {
                let work = plan.background.len() + n;
                both(
                    Action::Begin { node, tasks, work },
                    for_s,
                    Action::End { work },
                );
            }
            What::Slow { percent, for_s } => {
                let speed = plan.nodes[node].speed;
                let slow = Action::Speed(node, speed * percent as f64 / 100.0);
                both(slow, for_s, Action::Speed(node, speed));
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
    fn each_fault_has_its_end() {
        let plan = plan(
            "[[background]]\nnode = 1\nfrom = 1.0\nto = 2.0\n\
             [[events]]\nat = 3.0\nnode = 2\nwhat = \"slow\"\npercent = 50\nfor = 4.0\n\
             [[events]]\nat = 5.0\nnode = 2\nwhat = \"owner\"\ntasks = 2\nfor = 1.0\n",
        );
        let (node, tasks) = (1, 2);
        let begins = Action::Begin {
            node: 0,
            tasks: 1,
            work: 0,
        };
        let want = [
            (1.0, begins),
            (2.0, Action::End { work: 0 }),
            (3.0, Action::Speed(1, 0.25)),
            (7.0, Action::Speed(1, 0.5)),
            (
                5.0,
                Action::Begin {
                    node,
                    tasks,
                    work: 2,
                },
            ),
            (6.0, Action::End { work: 2 }),
        ];
        let due = actions(&plan).expect("a lab can do all that");
        assert_eq!(due, want);
        let restoring = due.iter().filter(|(_, action)| action.restores(&plan));
        let restoring: Vec<f64> = restoring.map(|(at_s, _)| *at_s).collect();
        assert_eq!(restoring, [2.0, 7.0, 6.0]);
    }

    #[test]
    fn clocks_cannot_be_skewed() {
        let plan = plan("[[events]]\nat = 3.0\nnode = 2\nwhat = \"skew\"\nppm = 500\n");
        let e = actions(&plan).expect_err("one clock").to_string();
        assert!(e.contains("armento sim"), "{e}");
    }
}
