"""The rules of transactions: which requests a transactional id may make, and what is stored of it."""
