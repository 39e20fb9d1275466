//! `armento boot view`.

use crate::fabric::{Source, node};
use crate::out::{Failure, say, say_json, table};
use anyhow::Result;
use armento_fabric::inventory::{Farm, Node};
use armento_provision::view::{Client, Rule, Seen, ViewError, split, walk};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const HELP: &str = "Examples:
  armento boot view --root /srv/root /etc/hostname              for every node
  armento boot view --root /srv/root /etc/hostname --node n2    for one, with all variants

Files named `NAME$$TAG$$` (ClusterNFS) are shown to some nodes as NAME: see `armento fabric`'s manual.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// As the node names it
    path: PathBuf,
    /// The directory that nodes have as their root
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Only this node
    #[arg(long, value_name = "N")]
    node: Option<String>,
    /// Print JSON (schema armento.boot.view/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let farm = args.source.read()?;
    let nodes: Vec<&Node> = match &args.node {
        Some(name) => vec![node(&farm, Some(name))?],
        None => farm.nodes.iter().collect(),
    };
    let mut views = Vec::new();
    for node in nodes {
        let Some(client) = client(&farm, node) else {
            continue;
        };
        let seen = walk(&args.root, &args.path, &client, &list).map_err(|e| failure(&e))?;
        views.push((node.name.as_str(), seen));
    }
    let strange = strangers(&farm, &views);
    if args.json {
        let views: Vec<Value> = views.iter().map(|(n, s)| view(n, s)).collect();
        say_json(
            "armento.boot.view/1",
            json!({ "views": views, "unknown_nodes": strange }),
        );
        return Ok(0);
    }
    let row = |(name, seen): &(&str, Seen)| {
        let why = seen
            .parts
            .iter()
            .filter(|p| p.rule != Rule::Plain)
            .map(|p| p.rule.explain());
        let why: Vec<String> = why.collect();
        let why = if why.is_empty() {
            Rule::Plain.explain()
        } else {
            why.join("; ")
        };
        let there = if seen.exists { "" } else { " (not there)" };
        vec![
            (*name).to_owned(),
            format!("{}{there}", seen.path.display()),
            why,
        ]
    };
    say(&table(
        &[("NODE", false), ("FILE", false), ("WHY", false)],
        &views.iter().map(row).collect::<Vec<_>>(),
    ));
    if args.node.is_some() {
        for other in views
            .iter()
            .flat_map(|(_, s)| &s.parts)
            .flat_map(|p| &p.considered)
        {
            let word = if other.fits { "fits" } else { "is for others" };
            say(&format!("  {} {word}\n", other.name));
        }
    }
    for name in strange {
        say(&format!("no node is called {name}, which a tag names\n"));
    }
    Ok(0)
}

fn client(farm: &Farm, node: &Node) -> Option<Client> {
    let net = farm.main_net()?;
    let other = || {
        node.links
            .iter()
            .flat_map(|l| &l.nets)
            .map(|a| a.address)
            .next()
    };
    let address = node.address(&net.name).or_else(other)?;
    Some(Client {
        name: Some(node.name.clone()),
        address,
    })
}

fn list(dir: &Path) -> std::io::Result<BTreeSet<String>> {
    let names =
        std::fs::read_dir(dir)?.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()));
    names.collect()
}

fn failure(e: &ViewError) -> Failure {
    let hint = match e {
        ViewError::List(..) => "--root names the directory that nodes have as their root",
        ViewError::Outside(_) => "write the path as the node does, without `..`",
    };
    Failure {
        message: e.to_string(),
        hint: hint.into(),
    }
}

/// Names in `HOST` tags that no node has.
fn strangers(farm: &Farm, views: &[(&str, Seen)]) -> BTreeSet<String> {
    let considered = views
        .iter()
        .flat_map(|(_, s)| &s.parts)
        .flat_map(|p| &p.considered);
    let hosts = considered.filter_map(|c| match split(&c.name).1 {
        Some(armento_provision::view::Tag::Host(host)) => Some(host),
        _ => None,
    });
    hosts.filter(|h| farm.node(h).is_none()).collect()
}

fn view(node: &str, seen: &Seen) -> Value {
    let part = |p: &armento_provision::view::Chosen| {
        let considered = p
            .considered
            .iter()
            .map(|c| json!({ "name": c.name, "fits": c.fits, "readable": c.readable }));
        json!({ "name": p.name, "why": p.rule.explain(), "exists": p.exists, "considered": considered.collect::<Vec<_>>() })
    };
    json!({ "node": node, "file": seen.path, "exists": seen.exists, "parts": seen.parts.iter().map(part).collect::<Vec<_>>() })
}
