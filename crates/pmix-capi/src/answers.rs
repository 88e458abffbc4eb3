// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adapters that deliver the result of a request to the callback of a C program.

use std::ffi::c_void;
use std::ptr;

use pmix_client::{Answers, Error};
use pmix_types::{Bytes, Info, Nspace, Pdata, Status, Value};

use crate::abi::*;
use crate::callback::Callback;
use crate::convert::fault;
use crate::families::free_one;
use crate::memory::{self, Result, boxed};
use crate::model::{Model, counted};
use crate::record::{Record, empty_list};

type Answer<T> = std::result::Result<T, Error>;

/// A credential and the attributes that describe it.
type Credential = (Vec<u8>, Vec<Info<'static>>);

/// Returns `status` with a C array of `from`, or the error with an empty array if the array cannot be made.
fn listed<M: Model>(status: Status, from: &[M]) -> (Status, *mut M::C, usize) {
    match counted(from) {
        Ok((at, count)) => (status, at, count),
        Err(fault) => (fault, ptr::null_mut(), 0),
    }
}

fn status_of<T>(answer: &Answer<T>) -> Status {
    answer.as_ref().err().map_or(Status::SUCCESS, fault)
}

/// Returns a function that calls `callback` with a status. It does nothing if `callback` is NULL.
pub(crate) fn op(
    callback: pmix_op_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<()>) + Send + 'static> {
    let callback = Callback::new(callback, cbdata);
    Ok(move |answer: Answer<()>| {
        let status = status_of(&answer).as_raw();
        callback.call(move |callback, data| {
            if let Some(callback) = callback {
                // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
                unsafe { callback(status, data) };
            }
        });
    })
}

/// Returns a function that calls `callback` with a value, and frees the value after the callback returns.
pub(crate) fn value(
    callback: pmix_value_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<Value<'static>>) + Send + 'static> {
    let callback = Callback::new(callback.ok_or(Status::ERR_BAD_PARAM)?, cbdata);
    Ok(move |answer: Answer<Value<'static>>| {
        callback.call(move |callback, data| {
            let status = status_of(&answer);
            let made = answer.ok().map(|value| value.to_c().and_then(boxed));
            let (status, at) = match made {
                Some(Ok(at)) => (status, at),
                Some(Err(status)) => (status, ptr::null_mut()),
                None => (status, ptr::null_mut()),
            };
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `at` is NULL or
            // was allocated here, and nothing else frees it.
            unsafe {
                callback(status.as_raw(), at, data);
                free_one(at);
            }
        });
    })
}

/// Frees the array that [`infos`] passed to a callback.
pub(crate) unsafe extern "C" fn release_array(given: *mut c_void) {
    let free = move || {
        if !given.is_null() {
            // SAFETY: `infos` made `given` with `Box::into_raw`, and the header allows one call of the release
            // function.
            let mut array = *unsafe { Box::from_raw(given.cast::<pmix_data_array_t>()) };
            // SAFETY: the array was made by `to_c`, so all that it owns came from the C library.
            unsafe { array.empty() };
        }
    };
    crate::guard::guard("release", free);
}

/// Returns a function that calls `callback` with infos, which the program frees with the release function. It does
/// nothing if `callback` is NULL: Open MPI 4 registers its cleanup without a callback.
pub(crate) fn infos(
    callback: pmix_info_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<Answers>) + Send + 'static> {
    let callback = Callback::new(callback, cbdata);
    Ok(move |answer: Answer<Answers>| {
        callback.call(move |callback, data| {
            let Some(callback) = callback else { return };
            let failed = status_of(&answer);
            let (status, found) = answer.unwrap_or((failed, Vec::new()));
            let array = pmix_types::DataArray::Info(found);
            let (status, made) = match array.to_c() {
                Ok(made) => (status, made),
                Err(fault) => (fault, pmix_data_array_t::initial()),
            };
            let given = Box::into_raw(Box::new(made));
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `made` is valid
            // until the program calls `release_array` with `given`.
            unsafe {
                callback(
                    status.as_raw(),
                    made.array.cast(),
                    made.size,
                    data,
                    Some(release_array),
                    given.cast(),
                )
            };
        });
    })
}

