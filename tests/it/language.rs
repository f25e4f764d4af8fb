//! The language: what kernels and programs record, and what their mistakes say.

mod elsewhere;

use girih::prelude::*;
use girih_core::error::CompileError;
use girih_core::lang::build::{self, Header};
use girih_core::lang::schedule::KernelSchedule;
use girih_core::lang::world::ByReference;
use girih_core::loc::SourceLoc;
use girih_core::program::Stmt;
use girih_core::registry::KernelDef;
use girih_core::schedule::{Choice, Knob, KnobKind, Of};
use girih_core::tile::host::HostExpr;
use girih_core::tile::print::{Places, print_with};
use girih_core::tile::{Param, ParamKind};
use girih_core::types::DType;

#[kernel(tile(T = [256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), stages(S = [1, 2]))]
pub fn vector_add(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    for t in c.tiles([T]) {
        c.store(t, a.load(t) + b.load(t));
    }
}

#[kernel(tile(R = [16, 32], C = [16, 32]), coarsen(CR of R = [1, 2, 4]), vector = [1, 2, 4])]
pub fn transpose(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((c, r), x.load((r, c)).t());
    }
}

#[kernel(tile(BM = [64, 128], BN = [64, 128], BK = [8, 16]), coarsen(TM of BM = [4, 8], TN of BN = [4, 8]), unit(U = [Ffma, Mma]), types(T = [f32, f16]))]
pub fn matmul<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), epilogue(acc).cast());
    }
}

fn epilogue(acc: Tile<f32>) -> Tile<f32> {
    acc.max(0.0)
}

#[kernel(types(F = [f32, f16]), tile(T = [256, 512]), vector(V = [1, 2, 4]))]
pub fn leaky_relu<F: Float>(x: &Tensor<F, 1>, y: &mut Tensor<F, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let out = if v > 0.0 { v } else { 0.01 * v };
        y.store(t, out);
    }
}

const OFFSET: u32 = 2166136261;
const PRIME: u32 = 16777619;

fn fnv1a(x: Tile<u32>) -> Tile<u32> {
    let mut h = x.like(OFFSET);
    for byte in 0..4 {
        h = (h ^ ((x >> (8 * byte)) & 0xff)) * PRIME;
    }
    h
}

#[kernel(tile(T = [256, 512]), vector(V = [1, 2, 4]))]
pub fn rainbow_table(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, rounds: Scalar<u32>) {
    for t in x.tiles([T]) {
        let mut h = x.load(t);
        for _ in 0..rounds {
            h = fnv1a(h);
        }
        y.store(t, h);
    }
}

#[kernel(tile(R = [1, 4], C = [256, 1024]), vector(V = [1, 2, 4]))]
pub fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        let (mut m, mut s) = (full([R], f32::NEG_INFINITY), zeros([R]));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let new = m.max(v.max_axis(1));
            s = s * (m - new).exp() + (v - new.expand(1, C)).exp().sum_axis(1);
            m = new;
        }
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            y.store((r, c), (v - m.expand(1, C)).exp() / s.expand(1, C));
        }
    }
}

#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]))]
pub fn invert(image: &mut Tensor<u8, 1>) {
    let mut pixels = image.reinterpret::<u32>();
    for t in pixels.tiles([T]) {
        let p = pixels.load(t);
        pixels.store(t, p ^ 0x00ff_ffff);
    }
}

#[kernel(tile(T = [256, 512]))]
pub fn reverse(x: &mut Tensor<f32, 1>) {
    let (mut low, rest) = x.split_at(0, x.len(0) / 2);
    let mut high = rest.reversed(0);
    for t in low.tiles([T]) {
        let (a, b) = (low.load(t), high.load(t));
        low.store(t, b);
        high.store(t, a);
    }
}

#[kernel(tile(T = [256, 512]))]
pub fn clip(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, low: Scalar<f32>, high: Scalar<f32>) {
    x.same_shape(y);
    for t in x.tiles([T]) {
        y.store(t, x.load(t).clamp(low, high));
    }
}

#[kernel(tile(P = [256, 512]))]
pub fn gray(image: &Tensor<f32, 2>, out: &mut Tensor<f32, 1>) {
    for p in out.tiles([P]) {
        let rgb = image.load((p, ..3));
        out.store(p, 0.299 * rgb.pick(1, 0) + 0.587 * rgb.pick(1, 1) + 0.114 * rgb.pick(1, 2));
    }
}

