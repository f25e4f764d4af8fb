//! Tests of exported text, on tile IR built by hand and lowered for real.

use super::*;
use girih_ir::bug::Bug;
use girih_ir::facts::Facts;
use girih_ir::program::{Base, Expr, Requirement, ScalarVar, Temp, TensorView};
use girih_ir::registry::KernelDef;
use girih_ir::schedule::parse::parse_schedule;
use girih_ir::schedule::{Choice, Knob, KnobKind};
use girih_ir::tile::by_hand::{Builder, add_one};
use girih_ir::tile::{KnobId, Param, ParamKind};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};

const LOC: SourceLoc = SourceLoc { file: "src/add_one.rs", line: 7, column: 1 };

fn build() -> Result<tile::Kernel, CompileError> {
    let ints = |v: &[i64]| v.iter().map(|i| Choice::Int(*i)).collect();
    let knob = |name: &str, kind, choices| Knob { name: name.into(), kind, of: None, choices, loc: LOC };
    let knobs = vec![
        knob("T", KnobKind::Tile, ints(&[256, 1024])),
        knob("C", KnobKind::Coarsen { of: KnobId(0) }, ints(&[1, 4])),
        knob("V", KnobKind::Vector, ints(&[1, 4])),
    ];
    Ok(add_one(Builder::new("add_one", knobs)))
}

const KERNEL: KernelDef = KernelDef { name: "add_one", module: "tests", instance: &[], loc: LOC, build };

fn len() -> Expr {
    Expr::Dim(0, 0)
}

fn view(base: Base) -> TensorView {
    let (offset, strides) = (Expr::Literal(Literal::index(0)), vec![Expr::Literal(Literal::index(1))]);
    TensorView { base, dtype: DType::F32, offset, lens: vec![len()], strides, packed: true }
}

fn launch(site: usize, from: Base, to: Base) -> Stmt {
    let args = vec![Arg::Tensor(view(from)), Arg::Tensor(view(to))];
    Stmt::Launch { site, kernel: KERNEL, args, loc: LOC }
}

fn program(temps: Vec<Temp>, scalars: Vec<(DType, String)>, body: Vec<Stmt>) -> Program {
    let tensor = |name: &str, mutable| Param { name: name.into(), kind: ParamKind::Tensor { dtype: DType::F32, rank: 1, mutable } };
    let rounds = Param { name: "rounds".into(), kind: ParamKind::Scalar(DType::I32) };
    Program {
        name: "solve".into(),
        path: "tests::solve".into(),
        loc: SourceLoc { line: 20, ..LOC },
        source: String::new(),
        params: vec![tensor("x", false), tensor("y", true), rounds],
        temps,
        scalars,
        variants: vec![],
        requirements: vec![],
        body,
    }
}

fn text(program: &Program, signature: &str, schedule: &str) -> String {
    let signature = Signature::parse(signature).unwrap();
    let choose = &mut |_: usize, kernel: &tile::Kernel| parse_schedule(kernel, schedule).unwrap();
    export_program(program, &signature, Target::h200(), choose).unwrap()
}

const SIGNATURE: &str = "void solve(const float* A[N], float* B[N], int N, int rounds)";

#[test]
fn one_launch_dispatches_on_facts() {
    let program = program(vec![], vec![], vec![launch(0, Base::Param(0), Base::Param(1))]);
    insta::assert_snapshot!("one_launch", text(&program, SIGNATURE, "T=1024,C=4,V=4"));
    // One element at a time needs no alignment: one version for 32-bit indices, one for 64-bit ones.
    let naive = text(&program, SIGNATURE, "T=256");
    assert_eq!(naive.matches("__global__").count(), 2, "{naive}");
    assert!(!naive.contains("is_aligned"), "{naive}");
}

