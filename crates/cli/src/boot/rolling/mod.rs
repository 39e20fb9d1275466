//! `armento boot reboot --rolling`: nodes are drained, started again and waited for, some at once, with their programs kept.
//!
//! `sequence.rs` has the order of things and decides, `farm.rs` acts, `record.rs` is what a stopped restart goes on from.

mod farm;
mod record;
mod sequence;

use super::reboot::Args;
use crate::dry_run;
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::inventory::Farm;
use armento_provision::image::Store;
use armento_provision::layout::BootDir;
use farm::Real;
use record::{Record, Wanted};
use sequence::Ended;
use serde_json::json;

pub fn run(args: &Args) -> Result<i32> {
    let boot = args.place.boot();
    let (inventory, names) = args.chosen()?;
    let wanted = wanted(&boot, &inventory, &names)?;
    let mut record = Record::open(&boot, &wanted, farm::now_ms());
    if args.dry.dry_run {
        return Ok(dry_run::show(&would(&wanted, &record, args), args.json));
    }
    let before = record.done.clone();
    if !before.is_empty() && !args.json {
        say(&format!(
            "passed over, as they were started again before: {}\n",
            before.join(", ")
        ));
    }
    let real = Real::new(args, &inventory);
    // Without this node's daemon no node can be drained.
    real.check()?;
    let ended = sequence::run(&wanted, args.at_once.into(), &mut record, &real);
    drop(real);
    if args.json {
        let failed: Vec<_> = ended
            .failed
            .iter()
            .map(|(node, why)| json!({ "node": node, "why": why }))
            .collect();
        say_json(
            "armento.boot.reboot/1",
            json!({ "nodes": ended.done, "passed_over": before, "failed": failed, "left": ended.left }),
        );
    }
    if ended.failed.is_empty() {
        Record::remove(&boot);
        return Ok(0);
    }
    let done = [before, ended.done.clone()].concat();
    Err(stopped(&ended, &done).into())
}

/// Each node with the generation that it will boot.
fn wanted(boot: &BootDir, inventory: &Farm, names: &[String]) -> Result<Vec<Wanted>> {
    let store = Store::new(boot);
    let of = |name: &String| {
        let image = inventory.node(name).and_then(|n| n.image.as_deref());
        let generation = store.of_node(image).map_err(Failure::from)?;
        Ok(Wanted {
            name: name.clone(),
            image: generation.to_string(),
        })
    };
    names.iter().map(of).collect()
}

fn would(wanted: &[Wanted], record: &Record, args: &Args) -> Vec<String> {
    let line = |w: &Wanted| match record.done.contains(&w.name) {
        true => format!("pass over {}: it was started again before", w.name),
        false => format!(
            "drain {0}, start it again with {1}, wait until it has joined, and undrain it",
            w.name, w.image
        ),
    };
    let mut lines: Vec<String> = wanted.iter().map(line).collect();
    if args.at_once > 1 {
        lines.push(format!("do so with {} nodes at once", args.at_once));
    }
    lines
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

fn stopped(ended: &Ended, done: &[String]) -> Failure {
    let each: Vec<String> = ended
        .failed
        .iter()
        .map(|(node, why)| format!("{node}: {why}"))
        .collect();
    let first = ended
        .failed
        .first()
        .map_or("NODE", |(node, _)| node.as_str());
    Failure {
        message: format!(
            "{}; started again: {}; left as they are: {}",
            each.join("; "),
            list(done),
            list(&ended.left)
        ),
        hint: format!(
            "armento boot why {first}; the same command goes on where this one stopped; `armento boot image back NAME` returns \
             to the image before, `armento node undrain {first}` ends a drain"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_restart_says_what_is_done_and_what_is_left() {
        let ended = Ended {
            done: vec!["n2".into()],
            failed: vec![("n3".into(), "it has not joined again within 600 s".into())],
            left: vec!["n4".into(), "n5".into()],
        };
        let failure = stopped(&ended, &["n1".into(), "n2".into()]);
        assert_eq!(
            failure.message,
            "n3: it has not joined again within 600 s; started again: n1, n2; left as they are: n4, n5"
        );
        assert!(
            failure
                .hint
                .starts_with("armento boot why n3; the same command goes on")
        );
    }
}
