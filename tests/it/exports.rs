//! Exported files, as text: the challenge's signature, no foreign headers, the flag they want. `.ci/run` compiles them with nvcc.

use crate::host_code::HostProgram;
use girih::challenge::{Sizes, challenges};
use girih::subject::Subject;
use girih::tune::launches::{AtPerf, at};
use girih_core::facts::Facts;
use girih_core::program::export::{Chosen, export_program};
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_examples as _;

/// The exported text of a challenge at its naive schedule.
fn exported(subject: &Subject, target: &'static Target) -> String {
    let signature = subject.signature().expect("a challenge has a signature");
    let mut naive = |_: usize, kernel: &girih_core::tile::Kernel| {
        Space::new(kernel, &Facts::best(kernel), target).naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
    };
    export_program(&subject.program, signature, target, &mut naive).unwrap_or_else(|e| panic!("{}: {e}", subject.name))
}

#[test]
fn exports_have_the_judges_signature_and_no_library() {
    let all = challenges();
    assert!(all.len() >= 15, "the gallery has {} challenges", all.len());
    for (number, challenge) in all.into_iter().enumerate() {
        let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{}: {e}", challenge.slug));
        // Each for one of the architectures: `.ci/run` exports all of them for all three.
        for arch in [["sm_75", "sm_90a", "sm_120"][number % 3]] {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let text = exported(&subject, target);
            let what = format!("{} for {arch}", challenge.slug);
            assert_eq!(text.matches("extern \"C\" void solve(").count(), 1, "{what}\n{text}");
            let first: Vec<&str> = text.lines().take(12).collect();
            assert!(first.iter().any(|l| l.contains("nvcc") && l.contains(arch)), "{what}: {first:?}");
            for include in text.lines().filter(|l| l.trim_start().starts_with("#include")) {
                let headers = ["<cuda_runtime.h>", "<cuda_bf16.h>", "<cuda_fp16.h>", "<cuda_fp8.h>", "<stdint.h>", "<stdio.h>"];
                let known = headers.iter().any(|h| include.contains(h));
                assert!(known, "{what}: {include}");
            }
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{what}");
            assert!(text.contains("__global__"), "{what}");
        }
    }
}

#[test]
fn a_kernel_of_two_launches_is_exported_as_two() {
    let challenge = challenges().into_iter().find(|c| c.slug == "reduction").expect("a challenge of this name");
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
    let mut second = |_: usize, kernel: &girih_core::tile::Kernel| {
        parse_schedule(kernel, "T=512,C=1,V=1,S=1,G=2,H=Default,F=SecondLaunch").unwrap_or_else(|e| panic!("{e}"))
    };
    let signature = subject.signature().expect("a challenge has a signature");
    let text = export_program(&subject.program, signature, Target::h200(), &mut second).unwrap_or_else(|e| panic!("{e}"));
    // The second one may begin while the first one ends.
    let launches: Vec<&str> = text.lines().map(str::trim).filter(|l| l.contains("<<<") || l.starts_with("launch_dependent(")).collect();
    assert_eq!(launches.len() % 2, 0, "{launches:?}");
    for pair in launches.chunks(2) {
        let name = |launch: &str| {
            let launch = launch.strip_prefix("launch_dependent(").unwrap_or(launch);
            launch.split([',', '<']).next().unwrap_or_default().to_string()
        };
        assert_eq!(format!("{}_finish", name(pair[0])), name(pair[1]));
        assert!(pair[0].contains("<<<") && pair[1].starts_with(&format!("launch_dependent({}, 1, 512, 0, ", name(pair[1]))), "{pair:?}");
        let memory = |launch: &str| launch.split("owned_memory(").nth(1).and_then(|l| l.split(',').next()).map(str::to_string);
        assert!(memory(pair[0]).is_some() && memory(pair[0]) == memory(pair[1]), "{pair:?}");
        let functions = [format!("\n{}(", name(pair[0])), format!("\n{}(", name(pair[1]))];
        assert!(functions.iter().all(|f| text.matches(f.as_str()).count() == 1), "{text}");
    }
}

