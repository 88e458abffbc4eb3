// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that readers never wait. One thread stops in the middle of an operation, and another
//! thread reads before it lets the first thread continue.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bfrops::{Layout, Module, RegexExtent, RegexFramer};
use gds_hash::{Codec, LocalNode, Remote, Request, Store};
use pmix_types::{Bytes, Info, Nspace, Rank, RegexBytes, Release, Scope, Value, keys};
use preg_core::Params;

const JOB: &str = "job";

fn store() -> Store {
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    let store = Store::new(Arc::new(preg), LocalNode::new("a"));
    let infos = [
        Info::new(keys::NODE_MAP, "a,b"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
        Info::new(
            "site.map",
            Value::Regex(RegexBytes(Bytes::Borrowed(b"elsewhere"))),
        ),
    ];
    store.register_nspace(&Nspace::new(JOB), 2, &infos).unwrap();
    store
}

fn codec() -> Codec<'static> {
    Codec::new(Layout::new(Module::V41))
}

/// A point at which a thread stops until it may continue.
struct Stop {
    here: Sender<()>,
    on: Receiver<()>,
}

/// The other end of a [`Stop`].
struct Go {
    here: Receiver<()>,
    on: Sender<()>,
}

/// A time limit far above the duration of the tests, which only an endless wait reaches.
const EVER: Duration = Duration::from_secs(60);

fn stop() -> (Stop, Go) {
    let ((here, there), (on, wait)) = (channel(), channel());
    let stop = Stop { here, on: wait };
    (stop, Go { here: there, on })
}

impl Stop {
    fn wait(self) {
        self.here.send(()).unwrap();
        self.on.recv_timeout(EVER).expect("the other thread waits");
    }
}

impl Go {
    /// Runs a closure while the other thread is stopped.
    fn meanwhile(self, run: impl FnOnce()) {
        self.here.recv_timeout(EVER).expect("no thread stops");
        run();
        self.on.send(()).expect("the other thread gave up");
    }
}

/// A framer without maps that stops on its first call.
struct Stopping(Cell<Option<Stop>>);

impl RegexFramer for Stopping {
    fn regex_extent(&self, _: &[u8]) -> Result<Option<RegexExtent>, String> {
        if let Some(stop) = self.0.take() {
            stop.wait();
        }
        Ok(None)
    }
}

#[test]
fn a_reader_does_not_wait_for_a_writer_in_the_middle_of_its_change() {
    let store = store();
    let job = Nspace::new(JOB);
    let shared = store.job(&job).unwrap();
    let reply = shared
        .reply(&codec(), Release::V5_0_11, Remote::Whole)
        .unwrap();
    let (stop, go) = stop();
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            let change = |puts: &mut gds_hash::ModexStore| {
                puts.put(Rank::new(0), Scope::GLOBAL, Info::new("app.key", true))?;
                stop.wait();
                Ok(())
            };
            store.update_modex(&Nspace::new(JOB), change).unwrap();
        });
        go.meanwhile(|| {
            let request = Request::new(Rank::new(3), keys::HOSTNAME);
            assert_eq!(store.get(&job, &request).unwrap(), Value::from("b"));
            assert_eq!(store.nspaces(), std::slice::from_ref(&job));
            assert_eq!(store.local_procs().len(), 2);
            let known = store.job(&job).unwrap();
            assert!(!known.modex_store().has_rank(Rank::new(0)), "half a change");
            let again = known
                .reply(&codec(), Release::V5_0_11, Remote::Whole)
                .unwrap();
            assert!(Arc::ptr_eq(&reply, &again));
            known
                .reply(&codec(), Release::V4_2_2, Remote::Whole)
                .unwrap();
        });
    });
    assert!(shared.modex_store().has_rank(Rank::new(0)));
}

#[test]
fn a_reply_does_not_wait_for_that_of_another_release() {
    let store = store();
    let known = store.job(&Nspace::new(JOB)).unwrap();
    let built = known
        .reply(&codec(), Release::V4_2_2, Remote::Whole)
        .unwrap();
    let (stop, go) = stop();
    std::thread::scope(|scope| {
        let known = &known;
        let slow = scope.spawn(move || {
            let framer = Stopping(Cell::new(Some(stop)));
            let codec = codec().with_framer(&framer);
            known
                .reply(&codec, Release::V5_0_11, Remote::Whole)
                .unwrap()
        });
        go.meanwhile(|| {
            known
                .reply(&codec(), Release::V6_1_0, Remote::Whole)
                .unwrap();
            let again = known
                .reply(&codec(), Release::V4_2_2, Remote::Whole)
                .unwrap();
            assert!(Arc::ptr_eq(&built, &again));
        });
        let slow = slow.join().unwrap();
        let again = known
            .reply(&codec(), Release::V5_0_11, Remote::Whole)
            .unwrap();
        assert!(Arc::ptr_eq(&slow, &again));
    });
}
