//! Where each encoder ran over time, as a picture.

use super::work::Sample;
use crate::chapter::{Content, Plot, Stretch};
use crate::figures::Span;

/// The picture of one run; `nodes`: their names.
pub fn picture(spans: &[Span], samples: &[Sample], nodes: &[String]) -> Plot {
    Plot {
        title: "24 encoders and where they ran".into(),
        x: "seconds".into(),
        y: "job".into(),
        content: Content::Stretches(stretches(spans, samples, nodes), nodes.to_vec()),
    }
}

/// Where each job was, from the samples and its own time stamps.
fn stretches(spans: &[Span], samples: &[Sample], nodes: &[String]) -> Vec<Stretch> {
    let first = spans
        .iter()
        .map(|s| s.start_s)
        .fold(f64::INFINITY, f64::min);
    let mut all = Vec::new();
    for span in spans {
        let (start, end) = (span.start_s - first, span.end_s - first);
        let mut now = Stretch {
            row: span.job,
            place: 0,
            from: start,
            to: end,
        };
        for sample in samples {
            let seen = sample.encoders.iter().find(|e| e.job == span.job);
            let node = seen.and_then(|e| nodes.iter().position(|n| *n == e.place));
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
        let span = Span {
            job: 1,
            start_s: 100.0,
            end_s: 117.0,
            status: 0,
        };
        let samples = [at(0.5, "n1"), at(1.0, "n3"), at(2.0, "n3"), at(3.0, "n2")];
        let nodes = ["n1", "n2", "n3"].map(str::to_owned);
        let got: Vec<(usize, f64, f64)> = stretches(&[span], &samples, &nodes)
            .iter()
            .map(|s| (s.place, s.from, s.to))
            .collect();
        assert_eq!(got, [(0, 0.0, 1.0), (2, 1.0, 3.0), (1, 3.0, 17.0)]);
    }
}
