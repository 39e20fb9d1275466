//! A file of which the node has an identical copy is not transferred; one with other content is.

use super::Farm;

/// More bytes than anything else that a start transfers. Incompressible.
const PAD: u64 = 8 << 20;
/// Every node of a lab has a system of its own.
const PATH: &str = "/usr/local/lib/armento-alike.so";
const LIBRARY: &str = r#"
asm(".section .rodata\n.incbin \"pad\"\n.text");
int which(void) { return WHICH; }
"#;
const PROGRAM: &str = r#"
#include <stdio.h>
int which(void);
int main(void) { printf("%d\n", which()); return 0; }
"#;

/// Path, size and time are the same on all nodes.
fn install(farm: &Farm, node: &str, which: u32) {
    let script = format!(
        "mkdir /tmp/alike; cd /tmp/alike; cat > library.c <<'EOF'\n{LIBRARY}EOF\ncat > program.c <<'EOF'\n{PROGRAM}EOF\n\
         python3 -c 'import random; open(\"pad\", \"wb\").write(random.Random(7).randbytes({PAD}))'\n\
         cc -shared -fPIC -DWHICH={which} -o {PATH} library.c && touch -d @1000000000 {PATH} && \
         cc -o program program.c {PATH}"
    );
    farm.sh(node, &script);
}

/// Bytes that `node` has received.
fn received(farm: &Farm, node: &str) -> u64 {
    let sum =
        "sed 's/:/ /' /proc/net/dev | awk 'NR > 2 && $1 != \"lo\" { n += $2 } END { print n }'";
    farm.sh(node, sum).trim().parse().expect("a number")
}

pub fn identical_files_are_not_transferred(farm: &Farm) {
    for (node, which) in [("n1", 1), ("n2", 2), ("n3", 1)] {
        install(farm, node, which);
    }
    for (node, travels) in [("n2", true), ("n3", false)] {
        let before = received(farm, node);
        let said = farm.sh("n1", &format!("armento run --on {node} /tmp/alike/program"));
        let came = received(farm, node) - before;
        assert_eq!(said, "1\n", "home's library, on {node}");
        assert_eq!(came >= PAD, travels, "{came} bytes came to {node}");
    }
}
