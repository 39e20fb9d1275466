//! Where programs begin, and how they get from one node to another: through home where two nodes cannot reach each other;
//! those that share memory together.

use super::{Farm, PROGRAM, USER, text, until};
use serde_json::Value;
use std::collections::BTreeSet;

/// Two children count in memory that they share with their parent, until a file is there.
const GROUP: &str = r#"
import mmap, os, time
m = mmap.mmap(-1, 4096)
for i in range(2):
    if os.fork() == 0:
        n = 0
        while m[8] == 0:
            n += 1
            m[i] = n % 256
        m[16 + i] = 1
        os._exit(0)
while not os.path.exists("/tmp/stop"):
    time.sleep(0.1)
m[8] = 1
print(os.wait()[1], os.wait()[1], m[16], m[17], flush=True)
"#;

/// The nodes where programs with these words in their command are, as n1 knows them.
fn places(farm: &Farm, words: &str) -> Vec<String> {
    let said = farm.sh("n1", "armento ps --json");
    let doc: Value = serde_json::from_str(&said).expect("JSON");
    let procs = doc["procs"].as_array().expect("processes");
    let named = |p: &&Value| p["command"].as_str().is_some_and(|c| c.contains(words));
    let place = |p: &Value| p["place"].as_str().map(str::to_owned);
    procs.iter().filter(named).filter_map(place).collect()
}

pub fn nodes_out_of_reach_exchange_programs_through_home(farm: &Farm) {
    let address = |node| {
        farm.sh(node, "hostname -i | cut -d' ' -f1")
            .trim()
            .to_owned()
    };
    for (here, there) in [("n2", "n3"), ("n3", "n2")] {
        let route = format!("ip route add unreachable {}/32", address(there));
        farm.sh(here, &route);
    }
    // It ends when it has been everywhere.
    let program = format!("{PROGRAM} select undef, undef, undef, 0.05 until -e qq(/tmp/go);");
    farm.sh(
        "n1",
        &format!("touch /tmp/go; perl -e '{program}' > /tmp/want; rm /tmp/go"),
    );
    let run = format!(
        "{USER} armento run --on n2 perl -e '{program}' > /tmp/got 2>&1 < /dev/null & echo $!"
    );
    let pid = farm.sh("n1", &run);
    let pid = pid.trim();
    until("its start on n2", || places(farm, "perl") == ["n2"]);
    for node in ["n3", "n2", "n3"] {
        let moved = farm.run("n1", &format!("armento migrate {pid} {node}"));
        assert!(moved.status.success(), "{}", text(&moved.stderr));
        assert_eq!(places(farm, "perl"), [node]);
    }
    farm.sh("n1", "touch /tmp/go");
    until("its end", || places(farm, "perl").is_empty());
    farm.sh("n1", "cmp /tmp/want /tmp/got");
    for (here, there) in [("n2", "n3"), ("n3", "n2")] {
        let route = format!("ip route del unreachable {}/32", address(there));
        farm.sh(here, &route);
    }
}

/// Two programs that stay on n1 and compute for as long as `busy` runs.
fn beside_load(farm: &Farm, busy: impl FnOnce()) {
    let spin = "armento run --stay perl -e '1 while 1' > /dev/null 2>&1 < /dev/null & echo $!\n";
    let pids = farm.sh("n1", &spin.repeat(2)).replace('\n', " ");
    let loads =
        || -> Value { serde_json::from_str(&farm.sh("n1", "armento nodes --json")).expect("JSON") };
    until("load on n1", || {
        let doc = loads();
        let nodes = doc["nodes"].as_array().expect("nodes");
        let own = nodes.iter().find(|n| n["name"] == "n1");
        own.and_then(|n| n["load"].as_f64())
            .is_some_and(|l| l > 1.5)
    });
    busy();
    farm.sh("n1", &format!("kill {pids}"));
    until("the end of the load", || places(farm, "while").is_empty());
}

pub fn ranks_begin_where_their_launcher_put_them(farm: &Farm) {
    beside_load(farm, || {
        for (variable, option, command, stays) in [
            ("", "", "sleep 20.1", false),
            ("OMPI_COMM_WORLD_RANK=0", "", "sleep 20.2", true),
            ("PMI_RANK=1", "", "sleep 20.3", true),
            ("PMI_RANK=1", "--begin anywhere", "sleep 20.4", false),
            ("", "--begin here", "sleep 20.5", true),
        ] {
            let run =
                format!("{variable} armento run {option} {command} > /dev/null 2>&1 < /dev/null &");
            farm.sh("n1", &run);
            until("its start", || places(farm, command).len() == 1);
            // The balancer may have moved it by now: that is another line of the log.
            let log = || farm.sh("n1", "armento log");
            let placed = || {
                let log = log();
                let mut lines = log.lines();
                lines.any(|l| l.contains(" placed ") && l.ends_with(command))
            };
            match stays {
                true => assert!(!placed(), "{command}: {}", log()),
                false => until("its placement", placed),
            }
        }
        // They may have ended by themselves.
        farm.sh("n1", "pkill -x sleep || true");
    });
}

pub fn processes_that_share_memory_leave_a_busy_node_together(farm: &Farm) {
    beside_load(farm, || {
        let run = format!(
            "{USER} armento run --begin here python3 -c '{GROUP}' > /tmp/said 2>&1 < /dev/null &"
        );
        farm.sh("n1", &run);
        until("the move of all three", || {
            let all = places(farm, "mmap");
            let nodes: BTreeSet<&String> = all.iter().collect();
            all.len() == 3 && nodes.len() == 1 && all[0] != "n1"
        });
        farm.sh("n1", "touch /tmp/stop");
        until("their end", || {
            farm.sh("n1", "cat /tmp/said").contains('\n')
        });
        assert_eq!(farm.sh("n1", "cat /tmp/said"), "0 0 1 1\n");
    });
}
