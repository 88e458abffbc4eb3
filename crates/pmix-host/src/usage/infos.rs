// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage as infos, the form of releases from 6.1 on.

use std::collections::HashSet;

use pmix_types::{
    DataArray, DiskStats, Info, IntoOwned, Key, NetStats, NodeStats, ProcStats, Text, Value, keys,
};

/// The requested values of the resource usage: those of some keys, or all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted(HashSet<Key<'static>>);

impl Wanted {
    /// Reads the keys in a request: an array of infos or of strings. Any other value and an empty array request all
    /// values.
    #[must_use]
    pub fn of_value(value: &Value<'_>) -> Self {
        let keys: HashSet<_> = match value {
            Value::DataArray(DataArray::Info(infos)) => infos
                .iter()
                .map(|info| Key::new(Self::kept_name(info.key.as_text())))
                .collect(),
            Value::DataArray(DataArray::String(names)) => (names.iter().flatten())
                .map(|name| Key::new(Self::kept_name(name)))
                .collect(),
            _ => HashSet::new(),
        };
        Self(keys)
    }

    /// Copies the first 256 bytes of the name of a value or target. Names of values, nodes, disks and interfaces are
    /// shorter, so the copy selects nothing either. A monitor keeps thousands of names of its requestor.
    pub(crate) fn kept_name(name: &Text<'_>) -> Text<'static> {
        let bytes = name.as_bytes();
        Text::new(bytes.get(..256).unwrap_or(bytes).to_vec())
    }

    /// Returns `true` if the value of a key is requested.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.is_empty() || self.0.contains(key.as_bytes())
    }

    /// Returns `true` if the value of a key is requested by name.
    #[must_use]
    pub fn names(&self, key: &str) -> bool {
        !self.0.is_empty() && self.has(key)
    }
}

/// The requested values, after those that are always present.
struct UsageValues<'w> {
    wanted: &'w Wanted,
    infos: Vec<Info<'static>>,
}

impl UsageValues<'_> {
    fn add(&mut self, key: &'static str, value: Value<'static>) {
        if self.wanted.has(key) {
            self.infos.push(Info::new(key, value));
        }
    }
}

