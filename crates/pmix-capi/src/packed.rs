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
use pmix_types::{DataArray, DataType, IntoOwned as _, Measure, Status, Topology};

use crate::abi::*;
use crate::datum::{self, duplicate_one};
use crate::guard::exported;
use crate::memory::{self, Result, release, resized, slice};
use crate::model::Model;
use crate::record::{Record, buffer_of, holding, left_in, there, there_mut};
use crate::regex::{self, Encoders};
use crate::state;
use crate::status::{code, make_at, write_to};

/// Appends bytes to a buffer.
///
/// # Safety
/// The buffer is valid, and its memory came from the C library.
pub(crate) unsafe fn append(buffer: &mut pmix_data_buffer_t, bytes: &[u8]) -> Result<()> {
    let read = (buffer.unpack_ptr as usize).saturating_sub(buffer.base_ptr as usize);
    let used = if buffer.base_ptr.is_null() {
        0
    } else {
        buffer.bytes_used
    };
    let needed = used.checked_add(bytes.len()).ok_or(Status::ERR_NOMEM)?;
    if needed > buffer.bytes_allocated || buffer.base_ptr.is_null() {
        let room = needed
            .checked_next_power_of_two()
            .ok_or(Status::ERR_NOMEM)?
            .max(128);
        // SAFETY: the caller guarantees that the memory of the buffer came from the C library.
        buffer.base_ptr = unsafe { resized(buffer.base_ptr, room)? };
        buffer.bytes_allocated = room;
    }
    // SAFETY: the buffer has at least `needed` bytes, so `bytes.len()` bytes fit after the `used` ones.
    unsafe {
        let to = buffer.base_ptr.add(used).cast::<u8>();
        ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        buffer.pack_ptr = buffer.base_ptr.add(needed);
        buffer.unpack_ptr = buffer.base_ptr.add(read);
    }
    buffer.bytes_used = needed;
    Ok(())
}

/// Returns the layout of data for or from a process, which is that of this process's server. The flag is `true` if
/// types that the peer's release does not know may be packed as well. `PMIx_Data_pack` defines NULL as a process of
/// the caller's own release. A process without a server does not know the release of another process.
fn layout(peer: *const pmix_proc_t) -> (Layout, bool) {
    match state::client() {
        Ok(client) => (client.settings().layout, peer.is_null()),
        Err(_) => (Layout::new(Module::V41), true),
    }
}

/// Packs data for a process.
fn encoded(data: &DataArray<'_>, target: *const pmix_proc_t) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let (layout, all_types) = layout(target);
    let mut encoder = Encoder::new(layout, &mut packed).with_framer(&Encoders);
    if all_types {
        encoder = encoder.with_all_types();
    }
    encoder.array(data).map_err(|error| plain(&error))?;
    Ok(packed)
}

/// Returns a decoder for data that a process packed.
fn decoder(bytes: &[u8], source: *const pmix_proc_t) -> Decoder<'_> {
    let (layout, all_types) = layout(source);
    let decoder = Decoder::new(layout, bytes).with_framer(&Encoders);
    match all_types {
        true => decoder.with_all_types(),
        false => decoder,
    }
}

fn plain(error: &bfrops::Error) -> Status {
    error.status()
}

