//! The picture: where each job ran over time, and the paper's bars.

use super::outcome::{Figures, Outcome};
use super::paper;
use anyhow::Result;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (900, 720);
/// Colours of nodes, in order; repeated beyond eight nodes.
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
];

/// One job's time on one node.
#[derive(Clone, Debug, PartialEq)]
struct Stretch {
    job: usize,
    node: usize,
    from_s: f64,
    to_s: f64,
}

pub fn write(o: &Outcome, f: &Figures, to: &Path) -> Result<()> {
    // plotters' errors borrow the canvas; as text they can be returned.
    draw(o, f, to).map_err(|e| anyhow::anyhow!("cannot write {}: {e}", to.display()))
}

fn draw(o: &Outcome, f: &Figures, to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(to, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (jobs, bars) = area.split_vertically(500);
    let end = f.makespan.last_end_minus_first_start_s;
    let mut chart = ChartBuilder::on(&jobs)
        .caption("24 encoders and where they ran", ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(45)
        .build_cartesian_2d(0.0..end.max(0.1), 0.0..paper::JOBS as f64 + 1.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc("seconds")
        .y_desc("job")
        .draw()?;
    let all = stretches(o);
    for (i, name) in o.nodes.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let mine = all.iter().filter(|s| s.node == i).map(|s| {
            let y = s.job as f64;
            Rectangle::new([(s.from_s, y - 0.4), (s.to_s, y + 0.4)], colour.filled())
        });
        let series = chart.draw_series(mine)?.label(name.as_str());
        series.legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    percents(f, &bars)?;
    area.present()?;
    Ok(())
}

/// The paper's bars, measured above published.
fn percents<DB: DrawingBackend>(
    f: &Figures,
    area: &DrawingArea<DB, plotters::coord::Shift>,
) -> Result<(), Box<dyn std::error::Error>>
where
    DB::ErrorType: 'static,
{
    let published = paper::stereo("switch").map_or(0.0, |p| p.percent);
    let mut chart = ChartBuilder::on(area)
        .caption("percent of the single node", ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(45)
        .build_cartesian_2d(0.0..110.0, 0.0..3.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .y_labels(0)
        .x_desc("%")
        .draw()?;
    let rows = [
        ("single node", 100.0),
        ("published, switch", published),
        ("measured", f.percent),
    ];
    for (i, (name, p)) in rows.iter().enumerate() {
        let (low, high) = (i as f64 + 0.15, i as f64 + 0.85);
        let bar = Rectangle::new([(0.0, low), (*p, high)], COLOURS[i].mix(0.6).filled());
        chart.draw_series([bar])?;
        let text = format!("{name}: {p:.2}");
        chart.draw_series([Text::new(text, (1.0, high - 0.1), ("sans-serif", 14))])?;
    }
    Ok(())
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
            job: span.job,
            node: 0,
            from_s: start,
            to_s: end,
        };
        for sample in &o.samples {
            let seen = sample.encoders.iter().find(|e| e.job == span.job);
            let node = seen.and_then(|e| o.nodes.iter().position(|n| *n == e.place));
            let Some(node) = node.filter(|n| *n != now.node && sample.at_s < end) else {
                continue;
            };
            let before = Stretch {
                to_s: sample.at_s.max(now.from_s),
                ..now
            };
            now = Stretch {
                job: span.job,
                node,
                from_s: before.to_s,
                to_s: end,
            };
            all.push(before);
        }
        all.push(now);
    }
    all.retain(|s| s.to_s > s.from_s);
    all
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{Sample, tests::good};
    use super::super::watch::Seen;
    use super::*;

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
            .map(|s| (s.node, s.from_s, s.to_s))
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
