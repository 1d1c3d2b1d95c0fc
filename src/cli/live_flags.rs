//! Flags that `holdup top` and `holdup watch` share: access for other clients, and events of runtimes.

use clap::Args;

use super::RuntimeEvents;

/// Metrics and runtime events of a running flight recorder.
#[derive(Debug, Args)]
pub struct MeanwhileArgs {
    /// Serve Prometheus metrics of the ledger, the locks and the triggers at this address (PORT: on 127.0.0.1)
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<String>,
    /// Let --metrics be an address that other machines reach
    #[arg(long, requires = "metrics")]
    pub metrics_open: bool,
    /// Additional host name accepted in requests to --metrics on the loopback address, beyond `localhost`,
    /// for a local scraper or proxy. May be repeated
    #[arg(long, value_name = "NAME", requires = "metrics")]
    pub metrics_host: Vec<String>,
    /// Enable the garbage collector's events of OCaml 5 programs, through their environment
    #[arg(long, value_enum, default_value_t = RuntimeEvents::Auto)]
    pub runtime_events: RuntimeEvents,
}
