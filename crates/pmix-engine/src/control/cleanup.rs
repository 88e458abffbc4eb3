// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and directories to remove when a process or a job ends.
//!
//! Source: PMIx Standard, chapter "Job Management and Reporting", `PMIX_REGISTER_CLEANUP` and related attributes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use pmix_types::{Info, IntoOwned, Nspace, Proc, Rank, Status, Text, Value, keys, memory};

use crate::Error;
use crate::config::ControlLimits;
use crate::recount::Recount;

/// Files and directories to remove when a process or job has ended (PMIx Standard, "Job control attributes"). The
/// engine only stores them. The driver or host removes them with the permissions of the user and without following
/// symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// The absolute paths of files.
    pub files: Vec<Text<'static>>,
    /// The directories.
    pub directories: Vec<CleanupDirectory>,
    /// The names and paths that must not be removed.
    pub ignored: Vec<Text<'static>>,
}

/// A directory to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupDirectory {
    /// The absolute path.
    pub path: Text<'static>,
    /// `true` if its contents are removed, too (`PMIX_CLEANUP_RECURSIVE`).
    pub recursive: bool,
    /// `true` if only empty directories are removed (`PMIX_CLEANUP_EMPTY`).
    pub only_empty: bool,
    /// `true` if the directory itself is kept (`PMIX_CLEANUP_LEAVE_TOPDIR`).
    pub leave_top: bool,
}

/// The cleanup in a job control request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CleanupRequest {
    pub(super) cleanup: Cleanup,
    /// The number of infos of the request that describe it.
    pub(super) num_infos: usize,
}

impl CleanupRequest {
    /// Decodes the cleanup of a request.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a list that is not a string, and for a path that is relative or contains `..`,
    /// because other users could change its target; `PMIX_ERR_OUT_OF_RESOURCE` if the lists exceed the limits of a job;
    /// `PMIX_ERR_NOMEM` if the process has no memory for them.
    pub(super) fn read(infos: &[Info<'_>], limits: &ControlLimits) -> Result<Self, Error> {
        let mut requested = Self::default();
        let mut size = Size::default();
        // Repeated paths of the request count once.
        let (mut files, mut removed, mut ignored) = Default::default();
        let (mut recursive, mut only_empty, mut leave_top) = (false, false, false);
        let mut directories = Vec::new();
        for info in infos {
            let is_true = info.truth().is_true();
            match info.key.as_text().as_str() {
                Some(keys::REGISTER_CLEANUP) => {
                    let new = paths(info, &mut files, &mut size, limits)?;
                    requested.cleanup.files.extend(new);
                }
                Some(keys::REGISTER_CLEANUP_DIR) => {
                    directories.extend(paths(info, &mut removed, &mut size, limits)?);
                }
                Some(keys::CLEANUP_IGNORE) => {
                    let new = list(info, &mut ignored, &mut size, limits)?;
                    requested.cleanup.ignored.extend(new);
                }
                Some(keys::CLEANUP_RECURSIVE) => recursive = is_true,
                Some(keys::CLEANUP_EMPTY) => only_empty = is_true,
                Some(keys::CLEANUP_LEAVE_TOPDIR) => leave_top = is_true,
                _ => continue,
            }
            requested.num_infos += 1;
        }
        let directory = |path| CleanupDirectory {
            path,
            recursive,
            only_empty,
            leave_top,
        };
        requested.cleanup.directories = directories.into_iter().map(directory).collect();
        Ok(requested)
    }
}

/// Returns `true` if an info describes a cleanup.
pub(super) fn is_about_cleanup(info: &Info<'_>) -> bool {
    matches!(
        info.key.as_text().as_str(),
        Some(
            keys::REGISTER_CLEANUP
                | keys::REGISTER_CLEANUP_DIR
                | keys::CLEANUP_IGNORE
                | keys::CLEANUP_RECURSIVE
                | keys::CLEANUP_EMPTY
                | keys::CLEANUP_LEAVE_TOPDIR
        )
    )
}

/// Copies the names in a comma-separated list that were not seen before. A path of two bytes takes 30 times as much
/// memory once it is split off, so the limits of a job are checked before each copy.
fn list<'i>(
    info: &'i Info<'_>,
    seen: &mut HashSet<&'i [u8]>,
    size: &mut Size,
    limits: &ControlLimits,
) -> Result<Vec<Text<'static>>, Error> {
    let Value::String(Some(text)) = &info.value else {
        let found = info.value.data_type();
        return Err(Error::bad(format!("{} has type {found}", info.key)));
    };
    let names = text.as_bytes().split(|byte| *byte == b',');
    let mut list = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if !seen.contains(name) {
            *size = size.with(name);
            check_room(*size, size.bytes, limits)?;
            memory::reserve(&mut list, 1)?;
            list.push(Text::new(memory::copy(name)?));
            seen.insert(name);
        }
    }
    Ok(list)
}

