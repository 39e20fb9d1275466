//! showmap and mosctl status.

use crate::farm::{Farm, Member};
use armento_client::api::SwitchInfo;

/// The table of IDs and addresses.
pub fn showmap(farm: &Farm) -> String {
    let own = farm.here().map_or(0, |m| m.id);
    let mut text = format!(
        "My Node-Id: 0x{own:04x}\n\n{:<12} {:<16} Count\n{} {} -----\n",
        "Base Node-Id",
        "Address",
        "-".repeat(12),
        "-".repeat(16)
    );
    for m in &farm.members {
        let id = format!("0x{:04x}", m.id);
        text += &format!("{id:<12} {:<16} 1\n", m.address());
    }
    text
}

/// One line: up or not, then what is switched off. `switches` are known of the own node only.
pub fn status(member: &Member, switches: Option<&SwitchInfo>) -> String {
    let mut words = vec![if member.is_up() { "up" } else { "down" }];
    match switches {
        Some(s) => {
            let all = [
                (s.stopped, "stopped"),
                (s.stay, "lstay"),
                (s.block || s.drain || s.stopped, "block"),
                (s.quiet || s.stopped, "quiet"),
                (!s.mfs, "nomfs"),
                (s.expels || s.drain, "expelling"),
                (s.brings > 0, "bringing"),
            ];
            words.extend(all.iter().filter(|(on, _)| *on).map(|(_, word)| word));
        }
        None if member.info.shut => words.push("block"),
        None => {}
    }
    words.join(" ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::tests::node;

    #[test]
    fn map_has_ids_in_hexadecimal() {
        let farm = Farm::of(vec![
            node("n1", "10.0.0.1:7117"),
            node("alpha", "192.168.10.220:7117"),
        ]);
        let want = "\
My Node-Id: 0x0001

Base Node-Id Address          Count
------------ ---------------- -----
0x0001       10.0.0.1         1
0x0adc       192.168.10.220   1
";
        assert_eq!(showmap(&farm), want);
        assert_eq!(status(&farm.members[1], None), "up\n");
    }
}
