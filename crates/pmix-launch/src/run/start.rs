// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting a job.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use mio::{Poll, Token};
use pmix_host::cleanup::ProtectedPaths;
use pmix_host::forward::{OutputForwarder, OutputStream};
use pmix_host::publish::PublishService;
use pmix_server::{HostObject, Registration, WireObserver};
use pmix_types::{Nspace, Proc, Text};

use super::Standard;
use super::groups::Groups;
use super::job::{FORWARD, INPUT, Job, SIGNALS};
use super::log::Logs;
use super::missing::Missing;
use super::stop::Stop;
use crate::host::{LocalHost, host_channel};
use crate::input::{self, Input};
use crate::job_info::{self, Bound};
use crate::output::Route;
use crate::process::{self, Orphans, Spawner, Started, Table, Watcher, limits};
use crate::session_dir::SessionDir;
use crate::signals::Signals;
use crate::{Error, Output, Plan, service};

impl<'a> Job<'a> {
    /// Starts every process of this node.
    pub(super) fn start(
        plan: &'a Plan,
        standard: Standard<'a>,
        observer: Option<Box<dyn WireObserver>>,
    ) -> Result<Self, Error> {
        // Before anything is made that would have to be taken back.
        let num_here = plan.layout.here().len();
        let num_pipes = Route::num_pipes(plan, standard.output, standard.errors);
        limits::check(num_here, num_pipes)?;
        let bound = job_info::bind(plan)?;
        let spawner = Spawner::new(plan, &bound)?;
        let mut job = Self::prepare(plan, standard, observer)?;
        let route = Route::new(plan, standard.output, standard.errors)?;
        // The server has opened what it needs by now.
        limits::check(num_here, num_pipes)?;
        job.register(&bound)?;
        job.announce(&bound);
        job.spawn(&spawner, &route, &bound)?;
        Ok(job)
    }

    /// Everything but the processes.
    fn prepare(
        plan: &'a Plan,
        standard: Standard<'a>,
        observer: Option<Box<dyn WireObserver>>,
    ) -> Result<Self, Error> {
        let cannot_poll = |e| Error::system("cannot poll", e);
        let poll = Poll::new().map_err(cannot_poll)?;
        let registry = poll.registry();
        let signals = Signals::take(registry, Token(SIGNALS))?;
        let (host_channel, messages) = host_channel();
        let session = SessionDir::create(&plan.tmpdir, plan.layout.here())?;
        let server = service::start(
            plan,
            &session,
            LocalHost::new(host_channel, plan.nspace.clone().into(), plan.forward_io),
            observer,
        )?;
        let watched = server.watch(registry.as_fd());
        watched.map_err(|e| Error::server("the server does not wait for the launcher", e))?;
        let tag = (plan.output == Output::Tagged).then(|| plan.nspace.clone());
        Ok(Self {
            plan,
            standard,
            signals,
            table: Table::default(),
            watcher: Watcher::start(plan.watcher.as_deref(), session.path()),
            orphans: Orphans::adopt(plan.adopt),
            server,
            session,
            forward: OutputForwarder::new(FORWARD, standard.output, standard.errors, tag)
                .whole_lines_if(plan.output == Output::Lines)
                .keep_chunks_if(plan.forward_io),
            logs: Logs::default(),
            missing: Missing::default(),
            groups: Groups::default(),
            written: 0,
            input: Input::Own,
            stop: Stop::new(plan, Instant::now()),
            messages,
            published: PublishService::default(),
            protected: ProtectedPaths::new(kept(plan)),
            poll,
        })
    }

