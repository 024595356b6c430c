"""The report: gold and state as tables, plots and a page. Runs in Spark's environment."""
