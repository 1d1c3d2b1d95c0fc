//! The flags that `holdup top` and `holdup watch` share: who else looks on, and what runtimes are asked to tell.

use clap::Args;

use super::RuntimeEvents;

/// What a flight recorder shows and asks while it goes on.
#[derive(Debug, Args)]
pub struct MeanwhileArgs {
    /// Serve Prometheus metrics of the ledger, the locks and the triggers at this address (PORT: on 127.0.0.1)
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<String>,
    /// Let --metrics be an address that other machines reach
    #[arg(long, requires = "metrics")]
    pub metrics_open: bool,
    /// A name under which --metrics may be asked on the loopback address, in addition to `localhost`: a scraper or proxy of
    /// this machine that calls it so; any number of them
    #[arg(long, value_name = "NAME", requires = "metrics")]
    pub metrics_host: Vec<String>,
    /// Have OCaml 5 programs tell what their garbage collector does, by their environment
    #[arg(long, value_enum, default_value_t = RuntimeEvents::Auto)]
    pub runtime_events: RuntimeEvents,
}
