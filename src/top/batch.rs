//! Moments as lines, for files and other programs.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use holdup_report::live::{self, Moment};
use holdup_report::{Style, text};

use crate::cli::RecordArgs;
use crate::commands::{self, outputs};

/// Where lines go, and how many of them.
pub struct Lines {
    to: Box<dyn Write + Send>,
    as_json: bool,
    style: Style,
    left: Option<u64>,
    stop: Arc<AtomicBool>,
}

impl Lines {
    /// To a file, or else to standard output: to standard error where a program writes to that.
    pub fn open(options: &RecordArgs, beside_program: bool) -> Result<Box<dyn Write + Send>> {
        Ok(match &options.report {
            Some(path) => Box::new(outputs::create(path, options.force)?),
            None if beside_program => Box::new(std::io::stderr()),
            None => Box::new(commands::stdout()?),
        })
    }

    /// Sets `stop` after `count` intervals, or if the reader has closed the output.
    pub fn new(
        to: Box<dyn Write + Send>,
        (as_json, style): (bool, Style),
        count: Option<u64>,
        stop: Arc<AtomicBool>,
    ) -> Lines {
        Lines { to, as_json, style, left: count, stop }
    }

    /// Writes one, unless enough are written.
    pub fn take(&mut self, moment: &Moment) {
        if self.left == Some(0) {
            return;
        }
        let text = match self.as_json {
            true => format!("{}\n", live::moment_json(moment)),
            false => live::lines(moment, &text::clock(moment.unix_ns), &self.style),
        };
        let written = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush());
        self.left = self.left.map(|left| left - 1);
        if written.is_err() || self.left == Some(0) {
            self.left = Some(0);
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}