fn paths<'i>(
    info: &'i Info<'_>,
    seen: &mut HashSet<&'i [u8]>,
    size: &mut Size,
    limits: &ControlLimits,
) -> Result<Vec<Text<'static>>, Error> {
    let paths = list(info, seen, size, limits)?;
    let safe = |path: &Text<'_>| {
        let bytes = path.as_bytes();
        bytes.starts_with(b"/") && bytes.split(|byte| *byte == b'/').all(|part| part != b"..")
    };
    match paths.iter().find(|path| !safe(path)) {
        Some(path) => Err(Error::bad(format!(
            "{} of {path:?}: the path must be absolute and must not contain `..`",
            info.key
        ))),
        None => Ok(paths),
    }
}

/// The process whose end triggers a cleanup (the job with the wildcard rank), and the user of the cleanup.
pub(super) type CleanupKey = (Proc<'static>, (u32, u32));

/// The cleanups of processes and jobs.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    kept: BTreeMap<CleanupKey, KeptCleanup>,
    /// The size of the cleanups of each job.
    jobs: HashMap<Nspace<'static>, Size>,
    /// The bytes of all cleanups.
    bytes: usize,
}

/// A number of paths and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    paths: usize,
    bytes: usize,
}

impl Cleanups {
    /// Adds a cleanup for the end of each target, or for none in case of an error. Returns the newly registered part
    /// for each target. The time is proportional to the request and its additions, not to the stored cleanups.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES` if a path is to be removed and to be kept;
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the limits are exceeded; `PMIX_ERR_NOMEM` if the process has no memory for it.
    pub(super) fn add(
        &mut self,
        targets: &[Proc<'static>],
        user: (u32, u32),
        requested: &Cleanup,
        limits: &ControlLimits,
    ) -> Result<Vec<(CleanupKey, Cleanup)>, Error> {
        let mut distinct = KeptCleanup::default();
        // Repeated paths of the request count once.
        distinct.check(requested)?;
        distinct.merge(requested);
        let requested = distinct.cleanup;
        // All targets are checked before any of them changes, so that an error registers nothing.
        let targets: BTreeSet<&Proc<'_>> = targets.iter().collect();
        let mut more: HashMap<&Nspace<'_>, Size> = HashMap::new();
        let mut more_bytes = 0;
        for target in &targets {
            let added = match self.kept.get(&((*target).clone(), user)) {
                Some(kept) => {
                    kept.check(&requested)?;
                    kept.growth(&requested)
                }
                None => distinct.size,
            };
            let job = more.entry(&target.nspace).or_default();
            *job = job.plus(added);
            more_bytes += added.bytes;
            let known = self.jobs.get(target.nspace.as_bytes()).copied();
            let size = known.unwrap_or_default().plus(*job);
            check_room(size, self.bytes + more_bytes, limits)?;
        }
        // The driver gets a third copy of each path besides the two that are counted.
        memory::check(more_bytes.saturating_mul(2))?;
        for (nspace, size) in more {
            let known = self.jobs.entry(nspace.clone()).or_default();
            *known = known.plus(size);
        }
        self.bytes += more_bytes;
        let added = targets.into_iter().filter_map(|target| {
            let key = (target.clone(), user);
            let kept = self.kept.entry(key.clone()).or_default();
            let new = kept.merge(&requested);
            (new != Cleanup::default()).then_some((key, new))
        });
        Ok(added.collect())
    }

    /// Removes and returns the cleanups of a process that has ended.
    pub(super) fn proc_ended(&mut self, proc: &Proc<'_>) -> Vec<(CleanupKey, Cleanup)> {
        let proc = proc.clone().into_owned();
        // Several users may have registered cleanups for the same process.
        let last = (proc.clone(), (u32::MAX, u32::MAX));
        self.take((proc, (0, 0))..=last)
    }

    /// Removes and returns the cleanups of a job that has ended, including those of its processes.
    pub(super) fn job_ended(&mut self, nspace: &Nspace<'_>) -> Vec<(CleanupKey, Cleanup)> {
        let nspace = nspace.clone().into_owned();
        let first = (Proc::new(nspace.clone(), Rank::new(0)), (0, 0));
        // The range includes the wildcard rank, under which the cleanups of the job itself are stored.
        let last = Proc::new(nspace, Rank::new(u32::MAX));
        self.take(first..=(last, (u32::MAX, u32::MAX)))
    }

    fn take(&mut self, keys: RangeInclusive<CleanupKey>) -> Vec<(CleanupKey, Cleanup)> {
        let keys: Vec<_> = self.kept.range(keys).map(|(key, _)| key.clone()).collect();
        let taken = keys.iter().filter_map(|key| self.kept.remove_entry(key));
        let taken: Vec<_> = taken.collect();
        for ((proc, _), kept) in &taken {
            self.bytes = self.bytes.saturating_sub(kept.size.bytes);
            if let Some(size) = self.jobs.get_mut(proc.nspace.as_bytes()) {
                size.paths = size.paths.saturating_sub(kept.size.paths);
                size.bytes = size.bytes.saturating_sub(kept.size.bytes);
                if *size == Size::default() {
                    self.jobs.remove(proc.nspace.as_bytes());
                }
            }
        }
        let taken = taken.into_iter();
        taken.map(|(key, kept)| (key, kept.cleanup)).collect()
    }

    /// Returns the number of processes and jobs with cleanups, and the bytes of the cleanups.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.kept.len(), self.bytes)
    }

