//! Stacks with the time they stand for: flat profiles, trees, callers and callees.
//!
//! [`observations`] gives each sample and each blocked slice its weight, [`folding`] says which frames a reader
//! wants to see, [`profile`] adds up; [`wakers`] lets each wait's stack go on with those who ended it. Frames are grouped by module and function, never by address.

pub mod addresses;
pub mod allocated;
pub mod completeness;
pub mod folding;
pub mod observations;
pub mod places;
pub mod profile;
pub mod tally;
pub mod tree;
pub mod wakers;

pub use addresses::{FunctionCost, Spot, derive as function_costs};
pub use allocated::{Allocated, Around, Handed, Site};
pub use completeness::{Completeness, Ends};
pub use folding::{Folding, Rule};
pub use observations::{Basis, Observation, Observed, Selection, observe};
pub use places::{Place, PlaceId};
pub use profile::{FlatRow, Neighbours, Profile, StackUse, Timeline};
pub use tally::Tally;
pub use tree::{Direction, Node, Tree};
