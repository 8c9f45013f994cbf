//! Compiles the protocol, without a compiler of the system.

use std::error::Error;
use std::path::PathBuf;

const FILES: [&str; 6] = ["write", "proof", "event", "ledger", "projections", "admin"];

fn main() -> Result<(), Box<dyn Error>> {
    let paths = FILES.map(|file| format!("gapless/v1/{file}.proto"));
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(paths)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("gapless.v1.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        // Nothing is copied on its way from the socket to the engine, and maps have one order.
        .bytes(".")
        .btree_map(".")
        // Seldom asked for, and large: answers are handed on by value.
        .boxed("gapless.v1.WriteSuccess.block_header")
        .boxed("gapless.v1.WriteSuccess.tx_proof")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
