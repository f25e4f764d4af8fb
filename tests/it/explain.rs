//! Pages of `explain` and `diff`: what a reader sees of gallery kernels, with stored trials and without.

use girih::challenge::Sizes;
use girih::explain::difference::{Side, sides, table, unified};
use girih::explain::gather::{Options, page};
use girih::explain::profiled::profile;
use girih::explain::{Page, text};
use girih::measure::ncu::Ncu;
use girih::store::provenance::{Provenance, told};
use girih::store::winners::kernel_path;
use girih::store::{Elected, Status, Store, Trial, TrialKey};
use girih::subject::schedules::schedules;
use girih::subject::{Subject, names};
use girih::tune::code;
use girih::tune::floor::Basis;
use girih::tune::launches;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_examples as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Without NVRTC, whose registers follow its version.
fn options(store: Option<&Store>) -> Options<'_> {
    Options { target: Target::h200(), store, here: None, cubins: false, attempts: true, only: None }
}

/// A subject at sizes under a schedule for each launch site, with the variants that have so many; under first choices where none is given.
fn case(name: &str, sizes: &str, schedules: &[&str]) -> (Subject, Sizes, Vec<(Schedule, &'static str)>) {
    let subject = names::subject(name).expect("a subject");
    let first = vec![""; subject.program.sites().len()];
    let schedules = if schedules.is_empty() { &first } else { schedules };
    let subject = subject.ways().into_iter().find(|w| w.program.sites().len() == schedules.len()).expect("a way with as many sites");
    let sizes = subject.perf_sizes(&Sizes::parse(sizes).expect("sizes")).expect("its sizes");
    let kernels = subject.program.sites().into_iter().map(|def| (def.build)().expect("a kernel"));
    let read = |(kernel, text): (girih_core::tile::Kernel, &&str)| (parse_schedule(&kernel, text).expect("its knobs"), "set");
    let way = kernels.zip(schedules).map(read).collect();
    (subject, sizes, way)
}

fn explained(name: &str, sizes: &str, schedules: &[&str], store: Option<&Store>) -> Result<Page, String> {
    let (subject, sizes, way) = case(name, sizes, schedules);
    page(&subject, &sizes, &way, &options(store))
}

fn compared(name: &str, sizes: &str, a: &[&str], b: &[&str]) -> [Vec<Side>; 2] {
    [a, b].map(|schedules| {
        let (subject, sizes, way) = case(name, sizes, schedules);
        sides(&subject, &sizes, &way, &options(None)).expect("legal schedules")
    })
}

fn shown(name: &str, text: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(format!("explain.{name}"), text);
    });
}

