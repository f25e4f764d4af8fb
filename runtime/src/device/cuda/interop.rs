//! Memory of existing cudarc programs as tensors of a launch.

use crate::error::Error;
use crate::launch::tensor::DeviceTensor;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
use girih_core::facts::TensorArg;
use girih_core::lang::elem::Elem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A cudarc slice or view as a tensor that kernels read. Dereferences to the tensor; when it is dropped, cudarc is told that the
/// launches since have read the slice.
pub struct Borrowed<'a, T, const N: usize> {
    tensor: DeviceTensor<T, N>,
    alive: Arc<AtomicBool>,
    _sync: SyncOnDrop<'a>,
}

/// A cudarc slice or mutable view as a tensor that kernels may write.
pub struct BorrowedMut<'a, T, const N: usize> {
    tensor: DeviceTensor<T, N>,
    alive: Arc<AtomicBool>,
    _sync: SyncOnDrop<'a>,
}

pub(crate) fn borrow<'a, T: Elem, S: DevicePtr<T>, const N: usize>(
    stream: &'a CudaStream,
    slice: &'a S,
    lens: [usize; N],
    strides: Option<[i64; N]>,
) -> Result<Borrowed<'a, T, N>, Error> {
    let len = slice.len();
    let (address, sync) = slice.device_ptr(stream);
    let alive = Arc::new(AtomicBool::new(true));
    let tensor = DeviceTensor::borrowed(checked(address, len, lens, strides)?, alive.clone());
    Ok(Borrowed { tensor, alive, _sync: sync })
}

pub(crate) fn borrow_mut<'a, T: Elem, S: DevicePtrMut<T>, const N: usize>(
    stream: &'a CudaStream,
    slice: &'a mut S,
    lens: [usize; N],
    strides: Option<[i64; N]>,
) -> Result<BorrowedMut<'a, T, N>, Error> {
    let len = slice.len();
    let (address, sync) = slice.device_ptr_mut(stream);
    let alive = Arc::new(AtomicBool::new(true));
    let tensor = DeviceTensor::borrowed(checked(address, len, lens, strides)?, alive.clone());
    Ok(BorrowedMut { tensor, alive, _sync: sync })
}

/// The shape on a slice of `len` elements, if it lies inside.
fn checked<const N: usize>(address: u64, len: usize, lens: [usize; N], strides: Option<[i64; N]>) -> Result<TensorArg, Error> {
    let arg = crate::launch::tensor::shape(address, lens, strides);
    let (first, end) = crate::launch::tensor::extent(&arg);
    if first < 0 || end > len as i64 {
        return Err(Error::Buffer(format!(
            "a tensor of shape {:?} and strides {:?} reaches elements {first}..{end} of a slice of {len} elements",
            arg.lens, arg.strides
        )));
    }
    Ok(arg)
}

impl<T, const N: usize> Deref for Borrowed<'_, T, N> {
    type Target = DeviceTensor<T, N>;
    fn deref(&self) -> &DeviceTensor<T, N> {
        &self.tensor
    }
}

impl<T, const N: usize> Deref for BorrowedMut<'_, T, N> {
    type Target = DeviceTensor<T, N>;
    fn deref(&self) -> &DeviceTensor<T, N> {
        &self.tensor
    }
}

impl<T, const N: usize> DerefMut for BorrowedMut<'_, T, N> {
    fn deref_mut(&mut self) -> &mut DeviceTensor<T, N> {
        &mut self.tensor
    }
}

// A tensor that was moved out of its guard (`std::mem::swap`) must not outlive the borrow: launches refuse it from here on.
impl<T, const N: usize> Drop for Borrowed<'_, T, N> {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Release);
    }
}

impl<T, const N: usize> Drop for BorrowedMut<'_, T, N> {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Release);
    }
}
