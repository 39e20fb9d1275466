//! What the terminal shows of a farm that works: history, lists, dry runs.

mod lab;

use lab::{Farm, until};
use serde_json::Value;

/// Command prefix: an ordinary user.
const USER: &str = "setpriv --reuid 1000 --regid 1000 --clear-groups";
/// Some tenths of a second of computing, and exit status 3.
const WORK: &str = r#"perl -e 'for $i (1..4000000) { $x += $i % 7 } exit 3'"#;

/// Restarts of the daemon under a job in the long run.
const RESTARTS_LONG: usize = 5;

fn json(farm: &Farm, node: &str, command: &str) -> Value {
    serde_json::from_str(&farm.sh(node, command)).expect("JSON")
}

fn rows(farm: &Farm, options: &str) -> Vec<Value> {
    let doc = json(farm, "n1", &format!("armento history --json {options}"));
    assert_eq!(doc["schema"], "armento.history/1");
    assert_eq!(doc["trouble"], "", "{doc}");
    doc["rows"].as_array().expect("rows").clone()
}

#[test]
fn the_terminal_shows_what_the_farm_does() {
    let Some(farm) = Farm::up("term", None) else {
        return;
    };
    jobs_are_in_the_history_with_node_and_status(&farm);
    users_read_their_own_jobs(&farm);
    for _ in 0..if lab::long() { RESTARTS_LONG } else { 1 } {
        a_restarted_daemon_goes_on_with_a_job(&farm);
    }
    a_full_disk_stops_no_program(&farm);
    processes_are_listed_as_a_tree(&farm);
    dry_runs_change_nothing(&farm);
    the_history_of_all_homes_is_one_list(&farm);
    documents_are_as_their_schema_says(&farm);
}

/// Jobs of n1 and of n2; of n3, whose daemon is off, it is said that it does not answer.
fn the_history_of_all_homes_is_one_list(farm: &Farm) {
    farm.sh("n2", "armento run --stay sh -c 'exit 4'; true");
    let homes = || -> Vec<String> {
        let doc = json(farm, "n1", "armento history --farm --json -n 1000");
        let rows = doc["rows"].as_array().expect("rows").clone();
        let home = |r: Value| r["job"]["home"].as_str().unwrap_or_default().to_owned();
        rows.into_iter().map(home).collect()
    };
    until("jobs of two homes", || {
        let homes = homes();
        homes.iter().any(|h| h == "n1") && homes.iter().any(|h| h == "n2")
    });
    let jobs = |farm_too: &str| -> u64 {
        let rows = rows(farm, &format!("--by user {farm_too}"));
        let root = rows.iter().find(|r| r["key"] == "0").expect("root's");
        root["jobs"].as_u64().expect("a number")
    };
    assert!(jobs("--farm") > jobs(""), "the rows are not summed up");
    farm.sh("n3", "p=$(cat /var/lib/armento/lock); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.01; done");
    let out = farm.run("n1", "armento history --farm --by node");
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        said.contains("no answer of n3") && said.contains("hint: "),
        "{said}"
    );
    farm.daemon("n3");
}

