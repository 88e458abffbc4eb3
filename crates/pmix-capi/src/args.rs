// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters of the exported functions: for each kind, its types in C and the Rust value that a body receives.
//!
//! [`exported!`](crate::guard::exported) names a parameter by a type of this module and converts the arguments in the
//! order of the header. The conversion is the only place that relies on the contract of the headers: a pointer is NULL
//! or valid for its type, a count is that of the array beside it, a string has a NUL, and a pointer to a result is NULL
//! or writable. All of that holds until the function returns.
//!
//! | kind | in C | in Rust |
//! | --- | --- | --- |
//! | [`Infos`], [`Procs`], [`List`] | pointer and count | a vector; NULL is an empty one |
//! | [`Proc`], [`Value`], [`Info`], [`One`] | pointer | the value; NULL is an error |
//! | [`Text`], [`Key`], [`Nspace`], [`Job`], [`Str`], [`Array`], [`Strings`] | `char *`, `char **` | the text |
//! | [`In`], [`Slice`], [`Held`] | pointer | the C structure itself |
//! | [`Out`], [`OutList`], [`OutArray`] | pointer, or two | the place of a result |
//! | [`Callback`](self::Callback), [`Required`] | function and `cbdata` | the callback |
//! | [`Maybe`] | pointer | `None` for NULL |
//! | [`NonEmpty`] | pointer and count | a vector; an empty one is an error |

mod results;

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;

use pmix_types as model;
use pmix_types::*;

use crate::abi::*;
use crate::convert;
use crate::memory::{self, Result};
use crate::model::{Model, many};
use crate::owned::CArray;
use crate::record::Record;
use crate::valid::Valid;

pub(crate) use results::*;

/// The lifetime of one call of an exported function. Arguments that are not copied are borrowed for this lifetime.
pub(crate) struct CallScope(());

impl CallScope {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

/// A kind of parameter that is one parameter in C.
pub(crate) trait Parameter {
    /// The type in the prototype.
    type C: Copy;
    /// The type that the body receives.
    type Given<'c>;

    /// Resets the results before any argument is checked, so that the program sees them if the function fails.
    ///
    /// # Safety
    /// The argument obeys the contract of the header.
    unsafe fn reset(_: Self::C) {}

    /// Converts the argument.
    ///
    /// # Safety
    /// The argument obeys the contract of the header for the whole scope.
    unsafe fn take(given: Self::C, scope: &CallScope) -> Result<Self::Given<'_>>;
}

/// A kind of parameter that is two parameters in C, such as an array and its count.
pub(crate) trait Pair {
    /// The types in the prototype.
    type First: Copy;
    type Second: Copy;
    /// The type that the body receives.
    type Given<'c>;

    /// Resets the results before any argument is checked.
    ///
    /// # Safety
    /// The arguments obey the contract of the header.
    unsafe fn reset(_: Self::First, _: Self::Second) {}

    /// Converts the arguments.
    ///
    /// # Safety
    /// The arguments obey the contract of the header for the whole scope.
    unsafe fn take(
        first: Self::First,
        second: Self::Second,
        scope: &CallScope,
    ) -> Result<Self::Given<'_>>;
}

/// The pointer types of C. Some headers declare arguments without `const` that are only read.
pub(crate) trait Pointer {
    type To<T>: Address<T>;
}

/// A pointer to constant data.
pub(crate) struct Const;

/// A pointer without `const`.
pub(crate) struct Mut;

impl Pointer for Const {
    type To<T> = *const T;
}

impl Pointer for Mut {
    type To<T> = *mut T;
}

/// A pointer in C to data that the library reads.
pub(crate) trait Address<T>: Copy {
    fn address(self) -> *const T;
}

impl<T> Address<T> for *const T {
    fn address(self) -> *const T {
        self
    }
}

impl<T> Address<T> for *mut T {
    fn address(self) -> *const T {
        self.cast_const()
    }
}

/// A parameter of C that may be NULL.
pub(crate) trait Nullable: Copy {
    fn is_null(self) -> bool;
}

impl<T> Nullable for *const T {
    fn is_null(self) -> bool {
        self.is_null()
    }
}

impl<T> Nullable for *mut T {
    fn is_null(self) -> bool {
        self.is_null()
    }
}

macro_rules! numbers {
    (plain { $($plain:ty),* } model { $($type:ident($c:ty)),* $(,)? }) => {
        $(impl Parameter for $plain {
            type C = $plain;
            type Given<'c> = $plain;

            unsafe fn take(given: $plain, _: &CallScope) -> Result<$plain> {
                Ok(given)
            }
        })*

        $(impl Parameter for $type {
            type C = $c;
            type Given<'c> = $type;

            unsafe fn take(given: $c, _: &CallScope) -> Result<$type> {
                Ok($type::from_raw(given))
            }
        })*
    };
}

numbers! {
    plain {
        bool, u8, u16, u32, usize, i32, c_char, *mut c_void, *mut c_char, *mut *mut c_char,
        *mut pmix_server_module_t, pmix_notification_fn_t, pmix_iof_cbfunc_t
    }
    model {
        AllocDirective(u8), AllocInheritance(u8), DataRange(u8), DataType(u16), DeviceType(u64), GroupOperation(u32),
        GroupOption(u32), InfoFlags(u32), IofChannel(u16), JobState(u8), LinkState(u8), Persistence(u8),
        ProcState(u8), Rank(u32), ResourceBlockDirective(u8), Scope(u8), Status(i32),
    }
}

/// NULL, or another kind of parameter.
pub(crate) struct Maybe<P>(PhantomData<P>);

impl<P: Parameter<C: Nullable>> Parameter for Maybe<P> {
    type C = P::C;
    type Given<'c> = Option<P::Given<'c>>;

