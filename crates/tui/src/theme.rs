//! Colours of each kind of text, by theme. None is needed to read the screen.

use ratatui::style::{Color, Modifier};

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Plain,
    /// Less important.
    Dim,
    /// Heads of columns, titles.
    Head,
    /// The title of the pane with the focus; a key.
    Focus,
    /// The selected line.
    Chosen,
    Good,
    /// Processes away from home; moves.
    Away,
    Warn,
    Bad,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// For a dark background.
    #[default]
    Dark,
    Light,
    /// Bold, dim and reversed only: what `NO_COLOR` asks for.
    Mono,
    /// Bright colours, nothing dim.
    Contrast,
}

const ALL: [(Theme, &str); 4] = [
    (Theme::Dark, "dark"),
    (Theme::Light, "light"),
    (Theme::Mono, "mono"),
    (Theme::Contrast, "contrast"),
];

impl Theme {
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(t, _)| *t == self).map_or("", |(_, n)| n)
    }

    /// The one after it.
    pub fn next(self) -> Theme {
        let at = ALL.iter().position(|(t, _)| *t == self).unwrap_or(0);
        ALL[(at + 1) % ALL.len()].0
    }

    /// Colour, if it has one, and how it is set.
    pub fn of(self, role: Role) -> (Option<Color>, Modifier) {
        let modifier = match (self, role) {
            (_, Role::Plain) => Modifier::empty(),
            (Theme::Contrast, Role::Dim) => Modifier::empty(),
            (Theme::Contrast, Role::Good | Role::Away) => Modifier::BOLD,
            (_, Role::Dim) => Modifier::DIM,
            (_, Role::Chosen) => Modifier::REVERSED,
            (_, Role::Good | Role::Away) => Modifier::empty(),
            (_, Role::Head | Role::Focus | Role::Warn | Role::Bad) => Modifier::BOLD,
        };
        let colour = match (self, role) {
            (Theme::Mono, _) | (_, Role::Plain | Role::Dim | Role::Head | Role::Chosen) => None,
            (Theme::Dark, Role::Focus | Role::Away) => Some(Color::Cyan),
            (Theme::Dark, Role::Good) => Some(Color::Green),
            (Theme::Dark, Role::Warn) => Some(Color::Yellow),
            (Theme::Dark, Role::Bad) => Some(Color::Red),
            // Cyan, green and yellow are hard to read on white.
            (Theme::Light, Role::Focus | Role::Away) => Some(Color::Blue),
            (Theme::Light, Role::Good) => Some(Color::Indexed(28)),
            (Theme::Light, Role::Warn) => Some(Color::Magenta),
            (Theme::Light, Role::Bad) => Some(Color::Red),
            (Theme::Contrast, Role::Focus | Role::Away) => Some(Color::LightCyan),
            (Theme::Contrast, Role::Good) => Some(Color::LightGreen),
            (Theme::Contrast, Role::Warn) => Some(Color::LightYellow),
            (Theme::Contrast, Role::Bad) => Some(Color::LightRed),
        };
        (colour, modifier)
    }
}

impl std::str::FromStr for Theme {
    type Err = String;
    fn from_str(word: &str) -> Result<Theme, String> {
        let found = ALL.iter().find(|(_, name)| *name == word);
        let names = ALL.map(|(_, name)| name).join(", ");
        found
            .map(|(t, _)| *t)
            .ok_or_else(|| format!("a theme is one of {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn themes_have_names_and_follow_each_other() {
        let mut theme = Theme::default();
        for (own, name) in ALL {
            assert_eq!((theme, theme.name()), (own, name));
            assert_eq!(name.parse(), Ok(own));
            theme = theme.next();
        }
        assert_eq!(theme, Theme::default());
        assert!("pink".parse::<Theme>().is_err());
    }
}
