// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job info that the launcher registers with its server and that does not follow from the two maps.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pmix_types::{DataArray, Info, Proc, Rank, Text, Value, keys};

use crate::placement::{Policy, place};
use crate::session_dir::{JobDir, SessionDir};
use crate::stops::StopPoint;
use crate::{Error, Part, Plan};
use pmix_topology::{Cpuset, Level, Topology};

/// The binding of the processes.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// The topology of the node; empty unless processes are bound.
    pub(crate) topology: Option<Topology>,
    /// The processors of each local process.
    pub(crate) cpus: Vec<Cpuset>,
    /// `true` if there are more local processes than available processors.
    pub(crate) oversubscribed: bool,
}

/// Binds the processes of a job if its policy requires it. The topology is read only in that case.
///
/// # Errors
/// Returns [`Error`] if none of the named processors is available, or if the policy is strict and there are too few.
pub(crate) fn bind(
    environment: &[(OsString, OsString)],
    policy: Policy,
    cpus: Option<&Cpuset>,
    allowed: Option<Cpuset>,
    num_here: usize,
) -> Result<Bound, Error> {
    let num_allowed = allowed
        .as_ref()
        .map_or(usize::MAX, |cpus| cpus.len() as usize);
    let oversubscribed = num_here > num_allowed;
    // Without a binding, only a number of processes on each part has to fit.
    let is_checked = policy.strict && policy.procs_each.is_some();
    if policy.bind_to.is_none() && !is_checked {
        return Ok(Bound {
            oversubscribed,
            ..Bound::default()
        });
    }
    let topology = crate::topology::this_machine(environment);
    let everything = || topology.parts(Level::Node).first().cloned();
    let allowed = allowed.or_else(everything).unwrap_or_default();
    let allowed = match cpus {
        Some(cpus) if !cpus.intersects(&allowed) => {
            return Err(Error::unmapped(format!(
                "none of the processors {cpus} of the list for --cpu-set is available: this process is restricted to {allowed}"
            )));
        }
        // A list without an end names all processors from a number on.
        Some(cpus) if !cpus.is_endless() && !cpus.is_subset(&allowed) => {
            let missing: Cpuset = cpus.iter().filter(|cpu| !allowed.contains(*cpu)).collect();
            return Err(Error::unmapped(format!(
                "the processors {missing} of the list {cpus} for --cpu-set are not available: name only processors in \
                {allowed}, to which this process is restricted"
            )));
        }
        Some(cpus) => allowed.and(cpus),
        None => allowed,
    };
    let placeable = policy.check(&topology, &allowed, num_here);
    placeable.map_err(Error::unmapped)?;
    if policy.bind_to.is_none() {
        return Ok(Bound {
            oversubscribed,
            ..Bound::default()
        });
    }
    Ok(Bound {
        cpus: place(policy, &topology, &allowed, num_here),
        topology: Some(topology),
        oversubscribed,
    })
}

/// The surroundings of a job: its directories, its server, and the process that spawned it.
pub(crate) struct Places<'a> {
    pub(crate) session: &'a SessionDir,
    pub(crate) job: &'a JobDir,
    pub(crate) server: &'a Proc<'static>,
    /// The process that spawned the job, if any.
    pub(crate) parent: Option<&'a Proc<'static>>,
    /// The processes that are debugged, if this is a job of debugger daemons.
    pub(crate) debug_target: Option<&'a Proc<'static>>,
    /// The directives for the job that an intermediate launcher starts, if this job is one.
    pub(crate) for_launcher: Option<&'a [Info<'static>]>,
    /// The values that a spawn by PMI defines for its processes.
    pub(crate) preput: &'a [Info<'static>],
    /// The number of processes that the session started before this job.
    pub(crate) offset: u32,
}

