"""Commands that the server adds to the `sharebroker` command line."""