/// A store of its own, and the folder that is to be removed.
fn store(name: &str) -> (Store, PathBuf) {
    let folder = std::env::temp_dir().join(format!("girih-explain-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    (Store::open(&folder.join("tune.sqlite")).expect("a new store"), folder)
}

/// Under what a challenge's only launch is stored.
fn key(name: &str, sizes: &str) -> TrialKey {
    let (subject, sizes, _) = case(name, sizes, &[""]);
    let launch = launches::at(&subject, &sizes).expect("a call").remove(0);
    let kernel = (launch.kernel.build)().expect("a kernel");
    TrialKey {
        kernel: kernel_path(&kernel),
        identity: kernel.identity(),
        facts: launch.facts.to_string(),
        lengths: Some(launch.lengths),
        sizes: sizes.to_string(),
        device: "NVIDIA H200".into(),
        arch: Target::h200().arch.into(),
    }
}

/// Stores a trial of each legal schedule of a challenge's only launch, with times that are made up: 10 us, twice that without vectors, which
/// pay only where a thread has four elements.
fn tried(store: &Store, name: &str, sizes: &str, code_of: impl Fn(Option<u64>) -> Option<u64>) {
    let key = key(name, sizes);
    let (subject, sizes, _) = case(name, sizes, &[""]);
    let launch = launches::at(&subject, &sizes).expect("a call").remove(0);
    let kernel = (launch.kernel.build)().expect("a kernel");
    for (number, schedule) in Space::new(&kernel, &launch.facts, Target::h200()).candidates().enumerate() {
        let [v, c] = ["V", "C"].map(|name| {
            let knob = kernel.knobs.iter().position(|k| k.name == name).expect("a knob");
            schedule.choices[knob].to_string().parse::<f64>().expect("a number")
        });
        let us = 20.0 / if c >= 4.0 { v.min(2.0) } else { 1.0 } + 0.01 * (4.0 - v);
        let (status, reason, median_us) = match number % 11 {
            3 => (Status::Rejected, format!("no room for {number} blocks"), None),
            5 => (Status::TimedOut, "it took longer than 20 s".to_string(), None),
            _ => (Status::Measured, String::new(), Some(us)),
        };
        let code = code_of(code(&kernel, &launch.facts, &schedule, Target::h200()));
        let samples_us = median_us.into_iter().collect();
        let schedule = schedule.short(&kernel);
        let trial = Trial { schedule, status, reason, median_us, samples_us, registers: None, flaw: None, code };
        store.record(&key, &trial).expect("written");
    }
}

#[test]
fn a_copy_that_is_bound_by_memory_is_explained() {
    let page = explained("vector_add", "", &["T=1024,C=4,V=4,G=0,S=1,P=Registers"], None).expect("a legal schedule");
    // Three tensors of 25 million floats.
    assert_eq!(page.floor.parts[0].amount, 3e8);
    let numbers = &page.sites[0].launches[0];
    let counts = numbers.counts.as_ref().expect("it can be counted");
    assert_eq!((numbers.grid, numbers.block, counts.unique), (24415, 256, [2e8, 1e8]));
    assert_eq!((counts.loads.bytes, counts.loads.sectors, counts.stores.sectors), (2e8, 2e8 / 32.0, 1e8 / 32.0));
    shown("vector_add", &text::text(&page));
}

#[test]
fn conflicts_and_narrow_accesses_are_explained() {
    shown("matrix_transpose", &text::text(&explained("matrix_transpose", "", &["R=32,C=32,CR=1,CC=1,V=1,X=1"], None).expect("legal")));
}

#[test]
fn loads_of_constants_are_explained() {
    let counted = |schedule: &str| {
        let page = explained("direct_1d", "N=4096", &[schedule], None).expect("a legal schedule");
        (page.sites[0].launches[0].counts.as_ref().expect("it can be counted").constants, text::text(&page))
    };
    // 128 warps read 4096 taps each.
    let ((on, with), (off, without)) = (counted("T=256,M=On"), counted("T=256,M=Off"));
    assert_eq!((on, off), (128.0 * 4096.0, 0.0));
    assert!(with.contains("constant memory loads: 524 k requests, of one word for all lanes"), "{with}");
    assert!(!without.contains("constant memory"), "{without}");
    let [a, b] = compared("direct_1d", "N=4096", &["T=256,M=Off"], &["T=256,M=On"]);
    assert!(table(&a[0], &b[0]).contains("loads of constants"), "{}", table(&a[0], &b[0]));
}

#[test]
fn programs_are_explained_launch_by_launch() {
    let page = explained("softmax", "N=2_000_000", &["T=4096,C=16,V=4,G=1", "T=2048,C=8,V=4"], None).expect("legal schedules");
    assert_eq!(page.sites.iter().map(|s| s.site.as_str()).collect::<Vec<_>>(), ["softmax_statistics", "softmax_normalise"]);
    let sum: f64 = page.sites.iter().map(|s| s.us).sum();
    assert_eq!(page.predicted.expect("of the whole program").us, sum.max(page.floor.seconds * 1e6));
    shown("softmax", &text::text(&page));
}

/// The numbers that a line of a page has in front of `us`.
fn micros(text: &str, item: &str) -> Vec<f64> {
    let line = text.lines().find(|l| l.trim_start().starts_with(item)).unwrap_or_else(|| panic!("no {item}: {text}"));
    line.split(" us").filter_map(|part| part.rsplit(' ').next()?.parse().ok()).collect()
}

#[test]
fn printed_parts_add_up_to_the_time() {
    let cases = [("vector_add", "", &["T=1024,C=4,V=4"][..]), ("direct_1d", "N=4096", &["T=256,M=On"])];
    for (name, sizes, schedules) in cases {
        let page = explained(name, sizes, schedules, None).expect("a legal schedule");
        let (text, site) = (text::text(&page), &page.sites[0]);
        let (parts, launch) = (micros(&text, "adds up"), micros(&text, "launch "));
        assert!((parts.iter().sum::<f64>() - launch[0]).abs() < 0.025 && parts.len() == 3, "{name}: {parts:?} {launch:?}");
        let launches: f64 = site.launches.iter().map(|l| l.predicted.seconds * 1e6).sum();
        assert!((site.first_us - 1.0).abs() < 1e-9 && (launches + site.first_us - site.us).abs() < 1e-6, "{name}: {launches} {}", site.us);
        assert!(text.contains("1.00 us of that is for the call's beginning"), "{text}");
    }
    let page = explained("softmax", "N=2_000_000", &["T=4096,C=16,V=4,G=1", "T=2048,C=8,V=4"], None).expect("legal schedules");
    assert_eq!(page.sites.iter().map(|s| s.first_us.round()).collect::<Vec<_>>(), [1.0, 0.0], "one site begins the call");
}

#[test]
fn calls_of_almost_nothing_read_well() {
    let none = text::text(&explained("vector_add", "N=0", &["T=1024"], None).expect("legal"));
    assert!(
        none.contains("none: at these sizes there is nothing to do") && !none.contains("idle") && !none.contains("occupancy"),
        "{none}"
    );
    for sizes in ["N=1", "N=10"] {
        let one = text::text(&explained("vector_add", sizes, &["T=1024,C=8,V=4"], None).expect("legal"));
        for nonsense in
            ["x the floor", "here bandwidth is", "1 requests", "1 blocks", " 0 of blocks", "saturate the memory", "idle", "0.00 us"]
        {
            assert!(!one.contains(nonsense), "{nonsense}: {one}");
        }
        assert!(one.contains("try next       no rule has anything to say"), "{one}");
    }
}

#[test]
fn waits_beside_barriers_of_the_block_are_told() {
    let text = text::text(&explained("gemm", "M=512,N=512,K=512", &[&wgmma()], None).expect("legal"));
    let barriers: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("  barriers")).take(2).collect();
    assert!(barriers[0].ends_with(" of the whole block") && barriers[1].contains("phases of mbarriers"), "{text}");
    let plain = text::text(&explained("vector_add", "N=4096", &["T=1024"], None).expect("legal"));
    assert!(plain.contains("0 of the whole block") && !plain.contains("mbarriers"), "{plain}");
}

/// A product of warp groups whose tiles are copied by tensor maps.
fn wgmma() -> String {
    "BM=64,BN=128,BK=128,TM=8,TN=8,V=8,U=Wgmma,W=4,O=Shared,S=4,P=Tensor,X=1,Z=1,Y=1,Q=1".to_string()
}

#[test]
fn kernels_that_data_decide_are_counted_with_what_a_rehearsal_left() {
    let page = explained("sorting", "", &[], None).expect("legal schedules");
    let first = &page.sites[0];
    assert!(first.launches.iter().all(|launch| launch.counts.is_some()) && first.basis == Basis::Estimated);
    let text = text::text(&page);
    assert!(text.contains("an estimate: something stands for the true data"), "{text}");
    // A pass reads and writes all keys, a million of four bytes.
    let pass = page.sites.iter().find(|site| site.site == "radix_pass").expect("the first pass");
    let counts = pass.launches[0].counts.as_ref().expect("counted");
    assert!(counts.asks_words && !counts.each_first, "its tickets are the blocks' numbers");
    assert!(counts.unique.iter().all(|bytes| (4e6..5e6).contains(bytes)), "{:?}", counts.unique);
    assert!(text.contains("blocks ask for words that others leave: these are taken to be there"), "{text}");
}

#[test]
fn trials_are_explained_knob_by_knob() {
    let (store, folder) = store("trials");
    tried(&store, "matrix_addition", "N=512", |code| code);
    let page = explained("matrix_addition", "N=512", &[""], Some(&store)).expect("legal");
    let tuning = &page.sites[0].tuning;
    assert_eq!((tuning.device.as_deref(), tuning.predicted, tuning.of_other_code), (Some("NVIDIA H200"), false, 0));
    let interaction = tuning.effects.interaction.as_ref().unwrap_or_else(|| panic!("{}", text::text(&page)));
    assert_eq!(interaction.knobs.map(|k| tuning.knobs[k].as_str()), ["C", "V"]);
    assert!(tuning.effects.rejected.iter().any(|r| r.reason.starts_with("no room for") && r.count > 1), "{:?}", tuning.effects.rejected);
    shown("trials", &text::text(&page));
    std::fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn trials_of_other_code_say_nothing() {
    let (store, folder) = store("other-code");
    tried(&store, "matrix_addition", "N=512", |code| code.map(|c| c ^ 1));
    let page = explained("matrix_addition", "N=512", &[""], Some(&store)).expect("legal");
    let tuning = &page.sites[0].tuning;
    assert!(tuning.of_other_code > 10 && tuning.effects.tried == 0 && page.sites[0].measured.iter().all(|m| !m.source.contains("a trial")));
    let text = text::text(&page);
    assert!(text.contains("are of code that girih makes no more; `autotune tune matrix_addition --size N=512 --target h200"), "{text}");
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// Whoever takes a winner of the store for a call, `explain`, `bench`, `report`, `show` and `export` alike, is told once where it fits no more.
#[test]
fn winners_that_were_tuned_elsewhere_are_told_of_once() {
    let (store, folder) = store("elsewhere");
    let under = |driver: &str| Provenance { driver: driver.into(), nvrtc: "13.0".into(), ..Provenance::default() };
    let store = store.making(under("550.54"));
    let names = ["reverse_array", "matrix_copy"];
    for name in names {
        let (_, _, way) = case(name, "", &[""]);
        let kernel = (names::subject(name).expect("a subject").program.sites()[0].build)().expect("a kernel");
        store.elect(&Elected { key: key(name, ""), schedule: way[0].0.short(&kernel), median_us: 10.0 }).expect("written");
    }
    let taken = |store: &Store, name: &str| {
        let (subject, sizes, _) = case(name, "", &[""]);
        let launches = launches::at(&subject, &sizes).expect("a call");
        let way = schedules(&subject, None, Target::h200(), Some((store, "NVIDIA H200")), &launches).expect("legal");
        assert_eq!(way[0].2, "tuned here", "{name}");
    };
    let of = |name: &str| told().into_iter().filter(|text| text.contains(&format!("::{name}:"))).collect::<Vec<_>>();
    names.iter().for_each(|name| taken(&store, name));
    assert_eq!(names.map(|name| of(name).len()), [0, 0], "who does not say where it is used is told nothing");
    let store = store.read_at(under("570.86"));
    (0..2).for_each(|_| taken(&store, "reverse_array"));
    let [only] = &of("reverse_array")[..] else { panic!("{:?}", told()) };
    assert!(only.contains("its schedule was tuned under driver 550.54 and not 570.86; tuning it again"), "{only}");
    taken(&store.read_at(under("550.54")), "matrix_copy");
    assert_eq!(of("matrix_copy"), [""; 0], "it was tuned under what is here");
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// A folder with a program that is called `ncu` and does what a shell script says; `$metrics` are those that it is asked for.
fn fake_ncu(name: &str, script: &str) -> (Ncu, PathBuf) {
    let folder = std::env::temp_dir().join(format!("girih-ncu-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a new folder");
    let head = "#!/bin/sh\nfor a; do [ \"$last\" = --metrics ] && metrics=$a; last=$a; done\n";
    let (written, program) = (folder.join("script"), folder.join("ncu"));
    std::fs::write(&written, format!("{head}{script}")).expect("written");
    std::fs::set_permissions(&written, std::fs::Permissions::from_mode(0o755)).expect("its own file");
    // A process that another thread starts meanwhile would hold a file open that is written here.
    let copied = std::process::Command::new("cp").arg("-p").args([&written, &program]).status().expect("cp");
    assert!(copied.success());
    (Ncu::find(Some(folder.as_os_str())).expect("it is there"), folder)
}

/// A profiler that refuses a metric first, and tells then of one launch of a function among what the program prints.
const COUNTING: &str = r#"
case $metrics in *lts__t_sectors_op_red.sum*)
  echo '==ERROR== Failed to find metric regex:^lts__t_sectors_op_red\.sum(\.|$)' >&2; exit 1;;
esac
while [ "$1" != --metrics ]; do shift; done; shift; shift; "$@"
echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
tell() { echo "\"0\",\"1\",\"autotune\",\"here\",\"vector_add(const float *, int)\",\"Command line profiler metrics\",\"$1\",\"$2\",\"$3\""; }
tell dram__bytes_read.sum byte 201,000,064
tell lts__t_sectors_op_read.sum sector 6,250,000
tell lts__t_sectors_op_write.sum sector 3,125,000
tell smsp__inst_executed.sum inst 5,078,320
tell sm__warps_active.avg.pct_of_peak_sustained_active % 87.5
tell gpu__time_duration.sum nsecond 72,320
tell lts__t_sector_hit_rate.pct % 33.4
tell smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio '' 30
tell smsp__average_warps_issue_stalled_drain_per_issue_active.ratio '' 9
tell smsp__average_warps_issue_stalled_wait_per_issue_active.ratio '' 1
"#;

#[test]
fn what_a_profiler_counts_stands_beside_what_was_counted() {
    let mut page = explained("vector_add", "", &["T=1024,C=4,V=4,G=0,S=1,P=Registers"], None).expect("a legal schedule");
    let (ncu, folder) = fake_ncu("counts", COUNTING);
    let seen = folder.join("seen");
    let args = ["-c".into(), format!("echo launched > {}", seen.display()).into()];
    let unknown = profile(&mut page, &ncu, ("sh".as_ref(), &args)).expect("a profile");
    assert_eq!(unknown, ["lts__t_sectors_op_red.sum"], "it is asked again without what it does not have");
    assert_eq!(std::fs::read_to_string(&seen).expect("the command ran"), "launched\n");
    let text = text::text(&page);
    let (_, told) = text.split_once("  by ncu ").unwrap_or_else(|| panic!("{text}"));
    let told: Vec<&str> = told.lines().take(15).collect();
    let line = |what: &str| told.iter().find(|l| l.contains(what)).unwrap_or_else(|| panic!("no {what}: {told:#?}"));
    assert!(line("bytes read from memory").ends_with("      200 MB       201 MB"), "{told:#?}");
    assert!(line("sectors asked of the L2").ends_with("      9.38 M       9.38 M"), "{told:#?}");
    assert!(line("instructions of warps").ends_with("       5.08 M"), "{told:#?}");
    assert!(line("threads that were there").ends_with("            -         88 %") && line("time").ends_with("72.32 us"), "{told:#?}");
    assert!(line("sectors found in the L2").ends_with("            -         33 %"), "{told:#?}");
    let waited = "warps waited for global or local memory (long_scoreboard) 75 %, stores at its end (drain) 22 %";
    assert!(line("warps waited for").ends_with(waited), "the largest first, without what is next to nothing: {told:#?}");
    assert!(line("bytes written to memory").ends_with("      100 MB            -"), "what it did not tell is not there: {told:#?}");
    std::fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn a_profiler_that_may_not_count_leaves_the_page_as_it_is() {
    let mut page = explained("vector_add", "N=4096", &["T=1024"], None).expect("a legal schedule");
    let before = text::text(&page);
    let denied = "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters'; exit 1";
    for (script, told) in [(denied, "may not read the GPU's counters (ERR_NVGPUCTRPERM)"), ("exit 3", "it prints nothing")] {
        let (ncu, folder) = fake_ncu("denied", script);
        let error = profile(&mut page, &ncu, ("true".as_ref(), &[])).expect_err("no profile");
        assert!(error.contains(told), "{error}");
        std::fs::remove_dir_all(folder).expect("its own folder");
    }
    assert_eq!(text::text(&page), before);
}

#[test]
fn schedules_are_compared() {
    let [a, b] = compared("matrix_transpose", "", &["R=32,C=32,CR=1,CC=1,V=1,X=1"], &["R=64,C=64,CR=4,CC=4,V=4,X=1"]);
    let diff = unified(&a[0], &b[0], 2);
    assert!(diff.starts_with("--- a: matrix_transpose R=32 C=32") && diff.contains("\n+++ b: matrix_transpose R=64 C=64"), "{diff}");
    shown("difference", &format!("{diff}\n{}", table(&a[0], &b[0])));
    let [a, b] = compared("matrix_transpose", "", &["V=1"], &["V=1"]);
    assert_eq!(unified(&a[0], &b[0], 2), "");
}

#[test]
fn illegal_schedules_are_refused_with_the_rule() {
    let error = explained("vector_add", "", &["T=4096,C=1"], None).expect_err("4096 threads");
    assert!(error.contains("a block has at most 1024"), "{error}");
    let error = explained("softmax", "N=2_000_000", &["T=8192,C=1,G=1", "T=512"], None).expect_err("8192 threads");
    assert!(error.starts_with("softmax_statistics: ") && error.contains("at most 1024"), "{error}");
    // Long vectors go another way than short ones.
    let (subject, sizes, way) = case("softmax", "N=2_000_000", &["", "", "", ""]);
    let only = Options { only: Some("softmax_join"), ..options(None) };
    let error = page(&subject, &sizes, &way, &only).expect_err("not launched");
    assert_eq!(error, "softmax at N=2000000 does not launch softmax_join: name other sizes by --size");
}