    /// Compares the counters with the stored cleanups.
    pub(super) fn recount(&self, recount: &mut Recount) {
        let kept = self.kept.values().map(|kept| kept.size);
        let found = kept.fold(Size::default(), Size::plus);
        let of_jobs = self.jobs.values().copied();
        let of_jobs = of_jobs.fold(Size::default(), Size::plus);
        recount.compare("bytes of paths to be removed", self.bytes, found.bytes);
        recount.compare("bytes of paths of jobs", of_jobs.bytes, found.bytes);
        recount.compare("paths of jobs to be removed", of_jobs.paths, found.paths);
    }
}

fn check_room(size: Size, bytes: usize, limits: &ControlLimits) -> Result<(), Error> {
    let message = if size.paths > limits.cleanups_per_job {
        let most = limits.cleanups_per_job;
        format!(
            "a job can register at most {most} paths for cleanup, not {}",
            size.paths
        )
    } else if size.bytes > limits.cleanup_bytes_per_job {
        let most = limits.cleanup_bytes_per_job;
        format!("the paths that a job registers for cleanup exceed {most} bytes")
    } else if bytes > limits.cleanup_bytes {
        let most = limits.cleanup_bytes;
        format!("the paths that all jobs register for cleanup exceed {most} bytes")
    } else {
        return Ok(());
    };
    Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
}

impl Size {
    const fn plus(self, more: Self) -> Self {
        Self {
            paths: self.paths + more.paths,
            bytes: self.bytes + more.bytes,
        }
    }

    /// Returns the size with one more path, which is stored in a list and in an index.
    const fn with(self, path: &[u8]) -> Self {
        Self {
            paths: self.paths + 1,
            bytes: self.bytes + 2 * (path.len() + PATH_BYTES),
        }
    }

    /// Adds a path.
    fn count(&mut self, path: &Text<'_>) {
        *self = self.with(path.as_bytes());
    }
}

