"""Commands that the server adds to the `sharebroker` command line."""

SUMMARIES = {
    "doctor": "Check a cluster for problems.",
    "serve": "Run a broker with all roles, or with some of them.",
}
"""The first paragraph of each command's help, for the list of commands."""
