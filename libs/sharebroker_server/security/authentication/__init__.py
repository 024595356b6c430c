"""Authentication of clients: from a password, an access token or a certificate to a principal."""
