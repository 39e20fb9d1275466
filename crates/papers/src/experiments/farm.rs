//! Test 1 on a farm of real machines: the one to which this node belongs.

use crate::chapter::{Cell, Chapter, Content, Line, Plot, Series, Table};
use crate::formula::Values;
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, nothing};
use anyhow::{Context, Result, anyhow, bail};
use armento_lab::play::{compile, ended};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// PAPER(M, test 1): length of a program, seconds.
const LENGTH_S: f64 = crate::published::TEST1_S;

pub static TEST1: Experiment = Experiment {
    id: "test1-farm",
    title: "N equal programs on the farm of this node",
    paper: "M",
    place: "CPU-bound test 1",
    requirements: &["R-054"],
    shows: "Programs that may move end sooner than programs that are dealt out once; here on real machines, with whatever policy they have.",
    emulation: "the live farm to which this node belongs, under its own settings and beside all that runs there; programs that compute for so much processor time, started at once on this node; the limit is that of processors as fast as this one",
    on: On::Farm,
    nodes: 0,
    nodes_range: 0..=0,
    scale: 0.1,
    scale_range: 0.005..=1.0,
    minutes: 5.0,
    tools: &[
        Tool {
            program: "cc",
            package: "gcc libc6-dev",
        },
        Tool {
            program: "bash",
            package: "bash",
        },
        Tool {
            program: "setsid",
            package: "util-linux",
        },
    ],
    relations: &["B-09"],
    fits,
    prepare: nothing,
    runs,
    perform,
    derive: limits,
    chapter,
};

/// Numbers of programs for each processor of the farm: the name of the run, the numerator and denominator of its number of
/// programs, and how many more.
const RUNS: [(&str, usize, usize, usize); 4] = [
    ("one program, not under Armento", 0, 1, 1),
    ("one program more than processors", 1, 1, 1),
    ("three programs for two processors, and one", 3, 2, 1),
    ("two programs a processor", 2, 1, 0),
];

/// Names and processors of the nodes that are alive.
fn nodes() -> Result<Vec<(String, usize)>> {
    let program = std::env::current_exe().context("cannot find our own binary")?;
    let out = Command::new(program)
        .args(["nodes", "--json"])
        .stdin(Stdio::null())
        .output()?;
    if !out.status.success() {
        bail!(
            "{}",
            String::from_utf8_lossy(&out.stderr)
                .trim()
                .trim_start_matches("armento: ")
        );
    }
    let all: Value = serde_json::from_slice(&out.stdout).context("`armento nodes --json`")?;
    let one = |n: &Value| {
        let alive = n["state"] == "alive" && n["shut"] != true;
        let cores = n["cores"].as_u64()? as usize;
        (alive && cores > 0).then(|| Some((n["name"].as_str()?.to_owned(), cores)))?
    };
    let all = all["nodes"].as_array().map_or(&[][..], |n| n);
    Ok(all.iter().filter_map(one).collect())
}

fn fits(_: &Setting) -> Result<()> {
    let nodes = nodes()?;
    if nodes.len() < 2 {
        bail!(
            "{} node of the farm takes programs, two are needed\nhint: `armento nodes` shows them; test1-lab makes a farm on this machine",
            nodes.len()
        );
    }
    Ok(())
}

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |(name, _, of, _): (&str, usize, usize, usize)| Run {
        name: name.to_owned(),
        expect_s: LENGTH_S * setting.scale * if of == 1 { 1.5 } else { 2.0 } + 2.0,
    };
    RUNS.map(run).to_vec()
}

/// Removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure here has no remedy, and the folder is a temporary one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let known = RUNS.iter().find(|(name, ..)| *name == run.name);
    let (_, times, of, more) = known.ok_or_else(|| anyhow!("there is no run `{}`", run.name))?;
    let before = nodes()?;
    let cores: usize = before.iter().map(|(_, cores)| cores).sum();
    let n = cores * times / of + more;
    let folder = Folder(std::env::temp_dir().join(format!("armento-paper-{}", std::process::id())));
    fs::create_dir(&folder.0).with_context(|| format!("cannot make {}", folder.0.display()))?;
    let program = folder.0.join("job");
    fs::write(&program, compile(&folder.0)?)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let under = *times > 0;
    let text = script(n, under, LENGTH_S * setting.scale, &folder.0)?;
    let began = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64());
    let status = run_script(&text)?;
    let report = fs::read_to_string(folder.0.join("report")).unwrap_or_default();
    let ends = ended(&report, began);
    let problem = if !status.success() || ends.len() != n {
        Some(format!(
            "{} of {n} programs ended as they should",
            ends.len()
        ))
    } else if nodes()? != before {
        Some("nodes came or went".to_owned())
    } else {
        None
    };
    let makespan_s = ends.iter().map(|(_, s)| *s).fold(0.0, f64::max);
    let mut values = Values::default();
    match under {
        true => values.set(format!("farm.{n}.s"), makespan_s),
        false => values.set("farm.alone.s", makespan_s),
    }
    values.set("farm.cores", cores as f64);
    Ok(Measured {
        values,
        raw: json!({ "nodes": before, "programs": n, "ends_s": ends }),
        traffic: Vec::new(),
        problem,
    })
}

