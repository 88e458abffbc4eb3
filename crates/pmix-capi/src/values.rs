// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values, infos and published data (`PMIx_Value_...`, `PMIx_Info_...`, `PMIx_Pdata_...`).

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use pmix_types::{
    DataArray, DataType, Info, InfoFlags, RegexBytes, Status, Topology, Truth, Value,
    ValueComparison,
};

use crate::abi::*;
use crate::args::Address as _;
use crate::args::{self, Array, CallScope, Const, Held, In, Maybe, Mut, Out, Pair, Place, Pointer};
use crate::datum::{self, duplicate_one, load_value};
use crate::guard::exported;
use crate::memory::{self, Result, fill};
use crate::model::Model;
use crate::record::Record;
use crate::regex;
use crate::valid::Valid;

/// A datum of a C program, by a pointer as `PMIx_Value_load` takes it, and its type.
///
/// Invariant: the pointer is NULL or leads to a datum of the type as long as `'c`. For a string, a pointer or a map
/// (`PMIX_REGEX`), the pointer is the datum itself.
#[derive(Clone, Copy)]
pub(crate) struct GivenDatum<'c> {
    at: *const c_void,
    of: DataType,
    life: PhantomData<&'c ()>,
}

impl GivenDatum<'_> {
    /// States that there is a datum of a type at `at`.
    ///
    /// # Safety
    /// The invariant of [`GivenDatum`] holds.
    pub(crate) const unsafe fn new(at: *const c_void, of: DataType) -> Self {
        let life = PhantomData;
        Self { at, of, life }
    }

    /// Returns a C value with a copy of the datum.
    pub(crate) fn load(self) -> Result<pmix_value_t> {
        let mut value = pmix_value_t::initial();
        value.r#type = self.of.as_raw();
        match self.of {
            DataType::UNDEF => {}
            // A Boolean attribute without a value means `true`.
            DataType::BOOL if self.at.is_null() => value.data.flag = 1,
            // SAFETY: the invariant of `GivenDatum`: a string or NULL.
            DataType::STRING => value.data.string = unsafe { memory::duplicate(self.at.cast())? },
            DataType::POINTER => value.data.ptr = self.at.cast_mut(),
            DataType::REGEX if !self.at.is_null() => {
                // SAFETY: the invariant of `GivenDatum`: a map, and it is not NULL.
                let map = unsafe { regex::map_at(self.at.cast())? };
                value.data.bo = regex::object(&RegexBytes(map.into()))?;
            }
            // SAFETY: the invariant of `GivenDatum`.
            _ => return unsafe { load_value(self.of, self.at) },
        }
        Ok(value)
    }

    /// Returns a copy of the datum in memory of its own, whose pointer is again as `PMIx_Value_load` takes it.
    pub(crate) fn duplicate(self) -> Result<*mut c_void> {
        let known = datum::ops(self.of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        if self.at.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: the invariant of `GivenDatum`; the pointer is not NULL.
        unsafe {
            match self.of {
                DataType::STRING => Ok(memory::duplicate(self.at.cast())?.cast()),
                DataType::REGEX => Ok(regex::duplicate(self.at.cast())?.cast()),
                _ => duplicate_one(&known, self.at),
            }
        }
    }

    /// Converts the datum to an array of the model with one element, or none for NULL.
    pub(crate) fn to_array(self) -> Result<DataArray<'static>> {
        // The element of an array of strings or maps is a pointer to the text.
        let mut text = self.at.cast_mut();
        let at = match self.of {
            DataType::STRING | DataType::REGEX => ptr::from_mut(&mut text).cast(),
            _ => text,
        };
        let array = pmix_data_array_t {
            r#type: self.of.as_raw(),
            size: usize::from(!self.at.is_null()),
            array: at,
        };
        // SAFETY: the invariant of `GivenDatum`.
        DataArray::from_c(unsafe { Valid::new(&array) })
    }

    /// Returns the source of a topology, because only its library can read more of it. Returns `None` for other types.
    pub(crate) fn topology_source(self) -> Option<Result<DataArray<'static>>> {
        (self.of == DataType::TOPO).then(|| {
            // SAFETY: the invariant of `GivenDatum`: NULL or a topology, whose source is NULL or a string.
            let topology = unsafe { self.at.cast::<pmix_topology_t>().as_ref() };
            // SAFETY: `GivenDatum` promises a source that is NULL or a string, for as long as the topology is borrowed.
            let source = topology.map(|topology| unsafe { memory::read_text(topology.source) });
            let shown = source.transpose()?.map(|source| Topology {
                source,
                ..Topology::default()
            });
            Ok(DataArray::Topology(shown.into_iter().collect()))
        })
    }
}

