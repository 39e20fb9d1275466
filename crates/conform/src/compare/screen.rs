//! The final screen of a vt100. Full-screen programs skip intermediate drawing depending on whether a key is already
//! waiting; the final screen is the same.

const ROWS: usize = 24;
const COLUMNS: usize = 80;
/// Digits of parameters that are read; a vt100 has no longer ones.
const PARAMETERS_MAX: usize = 32;

struct Screen {
    cells: Vec<Vec<u8>>,
    row: usize,
    column: usize,
    /// The last column was written: the next letter goes to the next row.
    wraps: bool,
    top: usize,
    bottom: usize,
}

/// The rows of the screen after `bytes`, without trailing blanks.
pub fn rows(bytes: impl Iterator<Item = u8>) -> Vec<String> {
    let mut screen = Screen::new();
    let mut bytes = bytes.peekable();
    while let Some(byte) = bytes.next() {
        if byte != 0x1b {
            screen.letter(byte);
            continue;
        }
        match bytes.next() {
            Some(b'[') => {
                let mut parameters = Vec::new();
                while let Some(next) = bytes.next_if(|b| (0x20..0x40).contains(b)) {
                    if parameters.len() < PARAMETERS_MAX {
                        parameters.push(next);
                    }
                }
                if let Some(last) = bytes.next() {
                    screen.control(&parameters, last);
                }
            }
            // Character sets: one more byte.
            Some(b'(' | b')') => drop(bytes.next()),
            Some(b'D') => screen.down(),
            Some(b'E') => {
                screen.column = 0;
                screen.down();
            }
            Some(b'M') => screen.up(),
            _ => {}
        }
    }
    screen.text()
}

impl Screen {
    fn new() -> Screen {
        Screen {
            cells: vec![vec![b' '; COLUMNS]; ROWS],
            row: 0,
            column: 0,
            wraps: false,
            top: 0,
            bottom: ROWS - 1,
        }
    }

    fn text(&self) -> Vec<String> {
        let line = |row: &Vec<u8>| String::from_utf8_lossy(row).trim_end().to_string();
        self.cells.iter().map(line).collect()
    }

    fn letter(&mut self, byte: u8) {
        match byte {
            b'\r' => self.go(self.row, 0),
            b'\n' | 0x0b | 0x0c => self.down(),
            0x08 => self.go(self.row, self.column.saturating_sub(1)),
            b'\t' => self.go(self.row, (self.column / 8 + 1) * 8),
            0..0x20 | 0x7f => {}
            _ => {
                if self.wraps {
                    self.go(self.row, 0);
                    self.down();
                }
                self.cells[self.row][self.column] = byte;
                self.wraps = self.column == COLUMNS - 1;
                self.column = (self.column + 1).min(COLUMNS - 1);
            }
        }
    }

    fn go(&mut self, row: usize, column: usize) {
        self.row = row.min(ROWS - 1);
        self.column = column.min(COLUMNS - 1);
        self.wraps = false;
    }

    fn down(&mut self) {
        if self.row == self.bottom {
            self.cells.remove(self.top);
            self.cells.insert(self.bottom, vec![b' '; COLUMNS]);
        } else {
            self.row = (self.row + 1).min(ROWS - 1);
        }
        self.wraps = false;
    }

    fn up(&mut self) {
        if self.row == self.top {
            self.cells.remove(self.bottom);
            self.cells.insert(self.top, vec![b' '; COLUMNS]);
        } else {
            self.row = self.row.saturating_sub(1);
        }
        self.wraps = false;
    }

    fn control(&mut self, parameters: &[u8], last: u8) {
        let numbers: Vec<usize> = parameters
            .split(|b| *b == b';')
            .map(|text| std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()))
            .map(|number| number.unwrap_or(0))
            .collect();
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        let count = number(0).max(1);
        match last {
            b'H' | b'f' => self.go(count - 1, number(1).max(1) - 1),
            b'A' => self.go(self.row.saturating_sub(count), self.column),
            b'B' => self.go(self.row.saturating_add(count), self.column),
            b'C' => self.go(self.row, self.column.saturating_add(count)),
            b'D' => self.go(self.row, self.column.saturating_sub(count)),
            b'J' => {
                let here = self.row * COLUMNS + self.column;
                self.erase(number(0), here, 0, ROWS * COLUMNS);
            }
            b'K' => {
                let start = self.row * COLUMNS;
                self.erase(number(0), start + self.column, start, start + COLUMNS);
            }
            b'r' => {
                self.bottom = match number(1) {
                    0 => ROWS - 1,
                    n => n.min(ROWS) - 1,
                };
                self.top = (count - 1).min(self.bottom);
                self.go(0, 0);
            }
            _ => {}
        }
    }

    /// Erases from `here` to the end, from the start to `here`, or all, depending on `how`.
    fn erase(&mut self, how: usize, here: usize, start: usize, end: usize) {
        let range = match how {
            0 => here..end,
            1 => start..here + 1,
            _ => start..end,
        };
        for cell in range {
            self.cells[cell / COLUMNS][cell % COLUMNS] = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: &[&str]) {
        let shown = rows(text.bytes());
        let used = shown.iter().rposition(|row| !row.is_empty());
        assert_eq!(
            &shown[..used.map_or(0, |last| last + 1)],
            wanted,
            "{text:?}"
        );
    }

    #[test]
    fn letters_move_the_cursor() {
        check("one\r\ntwo\x08X\rY", &["one", "YwX"]);
        check("a\tb", &["a       b"]);
        let long = "x".repeat(81);
        check(&long, &[&"x".repeat(80), "x"]);
        check(&("x".repeat(80) + "\r\ny"), &[&"x".repeat(80), "y"]);
    }

    #[test]
    fn cursor_positioning_is_followed() {
        check("\x1b[2;3Hat\x1b[Hx\x1b[2Bv\x1b[1Au", &["x", "  ut", " v"]);
        check("abc\x1b[2D!\x1b[0;7m?", &["a!?"]);
    }

    #[test]
    fn parts_are_erased() {
        check("abcdef\x1b[3D\x1b[K", &["abc"]);
        check("abcdef\x1b[3D\x1b[1K", &["    ef"]);
        check("a\r\nb\r\nc\x1b[2;1H\x1b[J", &["a"]);
        check("abc\x1b[2J", &[]);
    }

    #[test]
    fn regions_scroll() {
        check("\x1b[1;3ra\r\nb\r\nc\r\nd", &["b", "c", "d"]);
        check("\x1b[1;3ra\r\nb\r\nc\x1b[H\x1bMz", &["z", "a", "b"]);
    }

    #[test]
    fn invalid_sequences_are_harmless() {
        check("\x1b[99999999999999999999Hx\x1b[;;;r\x1b[9;2r\x1b", &["x"]);
        check("\x1b[?1;2c\x1b(Bok\x1b", &["ok"]);
    }
}
