//! Farms are announced on named interfaces only, and found there.

use super::{Farm, text};
use serde_json::Value;

pub fn farms_are_found_where_they_are_announced(farm: &Farm) {
    let interface = farm.sh("n1", "ip -o route get 10.255.255.254 2>/dev/null | grep -o 'dev [^ ]*' || ip -o -4 address show scope global | awk '{print \"dev \" $2; exit}'");
    let interface = interface.trim().trim_start_matches("dev ").to_owned();
    let look = format!("armento farm discover --interface {interface} --seconds 2 --json");
    let found = |node: &str| -> Vec<Value> {
        let doc: Value = serde_json::from_str(&farm.sh(node, &look)).expect("JSON");
        assert_eq!(doc["schema"], "armento.discovered/1");
        doc["announcements"].as_array().expect("a list").clone()
    };
    assert_eq!(
        found("n2"),
        Vec::<Value>::new(),
        "nothing is announced by default"
    );

    farm.sh(
        "n1",
        &format!("echo 'discover = [\"{interface}\"]' >> /etc/armento/config.toml; pkill -TERM -f '[a]rmento node$'"),
    );
    farm.daemon("n1");
    // An announcement begins with probes, for most of a second (RFC 6762, section 8.1).
    super::until("the announcement", || !found("n2").is_empty());
    let all = found("n2");
    let [one] = &all[..] else { panic!("{all:?}") };
    let nodes: Value = serde_json::from_str(&farm.sh("n1", "armento nodes --json")).expect("JSON");
    let n1 = nodes["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .find(|n| n["name"] == "n1");
    assert_eq!(one["node"], "n1");
    assert_eq!(one["address"], n1.expect("n1")["addr"]);
    assert_eq!(one["admits"], true);
    let token = farm.sh("n1", "armento farm invite --uses 1");
    let ca = one["ca_sha256"].as_str().expect("digits");
    assert!(token.contains(&format!("armento1K{ca}")), "{token} {ca}");

    let none = farm.run("n2", "armento farm discover");
    assert!(!none.status.success());
    assert!(
        text(&none.stderr).contains("hint: name one"),
        "{}",
        text(&none.stderr)
    );
    let none = farm.run("n2", "armento farm discover --interface nic7");
    assert!(
        text(&none.stderr).contains("no interface nic7"),
        "{}",
        text(&none.stderr)
    );
}
