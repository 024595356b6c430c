"""Commands that the server adds to the `sharebroker` command line."""

SUMMARIES = {
    "backup": "Copy a data folder while its server runs.",
    "doctor": "Check a cluster for problems.",
    "export": "Write topics, groups and their share state into an archive.",
    "import": "Write the topics and groups of an archive into a cluster.",
    "restore": "Create a data folder from a backup.",
    "serve": "Run a broker with all roles, or with some of them.",
}
"""The first paragraph of each command's help, for the list of commands."""
