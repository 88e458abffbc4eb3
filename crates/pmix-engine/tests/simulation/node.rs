// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node with its engine.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use gds_hash::{LocalNode, Store};
use pmix_engine::{
    Claim, Config, Engine, Error, HostObject, PeerId, Psec, SharedChange, Verification, Verified,
};
use pmix_proto::shared::SharedKey;
use pmix_types::{Info, Nspace, Proc, Rank, Status, keys};
use preg_core::{Params, Preg};

use crate::client::Who;
use crate::process::Job;

/// The user of all jobs.
pub(crate) const UID: u32 = 1000;

/// A node with its engine.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    /// The datastore of the engine.
    pub(crate) store: Arc<Store>,
    /// The number of servers before this one.
    pub(crate) life: u32,
    /// The open connections.
    pub(crate) peers: HashMap<PeerId, Who>,
    /// The amount by which the clock of the node is fast.
    pub(crate) ahead: Duration,
    /// The time of the engine's next timer; later scheduled ones have no effect.
    pub(crate) alarm: Option<Instant>,
    /// The number of the last arrived message, to detect reordering.
    pub(crate) last_arrived: u64,
    /// The data shared with its clients, by job and key.
    pub(crate) shared: BTreeMap<(Nspace<'static>, Vec<u8>), Vec<u8>>,
    /// The pending results of its security module, if that is asynchronous.
    late: Option<Asked>,
}

/// Peers with the results of their credentials.
type Asked = Arc<Mutex<Vec<(PeerId, Result<Verified, Error>)>>>;

impl Node {
    pub(crate) fn new(place: usize, life: u32, config: &Config) -> Self {
        static PREG: OnceLock<Arc<Preg>> = OnceLock::new();
        let preg = PREG.get_or_init(|| {
            let preg = pmix_builtin::open_preg(&Params::default());
            Arc::new(preg.unwrap())
        });
        let store = Store::new(preg.clone(), LocalNode::new(name(place)));
        let store = Arc::new(store);
        let mut config = config.clone();
        config.server = Proc::new(format!("server{place}"), Rank::new(0));
        // Every other server verifies credentials asynchronously.
        let late = (place + life as usize) % 2 == 1;
        let late = late.then(Asked::default);
        let psec = Native(late.clone());
        Self {
            engine: Engine::new(config, Arc::clone(&store), vec![Box::new(psec)]),
            late,
            shared: BTreeMap::new(),
            store,
            life,
            peers: HashMap::new(),
            ahead: Duration::ZERO,
            alarm: None,
            last_arrived: 0,
        }
    }

    /// Removes and returns the pending results of the security module.
    pub(crate) fn take_asked(&self) -> Vec<(PeerId, Result<Verified, Error>)> {
        let late = self.late.as_ref();
        late.map(|asked| std::mem::take(&mut *asked.lock().unwrap()))
            .unwrap_or_default()
    }

    /// Applies the changes of the shared data. Checks that those of a process equal the reply to a get: no data of a
    /// lost incarnation and no replaced values.
    pub(crate) fn share(&mut self, jobs: &[Job]) {
        self.change_shared();
        for job in jobs {
            for rank in (0..job.size()).map(Rank::new) {
                let proc = Proc::new(job.nspace, rank);
                let key = (job.nspace.into(), SharedKey::Puts(rank).to_bytes());
                let stands = self.shared.get(&key);
                let expected = self.engine.shared_puts_of(&proc);
                assert_eq!(stands, expected.as_ref(), "{proc:?}");
            }
        }
    }

    fn change_shared(&mut self) {
        while let Some(change) = self.engine.poll_shared() {
            match change {
                SharedChange::Put { nspace, key, value } => {
                    self.shared.insert((nspace, key), value);
                }
                SharedChange::Remove { nspace, key } => {
                    assert!(self.shared.remove(&(nspace, key)).is_some());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Removes the shared data of a job.
    pub(crate) fn forget_shared(&mut self, nspace: &Nspace<'_>) {
        self.change_shared();
        self.shared.retain(|(of, _), _| of != nspace);
    }

    /// Registers a job with processes on this node. Some hosts register the processes before the job.
    pub(crate) fn register(&mut self, place: usize, job: &Job, with_job: bool) {
        let names: Vec<_> = (0..job.per_node.len()).map(name).collect();
        let groups = (0..job.per_node.len()).map(|node| {
            let ranks: Vec<_> = job.ranks_on(node).map(|rank| rank.to_string()).collect();
            ranks.join(",")
        });
        let groups: Vec<_> = groups.collect();
        let infos = [
            Info::new(keys::NODE_MAP, names.join(",")),
            Info::new(keys::PROC_MAP, groups.join(";")),
        ];
        for rank in job.ranks_on(place) {
            self.register_client(job, rank);
        }
        let num_local = u32::try_from(job.ranks_on(place).count()).unwrap();
        if with_job && num_local > 0 {
            let nspace = job.nspace.into();
            let engine = &mut self.engine;
            engine.register_nspace(&nspace, num_local, &infos).unwrap();
        }
    }

    pub(crate) fn register_client(&mut self, job: &Job, rank: u32) {
        let proc = Proc::new(job.nspace, Rank::new(rank));
        let object = HostObject(rank.into());
        let engine = &mut self.engine;
        engine
            .register_client(&proc, pmix_engine::Credentials::new(UID, UID), object)
            .unwrap();
    }
}

fn name(place: usize) -> String {
    format!("n{place:02}")
}

/// A security module that accepts any pair of numbers, at once or later.
struct Native(Option<Asked>);

impl Psec for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn verify(&self, credential: &[u8], claim: &Claim<'_>) -> Result<Verification, Error> {
        let verified = believe(credential);
        match &self.0 {
            Some(asked) => {
                asked.lock().unwrap().push((claim.peer, verified));
                Ok(Verification::Pending)
            }
            None => verified.map(Verification::Done),
        }
    }
}

fn believe(credential: &[u8]) -> Result<Verified, Error> {
    let ([uid, gid], []) = credential.as_chunks::<4>() else {
        return Err(Error::new(
            Status::ERR_INVALID_CRED,
            "the credential does not have two numbers",
        ));
    };
    Ok(Verified {
        uid: Some(u32::from_ne_bytes(*uid)),
        gid: Some(u32::from_ne_bytes(*gid)),
    })
}
