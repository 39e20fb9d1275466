//! Experiments of the papers as a user runs them: interrupted and resumed, with bad input, and their report.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(120);

/// A folder of results that is removed at the end.
struct Data(PathBuf);

impl Data {
    fn new(what: &str) -> Data {
        let dir = std::env::temp_dir().join(format!("armento-paper-{what}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        Data(dir)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(ARMENTO);
        c.arg("paper").args(args).arg("--data").arg(&self.0);
        c.stdin(Stdio::null());
        c
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("armento runs")
    }

    fn results(&self, id: &str) -> Option<Value> {
        let text = fs::read(self.0.join(format!("{id}.json"))).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A command that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&[&out.stdout[..], &out.stderr[..]].concat()).into_owned()
}

#[test]
fn papers_are_computed_simulated_and_reported() {
    let data = Data::new("pure");
    let out = data.run(&["run", "power", "costs"]);
    let text = said(&out);
    assert!(out.status.success(), "{text}");
    let out = data.run(&["run", "test1-sim", "--scale", "0.1"]);
    let text = text + &said(&out);
    assert!(out.status.success(), "{text}");
    for part in [
        "820 E-05",
        "-8.88 E-06",
        "1095 E-07",
        "B-01 ",
        "Q-12 ",
        "E-30",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let out = data.run(&["run", "test1-sim", "--resume", "--scale", "0.1"]);
    assert!(
        said(&out).contains("test1-sim: nothing is missing"),
        "{}",
        said(&out)
    );
    let out = data.run(&["run", "test1-sim", "--resume", "--scale", "0.5"]);
    assert!(
        said(&out).contains("have scale 0.1 and 16 nodes, asked for are 0.5"),
        "{}",
        said(&out)
    );

    // A report over results of another build says so; a damaged file is named.
    let file = data.0.join("costs.json");
    let results = fs::read_to_string(&file).expect("results");
    let other = results.replacen("\"hash\": \"", "\"hash\": \"x", 1);
    fs::write(&file, other).expect("written");
    let out = data.run(&["report"]);
    assert!(out.status.success(), "{}", said(&out));
    let page = fs::read_to_string(data.0.join("report/report.html")).expect("a page");
    assert!(page.contains("of another build than the program") && page.contains("<svg"));
    assert!(!page.contains("http"), "the page refers to another one");
    assert!(data.0.join("report/power-1.svg").exists());
    let markdown = fs::read_to_string(data.0.join("report/report.md")).expect("a page");
    assert!(
        markdown.contains("| not run |") && markdown.contains("438 E-04"),
        "{markdown}"
    );
    fs::write(&file, &results[..results.len() / 2]).expect("written");
    let out = data.run(&["report"]);
    let text = said(&out);
    assert!(
        text.contains("costs.json: damaged") && text.contains("hint:"),
        "{text}"
    );
    fs::write(&file, results.replace("armento.paper/1", "armento.paper/9")).expect("written");
    let text = said(&data.run(&["report"]));
    assert!(
        text.contains("armento.paper/9, this program knows armento.paper/1"),
        "{text}"
    );
}

#[test]
fn wrong_orders_are_refused_with_a_hint() {
    let data = Data::new("wrong");
    for (args, part) in [
        (
            &["run", "nonsense"][..],
            "there is no experiment `nonsense`",
        ),
        (
            &["run", "test1-sim", "--on", "lab"],
            "runs on the simulator, not on the lab",
        ),
        (
            &["run", "test1-lab", "--nodes", "99"],
            "hint: --nodes 2 to 32",
        ),
        (
            &["run", "test1-sim", "--scale", "7"],
            "hint: --scale 0.01 to 1",
        ),
        (&["report"], "has no results"),
    ] {
        let out = data.run(args);
        let text = said(&out);
        assert!(
            !out.status.success() && text.contains(part) && text.contains("hint:"),
            "{text}"
        );
    }
    let list = Command::new(ARMENTO)
        .args(["paper", "list", "--json"])
        .output();
    let list: Value = serde_json::from_slice(&list.expect("armento runs").stdout).expect("JSON");
    assert_eq!(list["schema"], "armento.paper-list/1");
}

/// Programs that a machine may lack, and rights.
fn lacks() -> Option<&'static str> {
    let root = fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
    let has = |p: &str| Path::new("/usr/bin").join(p).exists();
    match (root, has("lame") && has("sox") && has("aplay")) {
        (false, _) => Some("root (namespaces, mounts, control groups)"),
        (_, false) => Some("lame, sox and alsa-utils"),
        _ => None,
    }
}

/// Ctrl-C after the first run: its sample is kept, the lab is gone, and another command does the rest.
#[test]
fn an_interrupted_experiment_is_resumed() {
    if let Some(what) = lacks() {
        println!("skipped: experiments in a lab need {what}");
        return;
    }
    let data = Data::new("lab");
    let args = [
        "run",
        "topology-mono",
        "--scale",
        "0.002",
        "--nodes",
        "2",
        "--resume",
    ];
    let child = data
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut running = Running(child.expect("armento runs"));
    let began = Instant::now();
    let samples = |data: &Data| {
        let results = data.results("topology-mono")?;
        Some(results["samples"].as_array()?.len())
    };
    while samples(&data).is_none() {
        assert!(began.elapsed() < LONG && running.0.try_wait().expect("a child").is_none());
        sleep(Duration::from_millis(20));
    }
    let pid = running.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill runs").success());
    let status = running.0.wait().expect("a child");
    assert_eq!(status.code(), Some(130));
    let labs = Command::new(ARMENTO)
        .args(["lab", "list"])
        .output()
        .expect("armento runs");
    assert!(!said(&labs).contains(&format!("-{pid}")), "{}", said(&labs));
    assert_eq!(samples(&data), Some(1));

    let out = data.run(&args);
    let text = said(&out);
    assert!(out.status.success(), "{text}");
    assert!(text.contains("topology-mono: 1 of 3: hub"), "{text}");
    let results = data.results("topology-mono").expect("results");
    assert_eq!(
        (samples(&data), &results["complete"]),
        (Some(4), &Value::Bool(true))
    );
    let traffic = results["samples"][1]["traffic"]
        .as_array()
        .expect("counters");
    let sent = |i: usize| traffic[i]["sent"].as_u64().expect("bytes");
    assert!(traffic.len() == 2 && sent(0) > 100_000, "{traffic:?}");
}

/// Programs and headers of the experiments by PVM.
fn lacks_pvm() -> Option<&'static str> {
    let root = fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
    let pvm =
        ["/usr/lib/pvm3/lib/pvmd", "/usr/include/pvm3.h"].map(|file| Path::new(file).exists());
    match (root, pvm) {
        (false, _) => Some("root (namespaces, mounts, control groups)"),
        (_, [true, true]) => None,
        _ => Some("pvm and pvm-dev"),
    }
}

/// The pid namespaces of processes of this name, but for the test's own: those of labs.
fn named(name: &str) -> Vec<PathBuf> {
    let own = fs::read_link("/proc/self/ns/pid").expect("a namespace");
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let one = |entry: fs::DirEntry| {
        let is = fs::read_to_string(entry.path().join("comm")).ok()?;
        let space = fs::read_link(entry.path().join("ns/pid")).ok()?;
        (is.trim() == name && space != own).then_some(space)
    };
    all.filter_map(one).collect()
}

/// The pid namespaces of the nodes of the labs that this process has raised.
fn spaces(pid: u32) -> Vec<PathBuf> {
    let out = Command::new(ARMENTO)
        .args(["lab", "list", "--json"])
        .output()
        .expect("armento runs");
    let doc: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let labs = doc["labs"].as_array().expect("labs").iter();
    let mine = labs.filter(|l| {
        l["name"]
            .as_str()
            .is_some_and(|n| n.ends_with(&format!("-{pid}")))
    });
    let nodes = mine.flat_map(|l| l["nodes"].as_array().into_iter().flatten());
    nodes
        .filter_map(|n| fs::read_link(format!("/proc/{}/ns/pid", n["pid"].as_u64()?)).ok())
        .collect()
}

/// Five tasks on four nodes: PVM gives one node two of them. Killed by SIGKILL, the command leaves no pvmd.
#[test]
fn pvm_deals_out_jobs_and_leaves_nothing() {
    if let Some(what) = lacks_pvm() {
        println!("skipped: pvm_deals_out_jobs_and_leaves_nothing needs {what}");
        return;
    }
    let data = Data::new("pvm");
    let scenario = |seconds: f64| {
        let file = data.0.join("five.toml");
        let text = format!(
            "about = 'five'\nseries = [5]\nlimit = 100.0\n[[nodes]]\ncount = 4\nspeed = 0.2\nmem = 128\n[[jobs]]\nseconds = {seconds:.1}\n"
        );
        fs::write(&file, text).expect("written");
        file
    };
    let play = |file: &Path, policy: &str| {
        let mut c = Command::new(ARMENTO);
        c.args(["lab", "play", "--runs", "1", "--json", "--policy", policy]);
        c.arg(file).stdin(Stdio::null());
        c
    };
    let out = play(&scenario(2.0), "pvm,pvm-armento").output();
    let out = out.expect("armento runs");
    assert!(out.status.success(), "{}", said(&out));
    let doc: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let rows = doc["rows"].as_array().expect("rows");
    let policies: Vec<&str> = rows.iter().filter_map(|r| r["policy"].as_str()).collect();
    assert_eq!(policies, ["pvm", "pvm-armento"], "{doc}");
    for row in rows {
        assert_eq!(row["lost"], 0, "{row}");
        assert!(
            row["makespan_s"].as_f64() > row["limit_s"].as_f64(),
            "{row}"
        );
    }
    // Dealt out once, and two on one node.
    assert!(
        rows[0]["moves"] == 0 && rows[0]["ratio"].as_f64() > Some(1.5),
        "{doc}"
    );

    let child = play(&scenario(90.0), "pvm").stdout(Stdio::null()).spawn();
    let mut running = Running(child.expect("armento runs"));
    let began = Instant::now();
    let mut nodes = Vec::new();
    // Nodes that have one. A pvmd that starts a task is two processes of its name for a moment.
    let of_lab = |nodes: &[PathBuf], name: &str| {
        let mut all = named(name);
        all.retain(|space| nodes.contains(space));
        all.sort();
        all.dedup();
        all.len()
    };
    while of_lab(&nodes, "pvm-task") == 0 {
        assert!(began.elapsed() < LONG && running.0.try_wait().expect("a child").is_none());
        nodes = spaces(running.0.id());
        sleep(Duration::from_millis(50));
    }
    assert_eq!(of_lab(&nodes, "pvmd"), 4);
    running.0.kill().expect("killed");
    running.0.wait().expect("a child");
    let began = Instant::now();
    while of_lab(&nodes, "pvmd") + of_lab(&nodes, "pvm-task") > 0 {
        assert!(began.elapsed() < LONG, "a pvmd is left behind");
        sleep(Duration::from_millis(50));
    }
    let down = Command::new(ARMENTO)
        .args(["lab", "down", "--name", &format!("play-{}", running.0.id())])
        .output();
    down.expect("armento runs");
}

/// Real messages on a hub, by sockets and by PVM: every cell of four processes, and the time that the medium takes at least.
#[test]
fn neighbours_exchange_messages_on_a_hub() {
    if let Some(what) = lacks_pvm() {
        println!("skipped: neighbours_exchange_messages_on_a_hub needs {what}");
        return;
    }
    let data = Data::new("exchange");
    let out = data.run(&["run", "exchange", "--nodes", "4", "--scale", "0.005"]);
    let text = said(&out);
    assert!(out.status.success(), "{text}");
    let results = data.results("exchange").expect("results");
    let samples = results["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 3, "{text}");
    let value = |name: &str| {
        let all = samples.iter().filter_map(|s| s["values"][name].as_f64());
        all.reduce(f64::max)
            .unwrap_or_else(|| panic!("{name}: {text}"))
    };
    for way in ["mosix", "pvm", "chain_mosix", "chain_pvm"] {
        for kb in [1.0, 16.0, 64.0, 256.0] {
            let messages = if way.starts_with("chain") { 6.0 } else { 8.0 };
            let seconds = value(&format!("exchange.{kb}.4.{way}"));
            // 60 cycles at 10 Mbit/s; bytes that are under way while a process computes are not in its time.
            let least = messages * kb * 1024.0 * 8.0 * 60.0 / 10e6 * 0.8;
            assert!(seconds > least, "{way}, {kb} KB: {seconds}: {text}");
        }
    }
    assert!(value("exchange.16.4.pipes") > 0.0);
}

/// The experiments that take a minute or need a package of its own.
#[test]
fn copies_compilations_and_erlang_are_re_run() {
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: takes minutes; `make test-all` runs it");
        return;
    }
    if let Some(what) = lacks_pvm() {
        println!("skipped: copies_compilations_and_erlang_are_re_run needs {what}");
        return;
    }
    for (id, scale, program, package) in [
        ("riello-table2", "0.001", "mpicc.openmpi", "libopenmpi-dev"),
        ("riello-sizes", "0.0005", "mpicc.openmpi", "libopenmpi-dev"),
        ("compile", "0.1", "make", "make"),
        ("erlang", "0.1", "erl", "erlang-base"),
        ("test3-lab", "0.01", "pvm", "pvm"),
    ] {
        if !Path::new("/usr/bin").join(program).exists() {
            println!("skipped: {id} needs {package}");
            continue;
        }
        let data = Data::new(id);
        let out = data.run(&["run", id, "--scale", scale]);
        assert!(out.status.success(), "{id}: {}", said(&out));
        let results = data.results(id).expect("results");
        assert_eq!(results["complete"], Value::Bool(true), "{id}");
    }
}