/// Temporaries, a loop that exchanges two of them, a choice by size, a loop on a value read back.
fn busy() -> Program {
    let temp = |name: &str| Temp { name: name.into(), dtype: DType::F32, lens: vec![len()] };
    let (ping, pong) = (Base::Temp(0), Base::Temp(1));
    let index = |i: i64| Expr::Literal(Literal::index(i));
    let compare = |op, a: Expr, b: Expr| Expr::Compare(op, Box::new(a), Box::new(b));
    let (i, first) = (ScalarVar(0), ScalarVar(1));
    let one = TensorView { lens: vec![index(1)], ..view(ping) };
    let rounds = Expr::Cast(DType::I64, Box::new(Expr::Param(2)));
    let body = vec![
        Stmt::Memset { tensor: view(pong), value: Literal::f32(0.0), loc: LOC },
        Stmt::Copy { to: view(ping), from: view(Base::Param(0)), loc: LOC },
        Stmt::For {
            var: i,
            start: index(0),
            end: rounds,
            body: vec![launch(0, ping, pong), Stmt::Copy { to: view(ping), from: view(pong), loc: LOC }],
        },
        Stmt::While {
            header: vec![Stmt::ReadBack { var: first, from: one, loc: LOC }],
            condition: compare(CompareOp::Lt, Expr::Var(first), Expr::Literal(Literal::f32(10.0))),
            body: vec![launch(1, ping, pong), Stmt::Copy { to: view(ping), from: view(pong), loc: LOC }],
        },
        Stmt::If {
            condition: compare(CompareOp::Gt, Expr::Binary(BinaryOp::Mul, Box::new(len()), Box::new(index(2))), index(4096)),
            then: vec![launch(2, ping, Base::Param(1))],
            otherwise: vec![Stmt::Memset { tensor: view(Base::Param(1)), value: Literal::f32(1.5), loc: LOC }],
        },
    ];
    let temps = vec![temp("ping"), temp("pong")];
    program(temps, vec![(DType::I64, "i".into()), (DType::F32, "first".into())], body)
}

#[test]
fn loops_choices_and_temporaries_are_printed() {
    insta::assert_snapshot!("busy", text(&busy(), SIGNATURE, "T=1024,C=4,V=4"));
}

#[test]
fn the_same_program_evaluates() {
    use girih_ir::facts::TensorArg;
    use girih_ir::program::eval::eval_program;
    use girih_ir::tile::eval::{EvalArg, EvalOptions};
    let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let run = |x: &[f32], rounds: i32| {
        let (mut a, mut b) = (bytes(x), bytes(&vec![0.0; x.len()]));
        let shape = TensorArg::packed(0, &[x.len() as i64]);
        let mut args = [
            EvalArg::Tensor { bytes: &mut a, shape: shape.clone() },
            EvalArg::Tensor { bytes: &mut b, shape },
            EvalArg::Scalar(Literal::i32(rounds)),
        ];
        eval_program(&busy(), &mut args, &EvalOptions::default()).unwrap();
        b.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect::<Vec<f32>>()
    };
    assert_eq!(run(&[0.0; 5], 3), [1.5; 5]);
    // 0 + 3 rounds, then up to 10, then once more.
    let mut x = vec![5.0; 3000];
    x[0] = 0.0;
    let y = run(&x, 3);
    assert_eq!((y[0], y[1], y[2999]), (11.0, 16.0, 16.0));
}

/// Launches whose own version the compiler panics over come to the first version that asks for no more than they promise.
#[test]
fn what_serves_launches_without_a_version_of_their_own_says_so() {
    let kernel = build().unwrap();
    let schedule = parse_schedule(&kernel, "T=1024,C=4,V=4").unwrap();
    let known = Known::packed(&kernel);
    let versions = versions_for_export(&kernel, &schedule.clone().into(), Target::h200(), &known).unwrap();
    assert!(versions.iter().all(|v| v.excuse().is_none()));
    let last = versions.len() - 1;
    let bug = |replay: &str| {
        let replay = replay.to_string();
        Box::new(Bug {
            step: "lowering",
            kernel: String::new(),
            schedule: String::new(),
            facts: String::new(),
            message: String::new(),
            replay,
        })
    };
    let missing =
        vec![(versions[last].facts.clone(), bug("a")), (versions[0].facts.clone(), bug("b")), (versions[0].facts.clone(), bug("c"))];
    let told: Vec<Option<String>> = super::versions::excused(versions, missing).iter().map(Version::excuse).collect();
    let excuse = |replay: &str| {
        Some(format!("also serves tuned launches whose own version is missing because of a compiler bug, which `{replay}` shows"))
    };
    assert_eq!((told[0].clone(), told[last].clone()), (excuse("b"), excuse("a")));
    assert!(told[1..last].iter().all(Option::is_none), "{told:?}");
}