/// Returns the infos of a job. Its maps are registered separately, in folded form.
pub(crate) fn of_job(plan: &Plan, bound: &Bound, places: &Places<'_>) -> Vec<Info<'static>> {
    let mut infos = wide(plan, bound, places);
    let server = places.server;
    infos.push(Info::new(
        keys::SERVER_NSPACE,
        text(server.nspace.as_bytes()),
    ));
    infos.push(Info::new(keys::SERVER_RANK, Value::Rank(server.rank)));
    if let Some(parent) = places.parent {
        infos.push(Info::new(keys::PARENT_ID, parent.clone()));
    }
    if let Some(target) = places.debug_target {
        infos.push(Info::new(keys::DEBUG_TARGET, target.clone()));
        infos.push(Info::new(keys::DEBUG_JOB, text(target.nspace.as_bytes())));
    }
    if let Some(directives) = places.for_launcher {
        infos.push(Info::new(
            keys::LAUNCH_DIRECTIVES,
            array(directives.to_vec()),
        ));
    }
    infos.extend_from_slice(places.preput);
    let mut first = 0u64;
    for (number, app) in (0u32..).zip(&plan.apps) {
        let mut about = vec![
            Info::new(keys::APPNUM, number),
            Info::new(keys::APP_SIZE, app.num_procs),
            Info::new(keys::APP_ARGV, text(&argv(app))),
        ];
        if let Ok(leader) = u32::try_from(first) {
            about.push(Info::new(keys::APPLDR, Value::Rank(Rank::new(leader))));
        }
        if let Ok(wdir) = std::path::absolute(app.wdir.as_deref().unwrap_or_else(|| Path::new(".")))
        {
            about.push(Info::new(keys::WDIR, path(&wdir)));
        }
        first += u64::from(app.num_procs);
        infos.push(Info::new(keys::APP_INFO_ARRAY, array(about)));
    }
    for (index, &rank) in plan.layout.here().iter().enumerate() {
        infos.push(of_process(rank, bound, places, index));
    }
    infos
}

/// Returns the infos of the job realm.
fn wide(plan: &Plan, bound: &Bound, places: &Places<'_>) -> Vec<Info<'static>> {
    let Policy {
        map_by, bind_to, ..
    } = plan.policy;
    let bind_to = bind_to.map_or_else(|| "NONE".to_owned(), |l| l.name().to_ascii_uppercase());
    let mut infos = vec![
        Info::new(keys::JOBID, text(plan.nspace.as_bytes())),
        Info::new(keys::CMD_LINE, text(&command_line(plan))),
        Info::new(keys::TMPDIR, path(places.session.path())),
        Info::new(keys::NSDIR, path(places.job.path())),
        // The launcher removes the session directory with its content, so processes need not clean up in it.
        Info::new(keys::TDIR_RMCLEAN, true),
        Info::new(keys::MAPBY, text(map_by.attribute().as_bytes())),
        // Ranks are assigned in the order of placement.
        Info::new(keys::RANKBY, text(b"slot")),
        Info::new(keys::BINDTO, text(bind_to.as_bytes())),
        // The session belongs to this process.
        Info::new(keys::SESSION_ID, session(plan)),
        // Ranks are counted across the jobs of a session.
        Info::new(keys::NPROC_OFFSET, Value::Rank(Rank::new(places.offset))),
    ];
    // An array for a node without processes would have an empty list of peers, which Open MPI 4.1 and 5.0 do not expect.
    if !plan.layout.here().is_empty() {
        infos.push(of_node(plan, bound));
    }
    if let Ok(num_procs) = u32::try_from(plan.layout.num_procs()) {
        infos.push(Info::new(keys::UNIV_SIZE, num_procs));
    }
    let mapping = || pmix_pmi::process_mapping(plan.layout.procs());
    if let Some(mapping) = plan.interfaces.have_pmi().then(mapping).flatten() {
        infos.push(Info::new(pmix_pmi::MAPPING, text(mapping.as_bytes())));
    }
    // With the XML, users of hwloc need not discover the topology again.
    if let Some(xml) = bound.topology.as_ref().and_then(Topology::xml) {
        infos.push(Info::new(keys::HWLOC_XML_V2, text(xml.as_bytes())));
    }
    infos.extend(of_stops(plan));
    if bound.oversubscribed {
        infos.push(Info::new(keys::NODE_OVERSUBSCRIBED, true));
    }
    infos
}

/// Returns the number of the session: the process id of its launcher.
fn session(plan: &Plan) -> u32 {
    match plan.part {
        Part::Member { session, .. } => session,
        Part::Alone | Part::Controller(_) => std::process::id(),
    }
}

/// Returns the infos for the processes that stop for a debugger. OpenPMIx stops all processes of a job that has the
/// key and ignores the ranks in its value.
fn of_stops(plan: &Plan) -> impl Iterator<Item = Info<'static>> + use<'_> {
    let stopping = StopPoint::ALL.into_iter().filter_map(|point| {
        let ranks = plan.stops.at(point);
        (!ranks.is_empty()).then_some((point.key(), ranks))
    });
    stopping.map(
        |(key, ranks)| match ranks.len() == plan.layout.here().len() {
            true => Info::new(key, true),
            false => {
                let proc = |rank: &Rank| Proc::new(plan.nspace.clone(), *rank);
                let procs: Vec<_> = ranks.iter().map(proc).collect();
                Info::new(key, procs)
            }
        },
    )
}

/// Returns the infos of the node realm.
fn of_node(plan: &Plan, bound: &Bound) -> Info<'static> {
    let mut about = vec![Info::new(keys::HOSTNAME, text(plan.layout.host()))];
    if let Ok(num_here) = u32::try_from(plan.layout.here().len()) {
        about.push(Info::new(keys::NODE_SIZE, num_here));
    }
    let aliases = aliases(plan);
    if !aliases.is_empty() {
        about.push(Info::new(keys::HOSTNAME_ALIASES, text(&aliases)));
    }
    if let Some(memory) = crate::topology::memory_kb() {
        // In bytes, as prterun registers it.
        let bytes = memory.saturating_mul(1024);
        about.push(Info::new(keys::AVAIL_PHYS_MEMORY, bytes));
    }
    // In the order of ranks, as `PMIX_LOCAL_PEERS` is.
    if !bound.cpus.is_empty() {
        let all: Vec<_> = bound.cpus.iter().map(ToString::to_string).collect();
        about.push(Info::new(
            keys::LOCAL_CPUSETS,
            text(all.join(":").as_bytes()),
        ));
    }
    Info::new(keys::NODE_INFO_ARRAY, array(about))
}

fn of_process(rank: Rank, bound: &Bound, places: &Places<'_>, index: usize) -> Info<'static> {
    let mut about = vec![
        Info::new(keys::RANK, Value::Rank(rank)),
        // The number of restarts; updated when the process is started again.
        Info::new(keys::REINCARNATION, 0u32),
        Info::new(keys::SPAWNED, places.parent.is_some()),
        Info::new(keys::PROCDIR, path(&places.job.of_process(rank))),
    ];
    // The Standard puts `PMIX_PARENT_ID` in the process realm, and clients of OpenPMIx look only there for a process.
    if let Some(parent) = places.parent {
        about.push(Info::new(keys::PARENT_ID, parent.clone()));
    }
    // The rank among the processes of all jobs on this node.
    if places.parent.is_some()
        && let Ok(node_rank) = u16::try_from(places.offset.saturating_add(rank.as_raw()))
    {
        about.push(Info::new(keys::NODE_RANK, node_rank));
    }
    if let (Some(cpus), Some(topology)) = (bound.cpus.get(index), &bound.topology) {
        about.push(Info::new(keys::CPUSET, text(cpus.to_string().as_bytes())));
        if let Some(locality) = topology.locality(cpus) {
            about.push(Info::new(keys::LOCALITY_STRING, text(locality.as_bytes())));
        }
    } else {
        // As in PRRTE: a value without a string means "not bound"; a missing key would leave it open.
        for key in [keys::CPUSET, keys::LOCALITY_STRING] {
            about.push(Info::new(key, Value::String(None)));
        }
    }
    Info::new(keys::PROC_INFO_ARRAY, array(about))
}

/// The largest number of addresses among the names of this node. Containers may give a node thousands of interfaces.
const MAX_ADDRESSES: usize = 64;

/// Returns the other names of this node, separated by commas: its name up to the first dot unless it is an address,
/// `localhost`, and the addresses of its interfaces, as under prterun. A name that another node of the job has is omitted.
fn aliases(plan: &Plan) -> Vec<u8> {
    let host = plan.layout.host();
    let text = std::str::from_utf8(host).unwrap_or_default();
    let short = match text.parse::<IpAddr>() {
        Ok(_) => host,
        Err(_) => host.split(|byte| *byte == b'.').next().unwrap_or_default(),
    };
    let is_free = |name: &Vec<u8>| !name.is_empty() && plan.layout.nodes().position(name).is_none();
    let names = [short.to_vec(), b"localhost".to_vec()].into_iter();
    let addresses = addresses()
        .into_iter()
        .map(|it| it.to_string().into_bytes());
    let names = names.chain(addresses.take(MAX_ADDRESSES)).filter(is_free);
    names.collect::<Vec<_>>().join(&b',')
}

/// Returns the addresses of the interfaces of this node by which other nodes can know it.
fn addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let known = interfaces.iter().filter(|it| !it.is_loopback());
    // An address that is local to a link needs the name of the link.
    let known = known.filter(|it| !it.is_link_local());
    let mut addresses: Vec<_> = known.map(|it| it.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Returns the command lines of all applications with ` : ` between them.
fn command_line(plan: &Plan) -> Vec<u8> {
    let apps: Vec<_> = plan.apps.iter().map(argv).collect();
    apps.join(&b" : "[..])
}

/// Returns the command line, its words separated by spaces as clients expect it.
fn argv(app: &crate::App) -> Vec<u8> {
    let words: Vec<&OsStr> = app.argv().collect();
    words.join(OsStr::new(" ")).as_bytes().to_vec()
}

fn array(infos: Vec<Info<'static>>) -> Value<'static> {
    Value::DataArray(DataArray::Info(infos))
}

fn text(bytes: &[u8]) -> Value<'static> {
    Value::String(Some(Text::new(bytes.to_vec())))
}

fn path(path: &Path) -> Value<'static> {
    text(path.as_os_str().as_bytes())
}
