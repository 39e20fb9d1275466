//! MPI programs as a user runs them: each program's result in a lab of two nodes, with Open MPI; hostfiles and settings;
//! bad input.

use armento_lab::{Lab, Link, Spec};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");

/// A folder of compiled programs that is removed at the end.
struct Cache(PathBuf);

impl Cache {
    fn new(what: &str) -> Cache {
        let dir = std::env::temp_dir().join(format!("armento-mpi-{what}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        Cache(dir)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut c = Command::new(ARMENTO);
        c.args(args).env("XDG_CACHE_HOME", &self.0);
        c.stdin(Stdio::null()).output().expect("armento runs")
    }

    /// What `bench … --json` says, if it ends well.
    fn bench(&self, args: &[&str]) -> Value {
        let mut all = vec!["bench"];
        all.extend(args);
        all.push("--json");
        let out = self.run(&all);
        assert!(out.status.success(), "{args:?}: {}", said(&out));
        let doc: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(doc["schema"], "armento.bench/1");
        doc["result"].clone()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&[&out.stdout[..], &out.stderr[..]].concat()).into_owned()
}

fn can(what: &str) -> bool {
    let missing = if !armento_lab::is_root() {
        "root (namespaces, mounts, control groups)"
    } else if ["mpirun.openmpi", "mpicc.openmpi"]
        .iter()
        .any(|p| armento_mpi::find_program(p).is_none())
    {
        "Open MPI (packages openmpi-bin libopenmpi-dev)"
    } else if !Command::new("mpicc.openmpi")
        .args(["-E", "-include", "mpi.h", "-x", "c", "/dev/null"])
        .output()
        .is_ok_and(|o| o.status.success())
    {
        "the headers of Open MPI (package libopenmpi-dev)"
    } else {
        return true;
    };
    println!("skipped: {what} needs {missing}");
    false
}

#[test]
fn programs_of_mpi_run_in_a_lab_and_their_results_are_right() {
    if !can("a benchmark of MPI") {
        return;
    }
    let cache = Cache::new("bench");
    let lab = ["--lab-nodes", "2"];
    let bench = |name: &str, more: &[&str]| cache.bench(&[&[name][..], &lab, more].concat());

    let flops = bench("flops", &["--points", "1000000", "--repeats", "1"]);
    let all = flops.as_array().expect("one and two processes");
    assert_eq!(
        (all.len(), all[1]["nodes"].as_array().map(Vec::len)),
        (2, Some(2))
    );
    assert!(all[1]["error"].as_f64().is_some_and(|e| e < 1e-9));

    let transfer = bench("transfer", &["--largest", "1024", "--seconds", "0.002"]);
    let partner = &transfer["partners"][0];
    for way in ["one", "both"] {
        assert_eq!(
            partner[way].as_array().map(Vec::len),
            Some(11),
            "{transfer}"
        );
    }
    assert!(partner["latency_s"].as_f64().is_some_and(|s| s > 0.0));

    let nettest = bench("nettest", &["--bytes", "1000", "--seconds", "0.01"]);
    let channels: Vec<_> = nettest["topologies"]
        .as_array()
        .expect("topologies")
        .iter()
        .map(|t| t["channels"].as_u64())
        .collect();
    assert_eq!(channels, [Some(1); 6]);

    let mpitest = bench("mpitest", &["--fast", "50", "--slow", "3"]);
    assert_eq!(
        mpitest["operations"].as_array().map(Vec::len),
        Some(3 + 12 * 3)
    );
    // Each of two processes checks each repeat of each operation and length.
    assert_eq!(mpitest["checked"], 2 * 12 * 3 * 3);

    let nfstest = bench("nfstest", &["--bytes", "100001"]);
    assert_eq!(nfstest["wrong"], 0);
    assert!(nfstest["checks"].as_u64().is_some_and(|n| n > 100));
}

/// The same five-dimensional integral and the same cells, natively and with `armento run` beneath mpirun.
#[test]
fn moved_processes_of_mpi_compute_the_same() {
    if !can("a moved MPI program") {
        return;
    }
    let cache = Cache::new("moved");
    let mpi = armento_mpi::Kind::OpenMpi.find().expect("found");
    let mut lab = Some(
        Lab::up(Spec {
            name: format!("mpi-{}", std::process::id()),
            nodes: 2,
            link: Link::Switch { bits: 100_000_000 },
            shares: vec![armento_lab::Share {
                dir: cache.0.clone(),
                at: "/srv/mpi".into(),
            }],
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        })
        .expect("a farm"),
    );
    let farm = lab.as_ref().expect("up");
    let program = |p| {
        let built = armento_mpi::build(&mpi, p, &cache.0).expect("compiled");
        let below = built
            .strip_prefix(&cache.0)
            .expect("below the folder")
            .to_owned();
        PathBuf::from("/srv/mpi").join(below)
    };
    let run = |program: PathBuf, args: &[&str], under: &[&str]| -> Value {
        let job = armento_mpi::Job {
            program,
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            np: 4,
            hosts: vec![
                armento_mpi::Host::new("n1", 2),
                armento_mpi::Host::new("n2", 2),
            ],
            under: under.iter().map(|a| (*a).to_owned()).collect(),
            interfaces: Some("eth0".into()),
            rsh: Some("armento-rsh".into()),
            ..armento_mpi::Job::default()
        };
        let line = job.line(&mpi, true);
        let mut c = farm.node(1).command("env");
        c.args(line.env.iter().map(|(n, v)| format!("{n}={v}")));
        let out = c
            .args(&line.words)
            .stdin(Stdio::null())
            .output()
            .expect("mpirun runs");
        assert!(out.status.success(), "{}", said(&out));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let json = text
            .lines()
            .find(|l| l.starts_with('{'))
            .unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    let storm = ["armento", "run", "--storm", "50"];
    for (p, args, print) in [
        (
            armento_mpi::Program::Integral,
            &["200000", "100,60"][..],
            "sum",
        ),
        (armento_mpi::Program::Halo, &["8", "10"], "print"),
    ] {
        let native = run(program(p), args, &[]);
        let moved = run(program(p), args, &storm);
        assert_eq!(native[print], moved[print], "{native} {moved}");
        assert!(native[print].is_number());
    }

    // The farm's nodes for mpirun, by each form; the launcher takes them.
    let say = |words: &[&str]| {
        let out = farm
            .node(1)
            .command("armento")
            .args(words)
            .output()
            .expect("runs");
        assert!(out.status.success(), "{}", said(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let hosts = say(&["hostfile", "--slots", "1"]);
    let net = farm.plan().net;
    assert_eq!(
        hosts,
        format!("10.77.{net}.1 slots=1\n10.77.{net}.2 slots=1\n")
    );
    assert_eq!(
        say(&["hostfile", "--mpich", "--slots", "3", "--names"]),
        "n1:3\nn2:3\n"
    );
    let settings = say(&["mpi-env"]);
    let script = format!(
        "cat > /tmp/hosts <<'E'\n{hosts}E\n{settings}\nmpirun.openmpi --allow-run-as-root --mca plm_rsh_agent armento-rsh --hostfile /tmp/hosts -x PMIX_MCA_gds \
         -np 2 sh -c 'echo $(hostname) $PMIX_MCA_gds $OMPI_MCA_btl'"
    );
    let out = farm
        .node(1)
        .command("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let mut lines: Vec<String> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(
        lines,
        ["n1 hash tcp,self", "n2 hash tcp,self"],
        "{}",
        said(&out)
    );
    // With default settings two processes of one node share memory, and `why` names what would let them move.
    let program = program(armento_mpi::Program::Integral);
    let script = format!(
        "mpirun.openmpi --allow-run-as-root --oversubscribe -np 2 armento run {} 100000000 > /dev/null 2>&1 &
         for i in $(seq 600); do
             p=$(pgrep -o integral) && armento why $p | grep 'start it with PMIX_MCA_gds=hash' && break
             sleep 0.1
         done
         kill $!; wait",
        program.display()
    );
    let out = farm
        .node(1)
        .command("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let text = said(&out);
    assert!(text.contains("armento mpi-env --openmpi"), "{text}");

    if let Some(lab) = lab.take() {
        lab.down().expect("down");
    }
}

/// In `make test-all`: they need large packages, and HPL is fetched and built.
#[test]
fn large_programs_of_mpi_run() {
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: LAMMPS and HPL need ARMENTO_LONG_TESTS (make test-all)");
        return;
    }
    if !can("LAMMPS and HPL") {
        return;
    }
    let cache = Cache::new("large");
    let data = cache.0.to_string_lossy().into_owned();
    let has_blas = || {
        let all = [armento_mpi::Blas::Reference, armento_mpi::Blas::Tuned];
        all.iter().all(|b| b.find().is_ok())
    };
    let lammps = armento_mpi::find_program("lmp").is_some();
    for (id, there, packages) in [
        ("lammps", lammps, "lammps"),
        ("hpl", has_blas(), "libblas3 libopenblas0-serial"),
    ] {
        if !there {
            println!("skipped: {id} needs {packages}");
            continue;
        }
        let out = cache.run(&["paper", "run", id, "--scale", "0.02", "--data", &data]);
        let text = said(&out);
        assert!(out.status.success(), "{text}");
        // Lines of moved processes are those of the others; a wrong residual of HPL is an error.
        assert!(!text.contains("differ") || id == "hpl", "{text}");
        assert!(!text.contains("not run"), "{text}");
    }
}

#[test]
fn wrong_benchmarks_are_refused_with_a_hint() {
    let cache = Cache::new("wrong");
    let file = cache.0.join("hosts");
    fs::write(&file, "n1 slots=none\n").expect("written");
    let hosts = file.to_string_lossy().into_owned();
    for (args, part) in [
        (
            &["bench", "flops", "--hostfile", "/no/such/file"][..],
            "cannot be read",
        ),
        (
            &["bench", "flops", "--hostfile", &hosts],
            "line 1 of the hostfile",
        ),
        (
            &["bench", "flops", "--lab-nodes", "2", "--speed", "7"],
            "a speed is a fraction",
        ),
        (
            &["bench", "transfer", "--hostfile", "/dev/null"],
            "names no host",
        ),
        (&["hostfile", "--slots", "0"], "--slots"),
    ] {
        if args[0] == "bench" && !can("a benchmark of MPI") {
            return;
        }
        let out = cache.run(args);
        let text = said(&out);
        assert!(
            !out.status.success() && text.contains(part),
            "{args:?}: {text}"
        );
        assert!(!text.contains("panicked"), "{text}");
    }
    // Without MPI the packages are named.
    let out = Command::new(ARMENTO)
        .args(["bench", "flops", "--lab-nodes", "2"])
        .env("PATH", "/nonexistent")
        .output()
        .expect("armento runs");
    let text = said(&out);
    assert!(
        text.contains("hint: apt-get install -y openmpi-bin libopenmpi-dev"),
        "{text}"
    );
}
