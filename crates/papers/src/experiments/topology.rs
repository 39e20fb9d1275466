//! 24 encodings on one node and behind a switch, stereo and mono.

use crate::chapter::{Bar, Cell, Chapter, Content, Mean, Plot, Table};
use crate::encoders::{Mode, Prepared, Work, prepare as measure};
use crate::figures::{Makespan, Spread};
use crate::formula::Values;
use crate::published::{JOBS, MHZ, Row, table};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, Tool, always};
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};

/// What conversions in a lab need.
pub const TOOLS: &[Tool] = &[
    Tool {
        program: "lame",
        package: "lame",
    },
    Tool {
        program: "sox",
        package: "sox",
    },
    Tool {
        program: "aplay",
        package: "alsa-utils",
    },
    Tool {
        program: "ip",
        package: "iproute2",
    },
];

const EMULATION: &str = "lab: lame on recorded voices instead of bladeenc, behind a switch whose rate keeps the paper's ratio of processor time to bytes; hub and point-to-point links are not run here";

const BASE: Experiment = Experiment {
    id: "",
    title: "",
    paper: "P",
    place: "",
    requirements: &["R-050", "R-080", "R-081", "R-082", "R-083"],
    shows: "",
    emulation: EMULATION,
    on: On::Lab,
    nodes: 3,
    nodes_range: 2..=8,
    scale: 0.018,
    scale_range: 0.001..=1.0,
    minutes: 4.0,
    tools: TOOLS,
    relations: &[],
    fits: always,
    prepare: prepare_stereo,
    runs: stereo_runs,
    perform: stereo,
    derive: shares,
    chapter: stereo_chapter,
};

pub static STEREO: Experiment = Experiment {
    id: "topology-stereo",
    title: "24 stereo conversions on one node and on a farm",
    place: "table of the stereo runs",
    shows: "24 conversions started at once on three nodes behind a switch take 36.7 % of the single node's time.",
    relations: &["Q-01", "Q-02", "Q-03", "Q-05", "B-05"],
    ..BASE
};

pub static MONO: Experiment = Experiment {
    id: "topology-mono",
    title: "24 mono conversions on one node and on a farm",
    place: "table of the mono runs",
    shows: "Half the processor time for the same bytes: the network decides, and the switch needs 48.1 %.",
    relations: &["Q-01", "Q-02", "Q-03", "Q-04", "Q-09", "B-04"],
    scale: 0.03,
    minutes: 3.5,
    prepare: prepare_mono,
    runs: mono_runs,
    perform: mono,
    chapter: mono_chapter,
    ..BASE
};

/// A node's share of a core.
pub fn speed_of(nodes: usize) -> f64 {
    crate::encoders::speed(nodes)
}

/// Refuses a scale whose files this machine's memory cannot hold, or that takes too long a clip.
pub fn clip_fits(p: &Prepared, setting: &Setting) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    // KERNEL: proc_meminfo(5), MemAvailable, KiB.
    let free = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let free: Option<f64> = free.and_then(|l| l.trim().split(' ').next()?.parse().ok());
    fits(p, setting, free.unwrap_or(f64::MAX) * 1024.0)
}

/// Files may take half of the free memory: nodes keep theirs there.
const FILES_SHARE: f64 = 0.5;

fn fits(p: &Prepared, setting: &Setting, free: f64) -> Result<()> {
    let wanted_s = p.mode.single_s() * setting.scale;
    let got_s = p.plan.node_s_per_job * JOBS as f64;
    let by_clip = setting.scale * got_s / wanted_s;
    let files = p.plan.bytes_per_job * JOBS as f64;
    let by_memory = setting.scale * (free * FILES_SHARE / files);
    let most = by_clip.min(by_memory);
    // A clip shorter than wanted was cut at its limit; one that is longer has the shortest length.
    if most < setting.scale * 0.99 {
        bail!(
            "this machine is too small for a scale of {}: 24 files of {:.0} s of sound, {:.0} MB\nhint: --scale {:.4} fits",
            setting.scale,
            p.plan.clip_s,
            files / 1e6,
            most * 0.98
        );
    }
    Ok(())
}

