// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data buffers (`PMIx_Data_...`).

use std::ffi::{c_char, c_void};
use std::io::{Read as _, Write as _};
use std::ptr;

use bfrops::{Decoder, Encoder, Layout, Module};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use pmix_types::memory as heap;
use pmix_types::{DataArray, DataType, IntoOwned as _, Measure, Status};

use crate::abi::*;
use crate::args::{self, In, Maybe, Mut, Out, Slice, Str};
use crate::datum;
use crate::guard::exported;
use crate::memory::{self, Result, resized};
use crate::model::Model;
use crate::owned::Held;
use crate::record::{Record, buffer_of, holding, left_in};
use crate::regex::Encoders;
use crate::state;
use crate::valid::Valid;
use crate::values::Datum;

/// Appends bytes to a buffer.
pub(crate) fn append(buffer: &mut Held<'_, pmix_data_buffer_t>, bytes: &[u8]) -> Result<()> {
    let mut new = buffer.members();
    let read = (new.unpack_ptr as usize).saturating_sub(new.base_ptr as usize);
    let used = if new.base_ptr.is_null() {
        0
    } else {
        new.bytes_used
    };
    let needed = used.checked_add(bytes.len()).ok_or(Status::ERR_NOMEM)?;
    if needed > new.bytes_allocated || new.base_ptr.is_null() {
        let room = needed.checked_next_power_of_two();
        let room = room.ok_or(Status::ERR_NOMEM)?.max(128);
        // SAFETY: the memory of a `Held` buffer came from the C library.
        new.base_ptr = unsafe { resized(new.base_ptr, room)? };
        new.bytes_allocated = room;
    }
    // SAFETY: the buffer has at least `needed` bytes, so `bytes.len()` bytes fit after the `used` ones.
    unsafe {
        let to = new.base_ptr.add(used).cast::<u8>();
        ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        new.pack_ptr = new.base_ptr.add(needed);
        new.unpack_ptr = new.base_ptr.add(read);
    }
    new.bytes_used = needed;
    buffer.set(new);
    Ok(())
}

/// Returns the layout of data for or from a process, which is that of this process's server. The flag is `true` if
/// types that the peer's release does not know may be packed as well. `PMIx_Data_pack` defines NULL as a process of
/// the caller's own release. A process without a server does not know the release of another process.
fn layout(is_own_release: bool) -> (Layout, bool) {
    match state::client() {
        Ok(client) => (client.settings().layout, is_own_release),
        Err(_) => (Layout::new(Module::V41), true),
    }
}

/// Packs data for a process.
fn encoded(data: &DataArray<'_>, is_own_release: bool) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let (layout, all_types) = layout(is_own_release);
    let mut encoder = Encoder::new(layout, &mut packed).with_framer(&Encoders);
    if all_types {
        encoder = encoder.with_all_types();
    }
    encoder.array(data).map_err(|error| error.status())?;
    Ok(packed)
}

/// Unpacks data of a type from the bytes that a process packed. Returns the data and the number of bytes read.
fn decoded(bytes: &[u8], of: DataType, is_own_release: bool) -> Result<(DataArray<'_>, usize)> {
    let (layout, all_types) = layout(is_own_release);
    let mut decoder = Decoder::new(layout, bytes).with_framer(&Encoders);
    if all_types {
        decoder = decoder.with_all_types();
    }
    let data = decoder.array(of).map_err(|error| error.status())?;
    Ok((data, decoder.offset()))
}