#[kernel(tile(T = [256]))]
pub fn shuffle(x: &Tensor<f32, 1>, to: &Tensor<i32, 1>, from: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    for t in to.tiles([T]) {
        let v = x.gather(from.load(t));
        y.scatter(to.load(t), v);
    }
}

#[kernel(tile(T = [256]))]
pub fn masked(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, table: &Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let i = t.coords();
        let mut out = v;
        if i < 10i64 && v > 0.0 {
            out = table.gather(i) * 2.0;
        }
        y.store(t, out);
    }
}

#[device]
fn collatz(start: Scalar<i64>) -> Scalar<i32> {
    let mut n = start;
    let mut steps = scalar(0);
    while n > 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

#[kernel(tile(T = [256]))]
pub fn scalars(y: &mut Tensor<i32, 1>, n: Scalar<i64>, flag: Scalar<bool>) {
    let steps = collatz(n);
    let more = if flag { 1 } else { 0 };
    for t in y.tiles([T]) {
        y.store(t, y.load(t) + steps + more);
    }
}

#[program]
pub fn add_twice(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    let mut sum = temp([a.len(0)]);
    vector_add(a, b, &mut sum);
    vector_add(&sum, b, c);
}

#[program]
pub fn choose(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, rounds: Scalar<u32>) {
    y.fill(0);
    if x.len(0) > 1000 {
        rainbow_table(x, y, rounds);
    } else {
        y.copy_from(x);
    }
    let mut left = rounds;
    for i in 0..rounds {
        rainbow_table(x, y, i);
        left = left - 1;
    }
    while y.at(0) > 100u32 {
        rainbow_table(x, y, left);
    }
}

#[kernel(tile(T = [256]))]
pub fn loudest(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc = acc.max(x.load(t).abs());
    }
    let top = acc.reduce_all(0.0, |a, b| if a > b { a } else { b });
    out.atomic_max(0, top);
}

/// The text of a kernel's IR.
pub fn ir(def: KernelDef) -> String {
    match (def.build)() {
        Ok(kernel) => print_with(&kernel, Places::Hidden),
        Err(error) => panic!("{error}"),
    }
}

/// The lines of the text, without their indentation.
pub fn has(text: &str, lines: &[&str]) {
    let all: Vec<&str> = text.lines().map(str::trim).collect();
    for line in lines {
        assert!(all.contains(line), "no line `{line}` in\n{text}");
    }
}

#[test]
fn elementwise_kernels_read_like_their_source() {
    insta::assert_snapshot!("vector_add", ir(vector_add::Kernel::def()));
    insta::assert_snapshot!("leaky_relu", ir(leaky_relu::Kernel::<f32>::def()));
    insta::assert_snapshot!("rainbow_table", ir(rainbow_table::Kernel::def()));
    insta::assert_snapshot!("gray", ir(gray::Kernel::def()));
    insta::assert_snapshot!("shuffle", ir(shuffle::Kernel::def()));
    has(&ir(transpose::Kernel::def()), &["%1: f32[C, R] = transpose %0 axes [1, 0]", "store y (c, r), %1"]);
    has(&ir(clip::Kernel::def()), &["require x.len(0) == y.len(0)", "%1: f32[T] = splat low"]);
}

#[test]
fn loops_carry_plain_variables() {
    insta::assert_snapshot!("softmax", ir(softmax::Kernel::def()));
    insta::assert_snapshot!("scalars", ir(scalars::Kernel::def()));
    let text = ir(matmul::Kernel::<f16>::def());
    has(&text, &["for k: tile BK of axis 1 in a with acc_2 = acc {", "} next acc_3 to acc_4"]);
    has(&ir(loudest::Kernel::def()), &["grid t: tile T of axis 0 in x strided with acc_2 = acc {", "by (a, b) from (0.0) {"]);
}

#[test]
fn loads_on_one_side_of_a_choice_have_its_mask() {
    insta::assert_snapshot!("masked", ir(masked::Kernel::def()));
}