    unsafe fn reset(given: P::C) {
        // SAFETY: the caller guarantees what `P` needs.
        unsafe { P::reset(given) };
    }

    unsafe fn take(given: P::C, scope: &CallScope) -> Result<Option<P::Given<'_>>> {
        match given.is_null() {
            true => Ok(None),
            // SAFETY: the caller guarantees what `P` needs.
            false => unsafe { P::take(given, scope) }.map(Some),
        }
    }
}

/// A C structure that the body converts or copies itself; NULL is an error.
pub(crate) struct In<T, K = Const>(PhantomData<(T, K)>);

impl<T: 'static, K: Pointer> Parameter for In<T, K> {
    type C = K::To<T>;
    type Given<'c> = Valid<'c, T>;

    unsafe fn take(given: K::To<T>, _: &CallScope) -> Result<Valid<'_, T>> {
        // SAFETY: the header requires the pointer to be NULL or valid, with all that the structure points to.
        unsafe { given.address().as_ref().map(|at| Valid::new(at)) }.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// A value of the model that a C structure holds; NULL is an error.
pub(crate) struct One<M, K = Const>(PhantomData<(M, K)>);

impl<M: Model<C: 'static> + 'static, K: Pointer> Parameter for One<M, K> {
    type C = K::To<M::C>;
    type Given<'c> = M;

    unsafe fn take(given: K::To<M::C>, scope: &CallScope) -> Result<M> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `In`.
        M::from_c(unsafe { In::<M::C, K>::take(given, scope)? })
    }
}

pub(crate) type Proc<K = Const> = One<model::Proc<'static>, K>;
pub(crate) type Value<K = Const> = One<model::Value<'static>, K>;
pub(crate) type Info<K = Const> = One<model::Info<'static>, K>;
/// The bytes of a byte object.
pub(crate) type ByteObject<K = Const> = One<Bytes<'static>, K>;

/// An array of C structures.
pub(crate) struct Slice<T, K = Const>(PhantomData<(T, K)>);

impl<T: 'static, K: Pointer> Pair for Slice<T, K> {
    type First = K::To<T>;
    type Second = usize;
    type Given<'c> = Valid<'c, [T]>;

    unsafe fn take(first: K::To<T>, count: usize, _: &CallScope) -> Result<Valid<'_, [T]>> {
        // SAFETY: the header requires NULL or `count` valid elements.
        unsafe { Valid::slice(first.address(), count) }
    }
}

/// The values of the model that a C array holds.
pub(crate) struct List<M, K = Const>(PhantomData<(M, K)>);

impl<M: Model<C: 'static> + 'static, K: Pointer> Pair for List<M, K> {
    type First = K::To<M::C>;
    type Second = usize;
    type Given<'c> = Vec<M>;

    unsafe fn take(first: K::To<M::C>, count: usize, scope: &CallScope) -> Result<Vec<M>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Slice`.
        many(unsafe { Slice::<M::C, K>::take(first, count, scope)? })
    }
}

pub(crate) type Procs<K = Const> = List<model::Proc<'static>, K>;
pub(crate) type Apps<K = Const> = List<App<'static>, K>;
pub(crate) type Queries<K = Const> = List<Query<'static>, K>;

/// Infos. An info whose value only a hardware library can read is skipped, unless it is required.
pub(crate) struct Infos<K = Const>(PhantomData<K>);

impl<K: Pointer> Pair for Infos<K> {
    type First = K::To<pmix_info_t>;
    type Second = usize;
    type Given<'c> = Vec<model::Info<'static>>;

    unsafe fn take(
        first: K::To<pmix_info_t>,
        count: usize,
        scope: &CallScope,
    ) -> Result<Vec<model::Info<'static>>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Slice`.
        convert::infos_of(unsafe { Slice::<pmix_info_t, K>::take(first, count, scope)? })
    }
}

