// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of a spawned job: the settings of the request, completed by those of the first job, and debugger daemons,
//! which are a job of their own beside the processes that they debug.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Co-Location of Debugger Daemons" and "Co-Spawn of Debugger
//! Daemons".

use std::path::{Path, PathBuf};

use pmix_topology::Level;
use pmix_types::{Proc, Status};

use super::request::{Refusal, Request};
use super::{Controller, Cx};
use crate::{Error, FilePattern, Layout, MapBy, Output, OutputFiles, OutputForm, Plan, Policy};

impl Controller {
    /// Sets the number of processes if the job consists of debugger daemons, and returns their target. All processes
    /// run on this node, so each daemon is co-located with its target.
    pub(crate) fn place_daemons(
        &self,
        cx: &Cx<'_>,
        request: &mut Request,
    ) -> Result<Option<Proc<'static>>, Refusal> {
        if !request.debug.is_of_daemons() {
            return Ok(None);
        }
        let target = request.debug.target().map_err(Refusal::bad)?;
        let meant = cx.agent.job(&target.nspace).map_or(0, |job| {
            let ranks = job.processes().map(|process| process.rank);
            ranks.filter(|rank| target.rank.matches(*rank)).count()
        });
        let Some(meant @ 1..) = u32::try_from(meant).ok() else {
            let Proc { nspace, rank } = target;
            let why = format!("the debugger target rank {rank} of {nspace} does not exist");
            return Err(Refusal::new(Status::ERR_NOT_FOUND, why));
        };
        let target = target.clone();
        let num = request.debug.num_daemons(meant).map_err(Refusal::bad)?;
        for app in &mut request.apps {
            match (num, app.num_procs) {
                (Some(num), _) => app.num_procs = num,
                (None, 0) => app.num_procs = meant,
                (None, _) => {}
            }
        }
        Ok(Some(target))
    }

    /// Returns the plan of a spawned job. Settings without a directive are those of the first job.
    pub(crate) fn plan_of(
        &self,
        cx: &Cx<'_>,
        request: &mut Request,
        nspace: String,
        layout: Layout,
    ) -> Result<Plan, Refusal> {
        let refused = |error: Error| Refusal::of(&error);
        let timeout = [self.time_left(cx), request.timeout]
            .into_iter()
            .flatten()
            .min();
        let output = output_of(request, &cx.plan.output, &nspace).map_err(refused)?;
        Ok(Plan {
            nspace,
            stops: request.debug.stops(&request.apps),
            apps: std::mem::take(&mut request.apps),
            layout,
            output,
            timeout,
            policy: policy_of(request, cx.plan.policy),
            cpus: request.cpus.clone().or_else(|| cx.plan.cpus.clone()),
            keep_going: (request.keep_going)
                .or_else(|| {
                    request
                        .ends_by_exit_code
                        .filter(|ends| *ends)
                        .map(|_| false)
                })
                .unwrap_or(cx.plan.keep_going),
            announce: false,
            stdin_rank: None,
            process_sets: Vec::new(),
            ..(*cx.plan).clone()
        })
    }

    /// Returns the rest of the launcher's time limit.
    fn time_left(&self, cx: &Cx<'_>) -> Option<std::time::Duration> {
        let limit = cx.plan.timeout?;
        Some(limit.saturating_sub(self.began.elapsed()))
    }
}

/// Returns the destination of the output of a job: that of the request, else that of the first job. Files are in a
/// directory with the name of the job, or contain it in their names, so that no two jobs write to the same files.
/// File names from a pattern follow the pattern.
pub(crate) fn output_of(request: &Request, first: &Output, nspace: &str) -> Result<Output, Error> {
    if request.output_dir.is_some() && request.output_file.is_some() {
        let message = "output to a directory and output to a named file cannot be combined";
        return Err(Error::request(message));
    }
    let is_copied = !request.is_in_files_alone.unwrap_or(false);
    let files = match (&request.output_dir, &request.output_file, &first.files) {
        (Some(dir), ..) => Some(OutputFiles {
            dir: dir.join(nspace),
            name: FilePattern::default(),
            is_copied,
        }),
        (None, Some(file), _) if request.is_pattern => {
            let (dir, pattern) = match file.strip_prefix("/") {
                Ok(below) => (PathBuf::from("/"), below),
                Err(_) => (PathBuf::new(), file.as_path()),
            };
            let name = FilePattern::parse(pattern.as_os_str())?;
            Some(OutputFiles {
                dir,
                name,
                is_copied,
            })
        }
        (None, Some(file), _) => {
            let name = file.file_name().ok_or_else(|| {
                let file = file.display();
                Error::request(format!("{file} is not a valid name for output files"))
            })?;
            Some(OutputFiles {
                dir: file.parent().map(Path::to_owned).unwrap_or_default(),
                name: FilePattern::of_one_file(name),
                is_copied,
            })
        }
        (None, None, Some(files)) => Some(OutputFiles {
            dir: files.dir.join(nspace),
            name: files.name.clone(),
            is_copied: (request.is_in_files_alone).map_or(files.is_copied, |is_alone| !is_alone),
        }),
        (None, None, None) => None,
    };
    let form = match (request.tags_output, first.form) {
        _ if request.has_detailed_tags => OutputForm::Detailed,
        (Some(true), _) => OutputForm::Tagged,
        (Some(false), OutputForm::Tagged) => OutputForm::Unmixed,
        (_, form) => form,
    };
    Ok(Output {
        form,
        is_merged: request.is_merged.unwrap_or(first.is_merged),
        files,
        pseudo_terminals: first.pseudo_terminals,
    })
}

/// Returns the placement policy of a job: that of the request, else that of the first job.
pub(crate) fn policy_of(request: &Request, first: Policy) -> Policy {
    let map_by = request.map_by.unwrap_or(first.map_by);
    // As on the command line, mapping by a part of the node also binds to it.
    let named = match (request.map_by, request.cores_each) {
        (_, Some(_)) => Some(Some(Level::Core)),
        (Some(MapBy::Level(level)), None) if level != Level::Node => Some(Some(level)),
        (Some(_), None) => Some(None),
        // An explicit CPU list implies binding to it.
        (None, None) => request.cpus.as_ref().map(|_| Some(Level::Node)),
    };
    Policy {
        map_by,
        bind_to: request.bind_to.or(named).unwrap_or(first.bind_to),
        parts_each: request.cores_each.unwrap_or(first.parts_each),
        procs_each: match (request.procs_each, request.map_by) {
            (Some(each), _) => Some(each),
            (None, Some(_)) => None,
            (None, None) => first.procs_each,
        },
        // PPR specifies an exact number of processes for each part.
        strict: request.procs_each.is_some() && request.bind_to != Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_goes_to_one_kind_of_files_and_alone_where_that_is_asked_for() {
        let files = OutputFiles {
            dir: "out".into(),
            name: FilePattern::default(),
            is_copied: true,
        };
        let first = Output {
            files: Some(files),
            ..Output::default()
        };
        let is_copied = |is_in_files_alone| {
            let mut request = Request::default();
            request.is_in_files_alone = is_in_files_alone;
            let files = output_of(&request, &first, "job@2").unwrap().files.unwrap();
            assert_eq!(files.dir, Path::new("out/job@2"));
            files.is_copied
        };
        let asked = [None, Some(true), Some(false)];
        assert_eq!(asked.map(is_copied), [true, false, true]);
        let mut both = Request::default();
        both.output_dir = Some("dir".into());
        both.output_file = Some("file".into());
        let error = output_of(&both, &first, "job@2").unwrap_err();
        assert!(error.to_string().contains("cannot be combined"), "{error}");
    }
}