    /// Tells the server of the job and of its processes here.
    fn register(&self, bound: &Bound) -> Result<(), Error> {
        let here = self.plan.layout.here();
        let server = service::name(&self.plan.nspace);
        let infos = job_info::of_job(self.plan, &self.session, bound, &server);
        let layout = &self.plan.layout;
        let maps = (layout.nodes().clone(), layout.procs().clone());
        let registration = Registration::new(&infos).with_maps(maps.0, maps.1);
        let nspace = Nspace::new(self.plan.nspace.as_str());
        let num_here = u32::try_from(here.len()).unwrap_or(u32::MAX);
        let refused = |e| Error::server("the job cannot be registered", e);
        (self.server.register_nspace(&nspace, num_here, registration)).map_err(refused)?;
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        for &rank in here {
            let proc = Proc::new(nspace.clone(), rank);
            let object = HostObject(u64::from(rank.as_raw()));
            (self
                .server
                .register_client(&proc, pmix_server::Credentials::new(uid, gid), object))
            .map_err(refused)?;
        }
        for set in &self.plan.process_sets {
            let name = Text::from(set.name.as_str());
            let members = set.ranks().map(|rank| Proc::new(nspace.clone(), rank));
            let members: Vec<_> = members.collect();
            (self.server.define_process_set(&name, &members)).map_err(refused)?;
        }
        Ok(())
    }

    /// Says where each process will run, if that is asked for.
    fn announce(&mut self, bound: &Bound) {
        if !self.plan.announce {
            return;
        }
        let host = String::from_utf8_lossy(self.plan.layout.host());
        let lines: String = (self.plan.layout.here().iter().enumerate())
            .map(|(index, rank)| match bound.cpus.get(index) {
                Some(cpus) => format!("rank {rank} on {host}: bound to processors {cpus}\n"),
                None => format!("rank {rank} on {host}: not bound\n"),
            })
            .collect();
        self.forward.write_error(lines.as_bytes());
    }

    fn spawn(
        &mut self,
        spawner: &Spawner<'_>,
        route: &Route<'_>,
        bound: &Bound,
    ) -> Result<(), Error> {
        let plan = self.plan;
        self.orphans.spare(self.watcher.pid());
        for (index, &rank) in plan.layout.here().iter().enumerate() {
            let [output, errors] = route.of(rank)?;
            let standard = process::Standard {
                input: input::of(plan, rank, self.standard.input)?,
                output,
                errors,
            };
            let proc = Proc::new(plan.nspace.as_str(), rank);
            let vars = self.server.setup_fork(&proc);
            let vars = vars.map_err(|e| Error::server("the server has no address", e))?;
            let started = spawner.start(rank, bound.cpus.get(index), &vars, standard)?;
            self.adopt(started)?;
            // Those that run are not kept waiting for those that do not.
            self.serve();
        }
        Ok(())
    }

    fn adopt(&mut self, started: Started) -> Result<(), Error> {
        let rank = started.process.rank;
        self.watcher.tell(started.process.pid);
        self.table.push(started.process);
        let registry = self.poll.registry();
        let streams = [
            (OutputStream::Output, started.output),
            (OutputStream::Errors, started.errors),
        ];
        for (kind, pipe) in streams {
            if let Some(pipe) = pipe {
                let added = self.forward.add(registry, rank, kind, pipe);
                added.map_err(|e| Error::system(format!("cannot read from rank {rank}"), e))?;
            }
        }
        if let Some(rank0) = started.input {
            let made = Input::new(self.plan, registry, INPUT, self.standard.input, rank0);
            self.input = made.map_err(|e| Error::system("cannot fill standard input", e))?;
        }
        Ok(())
    }
}

/// What is not removed whoever asks: where the job and the launcher work, and the user's home.
fn kept(plan: &Plan) -> impl Iterator<Item = PathBuf> {
    let home = plan.environment.iter().find(|(name, _)| name == "HOME");
    let home = home.map(|(_, home)| PathBuf::from(home));
    let wdirs = plan.apps.iter().filter_map(|app| app.wdir.clone());
    [plan.tmpdir.clone(), PathBuf::from(".")]
        .into_iter()
        .chain(home)
        .chain(wdirs)
}
