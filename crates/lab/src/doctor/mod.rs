//! `armento doctor`: what this machine can and cannot do, with remedies.
//!
//! Each result comes from a trial, not from a version number, where the trial changes nothing: probes that need
//! namespaces run in child processes.

mod check;
mod clock;
mod engine;
mod machine;
mod mfs;
mod stage;
mod sys;
mod walls;

pub use check::{Check, Need, State, Tier};

use anyhow::Result;
use serde_json::json;

/// Version of what `--json` prints.
const JSON_VERSION: u32 = 1;

const HELP: &str = "Examples:
  armento doctor
  armento doctor --lab
  armento doctor --json | jq '.checks[] | select(.state != \"ok\")'
  armento doctor --calls
  armento doctor --calls | grep futex
  armento doctor --calls --json | jq -r '.calls[] | select(.place == \"comes home\") | .name'

Exits with 0 when this machine can be a node of a farm, with 1 when not.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Print the table of system calls instead: where each runs when its process is away
    #[arg(long)]
    pub calls: bool,
    /// Also check what labs need (root, overlayfs, network namespaces)
    #[arg(long, conflicts_with = "calls")]
    pub lab: bool,
    /// Print JSON (schema armento.doctor/1; with --calls armento.calls/1)
    #[arg(long)]
    pub json: bool,
}

/// Runs all checks as the calling user; those for labs only on request.
pub fn examine(lab: bool) -> (Tier, Vec<Check>) {
    let daemon_owner = machine::daemon_owner();
    let mut checks = engine::checks(daemon_owner);
    let tier = engine::tier(&checks);
    if lab {
        checks.extend(stage::checks());
    }
    checks.extend(machine::checks());
    checks.push(mfs::check());
    checks.extend(walls::checks(daemon_owner));
    (tier, checks)
}

/// Prints the results; 0 when a farm is possible. Before: the process has one thread.
pub fn run(args: Args) -> Result<i32> {
    let (tier, checks) = examine(args.lab);
    let farm = possible(&checks, &[Need::Farm]);
    let lab = args
        .lab
        .then(|| possible(&checks, &[Need::Farm, Need::Lab]));
    if args.json {
        say!(
            "{}",
            json!({ "schema": "armento.doctor/1", "v": JSON_VERSION, "tier": tier, "farm": farm, "lab": lab, "checks": checks })
        );
    } else {
        crate::say::write_out(format_args!("{}", text(tier, farm, lab, &checks)));
    }
    Ok(i32::from(!farm))
}

fn possible(checks: &[Check], needs: &[Need]) -> bool {
    !checks
        .iter()
        .any(|c| c.state == State::Missing && needs.contains(&c.need))
}

fn text(tier: Tier, farm: bool, lab: Option<bool>, checks: &[Check]) -> String {
    let mut out = String::new();
    for c in checks {
        let state = match c.state {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        };
        out += &format!("{state:<8} {:<16} {}\n", c.id, c.found);
        if !c.remedy.is_empty() {
            out += &format!("{:25} hint: {}\n", "", c.remedy);
        }
    }
    let yes = |b: bool| if b { "possible" } else { "not possible" };
    let lab = lab.map_or_else(String::new, |lab| format!(", a lab is {}", yes(lab)));
    out + &format!(
        "\ntier: {}\na farm is {} here{lab}\n",
        tier.text(),
        yes(farm)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_requirements_forbid_a_farm() {
        let check = |need, state, farm, lab| {
            let c = [Check::new("x", need, state, "found", "do this")];
            assert_eq!(
                (
                    possible(&c, &[Need::Farm]),
                    possible(&c, &[Need::Farm, Need::Lab])
                ),
                (farm, lab)
            );
        };
        check(Need::Farm, State::Missing, false, false);
        check(Need::Farm, State::Limited, true, true);
        check(Need::Lab, State::Missing, true, false);
        check(Need::Nothing, State::Missing, true, true);
    }

    #[test]
    fn failed_checks_are_printed_with_remedies() {
        let checks = [
            Check::new("good", Need::Farm, State::Ok, "works", "never shown"),
            Check::new("bad", Need::Lab, State::Missing, "absent", "do this"),
        ];
        let out = text(Tier::Full, true, Some(false), &checks);
        assert!(
            out.contains("ok       good") && out.contains("missing  bad"),
            "{out}"
        );
        assert_eq!(out.matches("hint: ").count(), 1);
        assert!(out.ends_with("a farm is possible here, a lab is not possible\n"));
        let out = text(Tier::Full, true, None, &checks);
        assert!(out.ends_with("a farm is possible here\n"));
    }
}
