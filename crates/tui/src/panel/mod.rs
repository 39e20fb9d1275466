//! The parts of a frame: one pure function, one file each.

mod footer;
mod header;
mod moves;
mod nodes;
mod popup;
mod procs;
mod table;

pub use footer::footer;
pub use header::header;
pub use moves::moves;
pub use nodes::{nodes, shown as node_columns, widths as node_widths};
pub use popup::{popup, rows as popup_rows, width as popup_width};
pub use procs::{procs, shown as proc_columns, widths as proc_widths};
pub use table::column_at;
