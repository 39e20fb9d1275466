//! Chapters as text, Markdown and one HTML page.
//!
//! A section is one experiment: what it shows, how it was run, its tables and pictures, its relations with their
//! verdicts. Start at [`section`]; `text.rs`, `markdown.rs` and `html.rs` write sections.

mod html;
mod markdown;
mod sections;
mod text;

pub use html::page as html;
pub use markdown::{page as markdown, pictures};
pub use sections::{Section, section};
pub use text::{plain, section as text};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ALL;
    use crate::formula::Values;
    use crate::runner::{Build, Results};
    use serde_json::json;

    /// A stored result, as another program may have written it.
    fn stored(id: &str, values: &[(&str, f64)]) -> Results {
        let sample = |repeat: u32, factor: f64| {
            let values: Values = Values(
                values
                    .iter()
                    .map(|(n, v)| ((*n).to_owned(), v * factor))
                    .collect(),
            );
            json!({
                "run": "one", "repeat": repeat, "seed": 1, "at": "2026-11-29T12:00:00Z", "took_s": 1.0,
                "values": values, "raw": null,
                "traffic": [{ "node": "n1", "interface": "eth0", "received": 7, "sent": 5 }],
            })
        };
        let machine = json!({
            "kernel": "6.12", "cpu": "test", "cores": [0, 1], "mem_total_kib": 1024, "huge_pages": "never",
            "load_before": "0.1", "load_after": "0.2", "armento": "armento 0.1.0", "build": "release",
        });
        let all = json!({
            "schema": "armento.paper/1", "experiment": id, "build": { "version": "0.1.0", "hash": "1" },
            "setting": { "scale": 0.1, "on": "lab", "nodes": 16 }, "repeats": 2, "machine": machine, "setup": null,
            "samples": [sample(0, 1.0), sample(1, 1.1)],
            "discarded": [{ "run": "two", "repeat": 0, "at": "2026-11-29T12:00:00Z", "why": "nodes were lost: n3" }],
            "complete": false,
        });
        serde_json::from_value(all).expect("of the form that is written")
    }

    #[test]
    fn measured_stands_beside_published_in_all_forms() {
        let e = ALL.iter().find(|e| e.id == "test1-lab").expect("known");
        let values = [
            ("test1.t", 30.0),
            ("test1.nodes", 16.0),
            ("test1.17.limit", 31.875),
            ("test1.17.optimal", 45.0),
            ("test1.17.armento", 40.0),
            ("test1.17.mosix", 45.0),
            ("test1.17.pvm", 60.0),
            ("test1.17.pvm_on_mosix", 44.0),
        ];
        let results = stored(e.id, &values);
        let here = Build {
            version: "0.1.0".into(),
            hash: "2".into(),
        };
        let shown = section(e, Some(&results), &Values::default(), &here);
        assert_eq!(shown.counts(), [4, 1, 1]);
        let all = [
            text(&shown),
            markdown(&[section(e, Some(&results), &Values::default(), &here)]),
            html(&[section(e, Some(&results), &Values::default(), &here)]).expect("drawn"),
        ];
        for (i, text) in all.iter().enumerate() {
            // Mean and range in the paper's seconds, what is printed, and what was not run.
            for part in [
                "420.00 (400.00 to 440.00)",
                "604.36",
                "not run",
                "of another build",
                "nodes were lost: n3",
                "scale 0.1",
                "B-02",
                "fail",
            ] {
                assert!(text.contains(part), "{i}: {part}: {text}");
            }
        }
        let [_, _, page] = &all;
        assert!(page.contains("<svg") && !page.contains("http") && page.contains("dark"));
    }
}
