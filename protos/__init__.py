"""The protos and the tool that generates their Python code."""
