// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of the model, text and bytes.

use pmix_types::{
    App, Bytes, Coord, Cpuset, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info,
    Key, Kval, NetStats, NodePid, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query,
    Regattr, RegexBytes, ResourceUnit, Text, Timeval, Topology, WireRegex2,
};

use crate::number::measure;
use crate::random::{Random, Sample};

/// Implements `Sample` for structures, field by field; `some` are lists, `measured` are
/// measurements, and `unsent` are fields that no release packs and that keep their default.
macro_rules! structures {
    ($($name:ident $(<$life:lifetime>)? {
        $($field:ident),* ; some $($list:ident),* ; measured $($measure:ident),* ;
        unsent $($unsent:ident),* ;
    })*) => {
        $(impl Sample for $name $(<$life>)? {
            fn sample(random: &mut Random<'_>) -> Self {
                Self {
                    $($field: random.one(),)*
                    $($list: random.some(4),)*
                    $($measure: measure(random),)*
                    $($unsent: Default::default(),)*
                }
            }
        })*
    };
}

structures! {
    Timeval { tv_sec, tv_usec; some; measured; unsent; }
    Proc<'_> { nspace, rank; some; measured; unsent; }
    Pdata<'_> { proc, key, value; some; measured; unsent; }
    Kval<'_> { key, value; some; measured; unsent; }
    ProcInfo<'_> {
        proc, hostname, executable_name, pid, state; some; measured; unsent exit_code;
    }
    NodePid<'_> { hostname, nodeid, pid; some; measured; unsent; }
    Envar<'_> { envar, value, separator; some; measured; unsent; }
    Endpoint<'_> { uuid, osname, endpt; some; measured; unsent; }
    Query<'_> { ; some keys, qualifiers; measured; unsent; }
    Regattr<'_> { name, string, data_type; some description; measured; unsent; }
    Coord { view; some coord; measured; unsent; }
    Geometry<'_> { fabric, uuid, osname; some coordinates; measured; unsent; }
    DeviceDistance<'_> {
        uuid, osname, device_type, mindist, maxdist; some; measured; unsent;
    }
    Device<'_> { uuid, osname, device_type; some; measured; unsent; }
    ResourceUnit { device_type, count; some; measured; unsent; }
    DiskStats<'_> {
        disk, num_reads_completed, num_reads_merged, num_sectors_read, milliseconds_reading,
        num_writes_completed, num_writes_merged, num_sectors_written, milliseconds_writing,
        num_ios_in_progress, milliseconds_io, weighted_milliseconds_io;
        some; measured; unsent;
    }
    NetStats<'_> {
        net_interface, num_bytes_recvd, num_packets_recvd, num_recv_errs, num_bytes_sent,
        num_packets_sent, num_send_errs;
        some; measured; unsent;
    }
    ProcStats<'_> {
        node, proc, pid, cmd, state, time, priority, num_threads, processor, sample_time;
        some; measured pss, vsize, rss; unsent percent_cpu, peak_vsize;
    }
    // No release packs its lists of disks and interfaces.
    NodeStats<'_> {
        node, sample_time; some;
        measured la, la5, la15, total_mem, free_mem, buffers, cached, swap_cached, swap_total,
        swap_free, mapped;
        unsent diskstats, netstats;
    }
    WireRegex2<'_> { kind, bytes; some; measured; unsent; }
}

impl Sample for Info<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        let mut info = Self::new(
            random.one::<pmix_types::Key<'_>>(),
            random.one::<pmix_types::Value<'_>>(),
        );
        if random.carried.is_whole {
            info.flags = random.one();
        }
        info
    }
}

impl Sample for App<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        Self {
            cmd: random.one(),
            argv: random.some(4),
            env: random.some(4),
            cwd: random.carried.is_whole.then(|| random.one()).flatten(),
            maxprocs: random.one(),
            info: random.some(4),
        }
    }
}

/// Lists of processors with various ends and gaps.
const PROCESSORS: [&str; 6] = ["0", "0-3", "1,3,5-7", "0,2-3,7,64-", "5-", "0-127"];

impl Sample for Cpuset<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        let list = random.pick(&PROCESSORS).filter(|_| !random.one_in(4));
        Self {
            source: Some("hwloc".into()),
            bitmap: list.map(Into::into),
        }
    }
}

/// Returns an empty topology, because only hwloc can interpret the text.
impl Sample for Topology<'_> {
    fn sample(_: &mut Random<'_>) -> Self {
        Self::default()
    }
}

/// Returns at most `most` bytes without NUL; one text in four has more than lower-case letters.
fn text(random: &mut Random<'_>, most: usize) -> Vec<u8> {
    let usual = most.min(23) + 1;
    let bound = if random.one_in(64) { most + 1 } else { usual };
    let wanted = random.below(bound);
    let is_plain = !random.one_in(4);
    let mut text = Vec::with_capacity(wanted);
    while text.len() < wanted {
        let character = character(random, is_plain);
        if text.len() + character.len() <= wanted {
            text.extend(character);
        } else {
            text.push(b'~');
        }
    }
    text
}

fn character(random: &mut Random<'_>, is_plain: bool) -> Vec<u8> {
    const WIDE: [char; 4] = ['é', '€', '🐧', 'α'];
    let byte = u8::try_from(random.below(255)).unwrap_or_default();
    if is_plain {
        return vec![b'a' + byte % 26];
    }
    match random.below(16) {
        0 => {
            let wide = random.pick(&WIDE).unwrap_or('é');
            wide.to_string().into_bytes()
        }
        // Any byte, including control characters and bytes that are not UTF-8.
        1 => vec![byte + 1],
        _ => vec![b' ' + byte % 95],
    }
}

impl Sample for Text<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        text(random, 600).into()
    }
}

impl Sample for Option<Text<'_>> {
    fn sample(random: &mut Random<'_>) -> Self {
        (!random.one_in(10)).then(|| text(random, 9000).into())
    }
}

impl Sample for Nspace<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        text(random, Self::MAX_LEN).into()
    }
}

impl Sample for Key<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        text(random, Self::MAX_LEN).into()
    }
}

impl Sample for Bytes<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        let bound = if random.one_in(64) { 5000 } else { 20 };
        let len = random.below(bound);
        random.many(len).into()
    }
}

impl Sample for RegexBytes<'_> {
    /// Returns one of the caller's maps, because only an encoder can create one.
    fn sample(random: &mut Random<'_>) -> Self {
        let carried = random.carried;
        let index = random.below(carried.maps.len());
        let map = carried.maps.get(index).cloned().unwrap_or_default();
        Self(map.into())
    }
}
