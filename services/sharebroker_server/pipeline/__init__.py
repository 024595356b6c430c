"""A data pipeline on Spark: a queue's records as tables, and a verification of the queue's state."""

SUMMARIES = {
    "pipeline": "Process a topic with Spark into tables and a report, and verify the groups' state.",
}
"""The first paragraph of the command's help, for the list of commands."""
