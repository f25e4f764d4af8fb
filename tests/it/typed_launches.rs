//! Typed launches and programs on streams: results, the choice of schedules, mistakes, and what a launch costs.

use girih::cuda::cudarc::driver::{CudaContext, CudaSlice};
use girih::device::buffer::Buffer;
use girih::launch::{self, Argument};
use girih::prelude::*;
use girih::{Device, DeviceTensor, Error, Stream};
use girih_core::target::Target;
use girih_core::types::DType;

#[kernel(tile(T = [256, 512]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
fn scaled_sum(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>, k: Scalar<f32>) {
    for t in c.tiles([T]) {
        c.store(t, a.load(t) + b.load(t) * k);
    }
}

#[kernel(tile(T = [256, 512]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
fn double(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t) * 2.0);
    }
}

/// Bytes as 32-bit elements, the view made by the kernel.
#[kernel(tile(T = [256, 512]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn flip(bytes: &mut Tensor<u8, 1>) {
    let mut words = bytes.reinterpret::<u32>();
    for t in words.tiles([T]) {
        words.store(t, !words.load(t));
    }
}

/// The same, the view made by the program.
#[kernel(tile(T = [256, 512]))]
pub fn flip_words(words: &mut Tensor<u32, 1>) {
    for t in words.tiles([T]) {
        words.store(t, !words.load(t));
    }
}

#[program]
pub fn flip_in_program(bytes: &mut Tensor<u8, 1>) {
    flip_words(&mut bytes.reinterpret::<u32>());
}

#[program]
pub fn flip_in_kernel(bytes: &mut Tensor<u8, 1>) {
    flip(bytes);
}

#[program]
fn chain(a: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    let mut half = temp::<f32, 1>([a.len(0)]);
    scaled_sum(a, a, &mut half, scalar(0.0));
    scaled_sum(&half, a, c, scalar(2.0));
}

/// The simulator, and the first GPU where there is one.
fn streams() -> Vec<Stream> {
    let mut all = vec![Stream::on(&Device::sim(Target::h200()))];
    all.extend(Device::cuda(0).ok().map(|gpu| Stream::on(&gpu)));
    all
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.5 - 7.0).collect()
}

#[test]
fn any_size_and_alignment() {
    for stream in streams() {
        for n in [0usize, 1, 255, 256, 1000, 4096] {
            for misalign in [0, 1] {
                let (a, b) = (numbers(n + misalign), numbers(n));
                let buffer = stream.tensor(&a, [n + misalign]).unwrap();
                let a_view = DeviceTensor::<f32, 1>::in_buffer(buffer.buffer().unwrap(), misalign * 4, [n]).unwrap();
                let b_tensor = stream.tensor(&b, [n]).unwrap();
                let mut c = stream.zeros([n]).unwrap();
                scaled_sum(&stream, &a_view, &b_tensor, &mut c, 3.0).unwrap();
                let wanted: Vec<f32> = (0..n).map(|i| a[i + misalign] + b[i] * 3.0).collect();
                assert_eq!(stream.read(&c).unwrap(), wanted, "{n} elements, {misalign} off, {}", stream.device().name());
            }
        }
    }
}

#[test]
fn strided_tensors() {
    for stream in streams() {
        let data = numbers(20);
        let buffer = stream.tensor(&data, [20]).unwrap();
        let odd = DeviceTensor::<f32, 1>::in_buffer_strided(buffer.buffer().unwrap(), 4, [10], Some([2])).unwrap();
        let front = DeviceTensor::<f32, 1>::in_buffer(buffer.buffer().unwrap(), 0, [10]).unwrap();
        let mut c = stream.zeros([10]).unwrap();
        scaled_sum(&stream, &odd, &front, &mut c, 1.0).unwrap();
        let wanted: Vec<f32> = (0..10).map(|i| data[2 * i + 1] + data[i]).collect();
        assert_eq!(stream.read(&c).unwrap(), wanted);
        let backwards = DeviceTensor::<f32, 1>::in_buffer_strided(buffer.buffer().unwrap(), 36, [10], Some([-1])).unwrap();
        assert_eq!(stream.read(&backwards).unwrap(), data[..10].iter().rev().copied().collect::<Vec<_>>());
        let error = scaled_sum(&stream, &odd, &backwards, &mut c, 1.0).unwrap_err().to_string();
        assert!(error.contains("`b` has the stride -1 along axis 0; pass it forwards and say `.reversed(0)`"), "{error}");
    }
}