/// Moves data to the memory of the caller. Returns the number of data that have room; the others are freed.
///
/// # Safety
/// `to` has room for `room` data of the type.
unsafe fn move_data(
    data: &DataArray<'_>,
    of: DataType,
    to: *mut c_void,
    room: usize,
) -> Result<usize> {
    let known = datum::ops(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    let made = data.to_c()?;
    let moved = made.size.min(room);
    // SAFETY: the caller guarantees the room. The moved data belong to the caller, and the others are freed once.
    unsafe {
        let from = made.array.cast::<u8>();
        ptr::copy_nonoverlapping(from, to.cast::<u8>(), moved * known.size);
        for place in moved..made.size {
            known.clear(made.array.byte_add(place * known.size));
        }
        memory::release(made.array);
    }
    Ok(moved)
}

exported! {
    fn PMIx_Data_pack(target: Maybe<In<pmix_proc_t>>, buffer: args::Held<pmix_data_buffer_t>, src: *mut c_void, num_vals: i32, r#type: pmix_data_type_t) -> pmix_status_t {
        let size = usize::try_from(num_vals).map_err(|_| Status::ERR_BAD_PARAM)?;
        if src.is_null() && size > 0 {
            return Err(Status::ERR_BAD_PARAM);
        }
        let array = pmix_data_array_t { r#type, size, array: src };
        // SAFETY: the header requires `src` to point to `num_vals` valid data of the type.
        let data = DataArray::from_c(unsafe { Valid::new(&array) })?;
        append(&mut buffer, &encoded(&data, target.is_none())?)
    }

    fn PMIx_Data_unpack(source: Maybe<In<pmix_proc_t>>, buffer: args::Held<pmix_data_buffer_t>, dest: *mut c_void, max_num_values: Out<i32>, r#type: DataType) -> pmix_status_t {
        // The number is 0 until data are unpacked. A negative one means no room.
        // SAFETY: the header requires an initialized number.
        let room = usize::try_from(unsafe { max_num_values.read() }).unwrap_or(0);
        max_num_values.write(0);
        if dest.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let left = buffer.valid();
        let left = left_in(&left);
        if left.is_empty() {
            return Err(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
        }
        datum::ops(r#type).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let (data, read) = decoded(left, r#type, source.is_none())?;
        // SAFETY: the header requires room for `max_num_values` data at `dest`.
        let moved = unsafe { move_data(&data, r#type, dest, room)? };
        // `moved` is at most the `i32` that the caller passed.
        max_num_values.write(i32::try_from(moved).unwrap_or(i32::MAX));
        if moved < data.len() {
            // DEVIATION: OpenPMIx leaves the buffer after the data that it unpacked, where nothing more can be
            // unpacked; here the call may be repeated with more room; data_are_made_and_taken_apart.
            return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
        }
        let members = buffer.members();
        let from = if members.unpack_ptr.is_null() { members.base_ptr } else { members.unpack_ptr };
        buffer.set(pmix_data_buffer_t { unpack_ptr: from.wrapping_add(read), ..members });
        Ok(())
    }

    fn PMIx_Data_copy(dest: Out<*mut c_void>, (src, r#type): Datum<Mut>) -> pmix_status_t {
        dest.fill(|| src.duplicate())
    }

    fn PMIx_Data_copy_payload(dest: args::Held<pmix_data_buffer_t>, src: In<pmix_data_buffer_t, Mut>) -> pmix_status_t {
        // The bytes are copied first, because both may be the same buffer.
        let left = memory::copied(left_in(&src))?;
        append(&mut dest, &left)
    }

    fn PMIx_Data_embed(buffer: args::Held<pmix_data_buffer_t>, payload: args::ByteObject) -> pmix_status_t {
        let new = buffer_of(&payload)?;
        buffer.replace(new);
        Ok(())
    }

    fn PMIx_Data_load(buffer: args::Held<pmix_data_buffer_t>, payload: args::Held<pmix_byte_object_t>) -> pmix_status_t {
        let pmix_byte_object_t { bytes, size } = payload.members();
        take_bytes(&mut buffer, bytes, size);
        payload.set(pmix_byte_object_t::initial());
        Ok(())
    }

    fn PMIx_Data_unload(buffer: args::Held<pmix_data_buffer_t>, payload: Out<pmix_byte_object_t>) -> pmix_status_t {
        payload.fill(|| unload(&mut buffer))
    }

    fn PMIx_Data_buffer_load(b: args::Held<pmix_data_buffer_t>, bytes: *mut c_char, sz: usize) {
        take_bytes(&mut b, bytes, sz);
        Ok(())
    }

    // A NULL pointer for a result means that the caller does not want it.
    fn PMIx_Data_buffer_unload(b: Maybe<args::Held<pmix_data_buffer_t>>, bytes: Maybe<Out<*mut c_char>>, sz: Maybe<Out<usize>>) {
        let unloaded = b.map_or(Err(Status::ERR_EMPTY), |mut buffer| unload(&mut buffer));
        let unloaded = unloaded.unwrap_or_else(|_| pmix_byte_object_t::initial());
        if let Some(place) = bytes {
            place.write(unloaded.bytes);
        }
        if let Some(place) = sz {
            place.write(unloaded.size);
        }
        Ok(())
    }

    fn PMIx_Data_print(output: Out<*mut c_char>, prefix: Maybe<Str<Mut>>, (src, r#type): Datum<Mut>) -> pmix_status_t {
        let prefix = prefix.unwrap_or_default();
        let data = src.topology_source().unwrap_or_else(|| src.to_array())?;
        memory::reserve(data.measure(Measure::Shown).saturating_add(prefix.len()))?;
        let line = [prefix, data.to_string().as_bytes()].concat();
        output.fill(|| memory::string(&line))
    }

    fn PMIx_Data_compress((inbytes, size): Slice<u8>, outbytes: Out<*mut u8>, nbytes: Out<usize>) -> bool {
        let made = compressed(&inbytes).ok_or(Status::ERROR)?;
        outbytes.fill(|| memory::bytes(&made).map(<*mut c_char>::cast))?;
        nbytes.write(made.len());
        Ok(true)
    }

    fn PMIx_Data_decompress((inbytes, size): Slice<u8>, outbytes: Out<*mut u8>, nbytes: Out<usize>) -> bool {
        let made = decompressed(&inbytes).ok_or(Status::ERROR)?;
        outbytes.fill(|| memory::bytes(&made).map(<*mut c_char>::cast))?;
        nbytes.write(made.len());
        Ok(true)
    }
}

/// Replaces the content of a buffer by bytes, of which the buffer takes ownership.
fn take_bytes(buffer: &mut Held<'_, pmix_data_buffer_t>, bytes: *mut c_char, size: usize) {
    let is_empty = bytes.is_null() || size == 0;
    buffer.replace(match is_empty {
        true => pmix_data_buffer_t::initial(),
        false => holding(bytes, size),
    });
}

/// Moves the bytes that have not been unpacked out of a buffer, and empties it.
fn unload(buffer: &mut Held<'_, pmix_data_buffer_t>) -> Result<pmix_byte_object_t> {
    let base = buffer.members().base_ptr;
    let (bytes, size) = {
        let valid = buffer.valid();
        let left = left_in(&valid);
        match !left.is_empty() && ptr::eq(left.as_ptr(), base.cast()) {
            // The caller takes the memory of the buffer.
            true => (None, left.len()),
            false => (Some(memory::bytes(left)?), left.len()),
        }
    };
    let Some(bytes) = bytes else {
        buffer.set(pmix_data_buffer_t::initial());
        return Ok(pmix_byte_object_t { bytes: base, size });
    };
    buffer.replace(pmix_data_buffer_t::initial());
    Ok(pmix_byte_object_t { bytes, size })
}

/// An upper bound of the memory that a zlib stream allocates for itself.
const ZLIB_BYTES: usize = 512 << 10;

/// Returns the length of the original followed by a zlib stream, if that is shorter than the original.
fn compressed(from: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(from.len()).ok()?;
    // The output grows to little more than the length of the input, and the compressor has buffers of its own.
    memory::reserve(from.len().saturating_mul(2).saturating_add(ZLIB_BYTES)).ok()?;
    let mut encoder = ZlibEncoder::new(len.to_ne_bytes().to_vec(), Compression::best());
    encoder.write_all(from).ok()?;
    encoder.finish().ok().filter(|made| made.len() < from.len())
}

fn decompressed(from: &[u8]) -> Option<Vec<u8>> {
    let (len, stream) = from.split_first_chunk::<4>()?;
    let len = u32::from_ne_bytes(*len);
    // The length is a claim of the peer, so memory grows only with the bytes that are decompressed.
    memory::reserve(ZLIB_BYTES).ok()?;
    let (mut made, mut portion) = (Vec::new(), [0; 16 << 10]);
    let mut stream = ZlibDecoder::new(stream).take(u64::from(len) + 1);
    loop {
        match stream.read(&mut portion).ok()? {
            0 => break,
            count => heap::append(&mut made, portion.get(..count)?).ok()?,
        }
    }
    (u32::try_from(made.len()) == Ok(len)).then_some(made)
}
