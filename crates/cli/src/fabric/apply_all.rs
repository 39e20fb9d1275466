//! `armento fabric apply --all`: each node changes its own network in turn, with its own timer and way back.
//!
//! From: `cli/src/fabric/apply.rs`. A node is asked by the user's remote shell, as `doctor --rsh` does it: a daemon runs no
//! commands for others. A node keeps its change only after it was reached again over its new network.

use super::remote;
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::inventory::Farm;
use armento_lab::Waiting;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A command on another node takes no longer, where a broken network would have it wait.
const ANSWERS: Duration = Duration::from_secs(20);
/// Between two tries to reach a node over its new network.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// How nodes are reached, and what is done there.
pub struct All {
    pub rsh: String,
    /// The inventory, at the same place on each node.
    pub farm: PathBuf,
    pub confirm_s: u64,
    pub backend: Option<String>,
    pub dry_run: bool,
    pub json: bool,
}

pub fn run(farm: &Farm, all: &All) -> Result<i32> {
    let own = super::node(farm, None).ok().map(|n| n.name.clone());
    let mut names: Vec<&str> = farm.nodes.iter().map(|n| n.name.as_str()).collect();
    // This node last: its own network leads to the others.
    names.sort_by_key(|n| own.as_deref() == Some(*n));
    let waiting = Waiting::new("");
    let mut done: Vec<&str> = Vec::new();
    let mut said = Vec::new();
    for (i, name) in names.iter().enumerate() {
        waiting.say(format!("{name}, {} of {}", i + 1, names.len()));
        let here = own.as_deref() == Some(*name);
        match all.one(name, here) {
            Ok(text) => said.push((*name, text)),
            Err(why) => {
                drop(waiting);
                let left: Vec<&str> = names[i + 1..].to_vec();
                return Err(all.stopped(name, &why, &done, &left).into());
            }
        }
        done.push(name);
    }
    drop(waiting);
    match (all.json, all.dry_run) {
        (true, _) => say_json(
            "armento.fabric.apply-all/1",
            json!({ "dry_run": all.dry_run, "nodes": done }),
        ),
        (false, true) => say(&said
            .iter()
            .flat_map(|(n, text)| text.lines().map(move |l| format!("would, on {n}: {l}\n")))
            .collect::<String>()),
        (false, false) => say(&format!("applied and kept: {}\n", list(&done))),
    }
    Ok(0)
}

fn list(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

impl All {
    /// Changes one node, reaches it again, and has it keep the change.
    fn one(&self, name: &str, here: bool) -> Result<String, String> {
        let confirm = self.confirm_s.to_string();
        let mut apply = vec!["apply", "--node", name, "--confirm", &confirm];
        if let Some(backend) = &self.backend {
            apply.extend(["--for", backend]);
        }
        if self.dry_run {
            apply.push("--dry-run");
            return self.ask(name, here, &apply, true);
        }
        let begun = Instant::now();
        self.ask(name, here, &apply, true)?;
        // Half of the time before it undoes itself: the rest is for the confirmation.
        let until = begun + Duration::from_secs(self.confirm_s) / 2;
        loop {
            match self.ask(name, here, &["check", "--node", name], true) {
                Ok(_) => break,
                Err(why) if Instant::now() >= until => {
                    return Err(format!("it is not reached over its new network: {why}"));
                }
                Err(_) => sleep(TRY_EVERY),
            }
        }
        self.ask(name, here, &["confirm"], false)
    }

    /// Runs `armento fabric WORDS` there.
    fn ask(&self, name: &str, here: bool, words: &[&str], farm: bool) -> Result<String, String> {
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut rsh = self.rsh.split_whitespace();
        let mut command = match here {
            true => Command::new(&exe),
            false => {
                let mut command = Command::new(rsh.next().unwrap_or("ssh"));
                command.args(rsh).arg(name).arg(&exe);
                command
            }
        };
        command.arg("fabric").args(words);
        if farm {
            command.arg("--farm").arg(&self.farm);
        }
        let ended = remote::run(&mut command, ANSWERS)?;
        if ended.status.success() {
            return Ok(ended.out);
        }
        let first = ended.err.lines().next();
        let first = first.unwrap_or("it failed and said nothing");
        Err(armento_model::clean(
            first.strip_prefix("armento: ").unwrap_or(first),
        ))
    }

    fn stopped(&self, at: &str, why: &str, done: &[&str], left: &[&str]) -> Failure {
        let back = match self.dry_run {
            true => String::new(),
            false => format!("; what it changed is undone after {} s", self.confirm_s),
        };
        Failure {
            message: format!(
                "stopped at {at}: {why}{back}; kept: {}; not asked: {}",
                list(done),
                list(left)
            ),
            hint: format!(
                "`{} {at} true` shows whether it is reached; program and inventory must be at the same place there",
                self.rsh
            ),
        }
    }
}
