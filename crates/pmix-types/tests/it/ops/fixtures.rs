// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that `testdata/ops/compare.tsv` and `size.tsv` name.

use pmix_types::{
    AllocDirective, Bytes, Coord, CoordView, Cpuset, DataArray, DataRange, DataType,
    DeviceDistance, DeviceType, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags, IofChannel,
    JobState, LinkState, Locality, NetStats, NodeStats, Nspace, Persistence, Proc, ProcInfo,
    ProcState, ProcStats, Rank, Regattr, RegexBytes, Scope, Status, StorageAccessType,
    StorageAccessibility, StorageMedium, StoragePersistence, Text, Timeval, Topology, Value,
};

use super::infos::number;

fn text(text: &'static str) -> Option<Text<'static>> {
    Some(text.into())
}

fn bytes(bytes: &'static [u8]) -> Bytes<'static> {
    Bytes::Borrowed(bytes)
}

fn proc(nspace: &'static str, rank: u32) -> Proc<'static> {
    Proc::new(nspace, Rank::new(rank))
}

fn coord(view: u8, coord: &[u32]) -> Coord {
    Coord {
        view: CoordView::from_raw(view),
        coord: coord.to_vec(),
    }
}

fn strings(rest: &str) -> Value<'static> {
    Value::String(match rest {
        "null" => None,
        "empty" => text(""),
        "xff" => Some(Text::new(&b"\xff"[..])),
        "a" => text("a"),
        "ab" => text("ab"),
        "b" => text("b"),
        other => panic!("{other}"),
    })
}

fn byte_object(rest: &str) -> Value<'static> {
    Value::ByteObject(bytes(match rest {
        "empty" => b"",
        "b" => b"b",
        "aa" => b"aa",
        "a0" => b"a\0",
        other => panic!("{other}"),
    }))
}

fn proc_info(rest: &str) -> Value<'static> {
    let mut info = ProcInfo {
        proc: proc("a", 1),
        hostname: text("n1"),
        executable_name: text("x"),
        pid: 10,
        exit_code: 0,
        state: ProcState::from_raw(1),
    };
    match rest {
        "full" => {}
        "state" => info.state = ProcState::from_raw(2),
        "code" => info.exit_code = 3,
        "pid" => info.pid = 11,
        "host" => info.hostname = text("n2"),
        "rank" => info.proc = proc("a", 256),
        other => panic!("{other}"),
    }
    info.into()
}

fn envar(rest: &str) -> Value<'static> {
    let of = |value, separator| Envar {
        envar: text("PATH"),
        value,
        separator,
    };
    Value::from(match rest {
        "null" => Envar::default(),
        "colon" => of(text("/bin"), b':'),
        "comma" => of(text("/bin"), b','),
        "value" => of(text("/usr"), b':'),
        "novalue" => of(None, b':'),
        other => panic!("{other}"),
    })
}

fn regattr(rest: &str) -> Value<'static> {
    let of = |name, string: &'static str, data_type, lines: &[&'static str]| Regattr {
        name: text(name),
        string: string.into(),
        data_type,
        description: lines.iter().map(|line| Text::from(*line)).collect(),
    };
    Value::from(match rest {
        "null" => Regattr::default(),
        "a" => of("A", "pmix.a", DataType::STRING, &[]),
        "a.type" => of("A", "pmix.a", DataType::SIZE, &[]),
        "a.lines" => of("A", "pmix.a", DataType::STRING, &["one", "two"]),
        "b" => of("B", "pmix.a", DataType::STRING, &["one"]),
        other => panic!("{other}"),
    })
}

fn geometry(rest: &str) -> Value<'static> {
    let of = |fabric, uuid, view, n| Geometry {
        fabric,
        uuid: text(uuid),
        osname: text("o"),
        coordinates: vec![coord(view, &[1, 2]); n],
    };
    Value::from(match rest {
        "none" => Geometry {
            fabric: 1,
            ..Geometry::default()
        },
        "1" => of(1, "u", 1, 1),
        "2" => of(1, "u", 1, 2),
        "uuid" => of(1, "v", 1, 1),
        "fabric" => of(2, "u", 1, 1),
        "view" => of(1, "u", 2, 1),
        other => panic!("{other}"),
    })
}

fn distance(rest: &str) -> Value<'static> {
    let of = |name: Option<_>, device_type, mindist, maxdist| DeviceDistance {
        uuid: name.and_then(|_: ()| text("u")),
        osname: name.and_then(|()| text("o")),
        device_type: DeviceType::from_raw(device_type),
        mindist,
        maxdist,
    };
    Value::from(match rest {
        "null" => of(None, 4, 1, 2),
        "1" => of(Some(()), 4, 1, 2),
        "min" => of(Some(()), 4, 256, 2),
        "max" => of(Some(()), 4, 1, 3),
        "type" => of(Some(()), 8, 1, 2),
        other => panic!("{other}"),
    })
}

