//! Techniques of the host: all of their ways are right on the simulator, and what a stream offers for them behaves.

use girih::techniques::{Span, Timeline, technique, techniques, text};
use girih::{Device, DeviceTensor, Error, Shared, Stream};
use girih_core::target::Target;

fn simulated() -> Stream {
    Stream::on(&Device::sim_without_counters(Target::h200()))
}

#[test]
fn every_way_is_right() {
    let names: Vec<&str> = techniques().iter().map(|t| t.name).collect();
    assert_eq!(names, ["carve_out", "cuda_graph", "events", "l2_persistence", "managed_memory", "mapped_memory", "overlapped_copies"]);
    for technique in techniques() {
        // Odd lengths, too: the last chunk, tile and vector are shorter.
        for elements in [1, 1021, 4096] {
            let ways = (technique.run)(&simulated(), elements).unwrap_or_else(|e| panic!("{} of {elements}: {e}", technique.name));
            assert!(ways.len() >= 2, "{}: a technique is compared with something", technique.name);
            for way in &ways {
                assert!(!way.spans.is_empty() && way.us >= 0.0 && !way.title.is_empty(), "{}: {way:?}", technique.name);
                assert!(way.spans.iter().all(|s| s.us.0 <= s.us.1), "{}: {way:?}", technique.name);
            }
        }
    }
}

/// What `autotune host` prints, with a mark for each number and none for time, which is the simulator's.
#[test]
fn timelines_are_told_as_text() {
    let shown = |technique: &girih::techniques::Technique| {
        let ways = (technique.run)(&simulated(), 1021).unwrap_or_else(|e| panic!("{}: {e}", technique.name));
        let line = |line: &str| match line.split_once('|').and_then(|(lane, rest)| Some((lane, rest.split_once('|')?))) {
            Some((lane, (_, _))) => format!("{lane}|..| # us\n"),
            None => line
                .split_once(" us")
                .map_or(format!("{line}\n"), |(title, _)| format!("{} # us\n", title.rsplit_once(' ').map_or(title, |(title, _)| title))),
        };
        text::text(technique, &ways, "a simulator").lines().map(line).collect::<String>()
    };
    let all: Vec<String> = techniques().iter().map(shown).collect();
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("host", all.join("\n"));
    });
}

#[test]
fn names_that_are_not_there_are_told() {
    let error = technique("overlapped").unwrap_err();
    assert!(error.starts_with("there is no technique `overlapped`; there are: carve_out, cuda_graph, events"), "{error}");
}

#[test]
fn elements_go_in_and_come_out() -> Result<(), Error> {
    let stream = simulated();
    let mut host: Shared<f32> = stream.pinned(5)?;
    assert_eq!((host.len(), host.read(&stream, 0..5)?), (5, vec![0.0; 5]));
    host.write(&stream, 1, &[1.0, 2.0, 3.0])?;
    let mut tensor: DeviceTensor<f32, 2> = stream.zeros([2, 3])?;
    stream.copy_in(&host, 1..4, &mut tensor, 3)?;
    assert_eq!(stream.read(&tensor)?, [0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
    stream.copy_out(&tensor, 4..6, &mut host, 0)?;
    assert_eq!(host.read(&stream, 0..5)?, [2.0, 3.0, 2.0, 3.0, 0.0]);
    // Kernels and the host see one memory.
    assert_eq!(stream.read(&host.tensor([2, 2])?)?, [2.0, 3.0, 2.0, 3.0]);
    let managed: Shared<bool> = stream.managed(3)?;
    stream.prefetch(&managed)?;
    assert_eq!(managed.read(&stream, 1..3)?, [false, false]);
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<(), Error> {
    let stream = simulated();
    let mut host: Shared<f32> = stream.pinned(4)?;
    let mut tensor: DeviceTensor<f32, 1> = stream.zeros([3])?;
    let told = |result: Result<(), Error>, words: &str| {
        let error = result.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    };
    told(host.write(&stream, 2, &[1.0; 3]), "elements 2..5 of 4 in memory of the host");
    told(host.read(&stream, 3..5).map(drop), "elements 3..5 of 4");
    told(host.tensor([5]).map(drop), "elements 0..5 of 4");
    told(stream.copy_in(&host, 0..4, &mut tensor, 0), "elements 0..4 of a tensor of shape [3]");
    told(stream.copy_out(&tensor, 2..4, &mut host, 0), "elements 2..4 of a tensor of shape [3]");
    told(stream.copy_in(&host, 3..5, &mut tensor, 0), "elements 3..5 of 4");
    told(stream.prefetch(&host), "only pages of managed memory move");
    told(stream.with_carve_out(101).map(drop), "a carve-out of 101 %: shared memory may prefer 0 to 100 %");
    Ok(())
}

#[test]
fn streams_wait_for_events() -> Result<(), Error> {
    let stream = simulated();
    let beside = stream.beside()?;
    let start = stream.record()?;
    beside.wait(&start)?;
    let end = beside.record()?;
    assert!(end.us_since(&start)? >= 0.0);
    Ok(())
}

#[test]
fn a_report_draws_every_piece_of_work() {
    let span = |lane: &str, us| Span { lane: lane.into(), name: "a < b".into(), us };
    let way =
        |title: &str, us| Timeline { title: title.into(), spans: vec![span("copies", (0.0, us)), span("kernels", (us / 2.0, us))], us };
    let technique = technique("overlapped_copies").unwrap();
    let page = girih::report::html(&[], &[(technique, vec![way("plain", 20.0), way("beside", 10.0)])], &Vec::new());
    assert_eq!(page.matches("<rect class=\"bar").count(), 4, "{page}");
    assert!(
        page.contains("a &lt; b: 5.0 to 10.0 us") && page.contains("<td>beside</td><td class=\"number\">10.0</td><td>2.00 x</td>"),
        "{page}"
    );
    assert!(!girih::report::html(&[], &[], &Vec::new()).contains("Around the kernels"));
}