fn prepare_stereo(setting: &Setting) -> Result<Value> {
    prepare(Mode::Stereo, setting)
}

fn prepare_mono(setting: &Setting) -> Result<Value> {
    prepare(Mode::Mono, setting)
}

fn prepare(mode: Mode, setting: &Setting) -> Result<Value> {
    let prepared = measure(
        mode,
        mode.single_s() * setting.scale,
        speed_of(setting.nodes),
    )?;
    clip_fits(&prepared, setting)?;
    Ok(serde_json::to_value(prepared)?)
}

fn stereo_runs(setting: &Setting) -> Vec<Run> {
    runs(Mode::Stereo, setting)
}

fn mono_runs(setting: &Setting) -> Vec<Run> {
    runs(Mode::Mono, setting)
}

fn runs(mode: Mode, setting: &Setting) -> Vec<Run> {
    let single_s = mode.single_s() * setting.scale;
    let run = |name: &str, nodes: usize| Run {
        name: name.to_owned(),
        expect_s: single_s / nodes as f64 + 12.0,
    };
    vec![run("single", 1), run("switch", setting.nodes)]
}

fn stereo(run: &Run, setting: &Setting, setup: &Value, _: u64) -> Result<Measured> {
    perform(Mode::Stereo, run, setting, setup)
}

fn mono(run: &Run, setting: &Setting, setup: &Value, _: u64) -> Result<Measured> {
    perform(Mode::Mono, run, setting, setup)
}

fn perform(mode: Mode, run: &Run, setting: &Setting, setup: &Value) -> Result<Measured> {
    let prepared: Prepared = serde_json::from_value(setup.clone())?;
    let work = Work::new(&prepared)?;
    let nodes = if run.name == "single" {
        1
    } else {
        setting.nodes
    };
    converted(&work, nodes, &format!("{}.{}", mode.word(), run.name))
}

/// All conversions on so many nodes: on one, one after the other; on more, all at once. `key`: of its values.
pub fn converted(work: &Work, nodes: usize, key: &str) -> Result<Measured> {
    let stage = work.raise(nodes)?;
    let (ran, raw, away) = match nodes {
        1 => {
            let ran = work.alone(&stage)?;
            let raw = json!({ "spans": ran.spans, "stolen_percent": ran.stolen_percent });
            (ran, raw, None)
        }
        _ => {
            let all = work.together(&stage)?;
            let sum = |f: fn(&crate::encoders::Usage) -> u64| {
                all.usage.values().map(f).sum::<u64>() as f64
            };
            let away = sum(|u| u.away_cpu_ms) / sum(|u| u.cpu_ms).max(1.0) * 100.0;
            let raw = serde_json::to_value(&all)?;
            (all.ran, raw, Some(away))
        }
    };
    let lost = stage.lab().lost();
    let failed = ran.spans.iter().filter(|s| s.status != 0).count();
    let problem = if !lost.is_empty() {
        Some(format!("nodes were lost: {}", lost.join(", ")))
    } else if failed > 0 || ran.equal != JOBS {
        Some(format!(
            "{failed} encoders failed, {} of {JOBS} MP3 files equal the native one",
            ran.equal
        ))
    } else {
        None
    };
    let traffic = match problem {
        None => stage.lab().traffic()?,
        Some(_) => Vec::new(),
    };
    stage.down()?;
    let durations: Vec<f64> = ran
        .spans
        .iter()
        .map(crate::figures::Span::duration)
        .collect();
    let figures = Makespan::of(&ran.spans).zip(Spread::of(&durations));
    let (makespan, spread) = figures.ok_or_else(|| anyhow!("no conversion has ended"))?;
    let mut values = Values::default();
    let mut set = |name: &str, value: f64| values.set(format!("{key}.{name}"), value);
    set("s", makespan.last_end_minus_first_start_s);
    set("nodes", nodes as f64);
    if nodes > 1 {
        set("longest", makespan.longest_job_s);
        set("slowest", spread.slowest_s);
        set("fastest", spread.fastest_s);
        set("diff", spread.diff_s);
        set("diff_pct", spread.diff_percent);
    }
    if let Some(away) = away {
        set("away_pct", away);
    }
    Ok(Measured {
        values,
        raw,
        traffic,
        problem,
    })
}

