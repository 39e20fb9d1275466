//! Formats numbers and untrusted text for tables and screens.

/// Command lines and file names may contain anything; a terminal must not interpret it, nor reverse the text beside it:
/// U+202E and the like.
pub fn clean(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || turns(c) { '?' } else { c };
    text.chars().map(shown).collect()
}

/// 512 K, 3.4 M, 12 G.
pub fn size(kib: u64) -> String {
    match kib {
        0..1024 => format!("{kib} K"),
        1024..10_240 => format!("{:.1} M", kib as f64 / 1024.0),
        10_240..1_048_576 => format!("{} M", kib / 1024),
        1_048_576..10_485_760 => format!("{:.1} G", kib as f64 / 1_048_576.0),
        _ => format!("{} G", kib / 1_048_576),
    }
}

/// 340 ms, 7.2 s, 3 min, 5 h.
pub fn span(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..100_000 => format!("{:.1} s", ms as f64 / 1000.0),
        100_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let sizes = [
            (12, "12 K"),
            (2048, "2.0 M"),
            (20_480, "20 M"),
            (1_572_864, "1.5 G"),
            (20_971_520, "20 G"),
        ];
        for (kib, text) in sizes {
            assert_eq!(size(kib), text);
        }
        for (ms, text) in [
            (12, "12 ms"),
            (1500, "1.5 s"),
            (180_000, "3 min"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn control_characters_are_removed() {
        let check = |text: &str, shown: &str| assert_eq!(clean(text), shown);
        check("lame a\x1b[2J.wav", "lame a?[2J.wav");
        check("a\u{9b}31m\r\nb", "a?31m??b");
        check("txt.\u{202e}exe", "txt.?exe");
        check("žluťoučký 日本", "žluťoučký 日本");
    }
}