#[test]
fn in_place_and_under_an_explicit_schedule() {
    for stream in streams() {
        let mut x = stream.tensor(&numbers(3000), [3000]).unwrap();
        for schedule in [double::Schedule { t: 512, c: 4, v: 4 }, double::Schedule { t: 256, c: 1, v: 1 }] {
            double(&stream.with(schedule), &mut x).unwrap();
        }
        let wanted: Vec<f32> = numbers(3000).iter().map(|v| v * 4.0).collect();
        assert_eq!(stream.read(&x).unwrap(), wanted);
        let wrong = double(&stream.with(double::Schedule { t: 256, c: 1, v: 4 }), &mut x).unwrap_err();
        assert!(matches!(wrong, Error::Compile(_)), "{wrong}");
        assert!(wrong.to_string().contains("illegal schedule: "), "{wrong}");
        let other = double(&stream.with(scaled_sum::Schedule::default()), &mut x).unwrap_err().to_string();
        assert!(other.contains("the stream's schedule is one of `") && other.contains("scaled_sum`"), "{other}");
    }
}

#[test]
fn programs_keep_their_workspace() {
    for stream in streams() {
        for n in [1000usize, 10, 0, 2000] {
            let a = stream.tensor(&numbers(n), [n]).unwrap();
            let mut c = stream.zeros([n]).unwrap();
            chain(&stream, &a, &mut c).unwrap();
            let wanted: Vec<f32> = numbers(n).iter().map(|v| v * 3.0).collect();
            assert_eq!(stream.read(&c).unwrap(), wanted);
        }
    }
}

#[test]
fn mistakes_are_errors() {
    let stream = &streams()[0];
    let (a, b) = (stream.zeros::<f32, 1>([10]).unwrap(), stream.zeros::<f32, 1>([11]).unwrap());
    let mut c = stream.zeros::<f32, 1>([10]).unwrap();
    let shape = scaled_sum(stream, &a, &b, &mut c, 1.0).unwrap_err().to_string();
    assert!(shape.starts_with("cannot launch `scaled_sum`: ") && shape.contains("b.len(0) = 11"), "{shape}");
    assert!(shape.contains("typed_launches.rs:"), "{shape}");

    let buffer: &Buffer = c.buffer().unwrap();
    let inside = DeviceTensor::<f32, 1>::in_buffer(buffer, 4, [9]).unwrap();
    let nine = stream.zeros::<f32, 1>([9]).unwrap();
    let mut other = DeviceTensor::<f32, 1>::in_buffer(buffer, 0, [9]).unwrap();
    let overlap = scaled_sum(stream, &inside, &nine, &mut other, 1.0).unwrap_err().to_string();
    assert!(overlap.contains("`c`, which is stored to, and `a` share 32 bytes"), "{overlap}");

    let beyond = DeviceTensor::<f32, 1>::in_buffer(buffer, 8, [9]).unwrap_err().to_string();
    assert_eq!(beyond, "a tensor of shape [9] at byte 8 reaches bytes 8..44 of a buffer of 40 bytes");
    let crooked = DeviceTensor::<f32, 1>::in_buffer(buffer, 2, [1]).unwrap_err().to_string();
    assert_eq!(crooked, "byte 2 is no place for elements of type f32: it must be a multiple of 4");
}

