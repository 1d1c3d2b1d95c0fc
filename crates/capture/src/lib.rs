//! holdup-capture
