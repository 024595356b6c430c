"""What tests share: real servers, faults on the wire, waiting for a condition."""
