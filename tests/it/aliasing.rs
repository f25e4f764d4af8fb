//! Launches whose arguments are views of one tensor: what shares no element runs, what does is refused, by the runtime and by exports.

use super::host_code::HostProgram;
use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::facts::Facts;
use girih_core::program::ProgramDef;
use girih_core::program::export::export_program;
use girih_core::program::signature::Signature;
use girih_core::schedule::space::Space;
use girih_core::target::Target;

#[kernel(tile(R = [4, 8], C = [16, 32]), coarsen(CC of C = [1, 4]), vector(V = [1, 4]))]
pub fn two_more(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        y.store((r, c), x.load((r, c)) + 2.0);
    }
}

/// A part of each row is read, a part of each row written: every `step`th of `len` columns from the first on.
#[program]
fn parts(m: &mut Tensor<f32, 2>, first: Scalar<i64>, second: Scalar<i64>, len: Scalar<i64>, below: Scalar<i64>, step: Scalar<i64>) {
    let rows = m.len(0) - below;
    let from = m.slice(1, first, len).slice(0, 0, rows).strided(1, step);
    let mut to = m.slice(1, second, len).slice(0, below, rows).strided(1, step);
    two_more(&from, &mut to);
}

/// Two halves, told apart by the text.
#[program]
fn told_apart(m: &mut Tensor<f32, 2>) {
    let half = m.len(0) / 2;
    let from = m.slice(0, 0, half);
    let mut to = m.slice(0, half, half);
    two_more(&from, &mut to);
}

/// Constants say it.
#[program]
fn told_apart_by_numbers(m: &mut Tensor<f32, 2>) {
    let from = m.slice(0, 0, 2);
    let mut to = m.slice(0, 2, 2);
    two_more(&from, &mut to);
}

fn simulator() -> Stream {
    Stream::on(&Device::sim(Target::h200()))
}

fn exported(def: ProgramDef, signature: &str) -> String {
    let program = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let signature = Signature::parse(signature).expect("a signature");
    let mut naive =
        |_: usize, kernel: &girih_core::tile::Kernel| Space::new(kernel, &Facts::best(kernel), Target::h200()).naive().expect("legal");
    export_program(&program, &signature, Target::h200(), &mut naive).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn halves_of_rows_share_nothing() {
    let stream = simulator();
    let numbers: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let mut m = stream.tensor(&numbers, [3, 8]).unwrap();
    parts(&stream, &mut m, 0, 4, 4, 0, 1).unwrap_or_else(|e| panic!("{e}"));
    let expected: Vec<f32> = (0..24).map(|i| if i % 8 < 4 { i as f32 } else { (i - 4) as f32 + 2.0 }).collect();
    assert_eq!(stream.read(&m).unwrap(), expected);
    let shared = parts(&stream, &mut m, 0, 3, 4, 0, 1).unwrap_err().to_string();
    assert!(shared.contains("`y`, which is stored to, and `x` share elements;"), "{shared}");
    let mut row = stream.tensor(&numbers, [1, 24]).unwrap();
    let shared = parts(&stream, &mut row, 0, 6, 12, 0, 1).unwrap_err().to_string();
    assert!(shared.contains("`y`, which is stored to, and `x` share 24 bytes;"), "{shared}");
}

#[test]
fn exports_refuse_what_launches_refuse() {
    let text = exported(
        parts::Program::def(),
        "void solve(float* m[R, C], int R, int C, long long first, long long second, long long len, long long below, long long step)",
    );
    assert!(text.contains("// y, which is stored to, and x must not share memory    "), "{text}");
    let cases: Vec<[usize; 7]> = (0..400_usize)
        .map(|i| {
            let draw = |salt: usize, below: usize| (i * 7919 + salt * 104_729 + i * i * 31) / 3 % below;
            let (rows, columns) = (1 + draw(1, 4), 6 + draw(2, 9));
            let len = 1 + draw(3, columns);
            let (first, second) = (draw(4, columns - len + 1), draw(5, columns - len + 1));
            [rows, columns, first, second, len, draw(6, 2) * draw(7, rows), 1 + draw(8, 3)]
        })
        .collect();
    let list: Vec<String> = cases.iter().map(|c| format!("{{{}}}", c.map(|n| n.to_string()).join(", "))).collect();
    let main = format!(
        "int main()\n{{\n    static float m[400];\n    const long long cases[][7] = {{{}}};\n    for (auto& c : cases) {{\n        launched = 0;\n        \
         solve(m, (int)c[0], (int)c[1], c[2], c[3], c[4], c[5], c[6]);\n        printf(\"%d\\n\", launched);\n    }}\n}}\n",
        list.join(", ")
    );
    let stand_in = "static int launched;\ntemplate <typename... Args> static void two_more(Args...) { launched = 1; }";
    let Some(host) = HostProgram::build(&text, "two_more", stand_in, &main) else { return };
    let found = host.run(&[]);
    assert_eq!(found.lines().count(), cases.len());
    let stream = simulator();
    let mut counts = [0, 0];
    for (case, line) in cases.iter().zip(found.lines()) {
        let [rows, columns, first, second, len, below, step] = *case;
        let mut m = stream.zeros::<f32, 2>([rows, columns]).unwrap();
        let [first, second, len, below, step] = [first, second, len, below, step].map(|n| n as i64);
        let refused = match parts(&stream, &mut m, first, second, len, below, step) {
            Ok(()) => false,
            Err(e) => {
                assert!(e.to_string().contains("share"), "{case:?}: {e}");
                true
            }
        };
        // The definition: some element is in both parts.
        let at = |from: i64, down: i64| {
            let rows = 0..rows as i64 - below;
            rows.flat_map(move |r| (0..len).step_by(step as usize).map(move |c| (r + down) * columns as i64 + from + c)).collect::<Vec<_>>()
        };
        let shares = at(first, 0).iter().any(|e| at(second, below).contains(e));
        assert_eq!(refused, shares, "{case:?}");
        assert_eq!(line == "0", shares, "{case:?}: the export does otherwise\n{text}");
        counts[usize::from(shares)] += 1;
    }
    assert!(counts.iter().all(|n| *n > 50), "{counts:?}");
}

#[test]
fn what_the_text_tells_apart_is_not_compared() {
    for (def, signature) in [
        (told_apart::Program::def(), "void solve(float* m[R, 8], int R)"),
        (told_apart_by_numbers::Program::def(), "void solve(float* m[4, 8])"),
    ] {
        let text = exported(def, signature);
        assert!(!text.contains("may_share"), "{text}");
    }
}