/// W over its maximum.
fn shares(all: &mut Values) {
    for mode in ["stereo", "mono"] {
        let Some(single) = all.get(&format!("{mode}.single.s")) else {
            continue;
        };
        for topology in ["hub", "switch", "p2p"] {
            let of = |name: &str| all.get(&format!("{mode}.{topology}.{name}"));
            let both = of("s").zip(of("nodes"));
            if let Some((s, nodes)) = both {
                all.set(format!("{mode}.{topology}.share"), single / s / nodes);
                all.set(format!("{mode}.{topology}.percent"), s / single * 100.0);
            }
        }
    }
}

fn stereo_chapter(found: &Found) -> Chapter {
    chapter(Mode::Stereo, found)
}

fn mono_chapter(found: &Found) -> Chapter {
    chapter(Mode::Mono, found)
}

fn chapter(mode: Mode, found: &Found) -> Chapter {
    let word = mode.word();
    let printed = table(mode.table()).ok();
    let mut all = Table::new(
        format!("24 conversions, {word}: published, three nodes of 300 MHz, beside measured"),
        &[
            "topology",
            "nodes published",
            "nodes",
            "makespan published, s",
            "makespan, s",
            "% of the single node published",
            "% of the single node",
        ],
    );
    let mut spread = Table::new(
        "Slowest and fastest conversion",
        &[
            "topology",
            "slow published, s",
            "slow, s",
            "fast published, s",
            "fast, s",
            "diff published, s",
            "diff, s",
            "diff published, %",
            "diff, %",
        ],
    );
    let mut bars = Table::new(
        "Percent of the single node, one cell for 2 %",
        &["topology", "", "%", "bar"],
    );
    let mut picture = Vec::new();
    let percent = |topology: &str| match topology {
        "single" => found.mean(&format!("{word}.single.s")).map(|_| 100.0),
        other => found.value(&format!("{word}.{other}.percent")),
    };
    for topology in ["single", "hub", "switch", "p2p"] {
        let row = printed
            .as_ref()
            .and_then(|t| t.find(&[("topology", topology)]));
        let get = |name: &str| found.mean(&format!("{word}.{topology}.{name}"));
        let measured = |name: &str, decimals| match topology {
            "single" if name != "s" => Cell::unprinted(),
            _ => Cell::measured(get(name), decimals),
        };
        let percent = percent(topology);
        let nodes_listed = Cell {
            erratum: row.and_then(|r| crate::published::mark(&r, "nodes_listed")),
            ..Cell::published(row, "nodes_measured")
        };
        all.rows.push(vec![
            Cell::label(topology),
            nodes_listed,
            match get("nodes") {
                Some(n) => Cell::recomputed(n.mean, 0),
                None => Cell::unrun(),
            },
            Cell::published(row, "makespan_s"),
            measured("s", 1),
            Cell::published(row, "percent_of_single_published"),
            Cell::measured(percent.and_then(|p| Mean::of(&[p])), 2),
        ]);
        spread.rows.push(vec![
            Cell::label(topology),
            Cell::published(row, "slowest_s"),
            measured("slowest", 1),
            Cell::published(row, "fastest_s"),
            measured("fastest", 1),
            Cell::published(row, "diff_s_published"),
            measured("diff", 1),
            Cell::published(row, "diff_pct_published"),
            measured("diff_pct", 1),
        ]);
        let published = row.and_then(|r: Row| r.number("percent_of_single_published"));
        if let Some(p) = published {
            bars.rows.push(vec![
                Cell::label(topology),
                Cell::label("published"),
                Cell::published(row, "percent_of_single_published"),
                Cell::bar(Some(p)),
            ]);
            picture.push(bar(topology, "published", p, 0));
        }
        bars.rows.push(vec![
            Cell::label(topology),
            Cell::label("measured"),
            Cell::measured(percent.and_then(|p| Mean::of(&[p])), 2),
            Cell::bar(percent),
        ]);
        picture.extend(percent.map(|p| bar(topology, "measured", p, 1)));
    }
    Chapter {
        tables: vec![all, spread, bars, power(mode, found)],
        plots: vec![Plot {
            title: format!("24 conversions, {word}: percent of the single node"),
            x: "%".into(),
            y: String::new(),
            content: Content::Bars(picture),
        }],
        notes: vec![
            "The makespan is last end less first start; the paper takes the longest job (E-15)."
                .into(),
        ],
    }
}