/// A datum, by a pointer as `PMIx_Value_load` takes it, and its type.
pub(crate) struct Datum<K = Const>(PhantomData<K>);

impl<K: Pointer> Pair for Datum<K> {
    type First = K::To<c_void>;
    type Second = pmix_data_type_t;
    type Given<'c> = GivenDatum<'c>;

    unsafe fn take(
        first: K::To<c_void>,
        second: pmix_data_type_t,
        _: &CallScope,
    ) -> Result<GivenDatum<'_>> {
        // SAFETY: the header requires NULL or a datum of the type.
        Ok(unsafe { GivenDatum::new(first.address(), DataType::from_raw(second)) })
    }
}

/// The place of the result of `PMIx_Value_unload`.
enum Unloaded {
    /// New memory, or a pointer, with its size.
    New(*mut c_void, usize),
    /// A copy in the memory of the caller.
    Copied(usize),
}

/// Copies the datum of a value to new memory, or to the memory of the caller at `room`.
///
/// # Safety
/// `room` is NULL or has room for the datum, if the value stores it inline or it is the name of a process or job. For
/// other values it may be uninitialized.
unsafe fn unload(
    value: Valid<'_, pmix_value_t>,
    room: &Place<'_, *mut c_void>,
) -> Result<Unloaded> {
    let of = DataType::from_raw(value.r#type);
    let known = datum::ops_in_value(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    let union = ptr::from_ref(&value.data).cast::<c_void>();
    // SAFETY: the value is `Valid`, so its type names the member of its union, and the caller guarantees the room.
    unsafe {
        let copy = |from: *const c_void| {
            ptr::copy_nonoverlapping(from.cast::<u8>(), room.read().cast(), known.size);
            Unloaded::Copied(known.size)
        };
        let duplicate = |from| Ok(Unloaded::New(duplicate_one(&known, from)?, known.size));
        match of {
            DataType::STRING => {
                let len = memory::text(value.data.string).map_or(0, <[u8]>::len);
                let text = memory::duplicate(value.data.string)?;
                Ok(Unloaded::New(text.cast(), len))
            }
            DataType::POINTER => Ok(Unloaded::New(value.data.ptr, known.size)),
            // The map in the form that `PMIx_Value_load` takes.
            DataType::REGEX => {
                let copy = value.duplicate()?.data.bo;
                Ok(Unloaded::New(copy.bytes.cast(), copy.size))
            }
            DataType::BYTE_OBJECT
            | DataType::COMPRESSED_STRING
            | DataType::COMPRESSED_BYTE_OBJECT => {
                match value.data.bo.bytes.is_null() || value.data.bo.size == 0 {
                    true => Ok(Unloaded::New(ptr::null_mut(), 0)),
                    false => duplicate(union),
                }
            }
            DataType::ENVAR => duplicate(union),
            _ if known.place == datum::Storage::Inline => match room.read().is_null() {
                true => Err(Status::ERR_BAD_PARAM),
                false => Ok(copy(union)),
            },
            _ if value.data.ptr.is_null() => Ok(Unloaded::New(ptr::null_mut(), 0)),
            // The name of a process or of a job is copied to the memory of the caller if there is any.
            DataType::PROC | DataType::PROC_NSPACE if !room.read().is_null() => {
                Ok(copy(value.data.ptr))
            }
            _ => duplicate(value.data.ptr),
        }
    }
}

/// Compares two pointers or two topologies by their addresses, which the model does not contain. Returns `None` for
/// other types.
fn compare_addresses(
    first: Valid<'_, pmix_value_t>,
    second: Valid<'_, pmix_value_t>,
) -> Option<ValueComparison> {
    if first.r#type != second.r#type {
        return None;
    }
    // SAFETY: the type of the valid value names the member of the union, and a topology is NULL or valid.
    let address = |value: Valid<'_, pmix_value_t>| unsafe {
        match DataType::from_raw(value.r#type) {
            DataType::POINTER => Some(value.data.ptr.addr()),
            DataType::TOPO => value.data.topo.as_ref().map(|topo| topo.topology.addr()),
            _ => None,
        }
    };
    let order = address(first)?.cmp(&address(second)?);
    Some(match order {
        std::cmp::Ordering::Less => ValueComparison::SecondGreater,
        std::cmp::Ordering::Equal => ValueComparison::Equal,
        std::cmp::Ordering::Greater => ValueComparison::FirstGreater,
    })
}

