//! The command line of rsh(1) and ssh(1), as launchers use it: options before and after the host, then the command.

use anyhow::{Result, bail};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What the words ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub node: String,
    pub user: Option<String>,
    /// `-n`: the command has no input.
    pub no_input: bool,
    /// Names of variables that the command shall have, `*` at the end for any that begins so.
    pub variables: Vec<String>,
    /// The words of the command, joined by blanks, for a shell.
    pub command: OsString,
}

/// Flags of ssh(1) and rsh(1) that make no difference here.
const IGNORED: &str = "1246AaCdgKkqTtvXxYy";
/// … and those with a value.
const IGNORED_VALUES: &str = "BbcEeFIiJmpS";
/// Requests for what this launcher does not do.
const REFUSED: &str = "DfGLMNOQRsVWw";

const HINT: &str = "hint: armento lab rsh [-n] [-l USER] NODE CMD…";

/// Reads the words after `lab rsh`.
pub fn read(words: &[OsString]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut rest = words.iter();
    let mut node = None;
    let command = loop {
        let Some(word) = rest.next() else { break None };
        match word.as_bytes() {
            [b'-', b'-'] if node.is_some() => break rest.next(),
            [b'-', b'-'] => {}
            [b'-', options @ ..] if !options.is_empty() => {
                let text = String::from_utf8_lossy(options).into_owned();
                option(&mut wanted, &text, &mut rest)?;
            }
            _ if node.is_none() => node = Some(word.to_string_lossy().into_owned()),
            _ => break Some(word),
        }
    };
    let Some(node) = node else {
        bail!("no node named\n{HINT}");
    };
    let Some(command) = command else {
        bail!(
            "no command for {node}: there are no sessions at a terminal\n{HINT}, or armento lab exec NODE -- bash"
        );
    };
    let words: Vec<&OsStr> = std::iter::once(command).chain(rest).map(|w| &**w).collect();
    wanted.command = words.join(OsStr::new(" "));
    match node.split_once('@') {
        Some((user, host)) => {
            wanted.user = wanted.user.or(Some(user.into()));
            wanted.node = host.into();
        }
        None => wanted.node = node,
    }
    Ok(wanted)
}

/// `text`: one or more option letters, the last perhaps with its value.
fn option<'a>(
    wanted: &mut Wanted,
    text: &str,
    rest: &mut impl Iterator<Item = &'a OsString>,
) -> Result<()> {
    for (at, letter) in text.char_indices() {
        let after = &text[at + letter.len_utf8()..];
        let mut value = || match after {
            "" => match rest.next() {
                Some(next) => Ok(next.to_string_lossy().into_owned()),
                None => bail!("option -{letter} has no value\n{HINT}"),
            },
            _ => Ok(after.to_owned()),
        };
        match letter {
            'n' => wanted.no_input = true,
            'l' => {
                wanted.user = Some(value()?);
                return Ok(());
            }
            'o' => {
                let value = value()?;
                let split = value.split_once(['=', ' ']).unwrap_or((&value, ""));
                if split.0.eq_ignore_ascii_case("SendEnv") {
                    wanted
                        .variables
                        .extend(split.1.split_whitespace().map(str::to_owned));
                }
                return Ok(());
            }
            _ if IGNORED.contains(letter) => {}
            _ if IGNORED_VALUES.contains(letter) => return value().map(drop),
            _ if REFUSED.contains(letter) => {
                bail!("option -{letter} asks for what this launcher does not do\n{HINT}")
            }
            _ => bail!("no option -{letter} of rsh or ssh is known\n{HINT}"),
        }
    }
    Ok(())
}

/// Whether a variable is among the names that shall be passed.
pub fn passes(names: &[String], variable: &str) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(begin) => variable.starts_with(begin),
        None => variable == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Wanted> {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_of_launchers_are_understood() {
        let check = |line: &str, node: &str, user: Option<&str>, command: &str| {
            let got = of(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            let got = (got.node, got.user, got.command.into_string().unwrap());
            assert_eq!(
                got,
                (node.into(), user.map(str::to_owned), command.into()),
                "{line}"
            );
        };
        check("n2 hostname", "n2", None, "hostname");
        check("-x n2 orted -mca a 1", "n2", None, "orted -mca a 1");
        check(
            "n2 -l ann /usr/lib/pvm3/lib/pvmd -s",
            "n2",
            Some("ann"),
            "/usr/lib/pvm3/lib/pvmd -s",
        );
        check("-nqxl ann n2 id -un", "n2", Some("ann"), "id -un");
        check(
            "-lann -p 22 -o BatchMode=yes n2 -- -x",
            "n2",
            Some("ann"),
            "-x",
        );
        check("ann@10.77.1.2 id", "10.77.1.2", Some("ann"), "id");
        assert!(of("-n n2 cat").unwrap().no_input);
        let sent = of("-o SendEnv=PVM_* n2 env").unwrap().variables;
        assert!(passes(&sent, "PVM_ROOT") && !passes(&sent, "PATH"));
    }

    #[test]
    fn what_it_cannot_do_is_refused_with_a_hint() {
        for bad in ["n2", "-l", "-n", "-N n2 x", "-L 1:n1:2 n2 x", "-z n2 x"] {
            let e = of(bad).unwrap_err().to_string();
            assert!(e.contains("\nhint: "), "{bad}: {e}");
        }
    }
}
