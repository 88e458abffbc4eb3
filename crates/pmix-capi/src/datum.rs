// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data by type: the content of a C value or array. One table covers all types.

use std::ffi::c_void;
use std::ptr;

use pmix_types::{Bytes, DataArray, DataType, Status, Value};

use crate::abi::*;
use crate::depth::{free_nested, nested};
use crate::memory::{self, Result, release};
use crate::model::{Model, list, many};
use crate::record::{MapObject, Record, buffer_of, empty_list, fresh, left_in};
use crate::regex;
use crate::valid::Valid;

/// The way in which a C value stores a datum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In the union of the value.
    Inline,
    /// In memory of its own, to which the union has a pointer.
    Pointer,
    /// None: only arrays can have data of the type.
    ArrayOnly,
}

/// The operations on data of a type, independent of their place.
#[derive(Clone, Copy)]
pub(crate) struct Ops {
    /// The size of a datum in bytes.
    pub(crate) size: usize,
    /// The place of a datum in a value.
    pub(crate) place: Storage,
    begin: unsafe fn(*mut c_void),
    empty: unsafe fn(*mut c_void),
    duplicate: unsafe fn(*const c_void, *mut c_void) -> Result<()>,
}

impl Ops {
    const fn of<T: Record>(place: Storage) -> Self {
        unsafe fn begin<T: Record>(at: *mut c_void) {
            // SAFETY: the callers of `begin` pass memory with the size and alignment of `T`.
            unsafe { at.cast::<T>().write(T::initial()) };
        }
        unsafe fn empty<T: Record>(at: *mut c_void) {
            // SAFETY: the caller of `clear` guarantees a valid datum, whose type found these `Ops`.
            unsafe { (*at.cast::<T>()).empty() };
        }
        unsafe fn duplicate<T: Record>(from: *const c_void, to: *mut c_void) -> Result<()> {
            // SAFETY: the caller of `copy` guarantees a valid datum of this type at `from`, and room for it at `to`.
            unsafe {
                to.cast::<T>()
                    .write(Valid::new(&*from.cast::<T>()).duplicate()?)
            };
            Ok(())
        }
        Self {
            size: size_of::<T>(),
            place,
            begin: begin::<T>,
            empty: empty::<T>,
            duplicate: duplicate::<T>,
        }
    }

    const fn of_variant<M: Model>(_: fn(Vec<M>) -> DataArray<'static>, place: Storage) -> Self {
        Self::of::<M::C>(place)
    }

    /// Copies a datum to uninitialized memory.
    ///
    /// # Safety
    /// `from` points to a valid datum of the type, and `to` has room for one.
    pub(crate) unsafe fn copy(&self, from: *const c_void, to: *mut c_void) -> Result<()> {
        // SAFETY: the caller guarantees the datum at `from` and the room at `to`, which is all that `duplicate` needs.
        unsafe { (self.duplicate)(from, to) }
    }

    /// Frees the memory that a datum owns.
    ///
    /// # Safety
    /// `at` points to a valid datum of the type.
    pub(crate) unsafe fn clear(&self, at: *mut c_void) {
        // SAFETY: the caller guarantees the valid datum that `empty` needs.
        unsafe { (self.empty)(at) }
    }
}

/// Converts a datum to the model.
///
/// # Safety
/// `at` points to a valid datum of the C type of `M`.
unsafe fn one<M: Model>(at: *const c_void) -> Result<M> {
    // SAFETY: the caller guarantees a valid datum of the C type of `M` at `at`.
    M::from_c(unsafe { Valid::new(&*at.cast::<M::C>()) })
}

/// Converts an array to the model.
///
/// # Safety
/// `at` points to `count` valid data of the C type of `M`.
unsafe fn all<M: Model>(at: *const c_void, count: usize) -> Result<Vec<M>> {
    // SAFETY: the caller guarantees `count` valid data of the C type of `M` at `at`.
    many(unsafe { Valid::slice(at.cast::<M::C>(), count)? })
}