/// What commands print is what `armento schema` says, field by field.
fn documents_are_as_their_schema_says(farm: &Farm) {
    let schema = json(farm, "n1", "armento schema");
    let start = "armento run --stay sleep 1000 >/dev/null 2>&1 & echo $!";
    let pid = farm.sh("n1", start).trim().to_owned();
    until("the process is known", || {
        farm.run("n1", &format!("armento migrate {pid} n2"))
            .status
            .success()
    });
    let commands = [
        "nodes",
        "ps",
        "why PID",
        "files PID",
        "log",
        "migrate PID n1",
        "migrate PID balance --dry-run",
        "history --farm",
        "history --by node",
        "farm status",
        "farm trust",
        "farm invite",
        "farm list",
        "farm rotate --dry-run",
        "farm upgrade --dry-run",
        "farm recover --list",
        "node drain n3 --no-wait",
        "node undrain n3",
        "mfs stat",
        "dfsa",
        "hostfile",
        "mpi-env",
        "mosix list",
        "mosix cat /proc/hpc/nodes",
        "mosix cat /proc/PID/where",
        "doctor",
        "doctor --calls",
        "context list",
        "context invite",
        "safe PID --dry-run",
        "checkpoint PID /tmp/documents.ckpt",
        "checkpoint --inspect /tmp/documents.ckpt",
        "web --dry-run",
        "web",
        "web --end",
        "paper list",
    ];
    let mut wrong = Vec::new();
    for command in commands {
        let command = command.replace("PID", &pid);
        let out = farm.run("n1", &format!("armento {command} --json"));
        let said = match serde_json::from_slice::<Value>(&out.stdout) {
            Ok(doc) => armento_schema::check_document(&schema, &doc).err(),
            Err(e) => Some(format!("{e}: {out:?}")),
        };
        wrong.extend(said.map(|why| format!("{command}: {why}")));
    }
    farm.sh("n1", &format!("kill {pid}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn jobs_are_in_the_history_with_node_and_status(farm: &Farm) {
    let ran = farm.run("n1", &format!("armento run --on n2 {WORK}"));
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let job = || {
        let all = rows(farm, "");
        all.into_iter().find(|r| {
            r["job"]["command"]
                .as_str()
                .is_some_and(|c| c.starts_with("perl"))
        })
    };
    until("the end of the job", || {
        job().is_some_and(|j| !j["job"]["end_ms"].is_null())
    });
    let job = job().expect("the job");
    assert_eq!(job["job"]["status"], 3, "{job}");
    assert!(
        job["away_cpu_ms"].as_u64().is_some_and(|ms| ms > 50),
        "{job}"
    );
    assert_eq!(job["moves"], 1, "{job}");
    let there = rows(farm, "--by node --node n2");
    assert_eq!(there.len(), 1, "{there:?}");
    assert_eq!(there[0]["away_cpu_ms"], job["away_cpu_ms"]);
    // At home, and ended by a signal.
    let killed = farm.run("n1", "armento run --stay sh -c 'kill -9 $$'");
    assert_eq!(killed.status.code(), Some(137), "{killed:?}");
    let status = || rows(farm, "-n 1")[0]["job"]["status"].clone();
    until("the status of the killed job", || status() == 137);
    let csv = farm.sh("n1", "armento history --by command --csv");
    assert!(
        csv.starts_with("program,jobs,home_cpu_ms,") && csv.contains("\nperl,1,"),
        "{csv}"
    );
}

fn users_read_their_own_jobs(farm: &Farm) {
    farm.sh("n1", &format!("{USER} armento run --stay true"));
    let mine = farm.sh("n1", &format!("{USER} armento history --json"));
    let mine: Value = serde_json::from_str(&mine).expect("JSON");
    let mine = mine["rows"].as_array().expect("rows");
    assert_eq!(mine.len(), 1, "{mine:?}");
    assert_eq!(mine[0]["job"]["uid"], 1000);
    let roots = farm.sh("n1", &format!("{USER} armento history --user root --json"));
    assert!(roots.contains("\"rows\": []"), "{roots}");
    assert_eq!(rows(farm, "--by user --user 1000").len(), 1);
}

fn a_restarted_daemon_goes_on_with_a_job(farm: &Farm) {
    let start = "setsid armento run --on n2 sleep 300 >/dev/null 2>&1 </dev/null & echo $!";
    let pid = farm.sh("n1", start);
    let pid = pid.trim();
    until("the job", || {
        rows(farm, "-n 1")[0]["job"]["command"] == "sleep 300"
    });
    let job = || rows(farm, "-n 1").remove(0);
    until("its move", || job()["moves"] == 1);
    let before = job();
    farm.sh("n1", "pkill -KILL -f '[a]rmento node$'");
    farm.daemon("n1");
    until("its keeper", || {
        farm.sh("n1", "armento ps --json").contains("sleep 300")
    });
    farm.sh("n1", &format!("armento migrate {pid} home; kill {pid}"));
    until("its end", || !job()["job"]["end_ms"].is_null());
    let after = job();
    assert_eq!(after["key"], before["key"]);
    assert_eq!(after["moves"], 2, "{before} {after}");
}

fn a_full_disk_stops_no_program(farm: &Farm) {
    // The history alone is on a disk that is full.
    farm.sh(
        "n1",
        "pkill -KILL -f '[a]rmento node$'; mkdir /tmp/full; mount -t tmpfs -o size=64k none /tmp/full; \
         head -c 200k /dev/zero > /tmp/full/filler 2>/dev/null; cd /var/lib/armento; rm history.db*; \
         ln -s /tmp/full/history.db history.db",
    );
    farm.daemon("n1");
    let ran = farm.run("n1", "armento run --on n2 echo written");
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "written\n");
    let said = farm.run("n1", "armento history");
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(told.contains("the history cannot be written"), "{said:?}");
    farm.sh(
        "n1",
        "rm /tmp/full/filler; mount -o remount,size=8m /tmp/full",
    );
    until("the job that waited", || {
        farm.sh("n1", "armento history 2>/dev/null")
            .contains("echo written")
    });
    assert_eq!(farm.run("n1", "armento history").stderr, b"");
}

fn processes_are_listed_as_a_tree(farm: &Farm) {
    farm.sh(
        "n1",
        "setsid armento run --stay sh -c 'sleep 300 & sleep 301 & wait' >/dev/null 2>&1 </dev/null &",
    );
    let tree = || farm.sh("n1", "armento ps --tree --sort node");
    let children = |text: &str| text.lines().filter(|l| l.contains("  \\_ s")).count();
    until("two children", || children(&tree()) == 2);
    // Their parent comes first, whatever the order of siblings.
    let text = tree();
    let first = text.lines().nth(1).expect("the parent");
    assert!(first.contains("  sh -c sleep 300 "), "{text}");
    let lines = |options: &str| {
        farm.sh("n1", &format!("armento ps {options}"))
            .lines()
            .count()
    };
    assert!(lines("--command 'sh -c' --node n1 --user root") >= 2);
    assert_eq!(lines("--command 'no such words'"), 1);
    assert_eq!(lines("--node n2"), 1);
    assert_eq!(lines("--user 4711"), 1);
    let watched = farm.sh("n1", "armento ps --watch=0.1 | head -n 12 | grep -c PID");
    assert!(
        watched.trim().parse::<u32>().is_ok_and(|n| n >= 2),
        "{watched}"
    );
    farm.sh("n1", "pkill -f '[s]leep 30'");
    until("their ends", || !tree().contains("sleep 30"));
}

fn dry_runs_change_nothing(farm: &Farm) {
    let start = "setsid armento run --stay sleep 300 >/dev/null 2>&1 </dev/null & echo $!";
    let pid = farm.sh("n1", start);
    let pid = pid.trim();
    until("the process", || {
        farm.sh("n1", "armento ps").contains("sleep 300")
    });
    let state = || {
        let files = farm.sh("n1", "cd /var/lib/armento; ls; cat tokens.json farm.json");
        let status = farm.sh("n1", "armento farm status; armento nodes | cut -c1-12");
        format!(
            "{files}{status}{}",
            farm.sh("n1", "armento ps | grep -c sleep")
        )
    };
    let before = state();
    for command in [
        "farm token",
        "farm trust --send-to n2",
        "farm reload",
        "farm remove n3",
        "farm start",
        "farm stop",
        "farm drain",
        "farm block",
        "farm stay",
        "farm quiet",
        "farm expel",
        "farm bring",
        "leave",
        &format!("migrate {pid} n2"),
        &format!("hold {pid}"),
        "mfs on",
        "mfs select n2",
    ] {
        let out = farm.run("n1", &format!("armento {command} --dry-run"));
        assert!(out.status.success(), "{command}: {out:?}");
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let shown = said.contains("would ") && said.ends_with("nothing was changed\n");
        assert!(
            shown || command.starts_with("farm trust"),
            "{command}: {said}"
        );
        assert_eq!(state(), before, "{command}");
    }
    let unknown = farm.run("n1", "armento farm remove n9 --dry-run");
    assert_eq!(unknown.status.code(), Some(125));
    farm.sh("n1", &format!("kill {pid}"));
}