#[test]
fn exports_have_a_version_for_the_size_they_are_tuned_for() {
    let challenge = challenges().into_iter().find(|c| c.slug == "1d_convolution").expect("a challenge of this name");
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
    let signature = subject.signature().expect("a challenge has a signature");
    let at_perf = AtPerf::of(&subject);
    let text = |tuned: bool| {
        let mut choose = |site: usize, kernel: &girih_core::tile::Kernel| {
            let schedule = parse_schedule(kernel, "T=4096,C=16,V=4,P=Registers,S=1").unwrap_or_else(|e| panic!("{e}"));
            Chosen { schedule, tuned: at_perf.facts_of_site(site).filter(|_| tuned).cloned().into_iter().collect() }
        };
        export_program(&subject.program, signature, Target::h200(), &mut choose).unwrap_or_else(|e| panic!("{e}"))
    };
    // 1 500 000 elements under 2047 taps leave a number that is even and no multiple of four.
    let own = "input_size64 % 4 == 0 && (input_size64 - kernel_size64 + 1) % 2 == 0";
    assert!(text(true).contains(own), "{}", text(true));
    assert!(!text(false).contains(own), "{}", text(false));
}

/// Prints which version a call of these lengths launches; no stand-in looks at an element.
const LAUNCHED: &str = "
int main(int, char** v)
{
    alignas(16) static float x[4], w[4], y[4];
    solve(x, w, y, atoi(v[1]), atoi(v[2]));
    printf(\"%s\", launched);
}
";

/// The text with what each launch is called noted in front of it.
fn with_names_noted(text: &str) -> String {
    let mut parts = text.split("<<<");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |mut noted, part| {
        let name = noted.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1);
        let name = noted[name..].to_string();
        noted.insert_str(noted.len() - name.len(), &format!("launched = \"{name}\", "));
        noted + "<<<" + part
    })
}

/// A version for each of several tuned sizes: the host tells them apart by what divides the lengths, those that ask for more first.
#[test]
fn each_tuned_size_has_a_version_that_its_calls_launch() {
    let subject = girih::subject::names::subject("1d_convolution").unwrap_or_else(|e| panic!("{e}"));
    let sizes = ["input_size=1500000,kernel_size=2047", "input_size=1000001,kernel_size=2046", "input_size=1000002,kernel_size=2047"];
    let facts_at = |sizes: &str| {
        let sizes = Sizes::parse(sizes).unwrap_or_else(|e| panic!("{e}"));
        at(&subject, &sizes).unwrap_or_else(|e| panic!("{e}")).remove(0).facts
    };
    let mut chosen = |_: usize, kernel: &girih_core::tile::Kernel| Chosen {
        schedule: parse_schedule(kernel, "T=4096,C=16,V=4,P=Registers,S=1").unwrap_or_else(|e| panic!("{e}")),
        tuned: sizes.iter().map(|sizes| facts_at(sizes)).collect(),
    };
    let signature = subject.signature().expect("a challenge has a signature");
    let text = export_program(&subject.program, signature, Target::h200(), &mut chosen).unwrap_or_else(|e| panic!("{e}"));
    let stand_in = "static const char* launched = \"none\";\ntemplate <typename... Args> static void direct(Args...) {}";
    let Some(host) = HostProgram::build(&with_names_noted(&text), "direct", stand_in, LAUNCHED) else { return };
    let launched = |input: u32, kernel: u32| host.run(&[input, kernel].map(|n| n.to_string()));
    let versions = ["convolution_1d", "convolution_1d_tuned", "convolution_1d_tuned_2"];
    // 4 divides the input's length, 2 the output's; 2 the kernel's, 4 the output's; 2 the input's, 4 the output's.
    assert_eq!([launched(1_500_000, 2047), launched(1_000_001, 2046), launched(1_000_002, 2047)], versions, "{text}");
    // Other lengths that are divided alike, and those of no tuned size.
    assert_eq!([launched(800_004, 2051), launched(900_003, 2048), launched(2_000_006, 2047)], versions, "{text}");
    assert_eq!([launched(1_500_001, 2047), launched(1_000_001, 2048)], ["convolution_1d_any_size", "convolution_1d_any_size"], "{text}");
}

