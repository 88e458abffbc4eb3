// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets about the session of a job.

use super::*;

/// Returns the reply to a get of the own job with a value.
fn told(form: &PeerForm, key: &'static str, value: Value<'static>) -> Vec<u8> {
    let key = key.into();
    let kvals = pmix_proto::reply::pack_kvals(form, None, &[Kval { key, value }]).unwrap();
    let of = Proc::new("job", Rank::WILDCARD);
    let object = pmix_proto::reply::Object { of, kvals: &kvals };
    let reply = pmix_proto::reply::Objects {
        status: Status::SUCCESS,
        objects: &object.encode(form).unwrap(),
    };
    reply.encode(form, None).unwrap()
}

#[test]
fn uncached_session_info_is_requested_from_the_server() {
    let job = Proc::new("job", Rank::WILDCARD);
    let key = keys::UNIV_SIZE;
    let of_session = Info::new(keys::SESSION_INFO, true);
    let numbered = [of_session.clone(), Info::new(keys::SESSION_ID, 9_u32)];
    for about in [&numbered[..1], &numbered] {
        let mut side = Side::begun();
        let form = *side.core.form();
        // A value of the job is not one of its session.
        side.core.get(&job, key, &[], None).unwrap();
        side.reply(Command::GETNB, &told(&form, key, Value::Uint32(4)));
        assert!(side.core.known(&job, key, &[]).is_some());
        side.core.poll_completed();
        let get = side.core.get(&job, key, about, None).unwrap();
        side.reply(Command::GETNB, &told(&form, key, Value::Uint32(8)));
        let eight = Ok(Answer::Value(Value::Uint32(8)));
        assert_eq!(side.core.poll_completed(), Some((get, eight)));
        // Later gets need no request only if the number of the session is known.
        let again = side.core.known(&job, key, about);
        assert_eq!(again.is_some(), about.len() == 2);
    }
    // A server without sessions returns an error.
    let mut side = Side::begun();
    let form = *side.core.form();
    side.core.get(&job, key, &[], None).unwrap();
    side.reply(Command::GETNB, &told(&form, key, Value::Uint32(4)));
    side.core.poll_completed();
    let get = side.core.get(&job, key, &numbered[..1], None).unwrap();
    let none = pmix_proto::reply::status(&form, Status::ERR_NOT_FOUND).unwrap();
    side.reply(Command::GETNB, &none);
    let four = Ok(Answer::Value(Value::Uint32(4)));
    assert_eq!(side.core.poll_completed(), Some((get, four)));
}
