"""Share sessions over all leaders: ShareFetch, ShareAcknowledge, and the end of sessions."""