macro_rules! data {
    (
        values { $($variant:ident $type:ident $place:ident;)* }
        arrays { $($only:ident $only_type:ident;)* }
    ) => {
        /// Returns the operations on data of a type in an array or a buffer; `None` for an unknown type.
        pub(crate) fn ops(of: DataType) -> Option<Ops> {
            Some(match of {
                $(DataType::$type => Ops::of_variant(DataArray::$variant, Storage::$place),)*
                $(DataType::$only_type => Ops::of_variant(DataArray::$only, Storage::ArrayOnly),)*
                DataType::DATA_BUFFER => Ops::of::<pmix_data_buffer_t>(Storage::Pointer),
                _ => return None,
            })
        }

        impl Model for Value<'_> {
            type C = pmix_value_t;

            fn from_c(from: Valid<'_, pmix_value_t>) -> Result<Self> {
                let of = DataType::from_raw(from.r#type);
                if of == DataType::UNDEF {
                    return Ok(Value::Undef);
                }
                let at = place_of(from)?;
                if at.is_null() {
                    return missing(of);
                }
                // SAFETY: `at` is not NULL, so the value, which is `Valid`, has a datum of the type `of` there.
                unsafe {
                    Ok(match of {
                        $(DataType::$type => Value::$variant(one(at)?),)*
                        DataType::REGEX => Value::Regex(regex::map_of(Valid::new(&*at.cast()))?),
                        DataType::DATA_BUFFER => {
                            let buffer = Valid::new(&*at.cast::<pmix_data_buffer_t>());
                            Value::DataBuffer(memory::copied(left_in(&buffer))?.into())
                        }
                        _ => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
                    })
                }
            }

            fn to_c(&self) -> Result<pmix_value_t> {
                let mut to = pmix_value_t::initial();
                match self {
                    Value::Undef => {}
                    $(Value::$variant(datum) => put(&mut to, Storage::$place, datum.to_c()?)?,)*
                    Value::Regex(map) => to.data.bo = regex::object(map)?,
                    Value::DataBuffer(bytes) => {
                        put(&mut to, Storage::Pointer, buffer_of(bytes)?)?;
                    }
                }
                to.r#type = self.data_type().as_raw();
                Ok(to)
            }
        }

        impl Model for DataArray<'_> {
            type C = pmix_data_array_t;

            fn from_c(from: Valid<'_, pmix_data_array_t>) -> Result<Self> {
                let (at, count) = (from.array, from.size);
                let of = DataType::from_raw(from.r#type);
                if at.is_null() || count == 0 {
                    return Ok(DataArray::empty(of));
                }
                // SAFETY: the array is `Valid`: it has `count` data of the type `of` at `at`.
                nested(|| unsafe {
                    Ok(match of {
                        $(DataType::$type => DataArray::$variant(all(at, count)?),)*
                        $(DataType::$only_type => DataArray::$only(all(at, count)?),)*
                        DataType::DATA_BUFFER => DataArray::DataBuffer(buffers(Valid::slice(at.cast(), count)?)?),
                        _ => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
                    })
                })
            }

            fn to_c(&self) -> Result<pmix_data_array_t> {
                let array = match self {
                    $(DataArray::$variant(data) => list(data)?.cast(),)*
                    $(DataArray::$only(data) => list(data)?.cast(),)*
                    DataArray::DataBuffer(data) => list_of_buffers(data)?.cast(),
                    _ if self.is_empty() => ptr::null_mut(),
                    _ => return Err(Status::ERR_NOT_SUPPORTED),
                };
                Ok(pmix_data_array_t {
                    r#type: self.data_type().as_raw(),
                    size: self.len(),
                    array,
                })
            }
        }
    };
}

data! {
    values {
        Bool BOOL Inline;
        Byte BYTE Inline;
        String STRING Inline;
        Size SIZE Inline;
        Pid PID Inline;
        Int INT Inline;
        Int8 INT8 Inline;
        Int16 INT16 Inline;
        Int32 INT32 Inline;
        Int64 INT64 Inline;
        Uint UINT Inline;
        Uint8 UINT8 Inline;
        Uint16 UINT16 Inline;
        Uint32 UINT32 Inline;
        Uint64 UINT64 Inline;
        Float FLOAT Inline;
        Double DOUBLE Inline;
        Timeval TIMEVAL Inline;
        Time TIME Inline;
        Status STATUS Inline;
        Proc PROC Pointer;
        ByteObject BYTE_OBJECT Inline;
        Persistence PERSIST Inline;
        Pointer POINTER Inline;
        Scope SCOPE Inline;
        DataRange DATA_RANGE Inline;
        InfoFlags INFO_DIRECTIVES Inline;
        DataType DATA_TYPE Inline;
        ProcState PROC_STATE Inline;
        ProcInfo PROC_INFO Pointer;
        DataArray DATA_ARRAY Pointer;
        Rank PROC_RANK Inline;
        CompressedString COMPRESSED_STRING Inline;
        AllocDirective ALLOC_DIRECTIVE Inline;
        IofChannel IOF_CHANNEL Inline;
        Envar ENVAR Inline;
        Coord COORD Pointer;
        Regattr REGATTR Pointer;
        JobState JOB_STATE Inline;
        LinkState LINK_STATE Inline;
        Cpuset PROC_CPUSET Pointer;
        Geometry GEOMETRY Pointer;
        DeviceDistance DEVICE_DIST Pointer;
        Endpoint ENDPOINT Pointer;
        Topology TOPO Pointer;
        DeviceType DEVTYPE Inline;
        Locality LOCTYPE Inline;
        CompressedByteObject COMPRESSED_BYTE_OBJECT Inline;
        Nspace PROC_NSPACE Pointer;
        ProcStats PROC_STATS Pointer;
        DiskStats DISK_STATS Pointer;
        NetStats NET_STATS Pointer;
        NodeStats NODE_STATS Pointer;
        StorageMedium STOR_MEDIUM Inline;
        StorageAccessibility STOR_ACCESS Inline;
        StoragePersistence STOR_PERSIST Inline;
        StorageAccessType STOR_ACCESS_TYPE Inline;
        Device DEVICE Pointer;
        ResourceBlockDirective RESBLOCK_DIRECTIVE Inline;
        ResourceUnit RESOURCE_UNIT Pointer;
        NodePid NODE_PID Pointer;
        Regex2 REGEX2 Pointer;
        AllocInheritance ALLOC_INHERIT Inline;
    }
    arrays {
        Value VALUE;
        App APP;
        Info INFO;
        Pdata PDATA;
        Query QUERY;
        Regex REGEX;
    }
}

