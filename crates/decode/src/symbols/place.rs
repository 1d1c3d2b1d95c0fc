//! What an address in a binary is.

/// One call at an address. Any part may be unknown: empty, or line 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Demangled.
    pub function: String,
    /// Source file.
    pub file: String,
    /// Line in it, from 1.
    pub line: u32,
}

/// The calls at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Leaf first: what the compiler inlined, then the function itself. Not empty.
    pub calls: Vec<Call>,
    /// From the start of the symbol that holds it (bytes).
    pub distance: u64,
}

impl Place {
    /// A function without any inlined call.
    pub fn of_function(function: String, distance: u64) -> Place {
        Place { calls: vec![Call { function, ..Call::default() }], distance }
    }
}
