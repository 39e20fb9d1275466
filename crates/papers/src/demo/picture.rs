//! The picture: where each job ran over time, and the paper's bars.

use super::outcome::{Figures, Outcome};
use super::paper;
use crate::chapter::{Bar, Content, Plot, Stretch};
use crate::plot;
use anyhow::{Context, Result};
use std::path::Path;

/// Writes it to a file.
pub fn write(o: &Outcome, f: &Figures, to: &Path) -> Result<()> {
    let text = plot::file(&[&places(o), &percents(f)])?;
    std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

fn places(o: &Outcome) -> Plot {
    Plot {
        title: "24 encoders and where they ran".into(),
        x: "seconds".into(),
        y: "job".into(),
        content: Content::Stretches(stretches(o), o.nodes.clone()),
    }
}

/// The paper's bars, measured below published.
fn percents(f: &Figures) -> Plot {
    let published = paper::stereo("switch").map_or(0.0, |p| p.percent);
    let bars = [
        ("single node", 100.0),
        ("published, switch", published),
        ("measured", f.percent),
    ];
    let bar = |(series, (label, value)): (usize, (&str, f64))| Bar {
        label: label.into(),
        value,
        series,
    };
    Plot {
        title: "percent of the single node".into(),
        x: "%".into(),
        y: String::new(),
        content: Content::Bars(bars.into_iter().enumerate().map(bar).collect()),
    }
}

/// Where each job was, from the samples and its own time stamps.
fn stretches(o: &Outcome) -> Vec<Stretch> {
    let first = o
        .farm
        .iter()
        .map(|s| s.start_s)
        .fold(f64::INFINITY, f64::min);
    let mut all = Vec::new();
    for span in &o.farm {
        let (start, end) = (span.start_s - first, span.end_s - first);
        let mut now = Stretch {
            row: span.job,
            place: 0,
            from: start,
            to: end,
        };
        for sample in &o.samples {
            let seen = sample.encoders.iter().find(|e| e.job == span.job);
            let node = seen.and_then(|e| o.nodes.iter().position(|n| *n == e.place));
            let Some(node) = node.filter(|n| *n != now.place && sample.at_s < end) else {
                continue;
            };
            let before = Stretch {
                to: sample.at_s.max(now.from),
                ..now
            };
            now = Stretch {
                row: span.job,
                place: node,
                from: before.to,
                to: end,
            };
            all.push(before);
        }
        all.push(now);
    }
    all.retain(|s| s.to > s.from);
    all
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::good;
    use super::*;
    use crate::encoders::{Sample, Seen};

    fn at(at_s: f64, place: &str) -> Sample {
        let seen = Seen {
            pid: 1,
            job: 1,
            place: place.into(),
            cpu_ms: 0,
            away_cpu_ms: 0,
            moves: 0,
            forwarded: 0,
            stay: None,
        };
        Sample {
            at_s,
            encoders: vec![seen],
        }
    }

    #[test]
    fn stretches_follow_the_moves() {
        let mut o = good();
        o.farm.truncate(1);
        o.samples = vec![at(0.5, "n1"), at(1.0, "n3"), at(2.0, "n3"), at(3.0, "n2")];
        let got: Vec<(usize, f64, f64)> = stretches(&o)
            .iter()
            .map(|s| (s.place, s.from, s.to))
            .collect();
        assert_eq!(got, [(0, 0.0, 1.0), (2, 1.0, 3.0), (1, 3.0, 17.0)]);
    }

    #[test]
    fn a_picture_is_written() {
        let o = good();
        let to = std::env::temp_dir().join(format!("armento-plot-{}.svg", std::process::id()));
        write(&o, &o.figures().unwrap(), &to).unwrap();
        let text = std::fs::read_to_string(&to).unwrap();
        std::fs::remove_file(&to).unwrap();
        assert!(text.contains("<svg") && text.contains("published, switch: 36.66"));
    }
}
