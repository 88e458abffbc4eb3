// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callbacks of C as what is done with an answer.

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

/// A credential and what is said about it.
type Credential = (Vec<u8>, Vec<Info<'static>>);

/// Makes a list for a callback. The status is the given one, or that of the failure if the list cannot be made.
fn listed<M: Model>(status: Status, from: &[M]) -> (Status, *mut M::C, usize) {
    match counted(from) {
        Ok((at, count)) => (status, at, count),
        Err(fault) => (fault, ptr::null_mut(), 0),
    }
}

fn status_of<T>(answer: &Answer<T>) -> Status {
    answer.as_ref().err().map_or(Status::SUCCESS, fault)
}

/// Calls back with a status; without a callback nobody is told.
pub(crate) fn op(
    callback: pmix_op_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<impl FnOnce(Answer<()>) + Send + 'static> {
    let callback = Callback::new(callback, cbdata);
    Ok(move |answer: Answer<()>| {
        let status = status_of(&answer).as_raw();
        callback.call(move |callback, data| {
            if let Some(callback) = callback {
                // SAFETY: C gave the function and what it is given.
                unsafe { callback(status, data) };
            }
        });
    })
}

/// Calls back with a value, which is freed afterwards.
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
            // SAFETY: C gave the function and what it is given; the value is ours.
            unsafe {
                callback(status.as_raw(), at, data);
                free_one(at);
            }
        });
    })
}

/// Frees the array that a callback was given.
pub(crate) unsafe extern "C" fn release_array(given: *mut c_void) {
    let free = move || {
        if !given.is_null() {
            // SAFETY: it is what was made for the callback.
            let mut array = *unsafe { Box::from_raw(given.cast::<pmix_data_array_t>()) };
            // SAFETY: as above.
            unsafe { array.empty() };
        }
    };
    crate::guard::guard("release", free);
}

/// Calls back with infos, which are freed when C says so; without a callback nobody is told, as Open
/// MPI 4 has its cleanup registered.
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
            // SAFETY: C gave the function and what it is given; the release function frees the rest.
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

/// Published data, and whether they are all that was looked for.
type LookedUp = (Status, Vec<Pdata<'static>>);

/// Calls back with published data, which are freed afterwards, and whether they are all that was asked for.
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
            // SAFETY: C gave the function and what it is given; the list is ours.
            unsafe {
                callback(status.as_raw(), at, count, data);
                empty_list(&mut at, &mut count);
            }
        });
    })
}

/// Calls back with the name of a job.
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
            // SAFETY: C gave the function and what it is given.
            unsafe { callback(status.as_raw(), name.as_mut_ptr(), data) };
        });
    })
}

/// Calls back with a credential, which is freed afterwards.
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
            // SAFETY: C gave the function and what it is given; the rest is ours.
            unsafe {
                callback(status.as_raw(), &raw mut object, at, count, data);
                object.empty();
                empty_list(&mut at, &mut count);
            }
        });
    })
}

/// Calls back with what a check of a credential brought, which is freed afterwards.
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
            // SAFETY: C gave the function and what it is given; the list is ours.
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

    /// How many infos the callback has seen, and how many of these had text.
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
            // SAFETY: the library says that there are so many.
            let info = unsafe { &*at.add(place) };
            SEEN.fetch_add(1, Ordering::Relaxed);
            if info.value.r#type == pmix_types::DataType::STRING.as_raw() {
                TEXTS.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(release) = release {
            // SAFETY: as it was given.
            unsafe { release(given) };
        }
    }

    unsafe extern "C" fn seen_without_release(
        status: pmix_status_t,
        at: *mut pmix_info_t,
        count: usize,
        data: *mut c_void,
    ) {
        // SAFETY: as the library says.
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
            // SAFETY: the library gave the function with its argument.
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
        // SAFETY: the library gives a pointer to a valid object.
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

    /// A description of a machine, which C cannot be shown.
    fn described() -> Topology<'static> {
        Topology {
            topology: Some("<topology/>".into()),
            ..Topology::default()
        }
    }

    /// Infos of which C can be shown all but the value of the last.
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
        // An array of arrays cannot be shown if one of them cannot; what stands before it is made first.
        let array = pmix_types::DataArray::Topology(vec![described()]);
        let all =
            pmix_types::DataArray::DataArray(vec![pmix_types::DataArray::App(vec![big]), array]);
        let before = resident();
        for _ in 0..256 {
            assert!(all.to_c().is_err());
        }
        let pages = resident() - before.min(resident());
        // A quarter of what would be lost; other tests take memory meanwhile.
        assert!(pages < 65_536, "{pages} pages more");
    }
}
