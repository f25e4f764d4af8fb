//! The layouts of fragments, against the PTX ISA and against each other.

use super::*;
use std::collections::HashSet;

const OPERANDS: [Operand; 3] = [Operand::A, Operand::B, Operand::Accumulator];

fn find(name: &str) -> Atom {
    ATOMS.into_iter().find(|a| a.to_string() == name).unwrap_or_else(|| panic!("no atom {name}"))
}

/// Coordinates of all registers of a lane.
fn held(atom: &str, operand: Operand, lane: i64) -> Vec<[i64; 2]> {
    let layout = find(atom).layout(operand);
    (0..layout.registers).map(|r| layout.coordinates(lane, r)).map(|c| [c[0], c[1]]).collect()
}

fn covers(layout: &Layout, shape: &[i64]) {
    assert_eq!((layout.shape(), layout.threads), (shape.to_vec(), 32));
    let mut seen = HashSet::new();
    for lane in 0..32 {
        for register in 0..layout.registers {
            assert!(seen.insert(layout.coordinates(lane, register)), "lane {lane}, register {register} of {shape:?}");
        }
    }
    assert_eq!(seen.len() as i64, shape.iter().product::<i64>());
}

#[test]
fn fragments_hold_every_element_once() {
    for atom in ATOMS {
        for operand in OPERANDS {
            let shape = atom.shape(operand).map(i64::from);
            covers(&atom.layout(operand), &shape);
            assert_eq!(atom.layout(operand).registers, i64::from(atom.registers(operand)), "{atom} {operand:?}");
        }
    }
}

#[test]
fn matrices_hold_every_element_once() {
    for count in [1, 2, 4] {
        for (dtype, columns) in [(DType::F16, 8), (DType::I8, 16), (DType::F32, 4)] {
            for transposed in [false, true] {
                if dtype == DType::F16 || !transposed {
                    let load = LoadMatrix { count, transposed };
                    covers(&load.received(dtype), &[i64::from(count), 8, columns]);
                    assert_eq!(load.received(dtype).registers, i64::from(load.registers(dtype)));
                }
            }
        }
    }
}

#[test]
fn atoms_have_names_of_their_own() {
    let names: HashSet<String> = ATOMS.iter().map(Atom::to_string).collect();
    assert_eq!(names.len(), ATOMS.len());
    assert!(names.contains("m16n8k16_f16") && names.contains("m16n8k8_f16_into_f16") && names.contains("m16n8k32_i8_u8"), "{names:?}");
}

#[test]
fn lanes_hold_what_the_ptx_isa_says() {
    // Lane 5 is group 1, thread 1 of the group; lane 30 is group 7, thread 2.
    use Operand::{A, Accumulator, B};
    let k16 = "m16n8k16_f16";
    assert_eq!(held(k16, A, 5), [[1, 2], [1, 3], [9, 2], [9, 3], [1, 10], [1, 11], [9, 10], [9, 11]]);
    assert_eq!(held(k16, B, 5), [[2, 1], [3, 1], [10, 1], [11, 1]]);
    assert_eq!(held(k16, Accumulator, 5), [[1, 2], [1, 3], [9, 2], [9, 3]]);
    assert_eq!(held("m16n8k16_bf16", A, 30)[6], [15, 12]);
    assert_eq!(held("m16n8k16_f16_into_f16", Accumulator, 30), [[7, 4], [7, 5], [15, 4], [15, 5]]);
    assert_eq!(held("m16n8k8_f16", A, 30), [[7, 4], [7, 5], [15, 4], [15, 5]]);
    assert_eq!(held("m16n8k8_f16", B, 30), [[4, 7], [5, 7]]);
    assert_eq!(held("m16n8k8_tf32", A, 5), [[1, 1], [9, 1], [1, 5], [9, 5]]);
    assert_eq!(held("m16n8k8_tf32", B, 5), [[1, 1], [5, 1]]);
    assert_eq!(held("m16n8k4_tf32", A, 30), [[7, 2], [15, 2]]);
    assert_eq!(held("m16n8k4_tf32", B, 30), [[2, 7]]);
    let a = held("m16n8k32_i8", A, 5);
    assert_eq!((a[0], a[3], a[4], a[7]), ([1, 4], [1, 7], [9, 4], [9, 7]));
    assert_eq!((a[8], a[12], a[15]), ([1, 20], [9, 20], [9, 23]));
    assert_eq!(held("m16n8k32_u8", B, 5), [[4, 1], [5, 1], [6, 1], [7, 1], [20, 1], [21, 1], [22, 1], [23, 1]]);
    assert_eq!(held("m16n8k32_i8", Accumulator, 30), [[7, 4], [7, 5], [15, 4], [15, 5]]);
    assert_eq!(held("m8n8k16_i8", A, 30), [[7, 8], [7, 9], [7, 10], [7, 11]]);
    assert_eq!(held("m8n8k16_i8", B, 30), [[8, 7], [9, 7], [10, 7], [11, 7]]);
    assert_eq!(held("m8n8k16_i8", Accumulator, 30), [[7, 4], [7, 5]]);
}

