//! What `ncu` prints is read: launches, separators, what it refuses.

use super::*;

/// A page as it prints it, among the program's own lines.
const PAGE: &str = r#"==PROF== Connected to process 4711 (/usr/bin/autotune)
==PROF== Profiling "vector_add" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","autotune","127.0.0.1","vector_add(const float *, const float *, float *, int)","1","7","(256, 1, 1)","(24415, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","200,015,360"
"0","4711","autotune","127.0.0.1","vector_add(const float *, const float *, float *, int)","1","7","(256, 1, 1)","(24415, 1, 1)","0","9.0","Command line profiler metrics","sm__warps_active.avg.pct_of_peak_sustained_active","%","87.25"
"0","4711","autotune","127.0.0.1","vector_add(const float *, const float *, float *, int)","1","7","(256, 1, 1)","(24415, 1, 1)","0","9.0","Command line profiler metrics","lts__t_sectors_op_read.sum","sector","n/a"
"1","4711","autotune","127.0.0.1","say_""hello""","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","0"
done, "all" is well
"#;

#[test]
fn launches_are_read_metric_by_metric() {
    let found = parse(PAGE).expect("a page");
    assert_eq!(found.iter().map(|l| l.function.as_str()).collect::<Vec<_>>(), ["vector_add", "say_\"hello\""]);
    let metric = |name: &str| found[0].values.get(name).copied();
    assert_eq!(metric("dram__bytes_read.sum"), Some(200_015_360.0));
    assert_eq!(metric("sm__warps_active.avg.pct_of_peak_sustained_active"), Some(87.25));
    assert_eq!(metric("lts__t_sectors_op_read.sum"), None, "what is not there is no zero");
    assert_eq!(parse("==PROF== nothing\n"), Ok(Vec::new()));
    let other = "\"ID\",\"Kernel Name\",\"dram__bytes_read.sum\"\n\"0\",\"k\",\"1\"\n";
    assert_eq!(parse(other), Err("ncu's page has no column \"Metric Name\"".to_string()));
}

#[test]
fn refusals_are_understood() {
    let text = "==ERROR== Failed to find metric regex:^lts__t_sectors_op_read\\.sum(\\.|$)\n";
    assert_eq!(refused(text, &["dram__bytes_read.sum", "lts__t_sectors_op_read.sum"]), ["lts__t_sectors_op_read.sum"]);
    let told = why_nothing("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n");
    assert!(told.contains("may not read the GPU's counters") && told.contains("NVreg_RestrictProfilingToAdminUsers=0"), "{told}");
    assert_eq!(why_nothing("x\nerror: no GPU\n"), "ncu has no profile: error: no GPU");
    assert_eq!(why_nothing(""), "ncu has no profile: it prints nothing");
    let missing = Ncu::find(Some(OsStr::new("/nowhere")));
    assert!(missing.is_ok() || missing.is_err_and(|e| e.starts_with("there is no `ncu` on the PATH")));
}

#[test]
fn launches_of_one_function_are_told_apart_where_that_is_possible() {
    let launch =
        |function: &str, bytes: f64| Launched { function: function.into(), values: [("b".to_string(), bytes)].into(), launches: 1 };
    let profile = Profile { launches: vec![launch("f", 1.0), launch("g", 5.0), launch("f", 3.0)], unknown: Vec::new() };
    let bytes = |functions: &[&str]| profile.of(functions).into_iter().map(|l| l.map(|l| (l.values["b"], l.launches))).collect::<Vec<_>>();
    assert_eq!(bytes(&["f", "g", "f"]), [Some((1.0, 1)), Some((5.0, 1)), Some((3.0, 1))]);
    assert_eq!(bytes(&["f", "h"]), [Some((2.0, 2)), None], "one page stands for two launches");
}
