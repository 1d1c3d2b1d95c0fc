//! Access checks before any response, and the headers of every response.
//!
//! The server listens on 127.0.0.1, which every page in the user's browser and every user of the machine can
//! reach. Therefore a request must contain the token, which only the printed address has. Its `Host` must be
//! this host, because a foreign name can be made to resolve to 127.0.0.1. It must not come from another page.

use std::net::SocketAddr;

/// Status for a request that must use another path, given in the body.
pub const MOVED: u16 = 308;

/// Which requests leave out.
const HTTP_PORT: u16 = 80;

/// The checked parts of a request.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// As sent: `GET`, …
    pub method: &'a str,
    /// As sent: path and query.
    pub target: &'a str,
    /// Name and value, as sent.
    pub headers: Vec<(&'a str, &'a str)>,
}

/// The access rules.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The port that is listened on.
    pub port: u16,
    /// Required first part of the path.
    pub token: String,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The status of HTTP.
    pub status: u16,
    /// Reason for the client. Contains nothing about the recording.
    pub reason: &'static str,
}

const METHOD: Denied = Denied { status: 405, reason: "only GET and HEAD" };
const HOST: Denied = Denied { status: 421, reason: "this server is not that host" };
const ORIGIN: Denied = Denied { status: 403, reason: "not from another page" };
const TOKEN: Denied = Denied { status: 403, reason: "open the address that holdup view printed" };
/// The page's own addresses are relative. Without the slash after the token they would not contain the token.
const SLASH: Denied = Denied { status: MOVED, reason: "the address ends with a slash" };
const PATH: Denied = Denied { status: 400, reason: "not a path of this server" };

/// A request that may pass: path below the token, and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted<'a> {
    /// Without a leading slash: `api/summary`.
    pub path: &'a str,
    /// The text after the question mark. Empty if there is none.
    pub query: &'a str,
}

impl Gate {
    /// The address to open. Ends with a slash.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The reason for the denial.
    pub fn admit<'a>(&self, request: &Request<'a>) -> Result<Admitted<'a>, Denied> {
        Hosts::Loopback(self.port).admit(request)?;
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let path = path.strip_prefix('/').ok_or(PATH)?;
        let parts = path.split_once('/');
        let (token, path) = parts.unwrap_or((path, ""));
        if !same(token.as_bytes(), self.token.as_bytes()) {
            return Err(TOKEN);
        }
        if parts.is_none() {
            return Err(SLASH);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        let goes_up = path.split('/').any(|part| part == ".." || part == ".");
        if !path.bytes().all(is_plain) || goes_up || path.contains("//") {
            return Err(PATH);
        }
        Ok(Admitted { path, query })
    }
}

/// As which hosts a server may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Listens on the loopback address, at this port. Accepts loopback addresses and `localhost`.
    Loopback(u16),
    /// The same, and these names: a scraper or a proxy of this machine asks under them. Ports do not matter then.
    Named(u16, Vec<String>),
    /// Listens for the network, where the machine may have any name.
    Any,
}

impl Hosts {
    /// Accepts a request that only reads, has this host's name, and comes from no other page.
    ///
    /// # Errors
    /// The reason for the denial.
    pub fn admit(&self, request: &Request<'_>) -> Result<(), Denied> {
        if !matches!(request.method, "GET" | "HEAD") {
            return Err(METHOD);
        }
        let mut hosts = request.values("host");
        let host = hosts.next().filter(|_| hosts.next().is_none()).ok_or(HOST)?;
        if !self.is_here(host) {
            return Err(HOST);
        }
        let here = |origin: &str| origin.strip_prefix("http://") == Some(host);
        if !request.values("origin").all(here) {
            return Err(ORIGIN);
        }
        // Browsers send the origin of a request. It is `none` for a typed address or a link outside of pages.
        match request.values("sec-fetch-site").all(|site| matches!(site, "same-origin" | "none")) {
            true => Ok(()),
            false => Err(ORIGIN),
        }
    }

    fn is_here(&self, host: &str) -> bool {
        let (port, names) = match self {
            Hosts::Loopback(port) => (port, &[][..]),
            Hosts::Named(port, names) => (port, &names[..]),
            Hosts::Any => return true,
        };
        let bare = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let bare = bare.map_or(host, |(name, _)| name);
        if names.iter().any(|name| name.eq_ignore_ascii_case(bare)) {
            return true;
        }
        // The port that HTTP has by itself is left out.
        let host = if *port == HTTP_PORT { host.trim_end_matches(":80") } else { host };
        let whole = if *port == HTTP_PORT { format!("{host}:{port}") } else { host.to_owned() };
        let is_loopback = |at: SocketAddr| at.ip().is_loopback() && at.port() == *port;
        whole.parse().is_ok_and(is_loopback) || whole == format!("localhost:{port}")
    }
}

impl Request<'_> {
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim())
    }
}

/// Compares in constant time, so that the duration does not reveal how much is right.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let difference = given.iter().zip(wanted).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == wanted.len() && !wanted.is_empty() && difference == 0
}

