//! Generates the stubs.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::env::set_var("PROTOC", protoc_bin_vendored::protoc_bin_path()?);
    tonic_prost_build::configure()
        .build_server(false)
        .include_file("sharebroker.rs")
        .compile_protos(&["protos/sharebroker/gateway/v1/share.proto"], &["protos"])?;
    Ok(())
}
