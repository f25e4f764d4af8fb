//! Matrix instructions: what they compute on every device, lane by lane, against a plain loop, and their text under NVRTC.

use super::cuda_text::{ARCHS, Build, global, int, load, smem, store};
use super::nvrtc::provide;
use super::on_devices::{devices, run};
use girih::compile::nvrtc;
use girih_core::cuda::{emit, emit_kernels};
use girih_core::fragments::{ATOMS, Atom, LoadMatrix, Number, Operand};
use girih_core::layout::{Layout, SharedLayout, Source};
use girih_core::simt::{Barrier, Expr, Fragment, Kernel, SharedId, Special, Stmt, VarId};
use girih_core::types::{BinaryOp, DType, Literal, UnaryOp};

fn op(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn add(a: Expr, b: Expr) -> Expr {
    match (&a, &b) {
        (Expr::Literal(l), _) if l.bits == 0 => b,
        (_, Expr::Literal(l)) if l.bits == 0 => a,
        _ => op(BinaryOp::Add, a, b),
    }
}

fn times(a: Expr, factor: i64) -> Expr {
    match factor {
        0 => int(0),
        1 => a,
        _ => op(BinaryOp::Mul, a, int(factor as i32)),
    }
}

/// The coordinate of a lane's register along an axis.
fn coordinate(layout: &Layout, axis: usize, lane: &Expr, register: i64) -> Expr {
    let mut sum = int(0);
    for d in &layout.axes[axis] {
        let digit = match d.source {
            Source::Register => int((register / d.stride % d.extent * d.place) as i32),
            Source::Thread => {
                let high = if d.stride == 1 { lane.clone() } else { op(BinaryOp::Div, lane.clone(), int(d.stride as i32)) };
                times(op(BinaryOp::Rem, high, int(d.extent as i32)), d.place)
            }
        };
        sum = add(sum, digit);
    }
    sum
}

/// An operand of an atom, or the accumulators, as a row-major matrix in a parameter.
struct Matrix {
    param: usize,
    operand: Operand,
}

impl Matrix {
    fn element(&self, atom: Atom, lane: &Expr, register: u32) -> girih_core::simt::Place {
        let (layout, r) = (atom.layout(self.operand), i64::from(register));
        let columns = i64::from(atom.shape(self.operand)[1]);
        let at = add(times(coordinate(&layout, 0, lane, r), columns), coordinate(&layout, 1, lane, r));
        global(self.param, atom.dtype(self.operand), at)
    }
}

fn rounds(atom: Atom, value: Expr, operand: Operand) -> Expr {
    let number = if operand == Operand::A { atom.a } else { atom.b };
    let tf32 = operand != Operand::Accumulator && number == Number::Tf32;
    if tf32 { Expr::Unary(UnaryOp::RoundTf32, Box::new(value)) } else { value }
}

fn fragment(var: VarId) -> Fragment {
    Fragment { var, at: int(0) }
}

/// `d = a b + c` by one atom, whose fragments go from and to global memory element by element. Parameters: a, b, c, d.
fn product(atom: Atom) -> Kernel {
    let mut k = Build::new(&format!("product_{atom}"));
    k.kernel.launch.block = 32;
    let params = [("a", Operand::A), ("b", Operand::B), ("c", Operand::Accumulator), ("d", Operand::Accumulator)]
        .map(|(name, operand)| Matrix { param: k.pointer(name, atom.dtype(operand)), operand });
    let lane = k.let_("lane", Expr::Special(Special::Lane));
    let vars = [("a_part", 0), ("b_part", 1), ("acc", 2)].map(|(name, param)| {
        let matrix: &Matrix = &params[param];
        let len = atom.registers(matrix.operand);
        let var = k.var(name, atom.dtype(matrix.operand), Some(len));
        k.push(Stmt::Declare { var, init: None });
        for r in 0..len {
            let value = rounds(atom, load(matrix.element(atom, &lane, r)), matrix.operand);
            k.push(Stmt::Assign { var, index: Some(int(r as i32)), value });
        }
        var
    });
    let [a, b, acc] = vars.map(fragment);
    k.push(Stmt::Mma { atom, d: acc.clone(), a, b, c: acc });
    for r in 0..atom.registers(Operand::Accumulator) {
        k.push(store(params[3].element(atom, &lane, r), Expr::Element(vars[2], Box::new(int(r as i32)))));
    }
    k.kernel
}

/// A small generator of numbers that look random.
fn noise(i: usize) -> u64 {
    let mut z = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ z >> 27
}

/// Numbers of a type: integers of the whole range, floats around 1 or spread over many powers of two.
fn numbers(dtype: DType, count: usize, seed: usize, wide: bool) -> Vec<Literal> {
    let number = |i: usize| {
        let z = noise(i + 1000 * seed);
        let fraction = (z % 4001) as f64 / 2000.0 - 1.0;
        let exponent = if wide { (z >> 20) as i32 % 8 - 4 } else { 0 };
        match dtype {
            DType::I32 | DType::I8 | DType::U8 => Literal::from_i64(dtype, z as i64),
            _ => Literal::from_f64(dtype, fraction * 2f64.powi(exponent)),
        }
    };
    (0..count).map(number).collect()
}

fn bytes(numbers: &[Literal]) -> Vec<u8> {
    numbers.iter().flat_map(|l| l.bits.to_le_bytes()[..l.dtype.size()].to_vec()).collect()
}

fn literals(dtype: DType, bytes: &[u8]) -> Vec<Literal> {
    let literal = |chunk: &[u8]| {
        let mut bits = [0; 8];
        bits[..chunk.len()].copy_from_slice(chunk);
        Literal { dtype, bits: u64::from_le_bytes(bits) }
    };
    bytes.chunks_exact(dtype.size()).map(literal).collect()
}

/// An operand's value, as the kernels here round it.
fn value(number: Number, l: &Literal) -> f64 {
    match number {
        Number::Tf32 => {
            let bits = girih_core::scalar::unary(UnaryOp::RoundTf32, DType::F32, l.bits);
            Literal { bits, ..*l }.to_f64()
        }
        _ => l.to_f64(),
    }
}

/// The exact element (row, column) of `a b + c`, and the sum of all magnitudes.
fn exact(atom: Atom, k: usize, [a, b, c]: [&[Literal]; 3], row: usize, column: usize) -> (f64, f64) {
    let n = atom.n as usize;
    let terms = (0..k).map(|p| value(atom.a, &a[row * k + p]) * value(atom.b, &b[p * n + column]));
    let c = c[row * n + column].to_f64();
    terms.fold((c, c.abs()), |(sum, magnitude), t| (sum + t, magnitude + t.abs()))
}

fn agrees(atom: Atom, found: &Literal, (wanted, magnitude): (f64, f64), steps: f64) -> bool {
    match atom.accumulator {
        DType::I32 => found.to_i64() == wanted as i64 as i32 as i64,
        _ => (found.to_f64() - wanted).abs() <= steps * atom.error_bound() * magnitude,
    }
}

#[test]
fn every_atom_multiplies_on_every_device() {
    for atom in ATOMS {
        let kernel = product(atom);
        let (m, n, k) = (atom.m as usize, atom.n as usize, atom.k as usize);
        for wide in [false, true] {
            let [a, b, c] = [(atom.a.dtype(), m * k, 1), (atom.b.dtype(), k * n, 2), (atom.accumulator, m * n, 3)]
                .map(|(dtype, count, seed)| numbers(dtype, count, seed, wide));
            let contents = [bytes(&a), bytes(&b), bytes(&c), vec![0; m * n * atom.accumulator.size()]];
            for device in devices() {
                let found = literals(atom.accumulator, &run(&device, &kernel, &contents)[3]);
                for (i, f) in found.iter().enumerate() {
                    let wanted = exact(atom, k, [&a, &b, &c], i / n, i % n);
                    assert!(agrees(atom, f, wanted, 1.0), "{atom} on {}: element {i} is {f}, not {wanted:?}", device.name());
                }
            }
        }
    }
}

#[test]
fn infinities_and_nan_go_through_every_float_atom() {
    // f8e4m3 has no infinities.
    let infinite = |a: &Atom| a.accumulator != DType::I32 && a.a != Number::F8E4M3;
    for atom in ATOMS.into_iter().filter(infinite) {
        let (m, n, k) = (atom.m as usize, atom.n as usize, atom.k as usize);
        let mut a = vec![Literal::from_f64(atom.a.dtype(), 1.0); m * k];
        let mut b = vec![Literal::from_f64(atom.b.dtype(), 2.0); k * n];
        let c = vec![Literal::from_f64(atom.accumulator, 0.5); m * n];
        a[0] = Literal::extreme(atom.a.dtype(), true);
        b[1] = Literal::from_f64(atom.b.dtype(), 0.0);
        b[2] = Literal::from_f64(atom.b.dtype(), -1.0);
        b[3] = Literal::from_f64(atom.b.dtype(), f64::NAN);
        let contents = [bytes(&a), bytes(&b), bytes(&c), vec![0; m * n * atom.accumulator.size()]];
        for device in devices() {
            let found = literals(atom.accumulator, &run(&device, &product(atom), &contents)[3]);
            let row: Vec<f64> = found[..4].iter().map(|l| l.to_f64()).collect();
            assert!(row[0] == f64::INFINITY && row[1].is_nan() && row[2] == f64::NEG_INFINITY && row[3].is_nan(), "{atom}: {row:?}");
            assert!(found[n..n + 3].iter().all(|l| l.to_f64().is_finite()) && found[n + 3].to_f64().is_nan(), "{atom}");
        }
    }
}

/// Loads matrices whose rows follow each other, and stores what each lane received. Parameters: the rows, the registers.
fn received(dtype: DType, what: LoadMatrix) -> Kernel {
    let mut k = Build::new(&format!("received_{dtype}_{what}"));
    k.kernel.launch.block = 32;
    let (x, y) = (k.pointer("x", dtype), k.pointer("y", dtype));
    let per_row = 16 / dtype.size() as i64;
    let len = what.count as i64 * 8 * per_row;
    let tile = k.shared("tile", dtype, len as u32);
    let lane = k.let_("lane", Expr::Special(Special::Lane));
    let i = k.var("i", DType::I32, None);
    let at = add(times(Expr::Var(i), 32), lane.clone());
    let fill = store(smem(tile, dtype, at.clone()), load(global(x, dtype, at)));
    k.push(Stmt::For { var: i, start: int(0), end: int(len as i32 / 32), step: int(1), unroll: false, body: vec![fill] });
    k.push(Stmt::Barrier(Barrier::Block));
    let count = what.registers(dtype);
    let part = k.var("part", dtype, Some(count));
    k.push(Stmt::Declare { var: part, init: None });
    let row = op(BinaryOp::Rem, lane.clone(), int(what.count as i32 * 8));
    k.push(Stmt::LoadMatrix { load: what, var: part, at: int(0), place: smem(tile, dtype, times(row, per_row)) });
    for r in 0..count as i32 {
        let to = add(times(lane.clone(), i64::from(count)), int(r));
        k.push(store(global(y, dtype, to), Expr::Element(part, Box::new(int(r)))));
    }
    k.kernel
}

#[test]
fn every_lane_receives_its_part_of_matrices() {
    for count in [1, 2, 4] {
        for (dtype, transposed) in
            [(DType::F16, false), (DType::F16, true), (DType::BF16, true), (DType::U8, false), (DType::F8E4M3, false), (DType::F32, false)]
        {
            let kernel = received(dtype, LoadMatrix { count, transposed });
            let size = dtype.size();
            let input: Vec<u8> = (0..count as usize * 128).map(|i| noise(i / size * size + i % size) as u8).collect();
            for device in devices() {
                let contents = [input.clone(), vec![0; 32 * count as usize * 4]];
                let found = &run(&device, &kernel, &contents)[1];
                for (i, byte) in found.iter().enumerate() {
                    // Word `w` of a lane is its part of matrix `w`: bytes 4 (lane % 4).. of row lane / 4; transposed, elements lane / 4
                    // of rows 2 (lane % 4) and the next.
                    let (lane, matrix, within) = (i / 4 / count as usize, i / 4 % count as usize, i % 4);
                    let (row, at) = match transposed {
                        false => (lane / 4, lane % 4 * 4 + within),
                        true => (lane % 4 * 2 + within / 2, lane / 4 * 2 + within % 2),
                    };
                    let wanted = input[matrix * 128 + row * 16 + at];
                    assert_eq!(*byte, wanted, "{} on {}: lane {lane}, matrix {matrix}, byte {within}", kernel.name, device.name());
                }
            }
        }
    }
}

/// How an operand lies in shared memory.
struct Stored {
    array: SharedId,
    layout: SharedLayout,
    /// The operand's axis that is contiguous.
    contiguous: usize,
}

/// Elements along k of the operands in [`through_shared`].
fn depth(atom: Atom) -> i64 {
    128 / atom.a.dtype().size() as i64
}

/// `d = a b + c`, 128 bytes deep, with operands that are loaded by `ldmatrix` from swizzled shared tiles. A is row-major, B is row-major
/// (`transposed`, by matrices that are transposed) or column-major. Parameters: a, b, c, d; B as it is stored.
fn through_shared(atom: Atom, transposed: bool) -> Kernel {
    let mut k = Build::new(&format!("through_shared_{atom}{}", if transposed { "_transposed" } else { "" }));
    k.kernel.launch.block = 32;
    let (m, n, deep) = (i64::from(atom.m), i64::from(atom.n), depth(atom));
    let [pa, pb] = [("a", atom.a), ("b", atom.b)].map(|(name, number)| k.pointer(name, number.dtype()));
    let [pc, pd] = ["c", "d"].map(|name| Matrix { param: k.pointer(name, atom.accumulator), operand: Operand::Accumulator });
    let lane = k.let_("lane", Expr::Special(Special::Lane));
    let chunk = (16 / atom.a.dtype().size() as i64).ilog2();
    let deep_rows = SharedLayout { pitch: deep, chunk, shift: 0, mask: 7 };
    let a = tile(&mut k, &lane, (pa, "a_tile", atom.a.dtype()), (m, deep_rows), 1);
    // Rows of 8 elements fill one chunk: nothing to swizzle.
    let (b_rows, b_layout, contiguous) = if transposed { (deep, SharedLayout::plain(n), 1) } else { (n, deep_rows, 0) };
    let b = tile(&mut k, &lane, (pb, "b_tile", atom.b.dtype()), (b_rows, b_layout), contiguous);
    k.push(Stmt::Barrier(Barrier::Block));
    let acc = k.var("acc", atom.accumulator, Some(atom.registers(Operand::Accumulator)));
    k.push(Stmt::Declare { var: acc, init: None });
    for r in 0..atom.registers(Operand::Accumulator) {
        k.push(Stmt::Assign { var: acc, index: Some(int(r as i32)), value: load(pc.element(atom, &lane, r)) });
    }
    let turn = k.var("k", DType::I32, None);
    let mut body = Vec::new();
    let [a_part, b_part] = [(&a, Operand::A, "a_part"), (&b, Operand::B, "b_part")].map(|(stored, operand, name)| {
        let part = k.var(name, atom.dtype(operand), Some(atom.registers(operand)));
        body.push(Stmt::Declare { var: part, init: None });
        body.push(matrices(atom, operand, stored, &lane, turn, part));
        if atom.a == Number::Tf32 {
            for r in 0..atom.registers(operand) as i32 {
                let value = rounds(atom, Expr::Element(part, Box::new(int(r))), operand);
                body.push(Stmt::Assign { var: part, index: Some(int(r)), value });
            }
        }
        fragment(part)
    });
    body.push(Stmt::Mma { atom, d: fragment(acc), a: a_part, b: b_part, c: fragment(acc) });
    k.push(Stmt::For { var: turn, start: int(0), end: int(deep as i32), step: int(atom.k as i32), unroll: true, body });
    for r in 0..atom.registers(Operand::Accumulator) {
        k.push(store(pd.element(atom, &lane, r), Expr::Element(acc, Box::new(int(r as i32)))));
    }
    k.kernel
}

/// A shared tile, filled from a row-major parameter.
fn tile(k: &mut Build, lane: &Expr, of: (usize, &str, DType), (rows, layout): (i64, SharedLayout), contiguous: usize) -> Stored {
    let (param, name, dtype) = of;
    let array = k.shared(name, dtype, layout.len(rows) as u32);
    let i = k.var("i", DType::I32, None);
    let at = add(times(Expr::Var(i), 32), lane.clone());
    let columns = int(layout.pitch as i32);
    let (row, column) = (op(BinaryOp::Div, at.clone(), columns.clone()), op(BinaryOp::Rem, at.clone(), columns));
    let to = smem(array, dtype, address(&layout, row, column));
    let turns = layout.len(rows) / 32;
    let body = vec![store(to, load(global(param, dtype, at)))];
    k.push(Stmt::For { var: i, start: int(0), end: int(turns as i32), step: int(1), unroll: false, body });
    Stored { array, layout, contiguous }
}

/// [`SharedLayout::address`] as an expression.
fn address(layout: &SharedLayout, row: Expr, column: Expr) -> Expr {
    let swizzle = op(BinaryOp::Rem, row.clone(), int(layout.mask as i32 + 1));
    let column = if layout.mask == 0 { column } else { op(BinaryOp::Xor, column, times(swizzle, 1 << layout.chunk)) };
    add(times(row, layout.pitch), column)
}

/// Loads an operand's fragment for the turn of the loop over k.
fn matrices(atom: Atom, operand: Operand, stored: &Stored, lane: &Expr, turn: VarId, part: VarId) -> Stmt {
    let (transposed, origins) = atom.matrices(operand, stored.contiguous).expect("a way to load the operand");
    let what = LoadMatrix { count: origins.len() as u32, transposed };
    // The origin of this lane's matrix: its bits choose between offsets, which double.
    let along_k = if operand == Operand::A { 1 } else { 0 };
    let mut at = [int(0), int(0)];
    for (bit, index) in [(0, 1), (1, 2)] {
        let Some(step) = origins.get(index) else { continue };
        let digit = op(BinaryOp::Rem, op(BinaryOp::Div, lane.clone(), int(8 << bit)), int(2));
        for axis in [0, 1] {
            at[axis] = add(at[axis].clone(), times(digit.clone(), step[axis]));
        }
    }
    let rows = 1 - stored.contiguous;
    at[rows] = add(at[rows].clone(), op(BinaryOp::Rem, lane.clone(), int(8)));
    at[along_k] = add(at[along_k].clone(), Expr::Var(turn));
    let [row, column] = [at[rows].clone(), at[stored.contiguous].clone()];
    let place = smem(stored.array, atom.dtype(operand), address(&stored.layout, row, column));
    Stmt::LoadMatrix { load: what, var: part, at: int(0), place }
}

/// The kernels of [`through_shared`] that exist.
fn all_through_shared() -> Vec<(Atom, bool)> {
    let ways = ATOMS.into_iter().flat_map(|atom| [(atom, false), (atom, true)]);
    ways.filter(|(atom, transposed)| !transposed || atom.a.dtype().size() == 2).collect()
}

#[test]
fn swizzled_tiles_are_multiplied_on_every_device() {
    for (atom, transposed) in all_through_shared() {
        let kernel = through_shared(atom, transposed);
        let (m, n, deep) = (atom.m as usize, atom.n as usize, depth(atom) as usize);
        let [a, b, c] = [(atom.a.dtype(), m * deep, 4), (atom.b.dtype(), deep * n, 5), (atom.accumulator, m * n, 6)]
            .map(|(dtype, count, seed)| numbers(dtype, count, seed, false));
        let stored: Vec<Literal> = match transposed {
            true => b.clone(),
            false => (0..deep * n).map(|i| b[i % deep * n + i / deep]).collect(),
        };
        let contents = [bytes(&a), bytes(&stored), bytes(&c), vec![0; m * n * atom.accumulator.size()]];
        for device in devices() {
            let found = literals(atom.accumulator, &run(&device, &kernel, &contents)[3]);
            for (i, f) in found.iter().enumerate() {
                let wanted = exact(atom, deep, [&a, &b, &c], i / n, i % n);
                let steps = (deep / atom.k as usize) as f64;
                assert!(agrees(atom, f, wanted, steps), "{} on {}: element {i} is {f}, not {wanted:?}", kernel.name, device.name());
            }
        }
    }
}

#[test]
fn nvrtc_makes_matrix_instructions_without_a_detour_through_memory() {
    provide();
    for (arch, capability) in ARCHS {
        let legal = |atom: &Atom| atom.capability <= capability;
        let mut kernels: Vec<Kernel> = ATOMS.into_iter().filter(legal).map(product).collect();
        kernels.extend(all_through_shared().into_iter().filter(|(atom, _)| legal(atom)).map(|(a, t)| through_shared(a, t)));
        for count in [1, 2, 4] {
            kernels.extend([false, true].map(|transposed| received(DType::F16, LoadMatrix { count, transposed })));
        }
        let cubin = nvrtc::compile(&emit_kernels(&kernels), arch, &[], "matrix units", "tests").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(cubin.resources.len(), kernels.len(), "{}", cubin.log);
        // Fragments stay in registers, although their arrays are read in words.
        assert!(!cubin.log.contains("warning"), "{arch}: {}", cubin.log);
        let stacks: Vec<&str> = cubin.log.lines().filter(|l| l.contains("bytes stack frame")).collect();
        assert!(stacks.iter().all(|l| l.contains(" 0 bytes stack frame, 0 bytes spill stores")), "{arch}: {}", cubin.log);
        assert_eq!(stacks.len(), kernels.len(), "{arch}");
    }
}

#[test]
fn matrix_instructions_read_like_their_names() {
    let atom = Atom::all_of(Number::F16, Number::F16, DType::F32, 80).next().expect("an atom");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("matrix_units", emit(&through_shared(atom, true)));
    });
}
