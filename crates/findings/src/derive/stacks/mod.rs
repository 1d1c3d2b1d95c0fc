//! Stacks with their time: flat profiles, trees, callers and callees.
//!
//! [`observations`] computes the weight of each sample and each blocked slice. [`folding`] decides which
//! frames are shown. [`profile`] has the sums. [`wakers`] extends each wait's stack with its wakers. Frames
//! are grouped by module and function, never by address.

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