/// Returns the truth of a datum; NULL is false.
fn truth<M: Model>(datum: Option<Valid<'_, M::C>>, truth: impl FnOnce(M) -> Truth) -> Result<u32> {
    Ok(match datum.map(M::from_c) {
        None => Truth::False,
        Some(Ok(datum)) => truth(datum),
        Some(Err(_)) => Truth::NonBool,
    }
    .as_raw())
}

/// Returns the number in a value as a C value of another type, and its size.
fn number(value: Value<'_>, of: DataType) -> Result<(pmix_value_t, usize)> {
    let number = value.convert(of).map_err(|error| error.status())?;
    let known = datum::ops(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    Ok((number.to_c()?, known.size))
}

exported! {
    fn PMIx_Value_load(val: Out<pmix_value_t>, (data, r#type): Datum) -> pmix_status_t {
        val.fill(|| data.load())
    }

    fn PMIx_Value_unload(val: In<pmix_value_t, Mut>, data: Out<*mut c_void>, sz: Out<usize>) -> pmix_status_t {
        // SAFETY: the header requires `*data` to be NULL or to have room for an inline datum.
        match unsafe { unload(val, &data)? } {
            Unloaded::Copied(size) => sz.write(size),
            Unloaded::New(at, size) => {
                data.write(at);
                sz.write(size);
            }
        }
        Ok(())
    }

    fn PMIx_Value_xfer(dest: Out<pmix_value_t>, src: In<pmix_value_t>) -> pmix_status_t {
        dest.fill(|| src.duplicate())
    }

    fn PMIx_Value_compare(v1: Maybe<In<pmix_value_t, Mut>>, v2: Maybe<In<pmix_value_t, Mut>>) -> pmix_value_cmp_t {
        let (Some(first), Some(second)) = (v1, v2) else {
            return Ok(ValueComparison::NotAvailable.as_raw());
        };
        if let Some(order) = compare_addresses(first, second) {
            return Ok(order.as_raw());
        }
        Ok(match (Value::from_c(first), Value::from_c(second)) {
            (Ok(first), Ok(second)) => first.compare(&second),
            _ => ValueComparison::NotAvailable,
        }.as_raw())
    }

    fn PMIx_Value_get_number(value: args::Value, dest: *mut c_void, r#type: DataType) -> pmix_status_t {
        let (made, size) = number(value, r#type)?;
        if dest.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        // SAFETY: the header requires room at `dest` for a number of the type, which `made` stores inline.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&made.data).cast::<u8>(), dest.cast(), size) };
        Ok(())
    }

    fn PMIx_Value_get_size(val: args::Value, size: Out<usize>) -> pmix_status_t {
        size.fill(|| val.storage_size().map_err(|error| error.status()))
    }

    fn PMIx_Value_true(v: Maybe<In<pmix_value_t>>) -> pmix_boolean_t {
        truth(v, |value: Value<'static>| value.truth())
    }

    fn PMIx_Info_load(info: Out<pmix_info_t>, key: Maybe<Array<512>>, (data, r#type): Datum) -> pmix_status_t {
        // The old content may be uninitialized and is not freed. The info is valid even if the function fails.
        let mut loaded = pmix_info_t::initial();
        info.write(loaded);
        fill(&mut loaded.key, key.ok_or(Status::ERR_BAD_PARAM)?);
        info.write(loaded);
        loaded.value = data.load()?;
        info.write(loaded);
        Ok(())
    }

    fn PMIx_Info_xfer(dest: Out<pmix_info_t>, src: In<pmix_info_t>) -> pmix_status_t {
        dest.fill(|| src.duplicate())
    }

    fn PMIx_Info_get_size(val: args::Info, size: Out<usize>) -> pmix_status_t {
        size.fill(|| val.storage_size().map_err(|error| error.status()))
    }

    fn PMIx_Info_true(p: Maybe<In<pmix_info_t>>) -> pmix_boolean_t {
        truth(p, |info: Info<'static>| info.truth())
    }

    fn PMIx_Pdata_load(dest: Out<pmix_pdata_t>, p: Maybe<In<pmix_proc_t>>, key: Maybe<Array<512>>, (data, r#type): Datum) {
        let mut loaded = pmix_pdata_t::initial();
        if let Some(proc) = p {
            loaded.proc = *proc;
        }
        fill(&mut loaded.key, key.unwrap_or_default());
        loaded.value = data.load().unwrap_or_else(|_| pmix_value_t::initial());
        dest.write(loaded);
        Ok(())
    }

    fn PMIx_Pdata_xfer(dest: Out<pmix_pdata_t>, src: In<pmix_pdata_t, Mut>) {
        dest.write(src.duplicate().unwrap_or_else(|_| pmix_pdata_t::initial()));
        Ok(())
    }
}

macro_rules! flags {
    (set { $($set:ident |$flag:ident| $to:expr;)* } has { $($has:ident |$seen:ident| $is:expr;)* }) => {
        exported! {
            $(fn $set(p: Held<pmix_info_t>) {
                let mut info = p.members();
                let $flag = InfoFlags::from_raw(info.flags);
                info.flags = $to.as_raw();
                p.set(info);
                Ok(())
            })*
            $(fn $has(p: In<pmix_info_t>) -> bool {
                let $seen = InfoFlags::from_raw(p.flags);
                Ok($is)
            })*
        }
    };
}

flags! {
    set {
        PMIx_Info_required |flags| flags.union(InfoFlags::REQD);
        PMIx_Info_optional |flags| flags.without(InfoFlags::REQD);
        PMIx_Info_processed |flags| flags.union(InfoFlags::REQD_PROCESSED);
        PMIx_Info_set_end |flags| flags.union(InfoFlags::ARRAY_END);
        PMIx_Info_qualifier |flags| flags.union(InfoFlags::QUALIFIER);
        PMIx_Info_persistent |flags| flags.union(InfoFlags::PERSISTENT);
    }
    has {
        PMIx_Info_is_required |flags| flags.contains(InfoFlags::REQD);
        PMIx_Info_is_optional |flags| !flags.contains(InfoFlags::REQD);
        PMIx_Info_was_processed |flags| flags.contains(InfoFlags::REQD_PROCESSED);
        PMIx_Info_is_end |flags| flags.contains(InfoFlags::ARRAY_END);
        PMIx_Info_is_qualifier |flags| flags.contains(InfoFlags::QUALIFIER);
        PMIx_Info_is_persistent |flags| flags.contains(InfoFlags::PERSISTENT);
    }
}
