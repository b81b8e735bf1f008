//! Finds the files of the console, so that the binary carries them.
//!
//! `scripts/console.sh` makes `console/dist`; a build with cargo alone may have none, and makes a binary
//! without a console. Compressed forms lie beside a file as `NAME.gz` and `NAME.br`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package's folder"));
    let dist = root.join("../../console/dist");
    // Cargo takes a path that is missing for one that has changed, and would build everything anew each time. Where
    // nothing may be written it does.
    let _ = fs::create_dir_all(&dist);
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", dist.display());

    let mut files = Vec::new();
    // Half a build is none: everything begins with this page.
    if dist.join("index.html").is_file() {
        collect(&dist.canonicalize()?, &mut files)?;
    }
    files.sort();
    println!("cargo:rustc-env=FIRN_CONSOLE_FILES={}", files.len());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder for what is made"));
    fs::write(
        out.join("console.rs"),
        print(&dist.canonicalize().unwrap_or(dist), &files)?,
    )
}

/// Every file below a folder that is served as it is.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if !path
            .extension()
            .is_some_and(|extension| extension == "gz" || extension == "br" || extension == "map")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// A list of `firn_api::Asset`, as Rust.
fn print(dist: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut text = String::from("&[\n");
    for file in files {
        let name = file
            .strip_prefix(dist)
            .expect("files lie below")
            .to_str()
            .expect("names are UTF-8");
        let include = |path: &Path| format!("include_bytes!({:?})", path.display().to_string());
        let compressed = |extension: &str| {
            let path = PathBuf::from(format!("{}.{extension}", file.display()));
            match path.is_file() {
                true => format!("Some({})", include(&path)),
                false => "None".to_owned(),
            }
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "firn_api::Asset {{ path: {name:?}, tag: \"{:016x}\", plain: {}, gzip: {}, brotli: {} }},",
            hash(&fs::read(file)?),
            include(file),
            compressed("gz"),
            compressed("br"),
        );
    }
    text.push(']');
    Ok(text)
}

/// FNV-1a. It only has to change when the file does.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}