exported! {
    fn PMIx_Data_pack(target: *const pmix_proc_t, buffer: *mut pmix_data_buffer_t, src: *mut c_void, num_vals: i32, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let buffer = unsafe { there_mut(buffer)? };
            let size = usize::try_from(num_vals).map_err(|_| Status::ERR_BAD_PARAM)?;
            if src.is_null() && size > 0 {
                return Err(Status::ERR_BAD_PARAM);
            }
            let array = pmix_data_array_t { r#type, size, array: src };
            // SAFETY: the header requires `src` to point to `num_vals` valid data of the type.
            let data = unsafe { DataArray::from_c(&array)? };
            let packed = encoded(&data, target)?;
            // SAFETY: the header requires a constructed buffer, whose memory came from the C library.
            unsafe { append(buffer, &packed) }
        })())
    }

    fn PMIx_Data_unpack(source: *const pmix_proc_t, buffer: *mut pmix_data_buffer_t, dest: *mut c_void, max_num_values: *mut i32, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (buffer, number) = unsafe { (there_mut(buffer)?, there_mut(max_num_values)?) };
            // The number is 0 until data are unpacked. A negative one means no room.
            let room = usize::try_from(std::mem::take(number)).unwrap_or(0);
            if dest.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: the header requires a constructed buffer.
            let left = unsafe { left_in(buffer) };
            if left.is_empty() {
                return Err(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
            }
            let of = DataType::from_raw(r#type);
            let known = datum::ops(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
            let mut decoder = decoder(left, source);
            let data = decoder.array(of).map_err(|e| plain(&e))?;
            let read = decoder.offset();
            let made = data.to_c()?;
            let taken = made.size.min(room);
            // SAFETY: the header requires room for `max_num_values` data at `dest`. Moved data belong to the
            // caller, and the others are freed here.
            unsafe {
                ptr::copy_nonoverlapping(made.array.cast::<u8>(), dest.cast::<u8>(), taken * known.size);
                for place in taken..made.size {
                    known.clear(made.array.byte_add(place * known.size));
                }
                release(made.array);
            }
            // `taken` is at most the `i32` that the caller passed.
            *number = i32::try_from(taken).unwrap_or(i32::MAX);
            if taken < made.size {
                // DEVIATION: OpenPMIx leaves the buffer after the data that it unpacked, where nothing more can be
                // unpacked; here the call may be repeated with more room; data_are_made_and_taken_apart.
                return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
            }
            // SAFETY: `left` begins at the unpack pointer, or at the base without one, and the decoder read `read`
            // bytes of it.
            unsafe {
                let from = if buffer.unpack_ptr.is_null() { buffer.base_ptr } else { buffer.unpack_ptr };
                buffer.unpack_ptr = from.add(read);
            }
            Ok(())
        })())
    }

    fn PMIx_Data_copy(dest: *mut *mut c_void, src: *mut c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            let of = DataType::from_raw(r#type);
            let known = datum::ops(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
            if src.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let make = || match of {
                // For a string or a map, `src` is its own address, not that of a pointer to it.
                // SAFETY: the header requires `src` to be a valid datum of the type; it is not NULL.
                DataType::STRING => Ok(unsafe { memory::duplicate(src.cast())? }.cast()),
                // SAFETY: the header requires `src` to be a valid datum of the type; it is not NULL.
                DataType::REGEX => Ok(unsafe { regex::duplicate(src.cast())? }.cast()),
                // SAFETY: the header requires `src` to be a valid datum of the type; it is not NULL.
                _ => unsafe { duplicate_one(&known, src) },
            };
            // SAFETY: the header requires `dest` to be valid for writes.
            unsafe { make_at(dest, make) }
        })())
    }

    fn PMIx_Data_copy_payload(dest: *mut pmix_data_buffer_t, src: *mut pmix_data_buffer_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `src` to be NULL or a constructed buffer.
            let left = memory::copied(unsafe { left_in(there(src)?) })?;
            // SAFETY: the header requires `dest` to be NULL or a constructed buffer. `left` is a copy, so both may be
            // the same.
            unsafe { append(there_mut(dest)?, &left) }
        })())
    }

    fn PMIx_Data_embed(buffer: *mut pmix_data_buffer_t, payload: *const pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (buffer, payload) = unsafe { (there_mut(buffer)?, there(payload)?) };
            // SAFETY: the header requires `bytes` to be NULL or to have `size` bytes.
            let made = buffer_of(unsafe { slice(payload.bytes.cast::<u8>(), payload.size)? })?;
            // SAFETY: the header requires a constructed buffer, whose memory came from the C library.
            unsafe { buffer.empty() };
            *buffer = made;
            Ok(())
        })())
    }

    fn PMIx_Data_load(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (buffer, payload) = unsafe { (there_mut(buffer)?, there_mut(payload)?) };
            // SAFETY: the header requires a constructed buffer, whose memory came from the C library.
            unsafe { buffer.empty() };
            if !payload.bytes.is_null() && payload.size > 0 {
                *buffer = holding(payload.bytes, payload.size);
            }
            *payload = pmix_byte_object_t::initial();
            Ok(())
        })())
    }

    fn PMIx_Data_unload(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (buffer, payload) = unsafe { (there_mut(buffer)?, there_mut(payload)?) };
            // SAFETY: the header requires a constructed buffer, whose memory came from the C library.
            *payload = unsafe { unload(buffer)? };
            Ok(())
        })())
    }

    fn PMIx_Data_buffer_load(b: *mut pmix_data_buffer_t, bytes: *mut c_char, sz: usize) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let Some(buffer) = unsafe { b.as_mut() } {
            // SAFETY: the header requires a constructed buffer, whose memory came from the C library.
            unsafe { buffer.empty() };
            if !bytes.is_null() && sz > 0 {
                *buffer = holding(bytes, sz);
            }
        }
    }

    fn PMIx_Data_buffer_unload(b: *mut pmix_data_buffer_t, bytes: *mut *mut c_char, sz: *mut usize) {
        // SAFETY: the header requires `b` to be NULL or a constructed buffer, whose memory came from the C library.
        let moved = unsafe { b.as_mut().map_or_else(|| Ok(pmix_byte_object_t::initial()), |b| unload(b)) };
        let moved = moved.unwrap_or_else(|_| pmix_byte_object_t::initial());
        // SAFETY: the header requires `bytes` and `sz` to be NULL or valid for writes.
        unsafe {
            // A NULL pointer means that the caller does not want the result.
            let _ = write_to(bytes, moved.bytes);
            let _ = write_to(sz, moved.size);
        }
    }

    fn PMIx_Data_print(output: *mut *mut c_char, prefix: *mut c_char, src: *mut c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `prefix` to be NULL or a string.
            let prefix = unsafe { memory::text(prefix) }.unwrap_or_default();
            // For a string or a map, `src` is its own address, not that of a pointer to it.
            let mut string = src;
            let at = match DataType::from_raw(r#type) {
                DataType::STRING | DataType::REGEX => ptr::from_mut(&mut string).cast(),
                _ => src,
            };
            let size = usize::from(!src.is_null());
            let array = pmix_data_array_t { r#type, size, array: at };
            let data = match DataType::from_raw(r#type) {
                // Only the source of a topology is printed, because only its library could print more.
                // SAFETY: the header requires `src` to be NULL or a valid topology.
                DataType::TOPO => unsafe { sources(src.cast())? },
                // SAFETY: the header requires `src` to be NULL or a valid datum of the type.
                _ => unsafe { DataArray::from_c(&array)? },
            };
            memory::reserve(data.measure(Measure::Shown).saturating_add(prefix.len()))?;
            let line = [prefix, data.to_string().as_bytes()].concat();
            // SAFETY: the header requires `output` to be NULL or valid for writes.
            unsafe { make_at(output, || memory::string(&line)) }
        })())
    }

    fn PMIx_Data_compress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        // SAFETY: the header requires `inbytes` to be NULL or to have `size` bytes.
        let from = unsafe { slice(inbytes, size) }.ok();
        from.and_then(compressed).is_some_and(|made| {
            // SAFETY: the header requires `outbytes` and `nbytes` to be NULL or valid for writes.
            unsafe { hand_out(&made, outbytes, nbytes) }.is_ok()
        })
    }

    fn PMIx_Data_decompress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        // SAFETY: the header requires `inbytes` to be NULL or to have `size` bytes.
        let from = unsafe { slice(inbytes, size) }.ok();
        from.and_then(decompressed).is_some_and(|made| {
            // SAFETY: the header requires `outbytes` and `nbytes` to be NULL or valid for writes.
            unsafe { hand_out(&made, outbytes, nbytes) }.is_ok()
        })
    }
}

