//! Facts of the machine.

/// CPUs online, ascending.
pub fn online_cpus() -> Vec<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match parse_cpu_list(text.trim()) {
        cpus if cpus.is_empty() => vec![0],
        cpus => cpus,
    }
}

/// A list such as `0-3,7`; what makes no sense in it is left out.
pub fn parse_cpu_list(text: &str) -> Vec<u16> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}