/// An array of the program whose elements the function changes.
pub(crate) struct Elements<T>(PhantomData<T>);

impl<T: Record + 'static> Pair for Elements<T> {
    type First = *mut T;
    type Second = usize;
    type Given<'c> = crate::owned::HeldArray<'c, T>;

    unsafe fn take(
        first: *mut T,
        count: usize,
        _: &CallScope,
    ) -> Result<crate::owned::HeldArray<'_, T>> {
        // SAFETY: the header requires NULL or `count` constructed elements, which no other thread uses.
        unsafe { crate::owned::HeldArray::new(first, count) }
    }
}

/// An array from a create function, which the function frees. NULL is an empty one.
pub(crate) struct Owned<T>(PhantomData<T>);

impl<T: Record + 'static> Pair for Owned<T> {
    type First = *mut T;
    type Second = usize;
    type Given<'c> = CArray<T>;

    unsafe fn take(first: *mut T, count: usize, _: &CallScope) -> Result<CArray<T>> {
        // SAFETY: the header requires NULL or an array from a create function, which is freed once.
        Ok(unsafe { CArray::new(first, count) })
    }
}

/// A structure from a create function, which the function frees. NULL is an empty array.
pub(crate) struct OwnedOne<T>(PhantomData<T>);

impl<T: Record + 'static> Parameter for OwnedOne<T> {
    type C = *mut T;
    type Given<'c> = CArray<T>;

    unsafe fn take(given: *mut T, _: &CallScope) -> Result<CArray<T>> {
        // SAFETY: the header requires NULL or a structure from a create function, which is freed once.
        Ok(unsafe { CArray::new(given, 1) })
    }
}

/// Another kind of array, of which an empty one is an error.
pub(crate) struct NonEmpty<P>(PhantomData<P>);

/// A kind of parameter that gives a vector.
pub(crate) trait GivesVec: Pair {
    fn is_empty(given: &Self::Given<'_>) -> bool;
}

impl<M: Model<C: 'static> + 'static, K: Pointer> GivesVec for List<M, K> {
    fn is_empty(given: &Vec<M>) -> bool {
        given.is_empty()
    }
}

impl<K: Pointer> GivesVec for Infos<K> {
    fn is_empty(given: &Vec<model::Info<'static>>) -> bool {
        given.is_empty()
    }
}

impl<T: Record + 'static> GivesVec for Elements<T> {
    fn is_empty(given: &crate::owned::HeldArray<'_, T>) -> bool {
        given.is_empty()
    }
}

impl<P: GivesVec> Pair for NonEmpty<P> {
    type First = P::First;
    type Second = P::Second;
    type Given<'c> = P::Given<'c>;

    unsafe fn take(first: P::First, second: P::Second, scope: &CallScope) -> Result<P::Given<'_>> {
        // SAFETY: the caller guarantees what `P` needs.
        let given = unsafe { P::take(first, second, scope)? };
        match P::is_empty(&given) {
            true => Err(Status::ERR_BAD_PARAM),
            false => Ok(given),
        }
    }
}

/// The bytes of a string; NULL is an error.
pub(crate) struct Str<K = Const>(PhantomData<K>);

impl<K: Pointer> Parameter for Str<K> {
    type C = K::To<c_char>;
    type Given<'c> = &'c [u8];

