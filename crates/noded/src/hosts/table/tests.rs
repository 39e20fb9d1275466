//! What a new daemon finds of an earlier one's hosts.

use super::super::record::{file_of, stem};
use super::*;
use crate::process::started;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep")
}

fn record(tree: u64, child: &Child, port: u16) -> Record {
    let pid = child.id() as i32;
    Record {
        home: "n1".parse().expect("name"),
        tree: TreeId(tree),
        uid: 1000,
        guest_uid: 2_000_000,
        pid,
        started: started(pid).expect("it runs"),
        addr: SocketAddr::from(([127, 0, 0, 1], port)),
        plain: false,
    }
}

#[test]
fn a_new_daemon_finds_living_hosts_and_removes_the_rest() {
    let dir = std::env::temp_dir().join(format!("armento-hosts-{}", std::process::id()));
    fs::create_dir_all(dir.join("hosts")).expect("directory");
    let state = StateDir::new(dir.clone());
    let [mut lives, mut unheard, mut ended] = [sleeper(), sleeper(), sleeper()];
    let records = [
        record(1, &lives, 7000),
        // Its daemon ended before it listened: its address is not known.
        record(2, &unheard, 0),
        record(3, &ended, 7001),
    ];
    for r in &records {
        state.note_json(&file_of(r), r).expect("written");
    }
    let _ = ended.kill();
    let _ = ended.wait();
    let names = ["1.log", "3.log", "4.log", "4.json", "1.json.new"];
    let named = |n: &str| {
        let (tree, end) = n.split_once('.').expect("a name");
        let tree = TreeId(tree.parse().expect("a number"));
        format!("{}.{end}", stem(&records[0].home, tree))
    };
    for name in names {
        let text = if name == "4.log" { "it said why" } else { "" };
        fs::write(dir.join("hosts").join(named(name)), text).expect("written");
    }
    let table = HostTable::recover(&state);
    let mut left: Vec<String> = fs::read_dir(dir.join("hosts"))
        .expect("directory")
        .flatten()
        .map(|f| f.file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    let unheard = unheard.wait().expect("its end");
    let first = lives.try_wait().expect("its state");
    let _ = lives.kill();
    let _ = lives.wait();
    fs::remove_dir_all(&dir).expect("gone");
    assert_eq!(unheard.signal(), Some(9));
    assert_eq!(first, None);
    assert_eq!(
        table.all().iter().map(|r| r.tree.0).collect::<Vec<_>>(),
        [1]
    );
    let mut want = ["1.json", "1.log", "4.log"].map(named);
    want.sort();
    assert_eq!(left, want);
}