#[test]
fn views_are_windows_that_the_host_computes() {
    insta::assert_snapshot!("invert", ir(invert::Kernel::def()));
    insta::assert_snapshot!("reverse", ir(reverse::Kernel::def()));
    let kernel = (reverse::Kernel::def().build)().expect("it builds");
    for view in &kernel.views {
        for value in view.axes.iter().flat_map(|a| [a.len, a.stride]).chain([view.offset]) {
            assert!(HostExpr::of_value(&kernel, value).is_some(), "the host cannot compute a part of {}", view.text);
        }
    }
}

#[test]
fn programs_are_recorded() {
    let program = (add_twice::Program::def().build)().expect("it builds");
    assert_eq!(program.temps.len(), 1);
    assert_eq!(program.temps[0].name, "sum");
    assert_eq!(program.sites().len(), 2);
    let program = (choose::Program::def().build)().expect("it builds");
    let kinds: Vec<&str> = program
        .body
        .iter()
        .map(|s| match s {
            Stmt::Launch { .. } => "launch",
            Stmt::Memset { .. } => "memset",
            Stmt::Copy { .. } => "copy",
            Stmt::Set { .. } => "set",
            Stmt::Let { .. } => "let",
            Stmt::ReadBack { .. } => "read back",
            Stmt::If { .. } => "if",
            Stmt::For { .. } => "for",
            Stmt::While { .. } => "while",
        })
        .collect();
    assert_eq!(kinds, ["memset", "if", "set", "for", "while"]);
    let outer = (outer::Program::def().build)().expect("it builds");
    assert_eq!(outer.sites().len(), 3);
    assert_eq!(outer.temps.len(), 2);
}

#[program]
pub fn outer(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    let mut half = temp([a.len(0)]);
    add_twice(a, b, &mut half);
    vector_add(&half.slice(0, 0, a.len(0)), b, c);
}

