//! nvcc's part: from the text of an exported file to a library.

use super::ENTRY;
use girih_core::program::signature::Signature;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The nvcc that is used: `GIRIH_NVCC`, that of `CUDA_HOME` or `CUDA_PATH`, the one on the PATH, or `/usr/local/cuda`'s.
pub fn nvcc() -> PathBuf {
    let of_home = |variable: &str| std::env::var_os(variable).map(|home| Path::new(&home).join("bin/nvcc")).filter(|p| p.is_file());
    let on_path = || {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|folder| folder.join("nvcc")).find(|p| p.is_file())
    };
    let asked = std::env::var_os("GIRIH_NVCC").map(PathBuf::from);
    let found = asked.or_else(|| of_home("CUDA_HOME")).or_else(|| of_home("CUDA_PATH")).or_else(on_path);
    found.unwrap_or_else(|| PathBuf::from("/usr/local/cuda/bin/nvcc"))
}

/// An exported file to be compiled.
pub struct Build<'a> {
    /// The challenge.
    pub name: &'a str,
    /// The exported text, whose second line says how it is compiled.
    pub text: &'a str,
    /// The signature of its `solve`.
    pub signature: &'a Signature,
}

impl Build<'_> {
    /// Compiles it in a folder; the library's path.
    ///
    /// # Errors
    /// There is no nvcc, or what it says.
    pub fn run(&self, nvcc: &Path, folder: &Path) -> Result<PathBuf, String> {
        let (source, library) = (folder.join(format!("{}.cu", self.name)), folder.join(format!("{}.so", self.name)));
        std::fs::write(&source, self.text.to_string() + &self.entry()).map_err(|e| format!("{}: {e}", source.display()))?;
        let mut command = Command::new(nvcc);
        command.args(self.flags()).args(["-shared", "-Xcompiler", "-fPIC", "-o"]).arg(&library).arg(&source);
        let output = command.output().map_err(|e| format!("{} could not be started: {e}; GIRIH_NVCC names another", nvcc.display()))?;
        if output.status.success() {
            Ok(library)
        } else {
            Err(format!("nvcc refuses the exported file:\n{}", String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// The flags that the file asks for.
    fn flags(&self) -> impl Iterator<Item = &str> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("// build: nvcc "));
        line.unwrap_or_default().split_whitespace()
    }

    /// A function that takes pointers to `solve`'s arguments.
    fn entry(&self) -> String {
        let argument = |(at, p): (usize, &girih_core::program::signature::SignatureParam)| format!("*({}*)arguments[{at}]", p.c_type);
        let arguments: Vec<String> = self.signature.params.iter().enumerate().map(argument).collect();
        let mut text = String::new();
        let _ = writeln!(text, "\nextern \"C\" int {ENTRY}(void* const* arguments)\n{{");
        let _ = writeln!(text, "    solve({});\n    return (int)cudaGetLastError();\n}}", arguments.join(", "));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solve_is_called_with_what_lies_behind_pointers() {
        let signature = Signature::parse("void solve(const float* x[N], float* y[N], int N, float a)").unwrap();
        let text = "// relu, written by girih\n// build: nvcc -O3 -arch=sm_90a\n";
        let build = Build { name: "relu", text, signature: &signature };
        assert_eq!(build.flags().collect::<Vec<_>>(), ["-O3", "-arch=sm_90a"]);
        let call = "solve(*(const float**)arguments[0], *(float**)arguments[1], *(int*)arguments[2], *(float*)arguments[3]);";
        assert!(build.entry().contains(call), "{}", build.entry());
    }
}