/// Headers of every response: the page may only load from here, runs no inline scripts, and cannot be framed.
pub const HEADERS: &[(&str, &str)] = &[
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate { port: 4711, token: "0123456789abcdef".to_owned() }
    }

    fn ask<'a>(method: &'a str, target: &'a str, headers: &[(&'a str, &'a str)]) -> Result<String, u16> {
        let mut all = vec![("Host", "127.0.0.1:4711")];
        if headers.iter().any(|(name, _)| *name == "Host") {
            all.clear();
        }
        all.extend(headers);
        let request = Request { method, target, headers: all };
        gate().admit(&request).map(|it| format!("{}?{}", it.path, it.query)).map_err(|denied| denied.status)
    }

    const PAGE: &str = "/0123456789abcdef/";

    #[test]
    fn requests_with_the_address_are_admitted() {
        assert_eq!(ask("GET", PAGE, &[]), Ok("?".into()));
        assert_eq!(ask("HEAD", "/0123456789abcdef/api/lanes?level=1", &[]), Ok("api/lanes?level=1".into()));
        assert_eq!(ask("GET", PAGE, &[("Host", "localhost:4711")]), Ok("?".into()));
        let own = [("Origin", "http://127.0.0.1:4711"), ("Sec-Fetch-Site", "same-origin")];
        assert_eq!(ask("GET", PAGE, &own), Ok("?".into()));
        assert_eq!(ask("GET", PAGE, &[("sec-fetch-site", "none")]), Ok("?".into()));
    }

    #[test]
    fn a_missing_last_slash_is_redirected() {
        assert_eq!(ask("GET", "/0123456789abcdef", &[]), Err(308));
        assert_eq!(ask("GET", "/0123456789abcdef?x", &[]), Err(308));
        assert_eq!(ask("GET", "/0123456789abcdee", &[]), Err(403));
    }

    #[test]
    fn only_get_and_head_are_allowed() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", ""] {
            assert_eq!(ask(method, PAGE, &[]), Err(405), "{method}");
        }
    }

    #[test]
    fn a_name_that_was_bent_to_this_address_is_refused() {
        for host in
            ["evil.example", "evil.example:4711", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:4711.evil", ""]
        {
            assert_eq!(ask("GET", PAGE, &[("Host", host)]), Err(421), "{host}");
        }
        let twice = [("Host", "127.0.0.1:4711"), ("Host", "evil.example")];
        assert_eq!(ask("GET", PAGE, &twice), Err(421));
        let none = Request { method: "GET", target: PAGE, headers: vec![] };
        assert_eq!(gate().admit(&none).map_err(|denied| denied.status), Err(421));
    }

    #[test]
    fn a_server_of_this_machine_has_its_own_names_only_and_one_of_the_network_any() {
        let ask = |hosts: Hosts, host| {
            let request = Request { method: "GET", target: "/metrics", headers: vec![("Host", host)] };
            hosts.admit(&request).map_err(|denied| denied.status)
        };
        for host in ["127.0.0.1:9464", "127.8.0.1:9464", "[::1]:9464", "localhost:9464"] {
            assert_eq!(ask(Hosts::Loopback(9464), host), Ok(()), "{host}");
        }
        for host in ["build-7:9464", "10.0.0.1:9464", "[::1]", "localhost", "localhost:80", "::1:9464"] {
            assert_eq!(ask(Hosts::Loopback(9464), host), Err(421), "{host}");
            assert_eq!(ask(Hosts::Any, host), Ok(()), "{host}");
        }
        let named = || Hosts::Named(9464, vec!["node1".into(), "Node2.example".into()]);
        for host in
            ["node1", "node1:9464", "NODE1:80", "node2.example:9464", "127.0.0.1:9464", "localhost:9464"]
        {
            assert_eq!(ask(named(), host), Ok(()), "{host}");
        }
        for host in ["node3:9464", "node1.evil.example", "node1:x", "xnode1", "localhost:80", ""] {
            assert_eq!(ask(named(), host), Err(421), "{host}");
        }
        for host in ["127.0.0.1", "localhost", "[::1]", "127.0.0.1:80"] {
            assert_eq!(ask(Hosts::Loopback(80), host), Ok(()), "{host}");
        }
        assert_eq!(ask(Hosts::Loopback(80), "127.0.0.1:8080"), Err(421));
    }

    #[test]
    fn other_pages_may_not_ask() {
        for origin in ["http://evil.example", "null", "https://127.0.0.1:4711", "http://127.0.0.1:8080", ""] {
            assert_eq!(ask("GET", PAGE, &[("Origin", origin)]), Err(403), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(ask("GET", PAGE, &[("Sec-Fetch-Site", site)]), Err(403), "{site}");
        }
    }

    #[test]
    fn requests_without_the_token_are_refused() {
        for target in
            ["/", "/api/summary", "/0123456789abcdee/", "/0123456789abcdef0/", "/0123/", "//", "*", ""]
        {
            let status = ask("GET", target, &[]).expect_err(target);
            assert!([400, 403].contains(&status), "{target}: {status}");
        }
        let open = Gate { port: 4711, token: String::new() };
        let request = Request { method: "GET", target: "//x", headers: vec![("Host", "127.0.0.1:4711")] };
        assert!(open.admit(&request).is_err());
    }

    #[test]
    fn no_path_leads_out() {
        for path in ["../etc/passwd", "a/../../b", "%2e%2e/x", "a%00", "a\\b", ".", "a//b", "a/./b", "ä"] {
            assert_eq!(ask("GET", &format!("{PAGE}{path}"), &[]), Err(400), "{path}");
        }
    }
}
