//! The picture: where each job ran over time, and the paper's bars.

use super::outcome::{Figures, Outcome};
use super::paper;
use crate::chapter::{Bar, Content, Plot};
use crate::encoders::places_picture;
use crate::plot;
use anyhow::{Context, Result};
use std::path::Path;

/// Writes it to a file.
pub fn write(o: &Outcome, f: &Figures, to: &Path) -> Result<()> {
    let text = plot::file(&[&places_picture(&o.farm, &o.samples, &o.nodes), &percents(f)])?;
    std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
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

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::good;
    use super::*;

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
