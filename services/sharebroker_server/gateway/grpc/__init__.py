"""The gRPC listener: servicers that translate messages and call the middle packages."""
