//! Tests of the files in `scenarios/`.

use armento_scenario::Scenario;
use std::fs;

#[test]
fn every_file_can_be_planned() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut seen = 0;
    for file in fs::read_dir(dir).expect("scenarios").flatten() {
        let path = file.path();
        let text = fs::read_to_string(&path).expect("text");
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let n = scenario.series.first().copied().unwrap_or(1);
        let plan = scenario.plan(n, 1);
        assert!(
            plan.limit_s() > 0.0 && plan.limit_s() < plan.cap_s,
            "{}",
            path.display()
        );
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
}