#[test]
fn versions_ask_for_no_more_than_they_use() {
    let kernel = build().unwrap();
    let schedule = parse_schedule(&kernel, "T=1024,C=4,V=4").unwrap();
    let versions = versions_for_export(&kernel, &schedule.into(), Target::h200(), &Known::packed(&kernel)).unwrap();
    assert_eq!(versions[0].facts.tensors[0].as_ref().unwrap().align, 16);
    let last = versions.last().unwrap();
    assert!(Facts::packed(&kernel, false).imply(&last.facts), "{}", last.facts);
    for (i, v) in versions.iter().enumerate() {
        assert!(versions[..i].iter().all(|earlier| !v.facts.imply(&earlier.facts)), "version {i} can't be reached");
    }
}

#[test]
fn mistakes_are_errors() {
    let program = program(vec![], vec![], vec![launch(0, Base::Param(0), Base::Param(1))]);
    let export = |signature: &str| {
        let signature = Signature::parse(signature).unwrap();
        export_program(&program, &signature, Target::h200(), &mut |_, k| Schedule::default_of(k)).unwrap_err().to_string()
    };
    let error = export("void solve(const float* A[N], const float* B[N], int N, int rounds)");
    assert_eq!(error, "program solve stores to y, but `const float* B` is const");
    assert!(export("void solve(const float* A[N], int N)").contains("has no counterpart"));
}

/// Inverts the colours of an RGBA image in place, as 32-bit pixels.
fn build_invert() -> Result<tile::Kernel, CompileError> {
    use girih_ir::tile::{Op, RequirementKind, Ty, ViewAxis};
    let mut b = Builder::new("invert", build()?.knobs);
    b.tensor("image", DType::U8, 3, true);
    let index = || Ty::Scalar(DType::I64);
    let [h, w, c] = [0, 1, 2].map(|k| b.op(index(), Op::Dim(0, k)));
    let (hw, four) = (b.binary(BinaryOp::Mul, h, w), b.literal(Literal::index(4)));
    let bytes = b.binary(BinaryOp::Mul, hw, c);
    let pixels = b.binary(BinaryOp::Div, bytes, four);
    let (one, zero) = (b.literal(Literal::index(1)), b.literal(Literal::index(0)));
    let view = b.view(0, DType::U32, vec![ViewAxis { len: pixels, stride: one }], zero);
    b.tiles(view, None, |b, t, _| {
        let (v, flip) = (b.load(view, t), b.splat(Literal::u32(0x00ff_ffff)));
        let inverted = b.binary(BinaryOp::Xor, v, flip);
        b.store(view, t, inverted);
        None
    });
    for kind in [RequirementKind::Packed(0), RequirementKind::Divisible(bytes, 4), RequirementKind::Aligned(0, 4)] {
        b.kernel.requirements.push(tile::Requirement { kind, loc: LOC });
    }
    Ok(b.finish())
}

#[test]
fn images_are_read_as_pixels() {
    const INVERT: KernelDef = KernelDef { name: "invert", module: "tests", instance: &[], loc: LOC, build: build_invert };
    let index = |i: i64| Expr::Literal(Literal::index(i));
    let product = |a: Expr, b: Expr| Expr::Binary(BinaryOp::Mul, Box::new(a), Box::new(b));
    let view = TensorView {
        base: Base::Param(0),
        dtype: DType::U8,
        offset: index(0),
        lens: (0..3).map(|k| Expr::Dim(0, k)).collect(),
        strides: vec![product(Expr::Dim(0, 1), Expr::Dim(0, 2)), Expr::Dim(0, 2), index(1)],
        packed: true,
    };
    let body = vec![Stmt::Launch { site: 0, kernel: INVERT, args: vec![Arg::Tensor(view)], loc: LOC }];
    let image = Param { name: "image".into(), kind: ParamKind::Tensor { dtype: DType::U8, rank: 3, mutable: true } };
    let program = Program { params: vec![image], ..program(vec![], vec![], body) };
    let signature = "void solve(unsigned char* image[height, width, 4], int width, int height)";
    let text = text(&program, signature, "T=1024,C=4,V=4");
    let copy = "(unsigned char*)aligned_memory(memory_of_aligned_image_copy, image, height64 * width64 * 4, 4);\n";
    assert!(text.contains(copy) && text.contains("    if (aligned_image != image) cudaMemcpyAsync(image, aligned_image, "), "{text}");
    insta::assert_snapshot!("image", text);
}

