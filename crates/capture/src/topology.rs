//! Where CPUs are: node, package, core, and how fast they are compared with each other. Read from sysfs.

use std::fs;
use std::path::Path;

use holdup_events::recording::CpuPlace;

use crate::host::parse_cpu_list;

/// The root of sysfs' description of CPUs and nodes.
const SYSTEM: &str = "/sys/devices/system";

/// The places of these CPUs, ascending. A CPU that sysfs does not describe, because it is offline, is left out.
pub fn read(cpus: &[u16]) -> Vec<CpuPlace> {
    read_below(Path::new(SYSTEM), cpus)
}

/// Adds the places of CPUs that are online now and were offline when `places` was read.
pub fn add_later(places: &mut Vec<CpuPlace>) {
    merge(places, read(&crate::host::online_cpus()));
}

fn merge(places: &mut Vec<CpuPlace>, now: Vec<CpuPlace>) {
    for place in now {
        if let Err(at) = places.binary_search_by_key(&place.cpu, |known| known.cpu) {
            places.insert(at, place);
        }
    }
}

fn read_below(system: &Path, cpus: &[u16]) -> Vec<CpuPlace> {
    let nodes = nodes(system);
    let full = parse_cpu_list(&text(&system.join("cpu/nohz_full")));
    let place = |cpu: &u16| {
        let folder = system.join(format!("cpu/cpu{cpu}"));
        let number = |name: &str| text(&folder.join(name)).trim().parse::<u32>().ok();
        Some(CpuPlace {
            cpu: *cpu,
            package: number("topology/physical_package_id")?,
            core: number("topology/core_id")?,
            node: nodes.iter().find(|(_, of)| of.contains(cpu)).map_or(0, |(node, _)| *node),
            capacity: number("cpu_capacity").unwrap_or(0),
            max_khz: number("cpufreq/cpuinfo_max_freq").unwrap_or(0),
            nohz_full: full.contains(cpu),
        })
    };
    cpus.iter().filter_map(place).collect()
}

/// The memory nodes that have CPUs, with these.
fn nodes(system: &Path) -> Vec<(u32, Vec<u16>)> {
    let entries = fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, parse_cpu_list(&text(&entry.path().join("cpulist")))))
    };
    let mut nodes: Vec<(u32, Vec<u16>)> = entries.filter_map(node).collect();
    nodes.sort_unstable();
    nodes
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of CPUs: number, package, core.
    fn describe(system: &Path, cpus: impl Iterator<Item = (u16, u32, u32)>) {
        for (cpu, package, core) in cpus {
            let folder = system.join(format!("cpu/cpu{cpu}"));
            fs::create_dir_all(folder.join("topology")).unwrap();
            fs::write(folder.join("topology/physical_package_id"), format!("{package}\n")).unwrap();
            fs::write(folder.join("topology/core_id"), format!("{core}\n")).unwrap();
        }
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("holdup-topology-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn two_packages_with_two_threads_a_core() {
        let system = folder("packages");
        // 256 CPUs: 0 to 127 are the first threads of their cores, the others the second ones.
        describe(&system, (0..256).map(|cpu| (cpu, u32::from(cpu % 128 / 64), u32::from(cpu % 64))));
        for (node, cpus) in [(0, "0-63,128-191"), (1, "64-127,192-255")] {
            fs::create_dir_all(system.join(format!("node/node{node}"))).unwrap();
            fs::write(system.join(format!("node/node{node}/cpulist")), cpus).unwrap();
        }
        let places = read_below(&system, &(0..256).collect::<Vec<u16>>());
        assert_eq!(places.len(), 256);
        let of = |cpu: usize| (places[cpu].node, places[cpu].package, places[cpu].core);
        assert_eq!((of(0), of(63), of(64), of(192)), ((0, 0, 0), (0, 0, 63), (1, 1, 0), (1, 1, 0)));
        assert_eq!(places[0].core_key(), places[128].core_key());
        assert_ne!(places[0].core_key(), places[64].core_key());
        fs::remove_dir_all(system).unwrap();
    }

    #[test]
    fn new_cpus_are_added_in_order() {
        let place = |cpu, node| CpuPlace { cpu, node, ..CpuPlace::default() };
        let mut places = vec![place(0, 0), place(2, 1)];
        merge(&mut places, vec![place(1, 1), place(2, 7), place(3, 1)]);
        assert_eq!(places, [place(0, 0), place(1, 1), place(2, 1), place(3, 1)]);
    }

    #[test]
    fn hybrid_cores_and_cpus_that_are_not_described() {
        let system = folder("hybrid");
        describe(&system, [(0, 0, 0), (7, 0, 7)].into_iter());
        fs::write(system.join("cpu/cpu7/cpu_capacity"), "446\n").unwrap();
        fs::create_dir_all(system.join("cpu/cpu0/cpufreq")).unwrap();
        fs::write(system.join("cpu/cpu0/cpufreq/cpuinfo_max_freq"), "4900000\n").unwrap();
        fs::write(system.join("cpu/nohz_full"), "6-7\n").unwrap();
        let places = read_below(&system, &[0, 3, 7]);
        let shown: Vec<_> = places
            .iter()
            .map(|place| (place.cpu, place.node, place.capacity, place.max_khz, place.nohz_full))
            .collect();
        assert_eq!(shown, [(0, 0, 0, 4_900_000, false), (7, 0, 446, 0, true)]);
        assert!(read_below(Path::new("/nonexistent"), &[0]).is_empty());
        fs::remove_dir_all(system).unwrap();
    }
}