/// The memory of a path besides its text.
const PATH_BYTES: usize = 64;

/// The cleanup for one end, with indexes to find repeated paths.
#[derive(Debug, Default)]
struct KeptCleanup {
    cleanup: Cleanup,
    files: HashSet<Text<'static>>,
    /// The positions of the directories in the list.
    directories: HashMap<Text<'static>, usize>,
    ignored: HashSet<Text<'static>>,
    size: Size,
}

impl KeptCleanup {
    /// Checks that an addition does not remove a path that is to be kept, or the reverse.
    fn check(&self, more: &Cleanup) -> Result<(), Error> {
        let ignored: HashSet<_> = more.ignored.iter().collect();
        let directories = more.directories.iter().map(|directory| &directory.path);
        let mut removed = more.files.iter().chain(directories);
        let left = |path: &&Text<'static>| self.ignored.contains(*path) || ignored.contains(path);
        let is_removed =
            |path: &Text<'static>| self.files.contains(path) || self.directories.contains_key(path);
        let conflict = removed.find(left);
        match conflict.or_else(|| more.ignored.iter().find(|path| is_removed(path))) {
            Some(path) => Err(Error::new(
                Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES,
                format!("{path:?} is registered both to be removed and to be kept"),
            )),
            None => Ok(()),
        }
    }

    /// Returns the growth by an addition without repeated paths.
    fn growth(&self, more: &Cleanup) -> Size {
        let mut size = Size::default();
        let directories = more.directories.iter().map(|directory| &directory.path);
        let files = more.files.iter().filter(|path| !self.files.contains(*path));
        let directories = directories.filter(|path| !self.directories.contains_key(*path));
        let ignored = more.ignored.iter();
        let ignored = ignored.filter(|path| !self.ignored.contains(*path));
        let new = files.chain(directories).chain(ignored);
        new.for_each(|path| size.count(path));
        size
    }

    /// Adds a cleanup and returns its new part. For a directory that is registered again, the request that removes more
    /// applies.
    fn merge(&mut self, more: &Cleanup) -> Cleanup {
        let mut new = Cleanup::default();
        for directory in &more.directories {
            let is_new = !self.directories.contains_key(&directory.path);
            let cleanup = &mut self.cleanup;
            let size = &mut self.size;
            let place = *(self.directories.entry(directory.path.clone())).or_insert_with(|| {
                size.count(&directory.path);
                cleanup.directories.push(directory.clone());
                cleanup.directories.len() - 1
            });
            if let Some(known) = cleanup.directories.get_mut(place) {
                let before = known.clone();
                known.recursive |= directory.recursive;
                known.leave_top |= directory.leave_top;
                known.only_empty &= directory.only_empty;
                if is_new || *known != before {
                    new.directories.push(known.clone());
                }
            }
        }
        let (files, ignored) = (&mut self.cleanup.files, &mut self.cleanup.ignored);
        let lists = [
            (&mut self.files, files, &more.files, &mut new.files),
            (&mut self.ignored, ignored, &more.ignored, &mut new.ignored),
        ];
        for (index, known, more, new) in lists {
            for path in more {
                if index.insert(path.clone()) {
                    self.size.count(path);
                    known.push(path.clone());
                    new.push(path.clone());
                }
            }
        }
        new
    }
}

