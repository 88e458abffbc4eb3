// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of processes and nodes (only in module v41).

use std::marker::PhantomData;

use pmix_types::DataType;

use crate::wire_type::structure::{List, structure};
use crate::wire_type::{self, Byte, Float, Int16, Int32, Pid, Proc, Run, Size, Timeval, Uint64};
use crate::{Decoder, Encoder, Error, WireType};

structure! {
    /// `PMIX_DISK_STATS`.
    DiskStats: DiskStats<'a> = DISK_STATS {
        disk: wire_type::String,
        num_reads_completed: Uint64,
        num_reads_merged: Uint64,
        num_sectors_read: Uint64,
        milliseconds_reading: Uint64,
        num_writes_completed: Uint64,
        num_writes_merged: Uint64,
        num_sectors_written: Uint64,
        milliseconds_writing: Uint64,
        num_ios_in_progress: Uint64,
        milliseconds_io: Uint64,
        weighted_milliseconds_io: Uint64,
    }
}

structure! {
    /// `PMIX_NET_STATS`.
    NetStats: NetStats<'a> = NET_STATS {
        net_interface: wire_type::String,
        num_bytes_recvd: Uint64,
        num_packets_recvd: Uint64,
        num_recv_errs: Uint64,
        num_bytes_sent: Uint64,
        num_packets_sent: Uint64,
        num_send_errs: Uint64,
    }
}

structure! {
    /// `PMIX_PROC_STATS`. `percent_cpu` and `peak_vsize` are not packed.
    ProcStats: ProcStats<'a> = PROC_STATS {
        node: wire_type::String,
        proc: Proc,
        pid: Pid,
        cmd: wire_type::String,
        state: Byte,
        time: Timeval,
        priority: Int32,
        num_threads: ThreadCount,
        pss: Float,
        vsize: Float,
        rss: Float,
        processor: ThreadCount,
        sample_time: Timeval,
    }
}

structure! {
    /// `PMIX_NODE_STATS`. The statistics of disks and interfaces are unpacked, but not packed.
    NodeStats: NodeStats<'a> = NODE_STATS {
        node: wire_type::String,
        la: Float,
        la5: Float,
        la15: Float,
        total_mem: Float,
        free_mem: Float,
        buffers: Float,
        cached: Float,
        swap_cached: Float,
        swap_total: Float,
        swap_free: Float,
        mapped: Float,
        sample_time: Timeval,
        diskstats: Unsent<DiskStats>,
        netstats: Unsent<NetStats>,
    }
}

/// An unsigned number of 16 bits that is packed as a signed one.
enum ThreadCount {}

impl wire_type::sealed::Sealed for ThreadCount {}

impl WireType for ThreadCount {
    const TYPE: DataType = DataType::INT16;
    const MIN_LEN: usize = 1;
    type Item<'a> = u16;

    fn encode(encoder: &mut Encoder<'_>, item: &u16) -> Result<(), Error> {
        Int16::encode(encoder, &item.cast_signed())
    }

    fn decode(decoder: &mut Decoder<'_>, run: Run) -> Result<u16, Error> {
        Int16::decode(decoder, run).map(i16::cast_unsigned)
    }
}

/// A list that is unpacked, but not packed.
///
/// DEVIATION: releases with this type cannot unpack the lists of other releases or their own lists,
/// but all unpack an empty list; `lists_of_node_statistics_are_read_and_not_sent`.
struct Unsent<K>(PhantomData<K>);

impl<K> wire_type::sealed::Sealed for Unsent<K> {}

impl<K: WireType> WireType for Unsent<K> {
    const TYPE: DataType = K::TYPE;
    const MIN_LEN: usize = 1;
    type Item<'a> = Vec<K::Item<'a>>;

    fn encode(encoder: &mut Encoder<'_>, _: &Self::Item<'_>) -> Result<(), Error> {
        encoder.size(0)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, run: Run) -> Result<Self::Item<'a>, Error> {
        List::<Size, K>::decode(decoder, run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Module};

    #[test]
    fn lists_of_node_statistics_are_read_and_not_sent() {
        let disk = pmix_types::DiskStats {
            disk: Some("sda".into()),
            ..Default::default()
        };
        let stats = pmix_types::NodeStats {
            node: Some("n1".into()),
            diskstats: vec![disk.clone()],
            ..Default::default()
        };
        let layout = Layout::new(Module::V41);
        let mut out = Vec::new();
        Encoder::new(layout, &mut out)
            .one::<NodeStats>(&stats)
            .unwrap();
        assert!(out.ends_with(&[0, 0]));
        let back = Decoder::new(layout, &out).one::<NodeStats>().unwrap();
        assert_eq!((back.node, back.diskstats), (stats.node, Vec::new()));

        // One disk instead of none, and no interface.
        out.truncate(out.len() - 2);
        let mut packed = Vec::new();
        Encoder::new(layout, &mut packed)
            .one::<DiskStats>(&disk)
            .unwrap();
        out.push(1);
        out.extend_from_slice(&packed[1..]);
        out.push(0);
        let back = Decoder::new(layout, &out).one::<NodeStats>().unwrap();
        assert_eq!(back.diskstats, [disk]);
    }
}
