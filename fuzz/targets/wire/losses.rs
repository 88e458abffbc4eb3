// SPDX-License-Identifier: MIT OR Apache-2.0
//! Information that the wire format loses: data are changed to the form in which a peer reads them.

use bfrops::{Layout, Module};
use pmix_types::{DataArray, DataType, Info, InfoFlags, Proc, Rank, Text, Topology, Value};

/// Properties of the data that were found on the way.
#[derive(Debug)]
pub(crate) struct Losses {
    module: Module,
    /// `true` if the module has every type in every place.
    pub(crate) known: bool,
    /// `true` if there is an encoded map, which its encoder may refuse.
    pub(crate) maps: bool,
    /// `true` if there is a topology of v61, whose end depends on the following bytes.
    pub(crate) open_end: bool,
}

impl Losses {
    /// Changes data to the form in which a peer with this layout reads them.
    pub(crate) fn of(layout: Layout, array: &mut DataArray<'_>) -> Self {
        let mut losses = Self {
            module: layout.module,
            known: true,
            maps: false,
            open_end: false,
        };
        losses.array(array);
        losses
    }

    fn meet(&mut self, data_type: DataType) {
        let known = data_type == DataType::UNDEF || self.module.registers(data_type);
        // The first releases support most types in some places only.
        self.known &= known && self.module > Module::V20;
    }

    fn array(&mut self, array: &mut DataArray<'_>) {
        self.meet(array.data_type());
        match array {
            DataArray::Untyped {
                data_type: DataType::UNDEF,
                len,
            } if self.module >= Module::V51 => *len = 0,
            DataArray::Float(items) => items.iter_mut().for_each(float),
            DataArray::Double(items) => items.iter_mut().for_each(double),
            DataArray::Value(items) => items.iter_mut().for_each(|item| self.value(item)),
            DataArray::Proc(items) => items.iter_mut().for_each(|item| self.proc(item)),
            DataArray::Info(items) => self.infos(items),
            DataArray::Kval(items) => items
                .iter_mut()
                .for_each(|item| self.value(&mut item.value)),
            DataArray::Pdata(items) => items.iter_mut().for_each(|item| {
                self.proc(&mut item.proc);
                self.value(&mut item.value);
            }),
            DataArray::Query(items) => items
                .iter_mut()
                .for_each(|item| self.infos(&mut item.qualifiers)),
            DataArray::App(items) => items.iter_mut().for_each(|item| {
                if self.module == Module::V12 {
                    item.cwd = None;
                }
                self.infos(&mut item.info);
            }),
            DataArray::ProcInfo(items) => items.iter_mut().for_each(|item| item.exit_code = 0),
            DataArray::DataArray(items) => items.iter_mut().for_each(|item| self.array(item)),
            DataArray::Regex(items) => self.maps |= !items.is_empty(),
            DataArray::Cpuset(items) => items.iter_mut().for_each(cpuset),
            DataArray::Topology(items) => items.iter_mut().for_each(|item| self.topology(item)),
            DataArray::ProcStats(items) => items.iter_mut().for_each(proc_stats),
            DataArray::NodeStats(items) => items.iter_mut().for_each(node_stats),
            _ => {}
        }
    }

    fn value(&mut self, value: &mut Value<'_>) {
        self.meet(value.data_type());
        match value {
            Value::Float(item) => float(item),
            Value::Double(item) => double(item),
            Value::ProcInfo(item) => item.exit_code = 0,
            Value::DataArray(item) => self.array(item),
            Value::Regex(_) => self.maps = true,
            Value::Cpuset(item) => cpuset(item),
            Value::Topology(item) => self.topology(item),
            Value::ProcStats(item) => proc_stats(item),
            Value::NodeStats(item) => node_stats(item),
            // v12 packs a rank in a value as an ordinary number.
            Value::Rank(rank) if self.module == Module::V12 => {
                *value = Value::Int(rank.as_raw().cast_signed());
            }
            _ => {}
        }
    }

    fn infos(&mut self, infos: &mut [Info<'_>]) {
        for info in infos {
            if self.module == Module::V12 {
                info.flags = InfoFlags::default();
            }
            self.value(&mut info.value);
        }
    }

    /// Replaces special ranks: those of v12 differ, so two numbers are read as these.
    fn proc(&self, proc: &mut Proc<'_>) {
        if self.module == Module::V12 {
            proc.rank = match proc.rank.as_raw() {
                0x7fff_ffff => Rank::UNDEF,
                0x7fff_fffe => Rank::WILDCARD,
                _ => proc.rank,
            };
        }
    }

    fn topology(&mut self, topology: &mut Topology<'_>) {
        topology.source = topology.topology.as_ref().map(|_| hwloc());
        if topology.topology.is_none() {
            topology.support = None;
        } else if self.module < Module::V61 {
            topology.support.get_or_insert_with(|| vec![0; 32].into());
        }
        self.open_end |= topology.topology.is_some() && topology.support.is_none();
    }
}

fn hwloc() -> Text<'static> {
    "hwloc".into()
}

fn cpuset(cpuset: &mut pmix_types::Cpuset<'_>) {
    cpuset.source = Some(hwloc());
}

fn proc_stats(stats: &mut pmix_types::ProcStats<'_>) {
    (stats.percent_cpu, stats.peak_vsize) = (0.0, 0.0);
    [&mut stats.pss, &mut stats.vsize, &mut stats.rss]
        .into_iter()
        .for_each(float);
}

fn node_stats(stats: &mut pmix_types::NodeStats<'_>) {
    stats.diskstats.clear();
    stats.netstats.clear();
    [
        &mut stats.la,
        &mut stats.la5,
        &mut stats.la15,
        &mut stats.total_mem,
        &mut stats.free_mem,
        &mut stats.buffers,
        &mut stats.cached,
        &mut stats.swap_cached,
        &mut stats.swap_total,
        &mut stats.swap_free,
        &mut stats.mapped,
    ]
    .into_iter()
    .for_each(float);
}

/// Rounds a number: six decimals are packed, or all digits if six would give zero.
macro_rules! floats {
    ($($name:ident: $type:ty;)*) => {
        $(fn $name(number: &mut $type) {
            if number.is_nan() {
                // NaN differs from itself, so it is replaced by any other number.
                *number = <$type>::MAX;
            } else if number.abs() >= 1e-6 {
                *number = format!("{number:.6}").parse().expect("a number");
            }
        })*
    };
}

floats! {
    float: f32;
    double: f64;
}
