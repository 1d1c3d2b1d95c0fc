//! Running a program several times: the runner that `diff`, `scale`, `sweep` and `try` share. What the runs mean is
//! decided in `holdup_findings::experiment`.

pub mod counted;
pub mod descendants;
pub mod drift;
pub mod kept_sets;
pub mod knobs;
pub mod one_run;
pub mod preload;
pub mod progress;
pub mod rounds;
pub mod set;
pub mod table;
pub mod words;