/// Prints every byte of a picture that begins `offset` bytes behind an aligned place, and of what lies around it.
const INVERTED: &str = "
int main(int, char** v)
{
    const int offset = atoi(v[1]), width = atoi(v[2]), height = atoi(v[3]), bytes = width * height * 4;
    alignas(16) static unsigned char memory[1 << 16];
    for (int i = 0; i < bytes + 32; ++i)
        memory[i] = (unsigned char)(i * 7);
    solve(memory + 16 + offset, width, height);
    for (int i = 0; i < bytes + 32; ++i)
        printf(\"%d\\n\", memory[i]);
}
";

/// What a launch does: accesses of whole pixels, so that one that is not aligned is reported.
const INVERT: &str = "static void invert(unsigned int* pixels, long long n) { for (long long i = 0; i < n; ++i) pixels[i] ^= 0xffffffu; }";

#[test]
fn pictures_are_inverted_wherever_they_lie() {
    let challenge = challenges().into_iter().find(|c| c.slug == "color_inversion").expect("a challenge of this name");
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
    let Some(host) = HostProgram::build(&exported(&subject, Target::h200()), "invert", INVERT, INVERTED) else { return };
    for (width, height) in [(0, 3), (1, 1), (7, 3), (64, 33)] {
        for offset in [0, 1, 2, 3, 4, 8] {
            let found: Vec<u8> =
                host.run(&[offset, width, height].map(|n| n.to_string())).lines().map(|l| l.parse().expect("a byte")).collect();
            let (first, bytes) = (16 + offset, width * height * 4);
            let expected = |i: usize| {
                let before = (i * 7) as u8;
                let colour = (first..first + bytes).contains(&i) && (i - first) % 4 != 3;
                if colour { 255 - before } else { before }
            };
            assert_eq!(found, (0..bytes + 32).map(expected).collect::<Vec<_>>(), "{width} x {height} at {offset}");
        }
    }
}

/// Rows of a window of a matrix are contiguous, whatever lies between them: they are read by vectors where their lengths allow.
#[test]
fn windows_of_matrices_are_read_by_vectors() {
    let challenge = challenges().into_iter().find(|c| c.slug == "2d_subarray_sum").expect("a challenge of this name");
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
    let at_perf = AtPerf::of(&subject);
    let mut chosen = |site: usize, kernel: &girih_core::tile::Kernel| Chosen {
        schedule: parse_schedule(kernel, "R=16,C=256,CR=1,CC=8,V=4,S=1,G=4,H=Default").unwrap_or_else(|e| panic!("{e}")),
        tuned: at_perf.facts_of_site(site).cloned().into_iter().collect(),
    };
    let text = export_program(&subject.program, subject.signature().expect("a signature"), Target::h200(), &mut chosen)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(text.contains("x aligned to 16 bytes, in rows"), "{text}");
    let body =
        text.split("x aligned to 16 bytes, in rows").nth(1).unwrap_or_default().split("extern \"C\" __global__").nth(1).unwrap_or_default();
    assert!(body.contains("reinterpret_cast<const int4*>") && !body.contains("x_stride1"), "{body}");
}

/// Kernels whose operands come by tensor maps lose more by a wait than they gain by beginning early.
#[test]
fn kernels_with_tensor_maps_begin_behind_the_launch_in_front() {
    let subject = girih::subject::names::subject("matrix_multiplication").expect("a challenge of the gallery");
    // By planes: neither by multiply-adds nor split on its way to shared memory.
    let subject = subject.with_variants(&[false, false]);
    let target = Target::find("h200").expect("it is listed");
    let mut chosen = |_: usize, kernel: &girih_core::tile::Kernel| match kernel.name.as_str() {
        "multiply_planes" => {
            let text = "BM=128 BN=128 BK=64 TM=8 TN=8 V=8 U=Wgmma W=8 S=3 P=Tensor G=1 X=8";
            parse_schedule(kernel, text).expect("a schedule of the kernel")
        }
        _ => Space::new(kernel, &Facts::best(kernel), target).naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.name)),
    };
    let text = export_program(&subject.program, subject.signature().unwrap(), target, &mut chosen).unwrap_or_else(|e| panic!("{e}"));
    let kernels: Vec<&str> = text.split("__global__ void").skip(1).collect();
    let (with_maps, others): (Vec<&str>, Vec<&str>) = kernels.iter().partition(|k| k.contains("__grid_constant__ TensorMap"));
    assert!(!with_maps.is_empty() && others.len() > 3, "{text}");
    assert!(with_maps.iter().all(|k| !k.contains("griddepcontrol.wait")), "{text}");
    assert!(others.iter().any(|k| k.contains("split_columns") && k.contains("griddepcontrol.wait")), "{text}");
    assert!(text.contains("<<<(unsigned int)blocks, 288, "), "{text}");
    // What rounds a length up is no less than it: no such demand stands in the file.
    assert!(text.contains("(N64 + 7) / 8 * 8") && !text.contains("> (N64 + 7) / 8 * 8"), "{text}");
}
