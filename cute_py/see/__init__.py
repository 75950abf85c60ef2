"""What a kernel's lines make: `layouts`, a table of all tensors with who holds which element."""
