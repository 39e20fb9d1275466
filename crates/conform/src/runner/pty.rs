//! Presses keys when the expected text has appeared. No clock: the caller passes the output.

use crate::guests::Step;

/// The position in a terminal script.
pub struct Typist {
    steps: &'static [Step],
    next: usize,
    shown: Vec<u8>,
    /// Text before this was matched already.
    seen: usize,
}

impl Typist {
    pub fn new(steps: &'static [Step]) -> Typist {
        Typist {
            steps,
            next: 0,
            shown: Vec::new(),
            seen: 0,
        }
    }

    /// Takes new output; returns the keys to press now.
    pub fn shown(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.shown.extend_from_slice(chunk);
        let mut keys = Vec::new();
        while let Some(step) = self.steps.get(self.next) {
            match step {
                Step::See(text) => match find(&self.shown[self.seen..], text.as_bytes()) {
                    Some(at) => self.seen += at + text.len(),
                    None => return keys,
                },
                Step::Press(text) => keys.extend_from_slice(text.as_bytes()),
            }
            self.next += 1;
        }
        keys
    }

    /// The text that is still expected.
    pub fn stuck(&self) -> Option<String> {
        match self.steps.get(self.next)? {
            Step::See(text) => Some(format!("step {}: waited for {text:?}", self.next)),
            Step::Press(text) => Some(format!("step {}: to press {text:?}", self.next)),
        }
    }
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[Step] = &[
        Step::See("$ "),
        Step::Press("date\r"),
        Step::See("$ "),
        Step::Press("\x04"),
    ];

    #[test]
    fn keys_follow_text() {
        let mut typist = Typist::new(STEPS);
        assert_eq!(typist.shown(b"welcome\r\n$"), b"");
        assert_eq!(typist.shown(b" "), b"date\r");
        assert_eq!(typist.shown(b"date\r\nnow\r\n"), b"");
        assert!(typist.stuck().is_some_and(|s| s.contains("step 2")));
        assert_eq!(typist.shown(b"$ "), b"\x04");
        assert_eq!(typist.stuck(), None);
    }

    #[test]
    fn text_is_matched_once() {
        let mut typist = Typist::new(STEPS);
        assert_eq!(typist.shown(b"$ $ "), b"date\r\x04");
    }
}
