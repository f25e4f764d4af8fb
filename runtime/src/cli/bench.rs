//! `bench`
#[derive(clap::Args)]
pub struct Args {}
pub fn run(_args: &Args) -> Result<(), String> {
    Ok(())
}
