//! 8-bit floats in kernels: sixteen of them in an access, reductions of them, products on every unit, and what each architecture has.
//! `differential` launches these kernels, too; conversions are told of in `casts`, matrix instructions in `matrix_units`.

use super::cuda_text::ARCHS;
use super::launches::{Launch, Placement, Shape, best_facts};
use super::nvrtc::provide;
use girih::compile::nvrtc;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::types::Literal;
use girih_examples::float8_gemm::{float8_product, float8_product_of_blocks, float8_product_of_rows};
use kernels::{ranges_of_float8, scaled_float8};

pub mod kernels;

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn text(kernel: &Kernel, knobs: &str, arch: &str) -> Result<String, String> {
    let schedule = parse_schedule(kernel, knobs).unwrap_or_else(|e| panic!("{e}"));
    let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
    lower(kernel, &best_facts(kernel), &schedule, target).map(|simt| emit(&simt)).map_err(|e| e.to_string())
}

#[test]
fn sixteen_of_them_are_one_access() {
    let found = text(&built(scaled_float8::Kernel::def()), "T=256,C=16,V=16", "h200").expect("legal");
    assert!(found.contains("const uint4*>(x + ") && found.contains("<uint4*>(y + "), "{found}");
}

#[test]
fn casts_saturate_and_keep_nan() {
    let kernel = built(scaled_float8::Kernel::def());
    let shape = Shape { lens: vec![vec![4], vec![4], vec![]], scalars: vec![None, None, Some(Literal::f32(1000.0))] };
    let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 1);
    // 3, infinity, minus infinity, NaN.
    let (x, results) = ([0x42, 0x7c, 0xfc, 0x7f], [0x7e, 0x7e, 0xfe, 0x7f]);
    launch.set(&kernel, "x", &|i| x[i]);
    let buffers = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(launch.elements_in(&buffers, 1), results);
}

/// Instructions for 8-bit floats are there from sm_89 on, those of warp groups on sm_90a alone; multiply-adds are everywhere.
#[test]
fn products_are_those_of_the_architecture() {
    let kernel = built(float8_product::Kernel::<f8e5m2, bf16>::def());
    let instruction = |arch: &str, unit: &str| text(&kernel, &format!("U={unit},BM=64,BN=64,BK=64,W=4,V=8,S=1,P=Registers"), arch);
    for (arch, capability) in ARCHS {
        assert!(instruction(arch, "Ffma").is_ok_and(|t| t.contains("e5m2_to_float(") && t.contains("fmaf(")), "{arch}");
        let matrix = instruction(arch, "Mma");
        match capability >= 89 {
            true => assert!(matrix.is_ok_and(|t| t.contains("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 ")), "{arch}"),
            false => assert!(matrix.is_err_and(|e| e.contains("U = Mma")), "{arch}"),
        }
        let groups = instruction(arch, "Wgmma");
        match capability == 90 {
            true => assert!(groups.is_ok_and(|t| t.contains("wgmma.mma_async.sync.aligned.m64n64k32.f32.e5m2.e4m3 ")), "{arch}"),
            false => assert!(groups.is_err_and(|e| e.contains("U = Wgmma")), "{arch}"),
        }
    }
}

#[test]
fn the_fastest_structure_is_legal() {
    let kernel = built(float8_product::Kernel::<f8e4m3, bf16>::def());
    let found = text(&kernel, "U=Wgmma,W=8,BM=128,BN=256,BK=128,S=4,P=Tensor,G=1,Q=1,V=8", "h200").expect("legal");
    for part in ["m64n256k32.f32.e4m3.e4m3", "copy_box(&a_smem", "// the producer", "shared_matrix<128>(b_smem"] {
        assert!(found.contains(part), "{part} is not in\n{found}");
    }
    let blocks = built(float8_product_of_blocks::Kernel::def());
    let found = text(&blocks, "U=Wgmma,W=8,BM=128,BN=128,S=4,P=Tensor,G=1,Q=1,V=8", "h200").expect("legal");
    assert!(found.contains("kk > 0)") && found.contains("acc[u * 4 + r * 2 + v] += part["), "{found}");
}

/// Of each unit that an architecture has, with sixteen bytes in an access; conversions among them.
#[test]
fn nvrtc_accepts_them_everywhere() {
    provide();
    let products = [
        built(float8_product::Kernel::<f8e4m3, bf16>::def()),
        built(float8_product::Kernel::<f8e5m2, f16>::def()),
        built(float8_product_of_rows::Kernel::def()),
        built(float8_product_of_blocks::Kernel::def()),
    ];
    let others = [
        (built(scaled_float8::Kernel::def()), "C=16,V=16"),
        (built(ranges_of_float8::Kernel::<f8e4m3>::def()), "CC=16,V=16"),
        (built(ranges_of_float8::Kernel::<f8e5m2>::def()), "CC=16,V=16"),
    ];
    for (arch, capability) in ARCHS {
        let ahead = if capability >= 80 { "S=2,P=Async" } else { "S=1,P=Registers" };
        let units = ["Ffma", "Mma", "Wgmma"].map(|unit| format!("U={unit},BM=64,BN=64,BK=128,W=4,V=8,{ahead}"));
        let products = products.iter().flat_map(|k| units.iter().map(move |knobs| (k, knobs.as_str())));
        let legal = products.filter_map(|(k, knobs)| Some((format!("{} {knobs}", k.full_name()), text(k, knobs, arch).ok()?)));
        let mut texts: Vec<(String, String)> = legal.collect();
        let found = texts.len() / 4;
        assert_eq!(found, 1 + usize::from(capability >= 89) + usize::from(capability == 90), "{arch}");
        texts.extend(others.iter().map(|(k, knobs)| (k.full_name(), text(k, knobs, arch).unwrap_or_else(|e| panic!("{e}")))));
        for (name, text) in texts {
            let cubin = nvrtc::compile(&text, arch, &[], &name, "tests").unwrap_or_else(|e| panic!("{name} on {arch}: {e}"));
            assert!(!cubin.log.contains("warning"), "{name} on {arch}: {}", cubin.log);
        }
    }
}
