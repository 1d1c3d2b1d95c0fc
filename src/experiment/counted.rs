//! Work that is counted by the kernel: calls of a function, or of a probe that the program's authors put there (USDT).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdup_capture::probe_count::ProbeCount;
use holdup_decode::probes::{self, Site};

use crate::record::program;

/// More places than this are not one probe (each is an event of the kernel's).
const SITES_MAX: usize = 64;

/// The counted probe: `function:[FILE:]NAME` or `usdt:[FILE:]PROVIDER:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The binary with the probe. `None` is the program's own binary. A path must contain a `/`, so that
    /// `a::b` remains a name.
    file: Option<PathBuf>,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Function(String),
    Usdt(String, String),
}

impl Counted {
    /// `None`: it is written otherwise.
    pub fn parse(text: &str) -> Option<Result<Counted>> {
        let (kind, rest) = text.split_once(':').filter(|(kind, _)| ["function", "usdt"].contains(kind))?;
        let (file, name) = match rest.split_once(':') {
            Some((file, name)) if file.contains('/') => (Some(PathBuf::from(file)), name),
            _ => (None, rest),
        };
        let what = match (kind, name.split_once(':')) {
            ("function", _) if !name.is_empty() => What::Function(name.to_owned()),
            ("usdt", Some((provider, name))) if !provider.is_empty() && !name.is_empty() => {
                What::Usdt(provider.to_owned(), name.to_owned())
            }
            _ => {
                let known =
                    "function:NAME, function:FILE:NAME, usdt:PROVIDER:NAME or usdt:FILE:PROVIDER:NAME";
                return Some(Err(anyhow::anyhow!("'{text}': it is {known}, and a FILE has a / in it")));
            }
        };
        Some(Ok(Counted { file, what }))
    }

    /// Counts from now on, wherever the file runs: that of the command, if no other was named.
    pub fn begin(&self, command: &OsStr) -> Result<Counting> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => program::find(command)
                .with_context(|| format!("there is no program {}", command.to_string_lossy()))?,
        };
        let sites = self.sites(&file)?;
        let counts = sites.into_iter().map(|site| {
            ProbeCount::open(&file, (site.offset, site.semaphore)).map_err(|error| {
                let remedy = match error.raw_os_error() {
                    Some(libc::EACCES | libc::EPERM) => ": it needs CAP_PERFMON, as root or by `setcap`",
                    _ => "",
                };
                anyhow::anyhow!("the kernel does not count in {} ({error}){remedy}", file.display())
            })
        });
        counts.collect::<Result<_>>().map(Counting)
    }

    fn sites(&self, file: &Path) -> Result<Vec<Site>> {
        let open = std::fs::File::open(file).with_context(|| format!("opening {}", file.display()))?;
        // SAFETY: a file that is cut short while it is read ends us, not the program, which has not begun.
        let bytes = unsafe { memmap2::Mmap::map(&open) };
        let bytes = bytes.with_context(|| format!("reading {}", file.display()))?;
        let found = match &self.what {
            What::Function(name) => probes::function(&bytes, name),
            What::Usdt(provider, name) => probes::usdt(&bytes, provider, name),
        };
        let sites = found.map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
        if sites.is_empty() || sites.len() > SITES_MAX {
            bail!("{}: {} places in its code (1 to {SITES_MAX} can be counted)", file.display(), sites.len());
        }
        Ok(sites)
    }
}

/// A count that goes on.
pub struct Counting(Vec<ProbeCount>);

impl Counting {
    /// How often so far.
    pub fn read(&self) -> Result<u64> {
        self.0.iter().map(|count| Ok(count.read()?)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_colons_and_files_have_a_slash() {
        let function = |text: &str| Counted::parse(text).unwrap().unwrap();
        assert_eq!(function("function:a::b").file, None);
        assert_eq!(function("function:a::b").what, What::Function("a::b".to_owned()));
        assert_eq!(function("function:/x/y.so:a::b").file, Some("/x/y.so".into()));
        assert_eq!(function("usdt:./p:q:r").what, What::Usdt("q".to_owned(), "r".to_owned()));
        for wrong in ["function:", "usdt:q", "usdt::", "usdt:/a:q"] {
            assert!(Counted::parse(wrong).unwrap().unwrap_err().to_string().contains("PROVIDER"), "{wrong}");
        }
        assert!(Counted::parse("solved ([0-9]+)").is_none() && Counted::parse("syscall:read").is_none());
    }
}
