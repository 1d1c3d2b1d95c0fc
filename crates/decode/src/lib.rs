//! holdup-decode