/// Published data, and the status that says if all requested keys were found.
type LookedUp = (Status, Vec<Pdata<'static>>);

/// Returns a function that calls `callback` with published data, and frees them after the callback returns.
pub(crate) fn found(
    callback: pmix_lookup_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<LookedUp>) + Send + 'static> {
    let callback = Callback::new(callback.ok_or(Status::ERR_BAD_PARAM)?, cbdata);
    Ok(move |answer: Answer<LookedUp>| {
        callback.call(move |callback, data| {
            let failed = status_of(&answer);
            let (status, found) = answer.unwrap_or((failed, Vec::new()));
            let (status, mut at, mut count) = listed(status, &found);
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `at` has
            // `count` elements, which nothing else frees.
            unsafe {
                callback(status.as_raw(), at, count, data);
                empty_list(&mut at, &mut count);
            }
        });
    })
}

/// Returns a function that calls `callback` with the namespace of the spawned job.
pub(crate) fn spawned(
    callback: pmix_spawn_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<Nspace<'static>>) + Send + 'static> {
    let callback = Callback::new(callback.ok_or(Status::ERR_BAD_PARAM)?, cbdata);
    Ok(move |answer: Answer<Nspace<'static>>| {
        callback.call(move |callback, data| {
            let status = status_of(&answer);
            let mut name: pmix_nspace_t = [0; 256];
            memory::fill(&mut name, answer.unwrap_or_default().as_bytes());
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `name` ends
            // with a NUL and outlives the callback.
            unsafe { callback(status.as_raw(), name.as_mut_ptr(), data) };
        });
    })
}

/// Returns a function that calls `callback` with a credential, and frees it after the callback returns.
pub(crate) fn credential(
    callback: pmix_credential_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<Credential>) + Send + 'static> {
    let callback = Callback::new(callback.ok_or(Status::ERR_BAD_PARAM)?, cbdata);
    Ok(move |answer: Answer<Credential>| {
        callback.call(move |callback, data| {
            let status = status_of(&answer);
            let (bytes, infos) = answer.unwrap_or_default();
            let (status, mut at, mut count) = listed(status, &infos);
            let (status, mut object) = match Bytes::from(bytes).to_c() {
                Ok(object) => (status, object),
                Err(fault) => (fault, pmix_byte_object_t::initial()),
            };
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `object` and
            // the `count` infos at `at` were made here, and nothing else frees them.
            unsafe {
                callback(status.as_raw(), &raw mut object, at, count, data);
                object.empty();
                empty_list(&mut at, &mut count);
            }
        });
    })
}

