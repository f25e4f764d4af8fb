//! The floors of gallery challenges: what the fastest unit for their precision takes.

use girih::challenge::{Sizes, challenges};
use girih::measure::floor::{Bound, Floor, floor};
use girih::subject::Subject;
use girih::subject::compulsory::Compulsory;
use girih_core::fragments::Number;
use girih_core::target::Target;
use girih_examples as _;

fn at(slug: &str, target: &str) -> Floor {
    let challenge = challenges().into_iter().find(|c| c.slug == slug).unwrap_or_else(|| panic!("no challenge {slug}"));
    let subject = Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"));
    let sizes = subject.perf_sizes(&Sizes::default()).unwrap_or_else(|e| panic!("{e}"));
    floor(&subject, &sizes, Compulsory::of_copy(1.0), Target::find(target).expect("a target"))
}

#[test]
fn products_have_the_floor_of_their_unit() {
    assert_eq!(at("gemm", "h200").bound, Bound::Matrix(Number::F16));
    assert_eq!(at("int8_quantized_matmul", "h200").bound, Bound::Matrix(Number::I8));
    assert_eq!(at("1d_convolution", "h200").bound, Bound::MultiplyAdds);
    assert_eq!(at("count_array_element", "h200").bound, Bound::Integers);
    // An H200 does sixteen times as many multiply-adds in f16 as in f32.
    let (half, single) = (at("gemm", "h200"), at("matrix_power", "t4"));
    assert!(half.seconds > 0.0 && single.bound == Bound::MultiplyAdds, "{single:?}");
    // It may split its operands into two of f16, which a T4 multiplies, too.
    assert_eq!(at("matrix_multiplication", "t4").bound, Bound::Matrix(Number::F16));
}

/// Whatever a challenge calls its operations.
#[test]
fn products_of_every_precision_have_the_floor_of_their_format() {
    let formats = [("f16", Number::F16), ("bf16", Number::BF16), ("tf32", Number::Tf32), ("int8", Number::I8)];
    for (name, number) in formats {
        for layout in ["nn", "nt", "tn"] {
            assert_eq!(at(&format!("gemm_{name}_{layout}"), "h200").bound, Bound::Matrix(number), "{name} {layout}");
        }
    }
}