fn endpoint(rest: &str) -> Value<'static> {
    let of = |osname, endpt| Endpoint {
        uuid: text("u"),
        osname: text(osname),
        endpt: bytes(endpt),
    };
    Value::from(match rest {
        "null" => Endpoint::default(),
        "1" => of("o", b"ab"),
        "2" => of("o", b"abc"),
        "os" => of("p", b"ab"),
        other => panic!("{other}"),
    })
}

fn proc_stats(rest: &str) -> Value<'static> {
    let of = |percent_cpu, tv_sec| ProcStats {
        node: text("n1"),
        proc: proc("a", 1),
        cmd: text("x"),
        state: b'R',
        percent_cpu,
        sample_time: Timeval { tv_sec, tv_usec: 0 },
        ..ProcStats::default()
    };
    Value::from(match rest {
        "null" => ProcStats {
            proc: proc("a", 1),
            state: b'R',
            ..ProcStats::default()
        },
        "1" => of(1.5, 1),
        "cpu" => of(-1.0, 1),
        "time" => of(1.5, 256),
        other => panic!("{other}"),
    })
}

fn disk_stats(rest: &str) -> Value<'static> {
    let of = |disk, num_reads_completed, weighted_milliseconds_io| DiskStats {
        disk,
        num_reads_completed,
        weighted_milliseconds_io,
        ..DiskStats::default()
    };
    Value::from(match rest {
        "null" => of(None, 0, 0),
        "1" => of(text("sda"), 1, 0),
        "256" => of(text("sda"), 256, 0),
        "last" => of(text("sda"), 1, 7),
        "b" => of(text("sdb"), 0, 0),
        other => panic!("{other}"),
    })
}

fn net_stats(rest: &str) -> Value<'static> {
    let of = |num_send_errs| NetStats {
        net_interface: text("eth0"),
        num_bytes_recvd: 1,
        num_send_errs,
        ..NetStats::default()
    };
    Value::from(match rest {
        "null" => NetStats::default(),
        "1" => of(0),
        "last" => of(9),
        other => panic!("{other}"),
    })
}

fn node_stats(rest: &str) -> Value<'static> {
    let disk = DiskStats {
        disk: text("sda"),
        ..DiskStats::default()
    };
    let net = NetStats {
        net_interface: text("eth0"),
        ..NetStats::default()
    };
    let of = |la, disks, nets| NodeStats {
        node: text("n1"),
        la,
        diskstats: vec![disk.clone(); disks],
        netstats: vec![net.clone(); nets],
        ..NodeStats::default()
    };
    Value::from(match rest {
        "null" => NodeStats::default(),
        "none" => of(1.0, 0, 0),
        "1.1" => of(1.0, 1, 1),
        "2.1" => of(1.0, 2, 1),
        "la" => of(2.0, 1, 1),
        other => panic!("{other}"),
    })
}

fn array(rest: &str) -> DataArray<'static> {
    let infos = |key: &'static str, value: Value<'static>| {
        DataArray::Info(vec![Info::new("k1", 1u32), Info::new(key, value)])
    };
    match rest {
        "uint32.empty" => DataArray::Uint32(vec![]),
        "uint32.1.256" => DataArray::Uint32(vec![1, 256]),
        "uint32.256.1" => DataArray::Uint32(vec![256, 1]),
        "uint32.7" => DataArray::Uint32(vec![7]),
        "byte.1.2" => DataArray::Byte(vec![1, 2]),
        "bool.1.0" => DataArray::Bool(vec![true, false]),
        "string.ab.null" => DataArray::String(vec![text("ab"), None]),
        "proc.2" => DataArray::Proc(vec![proc("a", 1), proc("a", 2)]),
        "proc.256" => DataArray::Proc(vec![proc("a", 1), proc("a", 256)]),
        "bo" => DataArray::ByteObject(vec![bytes(b"ab"), bytes(b"")]),
        "info" => infos("k2", "v".into()),
        "info.key" => infos("k3", "v".into()),
        "info.type" => infos("k2", true.into()),
        "envar" => DataArray::Envar(vec![Envar {
            envar: text("A"),
            value: text("b"),
            separator: 0,
        }]),
        "coord" => DataArray::Coord(vec![coord(1, &[1, 2])]),
        "pinfo" => DataArray::ProcInfo(vec![ProcInfo {
            proc: proc("a", 1),
            hostname: text("n1"),
            executable_name: text("x"),
            ..ProcInfo::default()
        }]),
        "uint16" => DataArray::Uint16(vec![0; 3]),
        "double" => DataArray::Double(vec![0.0; 2]),
        "rank" => DataArray::Rank(vec![Rank::new(0); 2]),
        "timeval" => DataArray::Timeval(vec![Timeval::default(); 2]),
        "nspace" => DataArray::Nspace(vec![Nspace::default(), Nspace::default()]),
        "cstr" => DataArray::CompressedString(vec![bytes(b"\x04\0\0\0z")]),
        other => panic!("{other}"),
    }
}

