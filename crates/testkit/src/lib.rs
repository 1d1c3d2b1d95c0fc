//! holdup-testkit