/// Returns the unread bytes of each buffer of an array.
fn buffers(all: Valid<'_, [pmix_data_buffer_t]>) -> Result<Vec<Bytes<'static>>> {
    let mut copies = memory::list_for(all.len())?;
    for buffer in all.iter() {
        copies.push(memory::copied(left_in(&buffer))?.into());
    }
    Ok(copies)
}

/// Returns a C array of buffers with copies of the bytes.
fn list_of_buffers(from: &[Bytes<'_>]) -> Result<*mut pmix_data_buffer_t> {
    let mut at = fresh::<pmix_data_buffer_t>(from.len())?;
    for (place, bytes) in from.iter().enumerate() {
        match buffer_of(bytes) {
            // SAFETY: `fresh` made an array of `from.len()` buffers, and `place` is less than that.
            Ok(made) => unsafe { at.add(place).write(made) },
            Err(status) => {
                // SAFETY: every member was made here or is initialized as empty.
                unsafe { empty_list(&mut at, &mut from.len()) };
                return Err(status);
            }
        }
    }
    Ok(at)
}

/// Returns the operations on a datum of a type in a value. Only `PMIX_REGEX` differs from an array.
pub(crate) fn ops_in_value(of: DataType) -> Option<Ops> {
    match of {
        DataType::REGEX => Some(Ops::of::<MapObject>(Storage::Inline)),
        _ => ops(of),
    }
}

/// Returns the address of the datum of a value; NULL if the pointer in its union is NULL.
fn place_of(value: Valid<'_, pmix_value_t>) -> Result<*mut c_void> {
    let of = DataType::from_raw(value.r#type);
    let known = ops_in_value(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    let union = ptr::from_ref(&value.data).cast_mut().cast::<c_void>();
    match known.place {
        Storage::Inline => Ok(union),
        // SAFETY: the value is `Valid`, and its type is one whose member of the union is a pointer.
        Storage::Pointer => Ok(unsafe { value.data.ptr }),
        Storage::ArrayOnly => Err(Status::ERR_UNKNOWN_DATA_TYPE),
    }
}

/// Returns the value for a NULL pointer: an empty array, or an error for other types.
fn missing<'a>(of: DataType) -> Result<Value<'a>> {
    match of {
        DataType::DATA_ARRAY => Ok(Value::DataArray(DataArray::default())),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Stores a datum in a value that holds none.
fn put<T: Record>(to: &mut pmix_value_t, place: Storage, datum: T) -> Result<()> {
    if place == Storage::Pointer {
        to.data.ptr = memory::boxed(datum)?.cast();
        return Ok(());
    }
    const { assert!(size_of::<pmix_value_data>() == 24) };
    debug_assert!(size_of::<T>() <= size_of::<pmix_value_data>());
    // SAFETY: the union has room for each type that the table declares inline.
    unsafe { ptr::from_mut(&mut to.data).cast::<T>().write(datum) };
    Ok(())
}

/// Frees the memory that a value owns. The value must not be read until it is initialized again.
///
/// # Safety
/// The value is valid, and the memory that it owns came from the C library.
pub(crate) unsafe fn empty_value(value: &mut pmix_value_t) {
    let of = DataType::from_raw(value.r#type);
    // SAFETY: the caller guarantees that the value is valid.
    let Ok(at) = place_of(unsafe { Valid::new(value) }) else {
        return;
    };
    if let Some(known) = ops_in_value(of)
        && !at.is_null()
    {
        // SAFETY: `at` is not NULL, so it points to a datum of the type. `Storage::Pointer` is memory of its own.
        unsafe {
            known.clear(at);
            if known.place == Storage::Pointer {
                release(at);
            }
        }
    }
}

/// Returns a copy of a value.
pub(crate) fn duplicate_value(value: Valid<'_, pmix_value_t>) -> Result<pmix_value_t> {
    if value.r#type == DataType::UNDEF.as_raw() {
        return Ok(pmix_value_t::initial());
    }
    let empty = pmix_data_array_t::initial();
    let at = match place_of(value)? {
        // As in OpenPMIx: programs read the array of a copy without a check for NULL.
        at if at.is_null() && value.r#type == DataType::DATA_ARRAY.as_raw() => {
            ptr::from_ref(&empty).cast_mut().cast()
        }
        at => at,
    };
    // SAFETY: `at` is NULL or the place of a datum that has the type of the value.
    unsafe { load_value(DataType::from_raw(value.r#type), at) }
}

/// Returns a value with a copy of a datum; a value without a datum if `at` is NULL.
///
/// # Safety
/// `at` is NULL or points to a valid datum of the type.
pub(crate) unsafe fn load_value(of: DataType, at: *const c_void) -> Result<pmix_value_t> {
    let mut to = pmix_value_t::initial();
    to.r#type = of.as_raw();
    let known = ops_in_value(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    if at.is_null() {
        return Ok(to);
    }
    match known.place {
        Storage::ArrayOnly => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        // SAFETY: the caller guarantees the datum at `at`; the union has room for each type that is inline.
        Storage::Inline => unsafe { known.copy(at, ptr::from_mut(&mut to.data).cast())? },
        // SAFETY: `at` is not NULL, so the caller guarantees a valid datum of the type there.
        Storage::Pointer => to.data.ptr = unsafe { duplicate_one(&known, at) }?,
    }
    Ok(to)
}

/// Returns a copy of a datum in memory of its own.
///
/// # Safety
/// `from` points to a valid datum of the type.
pub(crate) unsafe fn duplicate_one(known: &Ops, from: *const c_void) -> Result<*mut c_void> {
    let room = memory::zeroed::<u8>(known.size)?.cast::<c_void>();
    // SAFETY: the caller guarantees the datum at `from`; `room` has its size, aligned as by malloc.
    match unsafe { known.copy(from, room) } {
        Ok(()) => Ok(room),
        Err(status) => {
            // SAFETY: `room` was allocated here, and the failed copy left nothing in it.
            unsafe { release(room) };
            Err(status)
        }
    }
}

/// Frees the memory that an array owns. The array must not be read until it is initialized again.
///
/// # Safety
/// The array is valid, and the memory that it owns came from the C library.
pub(crate) unsafe fn empty_array(array: &mut pmix_data_array_t) {
    if array.array.is_null() {
        return;
    }
    free_nested(*array, |array| {
        if let Some(known) = ops(DataType::from_raw(array.r#type)) {
            for place in 0..array.size {
                // SAFETY: the caller guarantees a valid array, which has `size` data of its type.
                unsafe { known.clear(array.array.byte_add(place * known.size)) };
            }
        }
        // SAFETY: the caller guarantees that the C library allocated the array; its data are cleared.
        unsafe { release(array.array) };
    });
}

/// Returns an array with `count` initialized data of a type.
pub(crate) fn new_array(of: DataType, count: usize) -> Result<pmix_data_array_t> {
    let mut made = pmix_data_array_t::initial();
    made.r#type = of.as_raw();
    if count == 0 {
        return Ok(made);
    }
    let known = ops(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    if i32::try_from(count).is_err() {
        return Err(Status::ERR_BAD_PARAM);
    }
    let bytes = known.size.checked_mul(count).ok_or(Status::ERR_NOMEM)?;
    made.array = memory::zeroed::<u8>(bytes)?.cast();
    made.size = count;
    for place in 0..count {
        // SAFETY: the array was allocated for `count` data of `size` bytes.
        unsafe { (known.begin)(made.array.byte_add(place * known.size)) };
    }
    Ok(made)
}

/// Returns a copy of an array.
pub(crate) fn duplicate_array(from: Valid<'_, pmix_data_array_t>) -> Result<pmix_data_array_t> {
    let count = if from.array.is_null() { 0 } else { from.size };
    let of = DataType::from_raw(from.r#type);
    let mut to = new_array(of, count)?;
    let size = ops(of).map_or(0, |known| known.size);
    for place in 0..count {
        let (source, room) = (
            from.array.wrapping_byte_add(place * size),
            to.array.wrapping_byte_add(place * size),
        );
        // SAFETY: the array is `Valid`: it has `count` data, and `new_array` made as many in `to`.
        let copied = nested(|| unsafe { ops(of).map_or(Ok(()), |known| known.copy(source, room)) });
        if let Err(status) = copied {
            // SAFETY: every member is a copy or initialized as empty.
            unsafe { to.empty() };
            return Err(status);
        }
    }
    Ok(to)
}