    unsafe fn take(given: K::To<c_char>, _: &CallScope) -> Result<&[u8]> {
        // SAFETY: the header requires NULL or a string.
        unsafe { memory::text(given.address()) }.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// The text of an array of `N` characters, or of a string; NULL is an error.
pub(crate) struct Array<const N: usize, K = Const>(PhantomData<K>);

impl<const N: usize, K: Pointer> Parameter for Array<N, K> {
    type C = K::To<c_char>;
    type Given<'c> = &'c [u8];

    unsafe fn take(given: K::To<c_char>, _: &CallScope) -> Result<&[u8]> {
        // SAFETY: the header requires NULL, a string, or an array of `N` characters.
        unsafe { memory::text_within(given.address(), N) }.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// A string; NULL is an error.
pub(crate) struct Text<K = Const>(PhantomData<K>);

impl<K: Pointer> Parameter for Text<K> {
    type C = K::To<c_char>;
    type Given<'c> = model::Text<'static>;

    unsafe fn take(given: K::To<c_char>, scope: &CallScope) -> Result<model::Text<'static>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Str`.
        memory::copied(unsafe { Str::<K>::take(given, scope)? }).map(model::Text::new)
    }
}

/// A key; NULL, an empty key and a key that is too long are errors.
pub(crate) struct Key(());

impl Parameter for Key {
    type C = *const c_char;
    type Given<'c> = model::Key<'static>;

    unsafe fn take(given: *const c_char, scope: &CallScope) -> Result<model::Key<'static>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Array`.
        convert::key_of(unsafe { Array::<512>::take(given, scope)? })
    }
}

/// A namespace; NULL is an empty one.
pub(crate) struct Nspace<K = Const>(PhantomData<K>);

impl<K: Pointer> Parameter for Nspace<K> {
    type C = K::To<c_char>;
    type Given<'c> = model::Nspace<'static>;

    unsafe fn take(given: K::To<c_char>, _: &CallScope) -> Result<model::Nspace<'static>> {
        // SAFETY: the header requires NULL, a string, or an array of the size of a namespace.
        Ok(unsafe { convert::nspace_at(given.address()) })
    }
}

/// The namespace of a job; NULL, an empty name and a name that is too long are errors.
pub(crate) struct Job(());

impl Parameter for Job {
    type C = *const c_char;
    type Given<'c> = model::Nspace<'static>;

    unsafe fn take(given: *const c_char, scope: &CallScope) -> Result<model::Nspace<'static>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Nspace`.
        let nspace = unsafe { Nspace::<Const>::take(given, scope)? };
        match nspace.is_invalid() || nspace.as_bytes().len() > model::Nspace::MAX_LEN {
            true => Err(Status::ERR_BAD_PARAM),
            false => Ok(nspace),
        }
    }
}

/// A NULL-terminated array of strings that the function frees.
pub(crate) struct OwnedStrings(());

impl Parameter for OwnedStrings {
    type C = *mut *mut c_char;
    type Given<'c> = crate::memory::CStrings;

    unsafe fn take(given: *mut *mut c_char, _: &CallScope) -> Result<crate::memory::CStrings> {
        // SAFETY: the header requires NULL or an array from the C library, which is freed once.
        Ok(unsafe { crate::memory::CStrings::new(given) })
    }
}

/// The strings of a NULL-terminated array; NULL is an empty one.
pub(crate) struct Strings(());

impl Parameter for Strings {
    type C = *mut *mut c_char;
    type Given<'c> = Vec<model::Text<'static>>;

    unsafe fn take(given: *mut *mut c_char, _: &CallScope) -> Result<Vec<model::Text<'static>>> {
        // SAFETY: the header requires NULL or an array of strings that ends with NULL.
        unsafe { memory::read_texts(given) }
    }
}

/// A NULL-terminated array of strings that the body reads in place.
pub(crate) struct Argv(());

impl Parameter for Argv {
    type C = *mut *mut c_char;
    type Given<'c> = Vec<&'c [u8]>;

    unsafe fn take(given: *mut *mut c_char, _: &CallScope) -> Result<Vec<&[u8]>> {
        // SAFETY: the header requires NULL or an array of strings that ends with NULL.
        unsafe { memory::strings(given) }
    }
}

/// A constructed structure that the program owns and the function changes; NULL is an error.
pub(crate) struct Held<T>(PhantomData<T>);

impl<T: Record + 'static> Parameter for Held<T> {
    type C = *mut T;
    type Given<'c> = crate::owned::Held<'c, T>;

    unsafe fn take(given: *mut T, _: &CallScope) -> Result<crate::owned::Held<'_, T>> {
        // SAFETY: the header requires NULL or a constructed structure, whose memory came from the C library, and that
        // no other thread uses it during the call.
        unsafe { given.as_mut().map(|at| crate::owned::Held::new(at)) }.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// Like [`Held`], but the header requires the structure to stay until the callback of the function has run.
pub(crate) struct HeldUntilCallback<T>(PhantomData<T>);

impl<T: Record + 'static> Parameter for HeldUntilCallback<T> {
    type C = *mut T;
    type Given<'c> = crate::owned::Held<'static, T>;

    unsafe fn take(given: *mut T, _: &CallScope) -> Result<crate::owned::Held<'static, T>> {
        // SAFETY: as for `Held`. The structure is used until the callback runs, which ends the contract.
        unsafe { given.as_mut().map(|at| crate::owned::Held::new(at)) }.ok_or(Status::ERR_BAD_PARAM)
    }
}
