//! A process is moved while it blocks in each blocking call: out, on to another node, home and out again, with the call
//! begun at home and begun away. Before every move the test sees it in the call (/proc/PID/syscall, of the body and of
//! the deputy); then another process ends the wait. Results and effects of the call must be those of a native run.
//!
//! Rows: `rows.c`, `waits.c`. To run only some of them: `ARMENTO_ROWS=poll,flock`.

mod play;
mod since;

use crate::lab::{self, Farm};
use play::{Case, Kind, Player};
pub use since::waits_begun_at_home_keep_their_limit;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

const SOURCES: [(&str, &str); 4] = [
    ("blocked.h", include_str!("blocked.h")),
    ("blocked.c", include_str!("blocked.c")),
    ("rows.c", include_str!("rows.c")),
    ("waits.c", include_str!("waits.c")),
];
/// Cases at once: most of their time they wait.
const PLAYERS: usize = 4;
/// Rows that are known to fail, by kind, and why (`docs/rfd/0013-waits-keep-their-remaining-time.md`).
const GAPS: [(&str, &[Kind], &str); 3] = [
    (
        "sigtimedwait",
        &Kind::ALL,
        "it stays until its signal or its time has come",
    ),
    ("recv_timeo", &[Kind::Expire], "the time is the socket's"),
    ("semtimedop", &[Kind::Expire], "its time began at home"),
];

/// One row of the tables in the C files.
#[derive(Clone, Debug)]
pub struct Row {
    pub number: usize,
    pub name: String,
    /// Number of the system call.
    pub nr: u64,
    flags: u32,
}

impl Row {
    fn of(number: usize, line: &str) -> Row {
        let words: Vec<&str> = line.split(' ').collect();
        Row {
            number,
            name: words[0].to_owned(),
            nr: words[1].parse().expect("a call's number"),
            flags: words[2].parse().expect("flags"),
        }
    }

    fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    /// Whether the body's kernel waits, not the deputy.
    pub fn here(&self) -> bool {
        self.is(1)
    }
    /// Whether a process in this call does not move.
    pub fn stays(&self) -> bool {
        self.is(2)
    }
    /// Whether a process in this call is moved home.
    pub fn comes(&self) -> bool {
        self.is(64)
    }
    fn signals(&self) -> bool {
        self.is(8)
    }
    pub fn timed(&self) -> bool {
        self.is(16)
    }
    pub fn twice(&self) -> bool {
        self.is(32)
    }

    fn kinds(&self, long: bool) -> Vec<Kind> {
        let mut kinds = vec![Kind::Event];
        if long && !self.signals() {
            kinds.extend([Kind::Signal, Kind::Restart]);
        }
        if long && self.timed() {
            kinds.push(Kind::Expire);
        }
        kinds
    }
}

/// The node's root directory, as the test sees it.
pub fn root(farm: &Farm, node: &str) -> PathBuf {
    let pids = fs::read(format!("/run/armento-lab/{}/pids.json", farm.name)).expect("a lab");
    let pids: serde_json::Value = serde_json::from_slice(&pids).expect("JSON");
    let n: usize = node[1..].parse().expect("a node's number");
    PathBuf::from(format!("/proc/{}/root", pids["nodes"][n - 1]["pid"]))
}

fn build(farm: &Farm) -> Vec<Row> {
    let dir = root(farm, "n1").join("tmp/blocked");
    fs::create_dir(&dir).expect("a folder");
    for (name, text) in SOURCES {
        fs::write(dir.join(name), text).expect("a source");
    }
    let make = "cd /tmp/blocked && gcc -O1 -pthread -o b rows.c waits.c blocked.c 2>&1 && ./b";
    let said = farm.sh("n1", make);
    let rows: Vec<Row> = said
        .lines()
        .enumerate()
        .map(|(i, line)| Row::of(i, line))
        .collect();
    // Each case has a file name of its own, by which the test finds the body.
    let link = format!(
        "cd /tmp/blocked; for i in $(seq 0 {}); do ln b b$i; done",
        rows.len() - 1
    );
    farm.sh("n1", &link);
    rows
}

fn cases(rows: &[Row], long: bool) -> VecDeque<Case> {
    let only = std::env::var("ARMENTO_ROWS").unwrap_or_default();
    let wanted = |r: &&Row| only.is_empty() || only.split(',').any(|o| o == r.name);
    let of = |r: &Row| {
        let all = r.kinds(long).into_iter();
        all.map(|kind| Case::new(r.clone(), kind, long))
            .collect::<Vec<_>>()
    };
    rows.iter().filter(wanted).flat_map(of).collect()
}

pub fn every_call_survives_moves(farm: &Farm) {
    let rows = build(farm);
    let long = lab::is_long();
    let queue = Mutex::new(cases(&rows, long));
    let (wrong, moves) = (Mutex::new(Vec::new()), Mutex::new(0));
    let lock =
        |m: &Mutex<VecDeque<Case>>| m.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|s| {
        for _ in 0..PLAYERS {
            s.spawn(|| {
                let mut player = Player::new(farm);
                while let Some(case) = lock(&queue) {
                    let Err(why) = player.case(&case) else {
                        continue;
                    };
                    let (name, kind) = (&case.row.name, case.kind);
                    let line = format!("{name} ({kind:?}): {why}");
                    let mut gaps = GAPS.iter();
                    if let Some((.., why)) = gaps.find(|g| g.0 == name && g.1.contains(&kind)) {
                        println!("known gap: {why}: {line}");
                    } else {
                        eprintln!("WRONG {line}");
                        wrong
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(line);
                    }
                }
                *moves.lock().unwrap_or_else(PoisonError::into_inner) += player.moves;
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{} rows, {:?} moves in calls", rows.len(), moves);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
