// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations between jobs: connect, disconnect, publish, lookup.
//!
//! Source: PMIx Standard, chapters "Process Management" (`PMIx_Connect`) and "Publish/Lookup
//! Operations".

use pmix_proto::{Request, request};
use pmix_types::{Info, Pdata, Proc, Status};

use super::Client;
use crate::Error;
use crate::core::Answer;

impl Client {
    /// Connects processes (`PMIx_Connect`). Each participant must call it and gets the job info of the other jobs.
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn connect(&mut self, procs: &[Proc<'_>], infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.connect(procs, infos, end))?;
        Ok(())
    }

    /// Ends a [`connect`](Self::connect) (`PMIx_Disconnect`). Each participant must call it.
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn disconnect(&mut self, procs: &[Proc<'_>], infos: &[Info<'_>]) -> Result<(), Error> {
        self.done(&Request::Disconnect(request::Disconnect {
            procs: procs.to_vec(),
            infos: infos.to_vec(),
        }))
    }

    /// Publishes data (`PMIx_Publish`). `pmix.range` and `pmix.persist` among the infos set the processes that can look
    /// them up and their lifetime.
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn publish(&mut self, infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.publish(uid(), infos, end))?;
        Ok(())
    }

    /// Returns the data published under these keys (`PMIx_Lookup`). Keys without data are left out.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if none of the keys has data, another status of the server, or an error if no reply
    /// arrives.
    pub fn lookup(
        &mut self,
        keys: &[&str],
        infos: &[Info<'_>],
    ) -> Result<Vec<Pdata<'static>>, Error> {
        match self.wait(|core, end| core.lookup(uid(), keys, infos, end))? {
            Answer::Found(_, found) => Ok(found),
            _ => Err(Error::new(
                Status::ERR_COMM_FAILURE,
                "a lookup without data",
            )),
        }
    }

    /// Removes the data that this process published under these keys (`PMIx_Unpublish`).
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn unpublish(&mut self, keys: &[&str], infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.unpublish(uid(), keys, infos, end))?;
        Ok(())
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
