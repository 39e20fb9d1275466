//! A choice that the user must make: asked on a terminal; elsewhere refused with the command to type.

use crate::out::Failure;
use armento_noded::Candidate;
use std::io::{self, BufRead, IsTerminal, Write};

/// After this many invalid answers the command fails.
const TRIES: usize = 3;

/// Which of its addresses other nodes reach.
pub fn address(all: &[Candidate]) -> Result<String, Failure> {
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    match terminal {
        true => ask(all, &mut io::stdin().lock(), &mut io::stderr().lock()),
        false => None,
    }
    .map(|c| c.ip.to_string())
    .ok_or_else(|| refusal(all, &typed()))
}

fn ask<'a>(
    all: &'a [Candidate],
    from: &mut impl BufRead,
    to: &mut impl Write,
) -> Option<&'a Candidate> {
    let mut text = String::from("At which address do the other nodes reach this one?\n");
    for (n, c) in (1..).zip(all) {
        text += &format!("  {n}  {} ({})\n", c.ip, c.interface);
    }
    for _ in 0..TRIES {
        write!(to, "{text}1-{}: ", all.len()).ok()?;
        to.flush().ok()?;
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let chosen = line.trim().parse::<usize>().ok();
        let chosen = chosen.and_then(|n| all.get(n.checked_sub(1)?));
        if chosen.is_some() {
            return chosen;
        }
        text.clear();
    }
    None
}

/// The command line, quoted for a shell.
fn typed() -> String {
    let words = std::env::args().skip(1).map(|w| quoted(&w));
    let all: Vec<String> = std::iter::once("armento".to_owned()).chain(words).collect();
    all.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=[]@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn refusal(all: &[Candidate], typed: &str) -> Failure {
    let shown = |c: &Candidate| format!("{} ({})", c.ip, c.interface);
    let shown: Vec<String> = all.iter().map(shown).collect();
    let line = |c: &Candidate| format!("`{typed} --address {}`", c.ip);
    let lines: Vec<String> = all.iter().map(line).collect();
    Failure {
        message: format!(
            "this machine has several addresses, and which of them the other nodes reach is not known: {}; nothing was changed",
            shown.join(", ")
        ),
        hint: lines.join(" or "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Candidate> {
        let one = |interface: &str, ip: &str| Candidate {
            interface: interface.into(),
            ip: ip.parse().expect("address"),
        };
        vec![one("eth0", "10.0.0.1"), one("eth1", "10.1.0.1")]
    }

    #[test]
    fn number_chooses_from_the_list() {
        let check = |typed: &str, want: Option<&str>| {
            let (all, mut shown) = (two(), Vec::new());
            let got = ask(&all, &mut typed.as_bytes(), &mut shown);
            let got = got.map(|c| c.interface.as_str());
            assert_eq!(got, want, "{typed:?}");
            let shown = String::from_utf8(shown).expect("text");
            assert!(shown.contains("  2  10.1.0.1 (eth1)\n1-2: "), "{shown}");
        };
        check("2\n", Some("eth1"));
        check("0\n 1 \n", Some("eth0"));
        check("eth1\n3\n-1\n1\n", None);
        check("", None);
    }

    #[test]
    fn without_a_terminal_the_error_shows_the_command() {
        let no = refusal(&two(), "armento farm init --name n1");
        assert!(no.message.contains("10.0.0.1 (eth0), 10.1.0.1 (eth1)"));
        assert!(
            no.hint
                .contains("`armento farm init --name n1 --address 10.1.0.1`")
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
