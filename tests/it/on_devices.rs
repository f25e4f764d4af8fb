//! Kernels on the devices of this machine: memory, and arithmetic on a GPU compared with the simulator. Without a GPU the simulator
//! runs alone, which checks the kernels.

use super::cuda_text::{SLOTS, arithmetic, conversions};
use girih::{Buffer, Compiled, Device};
use girih_core::facts::TensorArg;
use girih_core::simt::{Kernel, ParamKind};
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use girih_core::types::{DType, Literal};

const THREADS: usize = 128;

/// The simulator, and the first GPU where there is one.
pub fn devices() -> Vec<Device> {
    let mut all = vec![Device::sim(Target::h200())];
    match Device::cuda(0) {
        Ok(gpu) => all.push(gpu),
        Err(e) => println!("only the simulator: {e}"),
    }
    all
}

#[test]
fn memory_is_written_filled_copied_and_read() {
    for device in devices() {
        let (a, b) = (device.alloc(1000).unwrap(), device.alloc(1000).unwrap());
        assert_eq!(a.address() % 256, 0);
        let data: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
        device.upload(&a, 0, &data).unwrap();
        device.fill(&a, 8, 3, &[0xaa]).unwrap();
        device.fill(&a, 16, 4, &[1, 2]).unwrap();
        device.fill(&a, 24, 8, &[1, 2, 3, 4]).unwrap();
        device.fill(&a, 40, 24, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        device.copy(&b, 100, &a, 8, 64).unwrap();
        let mut found = vec![0; 64];
        device.download(&b, 100, &mut found).unwrap();
        let mut wanted = data[8..72].to_vec();
        wanted[..3].fill(0xaa);
        wanted[8..12].copy_from_slice(&[1, 2, 1, 2]);
        wanted[16..24].copy_from_slice(&[1, 2, 3, 4, 1, 2, 3, 4]);
        wanted[32..56].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8].repeat(3));
        assert_eq!(found, wanted, "{}", device.name());
        assert_eq!(device.upload(&a, 999, &[1, 2]).unwrap_err().to_string(), "bytes 999..999+2 of a buffer of 1000 bytes");
        assert!(device.fill(&a, 0, 3, &[1, 2]).is_err());
    }
}

/// Numbers where operations change their mind, cycled over the threads: `skip` pairs them differently.
fn inputs(dtype: DType, skip: usize) -> Vec<u8> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        -2.5,
        3.5,
        1e-3,
        40.25,
        300.7,
        -129.5,
        3e9,
        -3e9,
        2e19,
        1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let integers = [
        0,
        1,
        -1,
        2,
        3,
        7,
        31,
        33,
        63,
        100,
        -100,
        127,
        128,
        255,
        256,
        65535,
        i32::MAX as i64,
        i32::MIN as i64,
        u32::MAX as i64,
        i64::MAX,
        i64::MIN,
    ];
    let value = |i: usize| match dtype {
        d if d.is_float() => Literal::from_f64(d, floats[i % floats.len()]),
        d => Literal::from_i64(d, integers[i % integers.len()]),
    };
    (0..THREADS).flat_map(|t| value(t + t / 20 * skip + skip).bits.to_le_bytes()[..dtype.size()].to_vec()).collect()
}

/// Runs a kernel whose parameters are pointers, and gives their contents afterwards.
pub fn run(device: &Device, kernel: &Kernel, contents: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut compiled = Compiled::of(kernel.clone(), device.target());
    if device.needs_cubin() {
        compiled = compiled.with_cubin().unwrap_or_else(|e| panic!("{e}"));
    }
    let loaded = device.load(&compiled).unwrap_or_else(|e| panic!("{e}"));
    let buffers: Vec<Buffer> = contents.iter().map(|c| device.alloc(c.len()).unwrap()).collect();
    for (buffer, content) in buffers.iter().zip(contents) {
        device.upload(buffer, 0, content).unwrap();
    }
    let args: Vec<HostArg> = buffers.iter().map(|b| HostArg::Tensor(TensorArg::packed(b.address(), &[b.bytes() as i64]))).collect();
    device.launch(&loaded, &args).unwrap_or_else(|e| panic!("{e}"));
    device.synchronize().unwrap_or_else(|e| panic!("{e}"));
    let read = |b: &Buffer| {
        let mut content = vec![0; b.bytes()];
        device.download(b, 0, &mut content).unwrap();
        content
    };
    buffers.iter().map(read).collect()
}

/// Results of all devices agree: bit for bit, floats within the error of approximate functions.
fn agree(kernel: &Kernel, contents: &[Vec<u8>]) {
    let devices = devices();
    let wanted = run(&devices[0], kernel, contents);
    for device in &devices[1..] {
        let found = run(device, kernel, contents);
        for ((param, wanted), found) in kernel.params.iter().zip(&wanted).zip(&found) {
            let ParamKind::Pointer { dtype, .. } = param.kind else { continue };
            let size = dtype.size();
            for (i, (w, f)) in wanted.chunks(size).zip(found.chunks(size)).enumerate() {
                let number = |bytes: &[u8]| {
                    let mut bits = [0; 8];
                    bits[..size].copy_from_slice(bytes);
                    Literal { dtype, bits: u64::from_le_bytes(bits) }
                };
                let (w, f) = (number(w), number(f));
                let (thread, slot) = (i / SLOTS as usize, i % SLOTS as usize);
                let text =
                    || format!("{}: {} of thread {thread}, slot {slot}: {f} on {}, {w} simulated", kernel.name, param.name, device.name());
                assert!(close(w, f), "{}", text());
            }
        }
    }
}

fn close(wanted: Literal, found: Literal) -> bool {
    let (w, f) = (wanted.to_f64(), found.to_f64());
    match wanted.dtype {
        d if !d.is_float() => wanted.bits == found.bits,
        _ if w.is_nan() || f.is_nan() => w.is_nan() && f.is_nan(),
        _ if w.is_infinite() || f.is_infinite() => w == f,
        // The fast tanh is off by 2^-11; fast division flushes to 0 beyond 2^126; results near 0 of sine and the like cancel.
        DType::F32 => (w - f).abs() <= 1e-3 * w.abs().max(1e-6) || (w.abs() < 2e-38 && f.abs() < 2e-38) || (w - f).abs() < 1e-6,
        _ => wanted.bits == found.bits,
    }
}

#[test]
fn arithmetic_is_the_same_on_every_device() {
    for dtype in DType::ALL.into_iter().filter(|d| d.compute() == *d) {
        let out = vec![0; THREADS * SLOTS as usize * dtype.size()];
        agree(&arithmetic(dtype), &[inputs(dtype, 0), inputs(dtype, 3), out]);
    }
}

#[test]
fn conversions_are_the_same_on_every_device() {
    let given = DType::ALL.iter().map(|d| inputs(*d, 0));
    let results = DType::ALL.iter().map(|d| vec![0; THREADS * SLOTS as usize * d.size()]);
    agree(&conversions(), &given.chain(results).collect::<Vec<_>>());
}
