//! The state that travels, one module a resource.

pub mod area;
pub mod areas;
pub mod breakpoints;
pub mod cpu;
pub mod files;
pub mod flags;
pub mod futex_wait;
pub mod handlers;
pub mod itimers;
pub mod masked;
pub mod membarrier;
pub mod messages;
pub mod mm;
pub mod names;
pub mod objects;
pub mod processor;
pub mod restarts;
pub mod sigs;
mod sound;
pub mod thread;
pub mod timers;
pub mod uncarried;
pub mod vdso;

pub use area::{Area, Kind, files_of};
pub use cpu::Cpu;
pub use messages::{Accept, Head, Layout, State};
pub use mm::Mm;
pub use processor::Processor;
pub use thread::ThreadState;
