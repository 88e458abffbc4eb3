// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delivery of results to the callbacks of a program, by the type of the callback.
//!
//! The library owns the arguments of a callback and frees them when it returns. A callback with a release function
//! owns them until it calls that function.

use std::ffi::c_void;
use std::ptr;

use pmix_client::{Answers, Call};
use pmix_types::{Bytes, DeviceDistance, Info, Nspace, Pdata, Status, Value};

use crate::abi::*;
use crate::callback::{Callback, Deliver};
use crate::convert::fault;
use crate::memory::{self, Result};
use crate::model::Model;
use crate::owned::CArray;
use crate::record::Record;

/// A credential and the attributes that describe it.
pub(crate) type Credential = (Vec<u8>, Vec<Info<'static>>);

fn status_of<T>(answer: &Result<T>) -> Status {
    answer.as_ref().err().copied().unwrap_or(Status::SUCCESS)
}

/// Returns `status` with a C array, or the error with an empty array if the array cannot be made.
fn listed<M: Model>(status: Status, from: &[M]) -> (Status, CArray<M::C>) {
    match CArray::of(from) {
        Ok(array) => (status, array),
        Err(fault) => (fault, CArray::empty()),
    }
}

/// Frees the array that [`owned_by_program`] passed to a callback.
unsafe extern "C" fn release_array<T: Record>(given: *mut c_void) {
    crate::guard::guard::<(), _>("release", || {
        if !given.is_null() {
            // SAFETY: `owned_by_program` made `given`, and the header allows one call of the release function.
            drop(unsafe { Box::from_raw(given.cast::<CArray<T>>()) });
        }
        Ok(())
    });
}

/// Frees the infos of `PMIx_server_setup_application`, whose release function receives a status as well.
unsafe extern "C" fn release_setup(_status: pmix_status_t, given: *mut c_void) {
    // SAFETY: the header allows one call with the pointer that the callback received.
    unsafe { release_array::<pmix_info_t>(given) };
}

/// Returns an array that the program frees with a release function: its address, length and `release_cbdata`.
fn owned_by_program<T: Record>(array: CArray<T>) -> (*mut T, usize, *mut c_void) {
    let (at, count) = (array.as_mut_ptr(), array.len());
    (at, count, Box::into_raw(Box::new(array)).cast())
}

/// Implements `Deliver`. The body is unsafe only to call the function.
macro_rules! deliver {
    ($($callback:ty: |$function:ident, $result:ident: $type:ty, $cbdata:ident| { $($body:tt)* })*) => {
        $(impl Deliver for $callback {
            type Result = $type;

            fn is_null(&self) -> bool {
                self.is_none()
            }

            unsafe fn deliver(self, $result: $type, $cbdata: *mut c_void) {
                let Some($function) = self else { return };
                // SAFETY: the caller guarantees that the program passed the function with this `cbdata`. The other
                // arguments are those of the header, and the body keeps them until the function returns.
                unsafe { $($body)* }
            }
        })*
    };
}

deliver! {
    pmix_op_cbfunc_t: |function, answer: Result<()>, cbdata| {
        function(status_of(&answer).as_raw(), cbdata);
    }

    pmix_release_cbfunc_t: |function, _nothing: (), cbdata| {
        function(cbdata);
    }

    // The status of a registration, and the number of the handler.
    pmix_hdlr_reg_cbfunc_t: |function, answer: (Status, usize), cbdata| {
        function(answer.0.as_raw(), answer.1, cbdata);
    }

    pmix_value_cbfunc_t: |function, answer: Result<Value<'static>>, cbdata| {
        let failed = status_of(&answer);
        let (status, value) = listed(failed, answer.as_ref().map(std::slice::from_ref).unwrap_or_default());
        function(status.as_raw(), value.as_mut_ptr(), cbdata);
    }

    pmix_info_cbfunc_t: |function, answer: Result<Answers>, cbdata| {
        let failed = status_of(&answer);
        let (status, found) = answer.unwrap_or((failed, Vec::new()));
        let (status, infos) = listed(status, &found);
        let (at, count, given) = owned_by_program(infos);
        function(status.as_raw(), at, count, cbdata, Some(release_array::<pmix_info_t>), given);
    }

    pmix_device_dist_cbfunc_t: |function, answer: Result<Vec<DeviceDistance<'static>>>, cbdata| {
        let failed = status_of(&answer);
        let (status, distances) = listed(failed, &answer.unwrap_or_default());
        let (at, count, given) = owned_by_program(distances);
        function(status.as_raw(), at, count, cbdata, Some(release_array::<pmix_device_distance_t>), given);
    }

    pmix_setup_application_cbfunc_t: |function, made: Vec<Info<'static>>, cbdata| {
        let (status, infos) = listed(Status::SUCCESS, &made);
        let (at, count, given) = owned_by_program(infos);
        function(status.as_raw(), at, count, cbdata, Some(release_setup), given);
    }

    pmix_lookup_cbfunc_t: |function, answer: Result<(Status, Vec<Pdata<'static>>)>, cbdata| {
        let failed = status_of(&answer);
        let (status, found) = answer.unwrap_or((failed, Vec::new()));
        let (status, found) = listed(status, &found);
        function(status.as_raw(), found.as_mut_ptr(), found.len(), cbdata);
    }

    pmix_spawn_cbfunc_t: |function, answer: Result<Nspace<'static>>, cbdata| {
        let status = status_of(&answer);
        let mut name: pmix_nspace_t = [0; 256];
        memory::fill(&mut name, answer.unwrap_or_default().as_bytes());
        function(status.as_raw(), name.as_mut_ptr(), cbdata);
    }

    pmix_credential_cbfunc_t: |function, answer: Result<Credential>, cbdata| {
        let failed = status_of(&answer);
        let (bytes, infos) = answer.unwrap_or_default();
        let (status, infos) = listed(failed, &infos);
        let (status, object) = listed(status, &[Bytes::from(bytes)]);
        // Without memory for the object, the program still receives a valid one, which is empty.
        let mut empty = pmix_byte_object_t::initial();
        let object = ptr::NonNull::new(object.as_mut_ptr()).map_or(&raw mut empty, ptr::NonNull::as_ptr);
        function(status.as_raw(), object, infos.as_mut_ptr(), infos.len(), cbdata);
    }

    pmix_validation_cbfunc_t: |function, answer: Result<Answers>, cbdata| {
        let failed = status_of(&answer);
        let (status, infos) = answer.unwrap_or((failed, Vec::new()));
        let (status, infos) = listed(status, &infos);
        function(status.as_raw(), infos.as_mut_ptr(), infos.len(), cbdata);
    }

    pmix_dmodex_response_fn_t: |function, answer: Result<Vec<u8>>, cbdata| {
        let failed = status_of(&answer);
        let data = answer.unwrap_or_default();
        let (status, at, len) = match memory::bytes(&data) {
            Ok(at) => (failed, at, data.len()),
            Err(fault) => (fault, ptr::null_mut(), 0),
        };
        function(status.as_raw(), at, len, cbdata);
        memory::release(at);
    }
}