/// Returns a topology with its source only, for printing.
///
/// # Safety
/// `at` is NULL or points to a valid topology.
unsafe fn sources(at: *const pmix_topology_t) -> Result<DataArray<'static>> {
    // SAFETY: the caller guarantees that `at` is NULL or a valid topology.
    let source = unsafe {
        at.as_ref()
            .map(|topology| memory::read_text(topology.source))
            .transpose()?
    };
    let shown = source.map(|source| Topology {
        source,
        ..Topology::default()
    });
    Ok(DataArray::Topology(shown.into_iter().collect()))
}

/// Moves the bytes that have not been unpacked out of a buffer, and empties it.
///
/// # Safety
/// The buffer is valid, and its memory came from the C library.
unsafe fn unload(buffer: &mut pmix_data_buffer_t) -> Result<pmix_byte_object_t> {
    // SAFETY: the caller guarantees a valid buffer.
    let left = unsafe { left_in(buffer) };
    let size = left.len();
    if size == 0 || ptr::eq(left.as_ptr(), buffer.base_ptr.cast()) {
        let bytes = if size == 0 {
            ptr::null_mut()
        } else {
            buffer.base_ptr
        };
        if size == 0 {
            // SAFETY: the caller guarantees that the memory of the buffer came from the C library.
            unsafe { release(buffer.base_ptr) };
        }
        *buffer = pmix_data_buffer_t::initial();
        return Ok(pmix_byte_object_t { bytes, size });
    }
    let bytes = memory::bytes(left)?;
    // SAFETY: the caller guarantees that the memory of the buffer came from the C library.
    unsafe { buffer.empty() };
    Ok(pmix_byte_object_t { bytes, size })
}

/// Writes a copy of bytes and their number to the caller's pointers.
///
/// # Safety
/// Each pointer is NULL or valid for writes.
unsafe fn hand_out(made: &[u8], outbytes: *mut *mut u8, nbytes: *mut usize) -> Result<()> {
    if outbytes.is_null() || nbytes.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees that both pointers, which are not NULL here, are valid for writes.
    unsafe {
        write_to(outbytes, memory::bytes(made)?.cast())?;
        write_to(nbytes, made.len())
    }
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
