//! Jobs as tasks of PVM: `deal` on n1 starts them, and PVM places each, in turn on all nodes.

use super::jobs::put;
use crate::lab::Lab;
use crate::pvm;
use anyhow::{Result, bail};
use armento_scenario::Plan;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

const DEAL: &str = include_str!("../../../../guests/pvm/deal.c");
const TASK: &str = include_str!("../../../../guests/pvm/task.c");
/// What PVM starts for a job: the task, or a script that runs it under Armento.
const PLAIN: &str = "pvm-task";
const MOVED: &str = "pvm-moved";
/// The names of the processes, for pkill(1).
pub const NAMES: &str = "pvm-task|pvm-deal";
/// The list of jobs, on n1.
const LIST: &str = "/var/tmp/pvm/list";

/// Compiles and installs the programs, and starts PVM. `dir`: for temporary files; `reports`: of the nodes.
pub fn raise(lab: &Lab, dir: &Path, reports: &str) -> Result<()> {
    let task = pvm::compile(dir, PLAIN, TASK)?;
    let deal = pvm::compile(dir, "pvm-deal", DEAL)?;
    // PVM: pvm_intro(1PVM): a task is known by its pid, which exec keeps.
    let moved = format!(
        "#!/bin/sh\nexport ARMENTO_SUMMARY={reports}/summary\nexec armento run {}/{PLAIN} \"$@\"\n",
        pvm::DIR
    );
    for i in 1..=lab.nodes().len() {
        let root = lab.root(i)?.join(pvm::DIR.trim_start_matches('/'));
        fs::create_dir_all(&root)?;
        for (name, bytes) in [
            (PLAIN, &task[..]),
            ("pvm-deal", &deal),
            (MOVED, moved.as_bytes()),
        ] {
            put(bytes, &root.join(name))?;
        }
    }
    pvm::start(lab)
}

/// Starts all jobs of the plan at their times. The report is n1's.
pub fn begin(lab: &Lab, plan: &Plan, farm: bool, reports: &str) -> Result<Child> {
    if plan.jobs.iter().any(|j| j.copy.is_some()) {
        bail!("tasks of PVM do not copy files\nhint: use another policy for this scenario");
    }
    let line = |(i, job): (usize, &armento_scenario::Job)| {
        format!("{i} {:.3} {:.3} {}\n", job.at_s, job.work_s, job.mem_mib)
    };
    let list: String = plan.jobs.iter().enumerate().map(line).collect();
    fs::write(lab.root(1)?.join(LIST.trim_start_matches('/')), list)?;
    let program = format!("{}/{}", pvm::DIR, if farm { MOVED } else { PLAIN });
    let mut deal: Command = pvm::command(lab.node(1), &format!("{}/pvm-deal", pvm::DIR));
    deal.args([&program, LIST, &format!("{reports}/report")]);
    Ok(deal.spawn()?)
}
