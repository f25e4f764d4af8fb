//! What stands for pictures where girih is built without its feature `image`: `run` refuses them.

use crate::device::Device;
use crate::subject::challenge::Sizes;
use crate::subject::inputs::HostTensor;
use crate::subject::{Call, Subject};
use std::path::Path;

fn refused<T>() -> Result<T, String> {
    Err("this build reads and writes no pictures: build girih with its feature `image`".into())
}

/// Refuses.
pub fn check_name(_path: &Path) -> Result<(), String> {
    refused()
}

/// Refuses.
pub fn call(_subject: &Subject, _path: &Path, _asked: &Sizes, _device: &Device) -> Result<Call, String> {
    refused()
}

/// Refuses.
pub fn write(_subject: &Subject, _call: &Call, _after: &[Option<HostTensor>], _path: &Path, _quiet: bool) -> Result<(), String> {
    refused()
}
