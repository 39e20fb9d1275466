//! Ranges of names: `n[01-16]`.

/// The names that a range stands for; a name without brackets stands for itself. Widths are kept: `n[08-10]` is n08, n09,
/// n10. Commas join: `n[1,3-4]`.
///
/// Errors: a text for the user.
pub fn expand(text: &str, max: usize) -> Result<Vec<String>, String> {
    let Some((head, rest)) = text.split_once('[') else {
        check_name(text)?;
        return Ok(vec![text.to_owned()]);
    };
    let (list, tail) = rest
        .split_once(']')
        .ok_or_else(|| format!("`{text}` has no closing bracket"))?;
    if tail.contains('[') {
        return Err(format!("`{text}` has two ranges"));
    }
    let mut names = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |t: &str| match t.bytes().all(|b| b.is_ascii_digit()) {
            true => t.parse::<u32>().ok(),
            false => None,
        };
        let (Some(low), Some(high)) = (number(from), number(to)) else {
            return Err(format!("`{part}` in `{text}` is no range of numbers"));
        };
        if low > high {
            return Err(format!("`{part}` in `{text}` runs backwards"));
        }
        if (high - low) as usize >= max - names.len().min(max) {
            return Err(format!("`{text}` stands for more than {max} names"));
        }
        let width = from.len();
        names.extend((low..=high).map(|n| format!("{head}{n:0width$}{tail}")));
    }
    names.iter().try_for_each(|n| check_name(n))?;
    Ok(names)
}

/// Node names: a label of RFC 1123, so that hosts files, DHCP and certificates take it.
fn check_name(name: &str) -> Result<(), String> {
    let good = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    match good {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no host name (letters, digits, hyphens; at most 63)"
        )),
    }
}

/// Names of links. KERNEL: IFNAMSIZ is 16 with the closing zero; a VLAN's name adds `.4094`.
pub(super) fn check_link(name: &str) -> Result<(), String> {
    let good = (1..=10).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !good {
        return Err(format!(
            "`{name}` is no name of a link (at most 10 letters and digits, so that `NAME.4094` fits the kernel's 15)"
        ));
    }
    match name == "all" || name == "default" || name == "lo" {
        true => Err(format!("`{name}` is reserved by the kernel")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stand_for_names() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(expand(text, 100).expect(text), expected, "{text}");
        };
        check("srv", &["srv"]);
        check("n[08-10]", &["n08", "n09", "n10"]);
        check("n[1,3-4]-a", &["n1-a", "n3-a", "n4-a"]);
        for bad in [
            "n[",
            "n[1",
            "n[3-1]",
            "n[a-b]",
            "n[]",
            "n[1-101]",
            "n[1-4294967295]",
            "n[1][2]",
            "-x",
            "",
            "n_1",
            "n[+1]",
        ] {
            assert!(expand(bad, 100).is_err(), "{bad}");
        }
    }
}