#[test]
fn wider_views_ask_for_alignment() {
    for stream in streams() {
        let stored = |x: &DeviceTensor<u8, 1>| stream.read(x).unwrap();
        let memory = stream.tensor(&[7u8; 64], [64]).unwrap();
        let from = |offset: usize| DeviceTensor::<u8, 1>::in_buffer(memory.buffer().unwrap(), offset, [32]).unwrap();
        // A multiple of four bytes is enough: wider accesses are not assumed to be possible.
        flip(&stream.with(flip::Schedule { t: 512, c: 4, v: 1 }), &mut from(4)).unwrap();
        flip(&stream, &mut from(4)).unwrap();
        flip_in_program(&stream, &mut from(4)).unwrap();
        assert_eq!(stored(&memory), [vec![7; 4], vec![!7; 32], vec![7; 28]].concat());

        let error = flip(&stream, &mut from(2)).unwrap_err().to_string();
        assert!(error.contains("typed_launches.rs:"), "{error}");
        let rule = "and is viewed here as elements of 4 bytes: pass memory that starts at a multiple of 4";
        assert!(error.contains("`bytes` starts at 0x") && error.contains(rule), "{error}");
        let error = flip_in_kernel(&stream, &mut from(1)).unwrap_err().to_string();
        assert!(error.contains(rule), "{error}");
        let error = flip_in_program(&stream, &mut from(1)).unwrap_err().to_string();
        assert!(error.contains("`words` starts at 0x") && error.contains("not aligned to its elements' 4 bytes"), "{error}");
        assert_eq!(stored(&memory)[..4], [7; 4], "a refused launch does nothing");
    }
}

/// One row and one column per tile.
#[kernel(tile(R = 1, C = 1))]
fn negated(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        y.store((r, c), -x.load((r, c)));
    }
}

/// The same along three axes.
#[kernel(tile(A = 1, R = 1, C = 32))]
fn negated_planes(x: &Tensor<i32, 3>, y: &mut Tensor<i32, 3>) {
    for (a, r, c) in y.tiles([A, R, C]) {
        y.store((a, r, c), -x.load((a, r, c)));
    }
}

/// CUDA has at most 65 535 blocks along y and z: the blocks of any axes are numbered along x.
#[test]
fn any_axis_may_have_more_tiles_than_a_grid_has_rows() {
    const MANY: usize = 65_537;
    let data: Vec<i32> = (0..2 * MANY as i32).collect();
    let wanted: Vec<i32> = data.iter().map(|v| -v).collect();
    for stream in streams() {
        for lens in [[MANY, 2], [2, MANY]] {
            let (x, mut y) = (stream.tensor(&data, lens).unwrap(), stream.zeros(lens).unwrap());
            negated(&stream, &x, &mut y).unwrap();
            assert!(stream.read(&y).unwrap() == wanted, "{lens:?}");
        }
        for lens in [[MANY, 1, 2], [1, MANY, 2]] {
            let (x, mut y) = (stream.tensor(&data, lens).unwrap(), stream.zeros(lens).unwrap());
            negated_planes(&stream, &x, &mut y).unwrap();
            assert!(stream.read(&y).unwrap() == wanted, "{lens:?}");
        }
    }
}

#[test]
fn arguments_are_counted_and_typed() {
    let device = Device::sim(Target::h200());
    let stream = Stream::on(&device);
    let mut x = stream.tensor(&numbers(8), [8]).unwrap();
    let tensor = |dtype, lens: &[i64]| Argument::packed(x.buffer().unwrap(), 0, dtype, lens, true);
    let launched = |args: Vec<Argument>| launch::launch(&device, &double::Kernel::def(), None, args).map_err(|e| e.to_string());
    let error = launched(vec![]).unwrap_err();
    assert!(error.starts_with("cannot launch `double`: 0 arguments for the parameters (x)"), "{error}");
    assert!(error.contains("typed_launches.rs:"), "{error}");
    let error = launched(vec![tensor(DType::F32, &[4]), tensor(DType::F32, &[4])]).unwrap_err();
    assert!(error.contains("2 arguments for the parameters (x)"), "{error}");
    let error = launched(vec![tensor(DType::I32, &[8])]).unwrap_err();
    assert!(error.contains("`x` is a tensor of f32, the argument one of i32"), "{error}");
    let error = launched(vec![tensor(DType::F32, &[2, 4])]).unwrap_err();
    assert!(error.contains("`x` has 1 axes, the argument 2"), "{error}");
    assert_eq!(stream.read(&x).unwrap(), numbers(8), "a refused launch does nothing");
    launched(vec![tensor(DType::F32, &[8])]).unwrap();
    double(&stream, &mut x).unwrap();
    assert_eq!(stream.read(&x).unwrap(), numbers(8).iter().map(|v| v * 4.0).collect::<Vec<_>>());
}

