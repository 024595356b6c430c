"""The rules of transactions: what a transactional id may do, and what is remembered of it."""