/// Returns the target for the end of a job.
pub(super) fn whole_job(nspace: &Nspace<'static>) -> Proc<'static> {
    Proc::new(nspace.as_text().clone(), Rank::WILDCARD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: (u32, u32) = (100, 10);

    fn at_most(paths: usize) -> ControlLimits {
        ControlLimits {
            cleanups_per_job: paths,
            ..ControlLimits::default()
        }
    }

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("a", Rank::new(rank))
    }

    fn read(infos: &[(&'static str, &'static str)]) -> Result<CleanupRequest, Error> {
        let info = |(key, text): &(&'static str, &'static str)| Info::new(*key, *text);
        let infos: Vec<_> = infos.iter().map(info).collect();
        CleanupRequest::read(&infos, &ControlLimits::default())
    }

    fn texts(list: &[Text<'_>]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_are_lists_and_flags_apply_to_the_request() {
        let requested = read(&[
            (keys::REGISTER_CLEANUP, "/t/a,/t/b,"),
            (keys::REGISTER_CLEANUP_DIR, "/t/d"),
            (keys::CLEANUP_RECURSIVE, "true"),
            (keys::CLEANUP_IGNORE, "core,/t/d/keep"),
            ("pmix.jctrl.pause", "true"),
        ]);
        let requested = requested.unwrap();
        assert_eq!(requested.num_infos, 4);
        assert_eq!(texts(&requested.cleanup.files), ["/t/a", "/t/b"]);
        assert_eq!(texts(&requested.cleanup.ignored), ["core", "/t/d/keep"]);
        let expected = CleanupDirectory {
            path: Text::from("/t/d"),
            recursive: true,
            only_empty: false,
            leave_top: false,
        };
        assert_eq!(requested.cleanup.directories, [expected]);
    }

    #[test]
    fn an_unsafe_path_is_refused() {
        for path in ["relative", "/t/../etc/passwd", "/..", "./x", "/ok,../x"] {
            for key in [keys::REGISTER_CLEANUP, keys::REGISTER_CLEANUP_DIR] {
                let refused = read(&[(key, path)]).unwrap_err();
                assert_eq!(refused.status(), Status::ERR_BAD_PARAM, "{path}");
            }
        }
        assert!(read(&[(keys::REGISTER_CLEANUP, "/t/..a/b..")]).is_ok());
        let number = [Info::new(keys::REGISTER_CLEANUP, 1_u32)];
        let refused = CleanupRequest::read(&number, &ControlLimits::default()).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
    }

    #[test]
    fn distinct_paths_are_counted_while_they_are_split() {
        let read = |infos: &[Info<'_>], limits| {
            let read = CleanupRequest::read(infos, &limits);
            read.map(|request| request.cleanup.files.len())
                .map_err(|error| error.status())
        };
        let beyond = Err(Status::ERR_OUT_OF_RESOURCE);
        let lists = |num_files: usize| {
            let files: String = (0..num_files).map(|n| format!("/{n},,")).collect();
            [
                Info::new(keys::REGISTER_CLEANUP, files.repeat(100)),
                Info::new(keys::REGISTER_CLEANUP_DIR, "/d,"),
                Info::new(keys::CLEANUP_IGNORE, "c,c"),
            ]
        };
        assert_eq!(read(&lists(8), at_most(10)), Ok(8));
        assert_eq!(read(&lists(9), at_most(10)), beyond);
        let few_bytes = ControlLimits {
            cleanup_bytes_per_job: 1000,
            ..ControlLimits::default()
        };
        let long = [Info::new(keys::CLEANUP_IGNORE, "x".repeat(1000))];
        assert_eq!(read(&long, few_bytes), beyond);
    }

    #[test]
    fn conflicting_cleanup_directives_change_nothing() {
        let mut cleanups = Cleanups::default();
        let add = |cleanups: &mut Cleanups, infos| {
            let requested = read(infos).unwrap();
            let added = cleanups.add(&[proc(0)], USER, &requested.cleanup, &at_most(100));
            added.map_err(|error| error.status())
        };
        add(&mut cleanups, &[(keys::REGISTER_CLEANUP, "/t/a")]).unwrap();
        let conflict = Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        let ignore = [
            (keys::CLEANUP_IGNORE, "/t/a"),
            (keys::REGISTER_CLEANUP, "/t/b"),
        ];
        assert_eq!(add(&mut cleanups, &ignore), conflict);
        let ended = cleanups.proc_ended(&proc(0));
        assert_eq!(texts(&ended[0].1.files), ["/t/a"]);
    }

    #[test]
    fn repeated_cleanups_are_merged_into_the_wider() {
        let mut cleanups = Cleanups::default();
        let requests = [
            &[
                (keys::REGISTER_CLEANUP_DIR, "/d"),
                (keys::CLEANUP_EMPTY, "true"),
            ][..],
            &[
                (keys::REGISTER_CLEANUP_DIR, "/d"),
                (keys::CLEANUP_RECURSIVE, "true"),
            ],
            &[(keys::REGISTER_CLEANUP, "/f,/f")],
        ];
        for requested in requests {
            let requested = read(requested).unwrap();
            cleanups
                .add(&[proc(0)], USER, &requested.cleanup, &at_most(100))
                .unwrap();
        }
        let (_, cleanup) = cleanups.proc_ended(&proc(0)).remove(0);
        assert_eq!(texts(&cleanup.files), ["/f"]);
        assert_eq!(cleanup.directories.len(), 1);
        assert!(cleanup.directories[0].recursive && !cleanup.directories[0].only_empty);
    }

    #[test]
    fn each_cleanup_is_returned_once_at_the_end_of_its_target() {
        let mut cleanups = Cleanups::default();
        let requested = read(&[(keys::REGISTER_CLEANUP, "/f")]).unwrap().cleanup;
        let job = whole_job(&Nspace::new("a"));
        let targets = [proc(0), proc(1), job.clone()];
        cleanups
            .add(&targets, USER, &requested, &at_most(100))
            .unwrap();
        cleanups
            .add(&targets[..1], (7, 7), &requested, &at_most(100))
            .unwrap();
        assert_eq!(
            cleanups.proc_ended(&proc(0)).len(),
            2,
            "one cleanup per user"
        );
        assert_eq!(cleanups.proc_ended(&proc(0)), []);
        assert_eq!(cleanups.job_ended(&Nspace::new("b")), []);
        let ended = cleanups.job_ended(&Nspace::new("a"));
        let key: Vec<_> = ended.into_iter().map(|((proc, _), _)| proc).collect();
        assert_eq!(key, [proc(1), job], "processes precede the job");
        assert_eq!(cleanups.count().0, 0);
    }

    #[test]
    fn cleanup_paths_of_a_job_are_bounded() {
        let mut cleanups = Cleanups::default();
        let two = read(&[(keys::REGISTER_CLEANUP, "/1,/2")]).unwrap().cleanup;
        cleanups.add(&[proc(0)], USER, &two, &at_most(3)).unwrap();
        cleanups.add(&[proc(0)], USER, &two, &at_most(3)).unwrap();
        let refused = cleanups
            .add(&[proc(1)], USER, &two, &at_most(3))
            .unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        let elsewhere = Proc::new("b", Rank::new(0));
        cleanups.add(&[elsewhere], USER, &two, &at_most(3)).unwrap();
        assert_eq!(cleanups.count().0, 2);
    }

    #[test]
    fn cleanup_bytes_of_a_job_are_bounded_and_released() {
        let mut cleanups = Cleanups::default();
        let path = format!("/{}", "x".repeat(1000));
        let infos = [Info::new(keys::REGISTER_CLEANUP, path)];
        let long = CleanupRequest::read(&infos, &ControlLimits::default());
        let long = long.unwrap().cleanup;
        let limits = ControlLimits {
            cleanup_bytes_per_job: 5000,
            cleanup_bytes: 8000,
            ..ControlLimits::default()
        };
        for _ in 0..3 {
            for rank in [0, 1, 0] {
                cleanups.add(&[proc(rank)], USER, &long, &limits).unwrap();
            }
            let refused = cleanups.add(&[proc(2)], USER, &long, &limits);
            assert_eq!(refused.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
            let of = |nspace: &'static str| [Proc::new(nspace, Rank::new(0))];
            cleanups.add(&of("b"), USER, &long, &limits).unwrap();
            let refused = cleanups.add(&of("c"), USER, &long, &limits);
            assert_eq!(refused.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
            assert_eq!(cleanups.proc_ended(&proc(0)).len(), 1);
            assert_eq!(cleanups.job_ended(&Nspace::new("a")).len(), 1);
            assert_eq!(cleanups.job_ended(&Nspace::new("b")).len(), 1);
            assert!(cleanups.jobs.is_empty() && cleanups.bytes == 0);
        }
    }
}