/// A program that has its own cudarc stream and slices launches kernels among its own work on them.
#[test]
fn launches_join_cudarcs_own_streams() {
    if Device::cuda(0).is_err() {
        return println!("skipped: no GPU");
    }
    let n = 1000;
    let theirs = CudaContext::new(0).unwrap().new_stream().unwrap();
    let a = theirs.clone_htod(&numbers(n + 1)).unwrap();
    let b = theirs.clone_htod(&numbers(n)).unwrap();
    let mut c: CudaSlice<f32> = theirs.alloc_zeros(n).unwrap();
    let stream = Stream::new(theirs.clone()).unwrap();
    // A slice from its second element on, which is not aligned for vectors.
    let behind = a.slice(1..);
    {
        let (x, y) = (stream.borrow(&behind, [n]).unwrap(), stream.borrow(&b, [n]).unwrap());
        let mut z = stream.borrow_mut(&mut c, [n]).unwrap();
        scaled_sum(&stream, &x, &y, &mut z, 3.0).unwrap();
        double(&stream.with(double::Schedule { t: 512, c: 4, v: 4 }), &mut z).unwrap();
    }
    let error = stream.borrow(&b, [n + 1]).err().expect("it is too short").to_string();
    assert!(error.contains("a slice of 1000 elements"), "{error}");
    let (first, second) = (numbers(n + 1), numbers(n));
    let wanted: Vec<f32> = (0..n).map(|i| 2.0 * (first[i + 1] + second[i] * 3.0)).collect();
    assert_eq!(theirs.clone_dtoh(&c).unwrap(), wanted);
    // What cudarc copies afterwards is seen by the next launch.
    theirs.memcpy_htod(&second, &mut c).unwrap();
    double(&stream, &mut stream.borrow_mut(&mut c, [n]).unwrap()).unwrap();
    assert_eq!(theirs.clone_dtoh(&c).unwrap(), second.iter().map(|v| v * 2.0).collect::<Vec<_>>());
}

/// The cost of a typed launch beside the same launch made with the driver's function, both queued a thousand at a time.
#[test]
fn a_launch_costs_little_more_than_the_drivers() {
    let Ok(gpu) = Device::cuda(0) else { return println!("skipped: no GPU") };
    let stream = Stream::on(&gpu);
    let mut x = stream.tensor(&numbers(1024), [1024]).unwrap();
    double(&stream, &mut x).unwrap();
    let args = [Argument::packed(x.buffer().unwrap(), 0, DType::F32, &[1024], true)];
    let prepared = launch::prepare(&gpu, &double::Kernel::def(), None, &args).unwrap();
    let bound = gpu.bind(&prepared.loaded, &launch::host_args(&args)).unwrap();
    let mut ratios = Vec::new();
    for _ in 0..9 {
        let seconds = |work: &mut dyn FnMut()| {
            stream.synchronize().unwrap();
            let start = std::time::Instant::now();
            (0..1000).for_each(|_| work());
            let seconds = start.elapsed().as_secs_f64();
            stream.synchronize().unwrap();
            seconds
        };
        let typed = seconds(&mut || double(&stream, &mut x).unwrap());
        let direct = seconds(&mut || bound.launch().unwrap());
        println!("typed {:.2} us, direct {:.2} us", typed * 1e3, direct * 1e3);
        ratios.push(typed / direct);
    }
    ratios.sort_by(f64::total_cmp);
    println!("a typed launch costs {:.2} times a direct one", ratios[4]);
    assert!(ratios[4] < 2.0);
}
