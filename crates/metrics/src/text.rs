//! OpenMetrics as the text format 0.0.4 of Prometheus, which node_exporter's textfile collector and promtool read.
//!
//! The differences that matter here: counters are described by the name of their sample, `…_total`, and there is
//! neither `# UNIT` nor `# EOF`.

/// The same metrics in the older format.
pub fn prometheus_text(openmetrics: &str) -> String {
    let counters: Vec<&str> = openmetrics
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            counters
                .contains(&name)
                .then(|| format!("{word}{name}_total {rest}"))
        });
        text += described.as_deref().unwrap_or(line);
        text.push('\n');
    }
    text
}
