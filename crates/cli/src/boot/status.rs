//! `armento boot status` and `armento boot why`: the progress that all boot servers know, as one.

use super::place::{Place, farm};
use crate::out::{Failure, say, say_json, table};
use crate::watch;
use anyhow::Result;
use armento_fabric::addr::Mac;
use armento_fabric::inventory::{Farm, Root};
use armento_model::span;
use armento_provision::init;
use armento_provision::layout::Settings;
use armento_provision::stage::{Board, Progress, Step, why as judge};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STATUS_HELP: &str = "Examples:
  armento boot status
  armento boot status -f            again each second
  armento boot status --json | jq '.machines[] | select(.well | not)'

All boot servers of the inventory are asked; one that does not answer is named.";
const WHY_HELP: &str = "Examples:
  armento boot why n03
  armento boot why 00:1b:21:aa:bb:cc";

/// How often `-f` asks.
const EVERY: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = STATUS_HELP)]
pub struct Args {
    /// Show it again each second
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    place: Place,
    /// Print JSON (schema armento.boot.status/1)
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = WHY_HELP)]
pub struct WhyArgs {
    /// A node's name, or the address of a card
    #[arg(value_name = "NODE|MAC")]
    machine: String,
    #[command(flatten)]
    place: Place,
    /// Print JSON (schema armento.boot.why/1)
    #[arg(long)]
    json: bool,
}

/// What all boot servers know.
struct Known {
    farm: Farm,
    board: Board,
    /// Boot servers that did not answer, with the reason.
    silent: BTreeMap<String, String>,
    now_ms: u64,
}

/// The progress of all machines.
pub fn known(place: &Place) -> Result<Board> {
    Ok(ask(&place.settings()?)?.board)
}

/// The same, for a change that a node which is not seen would not survive.
pub fn known_by_all(place: &Place) -> Result<Board> {
    let known = ask(&place.settings()?)?;
    match known.silent.first_key_value() {
        None => Ok(known.board),
        Some((name, why)) => {
            let failure = Failure {
                message: format!(
                    "boot server {name} does not answer ({why}), so it is not known what its nodes use; nothing was removed"
                ),
                hint: "start `armento boot serve` there, or take it out of boot_servers; --force removes it all the same".into(),
            };
            Err(failure.into())
        }
    }
}

fn ask(settings: &Settings) -> Result<Known> {
    let farm = farm(settings)?;
    let net = farm.boot_net().map(|n| n.name.clone()).unwrap_or_default();
    let mut board = Board::default();
    let mut silent = BTreeMap::new();
    for name in &farm.boot_servers {
        let Some(address) = farm.node(name).and_then(|n| n.address(&net)) else {
            continue;
        };
        match init::status(std::net::SocketAddr::new(address, settings.http)) {
            Ok(theirs) => board.merge(theirs),
            Err(e) => {
                silent.insert(name.clone(), e);
            }
        }
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Known {
        farm,
        board,
        silent,
        now_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
    })
}

/// One machine of the table.
struct Row<'a> {
    node: Option<&'a str>,
    mac: Option<Mac>,
    progress: Option<&'a Progress>,
}

