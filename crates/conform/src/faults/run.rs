//! `armento conform --faults`: programs are moved around while keepers, hosts, daemons, nodes and links break.
//!
//! The criteria: each program ends with everything that a native run writes, or was killed by a deadly fault and has
//! written a beginning of that; it counts its own calls, and reports one that was made twice or was lost; it ends
//! within the limits; and no process of it is left. Next: `plan.rs`, `life.rs`, `campaign.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::Args;
use crate::farm;
use crate::faults::campaign::{Ended, Lives, Sum, campaign};
use crate::faults::farm::Farm;
use crate::faults::life::{FILES, ROUNDS, Stage};
use crate::faults::plan::{Life, NodeFault, node_fault};
use crate::faults::safe;
use crate::guests;
use crate::sys;

/// The program that is moved around, and that most of those are that are kept safe.
pub const PROGRAM: &str = "tally";
/// Limit of programs that a campaign may start for each move to make: far more than it needs.
const LIVES_PER_MOVE: u64 = 4;

pub fn run(args: &Args) -> Result<i32> {
    sys::catch_interrupts();
    ensure!(
        sys::is_root(),
        "a fault campaign raises a lab, which needs root; nothing was run\nhint: use sudo"
    );
    let armento = farm::armento(args.armento.as_deref())?;
    let program = program()?;
    let keep = std::env::temp_dir().join(format!("armento-faults-{}", std::process::id()));
    if args.safe {
        return safe::run(args, &armento, &program, &keep);
    }
    let native = native(&program)?;
    let farm = Farm::up(&armento, args.seed, &[])?;
    let moved = Moved {
        args,
        stage: Stage {
            farm: &farm,
            program: &program,
            native: &native,
            keep: &keep,
        },
    };
    campaign(args, &farm, &moved)
}

/// Programs in storms of moves.
struct Moved<'a> {
    args: &'a Args,
    stage: Stage<'a>,
}

impl Lives for Moved<'_> {
    fn live(&self, number: u64, deadly: &dyn Fn(Instant) -> bool) -> Result<Ended> {
        self.stage.live(&Life::new(self.args.seed, number), deadly)
    }

    fn node_faults(&self, n: u64) -> (u64, Vec<(usize, NodeFault)>) {
        let (wait, node, what) = node_fault(self.args.seed, n);
        (wait, vec![(node, what)])
    }

    fn names(&self) -> Vec<&'static str> {
        vec![PROGRAM]
    }

    fn begins(&self, number: u64) -> Result<bool> {
        ensure!(
            number < self.args.moves.saturating_mul(LIVES_PER_MOVE),
            "it takes too many programs to make so many moves"
        );
        Ok(true)
    }

    fn is_done(&self, sum: &Sum) -> bool {
        sum.moves >= self.args.moves
    }

    fn command(&self) -> String {
        let (seed, moves) = (self.args.seed, self.args.moves);
        format!("armento conform --faults --seed {seed} --moves {moves}")
    }

    fn keep(&self) -> &Path {
        self.stage.keep
    }

    fn report(&self, sum: &Sum) -> (String, Option<Value>) {
        let (moves, lives, died) = (sum.moves, sum.lives, sum.died);
        let line = format!("{moves} moves of {lives} programs; {died} died of deadly faults");
        (line, None)
    }
}

/// The program that is moved around, where all users can run it.
fn program() -> Result<PathBuf> {
    let guests = guests::select(&[PROGRAM.into()], false)?;
    let guest = guests.first().context("the program of the campaign")?;
    match guest.how {
        crate::guests::How::Source { file, source } => guests::compiled(PROGRAM, file, source),
        _ => bail!("the program of the campaign is no source"),
    }
}

fn native(program: &Path) -> Result<BTreeMap<&'static str, String>> {
    let dir = std::env::temp_dir().join(format!("armento-faults-native-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let out = Command::new(program)
        .arg(ROUNDS.to_string())
        .current_dir(&dir)
        .output()?;
    let mut all = BTreeMap::new();
    for name in FILES {
        let text = match name {
            "out" => String::from_utf8(out.stdout.clone())?,
            name => fs::read_to_string(dir.join(name))?,
        };
        ensure!(
            !text.is_empty() && !text.contains("WRONG"),
            "natively {PROGRAM} is wrong: {text}"
        );
        all.insert(name, text);
    }
    fs::remove_dir_all(&dir)?;
    ensure!(
        out.status.success(),
        "natively {PROGRAM} ends with {}",
        out.status
    );
    Ok(all)
}