/// Runs it in a session of its own, which ends with this process: its standard input is then closed.
fn run_script(text: &str) -> Result<ExitStatus> {
    let mut shell = Command::new("setsid");
    shell
        .args(["--wait", "bash", "-c", text])
        .stdin(Stdio::piped());
    let mut child = shell.spawn().context("cannot start a shell")?;
    // Waiting would close it.
    let held = child.stdin.take();
    let status = child.wait()?;
    drop(held);
    Ok(status)
}

/// All programs at once, as a user would start them. When this process ends, so do they.
fn script(n: usize, under: bool, seconds: f64, folder: &Path) -> Result<String> {
    let armento = std::env::current_exe().context("cannot find our own binary")?;
    let (armento, dir) = (armento.display(), folder.display());
    let run = if under {
        format!("'{armento}' run ")
    } else {
        String::new()
    };
    // KERNEL: kill(2): 0 is the own process group.
    let mut text =
        "exec 3<&0 </dev/null\n( read -r _ <&3; kill -KILL 0 ) &\nwatch=$!\njobs=()\n".to_owned();
    for i in 0..n {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{{ {run}'{dir}/job' {seconds:.3} 4 && echo {i} $EPOCHREALTIME >> '{dir}/report'; }} 3<&- & jobs+=($!)"
        );
    }
    Ok(text + "wait \"${jobs[@]}\"\nkill $watch\n")
}

fn limits(all: &mut Values) {
    let (Some(alone), Some(cores)) = (all.get("farm.alone.s"), all.get("farm.cores")) else {
        return;
    };
    for n in all.numbers(&["farm.{n}.s"]).unwrap_or_default() {
        all.set(
            format!("farm.{n}.limit"),
            alone * (n as f64 / cores).max(1.0),
        );
        // PAPER(M, test 1): what placing once would take.
        all.set(format!("farm.{n}.once"), alone * (n as f64 / cores).ceil());
    }
}

fn chapter(found: &Found) -> Chapter {
    let mut all = Table::new(
        "Seconds until all programs have ended",
        &[
            "programs",
            "limit",
            "placed once, at best",
            "seconds",
            "over limit",
        ],
    );
    let numbers = found.values.numbers(&["farm.{n}.s"]).unwrap_or_default();
    let numbers = if numbers.is_empty() { vec![1] } else { numbers };
    for n in &numbers {
        let get = |name: &str| found.mean(&format!("farm.{n}.{name}"));
        let shown =
            |name: &str| get(name).map_or_else(Cell::unrun, |m| Cell::recomputed(m.mean, 1));
        let over = get("s")
            .zip(get("limit"))
            .map(|(s, limit)| s.mean / limit.mean);
        all.rows.push(vec![
            Cell::label(n.to_string()),
            shown("limit"),
            shown("once"),
            Cell::measured(get("s"), 1),
            over.map_or_else(Cell::unrun, |o| Cell::recomputed(o, 3)),
        ]);
    }
    let series = |name: &str, key: &str, line| Series {
        name: name.into(),
        line,
        points: numbers
            .iter()
            .filter_map(|n| Some((*n as f64, found.value(&format!("farm.{n}.{key}"))?)))
            .collect(),
    };
    Chapter {
        tables: vec![all],
        plots: vec![Plot {
            title: "N equal programs on the farm".into(),
            x: "programs".into(),
            y: "seconds".into(),
            content: Content::Lines(vec![
                series("measured", "s", Line::Joined),
                series("placed once, at best", "once", Line::Thin),
                series("limit", "limit", Line::Thin),
            ]),
        }],
        notes: vec![
            "The time of one program alone on this node, not under Armento, is the unit of limit and staircase; programs use so \
             much processor time wherever they run, so that faster nodes make no difference."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_from_one_program_alone() {
        let mut all = Values::default();
        for (name, value) in [
            ("farm.alone.s", 10.0),
            ("farm.cores", 4.0),
            ("farm.5.s", 13.0),
        ] {
            all.set(name, value);
        }
        limits(&mut all);
        assert_eq!(
            (all.get("farm.5.limit"), all.get("farm.5.once")),
            (Some(12.5), Some(20.0))
        );
    }

    /// Without a farm: the programs run here, and each reports its end.
    #[test]
    fn the_script_runs_all_programs() {
        let dir =
            Folder(std::env::temp_dir().join(format!("armento-script-{}", std::process::id())));
        fs::create_dir_all(&dir.0).expect("a folder");
        let program = dir.0.join("job");
        fs::write(&program, "#!/bin/sh\nexit 0\n").expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        let text = script(3, false, 0.1, &dir.0).expect("a script");
        let status = run_script(&text).expect("a shell");
        let report = fs::read_to_string(dir.0.join("report")).expect("a report");
        assert!(report.lines().count() == 3, "{status}: {report}");
    }
}