/// Returns the requested resource usage of a process. The array begins with the name, process ID and node of the
/// process.
#[must_use]
pub fn of_process(stats: &ProcStats<'_>, wanted: &Wanted) -> Info<'static> {
    let mut infos = vec![
        Info::new(keys::PROCID, stats.proc.clone().into_owned()),
        Info::new(keys::PROC_PID, Value::Pid(stats.pid)),
    ];
    infos.extend(name(keys::HOSTNAME, stats.node.as_ref()));
    let mut values = UsageValues { wanted, infos };
    let command = stats.cmd.clone().map(IntoOwned::into_owned);
    let state = char::from(stats.state).to_string();
    values.add(keys::CMD_LINE, Value::String(command));
    values.add(keys::PROC_OS_STATE, Value::String(Some(Text::from(state))));
    values.add(keys::PROC_TIME, Value::Timeval(stats.time));
    values.add(keys::PROC_PERCENT_CPU, Value::Float(stats.percent_cpu));
    values.add(keys::PROC_PRIORITY, Value::Int32(stats.priority));
    values.add(keys::PROC_NUM_THREADS, Value::Uint16(stats.num_threads));
    // The value is 0 if it was not measured.
    if stats.pss > 0.0 {
        values.add(keys::PROC_PSS, Value::Float(stats.pss));
    }
    values.add(keys::PROC_VSIZE, Value::Float(stats.vsize));
    values.add(keys::PROC_RSS, Value::Float(stats.rss));
    values.add(keys::PROC_PEAK_VSIZE, Value::Float(stats.peak_vsize));
    values.add(keys::PROC_CPU, Value::Uint16(stats.processor));
    let at = Value::Time(stats.sample_time.tv_sec);
    values.add(keys::PROC_SAMPLE_TIME, at);
    Info::new(keys::PROC_RESOURCE_USAGE, values.infos)
}

/// Returns the requested resource usage of a node. The array begins with the name of the node. The values of its disks
/// and interfaces follow if the request names them or requests all.
#[must_use]
pub fn of_node(stats: &NodeStats<'_>, wanted: &Wanted) -> Info<'static> {
    let infos = name(keys::HOSTNAME, stats.node.as_ref());
    let infos = infos.into_iter().collect();
    let mut values = UsageValues { wanted, infos };
    for (key, value) in [
        (keys::NODE_LOAD_AVG, stats.la),
        (keys::NODE_LOAD_AVG5, stats.la5),
        (keys::NODE_LOAD_AVG15, stats.la15),
        (keys::NODE_MEM_TOTAL, stats.total_mem),
        (keys::NODE_MEM_FREE, stats.free_mem),
        (keys::NODE_MEM_BUFFERS, stats.buffers),
        (keys::NODE_MEM_CACHED, stats.cached),
        (keys::NODE_MEM_SWAP_CACHED, stats.swap_cached),
        (keys::NODE_SWAP_TOTAL, stats.swap_total),
        (keys::NODE_MEM_SWAP_FREE, stats.swap_free),
        (keys::NODE_MEM_MAPPED, stats.mapped),
    ] {
        values.add(key, Value::Float(value));
    }
    let at = stats.sample_time.tv_sec;
    values.add(keys::NODE_SAMPLE_TIME, Value::Time(at));
    // A request for a node names values of the node; its parts have all of theirs.
    let all = Wanted::default();
    let parts = [
        (
            keys::DISK_RESOURCE_USAGE,
            stats
                .diskstats
                .iter()
                .map(|disk| of_disk(disk, &all, at))
                .collect::<Vec<_>>(),
        ),
        (
            keys::NETWORK_RESOURCE_USAGE,
            stats
                .netstats
                .iter()
                .map(|net| of_interface(net, &all, at))
                .collect(),
        ),
    ];
    for (key, infos) in parts {
        if wanted.has(key) {
            values.infos.extend(infos);
        }
    }
    Info::new(keys::NODE_RESOURCE_USAGE, values.infos)
}

/// Returns the values of a disk at a time (seconds since 1970), after its name.
#[must_use]
pub fn of_disk(stats: &DiskStats<'_>, wanted: &Wanted, at: i64) -> Info<'static> {
    let infos = name(keys::DISK_ID, stats.disk.as_ref());
    let infos = infos.into_iter().collect();
    let mut values = UsageValues { wanted, infos };
    for (key, value) in [
        (keys::DISK_READ_COMPLETED, stats.num_reads_completed),
        (keys::DISK_READ_MERGED, stats.num_reads_merged),
        (keys::DISK_READ_SECTORS, stats.num_sectors_read),
        (keys::DISK_READ_MILLISEC, stats.milliseconds_reading),
        (keys::DISK_WRITE_COMPLETED, stats.num_writes_completed),
        (keys::DISK_WRITE_MERGED, stats.num_writes_merged),
        (keys::DISK_WRITE_SECTORS, stats.num_sectors_written),
        (keys::DISK_WRITE_MILLISEC, stats.milliseconds_writing),
        (keys::DISK_IO_IN_PROGRESS, stats.num_ios_in_progress),
        (keys::DISK_IO_MILLISEC, stats.milliseconds_io),
        (keys::DISK_IO_WEIGHTED, stats.weighted_milliseconds_io),
    ] {
        values.add(key, Value::Uint64(value));
    }
    values.add(keys::DISK_SAMPLE_TIME, Value::Time(at));
    Info::new(keys::DISK_RESOURCE_USAGE, values.infos)
}

/// Returns the values of a network interface at a time (seconds since 1970), after its name.
#[must_use]
pub fn of_interface(stats: &NetStats<'_>, wanted: &Wanted, at: i64) -> Info<'static> {
    let infos = name(keys::NETWORK_ID, stats.net_interface.as_ref());
    let infos = infos.into_iter().collect();
    let mut values = UsageValues { wanted, infos };
    for (key, value) in [
        (keys::NET_RECVD_BYTES, stats.num_bytes_recvd),
        (keys::NET_RECVD_PCKTS, stats.num_packets_recvd),
        (keys::NET_RECVD_ERRS, stats.num_recv_errs),
        (keys::NET_SENT_BYTES, stats.num_bytes_sent),
        (keys::NET_SENT_PCKTS, stats.num_packets_sent),
        (keys::NET_SENT_ERRS, stats.num_send_errs),
    ] {
        values.add(key, Value::Uint64(value));
    }
    values.add(keys::NET_SAMPLE_TIME, Value::Time(at));
    Info::new(keys::NETWORK_RESOURCE_USAGE, values.infos)
}

fn name(key: &'static str, name: Option<&Text<'_>>) -> Option<Info<'static>> {
    let name = name?.clone().into_owned();
    Some(Info::new(key, Value::String(Some(name))))
}

#[cfg(test)]
mod tests {
    use pmix_types::{Attribute, DataType, Proc, Rank, Timeval};

    use super::*;

    fn inner(info: &Info<'static>) -> Vec<(String, DataType)> {
        let infos = info.value.as_infos().unwrap();
        let of = |info: &Info<'_>| (info.key.to_string(), info.value.data_type());
        infos.iter().map(of).collect()
    }

    fn process() -> ProcStats<'static> {
        ProcStats {
            node: Some("n1".into()),
            proc: Proc::new("job", Rank::new(3)),
            pid: 77,
            cmd: Some("true".into()),
            state: b'R',
            time: Timeval {
                tv_sec: 1,
                tv_usec: 2,
            },
            ..ProcStats::default()
        }
    }

    #[test]
    fn names_that_are_too_long_are_kept_in_part_and_select_nothing() {
        let long = "x".repeat(1 << 20);
        let names = DataArray::String(vec![Some(Text::from(long.as_str())); 3]);
        let wanted = Wanted::of_value(&Value::DataArray(names));
        let kept: Vec<_> = wanted.0.iter().map(|key| key.as_bytes().len()).collect();
        assert_eq!(kept, [256]);
        assert!(!wanted.has(keys::PROC_PSS));
    }

    #[test]
    fn every_value_has_the_type_of_its_attribute() {
        let all = Wanted::default();
        let node = NodeStats {
            node: Some("n1".into()),
            diskstats: vec![DiskStats::default()],
            netstats: vec![NetStats::default()],
            ..NodeStats::default()
        };
        let disk = DiskStats {
            disk: Some("vda".into()),
            ..DiskStats::default()
        };
        let net = NetStats {
            net_interface: Some("lo".into()),
            ..NetStats::default()
        };
        let measured = ProcStats {
            pss: 1.5,
            ..process()
        };
        let found = [
            (of_process(&measured, &all), 15),
            (of_process(&process(), &all), 14),
            (of_node(&node, &all), 15),
            (of_disk(&disk, &all, 5), 13),
            (of_interface(&net, &all, 5), 8),
        ];
        for (info, len) in found {
            let values = inner(&info);
            assert_eq!(values.len(), len, "{values:?}");
            for (key, data_type) in values {
                let attribute = Attribute::by_key(&key).unwrap();
                // The attribute tables give a structure as the type of a time.
                let stated = attribute.data_type();
                assert!(
                    stated.is_none_or(|stated| stated == data_type),
                    "{key} has {data_type}, not {stated:?}"
                );
            }
        }
    }

    #[test]
    fn named_values_follow_the_identity() {
        let named = [Info::new(keys::PROC_RSS, Value::Undef)];
        let wanted = [
            Wanted::of_value(&Value::DataArray(DataArray::Info(named.to_vec()))),
            Wanted::of_value(&Value::DataArray(DataArray::String(vec![Some(
                keys::PROC_RSS.into(),
            )]))),
        ];
        for wanted in wanted {
            let found = inner(&of_process(&process(), &wanted));
            let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(
                keys,
                [keys::PROCID, keys::PROC_PID, keys::HOSTNAME, keys::PROC_RSS]
            );
            assert!(wanted.names(keys::PROC_RSS) && !wanted.has(keys::PROC_PSS));
        }
        let empty = Value::DataArray(DataArray::Proc(Vec::new()));
        for all in [Value::Undef, Value::Bool(true), empty] {
            let wanted = Wanted::of_value(&all);
            assert!(wanted.has(keys::PROC_PSS) && !wanted.names(keys::PROC_PSS));
        }
    }
}
