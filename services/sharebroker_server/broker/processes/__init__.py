"""`serve --processes`: several brokers of one command, each in its own process, and their supervisor."""
