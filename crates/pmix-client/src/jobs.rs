// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations between jobs: connect, disconnect, publish, lookup.
//!
//! Source: PMIx Standard, chapters "Process Management" (`PMIx_Connect`) and "Publish/Lookup
//! Operations".

use pmix_proto::reply::{Found, Objects};
use pmix_proto::{Request, request};
use pmix_types::{Info, IntoOwned, Key, Pdata, Proc};

use crate::{Client, Error};

impl Client {
    /// Joins a connect: its participants are treated as one job afterwards, and the job info of
    /// each is known (`PMIx_Connect`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn connect(&mut self, procs: &[Proc<'_>], infos: &[Info<'_>]) -> Result<(), Error> {
        let connect = Request::Connect(request::Connect {
            procs: procs.to_vec(),
            infos: infos.to_vec(),
        });
        let payload = self.request(&connect)?;
        let objects = Objects::decode(self.form(), None, &payload)?;
        match objects.status.is_success() {
            true => self.cache.absorb_jobs(&objects),
            false => Err(Error::answered(objects.status, connect.command())),
        }
    }

    /// Ends what [`connect`](Self::connect) began (`PMIx_Disconnect`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn disconnect(&mut self, procs: &[Proc<'_>], infos: &[Info<'_>]) -> Result<(), Error> {
        self.done(&Request::Disconnect(request::Disconnect {
            procs: procs.to_vec(),
            infos: infos.to_vec(),
        }))
    }

    /// Publishes data. `pmix.range` and `pmix.persist` among the infos say which processes see it,
    /// and for how long (`PMIx_Publish`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn publish(&mut self, infos: &[Info<'_>]) -> Result<(), Error> {
        self.done(&Request::Publish(request::Publish {
            uid: uid(),
            infos: infos.to_vec(),
        }))
    }

    /// Returns what was published under these keys (`PMIx_Lookup`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn lookup(
        &mut self,
        keys: &[&str],
        infos: &[Info<'_>],
    ) -> Result<Vec<Pdata<'static>>, Error> {
        let lookup = Request::Lookup(request::Lookup {
            uid: uid(),
            keys: keys.iter().copied().map(Key::from).collect(),
            infos: infos.to_vec(),
        });
        let payload = self.request(&lookup)?;
        let found = Found::decode(self.form(), None, &payload)?;
        match found.status.is_success() {
            true => Ok(found.data.unwrap_or_default().into_owned()),
            false => Err(Error::answered(found.status, lookup.command())),
        }
    }

    /// Withdraws what this process published under these keys (`PMIx_Unpublish`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn unpublish(&mut self, keys: &[&str], infos: &[Info<'_>]) -> Result<(), Error> {
        self.done(&Request::Unpublish(request::Unpublish {
            uid: uid(),
            keys: keys.iter().copied().map(Key::from).collect(),
            infos: infos.to_vec(),
        }))
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