/// Returns a function that calls `callback` with the result of a validation, and frees it after the callback returns.
pub(crate) fn validated(
    callback: pmix_validation_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<Answers>) + Send + 'static> {
    let callback = Callback::new(callback, cbdata);
    Ok(move |answer: Answer<Answers>| {
        callback.call(move |callback, data| {
            let Some(callback) = callback else { return };
            let failed = status_of(&answer);
            let (status, infos) = answer.unwrap_or((failed, Vec::new()));
            let (status, mut at, mut count) = listed(status, &infos);
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `at` has
            // `count` elements, which nothing else frees.
            unsafe {
                callback(status.as_raw(), at, count, data);
                empty_list(&mut at, &mut count);
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pmix_types::Topology;

    use super::*;
    use crate::memory::shortage;

    /// The number of infos that the callbacks received, and the number of these that had text.
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    static TEXTS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn seen(
        _: pmix_status_t,
        at: *mut pmix_info_t,
        count: usize,
        _: *mut c_void,
        release: pmix_release_cbfunc_t,
        given: *mut c_void,
    ) {
        for place in 0..count {
            // SAFETY: the library passes `count` valid infos at `at`.
            let info = unsafe { &*at.add(place) };
            SEEN.fetch_add(1, Ordering::Relaxed);
            if info.value.r#type == pmix_types::DataType::STRING.as_raw() {
                TEXTS.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(release) = release {
            // SAFETY: the library passed `given` for this release function, which is called once.
            unsafe { release(given) };
        }
    }

    unsafe extern "C" fn seen_without_release(
        status: pmix_status_t,
        at: *mut pmix_info_t,
        count: usize,
        data: *mut c_void,
    ) {
        // SAFETY: the library passes `count` valid infos at `at`; without a release function nothing is freed.
        unsafe { seen(status, at, count, data, None, ptr::null_mut()) };
    }

    /// The status of each callback that was short of memory, and the number of elements or bytes that it was given.
    static GIVEN: Mutex<Vec<(Status, usize)>> = Mutex::new(Vec::new());

    unsafe extern "C" fn given_infos(
        status: pmix_status_t,
        _: *mut pmix_info_t,
        count: usize,
        _: *mut c_void,
        release: pmix_release_cbfunc_t,
        given: *mut c_void,
    ) {
        note(status, count);
        if let Some(release) = release {
            // SAFETY: the library passed `given` for this release function, which is called once.
            unsafe { release(given) };
        }
    }

    unsafe extern "C" fn given_checked(
        status: pmix_status_t,
        _: *mut pmix_info_t,
        count: usize,
        _: *mut c_void,
    ) {
        note(status, count);
    }

    unsafe extern "C" fn given_found(
        status: pmix_status_t,
        _: *mut pmix_pdata_t,
        count: usize,
        _: *mut c_void,
    ) {
        note(status, count);
    }

    unsafe extern "C" fn given_credential(
        status: pmix_status_t,
        credential: *mut pmix_byte_object_t,
        _: *mut pmix_info_t,
        count: usize,
        _: *mut c_void,
    ) {
        // SAFETY: the library passes a pointer to a valid byte object.
        note(status, unsafe { (*credential).size } + count);
    }

    fn note(status: pmix_status_t, count: usize) {
        GIVEN
            .lock()
            .unwrap()
            .push((Status::from_raw(status), count));
    }

    #[test]
    fn what_there_is_no_memory_for_is_a_failure_and_no_success_without_data() {
        let none = ptr::null_mut();
        let pdata = || Pdata {
            proc: pmix_types::Proc::new("job", pmix_types::Rank::new(0)),
            key: "app.key".into(),
            value: Value::from("text".to_owned()),
        };
        let all = |most| {
            GIVEN.lock().unwrap().clear();
            shortage::with_most(most, || {
                let said = || {
                    (
                        Status::SUCCESS,
                        vec![Info::new("app.key", "text".to_owned())],
                    )
                };
                infos(Some(given_infos), none).unwrap()(Ok(said()));
                validated(Some(given_checked), none).unwrap()(Ok(said()));
                found(Some(given_found), none).unwrap()(Ok((Status::SUCCESS, vec![pdata()])));
                let credential = credential(Some(given_credential), none).unwrap();
                credential(Ok((vec![7; 1000], Vec::new())));
            });
            GIVEN.lock().unwrap().clone()
        };
        let given = [1, 1, 1, 1000].map(|count| (Status::SUCCESS, count));
        assert_eq!(all(usize::MAX), given);
        assert_eq!(all(100), [(Status::ERR_NOMEM, 0); 4]);
    }

    /// Returns the description of a machine, which has no C form in this library.
    fn described() -> Topology<'static> {
        Topology {
            topology: Some("<topology/>".into()),
            ..Topology::default()
        }
    }

    /// Returns two infos, the second of which has a value without a C form.
    fn infos_with_hardware(text: &str) -> Vec<Info<'static>> {
        let topology = Value::Topology(Box::new(described()));
        vec![
            Info::new("text", text.to_owned()),
            Info::new("hardware", topology),
        ]
    }

    #[test]
    fn infos_beside_hardware_are_shown_and_there_are_as_many_as_are_said() {
        let said = || (Status::SUCCESS, infos_with_hardware("text"));
        let array = pmix_types::DataArray::Topology(vec![described()]);
        let nested = vec![Info::new("array", Value::DataArray(array))];
        infos(Some(seen), ptr::null_mut()).unwrap()(Ok(said()));
        validated(Some(seen_without_release), ptr::null_mut()).unwrap()(Ok(said()));
        infos(Some(seen), ptr::null_mut()).unwrap()(Ok((Status::SUCCESS, nested)));
        assert_eq!(SEEN.load(Ordering::Relaxed), 5);
        assert_eq!(TEXTS.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_cannot_be_shown_leaves_no_memory_behind() {
        let resident = || -> usize {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse().unwrap()
        };
        let big = pmix_types::App {
            cmd: Some(pmix_types::Text::from("x".repeat(4 << 20))),
            ..Default::default()
        };
        // An array of arrays has no C form if one of its members has none. The members before that one are made
        // first, and must be freed.
        let array = pmix_types::DataArray::Topology(vec![described()]);
        let all =
            pmix_types::DataArray::DataArray(vec![pmix_types::DataArray::App(vec![big]), array]);
        let before = resident();
        for _ in 0..256 {
            assert!(all.to_c().is_err());
        }
        let pages = resident() - before.min(resident());
        // A quarter of the pages that a leak would cost; other tests allocate memory at the same time.
        assert!(pages < 65_536, "{pages} pages more");
    }
}
