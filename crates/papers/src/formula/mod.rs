//! Formulas over named values: what a relation measures, and when it holds.
//!
//! ```text
//! test       = chain { "and" chain }
//! chain      = sum ( "<" | "<=" | ">" | ">=" ) sum { … sum }
//! sum        = product { ("+" | "-") product }
//! product    = unary { ("*" | "/") unary }
//! unary      = [ "-" ] ( number | name | function "(" sum { "," sum } ")" | "(" sum ")" )
//! name       = letters, digits, "_" and "." after a letter, and {n}
//! function   = "ceil" | "min" | "max"
//! ```
//!
//! `{n}` in a name stands for each number for which all names of the formula have a value; alone it is that number.
//! Start at [`Test::parse`] and [`Expr::parse`].

mod eval;
mod parse;

pub use eval::{Margin, Missing, Values};
pub use parse::{Expr, Test};
