//! PostgreSQL, with processes that share anonymous memory, a System V segment and files in /dev/shm, moves under load as
//! one group. Its clients get right results, and other processes read from /dev/shm what it wrote.

use super::{Farm, text, until};
use std::collections::BTreeSet;

/// The load: number of clients, and duration in seconds. Longer than the moves take.
const CLIENTS: u32 = 3;
const LOAD_S: u32 = 15;
const AS_POSTGRES: &str = "setpriv --reuid postgres --regid postgres --clear-groups";
const SETTINGS: &str = "listen_addresses = ''
unix_socket_directories = '/tmp/pg'
shared_buffers = 16MB
max_connections = 20
fsync = off
";

/// Directory of Debian's PostgreSQL programs, if installed.
pub fn postgres() -> Option<String> {
    let dir = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = dir.flatten().map(|e| e.path().join("bin"));
    let bin = bins.filter(|b| b.join("initdb").exists()).max()?;
    bin.to_str().map(str::to_owned)
}

fn start(farm: &Farm, bin: &str) {
    let make = format!(
        "mkdir -p /tmp/pg; chown postgres /tmp/pg; \
         {AS_POSTGRES} {bin}/initdb -D /tmp/pg/data -A trust > /tmp/pg/initdb.log"
    );
    farm.sh("n1", &make);
    farm.sh(
        "n1",
        &format!("cat >> /tmp/pg/data/postgresql.conf <<'E'\n{SETTINGS}E\n"),
    );
    let run = format!(
        "setsid armento run --stay {AS_POSTGRES} {bin}/postgres -D /tmp/pg/data > /tmp/pg/log 2>&1 < /dev/null &"
    );
    farm.sh("n1", &run);
    let ready = format!("{bin}/pg_isready -q -h /tmp/pg");
    until("a server that answers", || {
        farm.run("n1", &ready).status.success()
    });
}

/// The set of nodes where its processes are.
fn places(farm: &Farm) -> BTreeSet<String> {
    let said = farm.sh("n1", "armento ps --json");
    let doc: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let procs = doc["procs"].as_array().expect("processes");
    let place = |p: &serde_json::Value| p["place"].as_str().map(str::to_owned);
    procs.iter().filter_map(place).collect()
}

pub fn a_database_moves_under_load(farm: &Farm, bin: &str) {
    start(farm, bin);
    let on = "-h /tmp/pg -U postgres";
    farm.sh(
        "n1",
        &format!("{bin}/pgbench {on} -q -i -s 1 postgres 2>&1"),
    );
    let bench = format!(
        "setsid {bin}/pgbench {on} -c {CLIENTS} -T {LOAD_S} postgres > /tmp/pg/bench 2>&1 < /dev/null &"
    );
    farm.sh("n1", &bench);
    let leader = "$(head -n 1 /tmp/pg/data/postmaster.pid)";
    for node in ["n2", "n3", "home", "n3"] {
        // A move is refused while a backend starts or ends: try again.
        let there = || farm.run("n1", &format!("armento migrate {leader} {node}"));
        until("the move of a group", || there().status.success());
        let want = if node == "home" { "n1" } else { node };
        until("all processes on one node", || {
            places(farm) == BTreeSet::from([want.to_owned()])
        });
    }
    // Another process opens the shared file: the group is home before the open returns.
    farm.sh(
        "n1",
        "cat /dev/shm/PostgreSQL.* > /tmp/pg/stranger; test -s /tmp/pg/stranger",
    );
    until("home for the other process", || {
        places(farm) == BTreeSet::from(["n1".to_owned()])
    });
    until("the end of the load", || {
        farm.run("n1", "grep -q ^tps /tmp/pg/bench")
            .status
            .success()
    });
    let said = farm.sh("n1", "cat /tmp/pg/bench");
    let done = said
        .lines()
        .find_map(|l| l.strip_prefix("number of transactions actually processed: "));
    let done = done.unwrap_or_else(|| panic!("{said}"));
    assert!(said.contains("failed transactions: 0 "), "{said}");
    let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers), \
                (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches), \
                (select sum(delta) from pgbench_history) = (select sum(bbalance) from pgbench_branches), \
                (select count(*) from pgbench_history)";
    let said = farm.sh("n1", &format!("{bin}/psql {on} -At -c \"{sums}\" postgres"));
    assert_eq!(said.trim(), format!("t|t|t|{done}"));
    let stop = format!("{AS_POSTGRES} {bin}/pg_ctl -D /tmp/pg/data -m fast -w stop");
    let out = farm.run("n1", &stop);
    assert!(out.status.success(), "{}", text(&out.stdout));
    let log = farm.sh("n1", "cat /tmp/pg/log");
    for word in ["PANIC", "ERROR", "terminated by signal", "corrupt"] {
        assert!(!log.contains(word), "{log}");
    }
}