/// Makes a call of a client and waits for the result.
pub(crate) fn wait<T>(call: Call<'_, T>) -> Result<T> {
    call.wait().map_err(|error| fault(&error))
}

/// Makes a call of a client and passes its result to a function.
pub(crate) fn start<T: Send + 'static>(
    call: Call<'_, T>,
    then: impl FnOnce(Result<T>) + Send + 'static,
) -> Result<()> {
    let then = move |answer: std::result::Result<T, pmix_client::Error>| {
        then(answer.map_err(|error| fault(&error)));
    };
    call.start(then).map_err(|error| fault(&error))
}

/// Makes a call of a client and delivers its result to a callback.
pub(crate) fn call_back<T: Send + 'static, F: Deliver<Result = Result<T>>>(
    call: Call<'_, T>,
    callback: Callback<F>,
) -> Result<()> {
    start(call, |answer| callback.complete(answer))
}

#[cfg(test)]
mod tests {
    use std::ffi::c_char;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pmix_types::Topology;

    use super::*;
    use crate::convert::Data;
    use crate::memory::shortage;

    fn of<F: Deliver>(function: F) -> Callback<F> {
        // SAFETY: the functions of these tests accept any `cbdata`.
        unsafe { Callback::new(function, Data(ptr::null_mut())) }
    }

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
    fn a_result_without_memory_for_it_is_a_failure_and_no_success_without_data() {
        let pdata = || Pdata {
            proc: pmix_types::Proc::new("job", pmix_types::Rank::new(0)),
            key: "app.key".into(),
            value: Value::from("text".to_owned()),
        };
        let all = |most| {
            GIVEN.lock().unwrap().clear();
            shortage::with_most(most, || {
                let answer = || {
                    (
                        Status::SUCCESS,
                        vec![Info::new("app.key", "text".to_owned())],
                    )
                };
                of::<pmix_info_cbfunc_t>(Some(given_infos)).complete(Ok(answer()));
                of::<pmix_validation_cbfunc_t>(Some(given_checked)).complete(Ok(answer()));
                let found = Ok((Status::SUCCESS, vec![pdata()]));
                of::<pmix_lookup_cbfunc_t>(Some(given_found)).complete(found);
                let credential = of::<pmix_credential_cbfunc_t>(Some(given_credential));
                credential.complete(Ok((vec![7; 1000], Vec::new())));
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
    fn infos_beside_hardware_are_delivered_with_their_count() {
        let answer = || (Status::SUCCESS, infos_with_hardware("text"));
        let array = pmix_types::DataArray::Topology(vec![described()]);
        let nested = vec![Info::new("array", Value::DataArray(array))];
        of::<pmix_info_cbfunc_t>(Some(seen)).complete(Ok(answer()));
        of::<pmix_validation_cbfunc_t>(Some(seen_without_release)).complete(Ok(answer()));
        of::<pmix_info_cbfunc_t>(Some(seen)).complete(Ok((Status::SUCCESS, nested)));
        assert_eq!(SEEN.load(Ordering::Relaxed), 5);
        assert_eq!(TEXTS.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn an_array_without_a_c_form_leaks_no_memory() {
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

    /// The last status and length passed to the callback, and `true` if the pointer was NULL.
    static MODEX: Mutex<(Status, bool, usize)> = Mutex::new((Status::ERROR, false, 0));

    unsafe extern "C" fn given_modex(
        status: pmix_status_t,
        at: *mut c_char,
        len: usize,
        _: *mut c_void,
    ) {
        *MODEX.lock().unwrap() = (Status::from_raw(status), at.is_null(), len);
    }

    #[test]
    fn the_host_gets_an_error_and_no_length_if_there_is_no_memory_for_the_data() {
        let answer = |most| {
            let callback = of::<pmix_dmodex_response_fn_t>(Some(given_modex));
            shortage::with_most(most, || callback.complete(Ok(vec![7; 1000])));
            *MODEX.lock().unwrap()
        };
        assert_eq!(answer(1000), (Status::SUCCESS, false, 1000));
        assert_eq!(answer(999), (Status::ERR_NOMEM, true, 0));
    }
}
