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
    /// Joins a connect: its participants are treated as one job afterwards, and the job info of
    /// each is known (`PMIx_Connect`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn connect(&mut self, procs: &[Proc<'_>], infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.connect(procs, infos, end))?;
        Ok(())
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
        self.wait(|core, end| core.publish(uid(), infos, end))?;
        Ok(())
    }

    /// Returns what was published under these keys, as far as it is there (`PMIx_Lookup`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if none of them is there, what the server answers, or that it does not.
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

    /// Withdraws what this process published under these keys (`PMIx_Unpublish`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn unpublish(&mut self, keys: &[&str], infos: &[Info<'_>]) -> Result<(), Error> {
        self.wait(|core, end| core.unpublish(uid(), keys, infos, end))?;
        Ok(())
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
