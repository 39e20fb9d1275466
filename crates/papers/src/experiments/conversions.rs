//! All conversions in a lab of its own, for the experiments that convert.

use crate::encoders::{Prepared, Topology, Usage, Work};
use crate::figures::{Makespan, Span, Spread};
use crate::formula::Values;
use crate::published::JOBS;
use crate::runner::{Measured, Setting, Tool};
use anyhow::{Result, anyhow, bail};
use serde_json::json;

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

/// All conversions on so many nodes: on one, one after the other; on more, all at once. `key`: of its values.
pub fn converted(work: &Work, nodes: usize, topology: Topology, key: &str) -> Result<Measured> {
    let stage = work.raise(nodes, topology)?;
    let (ran, raw, away) = match nodes {
        1 => {
            let ran = work.alone(&stage)?;
            let raw = json!({ "spans": ran.spans, "stolen_percent": ran.stolen_percent });
            (ran, raw, None)
        }
        _ => {
            let all = work.together(&stage)?;
            let sum = |f: fn(&Usage) -> u64| all.usage.values().map(f).sum::<u64>() as f64;
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
    let durations: Vec<f64> = ran.spans.iter().map(Span::duration).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoders::{Encoder, Mode, Plan};
    use crate::runner::On;

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
            full: false,
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
}