#[test]
fn swapped_operands_meet_as_the_instructions_do() {
    let atoms = ATOMS.into_iter().filter(|a| a.a == a.b);
    for form in atoms.flat_map(|atom| [Order::Swapped, Order::Dealt].map(|order| Form { atom, order })) {
        let atom = form.atom;
        let ([rows, columns], k) = (form.tile(), i64::from(atom.k));
        for (operand, shape) in [(Operand::A, [rows, k]), (Operand::B, [k, columns]), (Operand::Accumulator, [rows, columns])] {
            covers(&form.layout(operand), &shape);
            assert_eq!(form.layout(operand).registers, i64::from(form.registers(operand)), "{form} {operand:?}");
        }
        // What the instruction multiplies meets: row i of its A with column j of its B makes element (i, j), here (j, i).
        let [a, b, sums] = [Operand::A, Operand::B, Operand::Accumulator].map(|o| form.layout(o));
        for (lane, group) in (0..32).map(|lane| (lane, lane / 4)) {
            let sum = sums.coordinates(lane, 0);
            assert_eq!(sum[1], b.coordinates(lane, 0)[1], "{form}: a lane's columns are those of its group");
            assert_eq!(a.coordinates(lane, 0)[0], group, "{form}");
        }
    }
    let form = Form { atom: find("m16n8k8_tf32"), order: Order::Dealt };
    let held = |operand| (0..form.registers(operand)).map(|r| form.layout(operand).coordinates(5, i64::from(r))).collect::<Vec<_>>();
    assert_eq!(held(Operand::B), [[1, 2], [1, 3], [5, 2], [5, 3]]);
    assert_eq!(held(Operand::A), [[1, 1], [1, 5]]);
    assert_eq!(held(Operand::Accumulator), [[2, 2], [3, 2], [2, 3], [3, 3]]);
    assert_eq!(form.matrices(Operand::A, 1), Some((false, vec![[0, 0], [0, 4]])));
    assert_eq!(form.matrices(Operand::B, 1), None, "ldmatrix deals no rows");
    let form = Form { atom: find("m16n8k16_f16"), order: Order::Swapped };
    let held = |operand| (0..form.registers(operand)).map(|r| form.layout(operand).coordinates(5, i64::from(r))).collect::<Vec<_>>();
    assert_eq!(held(Operand::A), [[1, 2], [1, 3], [1, 10], [1, 11]]);
    assert_eq!(held(Operand::B), [[2, 1], [3, 1], [2, 9], [3, 9], [10, 1], [11, 1], [10, 9], [11, 9]]);
    assert_eq!(held(Operand::Accumulator), [[2, 1], [3, 1], [2, 9], [3, 9]]);
}

#[test]
fn matrices_reach_the_lanes_that_the_ptx_isa_names() {
    let received = |count, transposed, lane| {
        let layout = LoadMatrix { count, transposed }.received(DType::F16);
        (0..layout.registers).map(|r| layout.coordinates(lane, r)).collect::<Vec<_>>()
    };
    assert_eq!(received(2, false, 5), [[0, 1, 2], [0, 1, 3], [1, 1, 2], [1, 1, 3]]);
    assert_eq!(received(2, true, 5), [[0, 2, 1], [0, 3, 1], [1, 2, 1], [1, 3, 1]]);
    // Lane 19 gives row 3 of matrix 2; with two matrices it is a replica of lane 3.
    let address = |count, lane| LoadMatrix { count, transposed: false }.addresses().coordinates(lane, 0);
    assert_eq!((address(4, 19), address(2, 19), address(1, 19)), (vec![2, 3], vec![0, 3], vec![0, 3]));
}

#[test]
fn fragments_are_loaded_by_matrices() {
    let mut ways = 0;
    for form in ATOMS.into_iter().flat_map(|atom| [Order::Plain, Order::Swapped].map(|order| Form { atom, order })) {
        for operand in [Operand::A, Operand::B] {
            for contiguous in [0, 1] {
                let Some((transposed, origins)) = form.matrices(operand, contiguous) else { continue };
                ways += 1;
                let load = LoadMatrix { count: origins.len() as u32, transposed };
                assert!(matches!(load.count, 1 | 2 | 4), "{form}");
                let (received, fragment) = (load.received(form.dtype(operand)), form.layout(operand));
                for lane in 0..32 {
                    for register in 0..fragment.registers {
                        let at = received.coordinates(lane, register);
                        let mut found = origins[at[0] as usize];
                        found[1 - contiguous] += at[1];
                        found[contiguous] += at[2];
                        assert_eq!(found.to_vec(), fragment.coordinates(lane, register), "{form} {operand:?} lane {lane}");
                    }
                }
            }
        }
    }
    // Both operands along k, and the 16-bit ones across it; each in both forms.
    assert_eq!(ways, 2 * (2 * ATOMS.len() + 2 * 5));
}

#[test]
fn targets_have_the_atoms_of_their_time() {
    let names = |a, b, accumulator, capability| Atom::all_of(a, b, accumulator, capability).map(|a| a.to_string()).collect::<Vec<_>>();
    let half = |capability| names(Number::F16, Number::F16, DType::F32, capability);
    assert_eq!(half(75), ["m16n8k8_f16"]);
    assert_eq!(half(90), ["m16n8k16_f16", "m16n8k8_f16"]);
    assert_eq!(names(Number::I8, Number::I8, DType::I32, 75), ["m8n8k16_i8"]);
    assert!(names(Number::Tf32, Number::Tf32, DType::F32, 75).is_empty());
}
