//! `--metrics`: Prometheus' text, for whoever asks on an address of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use holdup_capture::privileges;
use holdup_report::live::Metrics;
use holdup_report::viewer::Response;
use holdup_report::viewer::gate::Request;

use crate::commands::socket;

/// What Prometheus takes.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The sums, which several look at.
#[derive(Clone)]
pub struct Shared {
    metrics: Arc<Mutex<Metrics>>,
    listener: Arc<TcpListener>,
}

impl Shared {
    /// Binds `address`: `PORT`, or `IP:PORT` of this machine itself; of the network only if `is_open`.
    ///
    /// # Errors
    /// If that is no address, one that others can reach, or not to be had.
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
        eprintln!("holdup: metrics at http://{}/metrics", listener.local_addr().unwrap_or(address));
        let metrics = Arc::new(Mutex::new(Metrics::new(triggers)));
        Ok(Shared { metrics, listener: Arc::new(listener) })
    }

    /// Reads or changes them.
    pub fn with<T>(&self, what: impl FnOnce(&mut Metrics) -> T) -> T {
        what(&mut self.metrics.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers from now on, for as long as the process lives.
    pub fn serve(&self) -> Result<()> {
        let shared = self.clone();
        let work = move || {
            privileges::run_like_others();
            socket::serve(&shared.listener, |request| shared.answer(request));
        };
        std::thread::Builder::new().name("metrics".to_owned()).spawn(work).context("starting a thread")?;
        Ok(())
    }

    fn answer(&self, request: &Request) -> Response {
        let path = request.target.split('?').next().unwrap_or("");
        match (request.method, path) {
            ("GET" | "HEAD", "/metrics") => {
                let body = self.with(|metrics| metrics.text()).into_bytes();
                Response { status: 200, content_type: TEXT, body }
            }
            ("GET" | "HEAD", _) => {
                Response { status: 404, content_type: TEXT, body: b"see /metrics\n".to_vec() }
            }
            _ => Response { status: 405, content_type: TEXT, body: b"GET /metrics\n".to_vec() },
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
        let status = |method, target| shared.answer(&Request { method, target, headers: Vec::new() }).status;
        let asked = [("GET", "/metrics"), ("GET", "/metrics?x"), ("GET", "/"), ("POST", "/metrics")];
        assert_eq!(asked.map(|(method, target)| status(method, target)), [200, 200, 404, 405]);
    }
}
