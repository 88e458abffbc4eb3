// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preparation of a job before it starts. It finds the programs, builds their environments and binds the
//! processes. Once the job has a name, it creates the directory of the job and the files of its output.
//!
//! All of this can take as long as the disks and hwloc need, so a helper thread does it for spawned jobs.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use pmix_host::helpers::Cancel;
use pmix_topology::Cpuset;

use crate::job_info::{self, Bound};
use crate::output::{CreatedPaths, Files, RankFiles};
use crate::process::{CommandForm, Programs};
use crate::session_dir::{JobDir, remove_tree};
use crate::{App, Error, Plan, Policy};

/// The input of the preparation of a job.
pub(crate) struct Preparation<'a> {
    /// The environment of the launcher.
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) apps: &'a [App],
    pub(crate) form: &'a CommandForm,
    pub(crate) policy: Policy,
    /// The processors to use, if they are named.
    pub(crate) cpus: Option<&'a Cpuset>,
    /// The processors that are available to the launcher, if the system reports them.
    pub(crate) allowed: Option<Cpuset>,
    /// The number of processes on this node.
    pub(crate) num_here: usize,
}

/// A job that is ready to start.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) bound: Bound,
    pub(crate) programs: Programs,
}

/// The directories and files of a job that has not started. If it is dropped before [`JobPlace::keep`], all that was
/// created for the job is discarded, whichever thread drops it.
#[derive(Debug)]
pub(crate) struct JobPlace {
    dir: Option<JobDir>,
    /// The output files of the local processes, in the order of their ranks. If `None`, each is opened when its
    /// process starts.
    files: Option<Vec<RankFiles>>,
    created: CreatedPaths,
    discarded: Sender<Discarded>,
}

/// The paths of a job that is not started. A thread for removals removes them.
#[derive(Debug)]
pub(crate) struct Discarded {
    /// The directory of the job.
    pub(crate) dir: PathBuf,
    /// The output files and directories that did not exist before.
    pub(crate) created: CreatedPaths,
}

impl JobPlace {
    /// Creates the directory of a job in that of the session and the directory of its output, and opens its files if
    /// `opens_files` is `true`. On an error, and after a cancellation, all of them are discarded.
    ///
    /// # Errors
    /// Returns [`Error`] if a directory or file cannot be created, or if the job was canceled.
    pub(crate) fn make(
        plan: &Plan,
        session: &Path,
        number: Option<u64>,
        opens_files: bool,
        discarded: &Sender<Discarded>,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let mut place = Self {
            dir: Some(JobDir::create(session, number)?),
            files: None,
            created: CreatedPaths::default(),
            discarded: discarded.clone(),
        };
        if let Some(files) = Files::of_plan(plan) {
            files.make_dir(&mut place.created)?;
            if opens_files {
                let opened = files.open_all(plan.layout.here(), &mut place.created, cancel);
                place.files = Some(opened?);
            }
        }
        match cancel.is_cancelled() {
            true => Err(Error::cancelled()),
            false => Ok(place),
        }
    }

    /// Returns `true` if the output files are open.
    pub(crate) fn has_open_files(&self) -> bool {
        self.files.is_some()
    }

    /// Returns the directory of the job.
    pub(crate) fn dir(&self) -> Option<&JobDir> {
        self.dir.as_ref()
    }

    /// Returns the directory and the open files for a job that starts. They are not discarded any more.
    pub(crate) fn keep(mut self) -> Option<(JobDir, Option<Vec<RankFiles>>)> {
        let files = self.files.take();
        self.dir.take().map(|dir| (dir, files))
    }
}

impl Drop for JobPlace {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take() {
            // Without a receiver the session is over, and its own removal includes the directory.
            let _ = self.discarded.send(Discarded {
                dir: dir.path().to_owned(),
                created: std::mem::take(&mut self.created),
            });
        }
    }
}

impl Discarded {
    /// Removes the directory and the output files, and adds 1 to `progress` for each entry.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be removed.
    pub(crate) fn remove(&self, progress: &AtomicU64) -> io::Result<()> {
        self.created.remove(progress);
        remove_tree(&self.dir, progress)
    }
}

impl<'a> Preparation<'a> {
    /// Returns the preparation for a plan.
    pub(crate) fn of(plan: &'a Plan, form: &'a CommandForm, allowed: Option<Cpuset>) -> Self {
        Self {
            environment: &plan.environment,
            apps: &plan.apps,
            form,
            policy: plan.policy,
            cpus: plan.cpus.as_ref(),
            allowed,
            num_here: plan.layout.here().len(),
        }
    }

    /// Binds the processes and finds the programs.
    ///
    /// # Errors
    /// Returns [`Error`] if the policy requires parts that the node does not have, if a program cannot be started, or
    /// if the preparation was canceled.
    pub(crate) fn prepare(self, cancel: &Cancel) -> Result<Prepared, Error> {
        let Self {
            environment,
            apps,
            form,
            policy,
            cpus,
            allowed,
            num_here,
        } = self;
        // The programs of a job without processes here may exist on other nodes only.
        let apps = if num_here == 0 { &[] } else { apps };
        let bound = job_info::bind(environment, policy, cpus, allowed, num_here)?;
        let programs = Programs::find(apps, environment, bound.oversubscribed, form, cancel)?;
        Ok(Prepared { bound, programs })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::session_dir::SessionDir;
    use crate::{FilePattern, Output, OutputFiles};

    #[test]
    fn a_job_that_does_not_start_leaves_no_new_files_and_keeps_existing_ones() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().canonicalize().unwrap();
        let session = SessionDir::create(&root).unwrap();
        let out = root.join("a/out");
        let mut plan = Plan::of_test(&[2]);
        plan.output = Output {
            files: Some(OutputFiles {
                dir: out.clone(),
                name: FilePattern::default(),
                is_copied: false,
            }),
            ..Output::default()
        };
        let (discarded, received) = channel();
        let make = |number, cancel: &Cancel| {
            JobPlace::make(&plan, session.path(), number, true, &discarded, cancel)
        };
        // A job that was prepared and is refused afterwards.
        drop(make(Some(1), &Cancel::never()).unwrap());
        assert!(out.join("rank.0.stdout").exists());
        received.recv().unwrap().remove(&AtomicU64::new(0)).unwrap();
        assert_eq!(fs::read_dir(session.path()).unwrap().count(), 0);
        assert!(!root.join("a").exists());
        // A canceled job next to the files of the user.
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("rank.0.stdout"), "").unwrap();
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(make(Some(2), &cancel).is_err());
        drop(make(Some(3), &Cancel::never()).unwrap());
        for one in received.try_iter() {
            one.remove(&AtomicU64::new(0)).unwrap();
        }
        let left = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["rank.0.stdout"]);
        // A job that starts keeps all of them.
        let (dir, files) = make(Some(4), &Cancel::never()).unwrap().keep().unwrap();
        assert!(dir.path().exists() && files.is_some_and(|files| files.len() == 2));
        assert!(received.try_recv().is_err() && out.join("rank.1.stderr").exists());
    }
}