#[test]
fn fills_and_requirements_have_text() {
    let half = Expr::Compare(
        CompareOp::Eq,
        Box::new(Expr::Binary(BinaryOp::Rem, Box::new(len()), Box::new(Expr::Literal(Literal::index(2))))),
        Box::new(Expr::Literal(Literal::index(0))),
    );
    let memset = |value: f32| Stmt::Memset { tensor: view(Base::Param(1)), value: Literal::f32(value), loc: LOC };
    let mut program = program(vec![], vec![], vec![memset(0.0), memset(f32::NEG_INFINITY), memset(f32::NAN)]);
    program.requirements.push(Requirement { holds: half, rule: "pairs", loc: LOC });
    let text = text(&program, SIGNATURE, "");
    let body = &text[text.find("extern \"C\" void solve").unwrap()..];
    assert_eq!(
        body,
        "extern \"C\" void solve(const float* A, float* B, int N, int rounds)
{
    const long long N64 = N;    // 64 bits, so that sums and products of lengths fit
    if (N64 % 2 != 0) return;    // required by add_one.rs:7
    cudaMemsetAsync(B, 0x0, N64 * 4);
    fill<float>(B, N64, -__builtin_inff());
    fill<float>(B, N64, __builtin_nanf(\"\"));
}
"
    );
}

#[test]
fn a_kernel_named_like_a_function_of_the_host_is_launched_by_its_own_name() {
    let program = program(vec![], vec![], vec![launch(0, Base::Param(0), Base::Param(1))]);
    let signature = Signature::parse(SIGNATURE).unwrap();
    let mut sites = compile_sites(&program, &signature, Target::h200(), &mut |_, k| Schedule::default_of(k)).unwrap();
    for version in &mut sites[0].versions {
        version.kernel.name = "system".into();
    }
    let text = export(&program, &signature, &sites, Target::h200()).unwrap();
    assert!(text.contains("\nsystem_kernel(") && text.contains("system_kernel<<<"), "{text}");
    assert!(!text.contains("system(") && !text.contains("system<<<"), "{text}");
}

#[test]
fn kernels_keep_their_own_memory_between_calls() {
    let program = program(vec![], vec![], vec![launch(0, Base::Param(0), Base::Param(1)), launch(1, Base::Param(0), Base::Param(1))]);
    let signature = Signature::parse(SIGNATURE).unwrap();
    let mut sites = compile_sites(&program, &signature, Target::h200(), &mut |_, k| Schedule::default_of(k)).unwrap();
    for version in sites.iter_mut().flat_map(|s| &mut s.versions) {
        let kind = simt::ParamKind::Workspace { dtype: DType::F32, len: version.kernel.launch.grid.clone() };
        version.kernel.params.push(simt::Param { name: "parts".into(), kind });
    }
    let text = export(&program, &signature, &sites, Target::h200()).unwrap();
    // Both launches are of one kernel, so they share its memory.
    assert_eq!(text.matches("static OwnedMemory memory_of_add_one_parts;").count(), 1, "{text}");
    let argument = "(float*)owned_memory(memory_of_add_one_parts, (N64 + 255) / 256 * 4)";
    assert_eq!(text.matches(argument).count(), 2, "{text}");
    assert!(text.contains("static void* owned_memory(OwnedMemory& of, size_t bytes)"), "{text}");
}

#[test]
fn blocks_to_which_tiles_are_dealt_are_counted_on_the_device() {
    let program = program(vec![], vec![], vec![launch(0, Base::Param(0), Base::Param(1))]);
    let signature = Signature::parse(SIGNATURE).unwrap();
    let mut sites = compile_sites(&program, &signature, Target::h200(), &mut |_, k| Schedule::default_of(k)).unwrap();
    for version in &mut sites[0].versions {
        let dealt = tile::host::HostExpr::binary(BinaryOp::Mul, tile::host::HostExpr::Multiprocessors, tile::host::HostExpr::Const(8));
        version.kernel.launch.grid = tile::host::HostExpr::binary(BinaryOp::Min, version.kernel.launch.grid.clone(), dealt);
        version.kernel.launch.cooperative = true;
    }
    let text = export(&program, &signature, &sites, Target::h200()).unwrap();
    assert!(text.contains("if (const long long blocks = min((N64 + 255) / 256, multiprocessor_count() * 8)) {"), "{text}");
    assert!(text.contains("launch_cooperative(add_one, (unsigned int)blocks, 256, 0, A, B, N);"), "{text}");
    assert!(text.contains("static long long multiprocessor_count()") && text.contains("cudaLaunchCooperativeKernel"), "{text}");
    insta::assert_snapshot!("cooperative", text);
}

/// What is copied to constant memory is there before the launch, which therefore waits for the one in front, as any launch does.
#[test]
fn copies_to_constant_memory_stand_in_front_of_their_launch() {
    let program = program(vec![], vec![], vec![launch(0, Base::Param(0), Base::Param(1)), launch(1, Base::Param(0), Base::Param(1))]);
    let signature = Signature::parse(SIGNATURE).unwrap();
    let mut sites = compile_sites(&program, &signature, Target::h200(), &mut |_, k| Schedule::default_of(k)).unwrap();
    let without = export(&program, &signature, &sites, Target::h200()).unwrap();
    assert!(without.contains("launch_dependent(add_one"), "{without}");
    for version in sites.iter_mut().flat_map(|s| &mut s.versions) {
        let kind = simt::ParamKind::Constant { tensor: 0, dtype: DType::F32, len: 1024 };
        version.kernel.params.push(simt::Param { name: "table".into(), kind });
    }
    let text = export(&program, &signature, &sites, Target::h200()).unwrap();
    assert_eq!(text.matches("__constant__ __align__(16) unsigned char constant_memory[4096];").count(), 1, "{text}");
    assert!(!text.contains("launch_dependent("), "{text}");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let copy = "cudaMemcpyToSymbolAsync(constant_memory, A, N64 * 4, 0, cudaMemcpyDeviceToDevice);";
    let launches = lines.iter().enumerate().filter(|(_, l)| l.contains("<<<")).map(|(at, _)| at);
    let before: Vec<&str> = launches.map(|at| lines[at - 1]).collect();
    assert!(before.len() >= 2 && before.iter().all(|line| *line == copy), "{text}");
    // A parameter of the signature does not hide the array.
    let signature = Signature::parse(&SIGNATURE.replace("A[", "constant_memory[")).unwrap();
    let text = export(&program, &signature, &sites, Target::h200()).unwrap();
    assert!(text.contains("cudaMemcpyToSymbolAsync(constant_memory, constant_memory_2, N64 * 4, 0, "), "{text}");
}

/// Values that the author named: one for a temporary's length, one in a loop, one that is used once, one with a name that C keeps.
fn named() -> Program {
    let number = |n: i64| Expr::Literal(Literal::index(n));
    let of = |op: BinaryOp, a: &Expr, b: &Expr| Expr::Binary(op, Box::new(a.clone()), Box::new(b.clone()));
    let half = of(BinaryOp::Div, &len(), &number(2));
    let turn = Expr::Var(ScalarVar(0));
    let first = of(BinaryOp::Min, &of(BinaryOp::Mul, &turn, &half), &number(100));
    let once = of(BinaryOp::Sub, &half, &number(7));
    let part = |offset: &Expr, count: &Expr, base| TensorView { offset: offset.clone(), lens: vec![count.clone()], ..view(base) };
    let launch = |offset: &Expr, count: &Expr| {
        let args = vec![Arg::Tensor(part(offset, count, Base::Param(0))), Arg::Tensor(part(offset, count, Base::Temp(0)))];
        Stmt::Launch { site: 0, kernel: KERNEL, args, loc: LOC }
    };
    let named = |name: &str, value: &Expr| Stmt::Let { name: name.into(), value: value.clone() };
    let back = Stmt::Copy { to: part(&number(0), &half, Base::Param(1)), from: part(&number(0), &half, Base::Temp(0)), loc: LOC };
    let counted = vec![
        named("int", &first),
        named("once", &once),
        launch(&first, &once),
        Stmt::Set { var: ScalarVar(1), value: first.clone() },
        // It is another number from here on.
        Stmt::Set { var: ScalarVar(0), value: of(BinaryOp::Add, &turn, &first) },
        Stmt::Set { var: ScalarVar(1), value: first },
    ];
    let looped = Stmt::While {
        header: vec![named("unused", &of(BinaryOp::Add, &turn, &number(1)))],
        condition: Expr::Compare(CompareOp::Lt, Box::new(turn), Box::new(half.clone())),
        body: counted,
    };
    let temps = vec![Temp { name: "parts".into(), dtype: DType::F32, lens: vec![half.clone()] }];
    let scalars = vec![(DType::I64, "turn".into()), (DType::I64, "last".into())];
    program(temps, scalars, vec![named("half", &half), looped, named("again", &half), back])
}

#[test]
fn values_that_are_used_again_have_the_authors_name() {
    let text = text(&named(), SIGNATURE, "T=256");
    let count = |part: &str| text.matches(part).count();
    assert_eq!((count("const long long half_2 = N64 / 2;"), count("N64 / 2")), (1, 1), "{text}");
    // The same arithmetic as in place, once; `turn` has changed before the last statement, which computes it anew.
    let first = "min(wrap_multiply<long long>(turn, half_2), 100ll);";
    let lines = [format!("const long long int_2 = {first}"), "last = int_2;".into(), format!("last = {first}")];
    assert_eq!(lines.map(|l| count(&l)), [1, 1, 1], "{text}");
    assert!(count("while (turn < half_2) {") == 1 && !text.contains("unused") && !text.contains("again"), "{text}");
    insta::assert_snapshot!("named", text.split("extern \"C\" void").nth(1).expect("solve"));
}

#[test]
fn launches_behind_others_may_begin_before_those_have_ended() {
    let exported = |body: Vec<Stmt>, target: &str| {
        let (program, signature) = (program(vec![], vec![], body), Signature::parse(SIGNATURE).unwrap());
        let target = Target::find(target).unwrap();
        export_program(&program, &signature, target, &mut |_, kernel: &tile::Kernel| Schedule::default_of(kernel)).unwrap()
    };
    let one = || launch(0, Base::Param(0), Base::Param(1));
    let is_dependent = |text: &str| {
        let waits = text.matches("griddepcontrol.wait").count();
        // Each kernel waits, before anything else but its declarations.
        assert!(waits == 0 || waits == text.matches("__global__").count(), "{text}");
        assert_eq!(waits > 0, text.contains("    launch_dependent(add_one"), "{text}");
        assert_eq!(waits > 0, !text.contains("<<<"), "{text}");
        waits > 0
    };
    assert!(!is_dependent(&exported(vec![one()], "h200")), "nothing is in front of it");
    assert!(is_dependent(&exported(vec![one(), launch(1, Base::Param(0), Base::Param(1))], "h200")));
    assert!(!is_dependent(&exported(vec![one(), launch(1, Base::Param(0), Base::Param(1))], "a100")), "no such launches");
    let index = |i: i64| Expr::Literal(Literal::index(i));
    let turns = Stmt::For { var: ScalarVar(0), start: index(0), end: index(3), body: vec![one()] };
    let counted = Program { scalars: vec![(DType::I64, "i".into())], ..program(vec![], vec![], vec![turns]) };
    assert!(is_dependent(&text(&counted, SIGNATURE, "T=256")), "a turn is behind another one");
    let condition = Expr::Compare(CompareOp::Lt, Box::new(index(0)), Box::new(len()));
    let either = Stmt::If { condition, then: vec![one()], otherwise: vec![launch(1, Base::Param(0), Base::Param(1))] };
    assert!(!is_dependent(&exported(vec![either], "h200")), "one side or the other is launched");
}
