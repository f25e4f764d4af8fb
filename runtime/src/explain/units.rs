//! Numbers with their units, as a page prints them.

use girih_core::sim::Class;

/// A number with as many digits as say something: `0.25`, `3.5`, `24.4`, `132`.
pub fn plain(x: f64) -> String {
    let text = match x.abs() {
        a if a >= 99.95 => return format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A number in steps of a thousand.
fn scaled(x: f64, units: [&str; 5]) -> String {
    let at = (0..4).find(|i| x.abs() < 999.5 * 1000f64.powi(*i)).unwrap_or(4);
    let number = plain(x / 1000f64.powi(at));
    let unit = units[at as usize];
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// How many: `24415`, `1.56 M`.
pub fn amount(x: f64) -> String {
    if x.abs() < 99_999.5 && x.fract().abs() < 1e-9 { format!("{x:.0}") } else { scaled(x, ["", "k", "M", "G", "T"]) }
}

/// So many of something: `1 block`, `132 blocks`, `0.5 sectors`.
pub fn counted(x: f64, noun: &str) -> String {
    let number = if x.fract() == 0.0 { format!("{x:.0}") } else { plain(x) };
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// So many of something that may be very many: `1 request`, `1.56 M requests`.
pub fn many(x: f64, noun: &str) -> String {
    let number = amount(x);
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Microseconds: `0.47 us`, and `< 0.01 us` where that would be nothing.
pub fn us(x: f64) -> String {
    if x > 0.0 && x < 0.005 { "< 0.01 us".to_string() } else { format!("{x:.2} us") }
}

/// Bytes that move: `300 MB`.
pub fn bytes(x: f64) -> String {
    scaled(x, ["bytes", "kB", "MB", "GB", "TB"])
}

/// Bytes of memory that a multiprocessor has: `48 KiB`.
pub fn kib(x: f64) -> String {
    if x < 1024.0 { format!("{} bytes", plain(x)) } else { format!("{} KiB", plain(x / 1024.0)) }
}

/// Floating-point operations: `25 MFLOP`.
pub fn flop(x: f64) -> String {
    scaled(x, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"])
}

/// A share: `99 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p >= 0.95 => format!("{p:.0} %"),
        p if p >= 0.05 || p == 0.0 => format!("{p:.1} %"),
        _ => "< 0.1 %".to_string(),
    }
}

/// A class of instructions, in words.
pub fn class(class: Class) -> &'static str {
    match class {
        Class::Fma => "multiply-adds",
        Class::FloatAdd => "float additions and comparisons",
        Class::FloatMul => "float multiplications",
        Class::SpecialFunction => "special functions",
        Class::Integer => "integers",
        Class::Convert => "conversions",
        Class::Memory => "memory",
        Class::Atomic => "atomics",
        Class::Control => "control",
        Class::Barrier => "barriers",
        Class::Shuffle => "shuffles",
        Class::Matrix => "matrix instructions",
        Class::Move => "moves",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_say_something() {
        assert_eq!([0.251, 3.5, 4.0, 24.415, 99.97, 131.6].map(plain), ["0.25", "3.5", "4", "24.4", "100", "132"]);
        assert_eq!([24415.0, 1.5625e6, 1e12, 0.5, 999_600.0].map(amount), ["24415", "1.56 M", "1 T", "0.5", "1 M"]);
        assert_eq!(
            (bytes(300e6), bytes(16.0), kib(49152.0), kib(512.0)),
            ("300 MB".into(), "16 bytes".into(), "48 KiB".into(), "512 bytes".into())
        );
        assert_eq!((flop(66.9e12), flop(1e15)), ("66.9 TFLOP".into(), "1000 TFLOP".into()));
        let of = |x: f64| counted(x, "block");
        assert_eq!([1.0, 0.999, 132.0, 0.5, 250_000.0].map(of), ["1 block", "1 block", "132 blocks", "0.5 blocks", "250000 blocks"]);
        let of = |x: f64| many(x, "request");
        assert_eq!([1.0, 2.0, 1.5625e6].map(of), ["1 request", "2 requests", "1.56 M requests"]);
        assert_eq!([0.0, 0.000003, 0.005, 3.914].map(us), ["0.00 us", "< 0.01 us", "0.01 us", "3.91 us"]);
        assert_eq!([1.0, 0.054, 0.004, 0.0001].map(percent), ["100 %", "5 %", "0.4 %", "< 0.1 %"]);
    }
}