#[test]
fn schedules_print_themselves_and_come_back() {
    let schedule = vector_add::Schedule { t: 512, v: 4, ..Default::default() };
    assert_eq!(schedule.to_string(), "#[kernel(tile(T = 512), coarsen(C of T = 1), vector(V = 4), stages(S = 1))]");
    assert_eq!(vector_add::Schedule::from_schedule(&schedule.to_schedule()), Ok(schedule.clone()));
    let text = serde_json::to_string(&schedule).expect("it is written");
    assert_eq!(text, r#"{"C":1,"S":1,"T":512,"V":4}"#);
    assert_eq!(serde_json::from_str::<vector_add::Schedule>(&text).expect("it is read"), schedule);
    assert!(serde_json::from_str::<vector_add::Schedule>(r#"{"Q":1}"#).unwrap_err().to_string().contains("no knob `Q`"));
    let typed = leaky_relu::Schedule::default().to_string();
    assert_eq!(typed, "#[kernel(tile(T = 256), vector(V = 1), types(F = [f32, f16]))]");
}

#[test]
fn kernels_register_their_instances() {
    let paths: Vec<String> = girih_core::registry::kernels().iter().map(|d| d.path()).collect();
    for path in ["it::language::matmul<f32>", "it::language::matmul<f16>", "it::language::vector_add"] {
        assert!(paths.iter().any(|p| p == path), "{path} is not in {paths:?}");
    }
    let (a, b) = (matmul::Kernel::<f32>::def(), matmul::Kernel::<f16>::def());
    let identity = |d: KernelDef| (d.build)().expect("it builds").identity();
    assert_eq!(identity(a), identity(matmul::Kernel::<f32>::def()));
    assert_ne!(identity(a), identity(b));
    assert!(!ir(a).contains(env!("CARGO_MANIFEST_DIR")));
}

#[track_caller]
fn mistakes(body: impl FnOnce(&Tensor<f32, 2>, &mut Tensor<f32, 2>, Size, Size)) -> String {
    mistakes_in(include_str!("language.rs"), body)
}

/// The mistakes of a body that stands in this file. Wrong bodies are built by hand, so that they are in no registry.
#[track_caller]
pub fn mistakes_in(source: &'static str, body: impl FnOnce(&Tensor<f32, 2>, &mut Tensor<f32, 2>, Size, Size)) -> String {
    mistakes_under(false, source, body)
}

/// The same where the attribute demands `deterministic`, or not.
#[track_caller]
pub fn mistakes_under(
    deterministic: bool,
    source: &'static str,
    body: impl FnOnce(&Tensor<f32, 2>, &mut Tensor<f32, 2>, Size, Size),
) -> String {
    mistakes_beside(&[], deterministic, source, body)
}

/// The same with more knobs beside the tiles.
#[track_caller]
pub fn mistakes_beside(
    more: &[Knob],
    deterministic: bool,
    source: &'static str,
    body: impl FnOnce(&Tensor<f32, 2>, &mut Tensor<f32, 2>, Size, Size),
) -> String {
    let tensor = |name: &str, mutable| Param { name: name.into(), kind: ParamKind::Tensor { dtype: DType::F32, rank: 2, mutable } };
    let loc = SourceLoc { line: 1, column: 1, ..SourceLoc::caller() };
    let params = vec![tensor("x", false), tensor("y", true)];
    let header = Header { name: "wrong", module: module_path!(), loc, source, params };
    let knob = |name: &str, sizes: &[i64]| {
        let choices = sizes.iter().map(|s| Choice::Int(*s)).collect();
        Knob { name: name.into(), kind: KnobKind::Tile, of: None, choices, loc }
    };
    let knobs = [knob("M", &[64]), knob("N", &[64, 128])].into_iter().chain(more.iter().cloned()).collect();
    let attribute = build::Attribute { knobs, deterministic };
    let built = build::kernel(header, &[], attribute, || {
        body(&Tensor::symbol(0), &mut Tensor::symbol(1), Size::knob(0), Size::knob(1));
    });
    match built {
        Ok(kernel) => panic!("no mistake was found:\n{kernel}"),
        Err(CompileError::Kernel(all)) => all.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("\n\n"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that the text has these parts.
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}

#[device]
fn wrong_shapes(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let sum = v + v.t();
        y.store((i, j), sum);
        y.store((j, i), v);
        let _ = dot(v, v, zeros::<f32>([m, n]));
        let _ = v.pick(1, 0);
        let _ = x.load((i, ..));
        let _ = v.expand(3, n);
    }
}

#[test]
fn shapes_that_differ_are_reported_together_with_their_lines() {
    let text = mistakes(wrong_shapes);
    says(&text, &["`+` on tiles of different shapes: [M, N] and [N, M]", "let sum = v + v.t();", "exchange axes with `.t()`"]);
    says(&text, &["store of [M, N] at an index that spans [N, M]", "dot of [M, N] and [M, N] into [M, N]: expected [M, K], [K, N]"]);
    says(&text, &["`pick(1, 0)` of [M, N]: the axis needs a constant extent", "the length of axis 1 of `x` is not known"]);
    says(&text, &["no axis 3 can be added to [M, N]"]);
    assert_eq!(text.matches("error:").count(), 6, "{text}");
}

#[device]
fn wrong_loops(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    let mut acc = zeros::<f32>([m, n]);
    let mut kept = Vec::new();
    for (i, j) in x.tiles([m, n]) {
        let _ = (i.number(), j.number());
        acc += x.load((i, j));
        let mut growing = zeros::<f32>([m]);
        for _ in 0..x.len(0) {
            growing = growing.expand(1, n);
        }
        kept.push(acc);
        let v = x.load((i, j));
        if v > 0.0 {
            y.store((i, j), v);
        }
        let mut z = x.reversed(0);
        z.store((i, j), v);
    }
    for (i, j) in x.tiles([m, n]) {
        y.store((i, j), kept[0]);
    }
}

#[test]
fn loops_and_branches_are_checked() {
    let text = mistakes(wrong_loops);
    says(&text, &["`acc` changes from turn to turn of the grid loop", "strided()"]);
    says(&text, &["the number of a tile of N elements depends on the schedule", "give the knob one choice"]);
    says(&text, &["`growing` is [M] before the loop and [M, N] after a turn"]);
    says(&text, &["a store cannot depend on a per-element condition"]);
    says(&text, &["store to `x.reversed(0)`, but `x` is taken by `&`"]);
    says(&text, &["a second loop over tiles at the top of the kernel"]);
    says(&text, &["is used outside of the loop or branch in which it was made"]);
}

#[device]
fn wrong_in_a_helper(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in y.tiles([m, n]) {
        let v = x.load((i, j));
        elsewhere::axes_too_many(&v, n);
        y.store((i, j), v.expand(6, n));
    }
}

#[test]
fn no_line_of_this_file_is_shown_below_another_files_name() {
    let text = mistakes(wrong_in_a_helper);
    let errors: Vec<&str> = text.split("\n\n").collect();
    let (there, here): (Vec<&str>, Vec<&str>) = errors.iter().partition(|e| e.contains("it/language/elsewhere.rs:"));
    assert_eq!((there.len(), here.len()), (6, 1), "{text}");
    assert!(there.iter().all(|e| !e.contains("\n   |  ")), "{text}");
    says(here[0], &["it/language.rs:", "\n   |  y.store((i, j), v.expand(6, n));"]);
}

#[device]
fn wrong_views(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    let _ = x.permuted([1, 0]).flat();
    let _ = x.slice(0, -1, 2);
    let _ = x.slice(2, 0, 2);
    let _ = x.slice(0, x.at((0, 0)).cast::<i64>(), 2);
    let _ = x.strided(0, 0);
    let _ = x.len(5);
    let _ = zeros::<u8>([m]) + 300;
    for (i, j) in y.tiles([m, n]) {
        let w = x.load((i, j)).bitcast::<u8>();
        y.store((i, j), w.cast());
    }
}

#[test]
fn views_and_literals_are_checked() {
    let text = mistakes(wrong_views);
    says(&text, &["`x.permuted([1, 0])` has gaps or another order than memory", "-1 is out of range: a slice starts at 0 or later"]);
    says(&text, &["no axis 2 in a tensor of 2 axes", "the start of this view depends on memory or on a loop"]);
    says(&text, &["0 is out of range: a step is at least 1", "no axis 5 in a tensor of 2 axes", "300 is out of the range of u8"]);
    says(&text, &["f32 has 4 bytes and u8 has 1: their bits cannot be exchanged"]);
}

#[device]
fn read_in_tiles(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in y.tiles([m, n]) {
        let mut sum = zeros::<f32>([m, n]);
        for turn in 0..scalar::<i32>(3) {
            sum += x.load((i, j)) * turn.cast::<f32>();
        }
        y.store((i, j), sum);
    }
}

#[test]
fn knobs_are_for_loops_and_tensors_that_there_are() {
    let loc = SourceLoc { file: file!(), line: 7, column: 1 };
    let knob = |name: &str, kind, of| Knob { name: name.into(), kind, of: Some(of), choices: vec![Choice::Int(1)], loc };
    let of = |text: &str| Of::Loop(text.into());
    let tensor = |text: &str| Of::Tensor(text.into());
    let knobs = [
        knob("S", KnobKind::Stages, of("turn")),
        knob("R", KnobKind::Stages, of("j")),
        knob("P", KnobKind::Copy, tensor("y")),
        knob("Q", KnobKind::Copy, tensor("x")),
        knob("O", KnobKind::Operands, tensor("x")),
        knob("H", KnobKind::Halo, tensor("x")),
    ];
    let text = mistakes_beside(&knobs, false, include_str!("language.rs"), read_in_tiles);
    says(&text, &["stages(S of turn): `turn` is no loop over tiles; expected one of `i`, `j`", "language.rs:7:1"]);
    says(&text, &["copy(P of y): `y` is no tensor of which the kernel loads tiles or windows; expected one of `x`"]);
    says(&text, &["operands(O of x): `x` is no operand of a dot; there is none here", "or write `operands(O = ..)`, which is for all"]);
    assert_eq!(text.matches("error:").count(), 4, "{text}");
    says(&text, &["halo(H of x): `x` is no tensor of which the kernel reads windows; there is none here"]);
}

/// `y` is loaded, and added to the product.
#[device]
fn product_and_more(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in y.tiles([m, m]) {
        let mut sum = y.load((i, j));
        for k in x.axis(1).tiles(n) {
            sum = dot(x.load((i, k)) * 2.0, x.load((j, k)).t(), sum);
        }
        y.store((i, j), sum);
    }
}

#[test]
fn knobs_for_operands_are_for_what_dots_multiply() {
    let loc = SourceLoc { file: file!(), line: 7, column: 1 };
    let of = |name: &str| {
        let of = Some(Of::Tensor(name.into()));
        vec![Knob { name: "O".into(), kind: KnobKind::Operands, of, choices: vec![Choice::Word("Shared".into())], loc }]
    };
    let text = mistakes_beside(&of("y"), false, include_str!("language.rs"), product_and_more);
    says(&text, &["operands(O of y): `y` is no operand of a dot; expected one of `x`"]);
    assert_eq!(text.matches("error:").count(), 1, "{text}");
}
