//! Kernel symbols from the text of /proc/kallsyms.

use holdup_events::tables::{Frame, FrameKind};

/// Code farther behind the last symbol than this is not that symbol's.
const SIZE_MAX: u64 = 1 << 20;

/// Functions of the kernel by address.
pub struct KernelSymbols {
    by_address: Vec<(u64, String)>,
}

impl KernelSymbols {
    /// Text symbols of `kallsyms`. Hidden addresses are all zero: then there are none.
    pub fn parse(kallsyms: &str) -> KernelSymbols {
        let mut by_address: Vec<(u64, String)> = kallsyms
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let kind = words.next()?;
                let name = words.next()?;
                (address != 0 && matches!(kind, "t" | "T" | "w" | "W")).then(|| (address, name.to_owned()))
            })
            .collect();
        by_address.sort();
        KernelSymbols { by_address }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The frame of an address.
    pub fn frame(&self, address: u64) -> Frame {
        let mut frame = Frame {
            kind: FrameKind::Kernel,
            module: "[kernel]".to_owned(),
            offset: address,
            ..Frame::default()
        };
        let behind = self.by_address.partition_point(|(start, _)| *start <= address);
        if let Some((start, name)) = behind.checked_sub(1).and_then(|index| self.by_address.get(index))
            && address - start < SIZE_MAX
        {
            frame.function.clone_from(name);
            frame.function_offset = address - start;
        }
        frame
    }
}
