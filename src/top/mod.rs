//! `holdup top`: a flight recorder with a live view, as a screen or as lines.

mod batch;
mod request;
mod screen;
mod terminal;

pub use batch::Lines;
pub use request::Request;
pub use screen::{Watcher, Wishes};
pub use terminal::{HeldBack, without_input};
