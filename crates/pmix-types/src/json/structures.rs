// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures: objects whose members have the names of the C fields, in alphabetical order.

use serde::ser::{SerializeStruct, Serializer};

use super::form::{As, Form, Object};
use super::node::Node;
use super::number::Measure;
use super::path::{At, Fault};
use super::text::Digits;
use crate::DataType;

/// Implements `Form` for structures. It lists the members, each with its field if the name differs.
/// With `via`, the form of another type replaces the form of the field. A member with `if some` is
/// omitted if it is `None`.
macro_rules! structures {
    ($($type:ty as $data_type:ident {
        $($json:literal: $field:ident $(if $some:ident)? $(via $via:ty)?,)*
    })*) => {
        $(impl Form for $type {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let len = [$($json),*].len();
                let mut object = serializer.serialize_struct(stringify!($data_type), len)?;
                $(structures!(@write object, $json, self.$field $(, if $some)? $(, $via)?);)*
                object.end()
            }

            fn read(node: Node<'_>, at: &At<'_>) -> Result<Self, Fault> {
                let at = at.of(DataType::$data_type);
                let mut object = Object::new(node, &at, &[$($json),*])?;
                Ok(Self { $($field: structures!(@read object, $json $(, $via)?),)* })
            }
        })*
    };
    (@write $object:ident, $json:literal, $field:expr) => {
        $object.serialize_field($json, &As(&$field))?
    };
    (@write $object:ident, $json:literal, $field:expr, if some) => {
        match &$field {
            Some(datum) => $object.serialize_field($json, &As(datum))?,
            None => $object.skip_field($json)?,
        }
    };
    (@write $object:ident, $json:literal, $field:expr, $via:ty) => {
        $object.serialize_field($json, &As(&<$via>::from(&$field)))?
    };
    (@read $object:ident, $json:literal) => { $object.member($json)? };
    (@read $object:ident, $json:literal, $via:ty) => {
        $object.member::<$via>($json)?.into()
    };
}

structures! {
    crate::Timeval as TIMEVAL {
        "tv_sec": tv_sec,
        "tv_usec": tv_usec,
    }
    crate::Proc<'_> as PROC {
        "nspace": nspace,
        "rank": rank,
    }
    crate::ProcInfo<'_> as PROC_INFO {
        "executable_name": executable_name,
        "exit_code": exit_code,
        "hostname": hostname,
        "pid": pid,
        "proc": proc,
        "state": state,
    }
    crate::NodePid<'_> as NODE_PID {
        "hostname": hostname,
        "nodeid": nodeid,
        "pid": pid,
    }
    crate::Envar<'_> as ENVAR {
        "envar": envar,
        "separator": separator,
        "value": value,
    }
    crate::Endpoint<'_> as ENDPOINT {
        "endpt": endpt via Digits<'_>,
        "osname": osname,
        "uuid": uuid,
    }
    crate::Query<'_> as QUERY {
        "keys": keys,
        "qualifiers": qualifiers,
    }
    crate::App<'_> as APP {
        "argv": argv,
        "cmd": cmd,
        "cwd": cwd,
        "env": env,
        "info": info,
        "maxprocs": maxprocs,
    }
    crate::Regattr<'_> as REGATTR {
        "description": description,
        "name": name,
        "string": string,
        "type": data_type,
    }
    crate::WireRegex2<'_> as REGEX2 {
        "hex": bytes via Digits<'_>,
        "type": kind,
    }
    crate::Coord as COORD {
        "coord": coord,
        "view": view,
    }
    crate::Geometry<'_> as GEOMETRY {
        "coordinates": coordinates,
        "fabric": fabric,
        "osname": osname,
        "uuid": uuid,
    }
    crate::DeviceDistance<'_> as DEVICE_DIST {
        "maxdist": maxdist,
        "mindist": mindist,
        "osname": osname,
        "type": device_type,
        "uuid": uuid,
    }
    crate::Device<'_> as DEVICE {
        "osname": osname,
        "type": device_type,
        "uuid": uuid,
    }
    crate::ResourceUnit as RESOURCE_UNIT {
        "count": count,
        "type": device_type,
    }
    crate::Cpuset<'_> as PROC_CPUSET {
        "bitmap": bitmap,
        "source": source,
    }
    crate::Topology<'_> as TOPO {
        "source": source,
        "support": support if some,
        "topology": topology,
    }
    crate::ProcStats<'_> as PROC_STATS {
        "cmd": cmd,
        "node": node,
        "num_threads": num_threads,
        "peak_vsize": peak_vsize via Measure,
        "percent_cpu": percent_cpu via Measure,
        "pid": pid,
        "priority": priority,
        "proc": proc,
        "processor": processor,
        "pss": pss via Measure,
        "rss": rss via Measure,
        "sample_time": sample_time,
        "state": state,
        "time": time,
        "vsize": vsize via Measure,
    }
    crate::DiskStats<'_> as DISK_STATS {
        "disk": disk,
        "milliseconds_io": milliseconds_io,
        "milliseconds_reading": milliseconds_reading,
        "milliseconds_writing": milliseconds_writing,
        "num_ios_in_progress": num_ios_in_progress,
        "num_reads_completed": num_reads_completed,
        "num_reads_merged": num_reads_merged,
        "num_sectors_read": num_sectors_read,
        "num_sectors_written": num_sectors_written,
        "num_writes_completed": num_writes_completed,
        "num_writes_merged": num_writes_merged,
        "weighted_milliseconds_io": weighted_milliseconds_io,
    }
    crate::NetStats<'_> as NET_STATS {
        "net_interface": net_interface,
        "num_bytes_recvd": num_bytes_recvd,
        "num_bytes_sent": num_bytes_sent,
        "num_packets_recvd": num_packets_recvd,
        "num_packets_sent": num_packets_sent,
        "num_recv_errs": num_recv_errs,
        "num_send_errs": num_send_errs,
    }
    crate::NodeStats<'_> as NODE_STATS {
        "buffers": buffers via Measure,
        "cached": cached via Measure,
        "diskstats": diskstats,
        "free_mem": free_mem via Measure,
        "la": la via Measure,
        "la15": la15 via Measure,
        "la5": la5 via Measure,
        "mapped": mapped via Measure,
        "netstats": netstats,
        "node": node,
        "sample_time": sample_time,
        "swap_cached": swap_cached via Measure,
        "swap_free": swap_free via Measure,
        "swap_total": swap_total via Measure,
        "total_mem": total_mem via Measure,
    }
}
