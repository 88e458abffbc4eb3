// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies with a status and the requested data. Data of the datastore are passed on unparsed.
//!
//! | reply | calls after the status |
//! | --- | --- |
//! | [`JobInfo`] (no status) | `PMIX_STRING` with the nspace, then `PMIX_KVAL` each |
//! | [`Objects`] of a get | `PMIX_BYTE_OBJECT` each, with a call of `PMIX_PROC`, then `PMIX_KVAL` each |
//! | [`Objects`] of a connect | `PMIX_BYTE_OBJECT` each, with a call of `PMIX_STRING`, the nspace, then `PMIX_KVAL` each |
//! | [`Kvals`] | `PMIX_KVAL` each |
//!
//! Frozen: append only.
//!
//! Source: OpenPMIx, the component `gds/hash`.

use std::sync::Arc;

use bfrops::RegexFramer;
use pmix_types::{
    Bytes, DataType, DeviceDistance, Info, Kval, Nspace, Pdata, Proc, Status, Text, memory,
};

use crate::codec::{
    self, Contents, Many, Maybe, NspaceText, One, Part, Reader, Shape, Tail, Writer, message,
    payloads,
};
use crate::{Error, PeerForm, wire_type};

message! {
    /// The job info of a job. It has no status: a server that does not know the job rejects the
    /// client's connection.
    JobInfo<'a> {
        /// The job.
        nspace: Nspace<'a> = NspaceText,
        /// The packed job info. [`kvals`](Self::kvals) parses it.
        kvals: &'a [u8] = Tail<codec::Kvals>,
    }

    /// The data that processes put, or the job info of connected jobs, as byte objects.
    Objects<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// One object for each process or job. [`procs`](Self::procs) or [`jobs`](Self::jobs)
        /// parses them.
        objects: &'a [u8] = Tail<Packed>,
    }

    /// All data that a process has put.
    Kvals<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The packed data. [`kvals`](Self::kvals) parses them.
        kvals: &'a [u8] = Tail<codec::Kvals>,
    }
}

payloads! { JobInfo<'a>, Objects<'a>, Kvals<'a>, }

/// An object in a reply: a process or job, and its packed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a, T> {
    /// The process or the job.
    pub of: T,
    /// The packed data. [`kvals`](Self::kvals) parses them.
    pub kvals: &'a [u8],
}

/// An iterator over the byte objects of a reply. It ends after the first error.
pub struct ObjectIter<'a, T> {
    reader: Reader<'a>,
    form: PeerForm,
    framer: Option<&'a dyn RegexFramer>,
    head: fn(&mut Reader<'a>) -> Result<T, Error>,
}

impl<'a> JobInfo<'a> {
    /// Parses the job info.
    ///
    /// # Errors
    ///
    /// The cause and the offset, relative to the end of the nspace.
    pub fn kvals(
        &self,
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
    ) -> Result<Vec<Kval<'a>>, Error> {
        kvals(&mut Reader::new(form, framer, self.kvals))
    }
}

impl<'a> Kvals<'a> {
    /// Parses the data.
    ///
    /// # Errors
    ///
    /// The cause and the offset, relative to the end of the status.
    pub fn kvals(
        &self,
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
    ) -> Result<Vec<Kval<'a>>, Error> {
        kvals(&mut Reader::new(form, framer, self.kvals))
    }
}

impl<'a, T> Object<'a, T> {
    /// Parses the data.
    ///
    /// # Errors
    ///
    /// The cause and the offset, relative to the end of the process or job.
    pub fn kvals(
        &self,
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
    ) -> Result<Vec<Kval<'a>>, Error> {
        kvals(&mut Reader::new(form, framer, self.kvals))
    }
}

impl Object<'_, Proc<'_>> {
    /// Packs the object of a process for the reply to a get. Its data are already packed.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_PACK_FAILURE` if the nspace is too long for any peer.
    pub fn encode(&self, form: &PeerForm) -> Result<Vec<u8>, Error> {
        let mut object = Self::front(form, &self.of, self.kvals.len())?;
        memory::reserve_exact(&mut object, self.kvals.len())?;
        object.extend_from_slice(self.kvals);
        Ok(object)
    }

    /// Packs the start of the object of a process, up to its data. The caller appends `len` bytes
    /// of data.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_PACK_FAILURE` if the nspace is too long for any peer.
    pub fn front(form: &PeerForm, of: &Proc<'_>, len: usize) -> Result<Vec<u8>, Error> {
        let mut inner = Writer::new(form, None);
        inner.one::<wire_type::Proc>(of)?;
        let inner = inner.finish();
        let mut writer = Writer::new(form, None);
        writer.byte_object_head(inner.len().saturating_add(len))?;
        let mut front = writer.finish();
        front.extend_from_slice(&inner);
        Ok(front)
    }
}

/// Packs calls with one `PMIX_KVAL` each, as in an [`Object`] and in [`Kvals`].
///
/// # Errors
///
/// `PMIX_ERR_UNKNOWN_DATA_TYPE` if the peer's module does not have the type of a value;
/// `PMIX_ERR_PACK_FAILURE` if no peer could unpack the data.
pub fn pack_kvals(
    form: &PeerForm,
    framer: Option<&dyn RegexFramer>,
    kvals: &[Kval<'_>],
) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(form, framer);
    for kval in kvals {
        writer.one::<wire_type::Kval>(kval)?;
    }
    Ok(writer.finish())
}

