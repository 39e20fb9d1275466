//! `armento farm recover`: programs of a lost home go on here, from the checkpoints that this node keeps.
//!
//! From: `cli/src/farm.rs`. Next: `start.rs`.

mod start;

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, ask, say, say_json, table, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, KeptInfo, RecoverStep};
use armento_model::{NodeName, clean};
use serde_json::json;
use start::{start, step};
use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = "Examples:
  armento farm recover --list                what is kept, where, and whether it can be recovered now
  armento farm recover --dry-run --all
  armento farm recover n1-00a3b5c7d9e1f203   goes on here, with its output in a file
  armento farm recover --all                 all of this user's that this node keeps, or of all users if root asks

Programs that were started with `armento run --safe=remote` have a checkpoint at another node. When their home is lost they go
on from it, on the node that keeps it, under new pids. What they have done since is undone in their files, and done again.";

/// For one answer of the daemon, which may ask all others in turn.
const LISTED: Duration = Duration::from_secs(60);
/// Characters of a command in a list.
const COMMAND_SHOWN: usize = 60;
#[derive(clap::Args)]
pub struct Recover {
    /// Checkpoints, as --list names them
    #[arg(value_name = "ID", required_unless_present_any = ["list", "all"], conflicts_with_all = ["list", "all"])]
    ids: Vec<String>,
    /// Show what is kept, on all nodes
    #[arg(long, conflicts_with_all = ["all", "output", "forget", "dry_run"])]
    list: bool,
    /// All that this node keeps and that can be recovered now
    #[arg(long)]
    all: bool,
    /// Standard output and error of the program go to this file [default: armento-ID.out in the user's home directory]
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    output: Option<PathBuf>,
    /// The home is off: where its keeper has ended, and the program may run there without one, only a person knows it
    #[arg(long, conflicts_with_all = ["list", "all", "forget"])]
    home_is_off: bool,
    /// Keep it no longer, and start nothing
    #[arg(long, conflicts_with_all = ["all", "output"])]
    forget: bool,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.kept/1 of --list, armento.recovered/1)
    #[arg(long)]
    json: bool,
}

pub fn recover(args: &Recover) -> anyhow::Result<i32> {
    let (kept, silent) = kept()?;
    if args.list {
        return Ok(list(&kept, &silent, args.json));
    }
    if args.output.is_some() && args.ids.len() > 1 {
        return Err(Failure {
            message: "--output names one file, and several programs are named; nothing was started"
                .into(),
            hint: "recover one after the other".into(),
        }
        .into());
    }
    let here = match ask(Ask::Status, ANSWER)? {
        Answer::Status { node, .. } => node,
        _ => return Err(unexpected_answer()),
    };
    let chosen = chosen(args, &kept, &here)?;
    if args.dry.dry_run {
        let would: Vec<String> = chosen.iter().map(|k| plan(args, k)).collect();
        return Ok(dry_run::show(&would, args.json));
    }
    let mut done = Vec::new();
    let mut code = 0;
    for k in chosen {
        if args.forget {
            step(&k.id, RecoverStep::Forget)?;
            say(&format!("{} is not kept any more\n", k.id));
            continue;
        }
        match start(k, args.output.as_deref(), args.home_is_off) {
            Ok(begun) => {
                if !args.json {
                    say(&begun.text(k));
                }
                done.push(json!({ "id": k.id, "pid": begun.pid, "output": begun.output }));
            }
            // The others can be recovered all the same.
            Err(e) if args.all => {
                eprintln!("armento: {e:#}");
                code = crate::out::FAILED;
            }
            Err(e) => return Err(e),
        }
    }
    if args.json {
        say_json("armento.recovered/1", json!({ "recovered": done }));
    }
    Ok(code)
}

fn kept() -> anyhow::Result<(Vec<KeptInfo>, Vec<NodeName>)> {
    match ask(Ask::Kept { all: true }, LISTED)? {
        Answer::Kept { kept, silent } => Ok((kept, silent)),
        _ => Err(unexpected_answer()),
    }
}

fn list(kept: &[KeptInfo], silent: &[NodeName], as_json: bool) -> i32 {
    if as_json {
        say_json("armento.kept/1", json!({ "kept": kept, "silent": silent }));
        return 0;
    }
    let row = |k: &KeptInfo| {
        vec![
            k.id.clone(),
            k.node.to_string(),
            clean(&k.user),
            age(k),
            format!("{:.1} MiB", k.bytes as f64 / f64::from(1 << 20)),
            k.refused
                .clone()
                .unwrap_or_else(|| "can be recovered".into()),
            clean(&k.command).chars().take(COMMAND_SHOWN).collect(),
        ]
    };
    let rows: Vec<Vec<String>> = kept.iter().map(row).collect();
    let heads = [
        ("ID", false),
        ("KEPT AT", false),
        ("USER", false),
        ("AGE", true),
        ("SIZE", true),
        ("NOW", false),
        ("COMMAND", false),
    ];
    let mut text = match rows.is_empty() {
        true => "nothing is kept for this user\n".to_owned(),
        false => table(&heads, &rows),
    };
    for node in silent {
        text += &format!("{node} does not answer: what it keeps is missing here\n");
    }
    say(&text);
    0
}

fn age(k: &KeptInfo) -> String {
    format!("{} s", k.age_ms / 1000)
}

/// Those that were named, or all that can be recovered here.
fn chosen<'a>(
    args: &Recover,
    kept: &'a [KeptInfo],
    here: &NodeName,
) -> Result<Vec<&'a KeptInfo>, Failure> {
    if args.all {
        let can = |k: &&KeptInfo| k.node == *here && k.refused.is_none();
        let all: Vec<&KeptInfo> = kept.iter().filter(can).collect();
        return match all.is_empty() {
            true => Err(Failure {
                message: "this node keeps nothing that can be recovered now; nothing was started"
                    .into(),
                hint: "`armento farm recover --list` shows what is kept, and why".into(),
            }),
            false => Ok(all),
        };
    }
    let named = |id: &String| {
        let found: Vec<&KeptInfo> = kept.iter().filter(|k| k.id == *id).collect();
        let own = found.iter().find(|k| k.node == *here);
        let k = own.or(found.first()).ok_or_else(|| Failure {
            message: format!(
                "no checkpoint `{}` of yours is kept; nothing was started",
                clean(id)
            ),
            hint: "`armento farm recover --list` shows what is kept, and where".into(),
        })?;
        if k.node != *here {
            return Err(Failure {
                message: format!("{id} is kept at {}; nothing was started", k.node),
                hint: format!("run `armento farm recover {id}` on {}", k.node),
            });
        }
        let stated = args.home_is_off && k.unsure && !k.home_alive && k.wait_ms == 0;
        match &k.refused {
            Some(_) if stated && !k.taken => Ok(*k),
            Some(why) => Err(Failure {
                message: format!("{id}: {why}; nothing was started"),
                hint: match k.home_alive {
                    true => "it can be recovered when its home is lost".into(),
                    false if k.unsure && k.wait_ms == 0 => {
                        "be sure that its home is off, then add --home-is-off".into()
                    }
                    false => "`armento farm recover --list` shows when it can be".into(),
                },
            }),
            None => Ok(*k),
        }
    };
    args.ids.iter().map(named).collect()
}

fn plan(args: &Recover, k: &KeptInfo) -> String {
    let command = clean(&k.command);
    match args.forget {
        true => format!("keep {} ({command}) no longer", k.id),
        false => format!(
            "let {command} of {} go on here as it was {} ago, as user {}",
            k.home,
            age(k),
            clean(&k.user)
        ),
    }
}
