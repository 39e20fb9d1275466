//! Several clients order moves of one small program as fast as they can. The rate is printed and has no limit; the
//! program's output must be right.

use crate::blocked::root;
use crate::lab::{self, Farm, until};
use armento_client::api::{Answer, Ask, Dest, SOCKET};
use armento_client::{AskError, Session};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const C: &str = include_str!("turns.c");
const PYTHON: &str = include_str!("turns.py");
/// The nodes that each client orders it to, in turn.
const CLIENTS: [&[&str]; 3] = [&["n2", "n3", "home"], &["n3", "n2"], &["home", "n2"]];
/// The time limit of `armento migrate`.
const MOVE: Duration = Duration::from_secs(130);
const LONG_S: u64 = 30;
const SHORT_S: u64 = 10;

#[derive(Default)]
struct Done {
    moves: AtomicU32,
    refused: AtomicU32,
    pause_us: AtomicU32,
    total_us: AtomicU32,
    kb: AtomicU32,
}

fn order(farm: &Farm, pid: i32, nodes: &[&str], done: &Done, over: &AtomicBool) {
    let socket = root(farm, "n1").join(SOCKET.trim_start_matches('/'));
    let mut session = Session::connect_to(&socket).expect("the daemon");
    for node in nodes.iter().cycle() {
        if over.load(Ordering::Acquire) {
            return;
        }
        let to = match *node {
            "home" => Dest::Home,
            name => Dest::Node(name.parse().expect("a node's name")),
        };
        match session.ask(Ask::Migrate { pid, to }, MOVE) {
            // A move to the node where it already is takes no time.
            Ok(Answer::Moved { total_us: 0, .. }) => {}
            Ok(Answer::Moved {
                pause_us,
                total_us,
                bytes,
                ..
            }) => {
                done.moves.fetch_add(1, Ordering::AcqRel);
                done.pause_us.fetch_add(pause_us as u32, Ordering::AcqRel);
                done.total_us.fetch_add(total_us as u32, Ordering::AcqRel);
                done.kb.fetch_add((bytes / 1000) as u32, Ordering::AcqRel);
            }
            // During a fork, for example.
            Err(AskError::Refused(_)) => drop(done.refused.fetch_add(1, Ordering::AcqRel)),
            other => panic!("{node}: {other:?}"),
        }
    }
}

fn program(farm: &Farm, name: &str, command: &str) {
    let start = format!(
        "rm -f /tmp/enough /tmp/h-*; (sh -c 'echo $$ > /tmp/h-pid; exec \"$0\" \"$@\"' \
         armento run --stay {command} /tmp/h-out 100000000 2>/tmp/h-says; echo $? > /tmp/h-end) >/dev/null 2>&1 &"
    );
    farm.sh("n1", &start);
    until("its first line", || {
        farm.run("n1", "test -s /tmp/h-out").status.success()
    });
    let pid = farm
        .sh("n1", "cat /tmp/h-pid")
        .trim()
        .parse()
        .expect("a number");
    let (done, over) = (Done::default(), AtomicBool::new(false));
    let seconds = if lab::is_long() { LONG_S } else { SHORT_S };
    let began = Instant::now();
    std::thread::scope(|s| {
        for nodes in CLIENTS {
            s.spawn(|| order(farm, pid, nodes, &done, &over));
        }
        while began.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(50));
        }
        over.store(true, Ordering::Release);
    });
    let took = began.elapsed().as_secs_f64();
    let get = |n: &AtomicU32| f64::from(n.load(Ordering::Acquire));
    let moves = get(&done.moves);
    println!(
        "{name}: {moves} moves in {took:.1} s, {:.0} a second; standing still {:.2} ms, under way {:.2} ms, {:.0} kB each; {} refused",
        moves / took,
        get(&done.pause_us) / moves / 1000.0,
        get(&done.total_us) / moves / 1000.0,
        get(&done.kb) / moves,
        get(&done.refused)
    );
    farm.sh("n1", "touch /tmp/enough");
    until("its end", || {
        farm.run("n1", "test -s /tmp/h-end").status.success()
    });
    assert_eq!(farm.sh("n1", "cat /tmp/h-end /tmp/h-says"), "0\n", "{name}");
    assert!(moves > 0.0, "{name}");
    let native = format!(
        "n=$(grep ' ' /tmp/h-out | tail -n 1 | cut -d' ' -f1); rm /tmp/enough; {command} /tmp/h-native $n; cmp /tmp/h-native /tmp/h-out"
    );
    farm.sh("n1", &native);
}

pub fn concurrent_orders(farm: &Farm) {
    let tmp = root(farm, "n1").join("tmp");
    fs::write(tmp.join("turns.c"), C).expect("a source");
    fs::write(tmp.join("turns.py"), PYTHON).expect("a script");
    farm.sh("n1", "gcc -O1 -w -o /tmp/turns /tmp/turns.c");
    program(farm, "C", "/tmp/turns");
    if lab::is_long() {
        program(farm, "python3", "python3 /tmp/turns.py");
    }
}
