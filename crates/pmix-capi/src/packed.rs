// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffers of packed data (`PMIx_Data_...`).

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

/// Puts bytes behind what a buffer holds.
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
        // SAFETY: the caller says so.
        buffer.base_ptr = unsafe { resized(buffer.base_ptr, room)? };
        buffer.bytes_allocated = room;
    }
    // SAFETY: there is room behind what is used.
    unsafe {
        let to = buffer.base_ptr.add(used).cast::<u8>();
        ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        buffer.pack_ptr = buffer.base_ptr.add(needed);
        buffer.unpack_ptr = buffer.base_ptr.add(read);
    }
    buffer.bytes_used = needed;
    Ok(())
}

/// Returns how data for a process, or of one, are packed: as the server of this process does. The flag is `true` where
/// types beyond that release are packed, too: NULL is a process of the release of the caller, as `PMIx_Data_pack` has it,
/// and a process without a server does not know the release of another.
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

/// Returns a decoder of what a process packed.
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
            // SAFETY: C says so.
            let buffer = unsafe { there_mut(buffer)? };
            let size = usize::try_from(num_vals).map_err(|_| Status::ERR_BAD_PARAM)?;
            if src.is_null() && size > 0 {
                return Err(Status::ERR_BAD_PARAM);
            }
            let array = pmix_data_array_t { r#type, size, array: src };
            // SAFETY: C says so.
            let data = unsafe { DataArray::from_c(&array)? };
            let packed = encoded(&data, target)?;
            // SAFETY: C says so.
            unsafe { append(buffer, &packed) }
        })())
    }

    fn PMIx_Data_unpack(source: *const pmix_proc_t, buffer: *mut pmix_data_buffer_t, dest: *mut c_void, max_num_values: *mut i32, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let (buffer, number) = unsafe { (there_mut(buffer)?, there_mut(max_num_values)?) };
            // Until something is there; a caller that has no room gives no number below zero by right.
            let room = usize::try_from(std::mem::take(number)).unwrap_or(0);
            if dest.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: C says so.
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
            // SAFETY: C has room for as many; what they own is the caller's from now on, the rest is freed.
            unsafe {
                ptr::copy_nonoverlapping(made.array.cast::<u8>(), dest.cast::<u8>(), taken * known.size);
                for place in taken..made.size {
                    known.clear(made.array.byte_add(place * known.size));
                }
                release(made.array);
            }
            // There is no more room than an `i32` counts.
            *number = i32::try_from(taken).unwrap_or(i32::MAX);
            if taken < made.size {
                // DEVIATION: OpenPMIx leaves the buffer behind those that it unpacked, where nothing can be
                // unpacked any more; here the call may be made again with more room;
                // data_are_made_and_taken_apart.
                return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
            }
            // SAFETY: so many bytes are left behind what was unpacked before.
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
                // A string or a map is its own address, not that of a pointer to it.
                // SAFETY: C says so.
                DataType::STRING => Ok(unsafe { memory::duplicate(src.cast())? }.cast()),
                // SAFETY: as above.
                DataType::REGEX => Ok(unsafe { regex::duplicate(src.cast())? }.cast()),
                // SAFETY: as above.
                _ => unsafe { duplicate_one(&known, src) },
            };
            // SAFETY: as above.
            unsafe { make_at(dest, make) }
        })())
    }

    fn PMIx_Data_copy_payload(dest: *mut pmix_data_buffer_t, src: *mut pmix_data_buffer_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let left = memory::copied(unsafe { left_in(there(src)?) })?;
            // SAFETY: as above.
            unsafe { append(there_mut(dest)?, &left) }
        })())
    }

    fn PMIx_Data_embed(buffer: *mut pmix_data_buffer_t, payload: *const pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let (buffer, payload) = unsafe { (there_mut(buffer)?, there(payload)?) };
            // SAFETY: as above.
            let made = buffer_of(unsafe { slice(payload.bytes.cast::<u8>(), payload.size)? })?;
            // SAFETY: as above.
            unsafe { buffer.empty() };
            *buffer = made;
            Ok(())
        })())
    }

    fn PMIx_Data_load(buffer: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let (buffer, payload) = unsafe { (there_mut(buffer)?, there_mut(payload)?) };
            // SAFETY: as above.
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
            // SAFETY: C says so.
            let (buffer, payload) = unsafe { (there_mut(buffer)?, there_mut(payload)?) };
            // SAFETY: as above.
            *payload = unsafe { unload(buffer)? };
            Ok(())
        })())
    }

    fn PMIx_Data_buffer_load(b: *mut pmix_data_buffer_t, bytes: *mut c_char, sz: usize) {
        // SAFETY: C says so.
        if let Some(buffer) = unsafe { b.as_mut() } {
            // SAFETY: as above.
            unsafe { buffer.empty() };
            if !bytes.is_null() && sz > 0 {
                *buffer = holding(bytes, sz);
            }
        }
    }

    fn PMIx_Data_buffer_unload(b: *mut pmix_data_buffer_t, bytes: *mut *mut c_char, sz: *mut usize) {
        // SAFETY: C says so.
        let moved = unsafe { b.as_mut().map_or_else(|| Ok(pmix_byte_object_t::initial()), |b| unload(b)) };
        let moved = moved.unwrap_or_else(|_| pmix_byte_object_t::initial());
        // SAFETY: as above.
        unsafe {
            // Who gives no place for them does not want them.
            let _ = write_to(bytes, moved.bytes);
            let _ = write_to(sz, moved.size);
        }
    }

    fn PMIx_Data_print(output: *mut *mut c_char, prefix: *mut c_char, src: *mut c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let prefix = unsafe { memory::text(prefix) }.unwrap_or_default();
            // A string or a map is its own address, not that of a pointer to it.
            let mut string = src;
            let at = match DataType::from_raw(r#type) {
                DataType::STRING | DataType::REGEX => ptr::from_mut(&mut string).cast(),
                _ => src,
            };
            let size = usize::from(!src.is_null());
            let array = pmix_data_array_t { r#type, size, array: at };
            let data = match DataType::from_raw(r#type) {
                // A description is shown by its source: only its library could show more.
                // SAFETY: `src` is NULL or leads to a topology (header contract).
                DataType::TOPO => unsafe { sources(src.cast())? },
                // SAFETY: C says so.
                _ => unsafe { DataArray::from_c(&array)? },
            };
            memory::reserve(data.measure(Measure::Shown).saturating_add(prefix.len()))?;
            let line = [prefix, data.to_string().as_bytes()].concat();
            // SAFETY: as above.
            unsafe { make_at(output, || memory::string(&line)) }
        })())
    }

    fn PMIx_Data_compress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        // SAFETY: C says so.
        let from = unsafe { slice(inbytes, size) }.ok();
        from.and_then(compressed).is_some_and(|made| {
            // SAFETY: as above.
            unsafe { hand_out(&made, outbytes, nbytes) }.is_ok()
        })
    }

    fn PMIx_Data_decompress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        // SAFETY: C says so.
        let from = unsafe { slice(inbytes, size) }.ok();
        from.and_then(decompressed).is_some_and(|made| {
            // SAFETY: as above.
            unsafe { hand_out(&made, outbytes, nbytes) }.is_ok()
        })
    }
}

