//! A program that maps files all the time, as a starting program does with its libraries, can be moved.

use super::{Farm, lab, until};

mod alike;
pub use alike::identical_files_are_not_transferred;

const LOAD: &str = include_str!("load.py");
/// Every kind of move: out, on to another host, back to the previous one, home.
const WAY: [&str; 4] = ["n2", "n3", "n2", "home"];
const ROUNDS: usize = 5;
const ROUNDS_LONG: usize = 100;

pub fn while_it_leaves(farm: &Farm) {
    farm.sh("n1", &format!("cat > /tmp/mapping.py <<'EOF'\n{LOAD}EOF"));
    for how in ["kept", "gone"] {
        let dir = format!("/tmp/mapping-{how}");
        let start = format!(
            "armento run --stay python3 /tmp/mapping.py {dir} {how} >{dir}.out 2>&1 & echo $!"
        );
        let pid = farm.sh("n1", &start).trim().to_owned();
        until("the first mappings", || {
            let ready = format!("test -e {dir}/ready");
            farm.run("n1", &ready).status.success()
        });
        let rounds = if lab::is_long() { ROUNDS_LONG } else { ROUNDS };
        for node in WAY.iter().cycle().take(rounds * WAY.len()) {
            // The command fails, and so does the test, when the process stays.
            farm.sh("n1", &format!("armento migrate {pid} {node}"));
        }
        farm.sh("n1", &format!("touch {dir}/stop"));
        until("its end", || {
            !farm.run("n1", &format!("kill -0 {pid}")).status.success()
        });
        assert_eq!(
            farm.sh("n1", &format!("cat {dir}.out")),
            "0 wrong\n",
            "{how}"
        );
    }
}
