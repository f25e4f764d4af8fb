//! Combinations inside of a block and over the grid: sums, rows, operators that keep order.

pub mod kernels;

use super::snapshots::page;
use girih_core::schedule::parse::parse_schedule;

/// Source, schedule and CUDA C of one of these kernels.
fn shown(name: &str, schedule: &str) -> String {
    let def = girih_core::registry::kernels().into_iter().find(|d| d.module.ends_with("cooperating::kernels") && d.name == name);
    let kernel = (def.unwrap_or_else(|| panic!("no kernel {name}")).build)().unwrap_or_else(|e| panic!("{name}: {e}"));
    page(&kernel, &parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[test]
fn registers_lanes_and_warps_are_combined() {
    for (name, schedule) in [("mean", "T=1024,C=4,V=4,G=2"), ("softmax_rows", "R=1,C=512,CC=4,V=4"), ("last_odd", "R=2,C=64,CR=1,CC=4,V=2")]
    {
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("cooperating.{name}"), shown(name, schedule));
        });
    }
}