/// Returns a topology for people.
///
/// # Safety
/// `at` is NULL or leads to a valid topology.
unsafe fn sources(at: *const pmix_topology_t) -> Result<DataArray<'static>> {
    // SAFETY: the caller guarantees it.
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

/// Moves what is not unpacked yet out of a buffer.
///
/// # Safety
/// The buffer is valid, and its memory came from the C library.
unsafe fn unload(buffer: &mut pmix_data_buffer_t) -> Result<pmix_byte_object_t> {
    // SAFETY: the caller says so.
    let left = unsafe { left_in(buffer) };
    let size = left.len();
    if size == 0 || ptr::eq(left.as_ptr(), buffer.base_ptr.cast()) {
        let bytes = if size == 0 {
            ptr::null_mut()
        } else {
            buffer.base_ptr
        };
        if size == 0 {
            // SAFETY: the caller says so.
            unsafe { release(buffer.base_ptr) };
        }
        *buffer = pmix_data_buffer_t::initial();
        return Ok(pmix_byte_object_t { bytes, size });
    }
    let bytes = memory::bytes(left)?;
    // SAFETY: the caller says so.
    unsafe { buffer.empty() };
    Ok(pmix_byte_object_t { bytes, size })
}

/// # Safety
/// The pointers are NULL or lead to room for one each.
unsafe fn hand_out(made: &[u8], outbytes: *mut *mut u8, nbytes: *mut usize) -> Result<()> {
    if outbytes.is_null() || nbytes.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller says so.
    unsafe {
        write_to(outbytes, memory::bytes(made)?.cast())?;
        write_to(nbytes, made.len())
    }
}

/// The bytes that a compressor takes for itself, or more.
const ZLIB_BYTES: usize = 512 << 10;

/// The length of the original and a stream of zlib, if that is shorter.
fn compressed(from: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(from.len()).ok()?;
    // The output grows to the length of the input at most, or little more, and the compressor has buffers of its own.
    memory::reserve(from.len().saturating_mul(2).saturating_add(ZLIB_BYTES)).ok()?;
    let mut encoder = ZlibEncoder::new(len.to_ne_bytes().to_vec(), Compression::best());
    encoder.write_all(from).ok()?;
    encoder.finish().ok().filter(|made| made.len() < from.len())
}

fn decompressed(from: &[u8]) -> Option<Vec<u8>> {
    let (len, stream) = from.split_first_chunk::<4>()?;
    let len = u32::from_ne_bytes(*len);
    // Memory grows with the bytes that come, up to the claimed length.
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
