//! What commands of old names print: bars, columns, lists, maps. Pure: texts from answers.

mod bars;
mod columns;
mod listing;
mod maps;

pub use bars::{Bar, Frame, frame};
pub use columns::{Place, add_columns};
pub use listing::{listing, reason};
pub use maps::{showmap, status};
