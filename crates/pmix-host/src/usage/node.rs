// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage of the node: its load, memory, disks and network interfaces.

use std::path::Path;

use pmix_types::{DiskStats, NetStats, NodeStats, Text};

use super::file::{megabytes, named, now, number, read_text};
use crate::Error;

/// Maximum number of disks or interfaces reported for a node.
const MOST: usize = 4096;

/// Reads the load and memory of this node, without its name, disks and interfaces.
///
/// # Errors
///
/// Returns an error if a file below `/proc` cannot be read.
pub fn node() -> Result<NodeStats<'static>, Error> {
    let loads = read_text(Path::new("/proc/loadavg"))?;
    let memory = read_text(Path::new("/proc/meminfo"))?;
    Ok(node_stats(&loads, &memory))
}

/// Reads the counters of the disks of this node since its boot.
///
/// # Errors
///
/// Returns an error if `/proc/diskstats` cannot be read.
pub fn disks() -> Result<Vec<DiskStats<'static>>, Error> {
    Ok(disk_stats(&read_text(Path::new("/proc/diskstats"))?))
}

/// Reads the counters of the network interfaces that this process sees, since their creation.
///
/// # Errors
///
/// Returns an error if `/proc/self/net/dev` cannot be read.
pub fn interfaces() -> Result<Vec<NetStats<'static>>, Error> {
    Ok(interface_stats(&read_text(Path::new(
        "/proc/self/net/dev",
    ))?))
}

/// Parses the files `loadavg` and `meminfo`.
#[must_use]
pub fn node_stats(loads: &str, memory: &str) -> NodeStats<'static> {
    let mut loads = loads.split_ascii_whitespace().map(|word| {
        let load = word.parse::<f32>().ok();
        load.filter(|load| load.is_finite()).unwrap_or_default()
    });
    let mut load = || loads.next().unwrap_or_default();
    let [
        total,
        free,
        buffers,
        cached,
        swap_cached,
        swap_total,
        swap_free,
        mapped,
    ] = named(
        memory,
        [
            "MemTotal",
            "MemFree",
            "Buffers",
            "Cached",
            "SwapCached",
            "SwapTotal",
            "SwapFree",
            "Mapped",
        ],
    );
    NodeStats {
        node: None,
        la: load(),
        la5: load(),
        la15: load(),
        total_mem: megabytes(total),
        free_mem: megabytes(free),
        buffers: megabytes(buffers),
        cached: megabytes(cached),
        swap_cached: megabytes(swap_cached),
        swap_total: megabytes(swap_total),
        swap_free: megabytes(swap_free),
        mapped: megabytes(mapped),
        sample_time: now(),
        diskstats: Vec::new(),
        netstats: Vec::new(),
    }
}

/// Parses the file `diskstats`. Lines with too few fields are ignored.
#[must_use]
pub fn disk_stats(text: &str) -> Vec<DiskStats<'static>> {
    let disk = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let disk = Some(Text::new(words.next()?.as_bytes().to_vec()));
        let mut next = || words.next().map(number);
        Some(DiskStats {
            disk,
            num_reads_completed: next()?,
            num_reads_merged: next()?,
            num_sectors_read: next()?,
            milliseconds_reading: next()?,
            num_writes_completed: next()?,
            num_writes_merged: next()?,
            num_sectors_written: next()?,
            milliseconds_writing: next()?,
            num_ios_in_progress: next()?,
            milliseconds_io: next()?,
            weighted_milliseconds_io: next()?,
        })
    };
    text.lines().filter_map(disk).take(MOST).collect()
}

/// Parses the file `net/dev`. Lines with too few fields are ignored.
#[must_use]
pub fn interface_stats(text: &str) -> Vec<NetStats<'static>> {
    let interface = |line: &str| {
        // The name of an alias contains a colon, so the line is split at the last one.
        let (name, numbers) = line.rsplit_once(':')?;
        let mut words = numbers.split_ascii_whitespace().map(number);
        let [bytes_in, packets_in, errors_in] = [words.next()?, words.next()?, words.next()?];
        // Dropped, fifo, frame, compressed, multicast.
        let mut words = words.skip(5);
        Some(NetStats {
            net_interface: Some(Text::new(name.trim().as_bytes().to_vec())),
            num_bytes_recvd: bytes_in,
            num_packets_recvd: packets_in,
            num_recv_errs: errors_in,
            num_bytes_sent: words.next()?,
            num_packets_sent: words.next()?,
            num_send_errs: words.next()?,
        })
    };
    text.lines().filter_map(interface).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_and_memory_of_a_node_are_read() {
        let memory = "MemTotal:       2048 kB\nMemFree:  1024 kB\nMemAvailable: 9 kB\nBuffers: 512 kB\n\
                      Cached: 256 kB\nSwapCached: 128 kB\nSwapTotal: 4096 kB\nSwapFree: 3072 kB\n\
                      Mapped: 64 kB\n";
        let stats = node_stats("3.62 2.50 1.25 3/115 27266\n", memory);
        assert_eq!((stats.la, stats.la5, stats.la15), (3.62, 2.5, 1.25));
        let memory = [
            stats.total_mem,
            stats.free_mem,
            stats.buffers,
            stats.cached,
            stats.swap_cached,
            stats.swap_total,
            stats.swap_free,
            stats.mapped,
        ];
        assert_eq!(memory, [2.0, 1.0, 0.5, 0.25, 0.125, 4.0, 3.0, 0.0625]);
        let nothing = node_stats("inf nan x", "MemTotal");
        assert_eq!(
            (nothing.la, nothing.la5, nothing.total_mem),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn disks_and_interfaces_are_read_and_damaged_lines_passed_over() {
        let disks = disk_stats(
            " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13\n 254 1 vda1 1 2 3\n\n7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n",
        );
        let names: Vec<_> = disks
            .iter()
            .map(|disk| disk.disk.clone().unwrap())
            .collect();
        assert_eq!(names, [Text::from("vda"), Text::from("loop0")]);
        assert_eq!(disks[0].num_reads_completed, 1);
        assert_eq!(disks[0].weighted_milliseconds_io, 11);
        let interfaces = interface_stats(
            "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n    lo:    3193 29 1 0 0 0 0 0 \
             4000 30 2 0 0 0 0 0\neth0:1: 1 2 3 4 5 6 7 8 9 10 11 12\n bad: 1 2\n",
        );
        let [lo, alias] = interfaces.as_slice() else {
            panic!("{interfaces:?}");
        };
        assert_eq!(lo.net_interface, Some("lo".into()));
        assert_eq!(
            (lo.num_bytes_recvd, lo.num_packets_recvd, lo.num_recv_errs),
            (3193, 29, 1)
        );
        assert_eq!(
            (lo.num_bytes_sent, lo.num_packets_sent, lo.num_send_errs),
            (4000, 30, 2)
        );
        assert_eq!(alias.net_interface, Some("eth0:1".into()));
        let many = "1 1 d 1 1 1 1 1 1 1 1 1 1 1\n".repeat(MOST + 5);
        assert_eq!(disk_stats(&many).len(), MOST);
    }

    #[test]
    fn this_node_has_memory_and_a_loopback_interface() {
        assert!(node().unwrap().total_mem > 0.0);
        let found = interfaces().unwrap();
        assert!(
            found
                .iter()
                .any(|one| one.net_interface == Some("lo".into()))
        );
        disks().unwrap();
    }
}
