//! `--metrics`: Prometheus' text format, served on an address of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use holdup_capture::privileges;
use holdup_report::live::Metrics;
use holdup_report::viewer::Response;
use holdup_report::viewer::gate::{Hosts, Request};

use super::Look;
use crate::cli::MeanwhileArgs;
use crate::commands::socket;

/// Content type that Prometheus accepts.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The sums, shared by several threads.
#[derive(Clone)]
pub struct Shared {
    metrics: Arc<Mutex<Metrics>>,
    listener: Arc<TcpListener>,
    hosts: Hosts,
}

impl Shared {
    /// Returns the metrics if the flags request them. `triggers`: as the user wrote them.
    ///
    /// # Errors
    /// Those of [`Shared::bind`].
    pub fn asked(flags: &MeanwhileArgs, triggers: &[String]) -> Result<Option<Shared>> {
        let Some(address) = &flags.metrics else { return Ok(None) };
        let mut shared = Shared::bind(address, flags.metrics_open, triggers)?;
        if let Hosts::Loopback(port) = shared.hosts {
            shared.hosts = Hosts::Named(port, flags.metrics_host.clone());
        }
        Ok(Some(shared))
    }

    /// Adds each interval to the sums.
    pub fn look(&self) -> Look {
        let shared = self.clone();
        Box::new(move |moment| shared.with(|metrics| metrics.add(moment)))
    }

    /// Binds `address`: `PORT`, or `IP:PORT` of a loopback address. Other addresses only if `is_open`.
    ///
    /// # Errors
    /// If `address` is invalid, reachable from the network without `is_open`, or cannot be bound.
    pub fn bind(address: &str, is_open: bool, triggers: &[String]) -> Result<Shared> {
        let port = address.parse::<u16>().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        let address: SocketAddr = match port {
            Ok(address) => address,
            Err(_) => address
                .parse()
                .with_context(|| format!("--metrics {address}: write 127.0.0.1:PORT, [::1]:PORT or PORT"))?,
        };
        if !address.ip().is_loopback() && !is_open {
            bail!(
                "--metrics {address}: others could read there which programs run, and what they wait for; \
                 --metrics-open allows it"
            );
        }
        let listener = TcpListener::bind(address).with_context(|| format!("--metrics {address}"))?;
        let address = listener.local_addr().unwrap_or(address);
        say!("holdup: metrics at http://{address}/metrics");
        // Remote clients may use any host name for this machine. Then the `Host` header does not protect the
        // metrics.
        let hosts = if address.ip().is_loopback() { Hosts::Loopback(address.port()) } else { Hosts::Any };
        let metrics = Arc::new(Mutex::new(Metrics::new(triggers)));
        Ok(Shared { metrics, listener: Arc::new(listener), hosts })
    }

    /// Reads or changes them.
    pub fn with<T>(&self, what: impl FnOnce(&mut Metrics) -> T) -> T {
        what(&mut self.metrics.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers from now on, for as long as the process lives.
    pub fn serve(&self) -> Result<()> {
        let shared = self.clone();
        let work = move || {
            privileges::restore_priority();
            socket::serve(&shared.listener, |request| shared.answer(request));
        };
        std::thread::Builder::new().name("metrics".to_owned()).spawn(work).context("starting a thread")?;
        Ok(())
    }

    fn answer(&self, request: &Request) -> Response {
        let text = |status, body: Vec<u8>| Response { status, content_type: TEXT, body };
        if let Err(denied) = self.hosts.admit(request) {
            return text(denied.status, format!("{}\n", denied.reason).into_bytes());
        }
        match request.target.split('?').next() {
            Some("/metrics") => text(200, self.with(|metrics| metrics.text()).into_bytes()),
            _ => text(404, b"see /metrics\n".to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_network_is_asked_for_twice() {
        let refused = |address| Shared::bind(address, false, &[]).err().map(|error| format!("{error:#}"));
        assert!(refused("0.0.0.0:0").is_some_and(|error| error.contains("--metrics-open")));
        assert!(refused("[::]:0").is_some_and(|error| error.contains("--metrics-open")));
        assert!(refused("here").is_some_and(|error| error.contains("127.0.0.1:PORT")));
        assert_eq!(refused("127.0.0.1:0"), None);
        assert!(Shared::bind("0.0.0.0:0", true, &[]).is_ok());
    }

    #[test]
    fn nothing_but_the_metrics_is_answered() {
        let shared = Shared::bind("0", false, &[]).unwrap();
        let host = shared.listener.local_addr().unwrap().to_string();
        let status = |method, target, host| {
            shared.answer(&Request { method, target, headers: vec![("Host", host)] }).status
        };
        let asked = [("GET", "/metrics"), ("GET", "/metrics?x"), ("GET", "/"), ("POST", "/metrics")];
        assert_eq!(asked.map(|(method, target)| status(method, target, &host)), [200, 200, 404, 405]);
        // A page's own name that was made to resolve to this address.
        assert_eq!(status("GET", "/metrics", "evil.example"), 421);
    }

    #[test]
    fn a_loopback_address_is_asked_under_the_names_that_are_given() {
        let flags = MeanwhileArgs {
            metrics: Some("0".to_owned()),
            metrics_open: false,
            metrics_host: vec!["node1".to_owned()],
            runtime_events: crate::cli::RuntimeEvents::Never,
        };
        let shared = Shared::asked(&flags, &[]).unwrap().unwrap();
        let status = |host| {
            let headers = vec![("Host", host)];
            shared.answer(&Request { method: "GET", target: "/metrics", headers }).status
        };
        assert_eq!(["node1", "node1:9464", "evil.example"].map(status), [200, 200, 421]);
    }

    #[test]
    fn in_the_network_every_name_is_this_machines_and_other_pages_may_not_ask() {
        let shared = Shared::bind("0.0.0.0:0", true, &[]).unwrap();
        let status = |headers| shared.answer(&Request { method: "GET", target: "/metrics", headers }).status;
        assert_eq!(status(vec![("Host", "build-7:9464")]), 200);
        assert_eq!(status(vec![("Host", "build-7:9464"), ("Origin", "http://evil.example")]), 403);
    }
}
