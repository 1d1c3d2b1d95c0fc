//! The name of a socket ([`CallObject::name`](crate::tables::CallObject)), which describes its two ends.
//!
//! - `127.0.0.1:40912 → 10.1.2.3:5432`: local end, then peer.
//! - `unix → /run/db.sock`: this end connected to the listener at that address.
//! - `unix ← /run/db.sock`: the listener at that address accepted this end.
//! - `unix at /run/db.sock`: the socket has that address, and its peer has one too or does not exist.
//!
//! An abstract address begins with `@`. For a unix socket, the inode of the peer follows if known: `unix,
//! other end socket:[7]`.

use std::fmt;

/// Which end of a connection a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Connected to a listener.
    Connected,
    /// A listener accepted it.
    Accepted,
}

/// A socket, by its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketName<'a> {
    /// TCP or UDP: address and port of each end. Port 0 means none.
    Internet {
        /// The local end.
        local: &'a str,
        /// The other one.
        peer: &'a str,
    },
    /// A unix domain socket.
    Unix {
        /// Which end it is, if one has an address and the other has none.
        side: Option<Side>,
        /// The address of either end, empty if neither has one.
        address: &'a str,
        /// Inode of the peer, 0 if none or unknown.
        other_end: u64,
    },
}

const UNIX: &str = "unix";
const ARROW: &str = " → ";
const BACK: &str = " ← ";
const AT: &str = " at ";
const OTHER_END: &str = ", other end socket:[";

impl<'a> SocketName<'a> {
    /// Parses a name. `None` if it has none of these forms.
    pub fn parse(name: &'a str) -> Option<SocketName<'a>> {
        let Some(rest) = name.strip_prefix(UNIX) else {
            let (local, peer) = name.split_once(ARROW)?;
            return Some(SocketName::Internet { local, peer });
        };
        // An address may have anything in it: the last such words are ours.
        let (rest, other_end) = match rest.rsplit_once(OTHER_END) {
            Some((rest, number)) => (rest, number.strip_suffix(']')?.parse().ok()?),
            None => (rest, 0),
        };
        let (side, address) = if rest.is_empty() {
            (None, "")
        } else if let Some(address) = rest.strip_prefix(ARROW) {
            (Some(Side::Connected), address)
        } else if let Some(address) = rest.strip_prefix(BACK) {
            (Some(Side::Accepted), address)
        } else {
            (None, rest.strip_prefix(AT)?)
        };
        Some(SocketName::Unix { side, address, other_end })
    }

    /// Address of the peer. For a unix socket, the address of either end.
    pub fn other(&self) -> &'a str {
        match self {
            SocketName::Internet { peer, .. } => peer,
            SocketName::Unix { address, .. } => address,
        }
    }
}

impl fmt::Display for SocketName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SocketName::Internet { local, peer } => write!(f, "{local}{ARROW}{peer}"),
            SocketName::Unix { side, address, other_end } => {
                f.write_str(UNIX)?;
                match side {
                    Some(Side::Connected) => write!(f, "{ARROW}{address}")?,
                    Some(Side::Accepted) => write!(f, "{BACK}{address}")?,
                    None if address.is_empty() => {}
                    None => write!(f, "{AT}{address}")?,
                }
                if other_end != 0 { write!(f, "{OTHER_END}{other_end}]") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unix(side: Option<Side>, address: &str, other_end: u64) -> SocketName<'_> {
        SocketName::Unix { side, address, other_end }
    }

    #[test]
    fn names_read_as_they_are_documented() {
        let told = [
            (unix(None, "", 0), "unix"),
            (unix(None, "", 7), "unix, other end socket:[7]"),
            (unix(None, "/run/db.sock", 0), "unix at /run/db.sock"),
            (unix(Some(Side::Connected), "@db", 7), "unix → @db, other end socket:[7]"),
            (unix(Some(Side::Accepted), "/run/db.sock", 0), "unix ← /run/db.sock"),
            (SocketName::Internet { local: "[::1]:80", peer: "10.1.2.3:443" }, "[::1]:80 → 10.1.2.3:443"),
        ];
        for (name, text) in told {
            assert_eq!(name.to_string(), text);
            assert_eq!(SocketName::parse(text), Some(name));
        }
    }

    #[test]
    fn what_is_no_name_is_none() {
        for text in
            ["", "netlink", "family 40", "unixes", "unix, other end socket:[x]", "unix, other end socket:[7"]
        {
            assert_eq!(SocketName::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_address_text_survives_parsing(
            address in "(.| → | ← |, other end socket:\\[|\\]){1,12}",
            other_end in 1..u64::MAX,
            is_accepted: bool,
        ) {
            let side = Some(if is_accepted { Side::Accepted } else { Side::Connected });
            let name = unix(side, &address, other_end);
            let text = name.to_string();
            prop_assert_eq!(SocketName::parse(&text), Some(name));
        }
    }
}
