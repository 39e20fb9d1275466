//! The paper's table, with the measured column beside the published one.

use super::outcome::{Figures, Outcome, Z};
use super::paper::{self, Published};
use crate::encoders::{Mode, Plan};
use crate::figures::{Power, bar, mm_ss};
use crate::published::{BYTES_PER_JOB, MHZ};
use std::fmt::Write as _;

/// The scale of the run, printed before it starts.
pub fn scale(plan: &Plan) -> String {
    format!(
        "scale: clips of {:.1} s; {:.2} CPU s and {:.2} MB read and written a job;\n\
         \x20      each node has {:.2} of a core, so a job takes {:.2} s on one node.\n\
         \x20      The paper: {} s and {:.1} MB a job on 100 Mbit/s. The same ratio of CPU time\n\
         \x20      to bytes needs a switch of {} Mbit/s here.\n",
        plan.clip_s,
        plan.cpu_s_per_job,
        plan.bytes_per_job / 1e6,
        plan.speed,
        plan.node_s_per_job,
        Mode::Stereo.cpu_s_per_job(),
        BYTES_PER_JOB / 1e6,
        plan.rate_mbit,
    )
}

/// `None` when no job ended.
pub fn table(o: &Outcome) -> Option<String> {
    let f = o.figures()?;
    let (single, switch) = (paper::stereo("single")?, paper::stereo("switch")?);
    let published = Power::of(MHZ, switch.nodes, single.makespan_s, switch.makespan_s);
    let mut t = String::new();
    for (name, measured, paper) in rows(o, &f, &switch, &single, &published) {
        // Writing to a String cannot fail.
        let _ = writeln!(t, "{name:<34}{measured:>14}{paper:>14}");
    }
    t.push_str(&bars(&f, &switch));
    t.push_str(&sentences(o, &f, &switch, &published));
    Some(t)
}

fn rows(
    o: &Outcome,
    f: &Figures,
    switch: &Published,
    single: &Published,
    published: &Power,
) -> Vec<(&'static str, String, String)> {
    let maybe = |v: Option<f64>, decimals: usize| match v {
        Some(v) => format!("{v:.decimals$}"),
        None => String::new(),
    };
    let s = &f.spread;
    let last = f.makespan.last_end_minus_first_start_s;
    vec![
        (
            "24 conversions, stereo, switch",
            "measured".into(),
            "published".into(),
        ),
        (
            "nodes",
            o.nodes.len().to_string(),
            format!("{} E-01", switch.nodes),
        ),
        (
            "single node (mm.ss)",
            mm_ss(f.single_s),
            mm_ss(single.makespan_s),
        ),
        ("farm (mm.ss)", mm_ss(last), mm_ss(switch.makespan_s)),
        (
            "single node (s)",
            format!("{:.1}", f.single_s),
            format!("{:.0}", single.makespan_s),
        ),
        (
            "farm, last end - first start (s)",
            format!("{last:.1}"),
            "E-15".into(),
        ),
        (
            "farm, longest job (s)",
            format!("{:.1}", f.makespan.longest_job_s),
            format!("{:.0}", switch.makespan_s),
        ),
        (
            "percent of the single node",
            format!("{:.2}", f.percent),
            maybe(Some(switch.percent), 2),
        ),
        (
            "slow (s)",
            format!("{:.1}", s.slowest_s),
            maybe(switch.slowest_s, 0),
        ),
        (
            "fast (s)",
            format!("{:.1}", s.fastest_s),
            maybe(switch.fastest_s, 0),
        ),
        (
            "diff (s)",
            format!("{:.1}", s.diff_s),
            format!("{} E-03", maybe(switch.diff_s, 0)),
        ),
        (
            "diff (% of slow)",
            format!("{:.1}", s.diff_percent),
            maybe(switch.diff_percent, 1),
        ),
        (
            "equivalent power W = Z*T1/T",
            format!("{:.1}", f.power.w),
            format!("{:.1}*", published.w),
        ),
        (
            "maximum TOT*Z",
            format!("{:.0}", f.power.maximum),
            format!("{:.0}*", published.maximum),
        ),
        (
            "difference from the maximum (%)",
            format!("{:.2}", f.power.difference_percent),
            format!("{:.2}*", published.difference_percent),
        ),
        (
            "CPU time away from n1 (%)",
            format!("{:.1}", f.away_percent),
            String::new(),
        ),
        (
            "stolen by the hypervisor (%)",
            format!(
                "{:.1}, {:.1}",
                o.single_stolen_percent, o.farm_stolen_percent
            ),
            "single, farm".into(),
        ),
    ]
}

fn bars(f: &Figures, switch: &Published) -> String {
    let line = |name: &str, p: f64| format!("{name:<10}{p:>7.2}  {}\n", bar(p));
    format!(
        "\npercent of the single node, one cell = 2 %\n{}{}{}",
        line("single", 100.0),
        line("measured", f.percent),
        line("published", switch.percent),
    )
}

fn sentences(o: &Outcome, f: &Figures, switch: &Published, published: &Power) -> String {
    let say = |nodes: usize, z: f64, unit: &str, w: f64| {
        format!(
            "a cluster of {nodes} nodes of {z:.0}{unit} behind a switch, converting 24 WAV to MP3,\n\
             is equivalent to one node of {w:.1}{unit}"
        )
    };
    format!(
        "\n{}  (n1 = 100).\nThe paper: {}.\n\
         * not printed in the paper for stereo; recomputed with its formula, Z = 300 MHz.\n\
         E-01: the paper's table says 4 nodes, 3 ran. E-03: recomputes to 30. E-15: the paper\n\
         takes the longest job for the time of the cluster.\n",
        say(o.nodes.len(), Z, "", f.power.w),
        say(switch.nodes as usize, MHZ, " MHz", published.w),
    )
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::good;
    use super::*;

    #[test]
    fn the_table_shows_both_columns() {
        let t = table(&good()).unwrap();
        let row = |name: &str, measured: &str, published: &str| {
            let line = t.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            let words: Vec<&str> = line[name.len()..].split_whitespace().collect();
            assert_eq!(words.join(" "), format!("{measured} {published}"), "{name}");
        };
        row("nodes", "4", "3 E-01");
        row("single node (mm.ss)", "1.12", "107.39");
        row("farm (mm.ss)", "0.18", "39.28");
        row("percent of the single node", "25.61", "36.66");
        row("diff (s)", "1.4", "31 E-03");
        row("diff (% of slow)", "7.8", "1.3");
        row("equivalent power W = Z*T1/T", "390.5", "818.3*");
        row("maximum TOT*Z", "400", "900*");
        row("difference from the maximum (%)", "-2.37", "-9.08*");
        assert!(t.contains("a cluster of 4 nodes of 100 behind a switch"));
        assert!(t.contains(&format!("published   36.66  {}o\n", "O".repeat(18))));
        assert!(t.lines().all(|l| l.chars().count() <= 100));
    }

    #[test]
    fn the_scale_is_stated() {
        let s = scale(&good().plan);
        assert!(
            s.contains("269.125 s and 106.1 MB a job on 100 Mbit/s"),
            "{s}"
        );
    }

    #[test]
    fn no_table_without_jobs() {
        let mut o = good();
        o.farm.clear();
        assert_eq!(table(&o), None);
    }
}
