//! What the commands print in a crate that has them: each text is looked at where it changes.

use super::user_crate::{masked, output_of, target};
use std::path::Path;
use std::process::Output;

/// Each with its words behind the program's name. What is asked of the simulator, or of the model, needs no GPU.
const COMMANDS: &str = "\
list
list --legal
winners
check saxpy --device sim --schedules 3
run saxpy --device sim --set T=1024,C=4,V=4 --size N=4096 --counters
show saxpy --set T=256,C=1,V=1 --ir tile
show saxpy --set T=256,C=1,V=1 --ir block
diff saxpy --size N=1000000 --a T=256,C=1,V=1 --b T=256,C=4,V=4 --no-compile --target h200
diff saxpy --size N=1000000 --a T=256,C=1,V=1 --b T=256,C=4,V=4 --no-compile --target h200 --unified --context 1
explain saxpy --size N=4096 --set T=256,C=1,V=1 --no-compile --target h200
tune saxpy --size N=4096 --trials 3 --device sim --target a100
store list
store show saxpy
doctor --nothing
show saxpi
show saxpy --set T=100
show saxpy --set T=256,C=1,V=4
check saxpy --size M=100
explain saxpy
export wrong --arch sm_80 --out /dev/null/nowhere";

/// What they print, and what they refuse with.
pub fn texts(saxpy: &Path) {
    let cache = target().join("user_crate_texts");
    drop(std::fs::remove_dir_all(&cache));
    let told = COMMANDS.lines().map(|words| {
        let output = output_of(saxpy, &cache, &words.split(' ').collect::<Vec<_>>());
        let [out, mut err] = [&output.stdout, &output.stderr].map(|text| masked(&String::from_utf8_lossy(text)));
        // How far a search has come is told as it comes.
        if words.starts_with("tune") {
            err.clear();
        }
        format!("$ saxpy {words}\n{out}{err}")
    });
    snapshot("texts", &told.collect::<Vec<_>>().join("\n"));
}

/// How each command is used.
pub fn helps(saxpy: &Path) {
    let help = |words: &[&str]| {
        let Output { stdout, .. } = output_of(saxpy, &target().join("user_crate_texts"), words);
        String::from_utf8_lossy(&stdout).into_owned()
    };
    let all = help(&["--help"]);
    let commands: Vec<&str> = all.lines().skip_while(|l| !l.starts_with("Commands:")).skip(1).map_while(|l| l.strip_prefix("  ")).collect();
    let names = commands.iter().filter(|l| !l.starts_with(' ')).filter_map(|l| l.split(' ').next()).filter(|name| *name != "help");
    let each: Vec<String> = names.map(|name| format!("$ saxpy {name} --help\n{}", help(&[name, "--help"]))).collect();
    assert!(each.len() > 10, "{all}");
    snapshot("helps", &format!("{all}\n{}", each.join("\n")));
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}
