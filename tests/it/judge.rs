//! Challenges of the gallery ask what their judge asks: signature, tolerance, and the sizes of its performance test, as written down in
//! `judge.txt`.

use girih::challenge::{Case, Challenge, Reference, Sizes, challenges};
use girih::inputs::HostTensor;
use girih::subject::Subject;

/// Challenges whose judge's tolerance correct arithmetic in f32 misses, since many terms leave a result near 0, or large scores decide between
/// keys: what they are allowed besides follows from the arithmetic. With it the sizes at which results of numbers rounded to tf32 are refused.
const MISSED_BY_F32: &[(&str, &str)] = &[
    ("matrix_multiplication", "M=16 N=6144 K=16"),
    ("batched_matrix_multiplication", "BATCH=2 M=16 N=16 K=256"),
    ("matrix_power", "N=64 P=3"),
    ("multi_head_attention", "N=64 d_model=128 h=2"),
    ("casual_attention", "M=300 d=128"),
    ("sliding_window_attn", "M=300 d=64 window_size=16"),
    ("multi_agent_sim", "N=300"),
];

/// One line of the facts.
struct Facts {
    slug: &'static str,
    signature: &'static str,
    atol: f64,
    rtol: f64,
    perf: Sizes,
}

fn facts() -> Vec<Facts> {
    let lines = include_str!("judge.txt").lines().filter(|l| !l.starts_with('#'));
    let facts = lines.map(|line| {
        let [slug, signature, atol, rtol, perf] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else { panic!("{line}") };
        let number = |text: &str| text.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
        Facts { slug, signature, atol: number(atol), rtol: number(rtol), perf: Sizes::parse(perf).unwrap() }
    });
    facts.collect()
}

/// A challenge's signature as the judge writes it: without shapes and `const`, which do not change how a function is called.
fn as_called(signature: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for c in signature.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text.replace("const ", "").replace("__half", "half")
}

/// What a challenge asks otherwise than its judge.
fn differences(ours: &Challenge, judge: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    if judge.signature.starts_with("void") && as_called(ours.signature) != as_called(judge.signature) {
        found.push(format!("signature {}, not {}", as_called(ours.signature), as_called(judge.signature)));
    }
    // What is exact may be compared exactly.
    if (ours.atol, ours.rtol) != (judge.atol, judge.rtol) && (ours.atol, ours.rtol) != (0.0, 0.0) {
        found.push(format!("tolerance {:e} + {:e}, not {:e} + {:e}", ours.atol, ours.rtol, judge.atol, judge.rtol));
    }
    for (name, value) in &judge.perf.0 {
        let here = ours.perf.0.get(name);
        if here.is_some_and(|v| (v - value).abs() > 1e-6 * value.abs()) {
            found.push(format!("{name}={} at the performance test, not {value}", here.unwrap()));
        }
    }
    if (ours.rounding)(&ours.perf) > 0.0 && !MISSED_BY_F32.iter().any(|(slug, _)| *slug == ours.slug) {
        found.push(format!("{:e} besides the tolerance at the performance test", (ours.rounding)(&ours.perf)));
    }
    found
}

#[test]
fn challenges_ask_what_their_judge_asks() {
    let (all, facts) = (challenges(), facts());
    let mut wrong = Vec::new();
    for judge in &facts {
        let Some(ours) = all.iter().find(|c| c.slug == judge.slug) else {
            wrong.push(format!("{}: no challenge is called so", judge.slug));
            continue;
        };
        wrong.extend(differences(ours, judge).into_iter().map(|d| format!("{}: {d}", judge.slug)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A tensor of f32 with each number rounded to the 11 significant bits that matrix units read.
fn rounded_to_tf32(tensor: &HostTensor) -> HostTensor {
    let numbers = tensor.bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    let rounded = numbers.map(|x| f32::from_bits((x.to_bits() + 0xfff + (x.to_bits() >> 13 & 1)) & !0x1fff));
    HostTensor { bytes: rounded.flat_map(f32::to_le_bytes).collect(), ..tensor.clone() }
}

/// All elements of the only output, each with what it may be off by besides the tolerance.
fn expected(challenge: &Challenge, case: &Case) -> Vec<(f64, f64)> {
    let [(name, reference)] = challenge.outputs[..] else { panic!("{} has several outputs", challenge.slug) };
    let output = case.tensor(name);
    let besides = (challenge.rounding)(&case.sizes);
    let rows = output.numel() / *output.lens.last().unwrap() as usize;
    let alike = |all: Vec<f64>| all.into_iter().map(|expected| (expected, besides)).collect();
    match reference {
        Reference::Each(each) => alike((0..output.numel()).map(|i| each(case, i)).collect()),
        Reference::All(all) => alike(all(case)),
        Reference::Rows(row) => alike((0..rows).flat_map(|r| row(case, r)).collect()),
        Reference::Within(row) => (0..rows).flat_map(|r| row(case, r)).collect(),
    }
}

#[test]
fn numbers_rounded_to_tf32_miss_every_allowance() {
    for (slug, sizes) in MISSED_BY_F32 {
        let challenge = challenges().into_iter().find(|c| c.slug == *slug).unwrap();
        let sizes = Sizes::parse(sizes).unwrap();
        let case = Subject::of_challenge(&challenge).unwrap().call(&sizes, 1).unwrap().case();
        let mut rounded = case.clone();
        rounded.tensors.iter_mut().for_each(|(_, tensor)| *tensor = rounded_to_tf32(tensor.host()).into());
        let (exact, off) = (expected(&challenge, &case), expected(&challenge, &rounded));
        let allowed = |exact: f64, besides: f64| challenge.atol + besides + challenge.rtol * exact.abs();
        let refused = exact.iter().zip(&off).filter(|((exact, besides), (off, _))| (exact - off).abs() > allowed(*exact, *besides)).count();
        assert!(refused * 100 > exact.len(), "{slug}: {refused} of {} elements are refused", exact.len());
    }
}
