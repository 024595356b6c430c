"""Export and import of topics and groups between clusters, through an archive: a folder of files."""