impl Known {
    /// Machines that booted or ask to, and nodes that were not heard of.
    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row> = self
            .board
            .machines
            .iter()
            .map(|(mac, p)| Row {
                node: p.node.as_deref(),
                mac: Some(*mac),
                progress: Some(p),
            })
            .collect();
        let net = self.farm.boot_net().map(|n| n.name.as_str());
        for node in self.farm.nodes.iter().filter(|n| n.root != Root::Disk) {
            if !rows.iter().any(|r| r.node == Some(&node.name)) {
                rows.push(Row {
                    node: Some(&node.name),
                    mac: net.and_then(|n| node.boot_macs(n).first().copied()),
                    progress: None,
                });
            }
        }
        // Names first, as the inventory has them; unknown machines after them.
        rows.sort_by_key(|r| {
            let number = r.node.and_then(|n| self.farm.node(n)).map(|n| n.number);
            (number.is_none(), number, r.mac)
        });
        rows
    }

    fn silence(&self) -> String {
        let line = |(name, why): (&String, &String)| {
            format!("boot server {name} does not answer: {why}\n")
        };
        self.silent.iter().map(line).collect()
    }

    fn text(&self) -> String {
        let cells = |r: &Row| {
            let verdict = judge(r.progress, self.now_ms);
            let step = r.progress.map_or("-", |p| p.step().word());
            let took = r
                .progress
                .map_or("-".into(), |p| span(p.at_ms().saturating_sub(p.began_ms())));
            let ago = r
                .progress
                .map_or("-".into(), |p| span(self.now_ms.saturating_sub(p.at_ms())));
            let note = match (&verdict.well, r.progress) {
                (true, _) => String::new(),
                (false, Some(p)) if p.node.is_none() => "waits: armento boot claim".into(),
                (false, Some(p)) if p.trouble.is_some() => {
                    p.trouble.clone().unwrap_or_default().replace('\n', " ")
                }
                (false, Some(_)) => "stuck: armento boot why".into(),
                (false, None) => "not heard of".into(),
            };
            vec![
                r.node.unwrap_or("?").to_owned(),
                r.mac.map_or("-".into(), |m| m.to_string()),
                step.to_owned(),
                took,
                ago,
                r.progress
                    .and_then(|p| p.image.clone())
                    .unwrap_or_else(|| "-".into()),
                note,
            ]
        };
        let heads = [
            ("NODE", false),
            ("CARD", false),
            ("STEP", false),
            ("TOOK", true),
            ("AGO", true),
            ("IMAGE", false),
            ("", false),
        ];
        let rows: Vec<Vec<String>> = self.rows().iter().map(cells).collect();
        match rows.is_empty() {
            true => format!("no machine boots from here\n{}", self.silence()),
            false => table(&heads, &rows) + &self.silence(),
        }
    }

    fn document(&self, row: &Row) -> Value {
        let verdict = judge(row.progress, self.now_ms);
        let marks = row.progress.map(|p| &p.marks);
        json!({
            "node": row.node, "mac": row.mac, "step": row.progress.map(Progress::step), "marks": marks,
            "image": row.progress.and_then(|p| p.image.clone()), "boots": row.progress.map(|p| p.boots),
            "trouble": row.progress.and_then(|p| p.trouble.clone()),
            "well": verdict.well, "text": verdict.text, "causes": verdict.causes,
        })
    }
}

pub fn run(args: &Args) -> Result<i32> {
    let settings = args.place.settings()?;
    if args.follow {
        return watch::repeat(EVERY, || Ok(ask(&settings)?.text()));
    }
    let known = ask(&settings)?;
    if args.json {
        let machines: Vec<Value> = known.rows().iter().map(|r| known.document(r)).collect();
        say_json(
            "armento.boot.status/1",
            json!({ "machines": machines, "silent_servers": known.silent }),
        );
    } else {
        say(&known.text());
    }
    Ok(0)
}

pub fn why(args: &WhyArgs) -> Result<i32> {
    let known = ask(&args.place.settings()?)?;
    let mac: Option<Mac> = args.machine.parse().ok();
    let rows = known.rows();
    let row = rows
        .iter()
        .find(|r| r.node == Some(&args.machine) || (mac.is_some() && r.mac == mac));
    let disk = known
        .farm
        .node(&args.machine)
        .is_some_and(|n| n.root == Root::Disk);
    let row = row.filter(|_| !disk).ok_or_else(|| {
        let message = match disk {
            true => format!(
                "{} has a disk and does not boot from the farm",
                args.machine
            ),
            false => format!("no node and no machine is called {}", args.machine),
        };
        Failure {
            message,
            hint: "armento boot status lists the machines that boot from here".into(),
        }
    })?;
    if args.json {
        say_json("armento.boot.why/1", known.document(row));
        return Ok(0);
    }
    let verdict = judge(row.progress, known.now_ms);
    let name = row.node.map_or_else(|| args.machine.clone(), str::to_owned);
    let mut text = format!("{name}: {}\n", verdict.text);
    let began = row.progress.map_or(0, Progress::began_ms);
    for mark in row.progress.iter().flat_map(|p| &p.marks) {
        text += &format!(
            "  {:>8}  {}\n",
            span(mark.at_ms.saturating_sub(began)),
            mark.step.text()
        );
    }
    if row.progress.is_some_and(|p| p.step() < Step::Joined) || !verdict.well {
        for cause in &verdict.causes {
            text += &format!("perhaps: {}\n         {}\n", cause.what, cause.remedy);
        }
    }
    say(&(text + &known.silence()));
    Ok(0)
}