/// Packs the object of a job for the reply to a connect. Its content is the payload of [`JobInfo`]:
/// the nspace and the job info.
///
/// # Errors
///
/// None in practice: every module has byte objects.
pub fn pack_job_object(form: &PeerForm, job_info: &[u8]) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(form, None);
    writer.one::<wire_type::ByteObject>(&Bytes::Borrowed(job_info))?;
    Ok(writer.finish())
}

impl<'a> Objects<'a> {
    /// Returns an iterator over the data that processes put, in the reply to a get.
    #[must_use]
    pub fn procs(
        &self,
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
    ) -> ObjectIter<'a, Proc<'a>> {
        self.iter(form, framer, Reader::one::<wire_type::Proc>)
    }

    /// Returns an iterator over the job info of jobs, in the reply to a connect.
    #[must_use]
    pub fn jobs(
        &self,
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
    ) -> ObjectIter<'a, Nspace<'a>> {
        self.iter(form, framer, NspaceText::read)
    }

    fn iter<T>(
        &self,
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
        head: fn(&mut Reader<'a>) -> Result<T, Error>,
    ) -> ObjectIter<'a, T> {
        ObjectIter {
            reader: Reader::new(form, framer, self.objects),
            form: *form,
            framer,
            head,
        }
    }
}

impl<'a, T> ObjectIter<'a, T> {
    fn object(&mut self) -> Result<Object<'a, T>, Error> {
        let Bytes::Borrowed(bytes) = self.reader.one::<wire_type::ByteObject>()? else {
            return Err(Error::malformed(0, "bytes that are not in the message"));
        };
        let start = self.reader.offset().saturating_sub(bytes.len());
        let mut inner = Reader::new(&self.form, self.framer, bytes);
        let of = (self.head)(&mut inner).map_err(|error| error.shifted_by(start))?;
        Ok(Object {
            of,
            kvals: inner.rest(),
        })
    }
}

impl<'a, T> Iterator for ObjectIter<'a, T> {
    type Item = Result<Object<'a, T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let object = self.object();
        if object.is_err() {
            self.reader.end();
        }
        Some(object)
    }
}

fn kvals<'a>(reader: &mut Reader<'a>) -> Result<Vec<Kval<'a>>, Error> {
    let mut kvals = Vec::new();
    while !reader.is_empty() {
        memory::reserve(&mut kvals, 1)?;
        kvals.push(reader.one::<wire_type::Kval>()?);
    }
    Ok(kvals)
}

/// The byte objects in the reply to a get.
enum Packed {}

impl Contents for Packed {
    fn outline() -> Vec<Part> {
        vec![object("data", Part::One("proc", DataType::PROC))]
    }
}

/// Returns the outline of the reply to a connect.
pub(crate) fn jobs_outline() -> Vec<Part> {
    let job = object("job", Part::One("nspace", DataType::STRING));
    let status = Part::One("status", DataType::STATUS);
    vec![status, Part::Rest(vec![job])]
}

fn object(name: &'static str, of: Part) -> Part {
    let kvals = Part::Rest(codec::Kvals::outline());
    Part::Packed(name, DataType::BYTE_OBJECT, vec![of, kvals])
}

message! {
    /// The outcome of a request without other results.
    Done {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
    }

    /// The published data that a lookup found.
    Found<'a> {
        /// The status. It is success if at least one key was found.
        status: Status = One<wire_type::Status>,
        /// The data.
        data: Option<Vec<Pdata<'a>>> = Maybe<Many<wire_type::Pdata>>,
    }

    /// The nspace of a started job.
    Spawned<'a> {
        /// The status of the spawn.
        status: Status = One<wire_type::Status>,
        /// The nspace of the job.
        nspace: Option<Nspace<'a>> = Maybe<NspaceText>,
    }

    /// Results in the form of infos.
    Infos<'a> {
        /// The status of the request. A partial success also has infos.
        status: Status = One<wire_type::Status>,
        /// The results.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// The credential of a process.
    Credential<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The credential.
        credential: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
        /// Information about the credential.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// The confirmation of a pull of output.
    Pulled {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The number with which the pull is deregistered.
        remote_id: Option<u64> = Maybe<One<wire_type::Size>>,
    }

    /// The distances of devices.
    Distances<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The distances, one for each device.
        distances: Option<Vec<DeviceDistance<'a>>> = Maybe<Many<wire_type::DeviceDistance>>,
    }

    /// The processes on a node.
    Peers<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The processes.
        procs: Option<Vec<Proc<'a>>> = Maybe<Many<wire_type::Proc>>,
    }

    /// The nodes of a job.
    Nodes<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The names of the nodes, separated by commas.
        nodes: Option<Option<Text<'a>>> = Maybe<One<wire_type::String>>,
    }
}

impl Found<'_> {
    /// Packs a reply with shared data, without a copy of them. The payload is that of [`encode`](Self::encode).
    ///
    /// # Errors
    ///
    /// A field cannot be packed.
    pub fn encode_shared(
        status: Status,
        data: &[Arc<Pdata<'_>>],
        form: &PeerForm,
        framer: Option<&dyn RegexFramer>,
    ) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::new(form, framer);
        writer.one::<wire_type::Status>(&status)?;
        writer.many::<wire_type::Pdata>(data)?;
        Ok(writer.finish())
    }
}

payloads! {
    Done, Found<'a>, Spawned<'a>, Infos<'a>, Credential<'a>, Pulled, Distances<'a>, Peers<'a>,
    Nodes<'a>,
}
