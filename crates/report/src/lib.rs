//! holdup-report
