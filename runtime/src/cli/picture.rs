//! Pictures as inputs and outputs of `run`.

use crate::device::Device;
use crate::subject::challenge::Sizes;
use crate::subject::inputs::HostTensor;
use crate::subject::{Call, CallArg, Subject};
use image::{DynamicImage, GrayImage, RgbImage, RgbaImage};
use std::path::Path;

/// The channels of a tensor that can hold a picture of so many pixels: `[.., 3 or 4]`.
fn channels(lens: &[i64], pixels: i64) -> Option<usize> {
    match lens {
        [rest @ .., c @ (3 | 4)] if rest.iter().product::<i64>() == pixels => Some(*c as usize),
        _ => None,
    }
}

/// A picture has its own width and height.
fn by_the_picture(asked: &Sizes) -> Result<(), String> {
    match asked.0.keys().find(|n| ["width", "height"].contains(&n.as_str())) {
        Some(name) => Err(format!("--size gives `{name}`, and so does --image: leave `{name}` out of --size")),
        None => Ok(()),
    }
}

/// Checks that a file's name says a known format.
pub fn check_name(path: &Path) -> Result<(), String> {
    image::ImageFormat::from_path(path).map(|_| ()).map_err(|e| format!("{}: {e}", path.display()))
}

/// A call whose input is a picture, with its width and height.
pub fn call(subject: &Subject, path: &Path, asked: &Sizes, device: &Device) -> Result<Call, String> {
    by_the_picture(asked)?;
    let picture = image::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut sizes = asked.clone();
    for (name, value) in [("width", picture.width()), ("height", picture.height())] {
        if !subject.size_names().iter().any(|n| n == name) {
            return Err(format!("{} takes no picture: its signature has no `{name}`", subject.name));
        }
        sizes.0.insert(name.into(), value as f64);
    }
    let mut call = super::run::made(subject, &subject.perf_sizes(&sizes)?, 0, device)?;
    let pixels = picture.width() as i64 * picture.height() as i64;
    let input = call.args.iter_mut().find_map(|a| match a {
        CallArg::Tensor { data, .. } => channels(&data.lens, pixels).map(|c| (data, c)),
        CallArg::Scalar(_) => None,
    });
    let (data, channels) = input.ok_or_else(|| format!("{} takes no picture: no tensor has 3 or 4 channels", subject.name))?;
    let bytes = if channels == 4 { picture.to_rgba8().into_raw() } else { picture.to_rgb8().into_raw() };
    let mut tensor = HostTensor::zeros(data.dtype, &data.lens);
    bytes.iter().enumerate().for_each(|(i, b)| tensor.set(i, *b as f64));
    *data = tensor.into();
    Ok(call)
}

/// Writes the output as a picture.
pub fn write(subject: &Subject, call: &Call, after: &[Option<HostTensor>], path: &Path, quiet: bool) -> Result<(), String> {
    let outputs = subject.challenge.as_ref().map(|c| c.outputs.clone()).unwrap_or_default();
    let named = call.args.iter().zip(after).filter_map(|(a, t)| match (a, t) {
        (CallArg::Tensor { name, .. }, Some(t)) => Some((name, t)),
        _ => None,
    });
    let output = named.into_iter().find(|(name, _)| outputs.iter().any(|(n, _)| n == name));
    let (_, tensor) = output.ok_or_else(|| format!("{} has no output to write as a picture", subject.name))?;
    let bytes: Vec<u8> = (0..tensor.numel()).map(|i| tensor.get(i).round().clamp(0.0, 255.0) as u8).collect();
    let (width, height) = (call.sizes.size("width") as u32, call.sizes.size("height") as u32);
    let picture = match channels(&tensor.lens, width as i64 * height as i64) {
        Some(4) => RgbaImage::from_raw(width, height, bytes).map(DynamicImage::from),
        Some(_) => RgbImage::from_raw(width, height, bytes).map(DynamicImage::from),
        None => GrayImage::from_raw(width, height, bytes).map(DynamicImage::from),
    };
    let picture = picture.ok_or("the output's shape is no picture's")?;
    // JPEG has no alpha channel.
    let jpeg = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg"));
    let picture = if jpeg && picture.color().has_alpha() { DynamicImage::from(picture.to_rgb8()) } else { picture };
    picture.save(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !quiet {
        println!("wrote {} ({width} x {height})", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_their_own_size() {
        let asked = |text: &str| by_the_picture(&Sizes::parse(text).expect("sizes"));
        assert_eq!(asked("radius=3"), Ok(()));
        let error = asked("height=9,width=7").unwrap_err();
        assert_eq!(error, "--size gives `height`, and so does --image: leave `height` out of --size");
    }
}
