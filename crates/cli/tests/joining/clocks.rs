//! Nodes with different clocks.

use crate::net::{Net, until};
use std::process::Output;

const AHEAD: &str = "env ARMENTO_CLOCK_AHEAD_MS=1500";

fn err(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

pub fn skew_is_reported(net: &Net) {
    let join = net.init("");
    net.daemon("n1", "");
    net.sh("n2", &format!("armento join {join}"));
    net.daemon("n2", AHEAD);
    net.sees("n1", "n2", &["alive", " +1", "tls"]);
    net.sees("n2", "n1", &["alive", " -1", "tls"]);
    for (command, words) in [
        ("armento nodes", "n2 (+1"),
        ("armento farm status", "n2 (+1"),
    ] {
        let out = net.run("n1", command);
        let said = err(&out);
        assert!(out.status.success(), "{out:?}");
        assert!(
            said.contains(words) && said.contains("hint: ") && said.contains("chrony"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 2, "{said}");
    }
    let json = net.sh("n1", "armento nodes --json");
    assert!(json.contains("\"clock_apart\": true"), "{json}");
    // The program runs at home, and its user is informed why.
    until("the line for users who start programs", || {
        let out = net.run("n1", "armento run sh -c 'exit 3'");
        assert_eq!(out.status.code(), Some(3), "{out:?}");
        let said = err(&out);
        said.contains("it runs here: the clocks of all other nodes") && said.lines().count() == 2
    });
    assert_eq!(err(&net.run("n1", "armento run --stay true")), "");
    // It cannot run on the node that the user named: it is not started.
    net.fails(
        "n1",
        "armento run --on n2 sh -c 'echo ran'",
        &["the clock of n2", "nothing was started", "chrony"],
    );
    // A move by command: the reason is given once.
    let by_hand = net.run("n1", "armento run --stay sleep 60 & p=$!; sleep 1; armento migrate $p n2; e=$?; armento why $p; kill $p; exit $e");
    let said = err(&by_hand);
    assert_eq!(by_hand.status.code(), Some(125), "{by_hand:?}");
    assert_eq!(
        said.matches("the clocks of the two nodes").count(),
        1,
        "{said}"
    );
    assert!(
        said.contains("that of n2 is 1") && said.contains("ms ahead"),
        "{said}"
    );
    let doctor = net.run("n1", "armento doctor");
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        doctor.contains("limited  clocks") && doctor.contains("n2 by 1"),
        "{doctor}"
    );
    // With the clock set right, the difference is no longer reported.
    net.stop("n2");
    net.daemon("n2", "");
    net.sees("n1", "n2", &["alive", ".", "tls"]);
    until("n2 is good", || {
        net.run("n1", "armento run --on n2 true").status.success()
    });
    until("no more messages", || {
        err(&net.run("n1", "armento run true")).is_empty()
    });
}
