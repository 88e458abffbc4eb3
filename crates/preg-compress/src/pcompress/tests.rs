// SPDX-License-Identifier: MIT OR Apache-2.0

use pmix_mca::Source;

use super::*;

fn select(settings: &[(&str, &str)]) -> Result<Option<Pcompress>, Error> {
    let params = settings
        .iter()
        .fold(Params::builder(), |p, (k, v)| p.set(k, *v, Source::Api));
    Pcompress::select(&params.build().unwrap())
}

#[test]
fn an_invalid_level_is_an_error_with_its_source() {
    for bad in ["0", "10", "fast", "-1"] {
        let error = select(&[("pcompress_zlib_level", bad)]).err().unwrap();
        assert!(error.message().contains(bad), "{error}");
        assert!(error.message().contains("embedding program"), "{error}");
    }
    assert!(select(&[("pcompress_zlib_level", "auto")]).is_ok());
}

#[test]
fn an_invalid_limit_is_an_error() {
    assert!(select(&[("pcompress_base_limit", "4k")]).is_err());
}

#[test]
fn without_a_back_end_there_is_no_scheme() {
    assert!(select(&[("pcompress", "none")]).unwrap().is_none());
    assert!(select(&[("pcompress", "^zlib,zstd")]).unwrap().is_none());
    let built = cfg!(any(feature = "zlib", feature = "zstd"));
    assert_eq!(select(&[]).unwrap().is_some(), built);
    let zstd = cfg!(feature = "zstd");
    assert_eq!(select(&[("pcompress", "^zlib")]).unwrap().is_some(), zstd);
}

#[test]
fn a_known_back_end_may_be_missing_in_the_build() {
    let zstd = select(&[("pcompress", "zstd")]).unwrap();
    assert_eq!(zstd.is_some(), cfg!(feature = "zstd"));
}

#[test]
fn an_unknown_back_end_and_a_misplaced_caret_are_errors() {
    for bad in ["lz4", "zlib,^zstd", "^zlib,^zstd"] {
        assert!(select(&[("pcompress", bad)]).is_err(), "{bad}");
    }
}

#[cfg(feature = "zlib")]
#[test]
fn peers_get_zlib() {
    let pcompress = select(&[]).unwrap().unwrap();
    let mut out = Vec::new();
    assert!(pcompress.compress(&[b'a'; 1000], &mut out));
    assert_eq!(Format::of(&out), Some(Format::Zlib));
}

#[cfg(feature = "zstd")]
mod zstd_built {
    use super::*;

    fn written() -> Vec<u8> {
        let pcompress = select(&[("pcompress_zstd_write", "true")])
            .unwrap()
            .unwrap();
        let mut out = Vec::new();
        assert!(pcompress.compress(&b"node0001,".repeat(1000), &mut out));
        out
    }

    fn read(stream: &[u8], most: usize) -> Result<Vec<u8>, Error> {
        let pcompress = select(&[]).unwrap().unwrap();
        pcompress.reader_of(stream).unwrap().inflate(stream, most)
    }

    #[test]
    fn zstd_alone_decodes_and_writes_only_on_request() {
        let pcompress = select(&[("pcompress", "zstd")]).unwrap().unwrap();
        let mut out = Vec::new();
        assert!(!pcompress.compress(&[b'a'; 1000], &mut out));
        assert!(pcompress.reader_of(&written()).is_ok());
    }

    #[test]
    fn zstd_is_written_on_request_and_recognized_by_content() {
        let stream = written();
        assert_eq!(Format::of(&stream), Some(Format::Zstd));
        assert_eq!(read(&stream, 9000).unwrap(), b"node0001,".repeat(1000));
    }

    #[test]
    fn rejects_long_truncated_and_followed_zstd_streams() {
        let stream = written();
        assert!(read(&stream, 8999).is_err());
        for len in 4..stream.len() {
            assert!(read(&stream[..len], 9000).is_err(), "cut to {len}");
        }
        let longer = [&stream[..], b"x"].concat();
        let error = read(&longer, 9000).unwrap_err();
        assert_eq!(error.offset(), Some(stream.len()), "{error}");
    }

    #[test]
    fn a_damaged_zstd_stream_is_refused() {
        let stream = written();
        for at in 4..stream.len() {
            let mut damaged = stream.clone();
            damaged[at] ^= 0x10;
            if let Ok(text) = read(&damaged, 9000) {
                assert_eq!(text, b"node0001,".repeat(1000), "byte {at}");
            }
        }
    }
}
