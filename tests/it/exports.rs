//! Exported files, as text: the challenge's signature, no foreign headers, the flag they want. `.ci/run` compiles them with nvcc.

use girih::challenge::challenges;
use girih::subject::Subject;
use girih_core::facts::Facts;
use girih_core::program::export::export_program;
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
    for challenge in all {
        let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{}: {e}", challenge.slug));
        for arch in ["sm_75", "sm_90a", "sm_120"] {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let text = exported(&subject, target);
            let what = format!("{} for {arch}", challenge.slug);
            assert_eq!(text.matches("extern \"C\" void solve(").count(), 1, "{what}\n{text}");
            let first: Vec<&str> = text.lines().take(12).collect();
            assert!(first.iter().any(|l| l.contains("nvcc") && l.contains(arch)), "{what}: {first:?}");
            for include in text.lines().filter(|l| l.trim_start().starts_with("#include")) {
                let known =
                    ["<cuda_runtime.h>", "<cuda_bf16.h>", "<cuda_fp16.h>", "<stdint.h>", "<stdio.h>"].iter().any(|h| include.contains(h));
                assert!(known, "{what}: {include}");
            }
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{what}");
            assert!(text.contains("__global__"), "{what}");
        }
    }
}
