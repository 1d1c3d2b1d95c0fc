//! The kernel's TCP counters of a network namespace: retransmitted first packets of connections, and
//! connections that found a listening socket's queue full.

use std::fs::File;
use std::io::{Read, Seek};

use holdup_events::CpuId;
use holdup_events::tables::CountKind;

use crate::cpu_counts::CpuCount;

/// The recorded columns of `/proc/net/netstat`, by section and name (net/ipv4/proc.c).
const COLUMNS: [(&str, &str, CountKind); 2] = [
    ("TcpExt:", "ListenOverflows", CountKind::ListenOverflows),
    ("TcpExt:", "TCPSynRetrans", CountKind::SynRetransmits),
];

/// The counters of one namespace. The file stays open, so it can be read after the process has exited.
#[derive(Default)]
pub struct NetworkCounts {
    file: Option<File>,
}

impl NetworkCounts {
    /// For the namespace of a process, by default of holdup itself.
    pub fn open(pid: Option<u32>) -> NetworkCounts {
        let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        NetworkCounts { file: File::open(format!("/proc/{process}/net/netstat")).ok() }
    }

    /// Returns the counters since the namespace was made. Empty if /proc does not have them.
    pub fn look(&mut self) -> Vec<CpuCount> {
        let mut text = String::new();
        let read = self.file.as_mut().and_then(|file| {
            file.rewind().ok()?;
            file.read_to_string(&mut text).ok()
        });
        read.map_or_else(Vec::new, |_| parse(&text))
    }
}

/// Lines come in pairs: names, then as many numbers, behind the same first word.
fn parse(text: &str) -> Vec<CpuCount> {
    let lines: Vec<&str> = text.lines().collect();
    let mut counts = Vec::new();
    for pair in lines.windows(2) {
        let [names, numbers] = pair else { continue };
        let (mut names, mut numbers) = (names.split_ascii_whitespace(), numbers.split_ascii_whitespace());
        let part = names.next();
        if part.is_none() || part != numbers.next() {
            continue;
        }
        for (name, number) in names.zip(numbers) {
            let what = COLUMNS.iter().find(|(of, column, _)| Some(*of) == part && *column == name);
            if let Some(((_, _, what), number)) = what.zip(number.parse().ok()) {
                counts.push((CpuId::NONE, *what, number));
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent ListenOverflows X TCPSynRetrans\nTcpExt: 1 42 3 7\nIpExt: ListenOverflows\nIpExt: 9\n";
        let of = |what, count| (CpuId::NONE, what, count);
        assert_eq!(parse(text), [of(CountKind::ListenOverflows, 42), of(CountKind::SynRetransmits, 7)]);
        for text in [
            "",
            "TcpExt:",
            "TcpExt: ListenOverflows\n",
            "TcpExt: ListenOverflows\nTcpExt: x\n",
            "TcpExt: ListenOverflows\nTcpExt:\n",
        ] {
            assert_eq!(parse(text), [], "{text}");
        }
    }

    #[test]
    fn network_counters_are_read_repeatedly() {
        let mut counts = NetworkCounts::open(Some(std::process::id()));
        assert_eq!(counts.look().len(), COLUMNS.len());
        assert_eq!(counts.look().len(), COLUMNS.len());
        assert_eq!(NetworkCounts::open(None).look().len(), COLUMNS.len(), "its own");
        assert_eq!(NetworkCounts::open(Some(u32::MAX)).look(), [], "another's are not its");
    }
}