/// Returns the value with a name such as `uint32.256`.
pub(crate) fn fixture(name: &str) -> Value<'static> {
    let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
    match kind {
        "undef" => Value::Undef,
        "bool" => Value::Bool(rest == "true"),
        "byte" => Value::Byte(number(rest)),
        "string" => strings(rest),
        "size" => Value::Size(number(rest)),
        "pid" => Value::Pid(number(rest)),
        "int" => Value::Int(number(rest)),
        "int8" => Value::Int8(number(rest)),
        "int16" => Value::Int16(number(rest)),
        "int32" => Value::Int32(number(rest)),
        "int64" => Value::Int64(number(rest)),
        "uint" => Value::Uint(number(rest)),
        "uint8" => Value::Uint8(number(rest)),
        "uint16" => Value::Uint16(number(rest)),
        "uint32" => Value::Uint32(number(rest)),
        "uint64" => Value::Uint64(number(rest)),
        "float" => Value::Float(number(rest)),
        "double" => Value::Double(number(rest)),
        "timeval" => {
            let (sec, usec) = rest.split_once('.').unwrap();
            Value::Timeval(Timeval {
                tv_sec: number(sec),
                tv_usec: number(usec),
            })
        }
        "time" => Value::Time(number(rest)),
        "status" => Value::Status(Status::from_raw(number(rest))),
        "proc" => match rest {
            "a.1" => proc("a", 1).into(),
            "a.256" => proc("a", 256).into(),
            "ab.0" => proc("ab", 0).into(),
            "b.0" => proc("b", 0).into(),
            other => panic!("{other}"),
        },
        "bo" => byte_object(rest),
        "pinfo" => proc_info(rest),
        "rank" => Value::Rank(Rank::new(number(rest))),
        "envar" => envar(rest),
        "coord" => Value::Coord(match rest {
            "none" => coord(1, &[]),
            "1.256" => coord(1, &[1, 256]),
            "256.1" => coord(1, &[256, 1]),
            "view2" => coord(2, &[1, 256]),
            other => panic!("{other}"),
        }),
        "regattr" => regattr(rest),
        "regex" => Value::Regex(RegexBytes(bytes(b"raw:a\0"))),
        "geo" => geometry(rest),
        "dist" => distance(rest),
        "endp" => endpoint(rest),
        "cbo" => Value::CompressedByteObject(bytes(b"\x04\0\0\0zz")),
        "cstr" => Value::CompressedString(bytes(if rest == "4" {
            b"\x04\0\0\0zz"
        } else {
            b"\x04\0"
        })),
        "nspace" => Value::Nspace(Nspace::from(if rest == "a" { "a" } else { "ab" })),
        "pstats" => proc_stats(rest),
        "disk" => disk_stats(rest),
        "net" => net_stats(rest),
        "nstats" => node_stats(rest),
        "dbuf" => Value::DataBuffer(bytes(match rest {
            "empty" => b"",
            "b" => b"b",
            _ => b"aa",
        })),
        "topo" => Value::from(Topology {
            source: match rest {
                "hwloc" => text("hwloc"),
                "other" => text("other"),
                _ => None,
            },
            ..Topology::default()
        }),
        "array" => array(rest).into(),
        _ => of_number(kind, rest),
    }
}

fn of_number(kind: &str, rest: &str) -> Value<'static> {
    match kind {
        "persist" => Persistence::from_raw(number(rest)).into(),
        "scope" => Scope::from_raw(number(rest)).into(),
        "range" => DataRange::from_raw(number(rest)).into(),
        "state" => ProcState::from_raw(number(rest)).into(),
        "adir" => AllocDirective::from_raw(number(rest)).into(),
        "jobstate" => JobState::from_raw(number(rest)).into(),
        "linkstate" => LinkState::from_raw(number(rest)).into(),
        "devtype" => DeviceType::from_raw(number(rest)).into(),
        "locality" => Locality::from_raw(number(rest)).into(),
        "medium" => StorageMedium::from_raw(number(rest)).into(),
        "access" => StorageAccessibility::from_raw(number(rest)).into(),
        "storpersist" => StoragePersistence::from_raw(number(rest)).into(),
        "accesstype" => StorageAccessType::from_raw(number(rest)).into(),
        "flags" => InfoFlags::from_raw(number(rest)).into(),
        "datatype" => DataType::from_raw(number(rest)).into(),
        "iof" => IofChannel::from_raw(number(rest)).into(),
        other => panic!("{other}"),
    }
}

/// Returns a cpuset with a source and a bitmap, for tests beyond the tables.
pub(crate) fn cpuset(source: Option<&'static str>, bitmap: Option<&'static str>) -> Value<'static> {
    Value::from(Cpuset {
        source: source.map(Text::from),
        bitmap: bitmap.map(Text::from),
    })
}