fn bar(topology: &str, what: &str, value: f64, series: usize) -> Bar {
    Bar {
        label: format!("{topology}, {what}"),
        value,
        series,
    }
}

///
fn power(mode: Mode, found: &Found) -> Table {
    let word = mode.word();
    let mut all = Table::new(
        "Equivalent power W = Z T1 / T, with the node's 300 MHz for Z",
        &[
            "topology",
            "W published or recomputed, MHz",
            "of at most",
            "W, MHz",
            "of at most",
            "difference published or recomputed, %",
            "difference, %",
        ],
    );
    let printed = table("openmosix-topology/equivalent-power.csv").ok();
    for topology in ["hub", "switch", "p2p"] {
        let row = printed.as_ref().filter(|_| mode == Mode::Mono);
        let row = row.and_then(|t| t.find(&[("topology", topology)]));
        let theirs = crate::published::values();
        let of = |name: &str| theirs.get(&format!("{word}.{topology}.{name}"));
        let recomputed = of("share").zip(of("nodes"));
        let recomputed = |f: fn((f64, f64)) -> f64, d| {
            recomputed.map_or_else(Cell::unprinted, |v| Cell::recomputed(f(v), d))
        };
        let share = found.value(&format!("{word}.{topology}.share"));
        let nodes = found.value(&format!("{word}.{topology}.nodes"));
        let ours = share.zip(nodes);
        let ours = |f: fn((f64, f64)) -> f64, d| {
            ours.map_or_else(Cell::unrun, |v| Cell::recomputed(f(v), d))
        };
        all.rows.push(vec![
            Cell::label(topology),
            match row {
                Some(_) => Cell::published(row, "w_published_mhz"),
                None => recomputed(|(share, nodes)| share * nodes * MHZ, 1),
            },
            recomputed(|(_, nodes)| nodes * MHZ, 0),
            ours(|(share, nodes)| share * nodes * MHZ, 1),
            ours(|(_, nodes)| nodes * MHZ, 0),
            match row {
                Some(_) => Cell::published(row, "difference_published_pct"),
                None => recomputed(|(share, _)| (share - 1.0) * 100.0, 2),
            },
            ours(|(share, _)| (share - 1.0) * 100.0, 2),
        ]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoders::{Encoder, Plan};

    #[test]
    fn a_scale_that_does_not_fit_is_told_which_does() {
        let encoder = Encoder {
            clip_s: 60.0,
            cpu_s: 4.5,
            bytes: 12.5e6,
        };
        let setting = |scale| Setting {
            scale,
            on: On::Lab,
            nodes: 3,
        };
        let prepared = |scale| Prepared {
            mode: Mode::Stereo,
            encoder,
            plan: Plan::new(encoder, Mode::Stereo, 6459.0 * scale, 0.4),
        };
        assert!(fits(&prepared(0.018), &setting(0.018), 8e9).is_ok());
        let e = fits(&prepared(1.0), &setting(1.0), 8e9)
            .expect_err("too long")
            .to_string();
        assert!(e.ends_with("hint: --scale 0.1639 fits"), "{e}");
        let e = fits(&prepared(0.018), &setting(0.018), 1e8)
            .expect_err("little memory")
            .to_string();
        assert!(e.contains("fits"), "{e}");
    }

    #[test]
    fn shares_follow_from_both_runs() {
        let mut all = Values::default();
        for (name, value) in [
            ("mono.single.s", 90.0),
            ("mono.switch.s", 40.0),
            ("mono.switch.nodes", 3.0),
        ] {
            all.set(name, value);
        }
        shares(&mut all);
        assert_eq!(all.get("mono.switch.share"), Some(0.75));
        assert!(all.get("mono.hub.share").is_none());
    }
}
